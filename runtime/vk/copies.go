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

// connect sets buffer.host for inputs and outputs: the buffer itself if the host can map and access it fast, else a new
// staging buffer, from or to which the device copies.
func (m *programMemory) connect() {
	for _, port := range slices.Concat(m.program.Inputs, m.program.Outputs) {
		b, d := &m.buffers[port.Buffer], m.device
		if b.host != nil {
			continue // it is the buffer of an earlier port too
		}
		b.host = b.at.Buffer
		output := b.Kind == kernel.BufOutput
		if d.direct(b.host) && (!output || d.cached(b.host)) {
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

// cached reports whether the host's caches hold the buffer's memory, so that the host reads it at full speed.
func (d *Device) cached(b *Buffer) bool {
	return d.info.MemoryTypes[b.piece.block.memoryType].Flags&MemoryHostCached != 0
}

// staged reports whether the host accesses the buffer through a staging buffer.
func (b *buffer) staged() bool { return b.host != b.at.Buffer }

// hostBytes returns the memory through which the host accesses the tensor.
func (b *buffer) hostBytes() []byte {
	if b.staged() {
		return b.host.Bytes()
	}
	return b.host.Bytes()[b.at.Offset:]
}

// upload returns the copy of an input's first size bytes from staging memory.
func (b *buffer) upload(size int64) bufferCopy {
	return bufferCopy{b.at.Buffer, b.at.Offset, b.host, 0, size}
}

// download returns the copy of an output's first size bytes to staging memory.
func (b *buffer) download(size int64) bufferCopy {
	return bufferCopy{b.host, 0, b.at.Buffer, b.at.Offset, size}
}

// repeated reports whether a port before port i has the same buffer.
func repeated(ports []kernel.Port, i int) bool {
	return slices.ContainsFunc(ports[:i], func(p kernel.Port) bool { return p.Buffer == ports[i].Buffer })
}

// fixedCopies returns the copies that are the same in every run: of inputs from staging memory, and of outputs to it.
func (m *programMemory) fixedCopies() (in, out []bufferCopy) {
	for i := range m.program.Inputs {
		if b := m.input(i); b.fixed && !repeated(m.program.Inputs, i) {
			in = append(in, b.upload(b.Bytes))
		}
	}
	for i := range m.program.Outputs {
		if b := m.output(i); b.fixed && !repeated(m.program.Outputs, i) {
			out = append(out, b.download(b.Bytes))
		}
	}
	return in, out
}

// bufferCopy is a copy from one buffer to another by the device.
type bufferCopy struct {
	dst   *Buffer
	dstAt int64
	src   *Buffer
	srcAt int64
	size  int64
}

func (c *CommandList) copyAll(list []bufferCopy) {
	for _, x := range list {
		c.CopyBuffer(x.dst, x.dstAt, x.src, x.srcAt, x.size)
	}
}

// copies is a recording of the copies that differ from run to run. It is recorded again for other copies, which is
// cheap because it does not contain the program's steps.
type copies struct {
	recording *Recording
	list      []bufferCopy // the recorded copies
}

// prepare returns a recording of the copies in list, or nil if list is empty. The device must have finished the
// recording that it returned before.
func (x *copies) prepare(m *programMemory, name string, list []bufferCopy) *Recording {
	if len(list) == 0 {
		return nil
	}
	if x.recording != nil && slices.Equal(x.list, list) {
		return x.recording
	}
	c := m.device.NewCommandList()
	c.copyAll(list)
	x.list = nil // in case it fails halfway
	if x.recording == nil {
		x.recording = bailout.Must(m.device.Record(name, c))
		m.keep(x.recording)
	} else {
		bailout.Check(x.recording.rerecord(c))
	}
	x.list = list
	return x.recording
}

// copiesBefore returns the copies before the steps: from device tensors (from, by port), and from staging memory.
// recorded means that the program's recording contains the copies that are the same in every run, so that these are
// left out. sizes are the sizes of the inputs in this run.
func (m *programMemory) copiesBefore(sizes []int64, from []*Buffer, recorded bool) (list []bufferCopy) {
	for i := range m.program.Inputs {
		b := m.input(i)
		switch {
		case sizes[i] == 0 || repeated(m.program.Inputs, i):
		case from[i] != nil:
			list = append(list, bufferCopy{b.at.Buffer, b.at.Offset, from[i], 0, sizes[i]})
		case b.staged() && !(b.fixed && recorded):
			list = append(list, b.upload(sizes[i]))
		}
	}
	return list
}

// copiesAfter returns the copies after the steps: to kept outputs (to, by port), and to staging memory.
func (m *programMemory) copiesAfter(outputs []runtime.Output, to []deviceMemory, recorded bool) (list []bufferCopy) {
	for i, x := range outputs {
		b := m.output(i)
		switch {
		case x.Size == 0:
		case to[i].Buffer != nil:
			list = append(list, bufferCopy{to[i].Buffer, 0, b.at.Buffer, b.at.Offset, x.Size})
		case b.staged() && !(b.fixed && recorded):
			if c := b.download(x.Size); !slices.Contains(list, c) { // outputs may share a buffer
				list = append(list, c)
			}
		}
	}
	return list
}
