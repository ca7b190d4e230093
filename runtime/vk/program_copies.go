package vk

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// A port of varying length and up to smallCopy bytes is copied at its maximum size in every run. The extra bytes cost
// less than a separate recording for each length.
const smallCopy = 64 << 10

// endpoint is the host's access to an input or output: the program's own buffer if the host can map it at good speed,
// else a staging buffer and a copy.
type endpoint struct {
	host   *Buffer // the buffer that the host writes or reads
	own    *Buffer // the program's buffer
	ownAt  int64   // offset of the tensor in own
	size   int64   // maximum size of the tensor
	staged bool    // whether host is a separate staging buffer
	fixed  bool    // whether the program's recording contains the copy, at the maximum size
}

// hostAt is the offset of the tensor in host.
func (x *endpoint) hostAt() int64 {
	if x.staged {
		return 0
	}
	return x.ownAt
}

// upload copies an input's first size bytes from the host.
func (x *endpoint) upload(size int64) bufferCopy { return bufferCopy{x.own, x.ownAt, x.host, 0, size} }

// download copies an output's first size bytes to the host.
func (x *endpoint) download(size int64) bufferCopy {
	return bufferCopy{x.host, 0, x.own, x.ownAt, size}
}

// connect makes the endpoints. Ports that share a buffer share an endpoint.
func (e *Executable) connect() error {
	for _, port := range e.program.Outputs {
		e.labels = append(e.labels, fmt.Sprintf("output %q of %s", port.Name, ir.Titled("program", e.program.Name)))
	}
	known := map[int]*endpoint{}
	for _, list := range []struct {
		ports []kernel.Port
		ends  *[]*endpoint
	}{{e.program.Inputs, &e.inputs}, {e.program.Outputs, &e.outputs}} {
		for _, port := range list.ports {
			x, ok := known[port.Buffer]
			if !ok {
				var err error
				if x, err = e.newEndpoint(port); err != nil {
					return err
				}
				known[port.Buffer] = x
			}
			*list.ends = append(*list.ends, x)
		}
	}
	return nil
}

func (e *Executable) newEndpoint(port kernel.Port) (*endpoint, error) {
	d := e.device
	plan := &e.program.Buffers[port.Buffer]
	own, offset := e.ranges[port.Buffer].Buffer, e.ranges[port.Buffer].Offset
	x := &endpoint{host: own, own: own, ownAt: offset, size: plan.Bytes}
	output := plan.Kind == kernel.BufOutput
	if d.direct(own) && (!output || d.cached(own)) {
		return x, nil
	}
	kind := UploadMemory
	if output {
		kind = ReadbackMemory
	}
	var err error
	if x.host, err = d.newBuffer(runtime.OwnStaging, "staging of "+port.Name, plan.Bytes, kind); err != nil {
		return nil, err
	}
	e.keep(x.host)
	e.stats.StagingBytes += plan.Bytes
	x.staged, x.fixed = true, port.Shape.IsStatic() || plan.Bytes <= smallCopy
	return x, nil
}

// cached reports whether the host reads the buffer's memory at full speed.
func (d *Device) cached(b *Buffer) bool {
	return d.info.MemoryTypes[b.piece.block.memoryType].Flags&MemoryHostCached != 0
}

// fixedCopies lists the copies that every run repeats.
func fixedCopies(ends []*endpoint, copyOf func(x *endpoint, size int64) bufferCopy) (list []bufferCopy) {
	for i, x := range ends {
		if x.fixed && !slices.Contains(ends[:i], x) {
			list = append(list, copyOf(x, x.size))
		}
	}
	return list
}

// fixedIn and fixedOut list the repeated copies of inputs and outputs.
func (e *Executable) fixedIn() []bufferCopy  { return fixedCopies(e.inputs, (*endpoint).upload) }
func (e *Executable) fixedOut() []bufferCopy { return fixedCopies(e.outputs, (*endpoint).download) }

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
func (x *copies) prepare(e *Executable, name string, list []bufferCopy) (*Recording, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if x.recording != nil && slices.Equal(x.list, list) {
		return x.recording, nil
	}
	c := e.device.NewCommandList()
	c.copyAll(list)
	x.list = nil // in case it fails halfway
	if x.recording == nil {
		r, err := e.device.Record(name, c)
		if err != nil {
			return nil, err
		}
		e.keep(r)
		x.recording = r
	} else if err := x.recording.rerecord(c); err != nil {
		return nil, err
	}
	x.list = list
	return x.recording, nil
}

// copiesBefore lists the copies before the steps: from device tensors, and from staging memory unless the program's
// recording contains them. sizes are the sizes of the inputs in this run.
func (e *Executable) copiesBefore(sizes []int64, from []*Buffer, recorded bool) (list []bufferCopy) {
	for i, x := range e.inputs {
		switch {
		case sizes[i] == 0 || slices.Contains(e.inputs[:i], x):
		case from[i] != nil:
			list = append(list, bufferCopy{x.own, x.ownAt, from[i], 0, sizes[i]})
		case x.staged && !(x.fixed && recorded):
			list = append(list, x.upload(sizes[i]))
		}
	}
	return list
}

// copiesAfter lists the copies after the steps, into kept outputs and to the host.
func (e *Executable) copiesAfter(outputs []runtime.Output, to []deviceMemory, recorded bool) (list []bufferCopy) {
	hosted := map[*endpoint]bool{}
	for i, x := range e.outputs {
		size := outputs[i].Size
		switch {
		case size == 0:
		case to[i].Buffer != nil:
			list = append(list, bufferCopy{to[i].Buffer, 0, x.own, x.ownAt, size})
		case x.staged && !(x.fixed && recorded) && !hosted[x]:
			hosted[x] = true
			list = append(list, x.download(size))
		}
	}
	return list
}
