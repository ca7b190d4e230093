package vk

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/runtime"
)

// smallCopy is the largest size in bytes of an input or output of varying length that is copied at its maximum size in
// every run. The extra bytes cost less than a recording for each length.
const smallCopy = 64 << 10

// allocateStaging sets buffer.host for inputs and outputs: the memory through which the host accesses the tensor. This
// is the buffer itself if the host can map it and access it fast, and else a new staging buffer, from or to which the
// device copies. It is nil if the tensor is larger than a slot of the staging rings: then the tensor passes through
// these in chunks, and host and device copy at the same time.
func (m *programMemory) allocateStaging() {
	for _, port := range slices.Concat(m.program.Inputs, m.program.Outputs) {
		b, d := &m.buffers[port.Buffer], m.device
		if b.host != nil {
			continue // it is the buffer of an earlier port too
		}
		output, mapped := b.Kind == kernel.BufOutput, d.hostMapped(b.at.Buffer)
		if !mapped && b.Bytes > d.slotBytes() {
			continue
		}
		b.host = b.at.Buffer
		cached := d.info.MemoryTypes[b.host.piece.block.memoryType].Flags&MemoryHostCached != 0 // fast to read
		if mapped && (!output || cached) {
			continue
		}
		kind := UploadMemory
		if output {
			kind = ReadbackMemory
		}
		b.host = bailout.Must(d.newBuffer(runtime.OwnStaging, "staging of "+port.Name, b.Bytes, kind))
		m.keep(b.host)
		m.stats.StagingBytes += b.Bytes
		b.fixed = port.Shape.IsStatic() || b.Bytes <= smallCopy
	}
}

// staged reports whether the host accesses the buffer through a staging buffer of its own.
func (b *buffer) staged() bool { return b.host != nil && b.host != b.at.Buffer }

// chunked reports whether the host accesses the buffer through the staging rings.
func (b *buffer) chunked() bool { return b.host == nil }

// hostBytes returns the memory through which the host accesses the tensor.
func (b *buffer) hostBytes() []byte {
	if b.staged() {
		return b.host.Bytes()
	}
	return b.host.Bytes()[b.at.Offset:]
}

// copySize returns how many bytes the device copies between `at` and `host` in a run in which the tensor has size
// bytes.
func (b *buffer) copySize(size int64) int64 {
	if b.fixed {
		return b.Bytes
	}
	return size
}

// bufferCopy is a copy from one buffer to another by the device.
type bufferCopy struct {
	dst   *Buffer
	dstAt int64
	src   *Buffer
	srcAt int64
	size  int64
}

// copyAll adds copies to the command list.
func (c *CommandList) copyAll(list []bufferCopy) {
	for _, x := range list {
		c.CopyBuffer(x.dst, x.dstAt, x.src, x.srcAt, x.size)
	}
}

// copies is a recording of a run's copies before or after the steps. It is recorded again for a run with other copies,
// which is cheap because it does not contain the steps.
type copies struct {
	recording *Recording
	list      []bufferCopy // the recorded copies
	next      []bufferCopy // the copies of the next run; kept so that its memory is reused
}

// record returns a recording of the copies in list, or nil if list is empty. The device must have finished the
// recording that record returned before. grouped says that the recording may be submitted in a group with others,
// which pays if many runs have the same copies.
func (x *copies) record(m *programMemory, name string, list []bufferCopy, grouped bool) *Recording {
	if len(list) == 0 {
		return nil
	}
	if x.recording != nil && slices.Equal(x.list, list) {
		return x.recording
	}
	c := m.device.NewCommandList()
	c.grouped = grouped
	c.copyAll(list)
	x.list = x.list[:0] // in case it fails halfway
	if x.recording == nil {
		x.recording = bailout.Must(m.device.Record(name, c))
	} else {
		bailout.Check(x.recording.record(c))
	}
	x.list = append(x.list, list...)
	return x.recording
}
