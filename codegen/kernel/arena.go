package kernel

import "fmt"

// ArenaAlign is the alignment of temporaries; no device requires a larger alignment of a storage buffer's offset.
const ArenaAlign = 256

// CheckArena returns an error if a temporary is not aligned, or if two temporaries overlap in the arena while both are
// live. It does not trust the planner: it computes lifetimes from the steps alone. A region runs its steps repeatedly.
// If a trip reads a value before it writes it, the value comes from before the region or from the previous trip, so it
// is live through the whole region.
func (p *Program) CheckArena() error {
	temps, needed := p.temporaries()
	for i, a := range temps {
		if at := p.Buffers[a].Offset; at%ArenaAlign != 0 {
			return fmt.Errorf("buffer %d (%s) lies at byte %d of the arena, which is not a multiple of %d", a,
				p.Buffers[a].Name, at, ArenaAlign)
		}
		for _, b := range temps[:i] {
			x, y, lifeX, lifeY := p.Buffers[a], p.Buffers[b], needed[a], needed[b]
			shareBytes := x.Offset < y.Offset+y.Bytes && y.Offset < x.Offset+x.Bytes
			shareSteps := lifeX[0] <= lifeY[1] && lifeY[0] <= lifeX[1]
			if shareBytes && shareSteps {
				return fmt.Errorf("buffers %d (%s, steps %d to %d) and %d (%s, steps %d to %d) lie in one place",
					b, y.Name, lifeY[0], lifeY[1], a, x.Name, lifeX[0], lifeX[1])
			}
		}
	}
	return nil
}

// temporaries lists the temporaries in order of first use, and for each the first and last step of its lifetime.
func (p *Program) temporaries() (temps []int, needed map[int][2]int) {
	needed = map[int][2]int{}
	for at, st := range p.Steps {
		for _, b := range st.Binds {
			if p.Buffers[b.Buffer].Kind != BufTemp {
				continue
			}
			span, seen := needed[b.Buffer]
			if !seen {
				temps, span[0] = append(temps, b.Buffer), at
			}
			span[1] = at
			needed[b.Buffer] = span
		}
	}
	for range p.Regions { // extending an inner region may require extending the outer one
		for _, r := range p.Regions {
			last := r.First + r.Count - 1
			for buffer, reads := range p.readFirst(r) {
				if span := needed[buffer]; reads || span[0] < r.First {
					needed[buffer] = [2]int{min(span[0], r.First), max(span[1], last)}
				}
			}
		}
	}
	return temps, needed
}

// readFirst lists the temporaries that the steps of a region access. The value is true if the region's first access
// reads.
func (p *Program) readFirst(r Region) map[int]bool {
	list := map[int]bool{}
	for _, st := range p.Steps[r.First : r.First+r.Count] {
		for _, b := range st.Binds {
			if _, seen := list[b.Buffer]; !seen && p.Buffers[b.Buffer].Kind == BufTemp {
				list[b.Buffer] = b.Read
			}
		}
	}
	return list
}
