package vk

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/runtime"
)

// HasHostMemory reports whether the device reads memory of the host that is none of its own.
func (d *Device) HasHostMemory() bool {
	return d != nil && len(d.typesOf(HostMemory, ^uint32(0))) > 0
}

// placeWeights decides which of the weights that the program does not borrow lie in host memory.
func (e *Executable) placeWeights(opt LoadOptions) error {
	if opt.WeightRoom == 0 {
		return nil
	}
	if !e.device.HasHostMemory() {
		return fmt.Errorf("weights in host memory: device %s has no memory but its own: leave out the bound of %s on "+
			"the weights there", e.device.info.Caps.Name, formatBytes(opt.WeightRoom))
	}
	used := e.device.used.use()[runtime.OwnWeights]
	for i := range e.program.Buffers {
		if b := &e.program.Buffers[i]; b.Kind == kernel.BufPrepared && !e.borrowed[i] {
			used += uint64(b.Bytes)
		}
	}
	for _, rarely := range []bool{false, true} { // what is read most has room first
		for i := range e.program.Buffers {
			b := &e.program.Buffers[i]
			if b.Kind != kernel.BufWeight || e.borrowed[i] || rarely != hostFirst(b, opt.HostFirst) {
				continue
			}
			if e.inHost[i] = used+uint64(b.Bytes) > opt.WeightRoom; !e.inHost[i] {
				used += uint64(b.Bytes)
			}
		}
	}
	return nil
}

// hostFirst reports whether all of a buffer is of the weights named.
func hostFirst(b *kernel.Buffer, names map[string]bool) bool {
	for _, s := range b.Segments {
		if !names[s.Weight] {
			return false
		}
	}
	return len(b.Segments) > 0
}

// onDevice is the program without what the device has already, or need not have.
func (e *Executable) onDevice() *kernel.Program {
	p := *e.program
	p.Buffers = nil
	for i, b := range e.program.Buffers {
		if !e.borrowed[i] && !e.inHost[i] {
			p.Buffers = append(p.Buffers, b)
		}
	}
	return &p
}
