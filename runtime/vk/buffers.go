package vk

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// smallInput is the largest size in bytes of an input that the host writes directly to device memory over the bus, if
// it can map device memory. For larger inputs a copy by the device is faster.
const smallInput = 64 << 10

// programMemory is the memory of a program on a device.
type programMemory struct {
	resources // everything that the program made on the device
	device    *Device
	program   *kernel.Program
	weights   ir.WeightSource // for states that begin as weights
	guarded   bool            // LoadOptions.Guards: whether buffers have guards around them, for tests
	buffers   []buffer        // by index in Program.Buffers
	stats     Stats
}

// buffer is one buffer of a program.
type buffer struct {
	*kernel.Buffer
	at       BufferRange   // the memory that kernels access
	shared   *sharedBuffer // the memory of a weight, a prepared weight or a state; nil for other buffers
	borrowed bool          // whether another program made `shared`
	inHost   bool          // whether it is a weight in host memory
	read     bool          // whether a step reads it
	ports    int           // the number of inputs and outputs stored in it
	host     *Buffer       // for an input or output: the memory that the host accesses, or nil; see allocateStaging
	fixed    bool          // whether every run copies all of it between `at` and `host`
}

// newMemory describes the buffers of a program. It allocates nothing. guarded is LoadOptions.Guards.
func newMemory(d *Device, p *kernel.Program, weights ir.WeightSource, guarded bool) programMemory {
	m := programMemory{device: d, program: p, weights: weights, guarded: guarded,
		buffers: make([]buffer, len(p.Buffers))}
	for i := range p.Buffers {
		m.buffers[i].Buffer = &p.Buffers[i]
	}
	for _, port := range slices.Concat(p.Inputs, p.Outputs) {
		m.buffers[port.Buffer].ports++
	}
	for _, s := range p.Steps {
		for _, b := range s.Binds {
			m.buffers[b.Buffer].read = m.buffers[b.Buffer].read || b.Read
		}
	}
	return m
}

// input returns the buffer of an input port.
func (m *programMemory) input(port int) *buffer { return &m.buffers[m.program.Inputs[port].Buffer] }

// output returns the buffer of an output port.
func (m *programMemory) output(port int) *buffer { return &m.buffers[m.program.Outputs[port].Buffer] }

// buffersOf returns the buffers of the given kinds.
func (m *programMemory) buffersOf(kinds ...kernel.BufferKind) (list []*buffer) {
	for i := range m.buffers {
		if b := &m.buffers[i]; slices.Contains(kinds, b.Kind) {
			list = append(list, b)
		}
	}
	return list
}

// bufferRanges returns the memory that kernels access for each buffer. The caller may change the list.
func (m *programMemory) bufferRanges() []BufferRange {
	list := make([]BufferRange, len(m.buffers))
	for i := range m.buffers {
		list[i] = m.buffers[i].at
	}
	return list
}

// resources is a list of objects made on a device, which are closed together.
type resources []io.Closer

// keep adds an object to the list.
func (list *resources) keep(c io.Closer) { *list = append(*list, c) }

// Close closes the resources in reverse order. The device destroys them when it has finished using them. Closing twice
// is fine.
func (list *resources) Close() error {
	var errs []error
	for _, c := range slices.Backward(*list) {
		errs = append(errs, c.Close())
	}
	*list = nil
	return errors.Join(errs...)
}

// withoutBorrowed returns the program without its borrowed buffers and states: only the buffers and states that Load
// must fill.
func (m *programMemory) withoutBorrowed() *kernel.Program {
	p := *m.program
	p.Buffers, p.States = nil, nil
	for i := range m.buffers {
		if !m.buffers[i].borrowed {
			p.Buffers = append(p.Buffers, *m.buffers[i].Buffer)
		}
	}
	for _, port := range m.program.States {
		if !m.buffers[port.Buffer].borrowed {
			p.States = append(p.States, port)
		}
	}
	return &p
}

// HasHostMemory reports whether kernels can read host memory that is separate from the device's memory.
func (d *Device) HasHostMemory() bool { return d != nil && d.hasMemory(HostMemory) }

