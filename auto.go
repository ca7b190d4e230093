package vkc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/cpu"
	"github.com/vkc-go/vkc/runtime/vk"
)

// auto is a Vulkan device together with the CPU fast path. The fast path runs programs that the device cannot compile
// or load. If the device is implemented in software, auto measures each program on both and keeps the faster one.
type auto struct {
	*vulkan
	host *processor

	trialLoad time.Duration // time limit of loading a program on the fast path for a trial
	timeRun   func(context.Context, runtime.Executable, Tensors, map[string]int64) (time.Duration, error)
}

// openAuto opens the best Vulkan device, or else the CPU fast path.
func openAuto(want string, options openOptions) kind {
	host := newProcessor(processorName, noVulkan, options)
	v, err := openVulkan(want, options)
	if err != nil {
		host.fallback = fmt.Errorf("%s: %w", noVulkan, err)
		return host
	}
	a := &auto{vulkan: v, host: host, trialLoad: trialLoad, timeRun: timeRun}
	if a.tries() {
		a.why += ", in software: each program runs there or on the " + processorName + ", where it is faster"
	}
	return a
}

// noVulkan is the reason given when "auto" opens the CPU fast path because no Vulkan device opens.
const noVulkan = "no Vulkan device can be used"

// tries reports whether load measures each program on both the device and the CPU fast path.
func (a *auto) tries() bool { return a.caps.Type == device.DeviceCPU }

func (a *auto) compile(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	p, err := a.vulkan.compile(ctx, g, opt)
	if standsIn(ctx, g, opt.Weights, err) {
		return interpreted(g, err), nil
	}
	return p, err
}

func (a *auto) load(ctx context.Context, p *Program, opt LoadOptions) (*Executable, error) {
	onDevice := opt.Share.Vulkan() != nil
	switch {
	case p.refused != nil && opt.Share != nil && (onDevice || !opt.Share.loaded()):
		return nil, fmt.Errorf("on %s, next to an executable to share with: %w", a.caps.Name, p.refused)
	case p.refused != nil || opt.Share.loaded() && !onDevice:
		return a.loadOnHost(ctx, p.Contents.Graph, p.refused, opt)
	}
	exe, err := a.vulkan.load(ctx, p, opt)
	switch {
	case p.Contents.Program != nil && opt.Share == nil && !opt.Guards &&
		standsIn(ctx, p.Contents.Graph, opt.Weights, err):
		own, failed := a.loadOnHost(ctx, p.Contents.Graph, err, opt)
		if failed != nil {
			return nil, fmt.Errorf("%w; nor does the %s load it: %w", runtime.Reason(err), processorName,
				runtime.Reason(failed))
		}
		return own, nil
	case err != nil || !a.tries():
		return exe, err
	case opt.Guards || opt.NoTrial:
		exe.why = a.caps.Name + ": a program on the device was asked for"
		return exe, nil
	case opt.Share != nil:
		exe.why = a.caps.Name + ": " + becauseShared
		return exe, nil
	}
	return a.faster(ctx, exe.Vulkan(), p.Contents.Graph, opt.Weights)
}

// becauseShared is the reason for an executable's device when it shares memory with another executable.
const becauseShared = "the executable that it shares with is there"

