package schedule

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// StateQuads is the number of vec4 of a row of the state that a lane of a recurrence keeps in registers.
func StateQuads(k *kernel.Kernel, s kernel.Recurrent) int {
	return recurrenceSize{keys: k.Recurrence.Keys.Add}.quads(s)
}

// The limits of schedules of recurrences.
const (
	maxStateRows  = 8 // rows of a lane
	maxStateTimes = 8 // time steps whose operands a lane loads together
)

// recurrences lists schedules of a recurrence, the fastest first.
func (h heuristics) recurrences(k *kernel.Kernel) []Candidate {
	var all []ranked
	r := k.Recurrence
	size := recurrenceSize{keys: r.Keys.Add, rows: k.Parallel[len(k.Parallel)-1], points: points(k.Parallel),
		times: k.Fold.Max(), vectors: len(r.Vectors(k.KeyAxis())), corrected: r.A != nil, move: h.moveTime(k)}
	for _, wg := range recurrenceGroups {
		for _, s := range size.schedules(wg, h.subgroup) {
			all = append(all, ranked{Candidate{s, fmt.Sprintf("%s times, %d elements of the state per lane", k.Fold,
				4*size.quads(s)*s.ThreadM)}, h.recurrenceTime(size, s)})
		}
	}
	return byCost(all)
}

// recurrenceGroup is the usual number of invocations of a workgroup, and recurrenceGroups are the others to try.
const recurrenceGroup = 64

var recurrenceGroups = []int{recurrenceGroup, 2 * recurrenceGroup, recurrenceGroup / 2, smallest}

// recurrenceSize has the sizes of a recurrence that its time depends on.
type recurrenceSize struct {
	keys      int64  // elements of a row of the state
	rows      ir.Dim // of a state
	points    int64  // rows of all states
	times     int64
	vectors   int     // operands with an element for each key
	corrected bool    // whether reads of the state correct it
	move      float64 // the time in nanoseconds of the memory traffic
}

// quads is the number of vec4 of a row of the state that a lane keeps in registers.
func (r recurrenceSize) quads(s kernel.Recurrent) int {
	return int(ceil.Div(r.keys, int64(4*max(s.LanesPerRow, 1))))
}

