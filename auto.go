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

	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/cpu"
	"github.com/vkc-go/vkc/runtime/vk"
)

// A software device and the CPU fast path use the same cores. Which is faster depends on the graph: a device's faster
// kernels compete with its cost per launch. So "auto" measures both, within a small budget.
const (
	trialRuns = 8
	// no more runs start after this time; the fast path has as long as the device had, or this
	trialTime   = 100 * time.Millisecond
	trialExtent = 64       // of symbols, or their bound if that is smaller
	trialElems  = 32 << 20 // of weights, states and inputs, because both sides hold them during the trial
)

// trialLoad limits the time of the fast path to compute nodes that depend only on weights. Tests replace it.
var trialLoad = time.Second

// timeRun measures the duration of one run. Tests replace it.
var timeRun = func(ctx context.Context, exe runtime.Executable, in Tensors,
	symbols map[string]int64) (time.Duration, error) {
	start := time.Now()
	_, err := exe.Run(ctx, in, RunOptions{Symbols: symbols})
	return time.Since(start), err
}

// faster loads the program on the CPU reference too, measures both and returns the faster executable. It closes the
// other one. "software" is the executable on the Vulkan software device.
func (d *Device) faster(ctx context.Context, software *vk.Executable, g *ir.Graph,
	weights ir.WeightSource) (*Executable, error) {
	reference, why, err := d.try(ctx, software, g, weights)
	if err != nil {
		err = fmt.Errorf("choose between %s and the %s: %w", d.caps.Name, processorName, runtime.Reason(err))
		return nil, errors.Join(err, software.Close())
	}
	if reference == nil {
		return &Executable{backend: software, why: d.caps.Name + ": " + why}, nil
	}
	if err := software.Close(); err != nil {
		return nil, errors.Join(err, reference.Close())
	}
	return &Executable{backend: reference, why: processorName + ": " + why}, nil
}

// try measures a program on the software device and on the CPU fast path, at the smallest extents and at larger ones.
// It returns the fast path if the time saved at one size exceeds the time lost at the other. The string lists all the
// times. States are reset to zero afterwards.
func (d *Device) try(ctx context.Context, software *vk.Executable, g *ir.Graph,
	weights ir.WeightSource) (_ runtime.Executable, why string, err error) {
	extents, why := trialExtents(g, software.Symbols())
	if why != "" {
		return nil, why, nil
	}
	reference, err := d.loadForTrial(ctx, g, weights)
	if err != nil {
		return nil, fmt.Sprintf("the %s does not load the graph: %v", processorName, err), ctx.Err()
	}
	gain := 1.0
	var lost, won []string
	for _, symbols := range extents {
		device, own, err := race(ctx, software, reference, symbols)
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
		won = append(won, fmt.Sprintf("%v a run%s, %s takes %v", runtime.Brief(own), at, d.caps.Name,
			runtime.Brief(device)))
		if gain <= 1 {
			return nil, strings.Join(lost, "; "), errors.Join(software.ResetStates(), reference.Close())
		}
	}
	return reference, strings.Join(won, "; "), reference.ResetStates()
}

// race measures a run on both devices. A time is 0 if no run succeeded; the error then gives the reason.
func race(ctx context.Context, software, reference runtime.Executable,
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
	device, spent, err := timeRuns(ctx, software, in, symbols)
	if err != nil {
		return 0, 0, err
	}
	limited, stop := context.WithTimeout(ctx, max(spent, trialTime))
	defer stop()
	own, _, err = timeRuns(limited, reference, in, symbols)
	return device, own, err
}

// timeRuns returns the time of the fastest of a few runs, and the total. After an error it returns the measurements so
// far.
func timeRuns(ctx context.Context, exe runtime.Executable, in Tensors,
	symbols map[string]int64) (best, spent time.Duration, err error) {
	for i := 0; i < trialRuns && spent < trialTime; i++ {
		t, err := timeRun(ctx, exe, in, symbols)
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

// trialExtents lists the values of symbols to measure at, or returns why the fast path is not tried. A device pays for
// each launch however small the work is, so the fast path may be faster at extent 1 and slower at larger ones.
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

func (d *Device) loadForTrial(ctx context.Context, g *ir.Graph, weights ir.WeightSource) (runtime.Executable, error) {
	limited, stop := context.WithTimeout(ctx, trialLoad)
	defer stop()
	held, err := holdWeights(g, weights)
	if err != nil {
		return nil, err
	}
	opt := cpu.Options{Context: limited, Device: &d.host, MemoryLimit: d.hostLimit()}
	return cpu.Load(g, held, opt)
}

// holdWeights copies a graph's weights. The reference reads weights during runs, but the caller of a Vulkan device may
// close the weights file after Load returns.
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
