package rewrite

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// MergeSiblings merges matmuls of the same operand with different weights (siblings) into one matmul with the weights
// concatenated, followed by a slice for each. So the query, key and value projections of a model become one kernel,
// which uses the device better and reads the operand once. Siblings that an elementwise op combines, such as gate and
// up projections, are not merged: fusion makes one kernel of both matmuls and that op.
func MergeSiblings(g *ir.Graph) (*ir.Graph, error) {
	g, err := leavesFirst(g)
	if err != nil {
		return nil, err
	}
	groups := siblingGroups(g)
	merged := map[*ir.Node]*ir.Node{} // by first sibling: the merged matmul in the new graph
	return rewrite(g, nil, func(r *rewriter, n *ir.Node, args []*ir.Node) *ir.Node {
		group := groups[n]
		if group == nil {
			return nil
		}
		m := merged[group[0]]
		if m == nil {
			weights := make([]*ir.Node, len(group))
			for i, s := range group {
				weights[i] = r.mapped(storedWeight(s.Arg(1)))
			}
			along := columnsOf(group[0])
			all := r.add(ir.OpConcat, weights, attr("axis", along))
			if b := group[0].Arg(1); b.Op() != ir.OpWeight {
				all = r.add(b.Op(), []*ir.Node{all}, b.Attrs()...)
			}
			m = r.add(ir.OpMatMul, []*ir.Node{args[0], all}, attr("transpose_b", along == 0),
				attr("precision", analysis.Precision(group[0])))
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
		return r.slice(m, starts, limits)
	})
}

// siblingGroups maps each matmul that is to be merged to its group of siblings.
func siblingGroups(g *ir.Graph) map[*ir.Node][]*ir.Node {
	users, live := g.Users(), g.Live()
	groups := map[*ir.Node][]*ir.Node{}
	for _, x := range g.Nodes() {
		var group []*ir.Node
		for _, u := range users[x.ID()] {
			if live[u.ID()] && mergeable(u, x) &&
				(len(group) == 0 || sameStorage(u.Arg(1), group[0].Arg(1)) && columnsOf(u) == columnsOf(group[0]) &&
					analysis.Precision(u) == analysis.Precision(group[0])) {
				group = append(group, u)
			}
		}
		if len(group) < 2 || combined(group, users) || columnsOf(group[0]) == 1 && !attendTogether(group, users) {
			continue
		}
		for _, n := range group {
			groups[n] = group
		}
	}
	return groups
}

// mergeable reports whether n is a matmul of x with a weight that can be concatenated along its columns.
func mergeable(n, x *ir.Node) bool {
	return n.Op() == ir.OpMatMul && n.Arg(0) == x && n.Arg(1) != x && !n.Attrs().Bool("transpose_a") &&
		storedWeight(n.Arg(1)) != nil && n.Arg(1).Rank() == 2 &&
		(columnsOf(n) == 0 || !storedWeight(n.Arg(1)).DType().IsBlock()) // blocks go along rows
}

// columnsOf returns the axis of a matmul's weight that is the columns of the result.
func columnsOf(n *ir.Node) int {
	if n.Attrs().Bool("transpose_b") {
		return 0
	}
	return 1
}

// storedWeight returns n if it is a weight, or the weight that n casts or dequantizes, or nil.
func storedWeight(n *ir.Node) *ir.Node {
	if n.Op() == ir.OpCast || n.Op() == ir.OpDequantize {
		n = n.Arg(0)
	}
	if n.Op() != ir.OpWeight {
		return nil
	}
	return n
}

// sameStorage reports whether two matmul operands are weights of the same dtype, cast or dequantized to the same dtype.
func sameStorage(a, b *ir.Node) bool {
	return a.Op() == b.Op() && a.DType() == b.DType() && storedWeight(a).DType() == storedWeight(b).DType()
}

// leavesFirst moves the leaves before all other nodes. A merged matmul, at the position of its first sibling, can then
// read the weights of all siblings.
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

// attendTogether reports whether all matmuls of a group are operands of one attention, through elementwise ops and
// views. An attention kernel can compute these ops on slices of a merged matmul as it loads them. Other elementwise ops
// after a merged matmul would become separate kernels.
func attendTogether(group []*ir.Node, users [][]*ir.Node) bool {
	met := map[*ir.Node]int{} // by attention: the number of matmuls that it depends on
	for _, n := range group {
		seen, work := map[*ir.Node]bool{}, []*ir.Node{n}
		for len(work) > 0 {
			x := work[0]
			work = work[1:]
			for _, u := range users[x.ID()] {
				if seen[u] {
					continue
				}
				seen[u] = true
				switch u.Op().Class() {
				case ir.ClassElementwise, ir.ClassView:
					work = append(work, u)
				case ir.ClassAttention:
					met[u]++
				}
			}
		}
	}
	for _, n := range met {
		if n == len(group) {
			return true
		}
	}
	return false
}

// combined reports whether an elementwise op has two matmuls of the group as operands, through elementwise ops.
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
