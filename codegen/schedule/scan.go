package schedule

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
)

// scans lists schedules for scans. As for row kernels, one invocation scans a row if rows are short or interleaved in
// memory; otherwise several lanes share a row.
func (h heuristics) scans(k *kernel.Kernel) []Candidate {
	if k.Fold.Max() <= h.rowSerial || rowsInterleaved(k) {
		return append(h.serialScans(k), h.groupScans(k)...)
	}
	return append(h.groupScans(k), h.serialScans(k)...)
}

// serialScans lists schedules with one invocation per row.
func (h heuristics) serialScans(k *kernel.Kernel) []Candidate {
	return shrinking(min(h.rowWorkgroup, 64), func(wg int) Candidate {
		return Candidate{kernel.Lanes{Launch: launch(kernel.VarScanSerial, wg, scanVec(k, 4)), LanesPerRow: 1},
			fmt.Sprintf("rows of %s, one invocation each", k.Fold)}
	})
}

// groupScans lists schedules with about rowPerLane elements per lane.
func (h heuristics) groupScans(k *kernel.Kernel) []Candidate {
	var all []Candidate
	fold := k.Fold.Max()
	lanes := 2
	for lanes < min(h.rowLanes, h.rowWorkgroup) && int64(lanes)*h.rowPerLane < fold {
		lanes *= 2
	}
	for ; lanes >= 2; lanes /= 2 {
		for wg := max(lanes, h.rowWorkgroup); wg >= max(lanes, smallest); wg /= 2 {
			for _, subgroup := range []int{h.subgroup, 0} {
				s := kernel.Lanes{Launch: launch(kernel.VarScanGroup, wg, scanVec(k, 4)), LanesPerRow: lanes}
				s.Subgroup = subgroup
				all = append(all, Candidate{s,
					fmt.Sprintf("rows of %s, %d elements per lane", k.Fold, ceil.Div(fold, int64(lanes)))})
			}
		}
	}
	return all
}

// scanVec returns the vector width along the rows of a scan, up to limit: neither a row nor the part of it up to
// k.Limit ends inside a vector.
func scanVec(k *kernel.Kernel, limit int) int {
	n := rowVec(k, limit)
	for n > 1 && k.Limit != nil && !DivisibleBy(k.Limit.Below, n) {
		n /= 2
	}
	return n
}

func checkScan(k *kernel.Kernel, s kernel.Lanes) error {
	if len(k.Phases) != 1 {
		return fmt.Errorf("a scan of %d phases, want one", len(k.Phases))
	}
	return checkLanes(s.Launch, s.LanesPerRow)
}
