package vk

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// prepare runs the prepared steps, which depend only on weights. Their results stay in separate buffers. It skips steps
// that only contribute to results that another program has already.
func (rec *recorder) prepare(ctx context.Context) error {
	steps := rec.unprepared()
	if len(steps) == 0 {
		return nil
	}
	err := rec.device.runOnce(ctx, "preparation of "+rec.program.Name, func(c *CommandList) {
		for n, i := range steps {
			// A skipped step may have had a barrier.
			if n > 0 && (rec.program.Steps[i].Barrier || steps[n-1] != i-1) {
				c.Barrier(StageCompute, StageCompute)
			}
			rec.recordStep(c, rec.own.bindings, i)
		}
		c.Barrier(StageCompute, StageCompute) // for the first run, and for copies of prepared weights
		c.Barrier(StageCompute, StageTransfer)
	})
	if err != nil {
		return err
	}
	return rec.takeFaults()
}

// unprepared lists the prepared steps that must run, in order.
func (m *programMemory) unprepared() (steps []int) {
	wanted := make([]bool, len(m.buffers))
	for i := range m.buffers {
		wanted[i] = m.buffers[i].Kind == kernel.BufPrepared && !m.buffers[i].borrowed
	}
	needed := make([]bool, m.program.Prepared)
	for i := m.program.Prepared - 1; i >= 0; i-- {
		for _, b := range m.program.Steps[i].Binds {
			needed[i] = needed[i] || b.Write && wanted[b.Buffer]
		}
		for _, b := range m.program.Steps[i].Binds {
			wanted[b.Buffer] = wanted[b.Buffer] || needed[i] && b.Read && !m.buffers[b.Buffer].borrowed
		}
	}
	for i, is := range needed {
		if is {
			steps = append(steps, i)
		}
	}
	return steps
}

// contentKey identifies the contents of a buffer: equal keys mean equal contents.
type contentKey [sha256.Size]byte

// contents returns the keys of the prepared steps' results. A key hashes the code and the keys of the step's inputs,
// down to weights. Weights are identified by their buffers, because programs with equal weights share these. A weight
// without a buffer has no key.
func (m *programMemory) contents(spirv [][]byte) map[*buffer]contentKey {
	keys, unknown := map[*buffer]contentKey{}, map[*buffer]bool{}
	for _, b := range m.of(kernel.BufWeight) {
		if b.shared != nil {
			keys[b] = sha256.Sum256(fmt.Appendf(nil, "weight %d", b.shared.id))
		}
	}
	for _, step := range m.program.Steps[:m.program.Prepared] {
		h := sha256.New()
		shader := m.program.Shaders[step.Shader]
		fmt.Fprintf(h, "%x %d %v", sha256.Sum256(spirv[step.Shader]), shader.SubgroupSize, step.Grid)
		known := true
		for _, bind := range step.Binds {
			b := &m.buffers[bind.Buffer]
			key, ok := keys[b]
			if !bind.Read {
				key = contentKey{}
			}
			known = known && (ok || !bind.Read)
			fmt.Fprintf(h, " %x %v %v %v %d", key, bind.Read, bind.Write, bind.Address, b.Bytes)
		}
		made := h.Sum(nil)
		for n, bind := range step.Binds {
			if !bind.Write {
				continue
			}
			b := &m.buffers[bind.Buffer]
			if unknown[b] = unknown[b] || !known; unknown[b] {
				delete(keys, b)
				continue
			}
			old := keys[b] // a step may overwrite only a part
			keys[b] = sha256.Sum256(fmt.Appendf(nil, "%x %x %d", made, old, n))
		}
	}
	return keys
}

// findPrepared shares buffers that another program prepared from the same weights by the same code. The caller holds
// the lock of the device's weight store.
func (m *programMemory) findPrepared(spirv [][]byte) {
	if m.program.Prepared == 0 {
		return
	}
	keys, store := m.contents(spirv), m.device.weights
	store.mu.Lock()
	defer store.mu.Unlock()
	for _, b := range m.of(kernel.BufPrepared) {
		key, ok := keys[b]
		if have := store.prepared[key]; ok && have != nil && have.join() {
			m.hold(b, have)
			b.borrowed = true
		}
	}
	// A step that must run writes all of its outputs, and other programs may be reading shared ones. So such a step
	// gets private outputs.
	for again := true; again; {
		again = false
		for _, step := range m.unprepared() {
			for _, bind := range m.program.Steps[step].Binds {
				if b := &m.buffers[bind.Buffer]; bind.Write && b.borrowed && b.Kind == kernel.BufPrepared {
					b.shared, b.borrowed = nil, false
					again = true
				}
			}
		}
	}
}

// addPrepared offers this program's prepared buffers to later loads.
func (m *programMemory) addPrepared(spirv [][]byte) {
	if m.program.Prepared == 0 {
		return
	}
	keys, store := m.contents(spirv), m.device.weights
	store.mu.Lock()
	defer store.mu.Unlock()
	for _, b := range m.of(kernel.BufPrepared) {
		key, ok := keys[b]
		if b.borrowed || !ok || store.prepared[key] != nil {
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
