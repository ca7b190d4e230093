package vk

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/runtime"
)

// Inputs of up to smallInput bytes use device memory that the host writes over the bus, if the device has any. A copy
// on the device would cost more than writing these few bytes.
const smallInput = 64 << 10

// indirectStride is the size of a VkDispatchIndirectCommand.
const indirectStride = 12

// allocate makes the program's buffers and the host's staging buffers.
func (e *Executable) allocate() error {
	p := e.program
	e.stats = Stats{Bytes: map[kernel.BufferKind]int64{}, TempBytes: p.TempBytes, Steps: len(e.runSteps()),
		Prepared: p.Prepared}
	var arena *Buffer
	if p.ArenaBytes > 0 {
		var err error
		if arena, err = e.newBuffer("temporaries", kernel.BufTemp, p.ArenaBytes, DeviceMemory); err != nil {
			return err
		}
	}
	e.ranges = make([]BufferRange, len(p.Buffers))
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Kind == kernel.BufTemp {
			e.ranges[i] = BufferRange{Buffer: arena, Offset: b.Offset, Size: b.Bytes}
			continue
		}
		before, after := e.guards.around(b)
		if s := e.lent[i]; s != nil {
			e.ranges[i] = BufferRange{Buffer: s.Buffer, Offset: before}
			continue
		}
		owner, kind := ownerOf(b.Kind), e.memoryKind(b)
		if e.inHost[i] {
			owner, kind = runtime.OwnHostWeights, HostMemory
		}
		made, err := e.device.newBuffer(owner, b.Name, before+b.Bytes+after, kind)
		if err != nil {
			return err
		}
		e.stats.Bytes[b.Kind] += made.Size()
		if b.Kind == kernel.BufWeight || b.Kind == kernel.BufPrepared || b.Kind == kernel.BufState {
			e.use(i, newShared(made))
		} else {
			e.keep(made)
		}
		// The range includes the guard after the buffer, so that an overrun lands there.
		e.ranges[i] = BufferRange{Buffer: made, Offset: before}
		switch b.Kind {
		case kernel.BufParams:
			e.params = append(e.params, made)
		case kernel.BufGrids:
			e.grids = made
		case kernel.BufGated:
			e.gatedGrids = made
		case kernel.BufFault, kernel.BufLate:
			clear(made.Bytes()) // no run has failed yet
		}
	}
	if err := e.allocateGrids(); err != nil {
		return err
	}
	return e.connect()
}

// ownerOf returns the owner of a program's buffers of some kind, for memory statistics.
func ownerOf(kind kernel.BufferKind) runtime.MemoryOwner {
	switch kind {
	case kernel.BufWeight, kernel.BufPrepared:
		return runtime.OwnWeights
	case kernel.BufState:
		return runtime.OwnStates
	case kernel.BufTemp:
		return runtime.OwnTemps
	case kernel.BufInput, kernel.BufOutput:
		return runtime.OwnPorts
	}
	return runtime.OwnOther
}

func (e *Executable) newBuffer(name string, of kernel.BufferKind, size int64, kind MemoryKind) (*Buffer, error) {
	b, err := e.device.newBuffer(ownerOf(of), name, size, kind)
	if err != nil {
		return nil, err
	}
	e.keep(b)
	e.stats.Bytes[of] += size
	return b, nil
}

// memoryKind returns the kind of memory for a buffer.
func (e *Executable) memoryKind(b *kernel.Buffer) MemoryKind {
	switch {
	case b.Kind == kernel.BufLate:
		return ReadbackMemory
	case b.Kind == kernel.BufParams || b.Kind == kernel.BufGrids || b.Kind == kernel.BufFault:
		return SharedMemory
	case b.Kind == kernel.BufInput && b.Bytes <= smallInput && e.device.hostReachesDevice():
		return SharedMemory
	}
	return DeviceMemory
}

// hostReachesDevice reports whether the host can map device memory, so that SharedMemory is in the device.
func (d *Device) hostReachesDevice() bool {
	if d.options.forceStaging {
		return false
	}
	for _, t := range d.info.MemoryTypes {
		const want = MemoryDeviceLocal | hostCoherent
		if t.Flags&want == want && t.Flags&^memoryUsual == 0 {
			return true
		}
	}
	return false
}

// dispatch is the number of workgroups of a step.
type dispatch struct {
	counts   [3]uint32 // unless symbolic
	symbolic bool
	gated    bool  // whether a gate may cancel it
	offset   int64 // of its counts: in Executable.indirect if symbolic, in grids and gatedGrids if gated
}

// allocateGrids evaluates static grids and allocates the counts of the others.
func (e *Executable) allocateGrids() (err error) {
	size := int64(0)
	e.dispatches = make([]dispatch, len(e.steps))
	for i, step := range e.program.Gated() {
		e.dispatches[step] = dispatch{gated: true, offset: int64(i) * indirectStride}
	}
	for i, s := range e.steps {
		if e.dispatches[i].gated {
			continue
		}
		if !s.Grid.IsStatic() {
			e.dispatches[i] = dispatch{symbolic: true, offset: size}
			size += indirectStride
			continue
		}
		counts, err := s.Grid.Eval(nil)
		if err != nil {
			return err
		}
		e.dispatches[i].counts = counts
	}
	if size > 0 {
		e.indirect, err = e.newBuffer("grids", kernel.BufParams, size, SharedMemory)
	}
	return err
}
