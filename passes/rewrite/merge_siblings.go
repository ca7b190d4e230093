package rewrite

import (
	"maps"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// MergeSiblings merges matmuls of the same operand with different weights (siblings) into one matmul with the weights
// concatenated, followed by a slice for each. So the query, key and value projections of a model become one kernel,
// which uses the device better and reads the operand once. Siblings that an elementwise op combines, such as gate and
// up projections, are not merged: fusion makes one kernel of both matmuls and that op. Biases of siblings that an
// attention reads are concatenated, too, and added before the slices, so that the kernel of the matmul adds them.
func MergeSiblings(g *ir.Graph) (*ir.Graph, error) {
	g, err := leavesFirst(g)
	if err != nil {
		return nil, err
	}
	groups := siblingGroups(g)
	biases := biasesOf(g, groups)
	added := map[*ir.Node]*ir.Node{} // by the op that adds a bias: its sibling
	for sibling, b := range biases {
		added[b.add] = sibling
	}
	merged := map[*ir.Node]*ir.Node{} // by first sibling: the merged matmul in the new graph
	return rewrite(g, nil, func(r *rewriter, n *ir.Node, args []*ir.Node) *ir.Node {
		if sibling := added[n]; sibling != nil {
			return r.mapped(sibling)
		}
		group := groups[n]
		if group == nil {
			return nil
		}
		m := merged[group[0]]
		if m == nil {
			m = r.mergedMatmul(group, args[0], biases)
			merged[group[0]] = m
		}
		last, start := n.Rank()-1, int64(0)
		for _, before := range group[:slices.Index(group, n)] {
			start += before.Shape()[last].Add
		}
		return r.sliceAxis(m, last, start, start+n.Shape()[last].Add)
	})
}

// mergedMatmul returns the matmul of x with the weights of all siblings, plus their biases.
func (r *rewriter) mergedMatmul(group []*ir.Node, x *ir.Node, biases map[*ir.Node]bias) *ir.Node {
	weights := make([]*ir.Node, len(group))
	for i, s := range group {
		weights[i] = r.mapped(storedWeight(s.Arg(1)))
	}
	along := columnsOf(group[0])
	all := r.concat(along, weights...)
	if b := group[0].Arg(1); b.Op() != ir.OpWeight { // a cast or dequantize
		all = r.unary(b.Op(), all, b.Attrs()...)
	}
	m := r.binary(ir.OpMatMul, x, all, attr("transpose_b", along == 0),
		attr("precision", analysis.Precision(group[0])))
	if bias := r.biasOf(group, biases); bias != nil {
		m = r.binary(ir.OpAdd, m, bias)
	}
	return m
}

// bias is the vector that an op adds to all rows of a matmul.
type bias struct{ add, vector *ir.Node }

// biasesOf returns the biases of the matmuls in groups. A matmul has a bias if it has a single user, an addition of a
// vector that is a weight or constant. biasesOf leaves out groups that are not the operands of one attention.
func biasesOf(g *ir.Graph, groups map[*ir.Node][]*ir.Node) map[*ir.Node]bias {
	users, shown := g.Users(), shownNodes(g)
	biases := map[*ir.Node]bias{}
	for n, group := range groups {
		if len(users[n.ID()]) != 1 || shown[n] || !attendTogether(group, users) {
			continue
		}
		add := users[n.ID()][0]
		if add.Op() != ir.OpAdd || !keepsShape(add, n) {
			continue
		}
		v := add.Arg(0)
		if v == n {
			v = add.Arg(1)
		}
		columns := n.Shape()[n.Rank()-1]
		// The vector has one element per column, and extents of 1 otherwise.
		isVector := v.Rank() > 0 && v.Shape()[v.Rank()-1] == columns && columns.Is(int(v.Shape().MaxElems()))
		if (v.Op() == ir.OpWeight || v.Op() == ir.OpConst) && isVector { // leaves can be concatenated before the matmul
			biases[n] = bias{add, v}
		}
	}
	return biases
}

// biasOf returns the biases of a group of siblings as one vector, or nil if none has one. A sibling without a bias gets
// -0, which changes no sum.
func (r *rewriter) biasOf(group []*ir.Node, biases map[*ir.Node]bias) *ir.Node {
	parts, some := make([]*ir.Node, len(group)), false
	for i, n := range group {
		columns := ir.Shape{n.Shape()[n.Rank()-1]}
		if b, ok := biases[n]; ok {
			parts[i], some = r.reshape(r.mapped(b.vector), columns), true
		} else {
			parts[i] = r.fill(n.DType(), math.Copysign(0, -1), columns)
		}
	}
	if !some {
		return nil
	}
	return r.concat(0, parts...)
}

// siblingGroups maps each matmul that is to be merged to its group of siblings, in the order of their slices.
func siblingGroups(g *ir.Graph) map[*ir.Node][]*ir.Node {
	users, live := g.Users(), g.Live()
	groups := map[*ir.Node][]*ir.Node{}
	for _, x := range g.Nodes() {
		var group []*ir.Node
		for _, u := range users[x.ID()] {
			if live[u.ID()] && mergeable(u, x) && (len(group) == 0 || similar(u, group[0])) {
				group = append(group, u)
			}
		}
		// A group that an elementwise op combines becomes one kernel by fusion, see MergeSiblings.
		if len(group) < 2 || feedOneOp(group, users) || columnsOf(group[0]) == 1 && !attendTogether(group, users) {
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

// columnsOf returns the axis of a matmul's weight along which its result's columns are: 0 if the weight is transposed.
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

// similar reports whether two matmuls can be siblings: they have the same precision, and their weights have the same
// dtype, are cast or dequantized to the same dtype, and have their columns along the same axis.
func similar(m, n *ir.Node) bool {
	a, b := m.Arg(1), n.Arg(1)
	return a.Op() == b.Op() && a.DType() == b.DType() && storedWeight(a).DType() == storedWeight(b).DType() &&
		columnsOf(m) == columnsOf(n) && analysis.Precision(m) == analysis.Precision(n)
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
	return slices.Contains(slices.Collect(maps.Values(met)), len(group))
}

// feedOneOp reports whether an elementwise op has two matmuls of the group as operands, directly or through other
// elementwise ops.
func feedOneOp(group []*ir.Node, users [][]*ir.Node) bool {
	// owner has, for each elementwise op, the matmul from which it was reached first.
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
