package schedule

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// unknownExtent stands for a product of extents that would overflow.
const unknownExtent = int64(1) << 50

// maxBatch bounds the estimated batch of matmuls and attentions, so that products with their other extents do not
// overflow.
const maxBatch = int64(1) << 26

// points returns the number of points of the given axes, with every symbol at its bound. It returns unknownExtent
// instead of a larger number.
func points(dims []ir.Dim) int64 {
	n := int64(1)
	for _, d := range dims {
		extent := max(d.Max(), 0)
		if extent > 0 && n > unknownExtent/extent {
			return unknownExtent
		}
		n *= extent
	}
	return n
}

// matShape is the size of a batch of matmuls [M,K] x [K,N], with every symbol at its bound.
type matShape struct{ Batch, M, N, K int64 }

// matShapeOf returns the size of a matmul kernel.
func matShapeOf(k *kernel.Kernel) matShape {
	r := len(k.Parallel)
	return matShape{Batch: min(points(k.Parallel[:r-2]), maxBatch), M: k.Parallel[r-2].Max(),
		N: k.Parallel[r-1].Max(), K: k.Fold.Max()}
}

// workgroups is the number of workgroups of a matmul in tiles of m x n results.
func (sh matShape) workgroups(m, n int) int64 {
	return sh.Batch * ceil.Div(sh.M, int64(m)) * ceil.Div(sh.N, int64(n))
}

// innerAxis returns the last parallel axis with an extent other than 1, or -1.
func innerAxis(k *kernel.Kernel) int {
	for i := len(k.Parallel) - 1; i >= 0; i-- {
		if !k.Parallel[i].Is(1) {
			return i
		}
	}
	return -1
}

// DivisibleBy reports whether every value of d is a multiple of n.
func DivisibleBy(d ir.Dim, n int) bool {
	_, ok := d.Quo(int64(n))
	return ok
}

// mapVec returns the vector width to request for a map: the largest power of two, up to 4, that divides the number of
// points. [New] reduces it if the innermost axis or the alignment does not allow it.
func mapVec(k *kernel.Kernel) int {
	n := 4
	if inner := innerAxis(k); k.Guard != nil && inner >= 0 && k.Guard.Point.Uses(inner) {
		return 1 // each point has its own condition
	}
	for n > 1 && !pointsDivisibleBy(k.Parallel, n) {
		n /= 2
	}
	return n
}

// pointsDivisibleBy reports whether the number of points of the axes is always a multiple of n, a power of two.
func pointsDivisibleBy(dims []ir.Dim, n int) bool {
	for _, d := range dims {
		for n > 1 && DivisibleBy(d, 2) {
			d, _ = d.Quo(2)
			n /= 2
		}
	}
	return n <= 1
}

// rowVec returns the vector width along a row: the largest power of two, up to limit, for which rowVecFits is true, or
// 1.
func rowVec(k *kernel.Kernel, limit int) int {
	n := limit
	for n > 1 && !rowVecFits(k, n) {
		n /= 2
	}
	return max(n, 1)
}

// rowVecFits reports whether a row kernel can process n neighbours of the fold axis at once: they divide the row, all
// stores along it are vectors, and so is at least one of the loads, if there are any.
func rowVecFits(k *kernel.Kernel, n int) bool {
	axis := k.FoldAxis()
	if !DivisibleBy(k.Fold, n) {
		return false
	}
	for _, s := range k.Stores {
		if s.PerElement && !s.Index.IsVector(axis, n) {
			return false
		}
	}
	loads := loadsAlong(k.Roots(), axis)
	isVector := func(x kernel.Index) bool { return x.IsVector(axis, n) }
	return len(loads) == 0 || slices.ContainsFunc(loads, isVector)
}

// loadsAlong returns the indices of all loads that the roots depend on, if the index varies along the axis.
func loadsAlong(roots []*kernel.Expr, axis int) []kernel.Index {
	var all []kernel.Index
	kernel.Walk(roots, func(e *kernel.Expr) {
		if e.Kind == kernel.ExprLoad && e.Index.Uses(axis) {
			all = append(all, e.Index)
		}
	})
	return all
}

// contiguous reports whether some load that the roots depend on reads contiguous elements along the axis.
func contiguous(roots []*kernel.Expr, axis int) bool {
	adjacent := func(x kernel.Index) bool { return x.Adjacent(axis, 1) }
	return slices.ContainsFunc(loadsAlong(roots, axis), adjacent)
}

