package vk

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// runSteps are the steps that every run executes, with loop bodies once: all except the prepared ones.
func (e *Executable) runSteps() []kernel.Step { return e.program.Steps[e.program.Prepared:] }

// prepare runs the prepared steps, which depend only on weights. Their results stay in separate buffers. It skips steps
// that only contribute to results that another program has already.
func (e *Executable) prepare(ctx context.Context) error {
	steps := e.unprepared()
	if len(steps) == 0 {
		return nil
	}
	err := e.runOnce(ctx, "preparation of "+e.program.Name, func(c *CommandList) {
		for n, i := range steps {
			// A skipped step may have had a barrier.
			if n > 0 && (e.program.Steps[i].Barrier || steps[n-1] != i-1) {
				c.Barrier(StageCompute, StageCompute)
			}
			e.recordStep(c, e.bindings, i)
		}
		c.Barrier(StageCompute, StageCompute) // for the first run, and for copies of prepared weights
		c.Barrier(StageCompute, StageTransfer)
	})
	if err != nil {
		return err
	}
	return e.takeFaults()
}

// unprepared lists the prepared steps that must run, in order.
func (e *Executable) unprepared() (steps []int) {
	wanted := map[int]bool{} // buffers
	for i, b := range e.program.Buffers {
		wanted[i] = b.Kind == kernel.BufPrepared && !e.borrowed[i]
	}
	needed := make([]bool, e.program.Prepared)
	for i := e.program.Prepared - 1; i >= 0; i-- {
		for _, b := range e.program.Steps[i].Binds {
			needed[i] = needed[i] || b.Write && wanted[b.Buffer]
		}
		for _, b := range e.program.Steps[i].Binds {
			wanted[b.Buffer] = wanted[b.Buffer] || needed[i] && b.Read && !e.borrowed[b.Buffer]
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
func (e *Executable) contents(spirv [][]byte) map[int]contentKey {
	keys, unknown := map[int]contentKey{}, map[int]bool{}
	for i, s := range e.lent {
		if e.program.Buffers[i].Kind == kernel.BufWeight {
			keys[i] = sha256.Sum256(fmt.Appendf(nil, "weight %d", s.id))
		}
	}
	for _, step := range e.program.Steps[:e.program.Prepared] {
		h := sha256.New()
		shader := e.program.Shaders[step.Shader]
		fmt.Fprintf(h, "%x %d %v", sha256.Sum256(spirv[step.Shader]), shader.SubgroupSize, step.Grid)
		known := true
		for _, b := range step.Binds {
			key, ok := keys[b.Buffer]
			if !b.Read {
				key = contentKey{}
			}
			known = known && (ok || !b.Read)
			fmt.Fprintf(h, " %x %v %v %v %d", key, b.Read, b.Write, b.Address, e.program.Buffers[b.Buffer].Bytes)
		}
		made := h.Sum(nil)
		for n, b := range step.Binds {
			if !b.Write {
				continue
			}
			if unknown[b.Buffer] = unknown[b.Buffer] || !known; unknown[b.Buffer] {
				delete(keys, b.Buffer)
				continue
			}
			old := keys[b.Buffer] // a step may overwrite only a part
			keys[b.Buffer] = sha256.Sum256(fmt.Appendf(nil, "%x %x %d", made, old, n))
		}
	}
	return keys
}

// findPrepared shares buffers that another program prepared from the same weights by the same code. The caller holds
// the lock of the device's weight store.
func (e *Executable) findPrepared(spirv [][]byte) {
	if e.program.Prepared == 0 {
		return
	}
	keys, store := e.contents(spirv), e.device.weights
	store.mu.Lock()
	defer store.mu.Unlock()
	for i, b := range e.program.Buffers {
		if b.Kind != kernel.BufPrepared {
			continue
		}
		key, ok := keys[i]
		if have := store.prepared[key]; ok && have != nil && have.join() {
			e.hold(i, have)
			e.borrowed[i] = true
		}
	}
	// A step that must run writes all of its outputs, and other programs may be reading shared ones. So such a step
	// gets private outputs.
	for again := true; again; {
		again = false
		for _, step := range e.unprepared() {
			for _, b := range e.program.Steps[step].Binds {
				if b.Write && e.borrowed[b.Buffer] && e.program.Buffers[b.Buffer].Kind == kernel.BufPrepared {
					delete(e.lent, b.Buffer)
					delete(e.borrowed, b.Buffer)
					again = true
				}
			}
		}
	}
}

// addPrepared offers this program's prepared buffers to later loads.
func (e *Executable) addPrepared(spirv [][]byte) {
	if e.program.Prepared == 0 {
		return
	}
	keys, store := e.contents(spirv), e.device.weights
	store.mu.Lock()
	defer store.mu.Unlock()
	for i, s := range e.lent {
		key, ok := keys[i]
		if e.program.Buffers[i].Kind != kernel.BufPrepared || e.borrowed[i] || !ok || store.prepared[key] != nil {
			continue
		}
		store.prepared[key] = s
		s.forget = func() {
			store.mu.Lock()
			defer store.mu.Unlock()
			delete(store.prepared, key)
		}
	}
}
