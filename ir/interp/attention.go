package interp

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// heads holds the arguments and attributes of an attention op. Nearby letters give extents: q is [outer…, h, t, d].
type heads struct {
	outerDims []int
	outer     int // product of outerDims
	h, g      int // query heads, and the key heads that they share
	t, s      int // queries, keys
	d, e      int // extents of one q or k, of one v
	causal    bool
	window    int // the number of keys that a causal query sees, or 0 for all
	scale     float64
	softcap   float64 // or 0
	zeroNaN   bool

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
	err := c.parallelRange(a.outer*a.h*a.t, a.s*(a.d+a.e+elementWork), func(lo, hi int) {
		scores := make([]float64, a.s, a.s+1)
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
			if out[row] = maxOf(seen); !math.IsInf(out[row], -1) {
				top := out[row]
				out[row] = top + math.Log(expRow(seen))
			}
		}
	})
	return c.floats(out), err
}

// attentionGrad computes the gradient of attention for one of its arguments, head by head.
func attentionGrad(c *call) (value, error) {
	a := newHeads(c)
	grad, lse, delta := c.args[3].floats(), c.args[4].floats(), c.args[5].floats()
	out := make([]float64, elems(c.dims))
	if len(out) == 0 {
		return c.floats(out), nil
	}
	of, width := c.attrs().String_("of"), c.dims[len(c.dims)-1]
	err := c.parallelRange(a.outer*a.h, a.t*a.s*(a.d+2*a.e+elementWork), func(lo, hi int) {
		scores, slopes := make([]float64, a.s), make([]float64, a.s)
		for row := lo * a.t; row < hi*a.t; row++ {
			first, seen := a.scores(row, scores, slopes)
			key := a.group(row)*a.s + first // of all heads
			g := grad[row*a.e : (row+1)*a.e]
			for j := range seen {
				w := math.Exp(seen[j] - lse[row])
				if math.IsInf(seen[j], 1) {
					w = math.NaN() // as in attention
				}
				if w == 0 || math.IsInf(lse[row], -1) {
					continue // the query does not see it, or nothing
				}
				if of != "v" {
					w *= (dot(g, a.v[(key+j)*a.e:(key+j+1)*a.e]) - delta[row]) * slopes[j] * a.scale
				}
				from, to := g, row // in q: the query's own
				switch of {
				case "q":
					from = a.k[(key+j)*a.d : (key+j+1)*a.d]
				case "k":
					from = a.q[row*a.d : (row+1)*a.d]
				}
				if of != "q" {
					to = row/a.t*a.s + first + j
				}
				for x, v := range from {
					out[to*width+x] += float64(w * v)
				}
			}
		}
	})
	return c.floats(out), err
}

// newHeads reads the arguments and attributes of an attention op.
func newHeads(c *call) *heads {
	in := c.node.Op().Info()
	q, k, v := c.args[0], c.args[1], value{}
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
		v = c.args[i]
		a.e, a.v = v.dims[r-1], v.floats()
	}
	if i := in.Arg("sinks"); i >= 0 {
		a.sinks = c.optionalFloats(i)
	}
	if a.scale == 0 {
		a.scale = 1 / math.Sqrt(float64(a.d))
	}
	mask := in.Arg("mask")
	if a.mask = c.addedMask(mask); a.mask != nil {
		full := append(append([]int{}, q.dims[:r-1]...), a.s)
		a.maskStrides = broadcastStrides(c.args[mask].dims, full)
	}
	return a
}

// addedMask returns the values to add to the scores, or nil if there are none. A false or zero element of a bool or
// integer mask becomes -Inf.
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

// group returns the index of the key head that row, a query of any head and outer coordinate, uses. It counts the key
// heads of all outer coordinates. Consecutive query heads share a key head.
func (a *heads) group(row int) int {
	head, n := row/a.t%a.h, row/a.t/a.h
	return n*a.g + head/(a.h/a.g)
}

// scores computes the scores of the query in a row of q: the rows of all queries of a head follow each other, and so do
// the heads. The slice scores has room for all keys. The results are the first key that the query sees, and the scores
// of the keys from there to the last one that it sees. If slopes is not nil, it receives the derivative of softcap at
// each score.
func (a *heads) scores(row int, scores, slopes []float64) (first int, seenScores []float64) {
	i, head, n := row%a.t, row/a.t%a.h, row/a.t/a.h
	group, seen := a.group(row), a.s
	if a.causal {
		seen = min(max(i+a.s-a.t+1, 0), a.s)
	}
	if a.window > 0 {
		first = max(seen-a.window, 0)
		seen -= first
	}
	q := a.q[row*a.d : (row+1)*a.d]
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
				slopes[j] -= float64(scores[j] / a.softcap * (scores[j] / a.softcap))
			}
		}
	}
	a.addMask(scores, n, head, i, first)
	return first, scores
}

// withSink appends the score of the head's sink, if there are sinks. A sink takes a share of the softmax weights but
// has no value.
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

// addMask adds the mask to the scores of a query of a head at outer coordinate n. scores[0] belongs to key first.
func (a *heads) addMask(scores []float64, n, head, query, first int) {
	if a.mask == nil {
		return
	}
	lead := len(a.outerDims)
	at := head*a.maskStrides[lead] + query*a.maskStrides[lead+1]
	for axis := lead - 1; axis >= 0; axis-- {
		at += n % a.outerDims[axis] * a.maskStrides[axis]
		n /= a.outerDims[axis]
	}
	for j := range scores {
		scores[j] += a.mask[at+(first+j)*a.maskStrides[lead+2]]
	}
}
