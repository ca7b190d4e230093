package vk

import (
	"context"
	"unsafe"
)

// failingMemory runs out of memory after some allocations.
type failingMemory struct {
	memorySource
	left int
}

func (f *failingMemory) allocate(size uint64, memoryType int, dedicated uint64,
	mapped bool) (uint64, unsafe.Pointer, Result) {
	if f.left == 0 {
		return 0, nil, ErrorOutOfDeviceMemory
	}
	f.left--
	return f.memorySource.allocate(size, memoryType, dedicated, mapped)
}

// LimitAllocations makes the device run out of memory after n allocations, until the returned function is
// called.
func (d *Device) LimitAllocations(n int) (lift func()) {
	source := d.memory.source
	d.memory.source = &failingMemory{source, n}
	return func() { d.memory.source = source }
}

// ChangeCaps makes the device believe that it can do something else than it can.
func (d *Device) ChangeCaps(change func(*DeviceInfo)) { change(&d.info) }

// Damage writes a byte near a state of a program that was loaded with guards, offset bytes after its begin.
func (e *Executable) Damage(state string, offset int64) error {
	i, err := e.State(state)
	if err != nil {
		return err
	}
	at := e.ranges[e.program.States[i].Buffer]
	return e.device.Upload(context.Background(), at.Buffer, at.Offset+offset, []byte{1})
}
