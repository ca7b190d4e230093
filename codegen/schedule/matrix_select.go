package schedule

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// matrixUnits lists tiles on cooperative matrices for a matmul with operands of at most 16 bits, by decreasing expected
// speed.
func (h heuristics) matrixUnits(k *kernel.Kernel, caps device.Caps) []Candidate {
	if _, ok := MatrixDType(k); !ok {
		return nil
	}
	sh := matShapeOf(k)
	var all []ranked
	for _, tl := range h.matrixTilesOf(k) {
		s, ok := tl.schedule(k, caps)
		if !ok {
			continue
		}
		groups := sh.workgroups(tl.M, tl.N)
		reason := fmt.Sprintf("%dx%dx%d on matrix units in tiles of %dx%d: %d workgroups", sh.M, sh.N, sh.K,
			tl.M, tl.N, groups)
		cost := h.matrixTime(tl, groups, sh.K, h.peak(k)) * float64(len(k.MatMuls))
		if slow := h.slowdown(k, s); slow.factor > 1 {
			cost *= slow.factor
			reason += ", " + slow.why
		}
		all = append(all, ranked{Candidate{s, reason}, cost})
	}
	return byCost(all)
}

// matrixTilesOf lists the tiles for a kernel. If it has several matmuls, they share the columns of a tile, so that the
// tile needs the registers and shared memory of one matmul.
func (h heuristics) matrixTilesOf(k *kernel.Kernel) []matrixTile {
	list := slices.Clone(h.matrixTilesOfOne(k))
	for i := range list {
		if n := len(k.MatMuls); list[i].N%(n*minTileN) == 0 {
			list[i].N /= n
		}
	}
	return list
}

// minTileN is the minimum number of columns per matmul in a tile that several matmuls share.
const minTileN = 32

// matrixTilesOfOne lists the tiles for a kernel with one matmul. If no tiles were measured for int8, it returns the
// 16-bit tiles with twice the depth, which need the same memory.
func (h heuristics) matrixTilesOfOne(k *kernel.Kernel) []matrixTile {
	list := slices.Clone(h.matrixTiles)
	if _, bytes := ByteMatMuls(k); bytes && h.byteTiles != nil {
		list = slices.Clone(h.byteTiles)
	} else if bytes {
		for i := range list {
			list[i].K *= 2
		}
	}
	t := Traits{Rows: matShapeOf(k).M, MatMuls: len(k.MatMuls), Blocks: readsAnyBlocks(k), Runs: inRuns(k)}
	return slices.DeleteFunc(list, func(tl matrixTile) bool { return !tl.suits(t) })
}

// peak is the peak rate of cooperative matrices for a kernel's dtype, in thousands of operations per nanosecond.
func (m machine) peak(k *kernel.Kernel) float64 {
	if _, bytes := ByteMatMuls(k); bytes {
		return m.MatrixI8
	}
	return m.MatrixF16
}

// matrixTime estimates the time of a matmul in nanoseconds. groups is its number of workgroups, depth its contraction
// length, and peak the peak rate of all cores together, in thousands of operations per nanosecond.
func (h heuristics) matrixTime(tl matrixTile, groups, depth int64, peak float64) float64 {
	return tl.time(groups, h.cores, tileFlops(tl.M, tl.N, depth, 1), peak)
}

// time estimates the time in nanoseconds of `groups` workgroups of `flops` operations each, on a device with the given
// number of cores and peak rate (see matrixTime). The workgroups run in waves of one (or PerCore) per core, and a
// partial wave takes as long as a full one. Concurrent workgroups of a core hide each other's latency: n of them reach
// n times the rate of one alone, up to the rate of many.
func (tl matrixTile) time(groups, cores int64, flops, peak float64) float64 {
	efficiency, perCore := tl.Efficiency, int64(max(tl.PerCore, 1))
	switch {
	case tl.Alone > 0 && groups <= cores:
		efficiency, perCore = tl.Alone, 1
	case tl.Alone > 0:
		efficiency = min(efficiency, float64(ceil.Div(groups, cores))*tl.Alone)
	}
	rounds := ceil.Div(groups, cores*perCore)
	return float64(rounds*perCore*cores) * flops / (efficiency * peak * 1e3)
}

