package fast

import (
	"math"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// takesAttention reports whether the kernel can compute an attention: float32 must represent all arguments' elements,
// except that the mask may have integers or bools.
func takesAttention(n *ir.Node) bool {
	for i, a := range n.Args() {
		isMask := i == 3 && (a.DType().IsInteger() || a.DType() == ir.Bool)
		if !isNarrow(a.DType()) && !isMask {
			return false
		}
	}
	return true
}

// attention computes an attention. A task computes several queries, one after the other: the scores of all keys, their
// softmax, and the sum of the values weighted with them.
func attention(c *interp.Call) error {
	q, k, v := c.Args[0], c.Args[1], c.Args[2]
	r, attrs := len(q.Dims), c.Node.Attrs()
	h, g, t, s := q.Dims[r-3], k.Dims[r-3], q.Dims[r-2], k.Dims[r-2] // query heads, key heads, queries, keys
	d, e := q.Dims[r-1], v.Dims[r-1]                                 // elements of a query or key, and of a value
	scale, softcap, window := attrs.Float("scale"), attrs.Float("softcap"), int(attrs.Int("window"))
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(d))
	}
	zeroNaN := attrs.Bool("zero_nan")
	mask, sinks := newMask(c, append(q.Dims[:r-1:r-1], s)), optional(c, 4)
	const taskRows = 8 // number of queries in a task
	rows := len(c.Out) / e
	return c.Parallel((rows+taskRows-1)/taskRows, taskRows*s*(d+e+16*elementWork)/8, func(worker, task int) {
		all := c.Room(worker, s+1)
		for row := task * taskRows; row < min((task+1)*taskRows, rows); row++ {
			i, head, outer := row%t, row/t%h, row/t/h
			group := outer*g + head/(h/g) // consecutive query heads share a key head
			first, end := 0, s            // the keys that the query sees
			if attrs.Bool("causal") {
				end = min(max(i+s-t+1, 0), s)
			}
			if window > 0 {
				first = max(end-window, 0)
			}
			scores := all[:end-first]
			if len(scores) > 0 {
				keys := k.Floats[group*k.Apart:]
				multiply(scores, len(scores), q.Floats[row*d:(row+1)*d], keys[first*d:end*d], 1, len(scores), d)
			}
			for j, x := range scores {
				y := float64(x) * scale
				if softcap != 0 {
					y = softcap * math.Tanh(y/softcap)
				}
				scores[j] = float32(y)
			}
			if len(scores) > 0 {
				mask.add(scores, row*s+first)
			}
			weights := scores
			if sinks != nil {
				weights = append(scores, sinks[head]) // a sink adds to the denominator but has no value
			}
			total := exponentials(weights)
			out := c.Out[row*e : (row+1)*e]
			if zeroNaN && !(total > 0) { // all weights are NaN, or there are none
				clear(out)
				continue
			}
			weigh(out, weights[:len(scores)], v.Floats[group*v.Apart+first*e:])
			for x := range out {
				out[x] = float32(float64(out[x]) / total)
			}
		}
	})
}

// mask is the mask of an attention. Its floats are added to the scores. If it has bools or integers instead, a 0 makes
// the score minus infinity. A nil mask changes nothing.
type mask struct {
	argReader
	ints []int64 // the elements, if they are not floats
	step int     // distance between the elements of neighbouring keys
}

// newMask returns the mask of an attention, or nil if it has none. dims are the extents of the scores.
func newMask(c *interp.Call, dims []int) *mask {
	if len(c.Args) < 4 {
		return nil
	}
	steps := stepsOf(c.Args[3].Dims, dims)
	return &mask{newArgReader(c.Args[3], dims, nil), c.Args[3].Ints, steps[len(steps)-1]}
}

// add adds the mask to the scores of one query. at is the index of the first score.
func (m *mask) add(scores []float32, at int) {
	if m == nil {
		return
	}
	from := m.start(at, nil)
	for j := range scores {
		switch i := from + j*m.step; {
		case m.ints == nil:
			scores[j] += m.list[i]
		case m.ints[i] == 0:
			scores[j] += float32(math.Inf(-1))
		}
	}
}

// exponentials replaces each element of a row by exp(x-max), where max is the row's maximum, and returns the sum.
func exponentials(row []float32) (total float64) {
	exps(row, float32(reducers[ir.OpReduceMax].list(row)))
	return reducers[ir.OpSum].list(row)
}

// optional returns the elements of a node's argument i, or nil if it is omitted.
func optional(c *interp.Call, i int) []float32 {
	if i >= len(c.Args) {
		return nil
	}
	return c.Args[i].Floats
}
