package frontend

import "github.com/vkc-go/vkc/ir"

// HasGrad reports whether an op has a rule for its gradient.
func HasGrad(op ir.Op) bool { return gradRules[op] != nil }

// Pull is VJP of one result, with the zero Tensor for what it does not depend on.
func Pull(y, cotangent Tensor, params []Tensor) []Tensor {
	return newPullback(y.b, 0, params).run([]Tensor{y}, []Tensor{cotangent})
}

// Graft adds the nodes of another graph, with inputs for its inputs and weights of floats, which it returns beside the
// graph's first output.
func Graft(b *Builder, g *ir.Graph) (params []Tensor, y Tensor) {
	made := map[*ir.Node]Tensor{}
	for _, n := range g.Nodes() {
		leaf := n.Op() == ir.OpInput || n.Op() == ir.OpWeight
		if leaf && n.DType().IsFloat() {
			made[n] = b.Input(n.Name(), n.DType(), n.Shape())
			params = append(params, made[n])
			continue
		}
		args := make([]Tensor, len(n.Args()))
		for i, a := range n.Args() {
			args[i] = made[a]
		}
		made[n] = b.add(n.Op(), args, n.Attrs()...)
	}
	return params, made[g.Outputs()[0].Node]
}
