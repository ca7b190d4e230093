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
			if rest, ok := withGradients(params, err); ok {
				params = rest
				continue
			}
			return nil, false, unlessRefusal(err)
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

// Train returns a training step of a random graph: its float inputs and weights of fixed extents become states with
// random initial values, and rule makes their next values from the gradients of a scalar loss, such as by
// [optim.Train]. If a graph has no such parameters, Train tries other graphs. The result depends on seed, opt and rule
// only.
func Train(seed uint64, opt graphgen.Options, rule func(b *frontend.Builder, params, grads []frontend.Tensor)) (
	*ir.Graph, error) {
	rng := rand.New(rand.NewPCG(seed, 0x7472616e)) // "tran" in ASCII; any constant would do
	for of := seed; ; of = rng.Uint64() {
		if g, ok, err := trained(of, opt, rule); ok || err != nil {
			return g, err
		}
	}
}

// trained is Train for one random graph. ok is false if it cannot be trained.
func trained(seed uint64, opt graphgen.Options, rule func(b *frontend.Builder, params, grads []frontend.Tensor)) (
	g *ir.Graph, ok bool, err error) {
	of, err := graphgen.New(seed, opt)
	if err != nil || len(of.Leaves(ir.OpState)) > 0 {
		return nil, false, err
	}
	var outputs []string
	for _, o := range of.Outputs() {
		if o.Node.DType().IsFloat() {
			outputs = append(outputs, o.Name)
		}
	}
	var params []string
	for _, n := range of.Nodes() {
		if (n.Op() == ir.OpInput || n.Op() == ir.OpWeight) && n.DType().IsFloat() && n.Shape().IsStatic() &&
			n.Shape().MaxElems() > 0 {
			params = append(params, n.Name())
		}
	}
	for len(outputs) > 0 && len(params) > 0 {
		g, err := frontend.Build(fmt.Sprintf("training of random %d", seed), func(b *frontend.Builder) {
			leaves, with := map[string]frontend.Tensor{}, make([]frontend.Tensor, len(params))
			for i, name := range params {
				n, _ := of.Named(name)
				initial := ir.InitialUniform(-1.5, 1.5, uint64(i))
				with[i] = b.StateFrom(initial, name, n.DType(), n.Shape())
				leaves[name] = with[i]
			}
			values := b.Inline(of, leaves)
			loss := b.Scalar(ir.F32, 0)
			for _, name := range outputs {
				loss = loss.Add(values[name].Cast(ir.F32).Sqr().Mean())
			}
			b.Output("loss", loss)
			rule(b, with, frontend.Grad(loss, with...))
		})
		if err == nil {
			big := func(n *ir.Node) bool { return n.Shape().MaxElems() > maxElems }
			return g, !slices.ContainsFunc(g.Nodes(), big), g.Verify()
		}
		if params, ok = withGradients(params, err); !ok {
			return nil, false, unlessRefusal(err)
		}
	}
	return nil, false, nil
}

// withGradients returns the parameters without the one that has no gradient according to an error of the builder, such
// as an operand of indices. It returns false if the error is another one.
func withGradients(params []string, err error) ([]string, bool) {
	var without int
	_, rest, found := strings.Cut(err.Error(), "there is no gradient for param ")
	if _, bad := fmt.Sscanf(rest, "%d", &without); !found || bad != nil || without >= len(params) {
		return nil, false
	}
	return slices.Delete(params, without, without+1), true
}

// unlessRefusal returns an error unless it is one of refusals.
func unlessRefusal(err error) error {
	if slices.ContainsFunc(refusals, func(text string) bool { return strings.Contains(err.Error(), text) }) {
		return nil
	}
	return err
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
