package kernel

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// FamilyLoop represents a loop while kernels form a graph. It binds the carried values, which it reads and writes, and
// then the other inputs of the body. When the program is laid out, the kernels of the loop's body replace it, as a
// [Region].
const FamilyLoop Family = "loop"

// Loop describes the loop of a kernel of FamilyLoop.
type Loop struct {
	Trips   ir.Dim // number of trips, or its maximum with While
	While   bool   // stop when binding 0, a bool, is false
	Carried int    // number of carried bindings, which come first
	Body    int    // the id of the body, assigned by the pass that lowered it
}

// describe returns the loop as text, for dumps.
func (l *Loop) describe() string {
	text := fmt.Sprintf("loop %d of %s trips", l.Body, l.Trips)
	if l.While {
		text += " at most, while binding 0"
	}
	return text + fmt.Sprintf(", %d carried", l.Carried)
}

// Region is a range of steps that is repeated. Regions are nested or disjoint.
type Region struct {
	First int `json:"first"` // number of the first step
	Count int `json:"count"` // number of steps, at least 1
	// Trips is the number of repetitions. There is a barrier before each trip and after the last.
	Trips ir.Dim `json:"trips"`
	// Gated says that the first step is a gate. In each trip it decides whether the steps after it run: it writes their
	// workgroup counts, or zeros, to the buffer of kind BufGated.
	Gated bool `json:"gated,omitempty"`
}

// end is the first step after the region.
func (r Region) end() int { return r.First + r.Count }

// Borders reports, for each step, whether a barrier must come before it: because a region begins at the step, because a
// region ended just before it, or because the step before it is a gate.
func (p *Program) Borders() []bool {
	is := make([]bool, len(p.Steps)+1)
	for _, r := range p.Regions {
		is[r.First], is[r.end()] = true, true
		is[r.First+1] = is[r.First+1] || r.Gated
	}
	return is[:len(p.Steps)]
}

// Gated lists the steps that a gate may skip: the steps of gated regions after the first, which is the gate. The
// workgroup counts of step Gated()[i] begin at word 3*i of the buffers of kinds BufGrids and BufGated.
func (p *Program) Gated() []int {
	is := make([]bool, len(p.Steps))
	for _, r := range p.Regions {
		// The first step of a gated region is the gate itself, which always runs.
		for i := r.First + 1; r.Gated && i < r.end(); i++ {
			is[i] = true
		}
	}
	var list []int
	for i, gated := range is {
		if gated {
			list = append(list, i)
		}
	}
	return list
}

// Walk visits the steps from number from on, in execution order. It calls step for each step, and repeat for each
// region. repeat must call body once per trip; body visits the steps of the region.
func (p *Program) Walk(from int, step func(i int), repeat func(r Region, body func())) {
	regions := p.Regions
	for len(regions) > 0 && regions[0].First < from {
		regions = regions[1:]
	}
	p.walk(from, len(p.Steps), regions, step, repeat)
}

// walk visits the steps from `from` to `to`-1 in order, as Walk does. regions has the regions among them, outer ones
// first.
func (p *Program) walk(from, to int, regions []Region, step func(i int), repeat func(r Region, body func())) {
	for i := from; i < to; {
		if len(regions) == 0 || regions[0].First != i {
			step(i)
			i++
			continue
		}
		// The regions after r that begin before its end are inside of it.
		r, inner := regions[0], 1
		for inner < len(regions) && regions[inner].First < r.end() {
			inner++
		}
		in := regions[1:inner]
		repeat(r, func() {
			p.walk(r.First, r.end(), in, step, repeat)
		})
		i, regions = r.end(), regions[inner:]
	}
}

// maxRegionDepth is the maximum nesting depth of regions.
const maxRegionDepth = 2*ir.MaxBodyDepth + 1

// maxRegions bounds the regions of a program.
const maxRegions = 1 << 16

// checkRegions finds regions that overlap without nesting, or are nested too deeply.
func (c *checker) checkRegions() {
	c.require(len(c.Regions) <= maxRegions, "%d regions, more than %d", len(c.Regions), maxRegions)
	var open []Region
	for i, r := range c.Regions {
		c.begin("region %d", i)
		// open has the regions around region i, the innermost last.
		for len(open) > 0 && open[len(open)-1].end() <= r.First {
			open = open[:len(open)-1]
		}
		last := Region{Count: len(c.Steps)} // the whole program
		if len(open) > 0 {
			last = open[len(open)-1]
		}
		inside := r.First >= c.Prepared && r.Count >= 1 && r.Count <= len(c.Steps) && r.First <= len(c.Steps) &&
			r.First >= last.First && r.end() <= last.end()
		ordered := i == 0 || r.First >= c.Regions[i-1].First
		atGate := len(open) > 0 && r.First == last.First && last.Gated
		c.require(inside && ordered && !atGate, "%d steps from %d on do not lie in the %d from %d on", r.Count, r.First,
			last.Count, last.First)
		c.require(len(open) < maxRegionDepth, "more than %d lie in one another", maxRegionDepth)
		c.require(r.Trips.Min() >= 0 && r.Trips.Max() >= 0, "%s trips", r.Trips)
		c.checkDim(r.Trips)
		open = append(open, r)
	}
}

// checkGates finds regions without barriers, gates that write no workgroup counts, and a wrong number of counts. All
// buffers are known to exist.
func (c *checker) checkGates() {
	for i, borders := range c.Borders() {
		c.require(!borders || c.Steps[i].Barrier, "step %d (%s): no barrier stands where a region begins or ends", i,
			c.Steps[i].Name)
	}
	words := int64(3 * len(c.Gated())) // a workgroup count is three words: x, y and z
	counts := map[BufferKind]bool{}
	for i, b := range c.Buffers {
		if b.Kind != BufGrids && b.Kind != BufGated {
			continue
		}
		c.require(b.DType == ir.U32 && b.Shape.MaxElems() == words && !counts[b.Kind],
			"buffer %d (%s): %s%s for the workgroup counts of %d steps", i, b.Name, b.DType, b.Shape, words/3)
		counts[b.Kind] = true
	}
	for i, r := range c.Regions {
		writes := slices.ContainsFunc(c.Steps[r.First].Binds, func(b Bind) bool {
			return b.Write && c.Buffers[b.Buffer].Kind == BufGated
		})
		c.require(writes || !r.Gated, "region %d: its first step is not a gate", i)
	}
}
