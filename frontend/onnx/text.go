package onnx

import "github.com/vkc-go/vkc/ir"

var textOps = table{"TfIdfVectorizer": tensorOp(tfIDF)}

// maxSkip is the largest number of elements that may be skipped between two elements of a sequence.
const maxSkip = 64

// tfIDF builds TfIdfVectorizer: it counts how often each sequence of a pool occurs in x [C], or in each row of x [N,
// C]. The elements of an occurrence may be a fixed distance apart. It supports pools of integers, not of strings.
func tfIDF(c *call) tensor {
	x := c.x(0)
	if x.Rank() == 1 {
		y := c.sequences(x.Unsqueeze(0))
		return y.Squeeze(0)
	}
	return c.sequences(x)
}

// sequences returns the counts for each row of x [N, C], with the node's mode and weights. Column ngram_indexes[k] of
// the result counts sequence k of the pool.
func (c *call) sequences(x tensor) tensor {
	pool, starts, columns := c.intsAttr("pool_int64s"), c.mustInts("ngram_counts"), c.mustInts("ngram_indexes")
	low, high, skip := c.mustInt("min_gram_length"), c.mustInt("max_gram_length"), c.mustInt("max_skip_count")
	c.must("mode", AttrString)
	mode := c.choice("mode", "TF", "IDF", "TFIDF")
	if x.Rank() != 2 || !x.Dim(1).IsStatic() || !x.DType().IsInteger() || len(pool) == 0 || skip < 0 || skip > maxSkip {
		c.fail("of %s with a pool of %d integers, up to %d left out: want [C] or [N, C] of integers, C a number",
			x, len(pool), skip)
	}
	width := 0 // columns of the result
	at := make([]int32, len(columns))
	for i, k := range columns {
		if k < 0 || k >= maxFolded {
			c.fail("ngram_indexes has %d", k)
		}
		at[i], width = int32(k), max(width, k+1)
	}
	y := c.b.Full(ir.F32, 0, x.Dim(0), width)
	// The pool has the sequences of one element, then the sequences of two elements, and so on.
	first := 0 // the index in ngram_indexes of the first sequence of n elements
	for n := 1; n <= len(starts); n++ {
		start, end := starts[n-1], len(pool)
		if n < len(starts) {
			end = starts[n]
		}
		if start < 0 || end < start || end > len(pool) || first+(end-start)/n > len(at) {
			c.fail("ngram_counts are %v for a pool of %d and %d columns", starts, len(pool), len(at))
		}
		count := (end - start) / n
		if n >= low && n <= high && count > 0 {
			counts := c.b.Full(ir.F32, 0, x.Dim(0), count)
			for apart := 1; apart == 1 || n > 1 && apart <= skip+1; apart++ {
				counts = c.addOccurrences(counts, x, pool[start:start+count*n], n, apart)
			}
			y = y.IndexAdd(1, c.b.Const(at[first:first+count]), counts)
		}
		first += count
	}
	weights := c.b.Const(float32(1))
	if a := c.attr("weights", AttrFloats); a != nil {
		if len(a.Floats) != width {
			c.fail("%d weights for %d columns", len(a.Floats), width)
		}
		weights = c.b.Const(a.Floats)
	}
	switch mode {
	case "IDF":
		return y.Min(y.Lit(1)).Mul(weights)
	case "TFIDF":
		return y.Mul(weights)
	}
	return y
}

// addOccurrences adds to counts [N, S] how often each of S sequences occurs in the rows of x [N, C]. An occurrence has
// its elements `apart` positions from each other. sequences has the n elements of each sequence, one sequence after
// another.
func (c *call) addOccurrences(counts, x tensor, sequences []int, n, apart int) tensor {
	places := x.Dim(1).Static() - (n-1)*apart // where an occurrence can begin
	if places < 1 {
		return counts
	}
	var is tensor // [N, places, S]: whether the sequence is at this place
	for k := range n {
		var want []int64 // element k of each sequence
		for i := k; i < len(sequences); i += n {
			want = append(want, int64(sequences[i]))
		}
		same := x.Slice(1, k*apart, k*apart+places).Cast(ir.I64).Unsqueeze(2).Eq(c.b.Const(want))
		if k > 0 {
			same = same.And(is)
		}
		is = same
	}
	return counts.Add(is.Cast(ir.F32).Sum(1))
}
