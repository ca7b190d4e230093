package schedule

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// residentVec describes a matvec of one row by blocks that keeps the row in registers. Each invocation of a workgroup
// keeps a part of the row. The workgroup makes several passes, each over some of the columns. Because the row stays in
// registers, a pass reads only blocks, and a float row is quantized to int8 only once.
type residentVec struct {
	run         int             // elements of a run, which an invocation reads at once
	columns     int             // columns of a pass
	occupancy   int             // invocations of all workgroups on a core
	groups      int             // maximum number of groups in a workgroup that each hold the whole row; 0 is 1
	prefetch    kernel.Prefetch // of rows that the kernel quantizes
	digits      int             // int8 digits per element of a row that may not be rounded to one int8
	matmuls     int             // minimum number of matmuls with the same row
	minLength   int64           // minimum row length
	lengthBelow int64           // from this row length on, this is not faster; 0 for no limit
	maxColumns  int64           // maximum number of columns per core; 0 for no limit
	subnormals  bool
}

// maxResidentLanes is the maximum number of invocations that share a row. maxResidentColumns is the maximum number of
// columns of a workgroup over all passes: shared memory holds a sum for each.
const maxResidentLanes, maxResidentColumns = 512, 512

// mostResidentShared is the maximum shared memory of a matvec with a resident row, in bytes.
const mostResidentShared = 48 << 10

// residentVecFor returns the parameters for a matmul of one row that keeps the row in registers. They are the first
// measured ones that allow the number of matmuls, the row length and the columns per core. ok is false if there are
// none, or if the kernel cannot keep its row. rounds says that the kernel quantizes the row to int8.
func (h heuristics) residentVecFor(k *kernel.Kernel, sh matShape) (v residentVec, rounds, ok bool) {
	b := h.blocks[blocksOf(k)]
	list := b.resident
	rounds = roundable(k, false) && len(b.rounded) > 0
	if rounds {
		list = b.rounded
	}
	i := slices.IndexFunc(list, func(e residentVec) bool {
		return e.run > 0 && len(k.MatMuls) >= e.matmuls && sh.K >= e.minLength &&
			(e.lengthBelow == 0 || sh.K < e.lengthBelow) && (e.maxColumns == 0 || h.perCore(sh) <= e.maxColumns)
	})
	if i < 0 {
		return v, rounds, false
	}
	return list[i], rounds || list[i].digits > 0, sh.M == 1 && h.subgroup > 0 && !readsBytes(k) &&
		FoldContiguous(k, k.MatMuls[0].B, len(k.Parallel)-1)
}

// residentVecs returns the schedule of a matmul with a resident row, if there is one.
func (h heuristics) residentVecs(k *kernel.Kernel, sh matShape) []Candidate {
	v, rounds, ok := h.residentVecFor(k, sh)
	if !ok {
		return nil
	}
	onePass := func(lanes, cols, groups int) kernel.MatVec {
		s := matVecSchedule(sh, lanes, cols*groups, cols, lanes*groups, h.subgroup)
		s.TileK, s.RoundRows, s.Digits, s.Coarsen = v.run, rounds, v.digits, 1
		return s
	}
	lanes, cols, groups := h.residentWorkgroup(v, sh, func(lanes, cols, groups int) bool {
		return h.fits(k, onePass(lanes, cols, groups))
	})
	s := onePass(lanes, cols, groups)
	s.Subnormals = v.subnormals
	if rounds {
		s.Prefetch = v.prefetch
	}
	perPass := cols * groups // columns
	s.Coarsen = int(min(h.residentPasses(v, sh, s, groups), int64(maxResidentColumns/perPass)))
	s.TileN = perPass * s.Coarsen
	for s.Coarsen > 1 && SharedBytes(k, s) > mostResidentShared {
		s.Coarsen /= 2
		s.TileN = perPass * s.Coarsen
	}
	if !rowsResident(k, s) || s.Coarsen == 1 && !rounds { // in one pass, no row is read less often
		return nil
	}
	reason := "1 row: resident in registers"
	switch {
	case s.Digits > 1:
		reason += fmt.Sprintf(", as %d bytes each", s.Digits)
	case rounds:
		reason += ", as bytes"
	}
	return []Candidate{{s, fmt.Sprintf("%s, over %d passes", reason, s.Coarsen)}}
}

