package schedule

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// lookupVec describes how a matvec of one row reads blocks by lookup. It uses one workgroup per core if there are
// enough columns, because each workgroup first fills its tables.
type lookupVec struct {
	run     int // elements of a run, which an invocation reads at once
	lanes   int // invocations per sum; with a resident row, invocations that share the row
	columns int // maximum number of columns that share the loads of A
	copies  int // copies of the codebook
	rounds  lookupRounding
}

// lookupRounding describes how a matvec by lookup quantizes its row to int8 in shared memory. If copies is 0, it does
// not.
type lookupRounding struct {
	copies int // copies of the codebook that fit
	most   int // maximum number of columns per core: with more, a separate kernel quantizes the row
	fewest int // minimum number of columns per invocation, in the largest workgroups
}

// lookupWorkgroups are the possible workgroup sizes, largest first. fewestLookupColumns is the minimum number of
// columns per invocation in the largest.
var lookupWorkgroups = []int{1024, 512}

const fewestLookupColumns = 4

// lookupVecs lists the schedules of a matvec by lookup. It is empty if the format or the matmul does not allow lookups.
func (h heuristics) lookupVecs(k *kernel.Kernel, sh matShape) []Candidate {
	b, perCore := h.blocks[blocksOf(k)], h.perCore(sh)
	if sh.M != 1 || h.subgroup == 0 || perCore < fewLookupColumns ||
		!FoldContiguous(k, k.MatMuls[0].B, len(k.Parallel)-1) {
		return nil
	}
	switch {
	case readsBytes(k): // the rows are int8 already
		return h.lookupAsRead(b.lookup, sh, fewestLookupColumns, false)
	case roundable(k, true) && b.lookup.roundsRow(perCore):
		return h.lookupRounded(b.lookup, k, sh)
	case perCore >= manyResidentColumns:
		return h.lookupResident(b.lookupResident, k, sh)
	}
	return h.lookupAsRead(b.lookupFloats, sh, fewestLookupColumns, h.subnormals)
}

// fewLookupColumns is the minimum number of columns per core that makes filling the tables pay off.
const fewLookupColumns = 16

// manyResidentColumns is the minimum number of columns per core for keeping a float row resident (M-resident-rows).
const manyResidentColumns = 64

// lookupAsRead lists schedules that load elements of the row from memory whenever they are needed. A workgroup larger
// than the smallest is listed only if each invocation gets at least `fewest` columns. subnormals says that kernels may
// convert quants to floats as subnormal halves.
func (h heuristics) lookupAsRead(v lookupVec, sh matShape, fewest int, subnormals bool) []Candidate {
	if v.run == 0 {
		return nil
	}
	lanes := max(v.lanes, h.subgroup)
	for lanes > h.subgroup && int64(lanes*v.run) > sh.K { // no lane should be without a run
		lanes /= 2
	}
	var all []Candidate
	for _, wg := range lookupWorkgroups {
		groups := int64(wg / lanes)
		// The columns of a core are spread evenly over the fewest rounds that v.columns allows.
		rounds := ceil.Div(h.perCore(sh), groups*int64(v.columns))
		cols := int(max(ceil.Div(h.perCore(sh), groups*rounds), 1))
		if cols < fewest && wg != lookupWorkgroups[len(lookupWorkgroups)-1] {
			continue
		}
		s := matVecSchedule(sh, lanes, wg/lanes*cols, cols, wg, h.subgroup)
		s.TileK, s.Tables, s.Copies, s.Subnormals = v.run, true, v.copies, subnormals
		all = append(all,
			Candidate{s, fmt.Sprintf("1 row: eight quants at a time from %d copies of the codebook, %d columns a core",
				v.copies, h.perCore(sh))})
	}
	return all
}

// roundsRow reports whether a matvec by lookup with perCore columns per core quantizes its row itself, instead of a
// separate kernel. The row and the tables then share the shared memory.
func (v lookupVec) roundsRow(perCore int64) bool {
	return v.rounds.copies > 0 && perCore >= fewLookupColumns && perCore <= int64(v.rounds.most)
}

// lookupRounded lists schedules that quantize the row to int8 in shared memory. A longer row leaves room for fewer
// copies of the codebook.
func (h heuristics) lookupRounded(v lookupVec, k *kernel.Kernel, sh matShape) []Candidate {
	all := h.lookupAsRead(v, sh, v.rounds.fewest, false)
	for i := range all {
		s := all[i].Schedule.(kernel.MatVec)
		s.RoundRows = true
		s.Copies = v.rounds.copies
		for s.Copies > 1 && SharedBytes(k, s) > mostResidentShared {
			s.Copies /= 2
		}
		all[i].Schedule, all[i].Reason = s,
			fmt.Sprintf("1 row: rounded to bytes, eight quants at a time from %d copies of the "+
				"codebook, %d columns a core", s.Copies, h.perCore(sh))
	}
	return all
}

