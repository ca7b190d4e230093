package gomlx

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/ir"
)

// Name is the name of the backend, the prefix of GOMLX_BACKEND.
const Name = "vkc"

func init() {
	compute.Register(Name, func(config string) (compute.Backend, error) { return New(config) })
}

// Backend runs GoMLX's computations on one device. Several goroutines may use it.
type Backend struct {
	device    *vkc.Device
	types     map[dtypes.DType]bool
	finalized atomic.Bool
	tensors   sync.Map // the storages that have a device tensor

	mu       sync.Mutex
	programs map[string]*program // by programKey
	updating int                 // number of programs that own updated states
}

var _ compute.Backend = (*Backend)(nil)

// New opens the backend on a device, with a name for [vkc.OpenDevice]. An empty name selects the best GPU, or the
// processor without Vulkan if there is no GPU.
func New(want string) (*Backend, error) {
	d, err := vkc.OpenDevice(want)
	if err == nil && want == "" && d.Caps().Type == device.DeviceCPU { // Vulkan in software
		if err = d.Close(); err == nil {
			d, err = vkc.OpenDevice("cpu")
		}
	}
	if err != nil {
		return nil, errors.WithMessagef(err, "backend %s:%s", Name, want)
	}
	b := &Backend{device: d, programs: map[string]*program{}, types: map[dtypes.DType]bool{}}
	for t, e := range elementTypes {
		if d.IsCPU() || e != ir.F64 || d.Caps().Features.Float64 { // i64 works without 64-bit integers
			b.types[t] = true
		}
	}
	return b, nil
}

// Name implements compute.Backend: it returns the constant [Name].
func (b *Backend) Name() string { return Name }

// String implements compute.Backend: it returns the constant [Name].
func (b *Backend) String() string { return Name }

// Description implements compute.Backend: it returns vkc's version, the device, and why that device was chosen.
func (b *Backend) Description() string {
	return fmt.Sprintf("vkc %s on %s", vkc.Version(), b.device.Why())
}

// NumDevices implements compute.Backend: it returns 1.
func (b *Backend) NumDevices() int { return 1 }

// DeviceDescription implements compute.Backend: it returns the device's name.
func (b *Backend) DeviceDescription(compute.DeviceNum) string { return b.device.Name() }

// Capabilities implements compute.Backend: it returns the operations and the dtypes that the device supports, and that
// functions and dynamic axes are supported.
func (b *Backend) Capabilities() compute.Capabilities {
	return compute.Capabilities{
		Operations:  maps.Clone(operations),
		Functions:   true,
		DTypes:      maps.Clone(b.types),
		DynamicAxes: true,
	}
}

// Builder implements compute.Backend: it returns a builder for a computation of that name, with an empty main function.
func (b *Backend) Builder(name string) compute.Builder {
	builder := &Builder{backend: b, name: name}
	builder.main = builder.function(compute.MainName, nil)
	return builder
}

// BufferFromFlatData implements compute.Backend: it returns a buffer of a shape with a copy of flat, a slice of its
// elements in row-major order.
func (b *Backend) BufferFromFlatData(device compute.DeviceNum, flat any, shape shapes.Shape) (compute.Buffer, error) {
	if err := b.check(device); err != nil {
		return nil, err
	}
	d, err := dataOf(flat, shape)
	if err != nil {
		return nil, err
	}
	return newBuffer(b, shape.DType, b.onHost(d)), nil
}

// HasSharedBuffers implements compute.Backend: it returns false, because the host cannot access device buffers
// directly.
func (b *Backend) HasSharedBuffers() bool { return false }

// NewSharedBuffer implements compute.Backend: it returns compute.ErrNotImplemented.
func (b *Backend) NewSharedBuffer(compute.DeviceNum, shapes.Shape) (compute.Buffer, any, error) {
	return nil, nil, errors.Wrapf(compute.ErrNotImplemented, "NewSharedBuffer in backend %s", Name)
}

// Finalize implements compute.Backend: it closes the programs, the tensors and the device. Later calls do nothing.
func (b *Backend) Finalize() {
	if b.finalized.Swap(true) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.programs {
		_ = p.executable.Close()
	}
	b.programs = nil
	b.tensors.Range(func(s, _ any) bool {
		_ = s.(*storage).device.Close()
		return true
	})
	_ = b.device.Close()
}

// IsFinalized implements compute.Backend: it reports whether Finalize was called.
func (b *Backend) IsFinalized() bool { return b.finalized.Load() }

// check refuses a device that is not there, and a backend that is finalized.
func (b *Backend) check(device compute.DeviceNum) error {
	switch {
	case b.IsFinalized():
		return errors.Errorf("backend %s is finalized", Name)
	case device != 0:
		return errors.Errorf("device %d: backend %s has one device, number 0", device, Name)
	}
	return nil
}

// notImplemented returns the error of an operation that vkc does not have.
func notImplemented(op compute.OpType) error {
	return errors.Wrapf(compute.ErrNotImplemented, "%s in backend %s", op, Name)
}
