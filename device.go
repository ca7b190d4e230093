package vkc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/tunefile"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/collective"
	"github.com/vkc-go/vkc/runtime/cpu"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Device runs programs. It is a Vulkan device, the CPU fast path, or several of these together. Close everything loaded
// on the device before the device itself.
type Device struct {
	parts    Devices           // the devices combined in this one; nil for a single device
	lanes    lanes             // queues of runs, if parts run one after another
	group    *collective.Group // for tensor parallelism; nil otherwise
	inst     *vk.Instance      // nil for the CPU fast path and for several devices, like dev
	dev      *vk.Device
	host     cpu.Device // shared by programs on the CPU
	limit    uint64     // WithMemoryLimit; 0: none
	caps     device.Caps
	why      string
	fallback error
	auto     bool // "auto" opened it: programs may run on the CPU fast path instead
	tuning   func() (*tunefile.File, error)
	closed   atomic.Bool
}

// usable fails on a device that is nil or closed, and without a context or with one that has ended.
func (d *Device) usable(ctx context.Context) error {
	switch {
	case d == nil:
		return errors.New("the device is nil: OpenDevice makes one, unless it returns an error")
	case d.closed.Load():
		return fmt.Errorf("the device %s is closed", d.caps.Name)
	}
	if err := runtime.CheckContext(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// openVulkan is vk.Open; tests replace it to simulate machines without Vulkan.
var openVulkan = vk.Open

// The names of the CPU devices in Caps and for OpenDevice: with the kernels of runtime/cpu/fast, and with the reference
// interpreter.
const (
	processorName = "CPU fast path"
	processorWant = "cpu"
	referenceName = "CPU reference"
	referenceWant = "reference"
)

// OpenDevice opens a device:
//
//   - "auto" or "": the fastest one. That is the best Vulkan device. If that is a software device, Load tries each
//     program on it and on the CPU reference and takes the faster; [Executable.Why] reports both times. If no Vulkan
//     device can be opened, it is the CPU fast path, and Fallback says why. A graph that cannot be compiled for the
//     device or loaded there runs on the fast path, and Why says so: the device may lack a feature or memory, its
//     driver may fail, or a GLSL compiler may be missing;
//   - "vulkan": the best Vulkan device, in the order discrete, integrated, virtual, software;
//   - "cpu": the CPU fast path, with kernels for the CPU and without Vulkan;
//   - "reference": the CPU reference, the slow and simple specification of every op;
//   - a number: the Vulkan device with that index in `vkc devices`;
//   - anything else: the best Vulkan device whose name contains it;
//   - a list such as "0,1": several of these as one device; see [Devices.Together].
//
// Only "auto" falls back to the CPU. On a named device a failed compile or load is an error.
//
// If the device does not exist OpenDevice returns an error, which is [vk.ErrUnavailable] if there is no Vulkan device
// at all.
func OpenDevice(want string, opt ...DeviceOption) (*Device, error) {
	return openDevice(want, vk.DeviceOptions{}, opt)
}

// DeviceOption adjusts OpenDevice.
type DeviceOption func(*vk.DeviceOptions)

// WithMemoryLimit limits the bytes of everything on a Vulkan device: weights, states, temporaries, inputs and outputs,
// device tensors and staging. An allocation beyond it fails with a *[vk.OutOfMemoryError], which lists the owners of
// memory. 0 means only the device's own limit. The CPU fast path applies the limit to the values of each run.
func WithMemoryLimit(bytes uint64) DeviceOption {
	return func(o *vk.DeviceOptions) { o.MemoryLimit = bytes }
}

// OpenSandbox is [OpenDevice] for untrusted programs: the driver checks every buffer access of their kernels, which
// costs time. [Device.Robustness] returns the guarantee of the driver.
func OpenSandbox(want string, opt ...DeviceOption) (*Device, error) {
	return openDevice(want, vk.DeviceOptions{Robust: true}, opt)
}

func openDevice(want string, options vk.DeviceOptions, opt []DeviceOption) (*Device, error) {
	for _, set := range opt {
		if set != nil {
			set(&options)
		}
	}
	all, err := openAll(want, func(name string) (*Device, error) {
		d, err := openWith(name, options)
		if err != nil {
			return nil, err
		}
		d.limit = options.MemoryLimit
		return d, nil
	})
	if err != nil {
		return nil, err
	}
	return all.Together()
}

func openWith(want string, options vk.DeviceOptions) (*Device, error) {
	switch {
	case strings.EqualFold(want, processorWant):
		return processor(processorName, "asked for", nil), nil
	case strings.EqualFold(want, referenceWant):
		return processor(referenceName, "asked for", nil), nil
	}
	d, err := openVulkanDevice(want, options)
	auto := want == "" || strings.EqualFold(want, "auto")
	if auto && err != nil {
		return processor(processorName, noVulkan, fmt.Errorf("%s: %w", noVulkan, err)), nil
	}
	if err != nil {
		return nil, fmt.Errorf("device %q: %w", want, err)
	}
	if d.auto = auto; d.tries() {
		d.why += ", in software: each program runs there or on the " + processorName + ", where it is faster"
	}
	return d, nil
}

// noVulkan is the reason given when "auto" opens the CPU fast path because no Vulkan device opens.
const noVulkan = "no Vulkan device can be used"

// tries reports whether each program is measured on both the device and the CPU fast path.
func (d *Device) tries() bool { return d.auto && d.caps.Type == device.DeviceCPU }

func processor(name, why string, fallback error) *Device {
	return &Device{caps: device.Caps{Name: name, Type: device.DeviceCPU}, why: name + ": " + why, fallback: fallback}
}

func openVulkanDevice(want string, options vk.DeviceOptions) (*Device, error) {
	inst, err := openVulkan()
	if err != nil {
		return nil, err
	}
	index, why, err := vk.Choose(inst.Devices(), want)
	if err != nil {
		return nil, errors.Join(err, inst.Close())
	}
	root, _ := cachefile.Root() // without a cache directory no pipelines are stored
	options.CacheDir = cachefile.PipelineDir(root)
	dev, err := inst.OpenDevice(index, options)
	if err != nil {
		return nil, errors.Join(err, inst.Close())
	}
	d := &Device{inst: inst, dev: dev, caps: dev.Caps(), why: why}
	d.tuning = sync.OnceValues(func() (*tunefile.File, error) { return tunefile.DeviceTuning(d.caps) })
	return d, nil
}

// Name returns the device's name, for people.
func (d *Device) Name() string { return d.Caps().Name }

// Why gives the reason for the choice of this device, in one line that begins with its name. [Executable.Why] says
// where a program runs.
func (d *Device) Why() string {
	if d == nil {
		return "no device"
	}
	return d.why
}

// Fallback returns the reason that "auto" opened the CPU fast path: no Vulkan device could be used. It returns nil
// otherwise. The fast path is slower than a GPU, so tell the user.
func (d *Device) Fallback() error {
	if d == nil {
		return nil
	}
	return d.fallback
}

// Parts are the devices that it consists of: itself, or several.
func (d *Device) Parts() Devices {
	if d != nil && d.parts != nil {
		return d.parts
	}
	return Devices{d}
}

// IsCPU reports whether programs run on the processor without Vulkan, on the CPU fast path or the CPU reference. If it
// returns false, some programs may still run on the fast path; see [Executable.Vulkan].
func (d *Device) IsCPU() bool {
	return !slices.ContainsFunc(d.Parts(), func(one *Device) bool { return one == nil || one.dev != nil })
}

// IsReference reports whether the device is the CPU reference, the definition of every op.
func (d *Device) IsReference() bool { return d.IsCPU() && d.caps.Name == referenceName }

// Caps returns the device's capabilities, to compile for it. The CPU reference only has a name.
func (d *Device) Caps() device.Caps {
	if d == nil {
		return device.Caps{}
	}
	return d.caps
}

// Vulkan returns the Vulkan device, for uses without a method in this package, such as measuring. It is nil for the CPU
// fast path. Only Close closes it.
func (d *Device) Vulkan() *vk.Device {
	if d == nil {
		return nil
	}
	return d.dev
}

// Robustness returns the effect of an out-of-bounds access in a kernel. The CPU fast path runs no kernels and never
// exceeds its tensors.
func (d *Device) Robustness() vk.Robustness {
	least := vk.WithinBuffer
	for _, one := range d.Parts() {
		if one != nil && one.dev != nil {
			least = min(least, one.dev.Robustness())
		}
	}
	return least
}

// Traffic counts the tensor bytes copied between the caller's memory and the memory in which the device's programs run.
// Tensors that stay on the device ([RunOptions].Keep) do not count.
func (d *Device) Traffic() Traffic {
	if d == nil {
		return Traffic{}
	}
	var sum Traffic
	for _, one := range d.Parts() {
		vulkan, host := one.dev.Traffic(), one.host.Traffic()
		sum.In, sum.Out = sum.In+vulkan.In+host.In, sum.Out+vulkan.Out+host.Out
	}
	return sum
}

// hostLimit is the limit of the values of a run on the processor.
func (d *Device) hostLimit() int64 { return int64(min(d.limit, math.MaxInt64)) }

// Synchronize waits until the device has finished all work submitted so far, including runs that nobody waited for.
func (d *Device) Synchronize(ctx context.Context) error {
	if err := d.usable(ctx); err != nil {
		return fmt.Errorf("synchronize: %w", err)
	}
	for _, one := range d.Parts() {
		if one.dev == nil {
			continue // runs on the processor have finished when they return
		}
		if err := one.dev.WaitIdle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Memory returns the bytes allocated on the device by purpose. For the CPU fast path it counts only device tensors; the
// rest is Go's heap.
func (d *Device) Memory() runtime.MemoryUse {
	if d == nil {
		return nil
	}
	use := d.host.Memory()
	for _, one := range d.parts {
		for owner, n := range one.Memory() {
			use[owner] += n
		}
	}
	if d.dev != nil {
		for owner, n := range d.dev.MemoryStats().Owners {
			use[owner] += n
		}
	}
	return use
}

// Close closes the device. Its error names objects that were still open on it. Closing twice is allowed.
func (d *Device) Close() error {
	if d == nil || d.closed.Swap(true) {
		return nil
	}
	d.host.Close() // never fails
	if d.dev == nil {
		var err error
		if d.group != nil {
			err = d.group.Close()
		}
		return errors.Join(err, d.parts.Close())
	}
	return errors.Join(d.dev.Close(), d.inst.Close())
}

// Compile compiles a graph for the device; see [Compile]. The processor interprets graphs node by node, so for it there
// is nothing to compile.
func (d *Device) Compile(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	if err := d.usable(ctx); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	switch {
	case d.parts != nil:
		return d.compileParts(ctx, g, opt)
	case d.IsCPU():
		if _, _, err := compiler.FitWeights(g, opt.Weights); err != nil {
			return nil, err
		}
		return interpreted(g, nil), nil
	}
	opt.Target = d.caps
	if opt.Tuning == nil {
		measured, _ := d.tuning() // an unusable tuning file is ignored
		opt.Target, opt.Tuning = measured.On(d.caps), measured.Tuning()
	}
	p, err := Compile(ctx, g, opt)
	if d.standsIn(ctx, g, opt.Weights, err) {
		return interpreted(g, err), nil
	}
	return p, err
}

// interpreted returns the program of a graph for the CPU fast path. refused is the reason that no device runs the
// graph.
func interpreted(g *ir.Graph, refused error) *Program {
	p := &Program{refused: refused}
	p.Contents.Graph = g
	return p
}

// LoadOptions adjusts Load.
type LoadOptions struct {
	// Weights provides the graph's weights. Nil means the weights in the program's bundle.
	Weights ir.WeightSource
	// Progress, if set, receives the progress of loading. Calls do not overlap. It must not use the device.
	Progress func(Progress)
	// Guards makes every run check for writes outside of an output or state, and fail with a [*vk.OverrunError]. It is
	// for tests, and implies NoTrial.
	Guards bool
	// NoTrial loads a program on the device without trying whether the reference is faster, even on a software device
	// opened by "auto". It is for tools that examine kernels.
	NoTrial bool
	// Share is another executable on this device. Both use the same copy of weights with the same name and type, if
	// their kernels want the same layout; these may be missing in Weights. (On a Vulkan device, weights with equal
	// contents are always stored once.) States of the same name must have equal types and are shared: a run of either
	// executable sees the states that the last run of either left. Runs of executables with common states do not
	// overlap. Close each executable, in any order.
	Share *Executable
	// WeightRoom, if not 0, limits the device memory for the weights of all programs on it, in bytes. Other weights are
	// in host memory, which kernels read over the bus; weights with few rows or experts read per run are moved there
	// first. It is an error on a device without separate host memory (integrated, software), and on the CPU reference.
	WeightRoom uint64
	// Statistics adds the driver's statistics of kernels to profiles of runs ([runtime.KernelCost]), if the driver has
	// any. Drivers may then have to recompile cached kernels.
	Statistics bool
}

// fewRead names the weights of which a run only reads rows or matrices selected by loaded indices.
func fewRead(g *ir.Graph) map[string]bool {
	users, names := g.Users(), map[string]bool{}
	var few func(n *ir.Node) bool
	few = func(n *ir.Node) bool {
		for _, u := range users[n.ID()] {
			switch {
			case u.Op() == ir.OpEmbedding || u.Op() == ir.OpMatMulID || u.Op() == ir.OpIndexSelect:
			case (u.Op() == ir.OpDequantize || u.Op().Class() == ir.ClassView) && few(u):
			default:
				return false
			}
		}
		return true
	}
	for _, n := range g.Leaves(ir.OpWeight) {
		names[n.Name()] = few(n)
	}
	return names
}

// Load prepares a program for running: it uploads the weights and records the commands. If the device lacks a
// requirement of the program's kernels, as when it was compiled for another device, the error is a *[vk.MismatchError]
// that lists all of them. An error about missing weights also lists all. The CPU fast path loads any program and runs
// its graph. With "auto" it also runs programs that the device cannot load, unless they were compiled for another
// device.
//
// Load starts every kernel once on zeros, because some drivers compile a kernel at its first start; runs are then free
// of that cost. On a software device opened by "auto" it then runs the program a few times on zeros, there and on the
// reference, and keeps it on the faster one; see [OpenDevice]. A program with Share goes to the same side as the other.
// After Load, only "cpu" and "reference" use Weights, and ResetStates if states have weights as initial values.
func (d *Device) Load(ctx context.Context, p *Program, opt LoadOptions) (*Executable, error) {
	if err := d.usable(ctx); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if p == nil || p.Contents.Graph == nil {
		return nil, errors.New("load: there is no program: Compile and OpenBundle make one, unless they return an " +
			"error")
	}
	exe, err := d.load(ctx, p, opt)
	return exe, runtime.Explain("load", p.Contents.Graph.Name, err)
}

func (d *Device) load(ctx context.Context, p *Program, opt LoadOptions) (*Executable, error) {
	weights := opt.Weights
	if weights == nil {
		weights = p.Contents.Weights
	}
	if d.parts != nil {
		opt.Weights = weights
		return d.loadParts(ctx, p, opt)
	}
	onProcessor := d.IsCPU() || p.refused != nil && d.auto || d.auto && opt.Share.loaded() &&
		opt.Share.Vulkan() == nil
	if opt.Share != nil && (!opt.Share.loaded() || onProcessor != (opt.Share.Vulkan() == nil)) {
		if p.refused != nil {
			return nil, fmt.Errorf("on %s, next to an executable to share with: %w", d.Name(), p.refused)
		}
		return nil, errSharedElsewhere(d, opt.Share)
	}
	if onProcessor && opt.WeightRoom > 0 {
		return nil, fmt.Errorf("on %s: there is no device whose memory weights could be kept out of", d.Name())
	}
	if onProcessor {
		return d.loadOnProcessor(ctx, p, weights, opt.Share)
	}
	if p.Contents.Program == nil {
		return nil, fmt.Errorf("on %s: the program was made for the CPU fast path: compile the graph for this device",
			d.Name())
	}
	options := vk.LoadOptions{Graph: p.Contents.Graph, Progress: opt.Progress, Guards: opt.Guards,
		Share: opt.Share.Vulkan(), WeightRoom: opt.WeightRoom, Statistics: opt.Statistics}
	measured, _ := d.tuning() // an unusable tuning file is ignored
	options.Machine = device.MachineOf(measured.On(d.Caps()))
	if opt.WeightRoom > 0 {
		options.HostFirst = fewRead(p.Contents.Graph)
	}
	exe, err := d.dev.Load(ctx, p.Contents.Program, p.Contents.SPIRV, weights,
		options)
	if opt.Share == nil && !opt.Guards && d.standsIn(ctx, p.Contents.Graph, weights, err) {
		own, failed := d.loadOnProcessor(ctx, interpreted(p.Contents.Graph, err), weights, nil)
		if failed != nil {
			return nil, fmt.Errorf("%w; nor does the %s load it: %w", runtime.Reason(err), processorName,
				runtime.Reason(failed))
		}
		return own, nil
	}
	if err != nil {
		if _, others, _ := ir.FitWeights(p.Contents.Graph, weights); others > 0 {
			err = fmt.Errorf("%w; kernels read weights as they were stored at compile time: compile the graph with "+
				"these (CompileOptions.Weights, vkc compile --weights)", runtime.Reason(err))
		}
		return nil, err
	}
	switch {
	case !d.tries():
		return &Executable{backend: exe, why: d.why}, nil
	case opt.Guards || opt.NoTrial:
		return &Executable{backend: exe, why: d.caps.Name + ": a program on the device was asked for"}, nil
	case opt.Share != nil:
		return &Executable{backend: exe, why: d.caps.Name + ": " + becauseShared}, nil
	}
	return d.faster(ctx, exe, p.Contents.Graph, weights)
}

// errSharedElsewhere says that an executable to share with is not where a program is to be loaded.
func errSharedElsewhere(d *Device, share *Executable) error {
	return fmt.Errorf("on %s: the executable to share with is on %s", d.Name(), share.Device())
}

// becauseShared is the reason for an executable's device when it shares memory with another executable.
const becauseShared = "the executable that it shares with is there"

func (d *Device) loadOnProcessor(ctx context.Context, p *Program, weights ir.WeightSource,
	share *Executable) (_ *Executable, err error) {
	g, opt, why := p.Contents.Graph, cpu.Options{Context: ctx, Device: &d.host, MemoryLimit: d.hostLimit(),
		Reference: d.IsReference()}, d.why
	fallback := d.fallback
	if share != nil {
		opt.Share, fallback = share.backend, share.fallback
	}
	if d.auto {
		why = processorName + ": " + becauseShared
		if p.refused != nil {
			fallback = &refusedError{d.caps.Name, p.refused}
			why = processorName + ": " + fallback.Error()
		}
		if weights, err = holdWeights(g, weights); err != nil {
			return nil, err
		}
	}
	if g, _, err = ir.FitWeights(g, weights); err != nil {
		return nil, err
	}
	exe, err := cpu.Load(g, weights, opt)
	if err != nil {
		return nil, err
	}
	return &Executable{backend: exe, why: why, fallback: fallback}, nil
}
