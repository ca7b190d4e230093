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

// attentionGrad computes the gradient of attention for one of its arguments: q, k or v. A task computes a block of the
// argument's rows. A row of q is a query: its gradient sums over all keys. A row of k or v belongs to a key: its
// gradient sums over all queries.
func attentionGrad(c *interp.Call) error {
	a := newAttended(c)
	g := &attentionGradient{attended: a, of: c.Node.Attrs().String_("of"), v: c.Args[2], grad: c.Args[3].Floats,
		lse: c.Args[4].Floats, delta: c.Args[5].Floats}
	g.e = g.v.Dims[len(g.v.Dims)-1]
	rows, others := a.t, a.s // rows of the argument, and terms of the sum for each
	if g.of != "q" {
		rows, others = a.s, a.t
	}
	if len(c.Out) == 0 || others == 0 { // without queries or keys there is nothing to sum
		clear(c.Out)
		return nil
	}
	const block = 16 // rows of a task
	heads, blocks := len(g.lse)/a.t, ceil.Div(rows, block)
	return c.Parallel(heads*blocks, block*others*(a.d+2*g.e+24*elementWork)/lanes, func(worker, task int) {
		head, first := task/blocks, task%blocks*block
		n := min(block, rows-first)
		room := c.Room(worker, 2*block*others) // for weights and slopes
		width := len(c.Out) / (heads * rows)   // elements of a row
		out := c.Out[(head*rows+first)*width:][:n*width]
		if g.of == "q" {
			g.queries(head, first, n, out, room)
		} else {
			g.keys(head, first, n, out, room)
		}
	})
}

// attentionGradient computes the gradient of attention for one argument. Fields grad, lse and delta are arguments of
// the op.
type attentionGradient struct {
	*attended
	of               string // the argument: "q", "k" or "v"
	e                int    // elements of a value
	v                interp.Tensor
	grad, lse, delta []float32
}

// queries sets out to the gradients of n queries of a head, from query number first on. room is memory for two numbers
// for each of these queries and each key.
func (g *attentionGradient) queries(head, first, n int, out, room []float32) {
	from, end := g.s, 0 // the range of keys that at least one of these queries sees
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
		g.weights(w, slopes[i*count:(i+1)*count], scorePairs{row: row + i, key: from, keyStep: 1})
		total(out[i*g.d:(i+1)*g.d], w, k)
	}
}

// keys adds up, over all queries of a head, the gradients of n keys or of their values, from key number first on, and
// stores them in out. room is memory for two numbers for each of these keys and each query.
func (g *attentionGradient) keys(head, first, n int, out, room []float32) {
	from, end := g.t, 0 // the range of queries that see at least one of these keys
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
	rows, width := grad, g.e // the rows that are added up: of grad for v, queries for k
	if g.of == "k" {
		multiply(slopes, count, v, grad, n, count, g.e)
		rows, width = queries, g.d
	}
	for j := range n {
		w := weights[j*count : (j+1)*count]
		g.weights(w, slopes[j*count:(j+1)*count], scorePairs{row: row, rowStep: 1, key: first + j})
		total(out[j*width:(j+1)*width], w, rows)
	}
}

// scorePairs are the pairs of a query and a key that a list of scores belongs to. Element i belongs to query
// row+i*rowStep, counted over all heads, and to key key+i*keyStep. One of the steps is 1, the other 0.
type scorePairs struct{ row, rowStep, key, keyStep int }

// at returns the query and the key of element i.
func (p scorePairs) at(i int) (row, key int) { return p.row + i*p.rowStep, p.key + i*p.keyStep }

// weights replaces dot products w of queries and keys by factors: the sum of rows, each times its factor, is the
// gradient. For the gradient of v, the factors are the weights of the attention. Otherwise they are the derivatives of
// the result by the dot products. weights then reads the dot products of gradients and values in slopes, and overwrites
// them.
func (g *attentionGradient) weights(w, slopes []float32, pairs scorePairs) {
	g.scaleDots(w)
	if g.of != "v" {
		g.setSlopes(slopes, w, pairs)
	}
	for i := 0; i < len(w) && g.mask != nil; i++ {
		row, key := pairs.at(i)
		g.mask.add(w[i:i+1], row*g.s+key)
	}
	for i, score := range w {
		row, _ := pairs.at(i)
		lse := g.lse[row]
		w[i] = score - lse
		switch {
		case lse < -math.MaxFloat32:
			w[i] = float32(math.Inf(-1)) // the query sees nothing
		case score > math.MaxFloat32:
			w[i] = float32(math.NaN()) // as in attention
		}
	}
	g.hideUnseen(w, pairs)
	exps(w, 0)
	if g.of == "v" {
		return
	}
	for i, x := range w {
		if x != 0 { // a weight of 0 gives 0, even if the slope is not finite
			w[i] = x * slopes[i]
		}
	}
}

// setSlopes replaces dot products of gradients and values by the derivatives of the result by the dot products of
// queries and keys, divided by the weights. scores has the scores without the mask.
func (g *attentionGradient) setSlopes(slopes, scores []float32, pairs scorePairs) {
	for i, x := range slopes {
		row, _ := pairs.at(i)
		slopes[i] = float32(float64(x-g.delta[row]) * g.scale)
	}
	for i := 0; i < len(slopes) && g.softcap != 0; i++ {
		y := float64(scores[i]) / g.softcap
		slopes[i] *= float32(1 - float64(y*y)) // the derivative of tanh
	}
}

// hideUnseen sets scores of keys that their queries do not see to minus infinity. The others are contiguous in the
// list.
func (g *attentionGradient) hideUnseen(scores []float32, pairs scorePairs) {
	sees := func(i int) bool {
		row, key := pairs.at(i)
		first, end := g.seen(row % g.t)
		return first <= key && key < end
	}
	first, end := 0, len(scores)
	for ; first < end && !sees(first); first++ {
		scores[first] = float32(math.Inf(-1))
	}
	for ; end > first && !sees(end-1); end-- {
		scores[end-1] = float32(math.Inf(-1))
	}
}

// total sets out to the sum of rows, each multiplied by its weight. A row with the weight 0 does not count, even if it
// has a NaN.
func total(out, weights, rows []float32) {
	weigh(out, weights, rows)
	for x, y := range out {
		if y == y { // not NaN, so no row with weight 0 has one here
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
