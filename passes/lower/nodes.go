package lower

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// isCore reports whether an element of n needs a loop over several elements of its arguments; see [Cluster].
func isCore(n *ir.Node) bool {
	switch n.Op().Class() {
	case ir.ClassReduce, ir.ClassContraction, ir.ClassAttention:
		return true
	case ir.ClassRow:
		return n.Op() != ir.OpRope
	}
	return n.Op().Info().Running != 0 || n.Op() == ir.OpExpertGroups || n.Op() == ir.OpQuantize || isOrder(n) ||
		isConv(n) || isWindowRow(n) || isRecurrence(n)
}

// isView reports whether n only reads its argument at other coordinates, such as transpose.
func isView(n *ir.Node) bool { return n.Op().Class() == ir.ClassView }

// isFree reports whether computing an element of n costs no more than loading it.
func isFree(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpDequantize:
		return true
	case ir.OpCast:
		return isFree(n.Arg(0)) || analysis.IsLeaf(n.Arg(0)) && n.Arg(0).Op() != ir.OpInput
	}
	return isView(n) && isFree(n.Arg(0)) || analysis.IsLeaf(n)
}