// schedules lists the schedules of a recurrence for workgroups of a size. subgroup is the subgroup size, or 0.
func (r recurrenceSize) schedules(wg, subgroup int) (all []kernel.Recurrent) {
	if wg < subgroup {
		return nil
	}
	for lanes := range doublings(1, max(subgroup, 1)) {
		// A lane has room for a vec4 of the row. If all together have room for two rows, half of the lanes are idle.
		if room := int64(4 * lanes); lanes > 1 && room >= 2*r.keys {
			continue
		}
		for each := range doublings(1, maxStateRows) {
			for times := range doublings(1, maxStateTimes) {
				if !DivisibleBy(r.rows, each) || int64(times) > max(r.times, 1) {
					continue
				}
				s := kernel.Recurrent{Launch: launch(kernel.VarRecurrence, wg, 1), LanesPerRow: lanes, ThreadM: each,
					TileK: times}
				if lanes > 1 {
					s.Subgroup = subgroup
				}
				all = append(all, s)
				if int64(times) < r.times { // otherwise nothing is left to load ahead
					s.Ahead = true
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// The cost of the parts of a recurrence, in cycles of a core's scheduler, fitted to the times of 220 schedules on an
// H200 (M-recurrences).
const (
	stateLoadCycles = 13   // a load
	stateMoveCycles = 5    // moving a register that was loaded ahead
	stateWaitCycles = 1600 // until a load is there, with others under way
	stateLoopCycles = 20   // a round of the loop
	stateSumCycles  = 2    // exchanging a sum with another lane
	aloneFactor     = 1.9  // slowdown of a subgroup that is alone on its scheduler
	waitingFactor   = 1.7  // slowdown of corrections with operands that are not loaded ahead
	nsPerCycle      = 0.6
)

// recurrenceTime estimates the time in nanoseconds of a recurrence. It is the larger of two times: the time in which
// the schedulers do the work of all subgroups, and the time of one subgroup, which computes the steps of the recurrence
// (r.times) one after the other.
func (h heuristics) recurrenceTime(r recurrenceSize, s kernel.Recurrent) float64 {
	if r.times <= 1 {
		return h.oneStepTime(r, s)
	}
	quads, rows, times := r.quads(s), s.ThreadM, s.TileK
	invocations := r.invocations(s)
	// Cycles of a subgroup for each time step: updates of the state, loads, and sums over lanes.
	step, sums := float64(rows*quads*16), 0 // 16 cycles update a quad (four elements) of a row's state
	rounds := bits.Len(uint(s.LanesPerRow)) - 1
	values := rows * times // of y, which the lanes add up together; each round halves the values of a lane
	for range rounds {
		values = max(values/2, 1)
		sums += stateSumCycles * values
	}
	if r.corrected {
		step += float64(rows * (quads*11 + stateSumCycles*rounds))
	}
	step += float64(stateLoadCycles*(r.vectors*quads+(rows+3)/4+1)) + float64(stateLoopCycles+sums)/float64(times)
	late := stateWaitCycles / float64(times)
	usual := recurrenceGroup
	if s.Ahead {
		step += float64(stateMoveCycles * (4*r.vectors*quads + rows + 1))
	} else {
		usual /= 2
	}
	cores := float64(max(h.cores, 1) * 4) // schedulers
	alone, busy := float64(step*aloneFactor), step
	if !s.Ahead {
		alone += late
	}
	if r.corrected && !s.Ahead {
		busy, alone = float64(step*waitingFactor), float64(alone*waitingFactor)
	}
	together := cmp.Or(h.subgroup, 32) // invocations that a scheduler executes together
	cycles := max(busy*invocations/float64(together)/cores, alone, late)
	other := math.Abs(math.Log2(float64(s.Workgroup) / float64(usual))) // workgroups of other sizes
	return max(float64(r.times)*cycles*nsPerCycle*(1+float64(0.02*other)), r.move)
}

// stepsTime estimates the time in nanoseconds of a recurrence that has no kernel yet. It assumes a recurrence without
// corrections, with one decay per head, that is limited by arithmetic rather than by memory.
func (h heuristics) stepsTime(w kernel.Work) (best float64) {
	r := recurrenceSize{keys: w.Columns.Max(), rows: w.Rows, points: w.Rows.Max(), times: w.Depth.Max(), vectors: 2}
	for _, wg := range recurrenceGroups {
		for _, s := range r.schedules(wg, h.subgroup) {
			if t := h.recurrenceTime(r, s); best == 0 || t < best {
				best = t
			}
		}
	}
	return best
}

// invocations is the number of invocations of a recurrence.
func (r recurrenceSize) invocations(s kernel.Recurrent) float64 {
	return float64(r.points) / float64(s.ThreadM) * float64(s.LanesPerRow)
}

// oneStepTime estimates the time in nanoseconds of a recurrence with a single step, as in decoding. Moving the state
// takes most of the time. Many lanes that each move stepElements elements are the fastest.
func (h heuristics) oneStepTime(r recurrenceSize, s kernel.Recurrent) float64 {
	each := math.Log2(float64(4*r.quads(s)*s.ThreadM) / stepElements)
	small := math.Abs(math.Log2(float64(s.Workgroup) / float64(2*recurrenceGroup)))
	again := float64(r.vectors) / float64(s.ThreadM) // reads of operands from the cache
	slowdown := max(1, float64(h.fill*recurrenceGroup)/r.invocations(s))
	return r.move * slowdown * (1 + float64(0.1*math.Abs(each)) + float64(0.05*small) + float64(0.05*again))
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