// When a contraction is split, each part must keep a workgroup busy and be a multiple of a tile's step.
const (
	maxParts           = 16
	minPart            = 256 // elements, on cooperative matrices
	minVectorPart      = 128 // elements, on ordinary arithmetic
	partMultiple       = 64
	vectorPartMultiple = 16
)

// partsFit reports whether it is possible and worthwhile to split a contraction into the given number of parts. units
// says that cooperative matrices multiply the parts.
func partsFit(k *kernel.Kernel, parts int, units bool) bool {
	multiple, least := vectorPartMultiple, int64(minVectorPart)
	if units {
		multiple, least = partMultiple, minPart
	}
	if _, bytes := ByteMatMuls(k); bytes {
		multiple *= 2
	}
	return k.Fold.Add%int64(parts*multiple) == 0 && k.Fold.Add/int64(parts) >= least
}

// readTime is the time in nanoseconds to read all inputs of a kernel once.
func (h heuristics) readTime(k *kernel.Kernel) float64 {
	time := 0.0
	for _, b := range k.Bindings {
		if !b.Write {
			time += float64(bindingBytes(b)) / h.CopyGBps
		}
	}
	return time
}

// bestMatrixTime estimates the time in nanoseconds of a matmul on cooperative matrices, with its contraction split into
// the given number of parts, including the addition of the parts. It returns false if no tile can run the matmul.
func (h heuristics) bestMatrixTime(k *kernel.Kernel, caps device.Caps, parts int) (best float64, ok bool) {
	sh, readTime := matShapeOf(k), h.readTime(k)
	for tl, s := range h.pricedTiles(k, caps) {
		groups := int64(parts) * sh.workgroups(tl.M, tl.N)
		time := h.matrixTime(tl, groups, sh.K/int64(parts), h.peak(k)) * float64(len(k.MatMuls)) *
			h.slowdown(k, s).factor
		time = max(time, readTime) + h.addingTime(k, parts)
		if !ok || time < best {
			best, ok = time, true
		}
	}
	return best, ok
}

// pricedTiles yields the tiles that can run a matmul, and their schedules. A tile that normalizing changes has no
// price, because none was measured.
func (h heuristics) pricedTiles(k *kernel.Kernel, caps device.Caps) iter.Seq2[matrixTile, kernel.Schedule] {
	return func(yield func(matrixTile, kernel.Schedule) bool) {
		for _, tl := range h.matrixTilesOf(k) {
			s, fits := tl.schedule(k, caps)
			if made, err := New(k, s, caps); !fits || err != nil || made != s {
				continue
			}
			if !yield(tl, s) {
				return
			}
		}
	}
}

// addingTime is the time in nanoseconds to write, read and add the f32 sums of the parts.
func (h heuristics) addingTime(k *kernel.Kernel, parts int) float64 {
	if parts < 2 {
		return 0
	}
	sh := matShapeOf(k)
	results := float64(sh.Batch*sh.M) * float64(sh.N) * float64(len(k.MatMuls))
	return h.LaunchNs + float64(parts)*results*8/h.CopyGBps
}

// bandOf is the number of tile rows in a band (see kernel.MatrixTile), or 0 for no bands. Bands pay off if B is
// contiguous along the contraction axis or a tile's accumulators are in pieces (M-bands).
func bandOf(k *kernel.Kernel, tl matrixTile) int {
	_, bytes := ByteMatMuls(k) // for int8, pieces were measured without bands only if B is [K,N]
	pieces := tl.PiecesM > 1 || tl.PiecesN > 1
	switch {
	case tl.M*tl.N > 128*256:
		return 4
	case pieces && !bytes || FoldContiguous(k, k.MatMuls[0].B, len(k.Parallel)-1):
		return 8
	}
	return 0
}

