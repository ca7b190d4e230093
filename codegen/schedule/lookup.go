package schedule

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

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
