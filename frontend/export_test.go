package frontend

import "github.com/vkc-go/vkc/ir"

// HasGrad reports whether an op has a rule for its gradient.
func HasGrad(op ir.Op) bool { return gradRules[op] != nil }

// Pull is VJP of one result, with the zero Tensor for params that it does not depend on.
func Pull(y, cotangent Tensor, params []Tensor) []Tensor {
	return newPullback(y.b, 0, params).run([]Tensor{y}, []Tensor{cotangent})
}

// Graft inlines another graph, with new inputs for its inputs and its float weights. It returns these along with the
// graph's first output.
func Graft(b *Builder, g *ir.Graph) (params []Tensor, y Tensor) {
	leaves := map[string]Tensor{}
	for _, n := range g.Nodes() {
		if (n.Op() == ir.OpInput || n.Op() == ir.OpWeight) && n.DType().IsFloat() {
			leaves[n.Name()] = b.Input(n.Name(), n.DType(), n.Shape())
			params = append(params, leaves[n.Name()])
		}
	}
	return params, b.Inline(g, leaves)[g.Outputs()[0].Name]
}
