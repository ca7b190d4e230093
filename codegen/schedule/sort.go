package schedule

import (
	"fmt"
	"math/bits"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// SortSlots returns the number of slots in shared memory for sorting a row: the row's length rounded up to a power of
// two, as the sorting network requires.
func SortSlots(k *kernel.Kernel) int { return powerOfTwoFrom(k.Fold.Max()) }

// Shared memory of a selection (top-k), in words, in addition to the selected elements: SelectBins for a histogram of
// the keys by SelectBits bits, as in a radix search for the last element to take, and SelectState for the state
// of the search.
const (
	SelectBits  = 11
	SelectBins  = 1 << SelectBits
	SelectState = 4
)

// maxSelectCache limits the number of keys that an invocation of a selection keeps in registers. With workgroups of
// 256, which most devices allow, maxCached is enough.
const maxSelectCache = 256

// SelectSlots returns the number of slots in shared memory for sorting the selected elements.
func SelectSlots(k *kernel.Kernel) int { return powerOfTwoFrom(k.Take.Max()) }

// powerOfTwoFrom is the smallest power of two that is at least n and at least 2.
func powerOfTwoFrom(n int64) int { return 1 << bits.Len64(uint64(max(n, 2)-1)) }

// sorts lists schedules of a sort, with an invocation per pair of elements if the device allows that many. Several
// short rows share a workgroup.
func (h heuristics) sorts(k *kernel.Kernel) []Candidate {
	all := h.selects(k)
	slots := SortSlots(k)
	lanes := max(min(slots/2, h.rowLanes, 512), 2)
	// Workgroups of short rows are small, because all invocations synchronize after every step.
	for wg := max(lanes, min(h.rowWorkgroup, 64)); wg >= 2; wg /= 2 {
		lanes = min(lanes, wg)
		all = append(all, Candidate{kernel.Lanes{Launch: launch(kernel.VarSort, wg, 1), LanesPerRow: lanes},
			fmt.Sprintf("rows of %s in %d places of shared memory", k.Fold, slots)})
	}
	return all
}

// selects lists schedules with one workgroup per row that select the first elements of the order and sort only them. It
// is empty if a sort of the whole row is as fast, because many of its elements are taken or it is short. Workgroups of
// 256 are the fastest (M-select).
func (h heuristics) selects(k *kernel.Kernel) []Candidate {
	var all []Candidate
	n := k.Fold.Max()
	short, takesFew := n <= 2048, n >= 512 && n >= 8*k.Take.Max()
	if short && !takesFew {
		return nil
	}
	// Start from the smallest workgroup of at least 256 invocations, or of rowLanes, that has enough registers.
	most := min(h.rowLanes, 256)
	fits := func(wg int) bool {
		s := selectSchedule(k, wg)
		return s.Cache <= maxCached && h.fits(k, s)
	}
	for most < SelectBins && !fits(most) {
		most *= 2
	}
	for wg := most; wg >= smallest && ceil.Div(n, int64(wg)) <= maxSelectCache; wg /= 2 {
		all = append(all, Candidate{selectSchedule(k, wg), fmt.Sprintf("%s elements of rows of %s", k.Take, k.Fold)})
	}
	return all
}

// selectSchedule is the schedule of a selection by a workgroup that keeps the whole row in registers.
func selectSchedule(k *kernel.Kernel, wg int) kernel.Row {
	return kernel.Row{Launch: launch(kernel.VarSelect, wg, 1), LanesPerRow: wg,
		Cache: int(ceil.Div(k.Fold.Max(), int64(wg)))}
}

// checkSelect returns an error if a schedule cannot select elements of a kernel's rows.
func checkSelect(k *kernel.Kernel, s kernel.Row) error {
	switch {
	case s.LanesPerRow != s.Workgroup:
		return fmt.Errorf("%d lanes per row in a workgroup of %d: a selection takes all of it",
			s.LanesPerRow, s.Workgroup)
	case s.Workgroup > SelectBins:
		return fmt.Errorf("a workgroup of %d for %d bins", s.Workgroup, SelectBins)
	case s.Cache < 1 || s.Cache > maxSelectCache:
		return fmt.Errorf("caching %d elements, want 1 to %d", s.Cache, maxSelectCache)
	case int64(s.Cache)*int64(s.LanesPerRow) < k.Fold.Max():
		return fmt.Errorf("caching %d elements in each of %d lanes does not hold a row of %s", s.Cache,
			s.LanesPerRow, k.Fold)
	}
	return checkSort(k, kernel.Lanes{Launch: s.Launch, LanesPerRow: s.LanesPerRow})
}

// checkSort returns an error if a schedule cannot sort a kernel's rows.
func checkSort(k *kernel.Kernel, s kernel.Lanes) error {
	switch {
	case len(k.Phases) != 1:
		return fmt.Errorf("a sort of %d phases, want one", len(k.Phases))
	case k.Phases[0].Value.DType == ir.I64 || k.Phases[0].Value.DType == ir.F64:
		return fmt.Errorf("a sort by %s, keys have 32 bits", k.Phases[0].Value.DType)
	case s.Vec != 1 || s.Subgroup != 0:
		return fmt.Errorf("a sort takes neither vectors nor subgroups")
	}
	return checkLanes(s.Launch, s.LanesPerRow)
}
