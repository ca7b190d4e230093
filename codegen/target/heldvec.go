package target

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// heldVec is how products of one row read blocks where the invocations of a
// workgroup share the whole row, keep what they have of it in registers, and let
// columns take turns: nothing but the blocks is read then, and floats are rounded
// to bytes once where they may be.
type heldVec struct {
	run        int   // elements that an invocation takes at once
	columns    int   // of a turn
	resident   int   // invocations of a core that share the columns
	groups     int   // of as many invocations as share a row, that are one workgroup at most; 0 is 1
	ahead      int   // turns whose blocks are asked for before rows are rounded, at most 1
	prefetch   int   // sectors that an invocation asks for before its row is rounded
	least      int64 // elements of a row for this to pay
	most       int64 // columns of a core for this to pay; 0 is any
	subnormals bool
	tables     bool
}

// maxHeldLanes is how many invocations share a row at most, and maxHeldColumns
// how many columns they take in all their turns, whose sums are in shared memory.
const maxHeldLanes, maxHeldColumns = 512, 512

// mostHeldShared is how much shared memory turns may take.
const mostHeldShared = 48 << 10

// heldVec returns how a product of few rows holds them, if its format has such a
// way; rounds says that rows become bytes.
func (t tuning) heldVec(k *kernel.Kernel, sh matShape) (v heldVec, rounds, ok bool) {
	b := t.blocks[blocksOf(k)]
	ways := []heldVec{b.held}
	if rounds = roundable(k, false) && len(b.rounded) > 0; rounds {
		ways = b.rounded
	}
	i := slices.IndexFunc(ways, func(v heldVec) bool {
		return v.run > 0 && sh.K >= v.least && (v.most == 0 || t.perCore(sh) <= v.most)
	})
	if i < 0 {
		return v, rounds, false
	}
	return ways[i], rounds, sh.M == 1 && t.subgroup > 0 && !readsBytes(k) &&
		FoldContiguous(k, k.Products[0].B, len(k.Parallel)-1)
}

// heldVecs is the schedule of a product that holds its row, if there is one.
func (t tuning) heldVecs(k *kernel.Kernel, sh matShape) []Candidate {
	v, rounds, ok := t.heldVec(k, sh)
	if !ok {
		return nil
	}
	lanes := heldLanes(sh.K, v.run, t.subgroup)
	groups := t.heldGroups(v, lanes)
	cols := v.columns
	for cols*groups > 1 && sh.Batch*ceilDiv(sh.N, int64(cols*groups)) < t.fill/2 { // rather than leave cores idle
		if cols /= 2; cols == 0 {
			cols, groups = 1, groups-1
		}
	}
	workgroups := t.fill / 2 * int64(max(v.resident/(lanes*groups), 1)) // that run at a time
	if groups > 1 {
		workgroups = max(workgroups, t.fill)
	}
	s := matVecSchedule(sh, lanes, cols*groups, cols, lanes*groups, t.subgroup)
	s.TileK, s.Subnormals, s.Tables, s.RoundRows = v.run, v.subnormals, v.tables, rounds
	if rounds {
		s.Ahead, s.Prefetch = v.ahead, v.prefetch
	}
	turns := ceilDiv(sh.Batch*sh.N, int64(cols*groups)*workgroups)
	switch {
	case groups > 2:
		turns = min((2*sh.Batch*sh.N/(int64(cols*groups)*workgroups)+1)/2, mostGroupedTurns)
	case s.Ahead > 0 && turns > manyAheadTurns:
		turns = ceilDiv(turns, 2)
	}
	for s.Turns = int(min(max(turns, 1), int64(maxHeldColumns/(cols*groups)))); s.Turns > 1; s.Turns /= 2 {
		if s.TileN = cols * groups * s.Turns; SharedBytes(k, s) <= mostHeldShared {
			break
		}
	}
	if s.TileN = cols * groups * s.Turns; !HoldsRows(k, s) || s.Turns == 1 && !rounds { // nothing is read less often
		return nil
	}
	reason := "1 row: held in registers while columns take turns"
	if rounds {
		reason += ", as bytes"
	}
	return []Candidate{{s, fmt.Sprintf("%s, %d", reason, s.Turns)}}
}

// mostGroupedTurns is how many turns more than two groups of invocations take: their rows are short, so that more
// workgroups cost less than longer ones (M-held-turns).
const mostGroupedTurns = 2

// manyAheadTurns is how many turns are better halved where the first is asked for: half of the workgroups then make
// their row ready while others read blocks (M-held-turns).
const manyAheadTurns = 8

// heldGroups is how many groups of so many invocations are one workgroup. Where as many workgroups as a core has room
// for would leave an eighth of it empty, there are two, and more of them run (M-held-turns).
func (t tuning) heldGroups(v heldVec, lanes int) int {
	switch {
	case v.groups > 1 && lanes*v.groups <= maxHeldLanes:
		return v.groups
	case v.resident%lanes*8 > v.resident:
		return 2
	}
	return 1
}

