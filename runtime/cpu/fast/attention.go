package fast

import (
	"math"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// plainHeads accepts attention without a mask and without sinks.
func plainHeads(n *ir.Node) bool { return len(n.Args()) == 3 && narrow(n) }

func attention(c *interp.Call) error {
	q, k, v := c.Args[0], c.Args[1], c.Args[2]
	r, attrs := len(q.Dims), c.Node.Attrs()
	h, g, t, s := q.Dims[r-3], k.Dims[r-3], q.Dims[r-2], k.Dims[r-2]
	d, e := q.Dims[r-1], v.Dims[r-1]
	scale, softcap, window := attrs.Float("scale"), attrs.Float("softcap"), int(attrs.Int("window"))
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(d))
	}
	return c.ParallelRange(len(c.Out)/e, s*(d+e+16*elementWork)/8, func(lo, hi int) {
		all := make([]float32, s)
		for row := lo; row < hi; row++ {
			i, head, outer := row%t, row/t%h, row/t/h
			group := outer*g + head/(h/g) // consecutive query heads share a key head
			first, end := 0, s
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
			total := expRow(scores)
			out := c.Out[row*e : (row+1)*e]
			for j, p := range scores {
				at := group*v.Apart + (first+j)*e
				axpy(out, p, v.Floats[at:at+e])
			}
			for x := range out {
				out[x] = float32(float64(out[x]) / total)
			}
		}
	})
}
