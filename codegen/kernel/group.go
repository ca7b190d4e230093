package kernel

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Group is the computation of a kernel of FamilyGroup. It groups the elements of the fold axis by their group number
// Of. The kernel's one parallel axis ranges over the group numbers.
type Group struct {
	Of   Index // group number of an element, below the parallel extent
	Rows int64 // maximum number of elements per table row
	// Bind is the table, i32 [Groups, 1+Rows]. Each row has a group number and its elements in ascending order, padded
	// with -1. Unused rows are -1.
	Bind   int
	Groups int64
}

func (g *Group) describe(number map[*Expr]int) string {
	return fmt.Sprintf("group by [%s] into %d of %d rows: binding %d", g.Of.describe(number), g.Groups, g.Rows, g.Bind)
}

// Guard leaves parts of a kernel out. All are bools; nil is always true.
type Guard struct {
	// Point applies to a map. At a point for which it is false, the kernel computes only the condition.
	Point *Expr
	// Batch uses batch axes alone. The kernel skips a batch for which it is false.
	Batch *Expr
	// Row may use the row axis too. The kernel stores nothing to a row for which it is false.
	Row *Expr
	// Col may use batch axes and the column axis. The kernel stores nothing to a column for which it is false.
	Col *Expr
}

// parts lists the conditions that are set, and their names.
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

func (g *Guard) describe(number map[*Expr]int) string {
	text := ""
	conds, names := g.parts()
	for i, c := range conds {
		text += fmt.Sprintf(", %s where %%%d", names[i], number[c])
	}
	return "only" + strings.TrimPrefix(text, ",")
}

// CheckGroup reports an invalid kernel of FamilyGroup, or nil.
func (k *Kernel) CheckGroup() error {
	switch g := k.Group; {
	case g == nil || len(k.Parallel) != 1 || !k.Parallel[0].IsStatic():
		return fmt.Errorf("groups need one axis of as many numbers as there are")
	case g.Rows < 1 || g.Groups < 0 || g.Bind < 0 || g.Bind >= len(k.Bindings) || k.Bindings[g.Bind].DType != ir.I32:
		return fmt.Errorf("groups of %d rows in a table of %d that is not i32", g.Rows, g.Groups)
	case len(k.Stores)+len(k.Phases)+len(k.Products) > 0:
		return fmt.Errorf("a kernel that groups does nothing else")
	}
	return nil
}
