package passes

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// mergeSiblings turns products of one operand by several weights [N, K] into
// one product by the weights laid one after another, and slices of it. Query,
// key and value projections become one kernel that fills the device better
// and reads the operand once. Siblings that an elementwise op combines (gate
// and up projections) are left: as two products of one kernel they fuse with
// what combines them.
func mergeSiblings(g *ir.Graph) (*ir.Graph, error) {
	g, err := leavesFirst(g)
	if err != nil {
		return nil, err
	}
	groups := siblingGroups(g)
	merged := map[*ir.Node]*ir.Node{} // first sibling to the merged product, in the new graph
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		group := groups[n]
		if group == nil {
			return rw.Copy(n, args)
		}
		r := &rewriter{g: rw.New, pos: n.Pos()}
		m := merged[group[0]]
		if m == nil {
			weights := make([]*ir.Node, len(group))
			for i, s := range group {
				weights[i] = rw.Mapped(s.Arg(1))
			}
			all := r.add(ir.OpConcat, weights, ir.Attr{Name: "axis", Value: 0})
			m = r.add(ir.OpMatMul, []*ir.Node{args[0], all}, ir.Attr{Name: "transpose_b", Value: true})
			if r.err != nil {
				return nil, r.err
			}
			merged[group[0]] = m
		}
		start := int64(0)
		for _, s := range group {
			if s == n {
				break
			}
			start += s.Shape()[s.Rank()-1].Add
		}
		starts := make([]int64, n.Rank())
		starts[n.Rank()-1] = start
		limits := slices.Clone(m.Shape())
		limits[n.Rank()-1] = ir.Dim{Add: start + n.Shape()[n.Rank()-1].Add}
		out := r.unary(ir.OpSlice, m, ir.Attr{Name: "starts", Value: starts}, ir.Attr{Name: "limits", Value: limits})
		return out, r.err
	})
}

// siblingGroups maps each product that can be merged to all of its group.
func siblingGroups(g *ir.Graph) map[*ir.Node][]*ir.Node {
	users, live := g.Users(), g.Live()
	groups := map[*ir.Node][]*ir.Node{}
	for _, x := range g.Nodes() {
		var group []*ir.Node
		for _, u := range users[x.ID()] {
			if live[u.ID()] && mergeable(u, x) && (len(group) == 0 || u.Arg(1).DType() == group[0].Arg(1).DType()) {
				group = append(group, u)
			}
		}
		if len(group) < 2 || combined(group, users) {
			continue
		}
		for _, n := range group {
			groups[n] = group
		}
	}
	return groups
}

func mergeable(n, x *ir.Node) bool {
	return n.Op() == ir.OpMatMul && n.Arg(0) == x && n.Arg(1) != x && n.Attrs().Bool("transpose_b") && !n.Attrs().Bool("transpose_a") &&
		n.Arg(1).Op() == ir.OpWeight && n.Arg(1).Rank() == 2
}

// leavesFirst moves the leaves before all other nodes, so that a merged
// product can stand where its first sibling stood.
func leavesFirst(g *ir.Graph) (*ir.Graph, error) {
	var order []*ir.Node
	for _, leaves := range []bool{true, false} {
		for _, n := range g.Nodes() {
			if (n.Op().Class() == ir.ClassLeaf) == leaves {
				order = append(order, n)
			}
		}
	}
	return ir.Reorder(g, order)
}

// combined reports whether elementwise ops join two of the products.
func combined(group []*ir.Node, users [][]*ir.Node) bool {
	owner := map[*ir.Node]*ir.Node{}
	for _, n := range group {
		work := []*ir.Node{n}
		for len(work) > 0 {
			x := work[0]
			work = work[1:]
			for _, u := range users[x.ID()] {
				if u.Op().Class() != ir.ClassElementwise || !u.Shape().Equal(n.Shape()) {
					continue
				}
				if o, ok := owner[u]; ok {
					if o != n {
						return true
					}
					continue
				}
				owner[u] = n
				work = append(work, u)
			}
		}
	}
	return false
}