// rowsInterleaved reports whether the rows that a kernel folds are interleaved in memory: neighbouring elements belong
// to neighbouring rows, not to one row. Values that all rows share, such as the weight of a norm, do not count.
func rowsInterleaved(k *kernel.Kernel) bool {
	inner, fold := innerAxis(k), k.FoldAxis()
	if inner < 0 {
		return false
	}
	side := false
	for _, x := range loadsAlong(k.Roots(), fold) {
		shared := true
		for axis := range k.Parallel {
			shared = shared && !x.Uses(axis)
		}
		if !shared && x.Adjacent(fold, 1) {
			return false
		}
		side = side || x.Adjacent(inner, 1)
	}
	return side
}

// LanesAcross reports whether consecutive invocations of a row kernel have consecutive rows, instead of being lanes of
// the same row. It is so if a workgroup has several rows and these are interleaved in memory: consecutive invocations
// then read neighbours. Kernels that store along the rows are an exception: the cache serves their reads, but scattered
// stores take 2.4 times as long (M-kept-rows).
func LanesAcross(k *kernel.Kernel, s kernel.Row) bool {
	return s.LanesPerRow < s.Workgroup && rowsInterleaved(k) && !storesAlongFold(k)
}

// storesAlongFold reports whether a row kernel stores neighbours of a row next to each other.
func storesAlongFold(k *kernel.Kernel) bool {
	return slices.ContainsFunc(k.Stores, func(s kernel.Store) bool {
		return s.PerElement && s.Index.Adjacent(k.FoldAxis(), 1)
	})
}

// lineBytes is the number of adjacent bytes that a workgroup should read at least. Two sectors are one access of the
// memory of current GPUs: of 64 MiB, rows that are 32 bytes wide take 64 us, and rows of 64 bytes 54.
const lineBytes = 2 * kernel.Sector

// sideRows is the number of interleaved rows that a workgroup reads side by side, so that it reads at least lineBytes
// at a time: a power of two, and no more rows than there are. It is 1 for rows that are not interleaved.
func sideRows(k *kernel.Kernel) int {
	if !rowsInterleaved(k) {
		return 1
	}
	largest := 1
	kernel.Walk(k.Roots(), func(e *kernel.Expr) {
		if e.Kind == kernel.ExprLoad && e.Index.Uses(k.FoldAxis()) {
			largest = max(largest, k.Bindings[e.Bind].DType.BlockBytes())
		}
	})
	side := 1
	for side*largest < lineBytes && int64(2*side) <= k.Parallel[innerAxis(k)].Max() {
		side *= 2
	}
	return side
}

// storesPerElement reports whether a kernel that folds rows also stores a result for each element of a row.
func storesPerElement(k *kernel.Kernel) bool {
	return slices.ContainsFunc(k.Stores, func(s kernel.Store) bool { return s.PerElement })
}

// FoldContiguous reports whether a matmul's operand is contiguous along the contraction axis rather than along its
// other axis, the rows or columns. Neighbouring invocations should then read neighbours along the contraction axis.
func FoldContiguous(k *kernel.Kernel, operand *kernel.Expr, other int) bool {
	if _, ok := WindowLoad(k, operand, other); ok {
		return false
	}
	roots := []*kernel.Expr{operand}
	return contiguous(roots, k.FoldAxis()) || !contiguous(roots, other)
}

// FoursAcross reports whether a matmul's operand can be read as four neighbours along its other axis at once.
func FoursAcross(k *kernel.Kernel, operand *kernel.Expr, other int) bool {
	return !FoldContiguous(k, operand, other) &&
		k.VectorWidth(other, k.Parallel[other], 4, []*kernel.Expr{operand}, nil) == 4
}

// blocksOf returns the block format of the first B operand that is loaded directly from blocks, or ir.Invalid.
func blocksOf(k *kernel.Kernel) ir.DType {
	for _, p := range k.MatMuls {
		if p.B.Kind != kernel.ExprLoad {
			continue
		}
		if t := k.Bindings[p.B.Bind].DType; t.IsBlock() {
			return t
		}
	}
	return ir.Invalid
}

// readsTwice reports whether a row kernel reads its row more than once.
func readsTwice(k *kernel.Kernel) bool {
	return len(k.Phases) > 1 || len(k.Phases) == 1 && storesPerElement(k)
}

// operands returns the numbers of distinct A and of distinct B operands of a matmul kernel.
func operands(k *kernel.Kernel) (a, b int) {
	as, bs := operandValues(k)
	return len(as), len(bs)
}

