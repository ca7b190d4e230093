package randomtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

// TestRandomShards runs random graphs on several devices that share each op. Weights and states are cut along random
// axes.
func TestRandomShards(t *testing.T) {
	sharded := test{differ: differ, graph: func(seed uint64) (*ir.Graph, error) {
		g, err := graphgen.New(seed, optionsOf(seed))
		if err != nil {
			return nil, err
		}
		return cut(g, seed)
	}}
	for list, n := range map[string]int{"cpu,cpu": 100, "cpu,cpu,cpu,cpu": 100, "vulkan,vulkan": 6} {
		t.Run(list, func(t *testing.T) {
			if strings.HasPrefix(list, "vulkan") && !vktest.Required() {
				t.Skip("other drivers than the one of VKC_REQUIRE_DEVICE=1 may not let kernels wait for each other")
			}
			dev, err := vkc.OpenTensorParallel(list)
			if err != nil {
				t.Fatal(err)
			}
			vktest.CloseAfter(t, dev)
			sharded.runOn(t, dev, n)
			if list == "cpu,cpu" {
				inFlight := sharded
				inFlight.differ = differInFlight
				inFlight.runOn(t, dev, n)
			}
		})
	}
}

// TestRandomLayers runs random graphs on several devices, one part of the graph after the other.
func TestRandomLayers(t *testing.T) {
	for list, n := range map[string]int{"cpu,cpu,cpu": 100, "vulkan,cpu": 3} {
		t.Run(list, func(t *testing.T) {
			devices, err := vkc.OpenDevices(list)
			if strings.HasPrefix(list, "vulkan") {
				devtest.NeedTools(t)
				vktest.Need(t, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			dev, err := devices.Together()
			if err != nil {
				t.Fatal(err)
			}
			vktest.CloseAfter(t, dev)
			for _, differ := range []comparison{differ, differInFlight} {
				test{differ: unlessTooFewOps(differ), graph: func(seed uint64) (*ir.Graph, error) {
					return graphgen.New(seed, optionsOf(seed))
				}}.runOn(t, dev, n)
			}
		})
	}
}

// optionsOf returns the options of a graph for several devices.
func optionsOf(seed uint64) graphgen.Options {
	opt := graphgen.Options{Derived: seed%8 == 3, Large: seed%8 == 6}
	if seed%4 == 1 {
		opt.Custom = customOps
	}
	return opt
}

// talk is a set of states, and the reference that follows its runs.
type talk struct {
	states    runtime.States // nil for the program's own states
	reference *interp.Program
}

// differInFlight starts runs before earlier ones are over. Some of them have states of their own. After half of the
// runs it writes the states to what they are, and at the end it resets them.
func differInFlight(dev *vkc.Device, g *ir.Graph, seed uint64) (ran int, err error) {
	ctx := context.Background()
	values := graphgen.Values{Seed: seed, Graph: g}
	exe, err := dev.LoadGraph(ctx, g, values)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	talks := make([]talk, 1)
	if len(g.Leaves(ir.OpState)) > 0 {
		own, err := exe.NewStates()
		if err != nil {
			return 0, err
		}
		defer own.Close()
		talks = append(talks, talk{states: own})
	}
	for i := range talks {
		if talks[i].reference, err = interp.New(g, interp.Options{Weights: values}); err != nil {
			return 0, err
		}
	}
	bounds, symbols := graphgen.Bounds(g), values.Symbols(5)
	for half := range 2 {
		type started struct {
			want    map[string]*ir.Data
			pending *vkc.Pending
		}
		var runs []started
		for i := range 5 {
			at, talk := symbols[i%len(symbols)], talks[i%len(talks)]
			in, err := values.Inputs(at, 5*half+i)
			if err != nil {
				return ran, err
			}
			want, err := talk.reference.Run(ctx, in, at)
			if refusesRun(err) {
				continue
			}
			if err != nil {
				return ran, err
			}
			options := runtime.RunOptions{Symbols: at, States: talk.states}
			if i%2 == 1 {
				options.Into = garbageLike(want)
			}
			runs = append(runs, started{want, exe.Start(ctx, in, options)})
		}
		for i, r := range runs {
			res, err := r.pending.Wait()
			if err != nil {
				return ran, err
			}
			for _, o := range g.Outputs() {
				tol := bounds[o.Node.ID()].Tolerance(o.Node)
				if err := interp.Compare(res.Outputs[o.Name], r.want[o.Name], tol).Err(); err != nil {
					return ran, fmt.Errorf("run %d in flight: output %q, %w", i, o.Name, err)
				}
			}
			ran++
		}
		for _, n := range g.Leaves(ir.OpState) {
			for i, talk := range talks {
				read, write := exe.ReadState, exe.WriteState
				if talk.states != nil {
					read, write = talk.states.Read, talk.states.Write
				}
				have, err := read(n.Name())
				if err != nil {
					return ran, err
				}
				want, err := talk.reference.State(n.Name())
				if err != nil {
					return ran, err
				}
				if err := interp.Compare(have, want, bounds[n.ID()].Tolerance(n)).Err(); err != nil {
					return ran, fmt.Errorf("states %d after runs in flight: state %q, %w", i, n.Name(), err)
				}
				if err := write(n.Name(), have); err != nil {
					return ran, err
				}
			}
		}
	}
	return ran, exe.ResetStates()
}

// unlessTooFewOps returns a comparison that leaves out graphs of fewer parts than there are devices.
func unlessTooFewOps(differ comparison) comparison {
	return func(dev *vkc.Device, g *ir.Graph, seed uint64) (int, error) {
		ran, err := differ(dev, g, seed)
		if err != nil && strings.Contains(err.Error(), "use fewer devices") {
			return 0, nil
		}
		return ran, err
	}
}

// cut returns a graph whose weights and states are marked to be cut along random axes, most of them. Inputs of fixed
// extents become weights.
func cut(g *ir.Graph, seed uint64) (*ir.Graph, error) {
	rng := rand.New(rand.NewPCG(seed, 0x63757473)) // "cuts" in ASCII: any constant would do
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		op := n.Op()
		if op == ir.OpInput && n.Shape().IsStatic() {
			op = ir.OpWeight
		}
		if op != ir.OpWeight && op != ir.OpState || n.Rank() == 0 || rng.IntN(6) == 0 {
			return rw.Copy(n, args)
		}
		attrs := []ir.Attr{{Name: "shard", Value: rng.IntN(n.Rank())}}
		for _, a := range n.Attrs() {
			if a.Name != "shard" {
				attrs = append(attrs, a)
			}
		}
		return rw.New.Add(op, args, attrs, "")
	})
}