// placeWeights decides which weights go to host memory, so that the other weights take at most opt.WeightRoom bytes of
// device memory. 0 means no limit.
func (m *programMemory) placeWeights(opt LoadOptions) {
	if opt.WeightRoom == 0 {
		return
	}
	if !m.device.HasHostMemory() {
		bailout.Check(fmt.Errorf("weights in host memory: device %s has no memory but its own: leave out the bound of "+
			"%s on the weights there", m.device.info.Caps.Name, formatBytes(opt.WeightRoom)))
	}
	// Other programs' weights and the prepared ones count too.
	used := m.device.used.use()[runtime.OwnWeights]
	for _, b := range m.buffersOf(kernel.BufPrepared) {
		if !b.borrowed {
			used += uint64(b.Bytes)
		}
	}
	for _, rarely := range []bool{false, true} { // the weights that runs read most are first to get device memory
		for _, b := range m.buffersOf(kernel.BufWeight) {
			if b.borrowed || rarely != onlyNamed(b.Buffer, opt.HostFirst) {
				continue
			}
			b.inHost = used+uint64(b.Bytes) > opt.WeightRoom
			if !b.inHost {
				used += uint64(b.Bytes)
			}
		}
	}
}

// onlyNamed reports whether buffer b consists only of the named weights.
func onlyNamed(b *kernel.Buffer, names map[string]bool) bool {
	unnamed := func(s kernel.Segment) bool { return !names[s.Weight] }
	return len(b.Segments) > 0 && !slices.ContainsFunc(b.Segments, unnamed)
}

// allocate makes the program's buffers and the host's staging buffers. All temporaries are in one buffer, the arena.
func (m *programMemory) allocate() {
	p := m.program
	m.stats = Stats{Bytes: map[kernel.BufferKind]int64{}, Steps: len(p.Steps) - p.Prepared, Prepared: p.Prepared}
	var arena *Buffer
	if p.ArenaBytes > 0 {
		arena = m.newBuffer("temporaries", kernel.BufTemp, p.ArenaBytes, DeviceMemory)
	}
	for i := range m.buffers {
		b := &m.buffers[i]
		if b.Kind == kernel.BufTemp {
			b.at = BufferRange{Buffer: arena, Offset: b.Offset, Size: b.Bytes}
		} else {
			m.allocateBuffer(b)
		}
	}
	m.allocateStaging()
}

// allocateBuffer makes the memory of buffer b, unless it is borrowed from another program.
func (m *programMemory) allocateBuffer(b *buffer) {
	guard := int64(0)
	if m.guards(b) {
		guard = guardSize
	}
	if b.shared == nil {
		owner, kind := ownerOf(b.Kind), m.memoryKind(b)
		if b.inHost {
			owner = runtime.OwnHostWeights
		}
		made := bailout.Must(m.device.newBuffer(owner, b.Name, guard+b.Bytes+guard, kind))
		m.stats.Bytes[b.Kind] += made.Size()
		b.at.Buffer = made
		switch b.Kind {
		case kernel.BufWeight, kernel.BufPrepared, kernel.BufState:
			m.assign(b, newShared(made))
		default:
			m.keep(made)
		}
		if b.Kind == kernel.BufFault || b.Kind == kernel.BufLate {
			clear(made.Bytes()) // no run has failed yet
		}
	}
	// The range that kernels access includes the guard after the buffer, so that an overrun writes there.
	b.at.Offset = guard
}

// ownerOf returns the purpose of a program's buffers of some kind, for memory statistics.
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

// newBuffer makes a buffer for the program, and counts it in the statistics.
func (m *programMemory) newBuffer(name string, of kernel.BufferKind, size int64, kind MemoryKind) *Buffer {
	b := bailout.Must(m.device.newBuffer(ownerOf(of), name, size, kind))
	m.keep(b)
	m.stats.Bytes[of] += size
	return b
}

// memoryKind returns the kind of memory for a buffer.
func (m *programMemory) memoryKind(b *buffer) MemoryKind {
	switch {
	case b.inHost:
		return HostMemory
	case b.Kind == kernel.BufLate:
		return ReadbackMemory
	case b.Kind == kernel.BufParams || b.Kind == kernel.BufGrids || b.Kind == kernel.BufFault:
		return SharedMemory
	case b.Kind == kernel.BufInput && b.Bytes <= smallInput && m.device.hostReachesDevice():
		return SharedMemory
	}
	return DeviceMemory
}

// hostReachesDevice reports whether the host can map device memory, so that SharedMemory is device memory.
func (d *Device) hostReachesDevice() bool { return !d.options.forceStaging && d.hasMemory(InboxMemory) }
