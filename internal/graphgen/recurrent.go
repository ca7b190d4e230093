package graphgen

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// recurrence adds an op that computes along time with a state. It draws arguments for which the state stays small:
// decays are less than 1, and keys and corrections are at most 0.02.
func (g *generator) recurrence() *ir.Node {
	batch := g.shape(g.rng.IntN(2))
	of := func(t ir.DType, dims ...ir.Dim) *ir.Node { return g.batched(batch, t, dims...) }
	t, times := g.float, g.dims[g.rng.IntN(len(g.dims))]
	result := attr("of", []string{"y", "state"}[g.rng.IntN(2)])
	if g.rng.IntN(3) == 0 {
		channels, size := ir.D(1+g.rng.IntN(5)), ir.D(1+g.rng.IntN(5))
		args := []*ir.Node{of(t, times, channels), g.leaf(ir.Shape{channels, size}, t), of(t, size.Plus(-1), channels)}
		return g.recurrent(ir.OpCausalConv1D, args, result)
	}
	groups := 1 + g.rng.IntN(2)
	heads := ir.D(groups * (1 + g.rng.IntN(2)))
	rows, keys := ir.D(1+g.rng.IntN(4)), ir.D(1+g.rng.IntN(20))
	each := []ir.Dim{ir.D(1), keys}[g.rng.IntN(2)]
	// small returns tanh(x)*mul + add, from add-mul to add+mul.
	small := func(x *ir.Node, mul, add float64) *ir.Node {
		if x == nil {
			return nil
		}
		return g.add(ir.OpAffine, []*ir.Node{g.add(ir.OpTanh, []*ir.Node{x})}, attr("mul", mul), attr("add", add))
	}
	vectors := func(groups ir.Dim) *ir.Node { return small(of(t, times, groups, keys), 0.02, 0) }
	state := small(of(t, heads, rows, keys), 1, 0)
	steps := small(of(t, times, heads, rows), 1, 0)
	if g.rng.IntN(2) == 0 {
		return g.recurrent(ir.OpSSMScan, []*ir.Node{steps, small(of(t, times, heads), 0.25, 0.5),
			small(g.leaf(ir.Shape{heads, each}, t), 0.25, -0.5), vectors(ir.D(groups)), vectors(heads), state}, result)
	}
	args := []*ir.Node{vectors(heads), vectors(ir.D(groups)), steps,
		small(of(t, times, heads, each), 0.25, -0.5), state}
	if g.rng.IntN(2) == 0 {
		args = append(args, vectors(heads), vectors(ir.D(groups)))
	}
	return g.recurrent(ir.OpDeltaRule, args, result)
}

// batched adds a leaf with the batch axes and dims, or returns nil if that is too large.
func (g *generator) batched(batch ir.Shape, t ir.DType, dims ...ir.Dim) *ir.Node {
	shape := slices.Concat(batch, dims)
	if !g.fits(shape) {
		return nil
	}
	return g.leaf(shape, t)
}

// recurrent adds the op, unless an argument would be too large.
func (g *generator) recurrent(op ir.Op, args []*ir.Node, of ir.Attr) *ir.Node {
	for _, a := range args {
		if a == nil {
			return nil
		}
	}
	return g.add(op, args, of)
}

// recurrent sets b to a bound of the results of the ops that recurrence adds. In a scan, a step adds at most 0.02 to an
// element of the state, which is below 1 at first, and multiplies the state by at most exp(-1/16). So states and
// results stay below 4.
func (b *Bound) recurrent(n *ir.Node, args []Bound) {
	var most, wrong float64
	for _, a := range args {
		most, wrong = max(most, a.mag()), max(wrong, a.Err)
	}
	// m bounds the results. each is the largest factor by which an argument's error grows.
	m, each := 4.0, 64.0
	if n.Op() == ir.OpCausalConv1D {
		taps := float64(n.Arg(1).Shape()[1].Max())
		m, each = most*max(1, most*taps), 1+2*taps*most
	}
	b.Lo, b.Hi, b.Err = -m, m, each*wrong+256*m
}
