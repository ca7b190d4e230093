package vk

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/runtime"
)

// HasHostMemory reports whether kernels can read host memory that is separate from the device's memory.
func (d *Device) HasHostMemory() bool {
	return d != nil && len(d.typesOf(HostMemory, ^uint32(0))) > 0
}

// placeWeights decides which of the program's own weights go to host memory.
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
	for _, rarely := range []bool{false, true} { // the weights that runs read most get device memory first
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

// hostFirst reports whether a buffer consists only of the named weights.
func hostFirst(b *kernel.Buffer, names map[string]bool) bool {
	for _, s := range b.Segments {
		if !names[s.Weight] {
			return false
		}
	}
	return len(b.Segments) > 0
}

// onDevice is the program with only the buffers that need new device memory.
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
