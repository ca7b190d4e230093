package rewrite

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// FindWrites recognizes new values of states that are spelled as a concat of unmoved parts of the old value and of new
// parts. It rewrites them to writes of the new parts.
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
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		old := found[n]
		if old == nil {
			return rw.Copy(n, args)
		}
		r, out, axis := &rewriter{g: rw.New, pos: n.Pos()}, rw.Mapped(old), n.Attrs().Int("axis")
		parts, offsets := partsOf(n)
		for i, p := range parts {
			if keptAt(p, offsets[i], n) != old {
				at := r.dimValue(offsets[i])
				out = r.add(ir.OpDynamicUpdateSlice, []*ir.Node{out, rw.Mapped(p), at},
					ir.Attr{Name: "axis", Value: axis})
			}
		}
		return out, r.err
	})
}

// partsOf returns the parts of a concat and their offsets along its axis.
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

// partlyKept returns the old value of which a concat has unmoved parts: a state, perhaps reshaped, or nil.
func partlyKept(n, state *ir.Node) *ir.Node {
	parts, offsets := partsOf(n)
	for i, p := range parts {
		if old := keptAt(p, offsets[i], n); old != nil && analysis.Unshaped(old) == state {
			return old
		}
	}
	return nil
}

// keptAt returns the tensor that a part of a concat slices, if the part is at the same position in it, or nil.
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