// residentWorkgroup returns the form of a workgroup. In each of its groups, `lanes` invocations share the row and
// compute cols columns in a pass. fits reports whether the registers suffice for a workgroup of such groups.
func (h heuristics) residentWorkgroup(v residentVec, sh matShape,
	fits func(lanes, cols, groups int) bool) (lanes, cols, groups int) {
	// If a core has too few registers for all its invocations, fewer invocations share a row. If that is not enough, a
	// pass has fewer columns.
	most := residentLanes(sh.K, v.run, h.subgroup, maxResidentLanes)
	lanes, cols = most, v.columns
	for !fits(lanes, cols, 1) && (lanes > h.subgroup || cols > 1) {
		if lanes > h.subgroup {
			lanes = residentLanes(sh.K, v.run, h.subgroup, lanes-h.subgroup)
		} else {
			lanes, cols = most, cols/2
		}
	}
	groups = h.residentGroups(v, lanes)
	for groups > 1 && !fits(lanes, cols, groups) {
		groups--
	}
	for cols*groups > 1 && sh.Batch*ceil.Div(sh.N, int64(cols*groups)) < h.onePerCore() { // to avoid idle cores
		cols /= 2
		if cols == 0 {
			cols, groups = 1, groups-1
		}
	}
	return lanes, cols, groups
}

// residentPasses returns the number of passes with which all workgroups of s, a schedule of one pass, run at the same
// time. It is at least 1.
func (h heuristics) residentPasses(v residentVec, sh matShape, s kernel.MatVec, groups int) int64 {
	workgroups := h.onePerCore() * int64(max(v.occupancy/s.Workgroup, 1)) // at the same time
	if groups > 1 {
		workgroups = max(workgroups, h.fill)
	}
	columns := int64(s.TileN) * workgroups // of one pass of all workgroups
	passes := ceil.Div(sh.Batch*sh.N, columns)
	switch {
	case groups > 2:
		passes = min((2*sh.Batch*sh.N/columns+1)/2, mostGroupedPasses) // rounded to the nearest number
	case s.Prefetch.Blocks() && passes > manyPrefetchedPasses:
		passes = ceil.Div(passes, 2)
	}
	return max(passes, 1)
}

// mostGroupedPasses is the maximum number of passes of a workgroup with more than two groups. Its rows are short, and
// then more workgroups cost less than more passes (M-resident-rows).
const mostGroupedPasses = 3

// manyPrefetchedPasses is the largest number of passes of a workgroup that prefetches its first pass. With more, the
// heuristics halve the passes and start twice as many workgroups: half of them then prepare their row while the others
// read blocks (M-resident-rows).
const manyPrefetchedPasses = 8

// residentGroups is the number of groups in a workgroup, each with lanes invocations that hold the whole row. If
// workgroups of one group would leave an eighth of a core's v.occupancy unused, a workgroup has two groups
// (M-resident-rows).
func (h heuristics) residentGroups(v residentVec, lanes int) int {
	switch {
	case v.groups > 1 && lanes*v.groups <= maxResidentLanes:
		return v.groups
	case v.occupancy%lanes*8 > v.occupancy:
		return 2
	}
	return 1
}

// residentLanes returns the number of invocations that share a row of depth elements. It is the number of runs in the
// row or, if that is more than most, the smallest number that gives each invocation the same number of runs. It is
// rounded up to whole subgroups.
func residentLanes(depth int64, run, subgroup, most int) int {
	runs := ceil.Div(depth, int64(run))
	steps := ceil.Div(runs, int64(most))
	return ceil.Multiple(int(ceil.Div(runs, steps)), subgroup)
}

// rowsResident reports whether the invocations of a matvec over blocks can keep their parts of the rows in registers
// over all passes.
func rowsResident(k *kernel.Kernel, s kernel.MatVec) bool {
	inBytes := s.RoundRows || readsBytes(k) // int8 elements, four to a register
	if !k.Fold.IsStatic() || s.TileK == 0 || s.TileM > maxResidentRows && !inBytes {
		return false
	}
	rowOperands, _ := operands(k)
	runs := ceil.Div(k.Fold.Add, int64(s.LanesPerRow*s.TileK)) // of an invocation in each row
	registers := runs * int64(s.TileK*s.TileM*rowOperands)
	if inBytes {
		registers = registers * int64(s.RowBytes()) / 4
	}
	return registers <= maxResidentRegisters
}

// ResidentTile is the size of the shared-memory tile that float rows pass through on their way to registers, in quads
// (four floats, 16 bytes). It is 0 if rows are loaded directly. It is a multiple of the number of invocations, and of
// whole blocks unless one tile holds the whole row.
func ResidentTile(k *kernel.Kernel, s kernel.MatVec) int {
	const most = 16 << 10 / 16 // quads in 16 KiB
	if s.Coarsen == 0 || s.RoundRows || blocksOf(k) == ir.Invalid || readsBytes(k) || !rowsResident(k, s) {
		return 0
	}
	tile := most / s.Workgroup * s.Workgroup
	if whole := ceil.Multiple(int(k.Fold.Add)/4, s.Workgroup); whole <= tile {
		return whole
	}
	if tile*4%blocksOf(k).BlockElems() != 0 {
		return 0
	}
	return tile
}

