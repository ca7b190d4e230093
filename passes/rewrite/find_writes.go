package rewrite

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// FindWrites recognizes a new value of a state that is a concat of slices of the old value, at their old positions, and
// of new parts. It rewrites it to a dynamic_update_slice for each new part.
func FindWrites(g *ir.Graph) (*ir.Graph, error) {
	found := map[*ir.Node]*ir.Node{} // by concat, the old value
	for _, u := range g.Updates() {
		if c := analysis.Unshaped(u.Value); c.Op() == ir.OpConcat {
			if old := partlyKept(c, u.State); old != nil {
				found[c] = old
			}
		}
	}
	if len(found) == 0 {
		return g, nil
	}
	return rewrite(g, nil, func(r *rewriter, n *ir.Node, _ []*ir.Node) *ir.Node {
		old := found[n]
		if old == nil {
			return nil
		}
		out, axis := r.mapped(old), n.Attrs().Int("axis")
		parts, offsets := partsOf(n)
		for i, p := range parts {
			// Parts of the old value stay where they are.
			if keptAt(p, offsets[i], n) != old {
				at := r.dimValue(offsets[i])
				out = r.add(ir.OpDynamicUpdateSlice, []*ir.Node{out, r.mapped(p), at}, attr("axis", axis))
			}
		}
		return out
	})
}

// partsOf returns the arguments of a concat and their offsets along its axis, or nil if an offset cannot be expressed.
func partsOf(n *ir.Node) (parts []*ir.Node, offsets []ir.Dim) {
	axis, err := ir.ResolveAxis(int64(n.Attrs().Int("axis")), n.Rank())
	at := ir.D(0)
	for _, p := range n.Args() {
		if err != nil {
			return nil, nil
		}
		parts, offsets = append(parts, p), append(offsets, at)
		at, err = at.Sum(p.Shape()[axis])
	}
	return parts, offsets
}

// partlyKept returns the state, or a reshape of it, if concat n contains a slice of it at the slice's old position. It
// returns nil otherwise.
func partlyKept(n, state *ir.Node) *ir.Node {
	parts, offsets := partsOf(n)
	for i, p := range parts {
		if old := keptAt(p, offsets[i], n); old != nil && analysis.Unshaped(old) == state {
			return old
		}
	}
	return nil
}

// keptAt returns the tensor that `part` slices, if the slice's position in that tensor equals its offset in concat n.
// It returns nil otherwise.
func keptAt(part *ir.Node, offset ir.Dim, n *ir.Node) *ir.Node {
	if part.Op() != ir.OpSlice || !part.Arg(0).Shape().Equal(n.Shape()) {
		return nil
	}
	axis := analysis.Axis(n)
	for _, step := range part.Attrs().Ints("steps") {
		if step != 1 {
			return nil
		}
	}
	for i, from := range part.Attrs().Ints("starts") {
		// The slice begins at its own offset along the axis of the concat, and at 0 along the other axes.
		want := ir.D(0)
		if i == axis {
			want = offset
		}
		if want != (ir.Dim{Add: from}) {
			return nil
		}
	}
	return part.Arg(0)
}

// SeparateBuffers gives each output and state a value of its own, so that no two share a buffer. It inserts a copy
//
//   - for an output that is a leaf, or that is also the new value of a state written in place;
//   - for the new value of a state that is not written in place;
//   - for an operand of a write in place that depends on the state's old value.
//
// A copy is a reshape to the same shape, which fusion turns into a store. A quantize with a single reader stores its
// blocks directly in the state; with several readers it is repeated for each write. SeparateBuffers also decomposes
// scatters that turn out not to be in place.
func SeparateBuffers(g *ir.Graph, pricer kernel.Pricer) (*ir.Graph, error) {
	out, err := copyOperands(g, pricer)
	if err != nil {
		return nil, err
	}
	return copyResults(out)
}

// copyOperands copies the operands of writes in place that depend on the state's old value, and decomposes scatters
// that are not in place.
func copyOperands(g *ir.Graph, pricer kernel.Pricer) (*ir.Graph, error) {
	before := analysis.NewOverwrites(g)
	states := before.Writes()
	return rewrite(g, pricer, func(r *rewriter, n *ir.Node, args []*ir.Node) *ir.Node {
		for i, x := range n.Args() {
			if before.StoresFirst(x, n) {
				args[i] = r.copied(args[i])
			}
		}
		if w, ok := analysis.WriteOf(n); ok && w.Op == n && n.DType().IsBlock() {
			if !states[n] {
				bailout.Check(fmt.Errorf("%s writes blocks, which only writes into a state in place can do: %s",
					analysis.OpAt(n), before.WhyNot(w)))
			}
			i := slices.Index(n.Args(), w.Values())
			if x := n.Arg(i); x.Op() == ir.OpQuantize && !before.ReadOnce(x) { // the quantize stores its blocks there
				args[i] = r.unary(ir.OpQuantize, args[i].Arg(0), x.Attrs()...)
			}
		}
		if analysis.IsScatter(n) && !states[n] { // Decompose left it to be in place, but a later pass added a reader
			return r.decomposed(n, args)
		}
		return nil
	})
}

// copyResults copies the new values of states that are not written in place, and the outputs that would share a buffer.
func copyResults(g *ir.Graph) (_ *ir.Graph, err error) {
	fresh := ir.NewLike(g)
	r := &nodes{g: fresh}
	defer bailout.Caught(&err)
	own, err := ir.CopyInto(fresh, g)
	bailout.Check(err)
	states := analysis.NewOverwrites(g)
	inPlace := map[*ir.Node]bool{}
	for _, u := range g.Updates() {
		state, value := own[u.State.ID()], own[u.Value.ID()]
		switch {
		case states.InPlace[u.State] != nil:
			inPlace[u.Value] = true
		case u.Value.Op() == ir.OpQuantize && states.OnlyUpdates(u.Value): // the quantize stores into the state
		default:
			if analysis.IsLeaf(value) { // save its old value: it may be a state that another update overwrites
				value = r.copied(value)
			}
			value = r.copied(value) // the copy that writes the state
		}
		bailout.Check(fresh.Update(state, value))
	}
	for _, o := range g.Outputs() {
		n := own[o.Node.ID()]
		if analysis.IsLeaf(n) || inPlace[o.Node] {
			n = r.copied(n)
		}
		bailout.Check(fresh.Output(o.Name, n))
	}
	return fresh, nil
}
