package lower

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// sameExperts reports whether two expert matmuls can share one loop: they have the same rows and the same expert ids,
// and matrices of the same shape.
func sameExperts(a, b *ir.Node) bool {
	if a.Op() != b.Op() || analysis.Precision(a) != analysis.Precision(b) || len(a.Args()) != len(b.Args()) ||
		!a.Shape().Equal(b.Shape()) {
		return false
	}
	for i := range a.Args() {
		if i != 1 && a.Arg(i) != b.Arg(i) {
			return false
		}
	}
	return true
}

// lowerMatMulID makes the kernel of an expert matmul, in which an id selects the matrix for each row. Without a table
// of groups, every id is a batch of one row, which is good if few rows share a matrix. With a table, each group of rows
// with the same matrix is a batch: the kernel gathers its rows, and scatters its results to the rows' positions. The
// rows are [tokens, used or 1, depth], the matrices [experts, columns, depth], and the results [tokens, used, columns].
func (l *lowerer) lowerMatMulID() {
	first := l.c.Cores[0]
	l.space = first.Shape()
	tokens, used, cols := l.space[0], l.space[1], l.space[2]
	var expert *kernel.Expr
	if len(first.Args()) > 3 {
		expert = l.groupOfRows(first, cols)
	} else {
		grid := l.parallel(ir.Shape{tokens, used, ir.D(1), cols})
		l.at = []kernel.Index{grid[0], grid[1], grid[3]}
		expert = l.value(first.Arg(2), l.at[:2])
	}
	l.k.Fold = first.Arg(0).Shape()[2]
	fold := kernel.Axis(l.k.FoldAxis(), l.k.Fold)
	for i, n := range l.c.Cores {
		x, w := n.Arg(0), n.Arg(1)
		a := l.value(x, broadcastCoords(x.Shape(), []kernel.Index{l.at[0], l.at[1], fold}))
		b := l.value(w, []kernel.Index{l.indexOf(expert, kernel.Last(w.Shape()[0])), l.at[2], fold})
		l.addMatMul(n, a, b, i)
	}
	l.storeResults(perPoint)
}

// groupOfRows declares the axes [group, row of the group, column] and sets l.at to the position of that row. It returns
// the index of the group's matrix. Argument 3 is the table of groups, [groups, 1 + rows]: the index of a group's
// matrix, and then the positions of its rows in [tokens, used]. Guards skip unused groups and rows, which are -1.
func (l *lowerer) groupOfRows(n *ir.Node, cols ir.Dim) (expert *kernel.Expr) {
	table := n.Arg(3)
	groups, rows := table.Shape()[0], ir.D(int(table.Shape()[1].Add-1))
	grid := l.parallel(ir.Shape{groups, rows, cols})
	expert = l.value(table, []kernel.Index{grid[0], {}})
	row := l.value(table, []kernel.Index{grid[0], grid[1].Plus(kernel.Const(1))})
	exists := func(v *kernel.Expr) *kernel.Expr { return l.is(ir.OpGe, v, l.b.Integer(ir.I32, 0)) }
	l.k.Guard = &kernel.Guard{Batch: exists(expert), Row: exists(row)}
	tokens, used := l.space[0], l.space[1]
	end := kernel.DimIndex(tokens).Mul(kernel.DimIndex(used)).Minus(kernel.Const(1))
	from := kernel.Unflatten(ir.Shape{tokens, used}, l.indexOf(row, end))
	l.at = []kernel.Index{from[0], from[1], grid[2]}
	return expert
}

// lowerGroup makes the kernel of op expert_groups, which lists the positions of each expert in a table of groups.
func (l *lowerer) lowerGroup() {
	n := l.c.Cores[0]
	ids, table := n.Arg(0), n.Shape()
	l.k.Family = kernel.FamilyGroup
	l.space = ir.Shape{ir.D(n.Attrs().Int("experts"))}
	l.parallel(l.space)
	l.k.Fold = numel(ids.Shape())
	id := l.value(ids, kernel.Unflatten(ids.Shape(), kernel.Axis(l.k.FoldAxis(), l.k.Fold)))
	l.k.Group = &kernel.Group{Of: l.indexOf(id, kernel.Last(l.space[0])), Rows: table[1].Add - 1, Groups: table[0].Add,
		Bind: l.binding(n, writing)}
}
