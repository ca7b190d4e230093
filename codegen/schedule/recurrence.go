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
	for _, wg := range []int{recurrenceGroup, 2 * recurrenceGroup, recurrenceGroup / 2, smallest} {
		for _, s := range recurrencesOf(k, wg, h.subgroup) {
			all = append(all, ranked{Candidate{s, fmt.Sprintf("%s times, %d elements of the state per lane", k.Fold,
				4*StateQuads(k, s)*s.ThreadM)}, h.recurrenceTime(k, s)})
		}
	}
	return byCost(all)
}

// recurrenceGroup is the usual number of invocations of a workgroup.
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

// The cost of the parts of a recurrence, in cycles of a core's scheduler, fitted to the times of 200 schedules on an
// H200 (M-recurrences).
const (
	stateLoadCycles = 13   // a load
	stateMoveCycles = 5    // moving a register that was loaded ahead
	stateWaitCycles = 1600 // until a load is there, with others under way
	stateLoopCycles = 20   // a round of the loop
	stateSumCycles  = 2    // exchanging a sum with another lane
	aloneFactor     = 1.9  // by which a subgroup is slower if a scheduler has no other
	waitingFactor   = 1.7  // by which corrections are slower whose operands are not loaded ahead
	nsPerCycle      = 0.6
)

// recurrenceTime estimates the time in nanoseconds of a recurrence. It is the larger of two times: the time in which
// the schedulers do the work of all subgroups, and the time of one subgroup, which executes one time after the other.
func (h heuristics) recurrenceTime(k *kernel.Kernel, s kernel.Recurrent) float64 {
	if k.Fold.Max() <= 1 {
		return h.oneStepTime(k, s)
	}
	r, quads, rows, times := k.Recurrence, StateQuads(k, s), s.ThreadM, s.TileK
	vectors := len(r.Vectors(k.KeyAxis()))
	invocations := stateInvocations(k, s)
	// Cycles of a subgroup for each time: updates of the state, loads, and sums over lanes.
	step, sums := float64(rows*quads*16), 0
	rounds := bits.Len(uint(s.LanesPerRow)) - 1
	for shared, i := rows*times, rounds; i > 0; i-- { // y in a group of times
		shared = max(shared/2, 1)
		sums += stateSumCycles * shared
	}
	if r.A != nil {
		step += float64(rows * (quads*11 + stateSumCycles*rounds))
	}
	step += float64(stateLoadCycles*(vectors*quads+(rows+3)/4+1)) + float64(stateLoopCycles+sums)/float64(times)
	late := stateWaitCycles / float64(times)
	usual := recurrenceGroup
	if s.Ahead {
		step += float64(stateMoveCycles * (4*vectors*quads + rows + 1))
	} else {
		usual /= 2
	}
	cores := float64(max(h.cores, 1) * 4) // schedulers
	alone, busy := float64(step*aloneFactor), step
	if !s.Ahead {
		alone += late
	}
	if r.A != nil && !s.Ahead {
		busy = float64(step * waitingFactor)
	}
	cycles := max(busy*invocations/float64(max(h.subgroup, 1))/cores, alone, late)
	other := math.Abs(math.Log2(float64(s.Workgroup) / float64(usual))) // workgroups of other sizes
	return max(float64(k.Fold.Max())*cycles*nsPerCycle*(1+float64(0.02*other)), h.moveTime(k))
}

// stateInvocations is the number of invocations of a recurrence.
func stateInvocations(k *kernel.Kernel, s kernel.Recurrent) float64 {
	return float64(points(k.Parallel)) / float64(s.ThreadM) * float64(s.LanesPerRow)
}

// oneStepTime estimates the time in nanoseconds of a recurrence of one time, such as a decoding step. Moving the state
// takes longest, and is fastest with many lanes that each move stepElements elements.
func (h heuristics) oneStepTime(k *kernel.Kernel, s kernel.Recurrent) float64 {
	each := math.Log2(float64(4*StateQuads(k, s)*s.ThreadM) / stepElements)
	small := math.Abs(math.Log2(float64(s.Workgroup) / float64(2*recurrenceGroup)))
	again := float64(len(k.Recurrence.Vectors(k.KeyAxis()))) / float64(s.ThreadM) // reads of operands from the cache
	slowdown := max(1, float64(h.fill*recurrenceGroup)/stateInvocations(k, s))
	return h.moveTime(k) * slowdown * (1 + float64(0.1*math.Abs(each)) + float64(0.05*small) + float64(0.05*again))
}

// stepElements is the number of elements of the state that a lane should have if there is one time.
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
