package vkc

import (
	"context"
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/multi"
)

// pipeline is several devices that run consecutive parts of a program. queues orders the runs of all programs on them.
type pipeline struct {
	combined
	queues multi.Queues
}

// Together combines the devices into one that runs each program on all of them. It cuts a program into consecutive
// parts, such as groups of a model's layers, one per device, sized by the device's speed and memory. So a model may be
// larger than any one device. [Executable.Why] says which part is where. Values between parts pass through host memory.
//
// While a run is on one device, the previous run is on the next. Several runs in progress keep all devices busy: use
// [Executable.Start], RunBatch, Run with all outputs kept, or several goroutines. A single run takes as long as all
// parts together. A program with neither weights nor states runs on the last device. Each device executes the runs of
// all programs in the same order. If a run that keeps all outputs fails because an op of it fails, reading its outputs
// returns the error. If they are not read, the next run returns it.
//
// Results are the graph's results. If a cut separates ops that one device would fuse, sums may be in a different order.
// An executable of several parts has no profile. Its [Executable.Vulkan] is nil, and so is [Device.Backend].
// [Device.Caps] are the first device's caps with another name. Close closes the devices.
func (d Devices) Together() (*Device, error) {
	switch len(d) {
	case 0:
		return nil, errors.New("devices together: there are none: OpenDevices opens some, unless it returns an error")
	case 1:
		return d[0], nil
	}
	s, err := newCombined(d, "each has some of a program's layers")
	if err != nil {
		return nil, err
	}
	return &Device{kind: &pipeline{combined: s}}, nil
}

func (d *pipeline) backend() any { return nil }

// compile cuts the graph into consecutive parts and compiles each for its device.
func (d *pipeline) compile(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	return d.compileParts(ctx, g, opt, func(g *ir.Graph) (multi.Split, error) {
		var other multi.Layers
		if opt.ShareWith != nil {
			other, _ = opt.ShareWith.split.(multi.Layers)
		}
		return multi.SplitLayers(g, d.members.describe(), other)
	})
}

// load loads each part of the program on its device. It returns an error if the program was compiled for other devices,
// or if opt.Share is an executable elsewhere.
func (d *pipeline) load(ctx context.Context, p *Program, opt LoadOptions) (*Executable, error) {
	layers, ok := p.split.(multi.Layers)
	if !ok || layers[len(layers)-1].Device >= len(d.members) {
		return nil, d.errOtherDevices()
	}
	other, ok := opt.Share.program().(*multi.Pipeline)
	if opt.Share != nil && (!ok || other.Queues() != &d.queues) {
		return nil, errSharedElsewhere(&d.identity, opt.Share)
	}
	exes, names, err := d.loadParts(ctx, p, opt, func(device int) *Executable {
		if part := other.On(device); part != nil {
			return &Executable{backend: part}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	x, err := multi.NewPipeline(p.Contents.Graph, layers, &d.queues, names, programs(exes))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("on %s: %w", d.caps.Name, err), runtime.Each(exes, (*Executable).Close))
	}
	if len(exes) == 1 {
		return &Executable{backend: x, why: exes[0].why}, nil
	}
	return &Executable{backend: x, why: x.Describe()}, nil
}
