package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

// conversation is a set of states, and the reference that follows its runs.
type conversation struct {
	states    runtime.States // nil for the program's own states
	reference *interp.Program
}

// differInFlight starts runs one after the other, waits for all of them, and then compares their outputs and the last
// states with the reference. The runs have different inputs and symbols. If the graph has states, every third run has
// states of its own.
func differInFlight(dev *vkc.Device, target device.Caps, g *ir.Graph, seed uint64) (ran int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic, %v\n%s", p, debug.Stack())
		}
	}()
	ctx := context.Background()
	values := valuesOf(g, seed)
	p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: target, Weights: values, Tuning: device.Tuning{}})
	if err != nil {
		return 0, err
	}
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: values})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	talks := make([]conversation, 1)
	if len(g.Leaves(ir.OpState)) > 0 {
		own, err := exe.NewStates()
		if err != nil {
			return 0, err
		}
		defer own.Close()
		talks = append(talks, conversation{states: own})
	}
	for i := range talks {
		if talks[i].reference, err = interp.New(g, interp.Options{Weights: values}); err != nil {
			return 0, err
		}
	}
	type started struct {
		symbols map[string]int64
		want    map[string]*ir.Data
		pending *vkc.Pending
	}
	var runs []started
	symbols := values.Symbols(6)
	for i := range 9 {
		s, talk := symbols[i%len(symbols)], talks[i%3/2%len(talks)]
		in, err := values.Inputs(s, i)
		if err != nil {
			return 0, err
		}
		want, err := talk.reference.Run(ctx, in, s)
		if err != nil {
			continue // an axis to pick from is empty under these values
		}
		runs = append(runs, started{s, want, exe.Start(ctx, in, runtime.RunOptions{Symbols: s, States: talk.states})})
	}
	bounds := graphgen.Bounds(g)
	for i, r := range runs {
		res, err := r.pending.Wait()
		if err != nil {
			return ran, err
		}
		for _, o := range g.Outputs() {
			tol := bounds[o.Node.ID()].Tolerance(o.Node)
			if err := interp.Compare(res.Outputs[o.Name], r.want[o.Name], tol).Err(); err != nil {
				return ran, fmt.Errorf("run %d with %v: output %q, %w", i, r.symbols, o.Name, err)
			}
		}
		ran++
	}
	for _, talk := range talks {
		read := exe.ReadState
		if talk.states != nil {
			read = talk.states.Read
		}
		if err := compareStates(g, bounds, read, talk.reference); err != nil {
			return ran, fmt.Errorf("after %d runs: %w", ran, err)
		}
	}
	return ran, nil
}

// compareStates compares all states of a program with the reference.
func compareStates(g *ir.Graph, bounds []graphgen.Bound, read func(name string) (*ir.Data, error),
	reference *interp.Program) error {
	for _, s := range g.Leaves(ir.OpState) {
		have, err := read(s.Name())
		if err != nil {
			return err
		}
		want, err := reference.State(s.Name())
		if err != nil {
			return err
		}
		if err := interp.Compare(have, want, bounds[s.ID()].Tolerance(s)).Err(); err != nil {
			return fmt.Errorf("state %q, %s", s.Name(), err)
		}
	}
	return nil
}

// differInBundle saves a program with its weights and opens it again. It compares runs on the device and on the CPU
// with the reference.
func differInBundle(dev *vkc.Device, target device.Caps, g *ir.Graph, seed uint64) (ran int, err error) {
	ctx := context.Background()
	values := valuesOf(g, seed)
	p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: target, Weights: values, Tuning: device.Tuning{}})
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "vkc-random-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "random.vkb")
	if err := p.Save(path, values); err != nil {
		return 0, err
	}
	cpu, err := vkc.OpenDevice("cpu")
	if err != nil {
		return 0, err
	}
	defer cpu.Close()
	for _, on := range []*vkc.Device{dev, cpu} {
		n, err := differSaved(ctx, on, path, g, values)
		if err != nil {
			return ran, fmt.Errorf("%s: %w", on.Name(), err)
		}
		ran += n
	}
	return ran, nil
}

// differSaved compares runs of a bundle on a device with the reference on the graph.
func differSaved(ctx context.Context, dev *vkc.Device, path string, g *ir.Graph,
	values graphgen.Values) (ran int, err error) {
	p, err := vkc.OpenBundle(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	reference, err := interp.New(g, interp.Options{Weights: values})
	if err != nil {
		return 0, err
	}
	for i, symbols := range runsOf(g, values) {
		in, err := values.Inputs(symbols, i)
		if err != nil {
			return ran, err
		}
		want, err := reference.Run(ctx, in, symbols)
		if err != nil {
			continue // an axis to pick from is empty under these values
		}
		r, err := exe.Run(ctx, in, runtime.RunOptions{Symbols: symbols})
		if err != nil {
			return ran, err
		}
		if err := compareAll(g, exe, reference, r.Outputs, want); err != nil {
			return ran, fmt.Errorf("run %d with %v: %w", i, symbols, err)
		}
		ran++
	}
	return ran, nil
}
