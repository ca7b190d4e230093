package frontend

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Remat returns the results of f, at least one tensor. The intermediate values of f are not stored for gradients but
// recomputed when needed (Chen et al. 2016), which saves memory and costs time. Gradients, also of higher order, are
// unchanged. f may use any tensors from outside, and may itself call Remat.
//
// Two kinds of values are stored all the same: values that f reads, and values that f computes from weights, states and
// constants alone. The recomputation waits until the gradient of f's results is known. A constant gradient, such as a
// loss's, is known from the start, so that the recomputation would not wait: compute the loss outside of f.
func (b *Builder) Remat(f func() []Tensor) []Tensor {
	const op = "remat"
	b = b.current()
	b.checkOpen(op)
	if f == nil {
		fail(op, fmt.Errorf("the function is nil"))
	}
	from := len(b.graph.Nodes())
	results := f()
	if len(results) == 0 {
		fail(op, fmt.Errorf("the function returns no tensors"))
	}
	r := &remat{nodes: slices.Clone(b.graph.Nodes()[from:])}
	for i, t := range results {
		r.results = append(r.results, b.ownTensor(op, i, t, results).node)
	}
	seen := map[*ir.Node]bool{} // nodes that f makes, and nodes outside that are already in args
	for _, n := range r.nodes {
		seen[n] = len(n.Args()) > 0 // a leaf that f declares counts as outside
	}
	var args []Tensor
	read := func(n *ir.Node) {
		if !seen[n] {
			seen[n] = true
			args, r.outside = append(args, Tensor{b, n}), append(r.outside, n)
		}
	}
	for _, n := range r.nodes {
		for _, a := range n.Args() {
			read(a)
		}
	}
	outs := make([]Tensor, len(results))
	for i, n := range r.results {
		read(n)
		outs[i] = Tensor{b, n}.freshCopy()
	}
	for i, t := range outs {
		o := opaqueValue{args: args, rule: func(GradCall, []bool) []Tensor { return nil }}
		if i == 0 { // a pullback reaches this result last, and then has the gradients of all results
			o.rule, o.results = r.grad, outs
		}
		b.opaques[t.node] = o
	}
	return outs
}

// remat is a call of Remat.
type remat struct {
	nodes   []*ir.Node // the nodes that f made
	results []*ir.Node // the nodes that f returned
	outside []*ir.Node // the nodes outside of f that nodes and results read
}

// grad is the gradient rule of Remat. It computes the nodes of f again, and from these the gradients of the values that
// f reads. So the results of the original nodes need not be kept.
func (r *remat) grad(c GradCall, want []bool) []Tensor {
	b := c.Result.b.current()
	// The token is one element of a result's gradient. Values after it are computed only once that gradient is known.
	token := c.grads[slices.IndexFunc(c.grads, func(g Tensor) bool { return !g.IsZero() })]
	for i := range token.Rank() {
		token = token.Slice(i, 0, ir.D(1))
	}
	token = token.Reshape()
	given := map[*ir.Node]Tensor{}
	var params []Tensor
	for i, n := range r.outside {
		t := c.Args[i]
		if d := t.DType(); !isParameter(t.node) && !d.IsBlock() && d != ir.Bool {
			// The value waits for the token. A parameter is stored anyway, and blocks and bools take no part.
			t = t.After(token.to(d))
		}
		if want[i] {
			t = t.freshCopy() // a node of its own, whose gradient is that of this use alone
			params = append(params, t)
		}
		given[n] = t
	}
	from := len(b.graph.Nodes())
	made := map[*ir.Node]Tensor{}
	for i, t := range b.copyNodes(r.nodes, given) {
		made[r.nodes[i]] = t
	}
	var results, cotangents []Tensor
	for i, n := range r.results {
		if g := c.grads[i]; !g.IsZero() {
			y, ok := made[n]
			if !ok {
				y = given[n] // a result that is a value from outside
			}
			results, cotangents = append(results, y), append(cotangents, g)
		}
	}
	grads := newPullback(b, from, params).run(results, cotangents)
	out := make([]Tensor, len(c.Args))
	for i := range out {
		if want[i] {
			out[i], grads = grads[0], grads[1:]
		}
	}
	return out
}

// isParameter reports whether a node stays in memory regardless of its users.
func isParameter(n *ir.Node) bool {
	return slices.Contains([]ir.Op{ir.OpWeight, ir.OpState, ir.OpConst, ir.OpIota, ir.OpDimValue}, n.Op())
}