// schedule completes a tile for a kernel. It uses the largest fragment shape of the device that divides the tile.
func (tl matrixTile) schedule(k *kernel.Kernel, caps device.Caps) (kernel.Schedule, bool) {
	t := kernel.MatrixTile{Launch: kernel.Launch{Variant: tl.Variant, Workgroup: tl.Workgroup, Vec: 4},
		Tile: kernel.Tile{TileM: tl.M, TileN: tl.N, TileK: tl.K}}
	if tl.Variant == kernel.VarCoopMat2 {
		return tl.coopMat2(k, t, caps)
	}
	return tl.coopMat(k, t, caps)
}

// coopMat2 returns the tile's schedule with matrices of workgroup scope. It returns false if the tile's steps cannot be
// unrolled.
func (tl matrixTile) coopMat2(k *kernel.Kernel, t kernel.MatrixTile, caps device.Caps) (kernel.Schedule, bool) {
	s := kernel.CoopMat2{MatrixTile: t}
	if tl.PiecesM > 1 { // a schedule has 0 for one piece
		s.PiecesM = tl.PiecesM
	}
	if tl.PiecesN > 1 {
		s.PiecesN = tl.PiecesN
	}
	s.Band = bandOf(k, tl)
	if !bandFits(k, s.MatrixTile, caps) {
		s.Band = 0
	}
	if tl.Unroll > 0 {
		s.Unroll = stepsUnrolled(k, s, tl.UnrollFrom, tl.Unroll)
	}
	return s, s.Unroll > 0 || tl.Unroll == 0
}

// coopMat returns the tile's schedule with the largest fragments that the device has for it. It returns false if it has
// none.
func (tl matrixTile) coopMat(k *kernel.Kernel, t kernel.MatrixTile, caps device.Caps) (kernel.Schedule, bool) {
	s := kernel.CoopMat{MatrixTile: t, SubgroupsM: tl.SubgroupsM, SubgroupsN: tl.SubgroupsN, OneStage: tl.OneStage}
	s.Subgroup = int(caps.SubgroupSize)
	s.Workgroup = s.Subgroup * tl.SubgroupsM * tl.SubgroupsN
	dtype, _ := MatrixDType(k)
	for _, m := range subgroupMatrices(caps, dtype, SumsDType(k)) {
		fits := tl.M%(tl.SubgroupsM*int(m.M)) == 0 && tl.N%(tl.SubgroupsN*int(m.N)) == 0 && tl.K%int(m.K) == 0
		if fits && int(m.M*m.N*m.K) > s.FragM*s.FragN*s.FragK {
			s.FragM, s.FragN, s.FragK = int(m.M), int(m.N), int(m.K)
		}
	}
	return s, s.FragM > 0
}

// handicap is a slowdown factor of a tile for a matmul that does not suit it, and its reason.
type handicap struct {
	factor float64
	why    string
}

// slowdown estimates the slowdown of a schedule, compared with a matmul that reads operands stored in whole tiles.
func (h heuristics) slowdown(k *kernel.Kernel, s kernel.Schedule) handicap {
	worst := handicap{factor: 1}
	note := func(n handicap) {
		if n.factor > worst.factor {
			worst = n
		}
	}
	coopMat2, ofWorkgroup := s.(kernel.CoopMat2) // else matrices belong to subgroups
	if ofWorkgroup {
		note(handicap{unrollCost(k, coopMat2), "steps that are not a multiple of 8"})
	}
	row, col, tile := len(k.Parallel)-2, len(k.Parallel)-1, tileOf(s)
	if _, bytes := ByteMatMuls(k); bytes && !FoldContiguous(k, k.MatMuls[0].B, col) {
		note(handicap{transposeCost(s), "bytes that lie across the contraction"})
	}
	computing := 0.0 // the time of computing operands, as a multiple of the time of a matmul
	for i, p := range k.MatMuls {
		n, computed := h.operandSlowdown(k, s, p.A, row)
		note(n)
		counted := i > 0 && p.A == k.MatMuls[0].A // the matmuls share A
		if computed && !counted {
			computing += h.computedRows / float64(max(tile.TileN, 1)) // once per column of tiles
		}
		n, computed = h.operandSlowdown(k, s, p.B, col)
		note(n)
		if computed {
			computing += h.computedRows / float64(max(tile.TileM, 1)) // once per row of tiles
		}
	}
	computing /= float64(len(k.MatMuls))
	if computing > 0 {
		note(handicap{min(1+computing, h.computed), "operands computed on the way"})
	}
	groupedRows := k.Guard != nil && k.Guard.Batch != nil && k.Guard.Row != nil // the rows of an expert, for example
	if groupedRows && !ofWorkgroup && tile.TileN > 64 {
		worst.factor *= h.seldomFull
		worst.why = strings.TrimPrefix(worst.why+", groups of rows are seldom full", ", ")
	}
	return worst
}

