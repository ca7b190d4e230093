package interp

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// heads holds the arguments and attributes of an attention op. The letters are those of the shapes below.
//
// A row number counts queries: row i*h*t + head*t + query of q is the vector of a query of a head at outer coordinate
// i. Rows of the result are numbered alike.
type heads struct {
	outerDims []int
	outer     int // number of outer coordinates
	h, g      int // number of query heads, and of the key heads that they share
	t, s      int // number of queries, and of keys
	d, e      int // extent of a query or key, and of a value
	causal    bool
	window    int // the number of keys that a causal query sees, or 0 for all
	scale     float64
	softcap   float64 // 0 for none
	zeroNaN   bool    // a query with weights of NaN gives 0

	q, k, v     []float64 // [outer…, h, t, d], [outer…, g, s, d], [outer…, g, s, e]
	mask        []float64 // nil if there is none
	maskStrides []int     // over [outer…, h, t, s]
	sinks       []float64 // [h], or nil
}

// attention computes op attention, query by query.
func attention(c *call) (value, error) {
	a := newHeads(c)
	out := make([]float64, elems(c.dims))
	if len(out) == 0 {
		return c.floats(out), nil
	}
	queries := a.outer * a.h * a.t
	workPerQuery := a.s * (a.d + a.e + elementWork) // a query reads all keys and values
	err := c.parallelRange(queries, workPerQuery, func(lo, hi int) {
		scores := make([]float64, a.s, a.s+1) // room for a sink
		for row := lo; row < hi; row++ {
			a.query(row, scores, out[row*a.e:(row+1)*a.e])
		}
	})
	return c.floats(out), err
}

// attentionLSE computes, for each query, the logarithm of the sum that attention divides by.
func attentionLSE(c *call) (value, error) {
	a := newHeads(c)
	out := make([]float64, elems(c.dims))
	if len(out) == 0 {
		return c.floats(out), nil
	}
	err := c.parallelRange(len(out), a.s*(a.d+elementWork), func(lo, hi int) {
		scores := make([]float64, a.s, a.s+1)
		for row := lo; row < hi; row++ {
			_, seen := a.scores(row, scores, nil)
			seen = a.withSink(row, seen)
			top := maxOf(seen)
			out[row] = top
			if !math.IsInf(top, -1) { // the query sees a key
				out[row] = top + math.Log(expRow(seen))
			}
		}
	})
	return c.floats(out), err
}

// attentionGrad computes the gradient of attention for q, k or v (attribute of), head by head. Arguments 3 to 5 are the
// gradient of the result, the result of attention_lse, and delta: for each query the dot product of the result and its
// gradient (Dao et al., "FlashAttention", 2022).
func attentionGrad(c *call) (value, error) {
	a := newHeads(c)
	grad, lse, delta := c.args[3].floats(), c.args[4].floats(), c.args[5].floats()
	out := make([]float64, elems(c.dims))
	if len(out) == 0 {
		return c.floats(out), nil
	}
	g := &headsGrad{heads: a, of: c.attrs().String_("of"), grad: grad, lse: lse, delta: delta, out: out}
	err := c.parallelRange(a.outer*a.h, a.t*a.s*(a.d+2*a.e+elementWork), func(lo, hi int) {
		scores, slopes := make([]float64, a.s), make([]float64, a.s)
		for row := lo * a.t; row < hi*a.t; row++ {
			g.addRow(row, scores, slopes)
		}
	})
	return c.floats(out), err
}

// headsGrad computes the gradient of an attention for one of its arguments.
type headsGrad struct {
	*heads
	of               string    // "q", "k" or "v"
	grad, lse, delta []float64 // arguments 3 to 5 of attention_grad
	out              []float64 // [outer…, h, t, d] for q; [outer…, h, s, d] for k and [outer…, h, s, e] for v
}

// addRow adds to out what one query contributes: to its own gradient, or to the gradients of the keys or values that it
// sees. scores and slopes are scratch memory for a number per key.
func (g *headsGrad) addRow(row int, scores, slopes []float64) {
	lse, rowGrad := g.lse[row], g.grad[row*g.e:(row+1)*g.e]
	if math.IsInf(lse, -1) {
		return // the query sees no key
	}
	first, seen := g.scores(row, scores, slopes)
	firstKey := g.group(row)*g.s + first // its row in k and v
	firstOut := row/g.t*g.s + first      // its row in the gradient of k or v: one per query head
	for j, score := range seen {
		weight := math.Exp(score - lse) // of the softmax
		if math.IsInf(score, 1) {
			weight = math.NaN() // as in attention
		}
		if weight == 0 {
			continue // the query does not see this key
		}
		key, out := firstKey+j, firstOut+j
		if g.of == "v" {
			addScaled(g.out[out*g.e:], weight, rowGrad)
			continue
		}
		scoreGrad := weight * ((dot(rowGrad, g.v[key*g.e:(key+1)*g.e]) - g.delta[row]) * slopes[j] * g.scale)
		if g.of == "q" {
			addScaled(g.out[row*g.d:], scoreGrad, g.k[key*g.d:(key+1)*g.d])
		} else {
			addScaled(g.out[out*g.d:], scoreGrad, g.q[row*g.d:(row+1)*g.d])
		}
	}
}

// addScaled adds factor*x to the first elements of sum.
func addScaled(sum []float64, factor float64, x []float64) {
	for i, v := range x {
		sum[i] += float64(factor * v)
	}
}

