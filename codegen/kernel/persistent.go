package kernel

import (
	"errors"
	"fmt"
	"slices"
)

// Persistent is a persistent kernel: one dispatch that does what a run of steps does. All its workgroups are on the
// device at a time, and wait for one another where barriers stand between the steps. Vulkan does not promise that they
// are: so the steps are there as well, and a device that fails to run the dispatch runs them.
type Persistent struct {
	First int `json:"first"` // of the steps
	Count int `json:"count"` // of steps, at least 2
	// Dispatch is bound like a step, and then to the counters by which workgroups wait and to the word that they set
	// where they wait in vain: buffers of kinds BufMeeting and BufLate.
	Dispatch Step `json:"dispatch"`
}

// MeetingWords is how many counters a persistent kernel has: how often a workgroup came to where they wait, and how
// many are done. It leaves zeros.
const MeetingWords = 2

// MeetingBinds is how many bindings a persistent kernel has beside those of its steps.
const MeetingBinds = 2

// end is the step after those that the dispatch does.
func (k Persistent) end() int { return k.First + k.Count }

// Dispatches are all steps, and the dispatches of persistent kernels after them.
func (p *Program) Dispatches() []Step {
	all := slices.Clone(p.Steps)
	for _, k := range p.Persistent {
		all = append(all, k.Dispatch)
	}
	return all
}

// Joined has persistent kernels in place of their steps in a list of steps: the numbers are those of
// [Program.Dispatches].
func (p *Program) Joined(steps []int) []int {
	at := map[int]int{}
	for i, k := range p.Persistent {
		at[k.First] = i
	}
	var list []int
	for n := 0; n < len(steps); n++ {
		i, ok := at[steps[n]]
		if !ok {
			list = append(list, steps[n])
			continue
		}
		list = append(list, len(p.Steps)+i)
		n += p.Persistent[i].Count - 1
	}
	return list
}

// Overlap reports whether two buffers have memory in common: they are one, or temporaries whose places overlap.
func (p *Program) Overlap(a, b int) bool {
	x, y := p.Buffers[a], p.Buffers[b]
	return a == b || x.Kind == BufTemp && y.Kind == BufTemp &&
		x.Offset < y.Offset+y.Bytes && y.Offset < x.Offset+x.Bytes
}

// checkPersistent refuses persistent kernels whose steps are not run one after the other, or without barriers around
// them, or that lack counters.
func (p *Program) checkPersistent() error {
	if len(p.Persistent) > 0 && len(p.Gated()) > 0 {
		return errors.New("a program of persistent kernels has gates")
	}
	borders := p.Borders()
	last := p.Prepared
	for i, k := range p.Persistent {
		var kinds []BufferKind
		for _, b := range k.Dispatch.Binds {
			kinds = append(kinds, p.Buffers[b.Buffer].Kind)
		}
		switch {
		case k.First < last || k.Count < 2 || k.Count > len(p.Steps) || k.First > len(p.Steps)-k.Count:
			return fmt.Errorf("persistent kernel %d: it does %d steps from %d on, of %d", i, k.Count, k.First,
				len(p.Steps))
		case slices.Contains(borders[k.First+1:k.end()], true):
			return fmt.Errorf("persistent kernel %d: a region begins or ends among its steps", i)
		case k.First > p.Prepared && !k.Dispatch.Barrier, k.end() < len(p.Steps) && !p.Steps[k.end()].Barrier:
			return fmt.Errorf("persistent kernel %d: no barrier stands before or after it", i)
		case len(kinds) < MeetingBinds || !k.Dispatch.Grid.IsStatic(),
			!slices.Equal(kinds[len(kinds)-MeetingBinds:], []BufferKind{BufMeeting, BufLate}):
			return fmt.Errorf("persistent kernel %d: it lacks counters or a number of workgroups", i)
		}
		last = k.end()
	}
	return nil
}

// LateError says that the workgroups of a persistent kernel were not all on the device at a time, so that some did not
// wait for others: what the run made is wrong.
type LateError struct {
	Program string
}

// Error says what happened and what to do.
func (e *LateError) Error() string {
	return fmt.Sprintf("%s: workgroups of a persistent kernel waited seconds for others that the device had no room "+
		"for, so that the run's results are wrong: load the program again, or compile it with VKC_DISABLE=persistent",
		e.Program)
}