// operandSlowdown estimates how much slower a schedule is because of the way in which operand v is loaded. n is the
// zero handicap if the schedule is not slower. axis is the operand's other axis, in addition to the contraction axis.
// If computed is true, the kernel computes the operand's elements, and the caller estimates the slowdown because it
// depends on the tile.
func (h heuristics) operandSlowdown(k *kernel.Kernel, s kernel.Schedule, v *kernel.Expr,
	axis int) (n handicap, computed bool) {
	if coopMat2, ofWorkgroup := s.(kernel.CoopMat2); ofWorkgroup {
		clamped := func(axis int) bool { return EdgeOf(k, coopMat2.Variant, coopMat2.Tile, axis) == EdgeClamped }
		switch {
		case Staged(k, s, v, axis):
			n = handicap{h.withDriver, "operands staged in addition to the driver's own"}
		case clamped(axis) || clamped(k.FoldAxis()):
			n = handicap{h.clamped + float64(coopMat2.TileN)/512, "reads held back at the edges"}
		}
		return n, false
	}
	dtype, _ := MatrixDType(k)
	_, bytes := ByteMatMuls(k)
	switch {
	case octetLoad(k, v, axis, dtype): // not slower
	case isWindow(k, v, axis):
		n = handicap{h.shifted, "windows shifted into place"}
	case plainLoad(k, v, dtype):
		n = handicap{h.unaligned, "operands not aligned to 16 bytes"}
	case bytes && gathers(k, v):
		n = handicap{h.gathered, "bytes gathered one by one"}
	default:
		computed = true
	}
	return n, computed
}

// unrolledSteps is the number of steps by which the driver unrolls a loop along the contraction axis, if it knows the
// trip count.
const unrolledSteps = 8

// hidesSteps reports whether a tile with tensor addressing should hide its trip count from the compiler. If the count
// is no multiple of 8, the compiler's unrolled loop runs out of registers (M-hidden-steps).
func hidesSteps(k *kernel.Kernel, s kernel.CoopMat2) bool {
	steps := ceil.Div(k.Fold.Max(), int64(s.TileK))
	return s.Unroll == 0 && k.Fold.IsStatic() && steps > unrolledSteps &&
		steps%unrolledSteps != 0 && matrixStage(k, s) == 0
}

// unrollCost is the slowdown of a coopmat2 tile if its number of steps is not a multiple of 8. Only one vendor has this
// extension, so the numbers model its compiler. Operands in shared memory are multiplied in a loop that does not
// overlap its steps (M-hidden-steps).
func unrollCost(k *kernel.Kernel, s kernel.CoopMat2) float64 {
	steps := ceil.Div(k.Fold.Max(), int64(s.TileK))
	switch {
	case s.Unroll > 0 || steps%unrolledSteps == 0 || steps < unrolledSteps:
		return 1
	// The trip count is hidden: the loop is not unrolled, which costs more in a large tile.
	case hidesSteps(k, s) && s.TileM*s.TileN > 128*128 && s.PiecesM == 0 && s.PiecesN == 0:
		return 1.14
	case hidesSteps(k, s):
		return 1.05
	case laneSums(k, s.MatrixTile) > 64: // the unrolled loop runs out of registers
		return 3
	}
	return 1.06
}

