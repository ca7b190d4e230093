package lower

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// isCore reports whether n needs its own loop.
func isCore(n *ir.Node) bool {
	switch n.Op().Class() {
	case ir.ClassReduce, ir.ClassContraction, ir.ClassAttention:
		return true
	case ir.ClassRow:
		return n.Op() != ir.OpRope
	}
	return n.Op().Info().Running != 0 || n.Op() == ir.OpExpertGroups || n.Op() == ir.OpQuantize || isOrder(n) ||
		isConv(n) || isWindowRow(n)
}

// isView reports whether n is only an index map.
func isView(n *ir.Node) bool { return n.Op().Class() == ir.ClassView }

// isFree reports whether recomputing n costs no more than loading it.
func isFree(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpDequantize:
		return true
	case ir.OpCast:
		return isFree(n.Arg(0)) || analysis.IsLeaf(n.Arg(0)) && n.Arg(0).Op() != ir.OpInput
	}
	return isView(n) && isFree(n.Arg(0)) || analysis.IsLeaf(n)
}
