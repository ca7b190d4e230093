package compiler

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// addPersistent adds a persistent kernel for each of the given runs of consecutive steps. A persistent kernel does the
// work of all steps of its run in one launch; its workgroups wait for each other between two steps.
func (low *Lowered) addPersistent(runs []schedule.Run) {
	if len(runs) == 0 {
		return
	}
	p := low.Program
	const bufferBytes = 16 // the least size of a buffer
	buffer := func(kind kernel.BufferKind, name string, words int) int {
		p.Buffers = append(p.Buffers,
			kernel.Buffer{Kind: kind, Name: name, DType: ir.U32, Shape: ir.ShapeOf(words), Bytes: bufferBytes})
		return len(p.Buffers) - 1
	}
	counters := buffer(kernel.BufBarrier, "workgroups that wait", kernel.BarrierWords) // of the barrier between steps
	timeout := buffer(kernel.BufLate, "workgroups waited in vain", 1)
	made := map[string]int{} // index of a shader, by its source
	for _, r := range runs {
		k, sh := low.persistent(r)
		for _, b := range []int{counters, timeout} {
			k.Dispatch.Binds = append(k.Dispatch.Binds, kernel.Bind{Buffer: b, Read: true, Write: true})
		}
		shader, ok := made[sh.Source]
		if !ok {
			shader = low.add(fmt.Sprintf("p%d_%s", r.First, k.Dispatch.Name), sh, len(k.Dispatch.Binds))
			made[sh.Source] = shader
		}
		k.Dispatch.Shader = shader
		p.Persistent = append(p.Persistent, k)
	}
}

// persistent returns the persistent kernel of a run of steps, and its shader. Each step becomes a phase of the shader,
// and buffers that several steps use are bound once. The caller adds the index of the shader and the bindings of the
// barrier's two buffers.
func (low *Lowered) persistent(r schedule.Run) (kernel.Persistent, *glsl.Shader) {
	steps := low.Program.Steps[r.First : r.First+r.Count]
	d := kernel.Step{Name: fmt.Sprintf("persistent_%d", r.Count), Barrier: steps[0].Barrier,
		Schedule: r.Why}
	slots := map[int]int{} // index of the binding, by buffer
	var phases []glsl.Phase
	for _, s := range steps {
		phase := glsl.Phase{Shader: low.shaders[s.Shader], Grid: bailout.Must(s.Grid.Eval(nil))}
		for _, b := range s.Binds {
			slot, ok := slots[b.Buffer]
			if !ok {
				slot = len(d.Binds)
				slots[b.Buffer] = slot
				d.Binds = append(d.Binds, kernel.Bind{Buffer: b.Buffer})
			}
			d.Binds[slot].Read, d.Binds[slot].Write = d.Binds[slot].Read || b.Read, d.Binds[slot].Write || b.Write
			phase.Slots = append(phase.Slots, slot)
		}
		d.Ops = slices.Concat(d.Ops, s.Ops)
		d.Flops, d.Moved = d.Flops+s.Flops, d.Moved+s.Moved
		phases = append(phases, phase)
	}
	changes := make([]bool, len(d.Binds)) // whether a phase writes bytes that the binding reads or writes
	for i, b := range d.Binds {
		changes[i] = slices.ContainsFunc(d.Binds, func(o kernel.Bind) bool {
			return o.Write && low.Program.Overlap(b.Buffer, o.Buffer)
		})
	}
	sh := bailout.Must(glsl.Persistent(d.Name, phases, changes, r.Groups))
	d.Grid = sh.Grid
	return kernel.Persistent{First: r.First, Count: r.Count, Dispatch: d}, sh
}
