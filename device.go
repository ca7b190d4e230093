package vkc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Device runs programs. It is a Vulkan device, the CPU fast path, or several of these together. Close everything loaded
// on the device before the device itself.
type Device struct {
	kind      kind
	closed    atomic.Bool
	functions functions // the functions that FuncOn made; Close closes their programs
}

// kind is the implementation of a device: [vulkan], [processor], [pipeline], [tensorParallel]; or [auto] with a GPU and
// [software] without one, which choose between the first two for each program.
type kind interface {
	id() *identity
	compile(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error)
	// load loads a program with the weights of opt.
	load(ctx context.Context, p *Program, opt LoadOptions) (*Executable, error)
	// backend is the *vk.Device, *cpu.Device or *collective.Group; nil for a pipeline.
	backend() any
	// parts returns the devices that self, the Device of this kind, consists of: itself or its members.
	parts(self *Device) Devices
	// hardware returns the Vulkan devices and processors that the device has opened so far.
	hardware() []hardware
	close() error
}

// hardware is a Vulkan device or the processor. Traffic, Memory and Synchronize of a Device combine the values of all
// its hardware.
type hardware interface {
	traffic() Traffic
	memory() runtime.MemoryUse
	synchronize(ctx context.Context) error
}

// identity has the fields common to all kinds of devices: the caps, and the values that Why and Fallback return.
type identity struct {
	caps     device.Caps
	why      string
	fallback error
}

func (i *identity) id() *identity { return i }

// singleDevice implements parts for the kinds that are a single device.
type singleDevice struct{}

func (singleDevice) parts(self *Device) Devices { return Devices{self} }

// opened returns the kind of a device. For a nil device it returns an empty processor, so that getters need no check.
func (d *Device) opened() kind {
	if d == nil || d.kind == nil {
		return &processor{identity: identity{why: "no device"}}
	}
	return d.kind
}