// heldLanes is how many invocations share a row of depth elements in runs: as
// many as runs, or an equal part of them.
func heldLanes(depth int64, run, subgroup int) int {
	runs := ceilDiv(depth, int64(run))
	steps := ceilDiv(runs, maxHeldLanes)
	return roundUp(int(ceilDiv(runs, steps)), subgroup)
}

// HoldsRows reports whether the invocations of a matvec over blocks can keep
// what they meet of the rows in registers while columns take turns.
func HoldsRows(k *kernel.Kernel, s kernel.Schedule) bool {
	if !k.Fold.IsStatic() || s.TileK == 0 || s.TileM > maxHeldRows && !s.RoundRows && !readsBytes(k) {
		return false
	}
	a, _ := operands(k)
	held := ceilDiv(k.Fold.Add, int64(s.LanesPerRow*s.TileK)) * int64(s.TileK*s.TileM*a)
	if s.RoundRows || readsBytes(k) {
		held /= 4
	}
	return held <= maxHeldRegisters
}

// HeldTile is how many quads of a row pass through shared memory at a time on
// their way into the registers that hold them, 0 for none: a share of as many for
// every invocation, and whole blocks.
func HeldTile(k *kernel.Kernel, s kernel.Schedule) int {
	const most = 16 << 10 / 16
	if s.Turns == 0 || s.RoundRows || blocksOf(k) == ir.Invalid || readsBytes(k) || !HoldsRows(k, s) {
		return 0
	}
	tile := most / s.Workgroup * s.Workgroup
	if whole := roundUp(int(k.Fold.Add)/4, s.Workgroup); whole <= tile {
		return whole
	}
	if tile*4%blocksOf(k).BlockElems() != 0 {
		return 0
	}
	return tile
}

// maxHeldRegisters is how many registers of an invocation rows may take; from more than
// maxHeldRows rows of floats on, blocks are decoded whole.
const maxHeldRegisters, maxHeldRows = 64, 2

// roundable reports whether the rows of a product by blocks may become bytes, and
// the blocks hold small integers to multiply those by, or octets are. Blocks hold
// none where their codebook is of floats.
func roundable(k *kernel.Kernel, octets bool) bool {
	t := blocksOf(k)
	levels := slices.ContainsFunc(k.Bindings, func(b kernel.Binding) bool {
		return b.Codebook == t && b.DType.IsFloat()
	})
	if t == ir.Invalid || levels && !octets {
		return false
	}
	return !slices.ContainsFunc(k.Products, func(p kernel.Product) bool { return !p.ByteRows })
}

// checkHeld checks what a matvec whose columns take turns asks for.
func checkHeld(k *kernel.Kernel, s kernel.Schedule, caps Caps) error {
	switch {
	case s.Turns == 0 && !s.RoundRows && s.Prefetch == 0:
		return nil
	case s.Turns == 0 && (!k.Fold.IsStatic() || s.TileK == 0):
		return fmt.Errorf("rows become bytes only where they are of constant length and meet runs of blocks")
	case s.LanesPerRow < 2 || s.StageRows:
		return fmt.Errorf("columns take turns only where invocations share sums, and rows do not pass through " +
			"shared memory all the time")
	case s.Ahead > 1 || s.Ahead == 1 && (!s.RoundRows || s.Turns == 0):
		return fmt.Errorf("blocks of one turn at most are asked for, and only before rows are rounded")
	case s.Prefetch < 0 || s.Prefetch > maxPrefetch || s.Prefetch > 0 && (!s.RoundRows || s.Turns == 0):
		return fmt.Errorf("%d sectors asked for early, want up to %d where rows are rounded and held",
			s.Prefetch, maxPrefetch)
	case s.Turns > 0 && s.Ahead > 0 && s.Prefetch > 0:
		return fmt.Errorf("blocks are asked for ahead or by sectors, not both")
	case !s.RoundRows:
		return nil
	case !roundable(k, s.Copies > 0):
		return fmt.Errorf("rows may not become bytes, or what they meet is no blocks of small integers")
	case s.Turns > 0 && !HoldsRows(k, s):
		return fmt.Errorf("rows that become bytes must be held, and are too long or of no constant length")
	case s.Subgroup < kernel.RoundedGroup/4:
		return fmt.Errorf("subgroups of %d do not find the largest of %d elements", s.Subgroup, kernel.RoundedGroup)
	case !caps.Features.IntegerDotProduct:
		return fmt.Errorf("%s has no dot products of bytes", caps.Name)
	}
	return nil
}

// maxPrefetch is how many sectors an invocation may ask for early, each in a
// register, and SectorBytes what memory gives at once.
const maxPrefetch, SectorBytes = 8, 32

// LargestPlane returns the number of the plane that has most of a format's bytes.
func LargestPlane(t ir.DType) int {
	planes, largest := kernel.PlanesOf(t), 0
	for i, p := range planes {
		if p.Bytes > planes[largest].Bytes {
			largest = i
		}
	}
	return largest
}
