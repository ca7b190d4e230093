package kernel

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Group is the computation of a kernel of FamilyGroup. It groups the elements of the fold axis by a group number, such
// as the tokens of a mixture of experts by their expert. The kernel's one parallel axis ranges over the group numbers.
type Group struct {
	Of   Index // group number of an element, below the parallel extent
	Rows int64 // maximum number of elements per table row
	// Bind is the binding of the table, i32 [Groups, 1+Rows]. A table row has a group number and up to Rows elements of
	// that group in ascending order, padded with -1. Unused table rows are -1.
	Bind   int
	Groups int64 // number of table rows
}

// describe prints the computation for a listing of kernels. number has the listing's numbers of expressions.
func (g *Group) describe(number map[*Expr]int) string {
	return fmt.Sprintf("group by [%s] into %d of %d rows: binding %d", g.Of.describe(number), g.Groups, g.Rows, g.Bind)
}

// Guard skips parts of a kernel. Each field is a bool expression; nil means true.
type Guard struct {
	// Point applies to a map. If it is false at a point, the kernel computes nothing there except the condition.
	Point *Expr
	// Batch uses only batch axes. If it is false for a batch, the kernel skips the batch.
	Batch *Expr
	// Row may also use the row axis. If it is false for a row, the kernel stores nothing to that row.
	Row *Expr
	// Col may use batch axes and the column axis. If it is false for a column, the kernel stores nothing to that
	// column.
	Col *Expr
}

// parts returns the conditions that are set, and the names of what they skip.
func (g *Guard) parts() (conds []*Expr, names []string) {
	if g == nil {
		return nil, nil
	}
	for i, c := range []*Expr{g.Point, g.Batch, g.Row, g.Col} {
		if c != nil {
			conds, names = append(conds, c), append(names, []string{"points", "batches", "rows", "columns"}[i])
		}
	}
	return conds, names
}

// describe prints the conditions for a listing of kernels.
func (g *Guard) describe(number map[*Expr]int) string {
	text := ""
	conds, names := g.parts()
	for i, c := range conds {
		text += fmt.Sprintf(", %s where %%%d", names[i], number[c])
	}
	return "only" + strings.TrimPrefix(text, ",")
}

// CheckGroup returns an error if the kernel is not a valid kernel of FamilyGroup.
func (k *Kernel) CheckGroup() error {
	switch g := k.Group; {
	case g == nil || len(k.Parallel) != 1 || !k.Parallel[0].IsStatic():
		return fmt.Errorf("groups need one axis of as many numbers as there are")
	case g.Rows < 1 || g.Groups < 0 || g.Bind < 0 || g.Bind >= len(k.Bindings) || k.Bindings[g.Bind].DType != ir.I32:
		return fmt.Errorf("groups of %d rows in a table of %d that is not i32", g.Rows, g.Groups)
	case len(k.Stores)+len(k.Phases)+len(k.MatMuls) > 0:
		return fmt.Errorf("a kernel that groups does nothing else")
	}
	return nil
}
