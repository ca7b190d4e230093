package randomtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/optim"
	"github.com/vkc-go/vkc/internal/gradgen"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/cpu"
)

// TestRandomTraining trains random graphs for a few steps, on one device and on several. Parameters and the optimizer's
// memory are states.
func TestRandomTraining(t *testing.T) {
	training := test{graphs: 40, fewer: 4, graph: trainingGraph, differ: differInTraining}
	training.run(t)
	t.Run("layers", func(t *testing.T) {
		devices, err := vkc.OpenDevices("cpu,cpu")
		if err != nil {
			t.Fatal(err)
		}
		dev, err := devices.Together()
		if err != nil {
			t.Fatal(err)
		}
		vktest.CloseAfter(t, dev)
		test{graph: trainingGraph, differ: unlessTooFewOps(differInTraining)}.runOn(t, dev, 40)
	})
	t.Run("shards", func(t *testing.T) {
		dev, err := vkc.OpenTensorParallel("cpu,cpu")
		if err != nil {
			t.Fatal(err)
		}
		vktest.CloseAfter(t, dev)
		training.graph = func(seed uint64) (*ir.Graph, error) {
			g, err := trainingGraph(seed)
			if err != nil {
				return nil, err
			}
			return cut(g, seed)
		}
		training.runOn(t, dev, 20)
	})
}

// TestTrainingIsCompared: most new values of states in training steps are compared.
func TestTrainingIsCompared(t *testing.T) {
	updates, compared := 0, 0
	for seed := range uint64(60) {
		g, err := trainingGraph(seed)
		if err != nil {
			t.Fatal(err)
		}
		unsure := graphgen.Unsure(g)
		for _, u := range g.Updates() {
			updates++
			if !unsure[u.Value.ID()] {
				compared++
			}
		}
	}
	if updates < 240 || compared < updates/2 {
		t.Errorf("%d of %d new values of states are compared", compared, updates)
	}
}

// trainingGraph returns a training step of a random graph with one of the optimizers.
func trainingGraph(seed uint64) (*ir.Graph, error) {
	opt := graphgen.Options{Large: seed%8 == 7, Straight: seed%2 == 0, FullPrecision: true}
	return gradgen.Train(seed, opt, func(b *frontend.Builder, params, grads []frontend.Tensor) {
		var options []optim.Option
		step := optim.Steps(b, "step")
		if seed%3 == 0 {
			var norm frontend.Tensor
			grads, norm = optim.ClipGlobalNorm(1, grads...)
			b.Output("norm", norm)
		}
		if seed%5 == 0 {
			var due frontend.Tensor
			grads, due = optim.Accumulate(2, params, grads)
			options = append(options, optim.TakeIf(due))
		}
		muon := func(p frontend.Tensor) optim.Rule {
			if s := p.Shape(); len(s) >= 2 && s[len(s)-1].Max() > 1 {
				return optim.NewMuon(0.1)
			}
			return nil
		}
		rules := []optim.Rule{optim.SGD{Rate: 0.1, Momentum: 0.9, WeightDecay: 0.1, Nesterov: seed%2 == 0},
			optim.AdamW{Rate: 0.1, Beta1: 0.9, Beta2: 0.99, Eps: 0.01, WeightDecay: 0.1}}
		if seed%4 == 3 {
			options = append(options, optim.RuleOf(muon))
		}
		optim.Train(rules[seed/2%2], params, grads, step, options...)
	})
}

// trainedShare is roundedShare for results in full precision.
const trainedShare = 0x1p-14

// differInTraining compares steps of training with the reference. Each step of the reference begins with the device's
// states, so that errors do not add up. A second reference begins with states and inputs that are changed by a few
// roundings, and so shows how far apart results can be. Values that depend on a jump of inexact values are left out.
func differInTraining(dev *vkc.Device, g *ir.Graph, seed uint64) (ran int, err error) {
	ctx := context.Background()
	values := graphgen.Values{Seed: seed, Graph: g}
	exe, err := dev.LoadGraph(ctx, g, values)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	var references [2]runtime.Executable
	for i := range references {
		if references[i], err = cpu.Load(g, values, cpu.Options{Reference: true, Workers: 1}); err != nil {
			return 0, err
		}
		defer references[i].Close()
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	unsure := graphgen.Unsure(g)
	for i, symbols := range trainingRuns(values) {
		in, err := values.Inputs(symbols, i)
		if err != nil {
			return ran, err
		}
		for _, s := range g.Leaves(ir.OpState) {
			have, err := exe.ReadState(s.Name())
			if err != nil {
				return ran, err
			}
			for j, d := range []*ir.Data{have, changed(have, rng)} {
				if err := references[j].WriteState(s.Name(), d); err != nil {
					return ran, err
				}
			}
		}
		var results [2]*runtime.Result
		for j, inputs := range []map[string]*ir.Data{in, allChanged(in, rng)} {
			if results[j], err = references[j].Run(ctx, inputs, runtime.RunOptions{Symbols: symbols}); err != nil {
				break
			}
		}
		if refusesRun(err) {
			continue
		}
		if err != nil {
			return ran, err
		}
		r, err := exe.Run(ctx, in, runtime.RunOptions{Symbols: symbols})
		if err != nil {
			return ran, err
		}
		for _, o := range g.Outputs() {
			if unsure[o.Node.ID()] {
				continue
			}
			err := nearRounded(r.Outputs[o.Name], results[0].Outputs[o.Name], results[1].Outputs[o.Name], 1e-6,
				trainedShare)
			if err != nil {
				return ran, fmt.Errorf("step %d with %v: output %q, %w", i, symbols, o.Name, err)
			}
		}
		for _, u := range g.Updates() {
			if unsure[u.Value.ID()] {
				continue
			}
			var list [3]*ir.Data
			for j, e := range []interface {
				ReadState(name string) (*ir.Data, error)
			}{exe, references[0], references[1]} {
				if list[j], err = e.ReadState(u.State.Name()); err != nil {
					return ran, err
				}
			}
			if err := nearRounded(list[0], list[1], list[2], 1e-6, trainedShare); err != nil {
				return ran, fmt.Errorf("step %d with %v: state %q, %w", i, symbols, u.State.Name(), err)
			}
		}
		ran++
	}
	return ran, nil
}

// trainingRuns returns symbol values for each step: at least four steps.
func trainingRuns(values graphgen.Values) (list []map[string]int64) {
	choices := values.Symbols(4)
	for i := range 4 {
		list = append(list, choices[i%len(choices)])
	}
	return list
}

// allChanged is changed for all inputs.
func allChanged(in map[string]*ir.Data, rng *rand.Rand) map[string]*ir.Data {
	out := map[string]*ir.Data{}
	for name, d := range in {
		out[name] = changed(d, rng)
	}
	return out
}

// changed returns a tensor with floats that differ by up to 4 epsilons of their dtype. Others stay.
func changed(d *ir.Data, rng *rand.Rand) *ir.Data {
	if !d.DType.IsFloat() || d.DType.IsBlock() {
		return d
	}
	list, err := d.Floats()
	if err != nil {
		panic(err)
	}
	epsilon := math.Ldexp(1, -d.DType.Float().Mantissa)
	for i, x := range list {
		list[i] = x + float64(x*epsilon*8*(rng.Float64()-0.5))
	}
	out, err := ir.FromFloats(d.DType, list, d.Dims...)
	if err != nil {
		panic(err)
	}
	return out
}
