package vk

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/runtime"
)

// A port of varying length and up to smallCopy bytes is copied at its maximum size in every run. The extra bytes cost
// less than a separate recording for each length.
const smallCopy = 64 << 10

// connect gives the host access to the buffers of inputs and outputs: to the buffer itself if the host can map it at
// good speed, else by a staging buffer and a copy.
func (m *programMemory) connect() error {
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
		var err error
		if b.host, err = d.newBuffer(runtime.OwnStaging, "staging of "+port.Name, b.Bytes, kind); err != nil {
			return err
		}
		m.keep(b.host)
		m.stats.StagingBytes += b.Bytes
		b.fixed = port.Shape.IsStatic() || b.Bytes <= smallCopy
	}
	return nil
}

// cached reports whether the host reads the buffer's memory at full speed.
func (d *Device) cached(b *Buffer) bool {
	return d.info.MemoryTypes[b.piece.block.memoryType].Flags&MemoryHostCached != 0
}

// staged reports whether the host accesses the buffer by a staging buffer.
func (b *buffer) staged() bool { return b.host != b.at.Buffer }

// hostBytes is the memory of the tensor that the host accesses.
func (b *buffer) hostBytes() []byte {
	if b.staged() {
		return b.host.Bytes()
	}
	return b.host.Bytes()[b.at.Offset:]
}

// upload copies an input's first size bytes from the host.
func (b *buffer) upload(size int64) bufferCopy {
	return bufferCopy{b.at.Buffer, b.at.Offset, b.host, 0, size}
}

// download copies an output's first size bytes to the host.
func (b *buffer) download(size int64) bufferCopy {
	return bufferCopy{b.host, 0, b.at.Buffer, b.at.Offset, size}
}

// repeated reports whether an earlier port has the same buffer as port i.
func repeated(ports []kernel.Port, i int) bool {
	return slices.ContainsFunc(ports[:i], func(p kernel.Port) bool { return p.Buffer == ports[i].Buffer })
}

// fixedCopies lists the copies that every run repeats: of inputs to the device, and of outputs to the host.
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

// bufferCopy is a copy on the device.
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

// copies is a recording of the copies that differ from run to run. Re-recording is cheap, because the program's steps
// are not part of it.
type copies struct {
	recording *Recording
	list      []bufferCopy // the recorded copies
}

// prepare returns a recording of the copies in list, or nil if there are none. The device must have finished the
// previous one.
func (x *copies) prepare(m *programMemory, name string, list []bufferCopy) (*Recording, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if x.recording != nil && slices.Equal(x.list, list) {
		return x.recording, nil
	}
	c := m.device.NewCommandList()
	c.copyAll(list)
	x.list = nil // in case it fails halfway
	if x.recording == nil {
		r, err := m.device.Record(name, c)
		if err != nil {
			return nil, err
		}
		m.keep(r)
		x.recording = r
	} else if err := x.recording.rerecord(c); err != nil {
		return nil, err
	}
	x.list = list
	return x.recording, nil
}

// copiesBefore lists the copies before the steps: from device tensors, and from staging memory unless the program's
// recording contains them. sizes are the sizes of the inputs in this run.
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

// copiesAfter lists the copies after the steps, into kept outputs and to the host.
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
