package interp

import "math"

// heads are the arguments of an attention.
type heads struct {
	outerDims []int
	outer     int // their product
	h, g      int // query heads, and the key heads that they share
	t, s      int // queries, keys
	d, e      int // extents of one q or k, of one v
	causal    bool
	window    int // of the keys that a causal query sees, or 0
	scale     float64
	softcap   float64 // or 0

	q, k, v     []float64 // [outer…, h, t, d], [outer…, g, s, d], [outer…, g, s, e]
	mask        []float64 // nil if there is none
	maskStrides []int     // over [outer…, h, t, s]
	sinks       []float64 // [h], or nil
}

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

func newHeads(c *call) *heads {
	q, k, v := c.args[0], c.args[1], c.args[2]
	r := len(q.dims)
	a := &heads{
		outer: elems(q.dims[:r-3]), outerDims: q.dims[:r-3],
		h: q.dims[r-3], g: k.dims[r-3], t: q.dims[r-2], s: k.dims[r-2], d: q.dims[r-1], e: v.dims[r-1],
		causal: c.attrs().Bool("causal"), scale: c.attrs().Float("scale"),
		softcap: c.attrs().Float("softcap"), window: int(c.attrs().Int("window")),
		q: q.floats(), k: k.floats(), v: v.floats(), mask: c.addedMask(), sinks: c.optionalFloats(4),
	}
	if a.scale == 0 {
		a.scale = 1 / math.Sqrt(float64(a.d))
	}
	if a.mask != nil {
		full := append(append([]int{}, q.dims[:r-1]...), a.s)
		a.maskStrides = broadcastStrides(c.args[3].dims, full)
	}
	return a
}

// addedMask returns what is added to the scores, or nil for nothing: where a mask of bools or integers is false, -Inf.
func (c *call) addedMask() []float64 {
	if len(c.args) < 4 || c.args[3].typ.IsFloat() {
		return c.optionalFloats(3)
	}
	added := make([]float64, len(c.args[3].i))
	for i, seen := range c.args[3].i {
		if seen == 0 {
			added[i] = math.Inf(-1)
		}
	}
	return added
}

// query computes one row of the result: query row%T of head row/T%H.
func (a *heads) query(row int, scores, out []float64) {
	i, head, n := row%a.t, row/a.t%a.h, row/a.t/a.h
	group := n*a.g + head/(a.h/a.g) // consecutive query heads share a key head
	first, seen := 0, a.s
	if a.causal {
		seen = min(max(i+a.s-a.t+1, 0), a.s)
	}
	if a.window > 0 {
		first = max(seen-a.window, 0)
		seen -= first
	}
	q := a.q[row*a.d : (row+1)*a.d]
	k := a.k[(group*a.s+first)*a.d : (group+1)*a.s*a.d]
	v := a.v[(group*a.s+first)*a.e : (group+1)*a.s*a.e]
	scores = scores[:seen]
	multiply(scores, seen, q, k[:seen*a.d], 1, seen, a.d)
	for j := range scores {
		scores[j] *= a.scale
		if a.softcap != 0 {
			scores[j] = a.softcap * math.Tanh(scores[j]/a.softcap)
		}
	}
	a.addMask(scores, n, head, i, first)
	if a.sinks != nil {
		scores = append(scores, a.sinks[head]) // takes its share, and brings no value
	}
	total := expRow(scores)
	for j, p := range scores[:seen] {
		for x, e := range v[j*a.e : (j+1)*a.e] {
			out[x] += p * e
		}
	}
	for x := range out {
		out[x] /= total
	}
}

// addMask adds the mask's row for outer coordinate n, head and query, from the first key on.
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
