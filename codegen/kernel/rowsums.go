package kernel

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

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
