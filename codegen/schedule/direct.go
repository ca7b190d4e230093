package schedule

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// directTile is the tile of the direct variant with its measured speed.
type directTile struct {
	tile
	Efficiency float64 // fraction of the peak rate with M rows; see matrixTile
	Loads      int64   // number of rows whose arithmetic takes as long as loading B
}

// directTime estimates the time in nanoseconds of a matmul in the direct variant. Each tile of rows loads B.
func (h heuristics) directTime(k *kernel.Kernel) float64 {
	sh, t := matShapeOf(k), h.direct
	rows := sh.M + ceil.Div(sh.M, int64(t.M))*t.Loads
	// The efficiency was measured for M rows, including the loads of B. full is the fraction of that time that is
	// arithmetic.
	full := float64(t.M) / float64(int64(t.M)+t.Loads)
	flops := 2 * full * float64(sh.Batch*rows) * float64(sh.N) * float64(sh.K) * float64(len(k.MatMuls))
	return flops / (t.Efficiency * h.VectorF32 * 1e3)
}

// directs lists schedules of the direct variant, which loads operands directly from memory. They exist only for devices
// with a tile for it. Rows are spread evenly over as few tiles as possible. Several matmuls share the columns of an
// invocation. Workgroups shrink until there are enough of them.
func (h heuristics) directs(k *kernel.Kernel) []Candidate {
	sh := matShapeOf(k)
	if h.direct.M == 0 || sh.M < 2 || !cheapOperands(k) {
		return nil // for a single row a matvec is as fast
	}
	rows := int(ceil.Div(max(sh.M, 1), ceil.Div(max(sh.M, 1), int64(h.direct.M))))
	columns := max(h.direct.ThreadN/len(k.MatMuls), 1)
	var all []Candidate
	for wg := h.direct.workgroup(); wg >= smallest; wg /= 2 {
		groups := sh.workgroups(rows, wg*columns)
		if groups < h.fill && wg > smallest {
			continue
		}
		all = append(all, Candidate{directSchedule(rows, columns, h.direct.K, wg),
			fmt.Sprintf("%dx%dx%d straight from memory, %dx%d an invocation: %d workgroups", sh.M, sh.N, sh.K, rows,
				columns, groups)})
	}
	return all
}

// directSchedule is the schedule with rows x columns results per invocation.
func directSchedule(rows, columns, depth, wg int) kernel.MatDirect {
	return kernel.MatDirect{Launch: launch(kernel.VarMatDirect, wg, 4),
		Tile: kernel.Tile{TileM: rows, TileN: wg * columns, TileK: depth}, ThreadM: rows, ThreadN: columns}
}

// cheapOperands reports whether all operands are plain loads with cheap indices: linear in the coordinates. Only
// operand A of a matmul may be nonlinear along the contraction axis, for example if A consists of joined heads. The
// direct variant computes indices more often than the tile variant: it computes A's indices again for every few
// columns.
func cheapOperands(k *kernel.Kernel) bool {
	row, col, fold := len(k.Parallel)-2, len(k.Parallel)-1, k.FoldAxis()
	return !slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool {
		return !cheapLoad(p.A, row) || !cheapLoad(p.B, col, fold)
	})
}

// cheapLoad reports whether a value is a load, perhaps with a cast, with an index that is linear in the given axes.
func cheapLoad(v *kernel.Expr, axes ...int) bool {
	for v.Kind == kernel.ExprApply && v.Op == ir.OpCast && v.DType.IsFloat() && v.Args[0].DType.IsFloat() {
		v = v.Args[0]
	}
	return v.Kind == kernel.ExprLoad && !slices.ContainsFunc(axes, func(axis int) bool {
		_, linear := v.Index.Stride(axis)
		return !linear
	})
}

// checkDirect checks that an invocation has all rows of its tile.
func checkDirect(k *kernel.Kernel, s kernel.MatDirect) error {
	if s.TileM != s.ThreadM {
		return fmt.Errorf("invocations of %d rows do not share the %d of the tile", s.ThreadM, s.TileM)
	}
	return checkTile(k, kernel.MatTile{Launch: s.Launch, Tile: s.Tile, ThreadM: s.ThreadM, ThreadN: s.ThreadN})
}
