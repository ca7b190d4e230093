package target

import (
	"fmt"
	"math/bits"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// SortPlaces returns how many places the sort of a row takes in shared memory:
// the next power of two, since the network compares pairs at such distances.
func SortPlaces(k *kernel.Kernel) int {
	return 1 << bits.Len64(uint64(max(k.Fold.Max(), 2)-1))
}

// sorts: one workgroup per row, an invocation per pair while there are enough.
func (t tuning) sorts(k *kernel.Kernel) []Candidate {
	var all []Candidate
	places := SortPlaces(k)
	for wg := max(min(places/2, t.rowLanes, 512), 2); wg >= 2; wg /= 2 {
		all = append(all, Candidate{
			kernel.Schedule{Variant: kernel.VarSort, Workgroup: wg, Vec: 1, LanesPerRow: wg},
			fmt.Sprintf("rows of %s in %d places of shared memory", k.Fold, places),
		})
	}
	return all
}

func checkSort(k *kernel.Kernel, s kernel.Schedule) error {
	switch {
	case len(k.Phases) != 1:
		return fmt.Errorf("a sort of %d phases, want one", len(k.Phases))
	case k.Phases[0].Value.DType == ir.I64 || k.Phases[0].Value.DType == ir.F64:
		return fmt.Errorf("a sort by %s, keys have 32 bits", k.Phases[0].Value.DType)
	case s.LanesPerRow != s.Workgroup || s.Workgroup < 2:
		return fmt.Errorf("%d lanes per row in a workgroup of %d: a sort takes all of it", s.LanesPerRow, s.Workgroup)
	case s.Vec != 1 || s.Subgroup != 0:
		return fmt.Errorf("a sort takes neither vectors nor subgroups")
	}
	return checkLanes(s)
}
