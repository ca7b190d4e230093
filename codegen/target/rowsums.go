package target

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// JoinNorm reports whether a matrix product of few rows is faster with the kernel
// joined to it that makes its rows, by a sum along them: every workgroup then
// computes all of the rows again, and adds them up, but nothing waits for a kernel
// of few workgroups. Only the variant that goes over whole rows anyway does so.
func JoinNorm(product, joined *kernel.Kernel, caps Caps) bool {
	t := classOf(caps).tune(caps)
	if s, _, err := Select(product, caps); err != nil || s.Variant != kernel.VarMatVec {
		return false
	}
	s, _, err := Select(joined, caps)
	if err != nil || s.Variant != kernel.VarMatVec {
		return false
	}
	sh := matShapeOf(joined)
	read := sh.Batch * ceilDiv(sh.N, int64(s.TileN)) * sh.M * sh.K * int64(ir.F32.BlockBytes()) * int64(moreReads(product, joined, s))
	return rowCost(joined) <= maxRowCost && float64(read)/t.cacheRate() < t.normTime()
}

// maxRowCost is how many loads and operations an element of a row may take to be
// computed by every workgroup.
const maxRowCost = 6

// moreReads is how many elements a workgroup reads for each element of a row more
// than where rows are made for it.
func moreReads(product, joined *kernel.Kernel, s kernel.Schedule) int {
	loads := func(k *kernel.Kernel) int {
		var roots []*kernel.Expr
		for _, p := range k.Products {
			roots = append(roots, p.A)
		}
		return len(loadsAlong(roots, k.FoldAxis()))
	}
	more := loads(joined) - loads(product)
	if !SumsRowsFirst(s) { // of elements that it reads once more
		more++
	}
	return more
}

// SumsRowsFirst reports whether a matvec adds up its rows before it multiplies them: where invocations hold what they
// meet of them, they have just read it. Otherwise it does so in the end, when rows are in the cache, which is faster
// (M-norm-costs).
func SumsRowsFirst(s kernel.Schedule) bool { return s.Turns > 0 }

// rowCost counts the loads and operations that an element of all rows takes, and
// of their sums.
func rowCost(k *kernel.Kernel) int {
	var roots []*kernel.Expr
	for _, p := range k.Products {
		roots = append(roots, p.A)
	}
	for _, p := range k.Phases {
		roots = append(roots, p.Value)
	}
	cost, fold := 0, k.FoldAxis()
	kernel.Walk(roots, func(e *kernel.Expr) {
		switch {
		case !e.Uses(fold):
		case e.Kind == kernel.ExprRandom:
			cost += maxRowCost
		case e.Kind == kernel.ExprLoad, e.Kind == kernel.ExprApply:
			cost++
		}
	})
	return cost
}

// StoreFactor reports whether a matrix product that adds up its rows is faster if
// what it multiplies them by is in what it reads: not where it adds up what it has
// just read to multiply it.
func StoreFactor(product, reading *kernel.Kernel, caps Caps) bool {
	s, _, err := Select(reading, caps)
	return err == nil && s.Variant == kernel.VarMatVec && !SumsRowsFirst(s)
}

// checkRowSums checks what a matrix product that adds up its rows asks for.
func checkRowSums(k *kernel.Kernel, s kernel.Schedule) error {
	switch {
	case k.CheckRowSums() != nil:
		return k.CheckRowSums()
	case s.Variant != kernel.VarMatVec:
		return fmt.Errorf("only matvec adds up the rows that it multiplies")
	case !DivisibleBy(k.Fold, 4) || !k.Fold.IsStatic():
		return fmt.Errorf("rows of %s are added up, want a constant number of whole vectors of four", k.Fold)
	}
	return nil
}

// rowSumsShared is the room of the sums of rows that subgroups pass on.
func rowSumsShared(k *kernel.Kernel, s kernel.Schedule) int {
	if !k.RowSums() {
		return 0
	}
	return len(k.Phases) * s.TileM * (s.Workgroup / max(s.Subgroup, 1)) * ir.F32.BlockBytes()
}

// JoinSlices reports whether a matrix product of one row is faster if it stores
// what kernels made of slices of its row: nothing then waits for those.
func JoinSlices(product, joined *kernel.Kernel, caps Caps) bool {
	for _, k := range []*kernel.Kernel{product, joined} {
		if s, _, err := Select(k, caps); err != nil || s.Variant != kernel.VarMatVec {
			return false
		}
	}
	return true
}

// checkCols checks what a matrix product that stores its columns in several ways
// asks for: pairs that lie in one workgroup, and sums that meet in shared memory.
func checkCols(k *kernel.Kernel, s kernel.Schedule) error {
	switch {
	case k.CheckCols() != nil:
		return k.CheckCols()
	case s.Variant != kernel.VarMatVec:
		return fmt.Errorf("only matvec stores columns in several ways")
	case s.LanesPerRow < 2 || s.TileN%2 != 0:
		return fmt.Errorf("columns are stored in several ways where several invocations share sums, of whole pairs")
	}
	return nil
}
