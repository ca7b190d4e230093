package kernel

import (
	"fmt"
	"slices"
)

// Persistent is a persistent kernel: one dispatch that executes several consecutive steps, with a barrier for all
// workgroups between them. The workgroups wait for one another, so all must be resident at once. Vulkan does not
// guarantee that. So the program keeps the steps too, and a device on which the dispatch times out runs the steps
// instead.
type Persistent struct {
	First int `json:"first"` // index of the first step
	Count int `json:"count"` // number of steps, at least 2
	// Dispatch has the bindings of its steps and then two more: the counters of the workgroups' barrier (kind
	// BufBarrier), and the word that a workgroup sets on a timeout (kind BufLate).
	Dispatch Step `json:"dispatch"`
}

// BarrierWords is the number of counters of a persistent kernel: one counts arrivals at its barriers, and one counts
// workgroups that have finished. The kernel resets both to zero.
const BarrierWords = 2

// BarrierBinds is the number of bindings of a persistent kernel in addition to its steps' bindings.
const BarrierBinds = 2

// end is the first step after the steps that the dispatch executes.
func (k Persistent) end() int { return k.First + k.Count }

// Dispatches returns all steps, followed by the dispatches of the persistent kernels.
func (p *Program) Dispatches() []Step {
	all := slices.Clone(p.Steps)
	for _, k := range p.Persistent {
		all = append(all, k.Dispatch)
	}
	return all
}

// UsePersistent returns the dispatches that execute the given steps: persistent kernels for the steps that have one,
// and the other steps themselves. Both are indices into [Program.Dispatches].
func (p *Program) UsePersistent(steps []int) []int {
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
		n += p.Persistent[i].Count - 1 // its other steps
	}
	return list
}

// Overlap reports whether two buffers share memory: they are the same buffer, or temporaries with overlapping ranges.
func (p *Program) Overlap(a, b int) bool {
	x, y := p.Buffers[a], p.Buffers[b]
	return a == b || x.Kind == BufTemp && y.Kind == BufTemp &&
		x.Offset < y.Offset+y.Bytes && y.Offset < x.Offset+x.Bytes
}

// checkPersistent finds persistent kernels without counters, without barriers around them, or with steps that are not
// consecutive.
func (c *checker) checkPersistent() {
	c.require(len(c.Persistent) == 0 || len(c.Gated()) == 0, "a program of persistent kernels has gates")
	borders := c.Borders()
	last := c.Prepared
	for i, k := range c.Persistent {
		c.begin("persistent kernel %d", i)
		var kinds []BufferKind
		for _, b := range k.Dispatch.Binds {
			kinds = append(kinds, c.Buffers[b.Buffer].Kind)
		}
		c.require(k.First >= last && k.Count >= 2 && k.Count <= len(c.Steps) && k.First <= len(c.Steps)-k.Count,
			"it does %d steps from %d on, of %d", k.Count, k.First, len(c.Steps))
		c.require(!slices.Contains(borders[k.First+1:k.end()], true), "a region begins or ends among its steps")
		// The first step of a run and the end of the program need no barriers.
		before := k.First <= c.Prepared || k.Dispatch.Barrier
		after := k.end() == len(c.Steps) || c.Steps[k.end()].Barrier
		c.require(before && after, "no barrier stands before or after it")
		c.require(len(kinds) >= BarrierBinds && k.Dispatch.IsStatic() &&
			slices.Equal(kinds[len(kinds)-BarrierBinds:], []BufferKind{BufBarrier, BufLate}),
			"it lacks counters or a number of workgroups")
		last = k.end()
	}
}

// LateError says that the workgroups of a persistent kernel were not all resident at once, so that some stopped
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
