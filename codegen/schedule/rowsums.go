package schedule

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// maxRowCost is how many loads and operations an element of a row may take to be
// computed by every workgroup.
const maxRowCost = 6

// SumsRowsFirst reports whether a matvec adds up its rows before it multiplies them: where invocations hold what they
// meet of them, they have just read it. Otherwise it does so in the end, when rows are in the cache, which is faster
// (M-norm-costs).
func SumsRowsFirst(s kernel.Schedule) bool { return s.Coarsen > 0 }

// rowRoots are what each element of its rows takes a product of few rows, and what it
// adds up of them.
func rowRoots(k *kernel.Kernel) (factors, sums []*kernel.Expr) {
	for _, p := range k.Products {
		factors = append(factors, p.A)
	}
	for _, p := range k.Phases {
		sums = append(sums, p.Value)
	}
	return factors, sums
}

// rowCost counts the loads and operations that an element of all rows takes, and
// of their sums.
func rowCost(k *kernel.Kernel) int {
	factors, sums := rowRoots(k)
	cost, fold := 0, k.FoldAxis()
	kernel.Walk(append(factors, sums...), func(e *kernel.Expr) {
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

// matVecTime estimates the time of a product of few rows in nanoseconds, and says why
// where that is not known. Every workgroup computes all of the rows, and adds them up.
func (h heuristics) matVecTime(k *kernel.Kernel, caps device.Caps) (float64, string) {
	s, _, err := Select(k, caps)
	switch {
	case err != nil:
		return 0, "no schedule runs " + k.Name
	case s.Variant != kernel.VarMatVec:
		return 0, fmt.Sprintf("nothing is known of the time of %s", s.Variant)
	case matShapeOf(k).M > MaxMatVecRows && h.direct != (tile{}):
		return 0, "nothing is known of the time of such rows straight from memory"
	case k.RowSums() && rowCost(k) > maxRowCost:
		return 0, "rows are dear to compute in every workgroup"
	}
	return h.multiplyingTime(k, s), ""
}

// vecEfficiency is what products of few rows of floats reach of the arithmetic outside matrix units (M-batch).
const vecEfficiency = 0.3

// multiplyingTime is how long a product of few rows takes: its reading or, of more rows than an invocation takes, its
// arithmetic if that is longer.
func (h heuristics) multiplyingTime(k *kernel.Kernel, s kernel.Schedule) float64 {
	sh, time := matShapeOf(k), h.readingTime(k, s)
	if sh.M <= MaxMatVecRows {
		return time
	}
	// Lanes that share a sum add it up in steps, each of which takes them as long as multiplying.
	lanes := max(s.LanesPerRow, 1)
	each := int64(lanes) * (ceilDiv(sh.K, int64(lanes)) + int64(bits.Len(uint(lanes))) - 1)
	flops := 2 * float64(sh.Batch*sh.M) * float64(sh.N) * float64(each) * float64(len(k.Products))
	return max(time, flops/(vecEfficiency*h.VectorF32*1e3))
}

// readingTime is how long reading what a product of few rows multiplies takes: B once for every part of the rows, and
// the rows by every workgroup.
func (h heuristics) readingTime(k *kernel.Kernel, s kernel.Schedule) float64 {
	factors, sums := rowRoots(k)
	loads := len(loadsAlong(append(slices.Clone(factors), sums...), k.FoldAxis()))
	if !SumsRowsFirst(s) { // but once more
		loads = len(loadsAlong(factors, k.FoldAxis())) + len(loadsAlong(sums, k.FoldAxis()))
	}
	sh := matShapeOf(k)
	rows := sh.Batch * ceilDiv(sh.N, int64(s.TileN)) * sh.M * sh.K * int64(ir.F32.BlockBytes()*loads)
	weights := weightBytes(k)
	again := h.cacheRate()
	if weights > uint64(h.cache) {
		again = h.CopyGBps
	}
	oftener := float64(matVecParts(sh.M) - 1)
	return float64(weights)/h.CopyGBps + oftener*float64(weights)/again + float64(rows)/h.cacheRate()
}

// weightBytes is how much of memory the second operands of a product are.
func weightBytes(k *kernel.Kernel) (n uint64) {
	for _, p := range k.Products {
		kernel.Walk([]*kernel.Expr{p.B}, func(e *kernel.Expr) {
			if e.Kind == kernel.ExprLoad {
				n += bindingBytes(k.Bindings[e.Bind])
			}
		})
	}
	return n
}

// matVecParts is how many workgroups share the rows of a matvec.
func matVecParts(rows int64) int64 { return max(ceilDiv(rows, MaxMatVecRows), 1) }

// readsOftenFaster reports whether a product of more rows than an invocation of a matvec takes is expected to be faster
// where B is read for each part of them than in a tile, of which such rows fill a part.
func (h heuristics) readsOftenFaster(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) bool {
	if matShapeOf(k).M <= MaxMatVecRows {
		return true
	}
	time, units := h.bestMatrixTime(k, caps, 1)
	if !units {
		time = h.vectorTime(k, 1)
	}
	return h.multiplyingTime(k, s) < time
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
