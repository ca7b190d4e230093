package vkc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// auto is a GPU together with the CPU fast path, which runs the programs that the GPU cannot compile or load.
type auto struct {
	*vulkan
	host *processor
}

// openAuto opens the device "auto": the best GPU if there is one, or else the CPU fast path. Without a GPU, programs
// also try a Vulkan device in software ([software]). If Vulkan fails to open on a machine that may have a GPU, openAuto
// returns the fast path alone. No other function makes this choice. want is "" or "auto".
func openAuto(want string, options openOptions) kind {
	host := newProcessor(processorName, noVulkan, options)
	onSoftware := func(why string) *software {
		host.why = processorName + ": " + why
		return &software{processor: host, trialTurn: make(chan struct{}, 1), limits: softwareTrial}
	}
	if !options.mayHaveGPU() {
		s := onSoftware("this machine has no GPU")
		s.open = func() (*vulkan, error) { return openVulkan(want, options) }
		return s
	}
	v, err := openVulkan(want, options)
	switch {
	case err != nil:
		host.fallback = fmt.Errorf("%s: %w", noVulkan, err)
		return host
	case v.caps.Type == device.DeviceCPU:
		s := onSoftware("the best Vulkan device, " + v.caps.Name + ", is software")
		s.opened = v
		return s
	}
	return &auto{v, host}
}

// noVulkan is the reason given when "auto" opens the CPU fast path because no Vulkan device opens.
const noVulkan = "no Vulkan device can be used"

// compile compiles a graph for the Vulkan device, or, if that cannot run it, for the CPU fast path.
func (a *auto) compile(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	p, err := a.vulkan.compile(ctx, g, opt)
	if runsOnCPUInstead(ctx, g, opt.Weights, err) {
		return interpreted(g, err), nil
	}
	return p, err
}

// load loads the program on the GPU. It loads the graph on the CPU fast path instead if the GPU could not compile the
// program, cannot load it, or if opt.Share is on the fast path.
func (a *auto) load(ctx context.Context, p *Program, opt LoadOptions) (*Executable, error) {
	sharesOnHost := opt.Share.loaded() && opt.Share.Vulkan() == nil
	switch {
	case p.refused != nil && opt.Share != nil && !sharesOnHost:
		return nil, fmt.Errorf("on %s, next to an executable to share with: %w", a.caps.Name, p.refused)
	case p.refused != nil || sharesOnHost:
		return a.loadOnHost(ctx, p.Contents.Graph, p.refused, opt)
	}
	exe, err := a.vulkan.load(ctx, p, opt)
	mayMove := p.Contents.Program != nil && opt.Share == nil && !opt.Guards // guards exist only on the device
	if mayMove && runsOnCPUInstead(ctx, p.Contents.Graph, opt.Weights, err) {
		own, failed := a.loadOnHost(ctx, p.Contents.Graph, err, opt)
		if failed != nil {
			return nil, fmt.Errorf("%w; nor does the %s load it: %w", runtime.Reason(err), processorName,
				runtime.Reason(failed))
		}
		return own, nil
	}
	return exe, err
}

// becauseShared is the reason for an executable's device when it shares memory with another executable.
const becauseShared = "the executable that it shares with is there"

// loadOnHost loads a graph on the CPU fast path. refused is the reason that the device does not run the graph. It is
// nil if the device could run it, but opt.Share is an executable on the CPU fast path.
func (a *auto) loadOnHost(ctx context.Context, g *ir.Graph, refused error, opt LoadOptions) (_ *Executable, err error) {
	if opt.Weights, err = copyWeights(g, opt.Weights); err != nil {
		return nil, err
	}
	exe, err := a.host.load(ctx, interpreted(g, refused), opt)
	if err != nil {
		return nil, err
	}
	exe.why = processorName + ": " + becauseShared
	if refused != nil {
		exe.fallback = &refusedError{a.caps.Name, refused}
		exe.why = processorName + ": " + exe.fallback.Error()
	}
	return exe, nil
}

func (a *auto) hardware() []hardware { return []hardware{a.vulkan, a.host} }

func (a *auto) close() error { return errors.Join(a.host.close(), a.vulkan.close()) }

// copyWeights returns copies of a graph's weights. The CPU fast path reads weights during runs, but with "auto" the
// caller may close the weights file after Load returns, as on a Vulkan device.
func copyWeights(g *ir.Graph, weights ir.WeightSource) (ir.WeightSource, error) {
	if weights == nil {
		return nil, nil
	}
	copies := WeightMap{}
	for _, n := range g.Leaves(ir.OpWeight) {
		d, err := weights.Weight(n.Name())
		if err != nil || d == nil {
			continue // the reference reports missing weights
		}
		copied := *d
		if err := hostmem.Check(int64(len(d.Bytes))); err != nil {
			return nil, fmt.Errorf("weight %q: %w", n.Name(), err)
		}
		if err := mmap.Guard(func() error { copied.Bytes = slices.Clone(d.Bytes); return nil }); err != nil {
			return nil, fmt.Errorf("weight %q: %w", n.Name(), err)
		}
		copies[n.Name()] = &copied
	}
	return copies, nil
}
