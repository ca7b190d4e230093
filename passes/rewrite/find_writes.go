package rewrite

import (
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