// loadOnHost loads a graph on the CPU fast path. refused is the reason that the device does not run the graph. It is
// nil if the program is loaded there only because opt.Share is there.
func (a *auto) loadOnHost(ctx context.Context, g *ir.Graph, refused error, opt LoadOptions) (_ *Executable, err error) {
	if opt.Weights, err = holdWeights(g, opt.Weights); err != nil {
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

func (a *auto) traffic() Traffic { return a.vulkan.traffic().Add(a.host.traffic()) }

func (a *auto) memory() runtime.MemoryUse { return a.vulkan.memory().Add(a.host.memory()) }

func (a *auto) close() error { return errors.Join(a.host.close(), a.vulkan.close()) }

// A software device and the CPU fast path run on the same cores. The device has faster kernels but pays for each
// launch, so the faster one depends on the graph. "auto" measures both within these limits:
const (
	trialRuns = 8 // at most, at each extent
	// No run starts after this time. All runs of the fast path together must end within the time that the device's
	// runs took, or within this time if that is longer.
	trialTime   = 100 * time.Millisecond
	trialExtent = 64          // value of symbols, or their bound if that is smaller
	trialLoad   = time.Second // time of loading on the fast path, which computes nodes that depend only on weights
	trialElems  = 32 << 20    // elements of weights, states and inputs: both devices hold them during the trial
)

// timeRun measures the duration of one run.
func timeRun(ctx context.Context, exe runtime.Executable, in Tensors,
	symbols map[string]int64) (time.Duration, error) {
	start := time.Now()
	_, err := exe.Run(ctx, in, RunOptions{Symbols: symbols})
	return time.Since(start), err
}

// faster also loads the program on the CPU fast path, measures both executables, returns the faster one and closes the
// other. software is the executable on the Vulkan software device.
func (a *auto) faster(ctx context.Context, software *vk.Executable, g *ir.Graph,
	weights ir.WeightSource) (*Executable, error) {
	reference, why, err := a.try(ctx, software, g, weights)
	if err != nil {
		err = fmt.Errorf("choose between %s and the %s: %w", a.caps.Name, processorName, runtime.Reason(err))
		return nil, errors.Join(err, software.Close())
	}
	if reference == nil {
		return &Executable{backend: software, why: a.caps.Name + ": " + why}, nil
	}
	if err := software.Close(); err != nil {
		return nil, errors.Join(err, reference.Close())
	}
	return &Executable{backend: reference, why: processorName + ": " + why}, nil
}

// try measures a program on the software device and on the CPU fast path, with all symbols at 1 and again at
// trialExtent. It returns the program on the fast path if that is faster at 1 and also by the geometric mean of both
// measurements, and nil otherwise. why lists the measured times. try resets the states afterwards.
func (a *auto) try(ctx context.Context, software *vk.Executable, g *ir.Graph,
	weights ir.WeightSource) (_ runtime.Executable, why string, err error) {
	extents, why := trialExtents(g, software.Symbols())
	if why != "" {
		return nil, why, nil
	}
	reference, err := a.loadForTrial(ctx, g, weights)
	if err != nil {
		return nil, fmt.Sprintf("the %s does not load the graph: %v", processorName, err), ctx.Err()
	}
	gain := 1.0
	var lost, won []string
	for _, symbols := range extents {
		device, own, err := a.race(ctx, software, reference, symbols)
		at := ""
		for _, s := range software.Symbols() {
			at += fmt.Sprintf(", %s=%d", s.Name, symbols[s.Name])
		}
		at = strings.Replace(at, ", ", " at ", 1)
		took := fmt.Sprintf("takes %v", runtime.Brief(own))
		switch {
		case ctx.Err() != nil || device == 0:
			return nil, "", errors.Join(cmp.Or(err, ctx.Err()), reference.Close())
		case own > 0:
			gain *= float64(device) / float64(own)
		case errors.Is(err, context.DeadlineExceeded):
			gain, took = 0, "takes longer"
		default:
			gain, took = 0, fmt.Sprintf("fails: %v", err)
		}
		lost = append(lost, fmt.Sprintf("%v a run%s, the %s %s", runtime.Brief(device), at, processorName, took))
		won = append(won, fmt.Sprintf("%v a run%s, %s takes %v", runtime.Brief(own), at, a.caps.Name,
			runtime.Brief(device)))
		if gain <= 1 {
			return nil, strings.Join(lost, "; "), errors.Join(software.ResetStates(), reference.Close())
		}
	}
	return reference, strings.Join(won, "; "), reference.ResetStates()
}

// race measures one run on each executable, with inputs of zeros. A time is 0 if no run succeeded; the error then gives
// the reason.
func (a *auto) race(ctx context.Context, software, reference runtime.Executable,
	symbols map[string]int64) (device, own time.Duration, err error) {
	in := Tensors{}
	for _, p := range software.Inputs() {
		dims, err := p.Type.Shape.Eval(symbols)
		if err != nil {
			return 0, 0, err
		}
		if in[p.Name], err = ir.NewData(p.Type.DType, dims...); err != nil {
			return 0, 0, err
		}
	}
	device, spent, err := a.timeRuns(ctx, software, in, symbols)
	if err != nil {
		return 0, 0, err
	}
	limited, stop := context.WithTimeout(ctx, max(spent, trialTime))
	defer stop()
	own, _, err = a.timeRuns(limited, reference, in, symbols)
	return device, own, err
}

// timeRuns runs a program a few times and returns the fastest run's time (best) and the sum of all times (spent). After
// an error it returns the measurements so far.
func (a *auto) timeRuns(ctx context.Context, exe runtime.Executable, in Tensors,
	symbols map[string]int64) (best, spent time.Duration, err error) {
	for i := 0; i < trialRuns && spent < trialTime; i++ {
		t, err := a.timeRun(ctx, exe, in, symbols)
		if err != nil {
			return best, spent, err
		}
		t = max(t, 1) // the clock may be coarse
		if i == 0 || t < best {
			best = t
		}
		spent += t
	}
	return best, spent, nil
}

// trialExtents lists up to two assignments of values to symbols to measure at, small and larger. A device pays for each
// launch however small the work is, so the fast path may be faster at extent 1 and slower at larger ones. If the fast
// path should not be tried at all, trialExtents returns the reason in why.
func trialExtents(g *ir.Graph, symbols []runtime.Symbol) (list []map[string]int64, why string) {
	if compiler.IsCustom(g) {
		return nil, "the graph has custom ops, whose Go code is for checks"
	}
	for _, most := range []int64{1, trialExtent} {
		values := map[string]int64{}
		for _, s := range symbols {
			values[s.Name] = min(most, s.Bound)
		}
		if len(list) == 0 || !maps.Equal(list[0], values) {
			list = append(list, values)
		}
	}
	list = slices.DeleteFunc(list, func(values map[string]int64) bool {
		return slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool {
			_, err := n.Shape().Eval(values)
			return err != nil
		})
	})
	if len(list) == 0 {
		return nil, "the graph has no small extents to try the " + processorName + " at"
	}
	var elems int64
	for _, op := range []ir.Op{ir.OpWeight, ir.OpState, ir.OpInput} {
		for _, n := range g.Leaves(op) {
			dims, _ := n.Shape().Eval(list[len(list)-1]) // it was evaluated above
			size := int64(1)
			for _, d := range dims {
				size *= int64(d)
			}
			elems += size
		}
	}
	if elems > trialElems {
		return nil, fmt.Sprintf("the %s is not tried with more than %d million elements of weights, states and "+
			"inputs, and there are %d",
			processorName, trialElems>>20, elems>>20)
	}
	return list, ""
}

func (a *auto) loadForTrial(ctx context.Context, g *ir.Graph, weights ir.WeightSource) (runtime.Executable, error) {
	limited, stop := context.WithTimeout(ctx, a.trialLoad)
	defer stop()
	held, err := holdWeights(g, weights)
	if err != nil {
		return nil, err
	}
	return a.host.interpret(limited, g, held, cpu.Options{})
}

// holdWeights copies a graph's weights. The CPU fast path reads weights during runs, but the caller of a Vulkan device
// may close the weights file after Load returns.
func holdWeights(g *ir.Graph, weights ir.WeightSource) (ir.WeightSource, error) {
	if weights == nil {
		return nil, nil
	}
	held := WeightMap{}
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
		held[n.Name()] = &copied
	}
	return held, nil
}
