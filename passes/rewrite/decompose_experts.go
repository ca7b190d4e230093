package rewrite

import "github.com/vkc-go/vkc/ir"

// Sizes of the groups of rows that are multiplied by one matrix. They are multiples of a matmul's tile.
const (
	minGroupRows = 16
	maxGroupRows = 128
	// maxGrouped limits the number of matrices, because their counts are kept in shared memory, of which every device
	// has 16 KiB.
	maxGrouped = 3 << 10
)

// groupRows returns a good number of rows per group for a matmul with matrices selected by ids. It returns 0 if so few
// rows share a matrix that multiplying each separately is better. A group holds 1.5 times the average number of rows
// per matrix: then most matrices are read once, and little of the groups is padding.
func groupRows(n *ir.Node) int64 {
	rows, experts := n.Arg(2).Shape().MaxElems(), n.Arg(1).Shape()[0].Add
	if rows <= 2*experts || rows < minGroupRows || experts > maxGrouped {
		return 0
	}
	size := int64(minGroupRows)
	for size < maxGroupRows && size*experts < rows*3/2 {
		size *= 2
	}
	return size
}

// matmulID adds groups to an expert matmul with many rows.
func (r *rewriter) matmulID(n *ir.Node, args []*ir.Node) *ir.Node {
	rows := groupRows(n)
	if len(args) > 3 || rows == 0 {
		return nil
	}
	groups := r.unary(ir.OpExpertGroups, args[2],
		ir.Attr{Name: "experts", Value: n.Arg(1).Shape()[0].Add}, ir.Attr{Name: "rows", Value: rows})
	return r.add(ir.OpMatMulID, append(args[:3:3], groups),
		ir.Attr{Name: "precision", Value: n.Attrs().String_("precision")})
}
