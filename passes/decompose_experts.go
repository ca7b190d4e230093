package passes

import "github.com/vkc-go/vkc/ir"

// Sizes of the groups of rows that multiply one matrix: what tiles of products
// are multiples of.
const (
	minGroupRows = 16
	maxGroupRows = 128
	// maxGrouped is the most matrices that rows are grouped by: their counts are
	// kept in shared memory, of which every device has 16 KiB.
	maxGrouped = 3 << 10
)

// groupRows returns how many rows to a group suit a product with matrices that
// ids pick, or 0 where so few rows share a matrix that each is better multiplied
// by itself. A group holds half more rows than a matrix has on average: then
// most matrices are read once, and not much of the groups is empty.
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

// matmulID adds groups to a product of many rows.
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
