// Package gradgen makes random graphs of gradients, for tests that compare implementations. Their shapes of computation
// differ from those of package graphgen: sums over broadcast axes, transposed products, and values that are kept for
// the way back.
package gradgen

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
)

// New returns the gradients of a random graph's first float output with respect to its float inputs and weights. It
// leaves out gradients that cannot be compared, because they may be huge or too inexact. If a graph has none, New tries
// other graphs. The result depends on seed and opt only.
func New(seed uint64, opt graphgen.Options) (*ir.Graph, error) {
	rng := rand.New(rand.NewPCG(seed, 0x67726164)) // "grad" in ASCII; any constant would do
	for of := seed; ; of = rng.Uint64() {
		if g, ok, err := gradients(of, opt); ok || err != nil {
			return g, err
		}
	}
}

// maxElems is the largest number of elements of a value. Products of gradients could have a hundred million, and the
// reference would compute them for minutes.
const maxElems = 1 << 21

// gradients returns the gradients of one random graph. ok is false if there are none.
func gradients(seed uint64, opt graphgen.Options) (g *ir.Graph, ok bool, err error) {
	of, err := graphgen.New(seed, opt)
	if err != nil {
		return nil, false, err
	}
	i := slices.IndexFunc(of.Outputs(), func(o ir.Output) bool { return o.Node.DType().IsFloat() })
	if i < 0 || len(of.Updates()) > 0 || len(of.Leaves(ir.OpState)) > 0 {
		return nil, false, nil
	}
	var params []string
	for _, n := range of.Nodes() {
		if (n.Op() == ir.OpInput || n.Op() == ir.OpWeight) && n.DType().IsFloat() {
			params = append(params, n.Name())
		}
	}
	for len(params) > 0 {
		g, err := frontend.Build(fmt.Sprintf("gradients of random %d", seed), func(b *frontend.Builder) {
			define(b, of, of.Outputs()[i].Name, params)
		})
		if err != nil {
			// Some operands have no gradient, such as indices. The error has the number of one: try without it.
			var without int
			_, rest, found := strings.Cut(err.Error(), "there is no gradient for param ")
			if _, bad := fmt.Sscanf(rest, "%d", &without); found && bad == nil && without < len(params) {
				params = slices.Delete(params, without, without+1)
				continue
			}
			isRefusal := func(text string) bool { return strings.Contains(err.Error(), text) }
			if slices.ContainsFunc(refusals, isRefusal) {
				err = nil
			}
			return nil, false, err
		}
		if slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool { return n.Shape().MaxElems() > maxElems }) {
			return nil, false, nil
		}
		bounds := graphgen.Bounds(g)
		good := slices.DeleteFunc(slices.Clone(params), func(name string) bool {
			k := slices.IndexFunc(g.Outputs(), func(o ir.Output) bool { return o.Name == "gradient of "+name })
			return bounds[g.Outputs()[k].Node.ID()].Bad
		})
		if len(good) == len(params) {
			return g, true, g.Verify()
		}
		params = good
	}
	return nil, false, nil
}

// refusals are parts of the errors of graphs that have no gradients for symbolic extents.
var refusals = []string{"needs fixed extents", "along the extent", "can be longer than base", "is not declared"}

// define inlines a graph, and makes outputs of the gradients of one of its outputs.
func define(b *frontend.Builder, of *ir.Graph, output string, params []string) {
	leaves, with := map[string]frontend.Tensor{}, make([]frontend.Tensor, len(params))
	for _, n := range of.Nodes() {
		if i := slices.Index(params, n.Name()); i >= 0 && n.Name() != "" {
			with[i] = b.Input(n.Name(), n.DType(), n.Shape())
			leaves[n.Name()] = with[i]
		}
	}
	y := b.Inline(of, leaves)[output]
	cotangent := b.Input("cotangent", y.DType(), y.Shape())
	for i, d := range frontend.VJP([]frontend.Tensor{y}, []frontend.Tensor{cotangent}, with...) {
		b.Output("gradient of "+params[i], d)
	}
}