// TestFoundShards runs graphs that were wrong or refused when devices shared their ops.
func TestFoundShards(t *testing.T) {
	dev, err := vkc.OpenTensorParallel("cpu,cpu")
	if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, dev)
	for name, text := range map[string]string{
		"softmax along the cut axis": `
			%w = weight {name="w", dtype=f32, shape=[4,4], shard=0}
			%y = softmax %w {axis=0}
			output "y" %y`,
		"normalized along the cut axis": `
			%w = weight {name="w", dtype=f32, shape=[4,4], shard=0}
			%y = l2_normalize %w {axis=0, eps=0.25}
			output "y" %y`,
		"softmax along another axis than the innermost": `
			%w = weight {name="w", dtype=f32, shape=[4,4], shard=1}
			%y = softmax %w {axis=0}
			output "y" %y`,
		"rows of a table in blocks": `
			%w = weight {name="w", dtype=q4_0, shape=[10,64], shard=0}
			%i = input {name="i", dtype=i32, shape=[3]}
			%y = embedding %w, %i
			output "y" %y`,
		"blocks of each row": `
			%w = weight {name="w", dtype=q4_0, shape=[10,64], shard=1}
			%i = input {name="i", dtype=i32, shape=[3]}
			%y = embedding %w, %i
			output "y" %y`,
		"blocks by blocks": `
			%a = weight {name="a", dtype=q8_0, shape=[3,64], shard=1}
			%b = weight {name="b", dtype=q4_0, shape=[6,64], shard=0}
			%y = matmul %a, %b {transpose_b=true}
			output "y" %y`,
		"whole blocks by cut blocks": `
			%a = weight {name="a", dtype=q8_0, shape=[3,64]}
			%b = weight {name="b", dtype=q4_0, shape=[6,64], shard=1}
			%y = matmul %a, %b {transpose_b=true}
			output "y" %y`,
		"quantized slices": `
			%w = weight {name="w", dtype=f32, shape=[10,64], shard=0}
			%i = input {name="i", dtype=i32, shape=[3]}
			%q = quantize %w {dtype=q8_0}
			%y = embedding %q, %i
			output "y" %y`,
		"a cut state of whole blocks": `
			%s = state {name="s", dtype=q8_0, shape=[2,64], shard=0}
			%x = input {name="x", dtype=f32, shape=[2,64]}
			%y = dequantize %s
			%q = quantize %x {dtype=q8_0}
			update %s = %q
			output "y" %y`,
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ir.Parse(`graph "g" {` + text + "\n}")
			if err != nil {
				t.Fatal(err)
			}
			if ran, err := differ(dev, g, 1); err != nil || ran == 0 {
				t.Errorf("%d runs, %v", ran, err)
			}
		})
	}
}
