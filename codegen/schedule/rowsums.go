package schedule

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// maxRowCost is the maximum number of loads and operations per row element that every workgroup may repeat.
const maxRowCost = 6

// SumsRowsFirst reports whether a matvec sums its rows before multiplying them. It does so if the rows are resident:
// the invocations have just read them. Otherwise it sums the rows at the end, when they are in the cache, which is
// faster (M-norm-costs).
func SumsRowsFirst(s kernel.MatVec) bool { return s.Coarsen > 0 }

// rowRoots returns the expressions that a matmul of few rows evaluates for each element of its rows: the operands A,
// and the values of its row sums.
func rowRoots(k *kernel.Kernel) (factors, sums []*kernel.Expr) {
	for _, p := range k.MatMuls {
		factors = append(factors, p.A)
	}
	for _, p := range k.Phases {
		sums = append(sums, p.Value)
	}
	return factors, sums
}

// rowCost counts the loads and operations per element of all rows, including their row sums.
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

// matVecTime estimates the time in nanoseconds of a matmul of few rows. If it is unknown, it returns the reason. Every
// workgroup computes all rows and their sums.
func (h heuristics) matVecTime(k *kernel.Kernel, caps device.Caps) (float64, string) {
	selected, _, err := Select(k, caps)
	if err != nil {
		return 0, "no schedule runs " + k.Name
	}
	s, ok := selected.(kernel.MatVec)
	switch {
	case !ok:
		return 0, fmt.Sprintf("nothing is known of the time of %s", selected.Config().Variant)
	case matShapeOf(k).M > MaxMatVecRows && h.direct.M > 0:
		return 0, "nothing is known of the time of such rows straight from memory"
	case k.RowSums() && rowCost(k) > maxRowCost:
		return 0, "rows are dear to compute in every workgroup"
	}
	return h.multiplyingTime(k, s), ""
}

// vecEfficiency is the fraction of the peak of ordinary arithmetic that float matmuls of few rows reach (M-batch).
const vecEfficiency = 0.3

// multiplyingTime estimates the time of a matmul of few rows in nanoseconds: the time to read its operands. With more
// rows than one invocation takes, the arithmetic may take longer, and then multiplyingTime returns the time of the
// arithmetic.
func (h heuristics) multiplyingTime(k *kernel.Kernel, s kernel.MatVec) float64 {
	sh, time := matShapeOf(k), h.readingTime(k, s)
	if sh.M <= MaxMatVecRows {
		return time
	}
	// The lanes that share a sum add it up in log2(lanes) steps, each of which takes as long as a multiplication.
	lanes := max(s.LanesPerRow, 1)
	each := int64(lanes) * (ceil.Div(sh.K, int64(lanes)) + int64(bits.Len(uint(lanes))) - 1)
	flops := 2 * float64(sh.Batch*sh.M) * float64(sh.N) * float64(each) * float64(len(k.MatMuls))
	return max(time, flops/(vecEfficiency*h.VectorF32*1e3))
}

// readingTime is the memory time of a matmul of few rows in nanoseconds. B is read once for every part of the rows (see
// matVecParts), and every workgroup reads its rows.
func (h heuristics) readingTime(k *kernel.Kernel, s kernel.MatVec) float64 {
	factors, sums := rowRoots(k)
	loads := len(loadsAlong(append(slices.Clone(factors), sums...), k.FoldAxis()))
	if !SumsRowsFirst(s) { // the sums read the rows a second time
		loads = len(loadsAlong(factors, k.FoldAxis())) + len(loadsAlong(sums, k.FoldAxis()))
	}
	sh := matShapeOf(k)
	rows := sh.Batch * ceil.Div(sh.N, int64(s.TileN)) * sh.M * sh.K * int64(ir.F32.BlockBytes()*loads)
	weights := weightBytes(k)
	rereadRate := h.cacheRate()
	if weights > uint64(h.cache) {
		rereadRate = h.CopyGBps
	}
	rereads := float64(matVecParts(sh.M) - 1)
	return float64(weights)/h.CopyGBps + rereads*float64(weights)/rereadRate + float64(rows)/h.cacheRate()
}

// weightBytes is the size in bytes of all operands B in memory.
func weightBytes(k *kernel.Kernel) (n uint64) {
	for _, p := range k.MatMuls {
		kernel.Walk([]*kernel.Expr{p.B}, func(e *kernel.Expr) {
			if e.Kind == kernel.ExprLoad {
				n += bindingBytes(k.Bindings[e.Bind])
			}
		})
	}
	return n
}

// matVecParts is the number of parts into which a matvec divides its rows; each part has its own workgroups.
func matVecParts(rows int64) int64 { return max(ceil.Div(rows, MaxMatVecRows), 1) }

// rereadingFaster reports whether a matmul of few rows should run as a matvec with schedule s, not in tiles. With at
// most MaxMatVecRows rows it should. With more rows, a matvec reads B several times, and a tile is only partly filled:
// rereadingFaster compares their expected times.
func (h heuristics) rereadingFaster(k *kernel.Kernel, s kernel.MatVec, caps device.Caps) bool {
	if matShapeOf(k).M <= MaxMatVecRows {
		return true
	}
	time, units := h.bestMatrixTime(k, caps, 1)
	if !units {
		time = h.vectorTime(k, 1)
	}
	return h.multiplyingTime(k, s) < time
}

// checkRowSums checks the schedule of a matmul that also has row sums.
func checkRowSums(k *kernel.Kernel, s kernel.Schedule) error {
	switch {
	case k.CheckRowSums() != nil:
		return k.CheckRowSums()
	case s.Config().Variant != kernel.VarMatVec:
		return fmt.Errorf("only matvec adds up the rows that it multiplies")
	case !DivisibleBy(k.Fold, 4) || !k.Fold.IsStatic():
		return fmt.Errorf("rows of %s are added up, want a constant number of whole vectors of four", k.Fold)
	}
	return nil
}

// rowSumsShared is the shared memory, in bytes, for the partial sums of rows.
func rowSumsShared(k *kernel.Kernel, s kernel.MatVec) int {
	if !k.RowSums() {
		return 0
	}
	return len(k.Phases) * s.TileM * (s.Workgroup / max(s.Subgroup, 1)) * ir.F32.BlockBytes()
}

// checkCols checks the schedule of a matmul with stores for different columns. Each pair of columns must be in one
// workgroup, and sums must pass through shared memory.
func checkCols(k *kernel.Kernel, s kernel.Schedule) error {
	switch s, ok := s.(kernel.MatVec); {
	case k.CheckCols() != nil:
		return k.CheckCols()
	case !ok:
		return fmt.Errorf("only matvec stores columns in several ways")
	case s.LanesPerRow < 2 || s.TileN%2 != 0:
		return fmt.Errorf("columns are stored in several ways where several invocations share sums, of whole pairs")
	}
	return nil
}
