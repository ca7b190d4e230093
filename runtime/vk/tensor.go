package vk

import (
	"context"
	"fmt"
	"io"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// deviceMemory is the memory of a [runtime.DeviceTensor] on a Vulkan device.
type deviceMemory struct {
	*Buffer
	written Point // the point at which the tensor has been computed
	slot    *slot // the slot of the buffer, if a later run may reuse it; nil if closing the tensor frees the buffer
	// failed returns an error if the run that computed the tensor has failed. It is nil if that is impossible.
	failed func() error
}

// Close implements runtime.Memory.
func (m deviceMemory) Close() error {
	if m.slot != nil {
		return m.slot.Close()
	}
	return m.Buffer.Close()
}

// smallKept is the largest size in bytes of a kept output that gets memory that the host can read. Reading such an
// output needs no copy by the device, which would have to wait for work submitted meanwhile.
const smallKept = 4 << 10

// nearKept is the largest size in bytes of a kept output for which device memory is used that the host can map. A
// decoding step then reads the previous step's token at full speed, and the host reads only a few bytes over the bus
// (M-token-gap).
const nearKept = 256

// ReadAt implements runtime.Memory. If the host cannot read the memory itself, the device copies the bytes. Both wait
// for the run that writes the tensor, and return its error if it failed.
func (m deviceMemory) ReadAt(ctx context.Context, p []byte, offset int64) error {
	if err := m.device.enter("read a tensor"); err != nil {
		return err
	}
	defer m.device.leave()
	if !m.kind.readByHost() {
		if err := m.device.download(ctx, p, m.Buffer, offset, order{overlaps: true, after: m.written}); err != nil {
			return err
		}
		return m.runError()
	}
	if err := m.device.Wait(ctx, m.written); err != nil {
		return err
	}
	m.device.traffic.out.Add(uint64(copy(p, m.Bytes()[offset:])))
	return m.runError()
}

// runError returns the error of the run that computed the tensor, or nil.
func (m deviceMemory) runError() error {
	if m.failed == nil {
		return nil
	}
	return m.failed()
}

// Device implements runtime.Memory.
func (m deviceMemory) Device() string { return m.device.describe() }

// describe returns the device's name and driver, for people.
func (d *Device) describe() string {
	c := &d.info.Caps
	return fmt.Sprintf("%s (Vulkan %v, %s)", c.Name, c.API, c.DriverName)
}

// newTensor makes the buffer of a tensor. A tensor may be empty but a buffer may not, so the buffer has at least a few
// bytes.
func (d *Device) newTensor(name string, size int64, kind MemoryKind) (*Buffer, error) {
	return d.newBuffer(runtime.OwnTensors, name, max(size, 16), kind)
}

// Upload implements runtime.Executable. It overlaps with runs in progress, because nothing reads the tensor yet.
func (e *Executable) Upload(ctx context.Context, data *ir.Data) (_ *runtime.DeviceTensor, err error) {
	defer e.explain("upload for", &err)
	if data == nil {
		return nil, runtime.ErrNothing
	}
	if err := data.Check(); err != nil {
		return nil, err
	}
	return e.upload(ctx, data.DType, data.Dims, func(b *Buffer) error {
		return e.device.uploadToNew(ctx, b, 0, data.Bytes)
	})
}

// UploadFrom implements runtime.Executable. Like Upload, it overlaps with runs in progress.
func (e *Executable) UploadFrom(ctx context.Context, t ir.DType, dims []int,
	from io.ReaderAt) (_ *runtime.DeviceTensor, err error) {
	defer e.explain("upload for", &err)
	if from == nil {
		return nil, runtime.ErrNoReader
	}
	return e.upload(ctx, t, dims, func(b *Buffer) error {
		size, err := ir.ByteSize(t, dims)
		if err != nil {
			return err
		}
		return runtime.ReadChunks(from, size, func(p []byte, at int64) error {
			return e.device.uploadToNew(ctx, b, at, p)
		})
	})
}

// upload makes a tensor and calls fill to write it.
func (e *Executable) upload(ctx context.Context, t ir.DType, dims []int,
	fill func(b *Buffer) error) (*runtime.DeviceTensor, error) {
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, err
	}
	if err := e.enter(); err != nil {
		return nil, err
	}
	defer e.device.leave()
	return e.device.newUploaded(t, dims, fill)
}

// newUploaded makes a device tensor, and calls fill to write its buffer.
func (d *Device) newUploaded(dtype ir.DType, dims []int, fill func(b *Buffer) error) (*runtime.DeviceTensor, error) {
	size, err := ir.ByteSize(dtype, dims)
	if err != nil {
		return nil, err
	}
	b, err := d.newTensor("uploaded tensor", size, DeviceMemory)
	if err != nil {
		return nil, err
	}
	t, err := runtime.NewDeviceTensor("uploaded", dtype, dims, deviceMemory{Buffer: b})
	if err == nil {
		err = fill(b)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return t, nil
}

// holdInputs returns the buffers of the inputs that are device tensors, by port. Their memory stays allocated until
// release is called.
func (e *Executable) holdInputs(in map[string]*runtime.DeviceTensor) (from []*Buffer, release func(), err error) {
	held, release, err := runtime.Hold(in)
	if err != nil {
		return nil, nil, err
	}
	from = make([]*Buffer, len(e.program.Inputs))
	for i, port := range e.Inputs() {
		m, ok := held[port.Name]
		if !ok {
			continue
		}
		memory, ok := m.(deviceMemory)
		if !ok || memory.device != e.device {
			release()
			return nil, nil, runtime.ErrElsewhere(port.Name, in[port.Name], e.Device())
		}
		from[i] = memory.Buffer
	}
	return from, release, nil
}

// keptKind returns the kind of memory for a kept output of size bytes. port is the output's number.
func (e *Executable) keptKind(port int, size int64) MemoryKind {
	switch {
	case e.output(port).Bytes <= nearKept:
		return NearMemory
	case size <= smallKept:
		return ReadbackMemory
	}
	return DeviceMemory
}

// closeAll closes the memory of kept outputs.
func closeAll(list []deviceMemory) {
	for _, m := range list {
		m.Close() // retires it, which cannot fail
	}
}

// keptTensor makes the device tensor of a kept output. d has its dtype and dims, and m its memory.
func (e *Executable) keptTensor(port int, d *ir.Data, m deviceMemory) (*runtime.DeviceTensor, error) {
	m.written = e.inFlight.last
	if e.stats.Persistent > 0 {
		m.failed = e.checkTimeouts
	}
	return runtime.NewDeviceTensor(e.labels[port], d.DType, d.Dims, m)
}

// Traffic counts the bytes of tensors copied between host and device.
func (d *Device) Traffic() runtime.Traffic {
	if d == nil {
		return runtime.Traffic{}
	}
	return runtime.Traffic{In: d.traffic.in.Load(), Out: d.traffic.out.Load()}
}
