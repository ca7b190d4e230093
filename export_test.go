package vkc

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/collective"
	"github.com/vkc-go/vkc/runtime/multi"
	"github.com/vkc-go/vkc/runtime/vk"
)

// WithVulkan opens Vulkan by another function.
func WithVulkan(open func() (*vk.Instance, error)) DeviceOption {
	return func(o *openOptions) { o.open = open }
}

// OpenedByAuto makes a Vulkan device one that "auto" opened, with that limit for the fast path to load for a trial.
func OpenedByAuto(d *Device, trialLoad time.Duration) {
	if v, ok := d.kind.(*vulkan); ok {
		d.kind = &auto{vulkan: v, host: newProcessor(processorName, "", openOptions{}), timeRun: timeRun}
	}
	d.kind.(*auto).trialLoad = trialLoad
}

// SetTimeRun replaces the measurement of trial runs by f, on a device that "auto" opened.
func SetTimeRun(d *Device, f func(ctx context.Context, exe runtime.Executable, in Tensors,
	symbols map[string]int64) (time.Duration, error)) {
	d.kind.(*auto).timeRun = f
}

// SetCaps has programs compiled for a device as if those were its caps.
func SetCaps(d *Device, caps device.Caps) { d.kind.id().caps = caps }

// TrialExtents are the values of symbols that programs are tried at.
var TrialExtents = trialExtents

// HoldStarts has runs that are started wait until the function that it returns is called.
func (e *Executable) HoldStarts(ctx context.Context) (release func(), err error) {
	x, err := e.starts.enter(ctx, 0)
	if err != nil {
		return nil, err
	}
	return func() {
		e.starts.next()
		e.starts.leave()
	}, e.starts.wait(ctx, x)
}

// Transports make devices that share each op exchange values by one transport, by name.
var Transports = map[string]func(*Device){
	"shared":  func(d *Device) { use(d, collective.Shared) },
	"relayed": func(d *Device) { use(d, collective.Relayed) },
	"staged":  func(d *Device) { use(d, collective.Staged) },
	"copied": func(d *Device) {
		if d.Parts()[0].Caps().Type == device.DeviceCPU {
			CopyByHost(d, func(n int) (bool, error) { return n%2 == 1, nil })
		} else {
			CopyByCUDA(d)
		}
	},
}

func group(d *Device) *collective.Group { return d.kind.(*tensorParallel).group }

func use(d *Device, t collective.Transport) { group(d).List = []collective.Choice{{Transport: t}} }

// CopyByCUDA makes devices that share each op exchange values by copies of CUDA.
func CopyByCUDA(d *Device) { use(d, collective.Copied) }

// CopyByHost makes devices that share each op exchange values by copies of the processor. A copy is complete when done
// says so; its argument counts the calls.
func CopyByHost(d *Device, done func(n int) (bool, error)) {
	use(d, collective.Copied)
	group(d).OpenCopier = func(devices []*vk.Device) (collective.Copier, error) {
		return hostCopier{devices, done}, nil
	}
}

// LackCopies makes devices that share each op probe copies by CUDA, which does not know them.
func LackCopies(d *Device) {
	group(d).List = []collective.Choice{{Transport: collective.Copied, Unprobed: true}, {Transport: collective.Staged}}
}

// Under is how many runs are on their way, by device.
func Under(r *Replicas) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.under)
}

// Pipeline returns the pipeline of a program on several devices.
func Pipeline(e *Executable) *multi.Pipeline { return e.program().(*multi.Pipeline) }

// LimitRuns sets the time limit of runs of devices that share each op.
func LimitRuns(d *Device, limit time.Duration) { group(d).Limit = limit }

// LimitProbes sets the time limit of probes of transports.
func LimitProbes(d *Device, limit time.Duration) { group(d).ProbeLimit = limit }

// ProbeRelayed makes tensor-parallel devices probe, within a time limit, whether the host can relay the flags that
// kernels wait for.
func ProbeRelayed(ctx context.Context, d *Device, limit time.Duration) error {
	machine := device.MachineOf(d.Caps())
	group(d).List = []collective.Choice{{Transport: collective.Relayed, Link: machine.Relayed, Unprobed: true},
		{Transport: collective.Staged, Link: machine.Staged}}
	if err := errors.Join(group(d).Lock(ctx), group(d).Probe(ctx, collective.Relayed, limit)); err != nil {
		return err
	}
	group(d).Unlock()
	return errors.Join(group(d).Failed...)
}

// hostCopier copies by the processor between devices with memory that it reaches.
type hostCopier struct {
	devices []*vk.Device
	done    func(int) (bool, error)
}

func (c hostCopier) Close() error { return nil }

func (c hostCopier) NewBuffers(words, _ int) (collective.Buffers, error) {
	p := &hostBuffers{done: c.done}
	for _, d := range c.devices {
		b, err := d.NewInbox(words)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.list = append(p.list, b)
	}
	return p, nil
}

// hostBuffers copies as late as it may.
type hostBuffers struct {
	list   []*vk.Buffer
	done   func(int) (bool, error)
	asked  int
	copies [][3]int // source, offset, number of words
}

func (p *hostBuffers) Address(rank int) uint64 { return p.list[rank].Address() }

func (p *hostBuffers) Copy(from, at, words int) error {
	p.copies = append(p.copies, [3]int{from, at, words})
	return nil
}

func (p *hostBuffers) Done() (bool, error) {
	done, err := p.done(p.asked)
	if p.asked++; !done || err != nil {
		return false, err
	}
	for _, c := range p.copies {
		for to, b := range p.list {
			if to != c[0] {
				copy(b.Words()[c[1]:][:c[2]], p.list[c[0]].Words()[c[1]:])
			}
		}
	}
	p.copies = nil
	return true, nil
}

func (p *hostBuffers) Close() error {
	var errs []error
	for _, b := range p.list {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// LosePart has the last of several devices leave out its part of a program.
func LosePart(e *Executable) {
	parts := parts(e)
	parts[len(parts)-1] = lost{parts[len(parts)-1]}
}

func parts(e *Executable) []runtime.Executable {
	return e.program().(interface{ Parts() []runtime.Executable }).Parts()
}

type lost struct{ runtime.Executable }

func (lost) Run(context.Context, Tensors, ...RunOptions) (*Result, error) { return &Result{}, nil }

// ClosePart closes the part of a program on the last device, to simulate a lost device.
func ClosePart(e *Executable) error {
	parts := parts(e)
	return parts[len(parts)-1].Close()
}
