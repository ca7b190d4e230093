package rewrite

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// OwnValues gives outputs and states values of their own, so that no two share a buffer. It inserts a copy
//
//   - for an output that is a leaf, or the new value of a state that is written in place;
//   - before every update of a state that is not in place;
//   - for an operand of a write in place that depends on the state's old value.
//
// A copy is a reshape to the same shape, which fusion turns into a store. A quantize with a single reader stores its
// blocks directly in the state; with several readers it is repeated for each write. OwnValues also decomposes scatters
// that turn out not to be in place.
func OwnValues(g *ir.Graph, pricer kernel.Pricer) (*ir.Graph, error) {
	before := analysis.NewOverwrites(g, false)
	states := before.Writes()
	out, err := ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		r := &rewriter{g: rw.New, pos: n.Pos(), pricer: pricer}
		for i, x := range n.Args() {
			if before.StoresFirst(x, n) {
				args[i] = r.copied(args[i])
			}
		}
		if r.err != nil {
			return nil, r.err
		}
		if w, ok := analysis.WriteOf(n); ok && w.Op == n && n.DType().IsBlock() {
			if !states[n] {
				return nil, fmt.Errorf("%s writes blocks, which is done only into a state and in place: %s",
					analysis.OpAt(n), before.WhyNot(w))
			}
			i := slices.Index(n.Args(), w.Values())
			if x := n.Arg(i); x.Op() == ir.OpQuantize && !before.ReadOnce(x) { // the quantize stores its blocks there
				args[i] = r.unary(ir.OpQuantize, args[i].Arg(0), x.Attrs()...)
			}
			if r.err != nil {
				return nil, r.err
			}
		}
		if analysis.IsScatter(n) && !states[n] { // Decompose left it to be in place, but a later pass added a reader
			out := r.decomposed(n, args)
			return out, r.err
		}
		return rw.Copy(n, args)
	})
	if err != nil {
		return nil, err
	}
	fresh := ir.NewLike(g)
	own, err := ir.CopyInto(fresh, out)
	if err != nil {
		return nil, err
	}
	r := &rewriter{g: fresh}
	after := analysis.NewOverwrites(out, false)
	inPlace := map[*ir.Node]bool{}
	for _, u := range out.Updates() {
		state, value := own[u.State.ID()], own[u.Value.ID()]
		switch {
		case after.InPlace[u.State] != nil:
			inPlace[u.Value] = true
		case u.Value.Op() == ir.OpQuantize && after.OnlyUpdates(u.Value):
		default:
			if analysis.IsLeaf(value) { // may also be a state that is overwritten
				value = r.copied(value)
			}
			value = r.copied(value)
		}
		if r.err != nil {
			return nil, r.err
		}
		if err := fresh.Update(state, value); err != nil {
			return nil, err
		}
	}
	for _, o := range out.Outputs() {
		n := own[o.Node.ID()]
		if analysis.IsLeaf(n) || inPlace[o.Node] {
			n = r.copied(n)
		}
		if r.err != nil {
			return nil, r.err
		}
		if err := fresh.Output(o.Name, n); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}
