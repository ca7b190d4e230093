package layout

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// insertBarriers inserts a barrier before every step with a data hazard: the step accesses data that another one since
// the last barrier wrote, or writes data that such a step read. Two steps that write different elements of a buffer
// have no hazard.
func (pl *planner) insertBarriers() {
	borders := pl.p.Borders()
	var since []access // since the last barrier
	for i := range pl.p.Steps {
		st := &pl.p.Steps[i]
		if pl.p.Begins(i) {
			since = nil
		}
		own := make([]access, len(st.Binds))
		for n, b := range st.Binds {
			own[n] = access{b, pl.kernels[i], n}
		}
		st.Barrier = borders[i] || slices.ContainsFunc(own, func(a access) bool {
			return slices.ContainsFunc(since, func(b access) bool { return pl.conflict(a, b) })
		})
		if st.Barrier {
			since = nil
		}
		since = append(since, own...)
	}
}

// access is one binding of a step.
type access struct {
	kernel.Bind
	k     *kernel.Kernel
	index int // of the binding
}

// conflict reports whether two accesses must be separated by a barrier.
func (pl *planner) conflict(a, b access) bool {
	apart := func() bool { return a.Buffer == b.Buffer && kernel.WriteApart(a.k, a.index, b.k, b.index) }
	return (a.Write || b.Write) && pl.p.Overlap(a.Buffer, b.Buffer) && !apart()
}