// newHeads reads the arguments and attributes of an attention op. v, mask and sinks are not arguments of every one.
func newHeads(c *call) *heads {
	in := c.node.Op().Info()
	q, k := c.args[0], c.args[1]
	r := len(q.dims)
	a := &heads{
		outer: elems(q.dims[:r-3]), outerDims: q.dims[:r-3],
		h: q.dims[r-3], g: k.dims[r-3], t: q.dims[r-2], s: k.dims[r-2], d: q.dims[r-1],
		causal: c.attrs().Bool("causal"), scale: c.attrs().Float("scale"),
		softcap: c.attrs().Float("softcap"), window: int(c.attrs().Int("window")),
		zeroNaN: c.node.Op() == ir.OpAttention && c.attrs().Bool("zero_nan"),
		q:       q.floats(), k: k.floats(),
	}
	if i := in.Arg("v"); i >= 0 {
		a.e, a.v = c.args[i].dims[r-1], c.args[i].floats()
	}
	if i := in.Arg("sinks"); i >= 0 {
		a.sinks = c.optionalFloats(i)
	}
	if a.scale == 0 { // attribute scale is omitted
		a.scale = 1 / math.Sqrt(float64(a.d))
	}
	mask := in.Arg("mask")
	a.mask = c.addedMask(mask)
	if a.mask != nil {
		full := append(slices.Clone(q.dims[:r-1]), a.s)
		a.maskStrides = broadcastStrides(c.args[mask].dims, full)
	}
	return a
}

// addedMask returns the values to add to the scores, in the order of argument mask, or nil if it is left out. A false
// or zero element of a bool or integer mask becomes -Inf.
func (c *call) addedMask(mask int) []float64 {
	if len(c.args) <= mask || c.args[mask].typ.IsFloat() {
		return c.optionalFloats(mask)
	}
	added := make([]float64, len(c.args[mask].i64))
	for i, seen := range c.args[mask].i64 {
		if seen == 0 {
			added[i] = math.Inf(-1)
		}
	}
	return added
}

// group returns the key head that a row uses, counted over all outer coordinates. Consecutive query heads share a key
// head.
func (a *heads) group(row int) int {
	head, outer := row/a.t%a.h, row/a.t/a.h
	return outer*a.g + head/(a.h/a.g)
}

// scores computes the scores of a row's query. The slice scores has room for all keys. The results are the first key
// that the query sees, and the scores of the keys from there to the last one that it sees. If slopes is not nil, it
// receives the derivative of softcap at each score.
func (a *heads) scores(row int, scores, slopes []float64) (first int, seenScores []float64) {
	query, group, seen := row%a.t, a.group(row), a.s
	if a.causal { // the last query sees all keys
		seen = min(max(query+a.s-a.t+1, 0), a.s)
	}
	if a.window > 0 {
		first = max(seen-a.window, 0)
		seen -= first
	}
	q := a.q[row*a.d : (row+1)*a.d]
	// from the first key seen to the end of the group
	k := a.k[(group*a.s+first)*a.d : (group+1)*a.s*a.d]
	scores = scores[:seen]
	multiply(scores, seen, q, k[:seen*a.d], 1, seen, a.d)
	for j := range scores {
		scores[j] *= a.scale
		if a.softcap != 0 {
			scores[j] = a.softcap * math.Tanh(scores[j]/a.softcap)
		}
		if slopes != nil {
			slopes[j] = 1
			if a.softcap != 0 {
				// 1 - tanh^2
				slopes[j] -= float64(scores[j] / a.softcap * (scores[j] / a.softcap))
			}
		}
	}
	a.addMask(scores, row, first)
	return first, scores
}

// withSink appends the score of the sink of the row's head, if there are sinks. A sink takes a share of the softmax
// weights but has no value.
func (a *heads) withSink(row int, scores []float64) []float64 {
	if a.sinks == nil {
		return scores
	}
	return append(scores, a.sinks[row/a.t%a.h])
}

// query computes one row of the result: the values, weighted by the softmax of the query's scores.
func (a *heads) query(row int, scores, out []float64) {
	first, scores := a.scores(row, scores, nil)
	seen, v := len(scores), a.v[(a.group(row)*a.s+first)*a.e:]
	scores = a.withSink(row, scores)
	total := expRow(scores)
	if a.zeroNaN && !(total > 0) { // a score is NaN or infinite, or there is none: all weights are NaN
		return
	}
	for j, p := range scores[:seen] {
		for x, e := range v[j*a.e : (j+1)*a.e] {
			out[x] += float64(p * e)
		}
	}
	for x := range out {
		out[x] /= total
	}
}

// addMask adds the mask to the scores of a row. scores[0] belongs to key first.
func (a *heads) addMask(scores []float64, row, first int) {
	if a.mask == nil {
		return
	}
	// row = (outer*h + head)*t + query. The strides of axes along which the mask is broadcast are 0.
	query, head, outer := row%a.t, row/a.t%a.h, row/a.t/a.h
	headAxis := len(a.outerDims)
	at := head*a.maskStrides[headAxis] + query*a.maskStrides[headAxis+1]
	for axis := headAxis - 1; axis >= 0; axis-- {
		at += outer % a.outerDims[axis] * a.maskStrides[axis]
		outer /= a.outerDims[axis]
	}
	for j := range scores {
		scores[j] += a.mask[at+(first+j)*a.maskStrides[headAxis+2]]
	}
}