// checkUsable returns an error if the device is nil or closed, or if ctx is nil or has ended. Every call that uses the
// device begins with it.
func (d *Device) checkUsable(ctx context.Context) error {
	switch {
	case d == nil || d.kind == nil:
		return errors.New("the device is nil: OpenDevice makes one, unless it returns an error")
	case d.closed.Load():
		return fmt.Errorf("the device %s is closed", d.Name())
	}
	if err := runtime.CheckContext(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// Name returns the device's name, for people.
func (d *Device) Name() string { return d.opened().id().caps.Name }

// Why gives the reason for the choice of this device, in one line that begins with its name. [Executable.Why] says
// where a program runs.
func (d *Device) Why() string { return d.opened().id().why }

// Fallback returns the reason that "auto" opened the CPU fast path although the machine may have a GPU: no Vulkan
// device could be used. It returns nil otherwise. The fast path is slower than a GPU, so tell the user.
func (d *Device) Fallback() error { return d.opened().id().fallback }

// Caps returns the device's capabilities, to compile for it. The CPU devices only have a name and a type.
func (d *Device) Caps() device.Caps { return d.opened().id().caps }

// Parts returns the devices that this device combines, or only itself if it combines none.
func (d *Device) Parts() Devices { return d.opened().parts(d) }

// Backend returns the device of package runtime/vk or runtime/cpu, a *vk.Device or a *cpu.Device, or the
// *collective.Group of devices that share each op. It is for uses without a method in this package, such as measuring.
// It is nil for a pipeline. Do not close it: [Device.Close] does. [vk.Of] returns a Device's *vk.Device.
func (d *Device) Backend() any { return d.opened().backend() }

// IsCPU reports whether programs run on the processor without Vulkan, on the CPU fast path or the CPU reference. If it
// returns false, some programs may still run on the fast path; see [Executable.Vulkan].
func (d *Device) IsCPU() bool {
	return d != nil && !slices.ContainsFunc(d.Parts(), func(one *Device) bool { return vk.Of(one) != nil })
}

// IsReference reports whether the device is the CPU reference, the definition of every op.
func (d *Device) IsReference() bool { return d.IsCPU() && d.Name() == referenceName }

// Traffic counts the tensor bytes copied between the caller's memory and the memory in which the device's programs run.
// Tensors that stay on the device ([RunOptions].Keep) do not count.
func (d *Device) Traffic() (sum Traffic) {
	for _, h := range d.opened().hardware() {
		sum = sum.Add(h.traffic())
	}
	return sum
}

// Memory returns the bytes allocated on the device by purpose. For the CPU fast path it counts only device tensors; the
// rest is Go's heap.
func (d *Device) Memory() runtime.MemoryUse {
	use := runtime.MemoryUse{}
	for _, h := range d.opened().hardware() {
		use = use.Add(h.memory())
	}
	return use
}

// Synchronize waits until the device has finished all work submitted so far, including asynchronous runs.
func (d *Device) Synchronize(ctx context.Context) error {
	if err := d.checkUsable(ctx); err != nil {
		return fmt.Errorf("synchronize: %w", err)
	}
	return runtime.Each(d.kind.hardware(), func(h hardware) error { return h.synchronize(ctx) })
}

// Close closes the device, and the programs of its functions (see [FuncOn]). Its error names objects that were still
// open on it. Closing twice is allowed.
func (d *Device) Close() error {
	if d == nil || d.closed.Swap(true) {
		return nil
	}
	return errors.Join(d.functions.close(), d.opened().close())
}

// Compile compiles a graph for the device; see [Compile]. The processor interprets graphs node by node, so for it there
// is nothing to compile.
func (d *Device) Compile(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	if err := d.checkUsable(ctx); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	return d.kind.compile(ctx, g, opt)
}

// LoadOptions adjusts Load.
type LoadOptions struct {
	// Weights provides the graph's weights. Nil means the weights in the program's bundle.
	Weights ir.WeightSource
	// Progress, if set, receives the progress of loading. Calls do not overlap. It must not use the device.
	Progress func(Progress)
	// Guards makes every run check for writes outside of an output or state, and fail with a [*vk.OverrunError]. It is
	// for tests of Vulkan devices.
	Guards bool
	// Share is another executable on this device, to share weights and states with.
	//
	// Weights with the same name and type are stored once if the kernels of both executables use the same layout;
	// Weights need not have these. (On a Vulkan device, weights with equal contents are always stored once.) States of
	// the same name must have equal types. A run of either executable sees the values that the last run of either
	// left. Runs of executables with common states do not overlap. Close each executable, in any order.
	Share *Executable
	// WeightRoom, if not 0, limits the bytes of device memory for the weights of all programs on the device. The other
	// weights stay in host memory, which kernels read over the bus. Load first moves out weights from which a run reads
	// only some rows or experts. It is an error on a device without memory of its own (integrated, software, CPU).
	WeightRoom uint64
	// Statistics adds the driver's statistics of kernels to profiles of runs ([runtime.KernelCost]), if the driver has
	// any. Drivers may then have to recompile cached kernels.
	Statistics bool
}

// Load prepares a program for running: it uploads the weights and records the commands. If the program's kernels need
// capabilities that the device lacks, for example because they were compiled for another device, the error is a
// *[vk.MismatchError] that lists all of these. An error about missing weights also lists all. The CPU fast path loads
// any program and runs its graph. With "auto" it also runs programs that the GPU cannot load, unless they were compiled
// for another device.
//
// Load starts every kernel once on zeros, because some drivers compile a kernel at its first start; runs are then free
// of that cost. A program with LoadOptions.Share is loaded where the executable to share with is.
//
// Devices "cpu", "reference" and, without a GPU, "auto" read Weights until Close. Other devices are done with Weights
// when Load returns, unless states have weights as initial values: ResetStates then reads these again.
func (d *Device) Load(ctx context.Context, p *Program, opt LoadOptions) (*Executable, error) {
	if err := d.checkUsable(ctx); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if p == nil || p.Contents.Graph == nil {
		return nil, errors.New("load: there is no program: Compile and OpenBundle make one, unless they return an " +
			"error")
	}
	if opt.Weights == nil {
		opt.Weights = p.Contents.Weights
	}
	exe, err := d.kind.load(ctx, p, opt)
	if err != nil {
		return exe, runtime.Explain("load", p.Contents.Graph.Name, err)
	}
	exe.expands = p.Contents.Graph.Expansion()
	return exe, nil
}

// errSharedElsewhere returns the error of loading a program on device d if LoadOptions.Share is on another device.
func errSharedElsewhere(d *identity, share *Executable) error {
	return fmt.Errorf("on %s: the executable to share with is on %s", d.caps.Name, share.Device())
}
