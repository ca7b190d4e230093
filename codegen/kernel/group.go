package kernel

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Group is what a kernel of FamilyGroup does: it groups the elements of the
// fold axis by the number Of has for each. Its one parallel axis goes over those
// numbers.
type Group struct {
	Of   Index // of an element: 0 … the parallel extent less 1
	Rows int64 // of a group, at most
	// Bind is the table, i32 [Groups, 1+Rows]: of each group the number and its
	// elements in ascending order, filled up with -1. Groups left over are -1.
	Bind   int
	Groups int64
}

func (g *Group) describe(number map[*Expr]int) string {
	return fmt.Sprintf("group by [%s] into %d of %d rows: binding %d", g.Of.describe(number), g.Groups, g.Rows, g.Bind)
}

// Guard leaves parts of a kernel out. All are bools; nil is always true.
type Guard struct {
	// Point is a map's, which has no other: of a point for which it is false nothing is
	// computed but the condition.
	Point *Expr
	// Batch uses batch axes alone: of a batch for which it is false nothing is
	// computed.
	Batch *Expr
	// Row may use the row axis, too: of a row for which it is false nothing is
	// stored.
	Row *Expr
	// Col may use batch axes and the column axis: of a column for which it is
	// false nothing is stored.
	Col *Expr
}

// parts are the conditions that there are, and what each is about.
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

// CheckGroup reports what is wrong with a kernel of FamilyGroup, or nil.
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
