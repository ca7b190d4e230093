package vkc

import (
	"context"
	"fmt"
	"math"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/cpu"
	"github.com/vkc-go/vkc/runtime/trial"
)

// processor is the CPU fast path, or the CPU reference if its name is referenceName.
type processor struct {
	identity
	singleDevice
	host  cpu.Device // shared by its programs
	limit int64      // limit of the bytes of a run's values; 0: none
}

func newProcessor(name, why string, options openOptions) *processor {
	return &processor{identity: identity{caps: device.Caps{Name: name, Type: device.DeviceCPU}, why: name + ": " + why},
		limit: int64(min(options.MemoryLimit, math.MaxInt64))}
}

// compile checks the weights and returns a program for the interpreter, which needs no compilation.
func (d *processor) compile(_ context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	if _, _, err := compiler.FitWeights(g, opt.Weights); err != nil {
		return nil, err
	}
	return interpreted(g, nil), nil
}

// interpreted returns a program for the CPU fast path, which interprets the graph. refused is the reason that the
// Vulkan device does not run the graph. It is nil if no such device was tried.
func interpreted(g *ir.Graph, refused error) *Program {
	p := &Program{refused: refused}
	p.Contents.Graph = g
	return p
}

// load prepares the program's graph for the CPU: it fits the weights to the graph, and shares the memory of opt.Share
// if that is set.
func (d *processor) load(ctx context.Context, p *Program, opt LoadOptions) (*Executable, error) {
	switch {
	case opt.Share != nil && (!opt.Share.loaded() || opt.Share.Vulkan() != nil):
		return nil, errSharedElsewhere(&d.identity, opt.Share)
	case opt.WeightRoom > 0:
		return nil, fmt.Errorf("on %s: LoadOptions.WeightRoom is for devices with memory of their own", d.caps.Name)
	}
	exe := &Executable{why: d.why, fallback: d.fallback}
	var options cpu.Options
	if opt.Share != nil {
		options.Share, exe.fallback = opt.Share.backend, opt.Share.fallback
		if t, ok := options.Share.(*trial.Executable); ok {
			var err error
			const why = "there is no GPU, and programs that share memory are not tried"
			if options.Share, err = t.Stay(ctx, why); err != nil {
				return nil, err
			}
		}
	}
	g, _, err := ir.FitWeights(p.Contents.Graph, opt.Weights)
	if err == nil {
		options.Context, options.Device, options.MemoryLimit = ctx, &d.host, d.limit
		options.Reference = d.caps.Name == referenceName
		exe.backend, err = cpu.Load(g, opt.Weights, options)
	}
	if err != nil {
		return nil, err
	}
	return exe, nil
}

func (d *processor) backend() any { return &d.host }

func (d *processor) hardware() []hardware { return []hardware{d} }

func (d *processor) traffic() Traffic { return d.host.Traffic() }

func (d *processor) memory() runtime.MemoryUse { return d.host.Memory() }

// synchronize does nothing: runs on the processor have finished when they return.
func (d *processor) synchronize(context.Context) error { return nil }

func (d *processor) close() error { return d.host.Close() }
