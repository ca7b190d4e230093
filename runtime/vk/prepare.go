package vk

import (
	"context"
	"slices"
	"strconv"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
)

// runPrepared runs the prepared steps: the program's first steps, which depend only on weights and so run once, at
// load. Their results stay in buffers of their own, the prepared weights. It skips steps that are only needed for
// results that are borrowed from another program.
func (rec *recorder) runPrepared(ctx context.Context) {
	steps := rec.unprepared()
	if len(steps) == 0 {
		return
	}
	bailout.Check(rec.device.runOnce(ctx, "preparation of "+rec.program.Name, func(c *CommandList) {
		for n, i := range steps {
			// If steps were skipped, so were their barriers.
			if n > 0 && (rec.program.Steps[i].Barrier || steps[n-1] != i-1) {
				c.Barrier(StageCompute, StageCompute)
			}
			rec.recordStep(c, rec.own.bindings, nil, i)
		}
		c.Barrier(StageCompute, StageCompute) // for the first run, and for copies of prepared weights
		c.Barrier(StageCompute, StageTransfer)
	}))
	bailout.Check(rec.takeFaults())
}

// unprepared returns the indices of the prepared steps that must run, in order: the steps that write prepared weights
// that are not borrowed, and the steps that write the inputs of such steps.
func (m *programMemory) unprepared() (steps []int) {
	wanted := make([]bool, len(m.buffers)) // by buffer: whether its contents are needed
	for i := range m.buffers {
		wanted[i] = m.buffers[i].Kind == kernel.BufPrepared && !m.buffers[i].borrowed
	}
	for i := m.program.Prepared - 1; i >= 0; i-- {
		binds := m.program.Steps[i].Binds
		if !slices.ContainsFunc(binds, func(b kernel.Bind) bool { return b.Write && wanted[b.Buffer] }) {
			continue
		}
		steps = append(steps, i)
		for _, b := range binds {
			wanted[b.Buffer] = wanted[b.Buffer] || b.Read && !m.buffers[b.Buffer].borrowed
		}
	}
	slices.Reverse(steps)
	return steps
}

// contents returns the keys of the prepared weights. The key of a weight is its buffer's ID, because programs with
// equal weights share the buffer. A weight without a buffer has no key.
func (m *programMemory) contents(spirv [][]byte) map[int]kernel.ContentKey {
	return m.program.PreparedContents(spirv, func(b int) string {
		if shared := m.buffers[b].shared; shared != nil {
			return strconv.FormatUint(shared.id, 10)
		}
		return ""
	})
}

// findPrepared borrows prepared weights that another program has computed from the same weights by the same code. The
// caller holds the lock of the device's weight store.
func (m *programMemory) findPrepared(spirv [][]byte) {
	if m.program.Prepared == 0 {
		return
	}
	keys, store := m.contents(spirv), m.device.weights
	store.mu.Lock()
	defer store.mu.Unlock()
	for b, key := range keys {
		if have := store.prepared[key]; have != nil && have.join() {
			m.borrow(&m.buffers[b], have)
		}
	}
	// A step that must run writes all of its outputs, while other programs may read borrowed ones. So none of its
	// outputs may be borrowed. An output that is given back needs more steps, which may have borrowed outputs too.
	for m.giveBack() {
	}
}

// giveBack un-borrows outputs of steps that this program must still run. given reports whether there were any. The
// program keeps its count on the lender's weights until it is closed.
func (m *programMemory) giveBack() (given bool) {
	for _, step := range m.unprepared() {
		for _, bind := range m.program.Steps[step].Binds {
			if b := &m.buffers[bind.Buffer]; bind.Write && b.borrowed && b.Kind == kernel.BufPrepared {
				b.shared, b.borrowed, given = nil, false, true
			}
		}
	}
	return given
}

// addPrepared adds this program's prepared weights to the device's store, so that later loads can borrow them.
func (m *programMemory) addPrepared(spirv [][]byte) {
	if m.program.Prepared == 0 {
		return
	}
	keys, store := m.contents(spirv), m.device.weights
	store.mu.Lock()
	defer store.mu.Unlock()
	for i, key := range keys {
		b := &m.buffers[i]
		if b.borrowed || store.prepared[key] != nil { // the store has it already
			continue
		}
		store.prepared[key] = b.shared
		b.shared.forget = func() {
			store.mu.Lock()
			defer store.mu.Unlock()
			delete(store.prepared, key)
		}
	}
}
