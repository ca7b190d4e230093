package schedule

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// StateQuads is the number of vec4 of a row of the state that a lane of a recurrence keeps in registers.
func StateQuads(k *kernel.Kernel, s kernel.Recurrent) int {
	return int(ceilDiv(k.Recurrence.Keys.Add, int64(4*max(s.LanesPerRow, 1))))
}

// The limits of schedules of recurrences.
const (
	maxStateRows  = 8 // rows of a lane
	maxStateTimes = 8 // times whose operands a lane loads together
)

// recurrences lists schedules of a recurrence, the fastest first.
func (h heuristics) recurrences(k *kernel.Kernel) []Candidate {
	var all []ranked
	for _, wg := range []int{2 * recurrenceGroup, recurrenceGroup, recurrenceGroup / 2} {
		for _, s := range recurrencesOf(k, wg, h.subgroup) {
			all = append(all, ranked{Candidate{s, fmt.Sprintf("%s times, %d elements of the state per lane", k.Fold,
				4*StateQuads(k, s)*s.ThreadM)}, h.recurrenceTime(k, s)})
		}
	}
	return byCost(all)
}

// recurrenceGroup is the usual number of invocations of a workgroup. Teams of lanes never wait for each other, so small
// workgroups only balance better.
const recurrenceGroup = 64

// recurrencesOf lists the schedules of a recurrence for workgroups of a size. subgroup is the subgroup size, or 0.
func recurrencesOf(k *kernel.Kernel, wg, subgroup int) (all []kernel.Recurrent) {
	if wg < subgroup {
		return nil
	}
	keys, rows := k.Recurrence.Keys.Add, k.Parallel[len(k.Parallel)-1]
	for lanes := range doublings(1, max(subgroup, 1)) {
		if lanes > 1 && int64(4*lanes) >= 2*keys {
			continue // half of the lanes would have nothing
		}
		for each := range doublings(1, maxStateRows) {
			for times := range doublings(1, maxStateTimes) {
				if !DivisibleBy(rows, each) || int64(times) > max(k.Fold.Max(), 1) {
					continue
				}
				s := kernel.Recurrent{Launch: launch(kernel.VarRecurrence, wg, 1), LanesPerRow: lanes, ThreadM: each,
					TileK: times}
				if lanes > 1 {
					s.Subgroup = subgroup
				}
				all = append(all, s)
				if s.Ahead = true; int64(times) < k.Fold.Max() {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// The cycles that a recurrence waits for, if nothing else hides them.
const (
	loadCycles    = 600 // a load
	shuffleCycles = 25  // a shuffle
	addCycles     = 4   // an addition
	nsPerCycle    = 0.6
)

// recurrenceTime estimates the time in nanoseconds of a recurrence. Either the arithmetic takes longest, or the steps
// that each wait for the one before, or moving the state.
func (h heuristics) recurrenceTime(k *kernel.Kernel, s kernel.Recurrent) float64 {
	r, quads, rows, times := k.Recurrence, StateQuads(k, s), s.ThreadM, s.TileK
	rounds := bits.Len(uint(s.LanesPerRow)) - 1
	// Operations of a lane for each time: updates of the state, loads, and sums over lanes.
	updates := rows * quads * 4 * 3
	loads := loadOps * (len(r.Vectors(k.KeyAxis()))*quads + (rows+3)/4 + 1)
	sums, shared := 0, rows*times // y in a group of times
	for i := rounds; i > 0; i-- {
		shared = max(shared/2, 1)
		sums += 4 * shared
	}
	ops := float64(updates+loads) + float64(sums+20)/float64(times)
	wait := float64(2 * addCycles)
	if r.A != nil {
		ops += float64(rows*quads*4*2 + 4*rows*rounds)
		wait += float64((4*quads+3)*addCycles + rounds*(shuffleCycles+addCycles))
	}
	invocations := float64(points(k.Parallel)) / float64(rows) * float64(s.LanesPerRow)
	perNs := h.VectorF32 * 1e3 / 2 // operations of all cores; VectorF32 counts a multiply-add as two
	slowdown := max(1, float64(h.fill*recurrenceGroup)/invocations)
	busy := ops * invocations * slowdown / perNs
	step := max(busy, float64(wait*nsPerCycle))
	if late := float64(loadCycles*nsPerCycle) / float64(times); !s.Ahead {
		step += late
	} else {
		step = max(step, late)
	}
	if k.Fold.Max() <= 1 { // moving the state takes longest, and goes best with many lanes that each move a little
		each := math.Log2(float64(4*quads*rows) / stepElements)
		small := math.Log2(float64(max(2*recurrenceGroup/s.Workgroup, 1)))
		again := float64(len(r.Vectors(k.KeyAxis()))) / float64(rows) // reads of operands from the cache
		return h.moveTime(k) * slowdown * (1 + float64(0.1*math.Abs(each)) + float64(0.05*small) + float64(0.05*again))
	}
	balance := 1 + float64(s.Workgroup)/float64(recurrenceGroup*16) // of the last workgroups
	return max(float64(k.Fold.Max())*step*balance, h.moveTime(k))
}

// stepElements is the number of elements of the state that a lane has if there is one time.
const stepElements = 16

// checkRecurrence returns an error if a recurrence cannot run with a schedule.
func checkRecurrence(k *kernel.Kernel, s kernel.Recurrent) error {
	if err := k.CheckRecurrence(); err != nil {
		return err
	}
	switch rows := k.Parallel[len(k.Parallel)-1]; {
	case !powerOfTwo(s.LanesPerRow) || s.LanesPerRow > max(s.Subgroup, 1) || s.Workgroup%s.LanesPerRow != 0:
		return fmt.Errorf("%d lanes share a row, want a power of two up to the subgroup size %d", s.LanesPerRow,
			s.Subgroup)
	case s.LanesPerRow == 1 && s.Subgroup != 0:
		return fmt.Errorf("one lane has a row, and needs no subgroup")
	case !powerOfTwo(s.ThreadM) || s.ThreadM > maxStateRows || !DivisibleBy(rows, s.ThreadM):
		return fmt.Errorf("%d rows of a lane, want a power of two up to %d that divides %s", s.ThreadM, maxStateRows,
			rows)
	case !powerOfTwo(s.TileK) || s.TileK > maxStateTimes:
		return fmt.Errorf("%d times together, want a power of two up to %d", s.TileK, maxStateTimes)
	case s.Vec != 1:
		return fmt.Errorf("a lane has whole vec4 of a row")
	}
	return nil
}

// recurrenceSpace lists schedules of a recurrence, for measurements.
func recurrenceSpace(k *kernel.Kernel, caps device.Caps) []kernel.Schedule {
	var all []kernel.Schedule
	for wg := range doublings(32, 256) {
		for _, s := range recurrencesOf(k, wg, subgroupOf(caps)) {
			all = append(all, s)
		}
	}
	return all
}
