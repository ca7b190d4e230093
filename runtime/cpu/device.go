package cpu

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

// Device is the CPU as a device: programs on the same Device can pass device tensors to each other, and it counts their
// memory and traffic. Its device tensors are in host memory. Its zero value is ready to use.
type Device struct {
	closed  atomic.Bool
	in, out atomic.Uint64 // traffic in bytes; see Traffic
	tensors atomic.Int64  // bytes of device tensors that are open

	mu       sync.Mutex // guards the fields below
	programs map[*interp.Program]bool
}

// add adds a loaded program to the device.
func (d *Device) add(p *interp.Program) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.programs == nil {
		d.programs = map[*interp.Program]bool{}
	}
	d.programs[p] = true
}

func (d *Device) remove(p *interp.Program) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.programs, p)
}

// own is the device of programs that are loaded without Options.Device.
var own Device

// Close closes the device: later uses of its tensors and programs fail. Closing twice is fine.
func (d *Device) Close() error {
	if d != nil {
		d.closed.Store(true)
	}
	return nil
}

// Traffic counts the bytes of tensors that programs received and returned. Tensors that stay on the device do not
// count.
func (d *Device) Traffic() runtime.Traffic {
	if d == nil {
		return runtime.Traffic{}
	}
	return runtime.Traffic{In: d.in.Load(), Out: d.out.Load()}
}

// Memory counts the bytes of open device tensors, and of the programs' weights and states in the form that runs use.
// That form may be a weight's bytes in the weights file, which may be mapped into memory.
func (d *Device) Memory() runtime.MemoryUse {
	use := runtime.MemoryUse{}
	if d == nil {
		return use
	}
	d.mu.Lock()
	weights, states := interp.Held(slices.Collect(maps.Keys(d.programs)))
	d.mu.Unlock()
	for owner, n := range map[runtime.MemoryOwner]int64{runtime.OwnTensors: d.tensors.Load(),
		runtime.OwnWeights: weights, runtime.OwnStates: states} {
		if n > 0 {
			use[owner] = uint64(n)
		}
	}
	return use
}

// checkUsable returns an error after Close.
func (d *Device) checkUsable() error {
	if d.closed.Load() {
		return fmt.Errorf("the CPU device is %w", runtime.ErrClosed)
	}
	return nil
}

// hostMemory is the memory of a device tensor on the CPU.
type hostMemory struct {
	device *Device
	data   *ir.Data
}

// ReadAt implements runtime.Memory.
func (m *hostMemory) ReadAt(_ context.Context, p []byte, offset int64) error {
	if err := m.device.checkUsable(); err != nil {
		return err
	}
	m.device.out.Add(uint64(copy(p, m.data.Bytes[offset:])))
	return nil
}

// Close implements runtime.Memory.
func (m *hostMemory) Close() error {
	m.device.tensors.Add(-int64(len(m.data.Bytes)))
	m.data = nil // free for the garbage collector
	return nil
}

// Device implements runtime.Memory.
func (m *hostMemory) Device() string { return "CPU (" + goruntime.GOARCH + ")" }

// newTensor makes a device tensor of data, without a copy. The caller must not change data afterwards.
func (d *Device) newTensor(label string, data *ir.Data) (*runtime.DeviceTensor, error) {
	d.tensors.Add(int64(len(data.Bytes)))
	return runtime.NewDeviceTensor(label, data.DType, data.Dims, &hostMemory{d, data})
}

// Upload implements runtime.Executable.
func (e *executable) Upload(ctx context.Context, d *ir.Data) (*runtime.DeviceTensor, error) {
	if d == nil {
		return nil, e.Explain("upload for", runtime.ErrNothing)
	}
	if err := d.Check(); err != nil {
		return nil, e.Explain("upload for", err)
	}
	return e.UploadFrom(ctx, d.DType, d.Dims, bytes.NewReader(d.Bytes))
}

// UploadFrom implements runtime.Executable.
func (e *executable) UploadFrom(ctx context.Context, t ir.DType, dims []int,
	from io.ReaderAt) (*runtime.DeviceTensor, error) {
	tensor, err := e.upload(ctx, t, dims, from)
	if err != nil {
		return nil, e.Explain("upload for", err)
	}
	return tensor, nil
}

// upload copies a tensor of dtype t with extents dims from a reader to a new device tensor. [UploadFrom] adds the
// program's name to its errors.
func (e *executable) upload(ctx context.Context, t ir.DType, dims []int,
	from io.ReaderAt) (*runtime.DeviceTensor, error) {
	if from == nil {
		return nil, runtime.ErrNoReader
	}
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, err
	}
	if _, err := e.open(); err != nil {
		return nil, err
	}
	size, err := ir.ByteSize(t, dims)
	if err == nil {
		err = hostmem.Check(size)
	}
	if err != nil {
		return nil, err
	}
	d, err := ir.NewData(t, dims...)
	if err != nil {
		return nil, err
	}
	err = runtime.ReadChunks(from, int64(len(d.Bytes)), func(p []byte, at int64) error {
		copy(d.Bytes[at:], p)
		return runtime.CheckContext(ctx)
	})
	if err != nil {
		return nil, err
	}
	e.device.in.Add(uint64(len(d.Bytes)))
	return e.device.newTensor("uploaded", d)
}

// hold returns all inputs of a run, from in and opt.Inputs, as host tensors without copies. The memory of device
// tensors stays valid until release is called.
func (e *executable) hold(in map[string]*ir.Data, opt runtime.RunOptions) (all map[string]*ir.Data, release func(),
	err error) {
	held, release, err := runtime.Hold(opt.Inputs)
	if err != nil {
		return nil, nil, err
	}
	all = maps.Clone(in)
	if all == nil {
		all = map[string]*ir.Data{}
	}
	for name, m := range held {
		memory, ok := m.(*hostMemory)
		if !ok || memory.device != e.device {
			release()
			return nil, nil, runtime.ErrElsewhere(name, opt.Inputs[name], e.Device())
		}
		all[name] = memory.data
	}
	return all, release, nil
}