// inRuns reports whether an operand is contiguous along the contraction axis only in runs, such as the windows of a
// stored convolution input.
func inRuns(k *kernel.Kernel) bool {
	t, _ := MatrixDType(k)
	r := len(k.Parallel)
	return slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool {
		a, okA := PlainOperand(k, p.A, r-2, t)
		b, okB := PlainOperand(k, p.B, r-1, t)
		return okA && a.Run > 0 || okB && b.Run > 0
	})
}

// transposeCost is the slowdown of a tile for an int8 B in the layout [K,N] (M-i8), which is not contiguous along the
// contraction axis. Its elements are gathered one at a time, because no device has an instruction to transpose them.
func transposeCost(s kernel.Schedule) float64 {
	if coopMat2, ok := s.(kernel.CoopMat2); ok && coopMat2.PiecesM <= 1 {
		return 1.2 + float64(0.006*float64(coopMat2.TileK))
	}
	return 1.5
}

// gathers reports whether four adjacent int8 elements of an operand along the contraction axis are not adjacent in
// memory. Then they cannot be loaded as a word.
func gathers(k *kernel.Kernel, v *kernel.Expr) bool {
	return slices.ContainsFunc(loadsAlong([]*kernel.Expr{v}, k.FoldAxis()), func(x kernel.Index) bool {
		return !x.IsVector(k.FoldAxis(), 4)
	})
}

// plainLoad reports whether an operand is a load from a buffer of dtype t.
func plainLoad(k *kernel.Kernel, v *kernel.Expr, t ir.DType) bool {
	v = Unrounded(v, t)
	return v.Kind == kernel.ExprLoad && k.Bindings[v.Bind].DType == t
}

// octetLoad reports whether 16 bytes of an operand of dtype t can be loaded at once: they are adjacent along its staged
// axis, and begin at a multiple of 16 bytes. other is the axis of the result along which the operand varies.
func octetLoad(k *kernel.Kernel, v *kernel.Expr, other int, t ir.DType) bool {
	return UnitLoad(k, v, other, t, unitElems(t))
}

// UnitLoad reports whether n elements of an operand of dtype t can be loaded at once, as octetLoad does for 16 bytes.
// They are adjacent along its staged axis, and begin at a multiple of n elements.
func UnitLoad(k *kernel.Kernel, v *kernel.Expr, other int, t ir.DType, n int) bool {
	_, extent := stagedAxis(k, v, other)
	return loadsAsVectors(k, v, other, t, n) && DivisibleBy(extent, n)
}

// ShiftedLoad reports whether eight adjacent elements of a 16-bit operand of dtype t are 16 bytes in memory, which may
// be unaligned. other is the axis of the result along which the operand varies.
func ShiftedLoad(k *kernel.Kernel, v *kernel.Expr, other int, t ir.DType) bool {
	return t.BlockBytes() == 2 && loadsAsVectors(k, v, other, t, 1)
}

// loadsAsVectors reports whether operand v is a plain load of dtype t that aligned vectors of n elements can replace:
// elements along the staged axis are adjacent in memory, and a group of n begins at a multiple of n elements. other is
// the axis of the result along which v varies.
func loadsAsVectors(k *kernel.Kernel, v *kernel.Expr, other int, t ir.DType, n int) bool {
	axis, _ := stagedAxis(k, v, other)
	if !plainLoad(k, v, t) {
		return false
	}
	v = Unrounded(v, t)
	// Loads and stores of a buffer share its declaration, and stores may need single elements.
	if k.Bindings[v.Bind].Write {
		return false
	}
	return v.Index.IsVector(axis, n)
}

// stagedAxis returns the axis along which the lines of an operand's tile lie in shared memory, and its extent: the
// contraction axis if the operand is contiguous along it in memory, and otherwise other, its axis of the result.
func stagedAxis(k *kernel.Kernel, v *kernel.Expr, other int) (axis int, extent ir.Dim) {
	if FoldContiguous(k, v, other) {
		return k.FoldAxis(), k.Fold
	}
	return other, k.Parallel[other]
}
