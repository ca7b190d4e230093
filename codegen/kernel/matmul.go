package kernel

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// String prints the columns as a phrase, such as " of columns 0 to 63", or "" for all columns.
func (c Cols) String() string {
	if c.All() {
		return ""
	}
	return fmt.Sprintf(" of columns %d to %d", c.From, c.To-1)
}

// CutsCols reports whether a matmul's stores differ between columns.
func (k *Kernel) CutsCols() bool {
	return slices.ContainsFunc(k.Stores, func(s Store) bool { return !s.Cols.All() })
}

// CheckCols returns an error for a column range that a matmul cannot store separately: a range outside of the result,
// or one that splits a pair of columns that a store combines.
func (k *Kernel) CheckCols() error {
	for i, s := range k.Stores {
		if s.Cols.All() {
			if s.Where != nil {
				return fmt.Errorf("store %d has a condition, and is of all columns", i)
			}
			continue
		}
		n := len(k.Parallel)
		if k.Family != FamilyMatMul || n < 2 || !k.Parallel[n-1].IsStatic() || s.Cols.From < 0 ||
			s.Cols.To > k.Parallel[n-1].Add || s.Cols.From >= s.Cols.To {
			return fmt.Errorf("store %d of a %s kernel is%s, which it does not have", i, k.Family, s.Cols)
		}
		// Such a store also reads the other sum of a pair.
		if (s.Cols.From%2 != 0 || s.Cols.To%2 != 0) && len(OtherSums(s)) > 0 {
			return fmt.Errorf("store %d is%s, which are not whole pairs", i, s.Cols)
		}
	}
	return nil
}

// OtherSums lists the results of other columns that a store needs; see [Builder.AccOfPair].
func OtherSums(s Store) []*Expr {
	var list []*Expr
	Walk([]*Expr{s.Value}, func(e *Expr) {
		if e.Kind == ExprAcc && e.Other {
			list = append(list, e)
		}
	})
	return list
}

// PhaseAcc is the result number (Expr.Acc) of phase i. The phases of a matmul kernel are numbered after its matmuls.
func (k *Kernel) PhaseAcc(i int) int { return len(k.MatMuls) + i }

// RowSums reports whether a kernel is a matmul that also has phases. Each phase is a sum along the contraction axis, of
// a value that does not depend on the column. Stores may use the matmuls' and the phases' results. So a factor of a
// whole row, such as a norm's, need not be known before the row is multiplied.
func (k *Kernel) RowSums() bool { return k.Family == FamilyMatMul && len(k.Phases) > 0 }

// CheckRowSums returns an error for phases that a matmul cannot have.
func (k *Kernel) CheckRowSums() error {
	col := len(k.Parallel) - 1 // the axis of the matmul's columns
	for i, p := range k.Phases {
		switch {
		case p.Combine != CombineSum || p.Value.DType != ir.F32 || p.Exclusive:
			return fmt.Errorf("phase %d (%s) of a matmul is a %s of %s, want a sum of f32", i, p.Name,
				p.Combine, p.Value.DType)
		case p.Value.Uses(col) || p.Value.UsesAnyAcc():
			return fmt.Errorf("phase %d (%s) of a matmul uses a column or a result", i, p.Name)
		}
	}
	if k.Guard != nil || slices.ContainsFunc(k.MatMuls, func(p MatMul) bool { return p.Sums() != ir.F32 }) {
		return fmt.Errorf("a matmul that adds up its rows leaves out parts, or has results other than f32")
	}
	return nil
}
