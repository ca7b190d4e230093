package rewrite

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// matmul casts the operands of a matmul to the result's dtype if they have different dtypes, and dequantizes an operand
// a in a block format. Fusion moves casts and dequantization into the matmul's loads. Operand b may stay in a block
// format, which the matmul's kernel decodes itself, except in f64.
//
// If each batch of a has one row, and all batches multiply the same matrix, the batches become the rows of one matmul.
func (r *rewriter) matmul(n *ir.Node, args []*ir.Node) *ir.Node {
	a, b := args[0], args[1]
	oneRow := a.Rank() > 2 && a.Shape()[a.Rank()-2].Is(1) && !n.Attrs().Bool("transpose_a")
	// err is set if no dim can express the number of rows.
	rows, err := a.Shape()[:a.Rank()-1].Numel()
	if oneRow && b.Rank() == 2 && !a.DType().IsBlock() && err == nil && !rows.Is(1) {
		flat := r.reshape(a, ir.Shape{rows, a.Shape()[a.Rank()-1]})
		return r.reshape(r.binary(ir.OpMatMul, flat, b, n.Attrs()...), n.Shape())
	}
	decoded := n.DType() != ir.F64
	if !a.DType().IsBlock() && (b.DType().IsBlock() && decoded || a.DType() == b.DType()) {
		return nil
	}
	args = slices.Clone(args)
	// b in a block format stays as it is.
	for i, x := range args {
		switch {
		case !x.DType().IsBlock():
			x = r.castTo(x, n.DType())
		case i == 0 || !decoded:
			x = r.unary(ir.OpDequantize, x, attr("dtype", n.DType()))
		}
		args[i] = x
	}
	return r.add(ir.OpMatMul, args, n.Attrs()...)
}

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