// lookupResident lists schedules that keep a float row in registers over several passes over columns.
func (h heuristics) lookupResident(v lookupVec, k *kernel.Kernel, sh matShape) []Candidate {
	lanes := 0
	if v.run > 0 {
		lanes = residentLanes(sh.K, v.run, h.subgroup, maxResidentLanes)
	}
	if lanes == 0 || sh.K > int64(lanes*v.run) { // a lane that keeps two runs of floats has too few registers
		return nil
	}
	groups := int64(max(lookupWorkgroups[0]/lanes, 1))
	// The columns of a group of lanes, in passes of at most v.columns.
	each := ceil.Div(h.perCore(sh), groups)
	passes := ceil.Div(each, int64(v.columns))
	cols := ceil.Div(each, passes)
	if cols < fewestLookupColumns || cols*passes > maxResidentColumns {
		return nil
	}
	s := matVecSchedule(sh, lanes, int(groups*cols*passes), int(cols), lanes*int(groups), h.subgroup)
	s.Coarsen, s.TileK, s.Tables, s.Copies, s.Subnormals = int(passes), v.run, true, v.copies, h.subnormals
	if !rowsResident(k, s) {
		return nil
	}
	return []Candidate{{s,
		fmt.Sprintf("1 row: resident in registers, over %d passes; eight quants at a time from %d copies of the codebook", passes, v.copies)}}
}

// perCore is the number of columns per core, with one workgroup per core.
func (h heuristics) perCore(sh matShape) int64 {
	return ceil.Div(sh.Batch*sh.N, max(h.onePerCore(), 1))
}

// LookupTable describes a table in shared memory. With it, a matvec decodes eight consecutive quants of a block format
// (an octet) at once. An entry has the quants of one octet.
type LookupTable struct {
	Entries int // number of entries, as in the codebook
	Bytes   int // per entry: 4 or 8
	Signs   SignTable
}

// SignTable is an additional table that expands the stored signs of an octet, a bit each, to bytes. An octet has four
// stored signs, or seven: the eighth then makes the number of negative signs even. An entry has one byte per sign.
// There are enough copies of each entry that the lanes of a subgroup of 32 use different banks.
type SignTable struct{ Entries, Bytes, Copies int }

var eightSigns, fourSigns = SignTable{128, 8, 16}, SignTable{16, 4, 32}

// signTables has the sign tables by number of stored signs.
var signTables = map[int]SignTable{7: eightSigns, 4: fourSigns}

// LookupTableOf returns the lookup table of a format, and false if it has none. If the quants are floats, an entry has
// the values of a byte's two nibbles. In a table of iq1, an entry packs its eight quants into nibbles.
func LookupTableOf(t ir.DType) (LookupTable, bool) {
	f, ok := ir.BlockFormatOf(t)
	if !ok || f.Octets == nil || f.Octets.Entries == 0 {
		return LookupTable{}, false
	}
	return LookupTable{f.Octets.Entries, f.Octets.Bytes, signTables[f.Octets.Signs]}, true
}

// lookupTableBytes is the size in bytes of a matvec's tables, with the given number of copies of each entry.
func lookupTableBytes(k *kernel.Kernel, copies int) int {
	t, _ := LookupTableOf(blocksOf(k))
	return t.Entries*t.Bytes*copies + t.Signs.Entries*t.Signs.Bytes*t.Signs.Copies
}

// checkLookup returns an error if a matvec by lookup cannot keep its tables in shared memory. Partial sums later reuse
// the memory of a table, so they must fit in it.
func checkLookup(k *kernel.Kernel, s kernel.MatVec) error {
	blocks := blocksOf(k)
	t, _ := LookupTableOf(blocks)
	switch {
	case !s.Tables || s.StageRows && readsBytes(k):
		return fmt.Errorf("copies are of codebooks in shared memory, %s has none", blocks)
	case !powerOfTwo(s.Copies) || s.Copies > maxCopies:
		return fmt.Errorf("%d copies of a codebook, want a power of two up to %d", s.Copies, maxCopies)
	case s.Coarsen == 0 && matVecPartialSums(k, s) > t.Entries*s.Copies:
		return fmt.Errorf("%d partial sums have no room in a table of %d entries", matVecPartialSums(k, s),
			t.Entries*s.Copies)
	}
	if slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool { return p.B.Kind != kernel.ExprLoad }) {
		return fmt.Errorf("lookups are of blocks that are not cast")
	}
	return nil
}
