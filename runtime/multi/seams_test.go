package multi_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/collective"
	"github.com/vkc-go/vkc/runtime/multi"
	"github.com/vkc-go/vkc/runtime/vk"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// transports make devices that share each op exchange values by one transport, by name.
var transports = map[string]func(*vkc.Device){
	"shared":  func(d *vkc.Device) { use(d, collective.Shared) },
	"relayed": func(d *vkc.Device) { use(d, collective.Relayed) },
	"staged":  func(d *vkc.Device) { use(d, collective.Staged) },
	"copied": func(d *vkc.Device) {
		if d.Parts()[0].Caps().Type == device.DeviceCPU {
			copyByHost(d, func(n int) (bool, error) { return n%2 == 1, nil })
		} else {
			copyByCUDA(d)
		}
	},
}

// group returns the process group of devices that share each op.
func group(d *vkc.Device) *collective.Group { return d.Backend().(*collective.Group) }

func use(d *vkc.Device, t collective.Transport) { group(d).List = []collective.Choice{{Transport: t}} }

// copyByCUDA makes devices that share each op exchange values by copies of CUDA.
func copyByCUDA(d *vkc.Device) { use(d, collective.Copied) }

// copyByHost makes devices that share each op exchange values by copies of the processor. A copy is complete when done
// says so; its argument counts the calls.
func copyByHost(d *vkc.Device, done func(n int) (bool, error)) {
	use(d, collective.Copied)
	group(d).OpenCopier = func(devices []*vk.Device) (collective.Copier, error) {
		return hostCopier{devices, done}, nil
	}
}

// lackCopies makes devices that share each op probe copies by CUDA, which does not know them.
func lackCopies(d *vkc.Device) {
	group(d).List = []collective.Choice{{Transport: collective.Copied, Unprobed: true}, {Transport: collective.Staged}}
}

// pipeline returns the pipeline of a program on several devices.
func pipeline(e *vkc.Executable) *multi.Pipeline { return e.Backend().(*multi.Pipeline) }

// probeRelayed makes tensor-parallel devices probe, within a time limit, whether the host can relay the flags that
// kernels wait for.
func probeRelayed(ctx context.Context, d *vkc.Device, limit time.Duration) error {
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

// losePart has the last of several devices leave out its part of a program.
func losePart(e *vkc.Executable) {
	parts := parts(e)
	parts[len(parts)-1] = lost{parts[len(parts)-1]}
}

func parts(e *vkc.Executable) []runtime.Executable {
	return e.Backend().(interface{ Parts() []runtime.Executable }).Parts()
}

type lost struct{ runtime.Executable }

func (lost) Run(context.Context, vkc.Tensors, ...vkc.RunOptions) (*vkc.Result, error) {
	return &vkc.Result{}, nil
}

// closePart closes the part of a program on the last device, to simulate a lost device.
func closePart(e *vkc.Executable) error {
	parts := parts(e)
	return parts[len(parts)-1].Close()
}
