package vk

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// smallCopy is up to which size a tensor of varying length is copied as a whole in every run, with the
// steps: the bytes too many cost less than a recording for each length.
const smallCopy = 64 << 10

// endpoint is where the host meets an input or output of the program: the program's own buffer where the
// host can well reach it, else staging memory and a copy.
type endpoint struct {
	host     *Buffer // what the host writes or reads
	src, dst *Buffer // what is copied; nil if nothing is
	size     int64   // of the whole tensor
	hostAt   int64   // where the tensor begins in host
	srcAt    int64   // where it begins in src
	fixed    bool    // the copy is of the whole and part of the program's recording
}

// connect makes the endpoints. Ports that share a buffer share an endpoint.
func (e *Executable) connect() error {
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
	output := plan.Kind == kernel.BufOutput
	if d.direct(own) && (!output || d.cached(own)) {
		return &endpoint{host: own, size: plan.Bytes, hostAt: offset}, nil
	}
	kind := UploadMemory
	if output {
		kind = ReadbackMemory
	}
	staging, err := d.NewBuffer("staging of "+port.Name, plan.Bytes, kind)
	if err != nil {
		return nil, err
	}
	e.keep(staging)
	e.stats.StagingBytes += plan.Bytes
	x := &endpoint{host: staging, src: staging, dst: own, size: plan.Bytes,
		fixed: port.Shape.IsStatic() || plan.Bytes <= smallCopy}
	if output {
		x.src, x.dst, x.srcAt = own, staging, offset
	}
	return x, nil
}

// cached reports whether the host reads the buffer's memory at full speed.
func (d *Device) cached(b *Buffer) bool {
	return d.info.MemoryTypes[b.piece.block.memoryType].Flags&MemoryHostCached != 0
}

// anyFixed reports whether there is a copy that is the same in every run.
func anyFixed(ends []*endpoint) bool {
	return slices.ContainsFunc(ends, func(x *endpoint) bool { return x.fixed })
}

// recordCopies adds the copies that are the same in every run.
func recordCopies(c *CommandList, ends []*endpoint) {
	for i, x := range ends {
		if x.fixed && !slices.Contains(ends[:i], x) {
			c.CopyBuffer(x.dst, 0, x.src, x.srcAt, x.size)
		}
	}
}

// copies is a recording of the copies whose lengths differ from run to run. It is made anew when they
// have changed, which is cheap: the steps of the program are not part of it.
type copies struct {
	recording *Recording
	sizes     []int64 // by endpoint, that it is recorded for
}

// prepare returns a recording that copies sizes[i] bytes of endpoint i, or nil if there is nothing to do. The
// device must be done with the last one.
func (x *copies) prepare(e *Executable, name string, ends []*endpoint, sizes []int64) (*Recording, error) {
	c := e.device.NewCommandList()
	some := false
	for i, end := range ends {
		if end.src != nil && !end.fixed && sizes[i] > 0 && !slices.Contains(ends[:i], end) {
			c.CopyBuffer(end.dst, 0, end.src, end.srcAt, sizes[i])
			some = true
		}
	}
	if !some {
		return nil, nil
	}
	if x.recording == nil {
		r, err := e.device.Record(name, c)
		if err != nil {
			return nil, err
		}
		e.keep(r)
		x.recording, x.sizes = r, slices.Clone(sizes)
		return r, nil
	}
	if !slices.Equal(x.sizes, sizes) {
		x.sizes = nil // in case it fails halfway
		if err := x.recording.rerecord(c); err != nil {
			return nil, err
		}
		x.sizes = slices.Clone(sizes)
	}
	return x.recording, nil
}