// maxResidentRegisters is the maximum number of registers per invocation for rows. With more than maxResidentRows float
// rows, blocks are decoded completely, so rows do not stay in registers.
const maxResidentRegisters, maxResidentRows = 64, 2

// roundable reports whether the rows of a matmul by blocks may be quantized to int8, and the blocks hold small integers
// to multiply them by. Blocks with a float codebook hold none. lookup says that a table lookup decodes the blocks,
// which returns integers for them too.
func roundable(k *kernel.Kernel, lookup bool) bool {
	return holdsIntegers(k, lookup) &&
		!slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool { return !p.ByteRows })
}

// holdsIntegers reports whether the blocks of a matmul hold small integers, or lookup decodes them to small integers.
func holdsIntegers(k *kernel.Kernel, lookup bool) bool {
	t := blocksOf(k)
	levels := slices.ContainsFunc(k.Bindings, func(b kernel.Binding) bool {
		return b.Codebook == t && b.DType.IsFloat()
	})
	return t != ir.Invalid && (lookup || !levels)
}

// maxDigits is the number of base-256 digits of a quantized float, which hold 22 bits and a sign.
const maxDigits = 3

// takesDigits reports whether the sum over a strip fits in 32 bits if elements have [maxDigits] digits (below 2^22).
func takesDigits(r kernel.BlockRun) bool {
	f := r.Form
	return f.Bias > 0 && !f.Affine && !f.Signed && !f.Levels && !f.Halved && 4*r.Quads*f.Bias < 1<<31>>22
}

// checkResident checks the options of a matvec that keeps its rows in registers (Coarsen) or quantizes them
// (RoundRows).
func checkResident(k *kernel.Kernel, s kernel.MatVec, caps device.Caps) error {
	switch {
	case s.Digits != 0 && (s.Digits != maxDigits || !s.RoundRows || s.Coarsen == 0):
		return fmt.Errorf("rows of %d digits, want %d or none, where rows are rounded and resident", s.Digits,
			maxDigits)
	case s.Coarsen == 0 && !s.RoundRows:
		return nil
	case s.Coarsen == 0 && (!k.Fold.IsStatic() || s.TileK == 0):
		return fmt.Errorf("rows become bytes only where they are of constant length and meet runs of blocks")
	case s.LanesPerRow < 2 || s.StageRows:
		return fmt.Errorf("rows are resident only where invocations share sums, and rows do not pass through " +
			"shared memory all the time")
	case !s.RoundRows:
		return nil
	case !roundable(k, s.Copies > 0) && (s.Digits == 0 || !holdsIntegers(k, false)):
		return fmt.Errorf("rows may not become bytes, or what they meet is not blocks of small integers")
	case s.Coarsen > 0 && !rowsResident(k, s):
		return fmt.Errorf("rows that become bytes must be resident, and are too long or of no constant length")
	case s.Subgroup < kernel.RoundedGroup/4:
		return fmt.Errorf("subgroups of %d do not find the largest of %d elements", s.Subgroup, kernel.RoundedGroup)
	case !caps.Features.IntegerDotProduct:
		return fmt.Errorf("%s has no dot products of bytes", caps.Name)
	}
	return nil
}

// prefetchDepths has the depths of each mode. A word of each sector takes a register.
var prefetchDepths = map[kernel.PrefetchMode]struct{ least, most int }{
	kernel.PrefetchNone:      {},
	kernel.PrefetchRuns:      {2, 16},
	kernel.PrefetchCache:     {},
	kernel.PrefetchRegisters: {},
	kernel.PrefetchSectors:   {1, 8},
}

var (
	toCache     = kernel.Prefetch{Mode: kernel.PrefetchCache}
	toRegisters = kernel.Prefetch{Mode: kernel.PrefetchRegisters}
)

func runs(n int) kernel.Prefetch    { return kernel.Prefetch{Mode: kernel.PrefetchRuns, Depth: n} }
func sectors(n int) kernel.Prefetch { return kernel.Prefetch{Mode: kernel.PrefetchSectors, Depth: n} }

// checkPrefetch checks the mode and depth of a normalized schedule.
func checkPrefetch(p kernel.Prefetch) error {
	depths, ok := prefetchDepths[p.Mode]
	switch {
	case !ok:
		return fmt.Errorf("unknown prefetch mode %q", p.Mode)
	case p.Depth < depths.least || p.Depth > depths.most:
		return fmt.Errorf("prefetch mode %q has depth %d, want %d to %d", p.Mode, p.Depth, depths.least, depths.most)
	}
	return nil
}

// SectorBytes is the size of a memory transaction.
const SectorBytes = 32

// LargestPlane returns the number of the plane that has the most bytes of a format.
func LargestPlane(t ir.DType) int {
	planes, largest := kernel.PlanesOf(t), 0
	for i, p := range planes {
		if p.Bytes > planes[largest].Bytes {
			largest = i
		}
	}
	return largest
}
