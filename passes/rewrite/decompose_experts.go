package rewrite

import "github.com/vkc-go/vkc/ir"

// An expert matmul with many rows collects the rows of one matrix in groups of this size, a multiple of a matmul's
// tile.
const (
	minGroupRows = 16
	maxGroupRows = 128
	// maxGrouped limits the number of matrices. The kernel that makes the groups counts the rows of each in shared
	// memory, and some devices have only 16 KiB.
	maxGrouped = 3 << 10
)

// groupRows returns the number of rows per group for expert matmul n. It returns 0 if so few rows share a matrix that
// multiplying each row separately is better, and in f64, which has no kernel for groups. A group has room for 1.5 times
// the average number of rows per matrix: then most matrices are read once, and groups have little padding.
func groupRows(n *ir.Node) int64 {
	rows, experts := n.Arg(2).Shape().MaxElems(), n.Arg(1).Shape()[0].Add
	if n.DType() == ir.F64 || rows <= 2*experts || rows < minGroupRows || experts > maxGrouped {
		return 0
	}
	size := int64(minGroupRows)
	for size < maxGroupRows && size*experts < rows*3/2 {
		size *= 2
	}
	return size
}

// matmulID adds a table of groups to an expert matmul with many rows, or returns nil if groups are not worth it. In f64
// it dequantizes the matrices instead.
func (r *rewriter) matmulID(n *ir.Node, args []*ir.Node) *ir.Node {
	if n.DType() == ir.F64 && args[1].DType().IsBlock() {
		matrices := r.unary(ir.OpDequantize, args[1], attr("dtype", n.DType()))
		return r.add(ir.OpMatMulID, []*ir.Node{args[0], matrices, args[2]}, n.Attrs()...)
	}
	rows := groupRows(n)
	if len(args) > 3 || rows == 0 {
		return nil
	}
	groups := r.unary(ir.OpExpertGroups, args[2], attr("experts", n.Arg(1).Shape()[0].Add), attr("rows", rows))
	return r.add(ir.OpMatMulID, append(args[:3:3], groups), attr("precision", n.Attrs().String_("precision")))
}
