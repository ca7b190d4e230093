package kernel

import (
	"errors"
	"fmt"
	"slices"
)

// Persistent is a persistent kernel: one dispatch that executes a run of steps. All of its workgroups must be resident
// at once, because they wait for one another at the barriers between the steps. Vulkan does not guarantee that. So the
// program keeps the steps too, and a device on which the dispatch times out runs the steps.
type Persistent struct {
	First int `json:"first"` // index of the first step
	Count int `json:"count"` // number of steps, at least 2
	// Dispatch has the bindings of its steps, and then two more: the counters for the workgroups' barrier, and the word
	// that they set on a timeout, buffers of kinds BufMeeting and BufLate.
	Dispatch Step `json:"dispatch"`
}

// MeetingWords is the number of counters of a persistent kernel: arrivals at its barriers, and workgroups that have
// finished. The kernel leaves them zero.
const MeetingWords = 2

// MeetingBinds is the number of bindings of a persistent kernel in addition to its steps' bindings.
const MeetingBinds = 2

// end is the first step after the dispatch's steps.
func (k Persistent) end() int { return k.First + k.Count }

// Dispatches are all steps, and the dispatches of persistent kernels after them.
func (p *Program) Dispatches() []Step {
	all := slices.Clone(p.Steps)
	for _, k := range p.Persistent {
		all = append(all, k.Dispatch)
	}
	return all
}

// Joined replaces steps by persistent kernels in a list of steps. The results are numbers into [Program.Dispatches].
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

// Overlap reports whether two buffers share memory: they are the same buffer, or temporaries with overlapping ranges.
func (p *Program) Overlap(a, b int) bool {
	x, y := p.Buffers[a], p.Buffers[b]
	return a == b || x.Kind == BufTemp && y.Kind == BufTemp &&
		x.Offset < y.Offset+y.Bytes && y.Offset < x.Offset+x.Bytes
}

// checkPersistent refuses persistent kernels without counters, without barriers around them, or with steps that do not
// run one after the other.
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

// LateError says that the workgroups of a persistent kernel were not all resident at once, so that some gave up
// waiting. The results of the run are wrong.
type LateError struct {
	Program string
}

// Error says what happened and how to avoid it.
func (e *LateError) Error() string {
	return fmt.Sprintf("%s: workgroups of a persistent kernel waited seconds for others that the device had no room "+
		"for, so that the run's results are wrong: load the program again, or compile it with VKC_DISABLE=persistent",
		e.Program)
}