// operandValues returns the distinct A and the distinct B operands of a matmul kernel. A value can be on both sides,
// such as a constant: then it is two operands, each with its own tile.
func operandValues(k *kernel.Kernel) (as, bs []*kernel.Expr) {
	for _, p := range k.MatMuls {
		if !slices.Contains(as, p.A) {
			as = append(as, p.A)
		}
		if !slices.Contains(bs, p.B) {
			bs = append(bs, p.B)
		}
	}
	return as, bs
}

// rowGroupShared is the shared memory, in bytes, that the lanes of a row use to exchange partial results. It is 0 if
// they are in one subgroup.
func rowGroupShared(k *kernel.Kernel, s kernel.Row) int {
	if s.Subgroup > 0 && s.LanesPerRow <= s.Subgroup && (!LanesAcross(k, s) || s.Workgroup == s.Subgroup) {
		return 0
	}
	return s.Workgroup * rowSlotBytes(k)
}

// tileShared is the shared memory, in bytes, of the operands' tiles.
func tileShared(k *kernel.Kernel, s kernel.MatTile) int {
	a, b := operands(k) // their numbers
	vectorBytes := 16   // four floats
	if s.Steps {        // the tiles are stored by steps along the contraction axis, else by rows and columns
		return (a*StepPitch(s.TileM) + b*StepPitch(s.TileN)) * s.TileK * vectorBytes * max(s.Stages, 1)
	}
	if _, bytes := ByteMatMuls(k); bytes {
		vectorBytes = 4
	}
	return (a*s.TileM + b*s.TileN) * TilePitch(s.TileK) * vectorBytes * max(s.Stages, 1)
}

// rowSlotBytes is the size in bytes of one invocation's partial result, for the phase that needs the most.
func rowSlotBytes(k *kernel.Kernel) int {
	n := 4
	for _, p := range k.Phases {
		switch {
		case p.Combine.IsPlace(): // a value and its position, of 4 bytes
			n = max(n, 4+p.Value.DType.BlockBytes(), 8)
		case p.Value.DType == ir.F64 || p.Value.DType == ir.I64:
			n = max(n, 8)
		}
	}
	return n
}

// TilePitch is the distance between rows of an operand's tile in shared memory, in vec4. It is odd, so that invocations
// that read the same column of neighbouring rows use different banks.
func TilePitch(tileK int) int { return tileK/4 | 1 }

// matVecShared is the shared memory of a matvec in bytes, for partial sums, codebooks and rows.
func matVecShared(k *kernel.Kernel, s kernel.MatVec) int {
	n := 0
	if s.LanesPerRow > 1 && (s.Copies == 0 || s.Coarsen > 0) { // otherwise they reuse the table
		n = matVecPartialSums(k, s) * 4
	}
	switch {
	case s.Copies > 0:
		n += lookupTableBytes(k, s.Copies)
	case s.Tables:
		n += tableBytes(k)
	}
	n += 16 * ResidentTile(k, s)
	if s.RoundRows && (rowsResident(k, s) || s.Coarsen == 0) {
		a, _ := operands(k)
		n += a * s.TileM * int(k.Fold.Add) / kernel.RoundedGroup * (kernel.RoundedGroup*s.RowBytes() + 4)
	}
	if s.StageRows {
		a, _ := operands(k)
		n += a * s.TileM * s.LanesPerRow * s.TileK * 4
	}
	return n + rowSumsShared(k, s)
}

// matVecPartialSums is the number of partial sums in shared memory, including one unused element after each part.
func matVecPartialSums(k *kernel.Kernel, s kernel.MatVec) int {
	parts := s.LanesPerRow / max(s.Subgroup, 1) // of one result
	return len(k.MatMuls) * parts * (s.TileM*s.TileN + 1)
}

// tableBytes is the size in bytes of all codebooks that a kernel reads.
func tableBytes(k *kernel.Kernel) int {
	n := 0
	for _, b := range k.Bindings {
		if b.Codebook != ir.Invalid {
			n += int(bindingBytes(b))
		}
	}
	return n
}

// StepPitch is the distance, in vec4, between steps of an operand's tile that is stored by steps along the contraction
// axis. extent is the tile's number of rows or columns. One extra vec4 avoids bank conflicts when an invocation
// distributes a quad over four steps.
func StepPitch(extent int) int { return extent/4 + 1 }
