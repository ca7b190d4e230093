package vk

import (
	"context"
	"fmt"
	"io"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// deviceMemory is the device memory of a runtime.DeviceTensor.
type deviceMemory struct {
	*Buffer
	written Point // the point at which the tensor is computed
	slot    *slot // the reusable slot of the buffer; nil if the tensor owns the buffer
	// failed returns an error if the computed values are wrong. It is nil if the program cannot fail.
	failed func() error
}

// Close implements runtime.Memory.
func (m deviceMemory) Close() error {
	if m.slot != nil {
		return m.slot.Close()
	}
	return m.Buffer.Close()
}

// Kept outputs of up to smallKept bytes use host-visible memory. The host then reads them without a copy on the device,
// which would have to wait for work submitted meanwhile.
const smallKept = 4 << 10

// Outputs of at most nearKept bytes use device memory that the host can map. The next decoding step reads the token
// there at full speed, and the host reads few bytes over the bus (M-token-gap).
const nearKept = 256

// ReadAt implements runtime.Memory.
func (m deviceMemory) ReadAt(ctx context.Context, p []byte, offset int64) error {
	if err := m.device.enter("read a tensor"); err != nil {
		return err
	}
	defer m.device.leave()
	if !m.kind.readByHost() {
		if err := m.device.download(ctx, p, m.Buffer, offset, order{overlaps: true, after: m.written}); err != nil {
			return err
		}
		return m.wrong()
	}
	if err := m.device.Wait(ctx, m.written); err != nil {
		return err
	}
	m.device.traffic.out.Add(uint64(copy(p, m.Bytes()[offset:])))
	return m.wrong()
}

// wrong returns the tensor's error, if any.
func (m deviceMemory) wrong() error {
	if m.failed == nil {
		return nil
	}
	return m.failed()
}

// Device implements runtime.Memory.
func (m deviceMemory) Device() string { return m.device.describe() }

// describe names the device, for people.
func (d *Device) describe() string {
	c := &d.info.Caps
	return fmt.Sprintf("%s (Vulkan %v, %s)", c.Name, c.API, c.DriverName)
}

// newTensor makes the memory of a tensor. A tensor may be empty but a buffer may not, so it allocates at least a few
// bytes.
func (d *Device) newTensor(name string, size int64, kind MemoryKind) (*Buffer, error) {
	return d.newBuffer(runtime.OwnTensors, name, max(size, 16), kind)
}

// Upload implements runtime.Executable. It overlaps with runs in progress, because nothing reads the tensor yet.
func (e *Executable) Upload(ctx context.Context, data *ir.Data) (*runtime.DeviceTensor, error) {
	if data == nil {
		return nil, e.wrap("upload for", runtime.ErrNothing)
	}
	if err := data.Check(); err != nil {
		return nil, e.wrap("upload for", err)
	}
	return e.upload(ctx, data.DType, data.Dims, func(b *Buffer) error {
		return e.device.fill(ctx, b, 0, data.Bytes)
	})
}

// UploadFrom implements runtime.Executable. Like Upload, it overlaps with runs in progress.
func (e *Executable) UploadFrom(ctx context.Context, t ir.DType, dims []int,
	from io.ReaderAt) (*runtime.DeviceTensor, error) {
	if from == nil {
		return nil, e.wrap("upload for", runtime.ErrNoReader)
	}
	return e.upload(ctx, t, dims, func(b *Buffer) error {
		size, err := ir.ByteSize(t, dims)
		if err != nil {
			return err
		}
		return runtime.ReadChunks(from, size, func(p []byte, at int64) error {
			return e.device.fill(ctx, b, at, p)
		})
	})
}

// upload makes a tensor and calls fill to write it.
func (e *Executable) upload(ctx context.Context, t ir.DType, dims []int,
	fill func(b *Buffer) error) (*runtime.DeviceTensor, error) {
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, e.wrap("upload for", err)
	}
	if err := e.enter(); err != nil {
		return nil, e.wrap("upload for", err)
	}
	defer e.device.leave()
	tensor, err := e.device.newUploaded(t, dims, fill)
	if err != nil {
		return nil, e.wrap("upload for", err)
	}
	return tensor, nil
}

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

// holdInputs returns the buffers of the inputs that are device tensors, by port, and keeps them open until release is
// called.
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

// keptKind is the kind of memory for a kept output.
func (e *Executable) keptKind(port int, x runtime.Output) MemoryKind {
	switch {
	case e.output(port).Bytes <= nearKept:
		return NearMemory
	case x.Size <= smallKept:
		return ReadbackMemory
	}
	return DeviceMemory
}

// newKept makes the memory of a kept output.
func (e *Executable) newKept(port int, size int64, kind MemoryKind) (*Buffer, error) {
	return e.device.newTensor("kept output "+e.Outputs()[port].Name, size, kind)
}

// newKeptAll makes the memory of all kept outputs, by port.
func (e *Executable) newKeptAll(outputs []runtime.Output) (kept []deviceMemory, err error) {
	kept = make([]deviceMemory, len(outputs))
	for i, x := range outputs {
		if !x.Keep {
			continue
		}
		if kept[i].Buffer, err = e.newKept(i, x.Size, e.keptKind(i, x)); err != nil {
			closeAll(kept)
			return nil, err
		}
	}
	return kept, nil
}

func closeAll(list []deviceMemory) {
	for _, m := range list {
		m.Close() // retires it, which cannot fail
	}
}

// keptTensor makes a tensor of a kept output.
func (e *Executable) keptTensor(port int, d *ir.Data, m deviceMemory) (*runtime.DeviceTensor, error) {
	m.written = e.inFlight.last
	if e.stats.Persistent > 0 {
		m.failed = e.timedOut
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
