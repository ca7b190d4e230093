package gomlx

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
)

// Name is the name of the backend: what GOMLX_BACKEND begins with.
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
}

var _ compute.Backend = (*Backend)(nil)

// New opens the backend on a device, named as [vkc.OpenDevice] takes it. Without a name it is the best GPU, and where there
// is none the processor, without Vulkan.
func New(device string) (*Backend, error) {
	d, err := vkc.OpenDevice(device)
	if err == nil && device == "" && d.Caps().Type == target.DeviceCPU {
		if err = d.Close(); err == nil {
			d, err = vkc.OpenDevice("cpu")
		}
	}
	if err != nil {
		return nil, errors.WithMessagef(err, "backend %s:%s", Name, device)
	}
	b := &Backend{device: d, programs: map[string]*program{}, types: map[dtypes.DType]bool{}}
	for t, e := range elementTypes {
		has := d.Caps().Features
		if d.IsCPU() || (e != ir.F64 || has.Float64) && (e != ir.I64 || has.Int64) {
			b.types[t] = true
		}
	}
	return b, nil
}

// Name implements compute.Backend.
func (b *Backend) Name() string { return Name }

// String implements compute.Backend.
func (b *Backend) String() string { return Name }

// Description implements compute.Backend.
func (b *Backend) Description() string {
	return fmt.Sprintf("vkc %s on %s", vkc.Version(), b.device.Why())
}

// NumDevices implements compute.Backend: there is one.
func (b *Backend) NumDevices() int { return 1 }

// DeviceDescription implements compute.Backend.
func (b *Backend) DeviceDescription(compute.DeviceNum) string { return b.device.Name() }

// Capabilities implements compute.Backend.
func (b *Backend) Capabilities() compute.Capabilities {
	return compute.Capabilities{
		Operations:  maps.Clone(operations),
		Functions:   true,
		DTypes:      maps.Clone(b.types),
		DynamicAxes: true,
	}
}

// Builder implements compute.Backend.
func (b *Backend) Builder(name string) compute.Builder {
	builder := &Builder{backend: b, name: name}
	builder.main = builder.function(compute.MainName, nil)
	return builder
}

// BufferFromFlatData implements compute.Backend. The values are copied.
func (b *Backend) BufferFromFlatData(device compute.DeviceNum, flat any, shape shapes.Shape) (compute.Buffer, error) {
	if err := b.check(device); err != nil {
		return nil, err
	}
	d, err := dataOf(flat, shape)
	if err != nil {
		return nil, err
	}
	return newBuffer(b, shape.DType, &storage{backend: b, host: d}), nil
}

// HasSharedBuffers implements compute.Backend: what is on a device is not the host's to change.
func (b *Backend) HasSharedBuffers() bool { return false }

// NewSharedBuffer implements compute.Backend.
func (b *Backend) NewSharedBuffer(compute.DeviceNum, shapes.Shape) (compute.Buffer, any, error) {
	return nil, nil, errors.Wrapf(compute.ErrNotImplemented, "NewSharedBuffer in backend %s", Name)
}

// Finalize implements compute.Backend.
func (b *Backend) Finalize() {
	if b.finalized.Swap(true) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.programs {
		p.close()
	}
	b.programs = nil
	b.tensors.Range(func(s, _ any) bool {
		_ = s.(*storage).device.Close()
		return true
	})
	_ = b.device.Close()
}

// IsFinalized implements compute.Backend.
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

// program is a graph that is compiled and loaded, for all computations that have it. Its inputs are named by inputName or
// stateName, in their order, and its outputs by outputName.
type program struct {
	executable *vkc.Executable
	uses       int

	mu   sync.Mutex          // held while a run begins, so that its states are what it is given
	held map[string]*storage // what each state holds
}

func inputName(i int) string  { return fmt.Sprintf("x%d", i) }
func stateName(i int) string  { return fmt.Sprintf("s%d", i) }
func outputName(i int) string { return fmt.Sprintf("y%d", i) }

// inputNumber is the number in a name by inputName or stateName.
func inputNumber(name string, in []*storage) (int, error) {
	i, err := strconv.Atoi(name[1:])
	if err != nil || i < 0 || i >= len(in) {
		return 0, errors.Errorf("a program has the input %q, and is given %d", name, len(in))
	}
	return i, nil
}

// programKey tells graphs apart: by their hash, which leaves names out, and by the order in which inputs and states are
// given, which the names say.
func programKey(g *ir.Graph) string {
	var key strings.Builder
	key.WriteString(g.HashString())
	ports := g.Interface()
	for _, n := range slices.Concat(ports.Inputs, ports.States) {
		key.WriteString(" " + n.Name())
	}
	return key.String()
}

// load returns the program of a graph; release gives it back.
func (b *Backend) load(ctx context.Context, g *ir.Graph) (*program, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check(0); err != nil {
		return nil, err
	}
	key := programKey(g)
	p, ok := b.programs[key]
	if !ok {
		executable, err := b.device.LoadGraph(ctx, g, nil, vkc.LoadOptions{NoTrial: true})
		if err != nil {
			return nil, errors.WithMessagef(err, "computation %q", g.Name)
		}
		p = &program{executable: executable, held: map[string]*storage{}}
		b.programs[key] = p
	}
	p.uses++
	return p, nil
}

func (b *Backend) release(p *program) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.uses--; p.uses > 0 {
		return
	}
	for key, q := range b.programs {
		if q == p {
			delete(b.programs, key)
			p.close()
		}
	}
}

func (p *program) close() {
	_ = p.executable.Close()
	for _, s := range p.held {
		_ = s.close()
	}
	p.held = map[string]*storage{}
}

// notImplemented is the error of an operation that vkc does not have.
func notImplemented(op compute.OpType) error {
	return errors.Wrapf(compute.ErrNotImplemented, "%s in backend %s", op, Name)
}
