package fast

import (
	"math"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// takesAttention reports whether the kernel can compute an attention: float32 must represent all arguments' elements,
// except that the mask may have integers or bools.
func takesAttention(n *ir.Node) bool {
	for i, a := range n.Args() {
		isMask := i == n.Op().Info().Arg("mask") && (a.DType().IsInteger() || a.DType() == ir.Bool)
		if !isNarrow(a.DType()) && !isMask {
			return false
		}
	}
	return true
}

// attended has the extents, attributes and arguments that all attention ops share.
type attended struct {
	h, g, t, s, d  int // query heads, key heads, queries, keys, elements of a query or key
	causal         bool
	window         int
	scale, softcap float64
	q, k           interp.Tensor
	mask           *mask
}

// newAttended reads the arguments and attributes of an attention op.
func newAttended(c *interp.Call) *attended {
	q, k, attrs := c.Args[0], c.Args[1], c.Node.Attrs()
	r := len(q.Dims)
	a := &attended{h: q.Dims[r-3], g: k.Dims[r-3], t: q.Dims[r-2], s: k.Dims[r-2], d: q.Dims[r-1],
		causal: attrs.Bool("causal"), window: int(attrs.Int("window")), scale: attrs.Float("scale"),
		softcap: attrs.Float("softcap"), q: q, k: k}
	if a.scale == 0 {
		a.scale = 1 / math.Sqrt(float64(a.d))
	}
	if i := c.Node.Op().Info().Arg("mask"); len(c.Args) > i {
		a.mask = newMask(c, i, append(q.Dims[:r-1:r-1], a.s))
	}
	return a
}

// group returns the key head that query head `head` uses. Both are counted over all batches: a batch has a.h query
// heads and a.g key heads. Consecutive query heads share a key head.
func (a *attended) group(head int) int {
	batch, sharing := head/a.h, a.h/a.g // sharing is the number of query heads that share a key head
	return batch*a.g + head%a.h/sharing
}

// seen returns the range of keys that query i sees: first to end-1.
func (a *attended) seen(i int) (first, end int) {
	end = a.s
	if a.causal { // the queries are at the last a.t positions of the keys
		end = min(max(i+a.s-a.t+1, 0), a.s)
	}
	if a.window > 0 {
		first = max(end-a.window, 0)
	}
	return first, end
}

// scores returns the scores of the keys that a query sees, and the first of these keys. row is the query's number,
// counted over all heads. The scores are in room, which has space for all keys.
func (a *attended) scores(room []float32, row int) (first int, scores []float32) {
	first, end := a.seen(row % a.t) // row counts the queries of all heads
	scores = room[:end-first]
	if len(scores) == 0 {
		return first, scores
	}
	keys := a.k.Floats[a.group(row/a.t)*a.k.Apart:]
	// One query times all keys that it sees.
	multiply(scores, len(scores), a.q.Floats[row*a.d:(row+1)*a.d], keys[first*a.d:end*a.d], 1, len(scores), a.d)
	a.scaleDots(scores)
	a.mask.add(scores, row*a.s+first)
	return first, scores
}

// scaleDots replaces dot products of queries and keys by their scores, without the mask.
func (a *attended) scaleDots(dots []float32) {
	scale, softcap := a.scale, a.softcap
	for j, x := range dots {
		dots[j] = float32(float64(x) * scale)
	}
	if softcap == 0 {
		return
	}
	for j, x := range dots {
		dots[j] = float32(softcap * math.Tanh(float64(x)/softcap))
	}
}

// taskRows is the largest number of queries in a task.
const taskRows = 8

// rows calls f for each of `rows` queries. A task calls it for several, on one of the workers. work is the cost of one
// query and one key, in multiply-adds. The slice scores is memory for the scores of all keys, of a sink, and for those
// that [exponentials] adds.
func (a *attended) rows(c *interp.Call, rows, work int, f func(row int, scores []float32)) error {
	each := min(taskRows, ceil.Div(rows, c.Workers()))
	return c.Parallel(ceil.Div(rows, each), each*a.s*work/lanes, func(worker, task int) {
		scores := c.Room(worker, a.s+1+lanes)
		for row := task * each; row < min((task+1)*each, rows); row++ {
			f(row, scores)
		}
	})
}

// attention computes an attention. A task computes several queries, one after the other: the scores of all keys, their
// softmax, and the sum of the values weighted with them.
func attention(c *interp.Call) error {
	a, v, sinks := newAttended(c), c.Args[2], optional(c, 4)
	e := v.Dims[len(v.Dims)-1] // elements of a value
	zeroNaN := c.Node.Attrs().Bool("zero_nan")
	return a.rows(c, len(c.Out)/e, a.d+e+16*elementWork, func(row int, room []float32) {
		first, scores := a.scores(room, row)
		weights := scores
		if sinks != nil { // a number per query head, which adds to the denominator but has no value
			head := row / a.t % a.h
			weights = append(scores, sinks[head])
		}
		total := exponentials(weights)
		out := c.Out[row*e : (row+1)*e]
		if zeroNaN && !(total > 0) { // all weights are NaN, or there are none
			clear(out)
			return
		}
		weigh(out, weights[:len(scores)], v.Floats[a.group(row/a.t)*v.Apart+first*e:])
		inverse := 1 / total
		for i, x := range out {
			out[i] = float32(float64(x) * inverse)
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

// newMask returns the mask of an attention op, argument i. dims are the extents of the scores.
func newMask(c *interp.Call, i int, dims []int) *mask {
	steps := stepsOf(c.Args[i].Dims, dims)
	return &mask{newArgReader(c.Args[i], dims, nil), c.Args[i].Ints, steps[len(steps)-1]}
}

// add adds the mask to neighbouring scores of one query. at is the index of the first of them among the scores of all
// queries and keys.
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

// exponentials replaces each element of a row by exp(x-max), where max is the row's maximum, and returns the sum. It
// changes up to lanes-1 elements after the row, which must have room for them: it fills the row's last vector with
// -inf, so that assembly computes all elements.
func exponentials(row []float32) (total float64) {
	whole := row[:ceil.Div(len(row), lanes)*lanes]
	for i := len(row); i < len(whole); i++ {
		whole[i] = float32(math.Inf(-1))
	}
	exps(whole, float32(maximum.list(whole)))
	return sum.list(whole)
}

// maximum and sum are the reducers of a softmax.
var maximum, sum = reducers[ir.OpReduceMax], reducers[ir.OpSum]

// optional returns the elements of a node's argument i, or nil if it is omitted.
func optional(c *interp.Call, i int) []float32 {
	if i >= len(c.Args) {
		return nil
	}
	return c.Args[i].Floats
}
