package fast

import (
	"math"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// attentionLSE computes the logarithms of the softmax denominators of an attention.
func attentionLSE(c *interp.Call) error {
	a, sinks := newAttended(c), optional(c, 3)
	return a.rows(c, len(c.Out), a.d+16*elementWork, func(row int, room []float32) {
		_, scores := a.scores(room, row)
		if sinks != nil {
			scores = append(scores, sinks[row/a.t%a.h])
		}
		top := math.Inf(-1)
		if len(scores) > 0 {
			top = reducers[ir.OpReduceMax].list(scores)
		}
		if !math.IsInf(top, -1) { // the query sees a key
			top += math.Log(exponentials(scores))
		}
		c.Out[row] = float32(top)
	})
}

// attentionGrad computes the gradient of attention for one of its arguments. A task computes a block of the argument's
// rows. For q the rows are queries, with the weights of all keys. For k and v they are keys, with the weights of all
// queries.
func attentionGrad(c *interp.Call) error {
	a := newAttended(c)
	g := &attentionGradient{attended: a, of: c.Node.Attrs().String_("of"), v: c.Args[2], grad: c.Args[3].Floats,
		lse: c.Args[4].Floats, delta: c.Args[5].Floats}
	g.e = g.v.Dims[len(g.v.Dims)-1]
	rows, others := a.t, a.s
	if g.of != "q" {
		rows, others = a.s, a.t
	}
	if len(c.Out) == 0 || others == 0 { // without queries or keys there is nothing to sum
		clear(c.Out)
		return nil
	}
	const block = 16 // rows of a task
	heads, blocks := len(g.lse)/a.t, ceil.Div(rows, block)
	return c.Parallel(heads*blocks, block*others*(a.d+2*g.e+24*elementWork)/8, func(worker, task int) {
		head, first := task/blocks, task%blocks*block
		n := min(block, rows-first)
		room := c.Room(worker, 2*block*others) // for weights and slopes
		width := len(c.Out) / (heads * rows)
		out := c.Out[(head*rows+first)*width:][:n*width]
		if g.of == "q" {
			g.queries(head, first, n, out, room)
		} else {
			g.keys(head, first, n, out, room)
		}
	})
}

// attentionGradient computes the gradient of attention for argument of.
type attentionGradient struct {
	*attended
	of               string
	e                int // elements of a value
	v                interp.Tensor
	grad, lse, delta []float32
}

// queries computes the gradients of n queries of a head.
func (g *attentionGradient) queries(head, first, n int, out, room []float32) {
	from, end := g.s, 0 // the keys that any of them sees
	for i := range n {
		least, limit := g.seen(first + i)
		from, end = min(from, least), max(end, limit)
	}
	count := end - from
	if count <= 0 {
		clear(out)
		return
	}
	k := g.k.Floats[g.group(head)*g.k.Apart+from*g.d:][:count*g.d]
	v := g.v.Floats[g.group(head)*g.v.Apart+from*g.e:][:count*g.e]
	row := head*g.t + first
	weights, slopes := room[:n*count], room[n*count:2*n*count]
	multiply(weights, count, g.q.Floats[row*g.d:], k, n, count, g.d)
	multiply(slopes, count, g.grad[row*g.e:], v, n, count, g.e)
	for i := range n {
		w := weights[i*count : (i+1)*count]
		g.weights(w, slopes[i*count:(i+1)*count], row+i, 0, from, 1)
		total(out[i*g.d:(i+1)*g.d], w, k)
	}
}

// keys computes the gradients of n keys or values, from key number first on, for all queries of a head. room is
// scratch.
func (g *attentionGradient) keys(head, first, n int, out, room []float32) {
	from, end := g.t, 0 // the queries that see any of them
	for i := range g.t {
		if least, limit := g.seen(i); least < first+n && limit > first {
			from, end = min(from, i), i+1
		}
	}
	count := end - from
	if count <= 0 {
		clear(out) // no query sees them
		return
	}
	k := g.k.Floats[g.group(head)*g.k.Apart+first*g.d:]
	v := g.v.Floats[g.group(head)*g.v.Apart+first*g.e:]
	row := head*g.t + from
	weights, slopes := room[:n*count], room[n*count:2*n*count]
	queries, grad := g.q.Floats[row*g.d:(row+count)*g.d], g.grad[row*g.e:(row+count)*g.e]
	multiply(weights, count, k, queries, n, count, g.d)
	rows, width := grad, g.e
	if g.of == "k" {
		multiply(slopes, count, v, grad, n, count, g.e)
		rows, width = queries, g.d
	}
	for j := range n {
		w := weights[j*count : (j+1)*count]
		g.weights(w, slopes[j*count:(j+1)*count], row, 1, first+j, 0)
		total(out[j*width:(j+1)*width], w, rows)
	}
}

// weights replaces the dot products w of queries and keys by the factors of the rows whose sum is the gradient. For
// the gradient of v, these are the weights of the attention. Otherwise they are the derivatives by the dot products;
// slopes then has the dot products of gradients and values, and weights overwrites it.
//
// Element i of w belongs to query row+i*rows, counted over all heads, and to key key+i*keys. One of the steps rows
// and keys is 1, the other 0.
func (g *attentionGradient) weights(w, slopes []float32, row, rows, key, keys int) {
	g.scaleDots(w)
	if g.of != "v" {
		for i, x := range slopes {
			slopes[i] = float32(float64(x-g.delta[row+i*rows]) * g.scale)
		}
		for i := 0; i < len(slopes) && g.softcap != 0; i++ {
			y := float64(w[i]) / g.softcap
			slopes[i] *= float32(1 - float64(y*y))
		}
	}
	for i := 0; i < len(w) && g.mask != nil; i++ {
		g.mask.add(w[i:i+1], (row+i*rows)*g.s+key+i*keys)
	}
	for i, score := range w {
		lse := g.lse[row+i*rows]
		w[i] = score - lse
		switch {
		case lse < -math.MaxFloat32:
			w[i] = float32(math.Inf(-1)) // the query sees nothing
		case score > math.MaxFloat32:
			w[i] = float32(math.NaN()) // as in attention
		}
	}
	sees := func(i int) bool {
		first, end := g.seen((row + i*rows) % g.t)
		return first <= key+i*keys && key+i*keys < end
	}
	first, end := 0, len(w) // the elements of keys that their queries see
	for ; first < end && !sees(first); first++ {
		w[first] = float32(math.Inf(-1))
	}
	for ; end > first && !sees(end-1); end-- {
		w[end-1] = float32(math.Inf(-1))
	}
	exps(w, 0)
	if g.of == "v" {
		return
	}
	for i, x := range w {
		if x != 0 {
			w[i] = x * slopes[i]
		}
	}
}

// total sets out to the sum of rows, each multiplied by its weight. A row with the weight 0 does not count, even if it
// has a NaN.
func total(out, weights, rows []float32) {
	weigh(out, weights, rows)
	for x := range out {
		if out[x] == out[x] { // not NaN
			continue
		}
		sum := float32(0)
		for j, w := range weights {
			if w != 0 {
				sum += float32(w * rows[j*len(out)+x])
			}
		}
		out[x] = sum
	}
}
