package cpu

import (
	"bytes"
	"flag"
	"fmt"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc/internal/gradgen"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

var (
	randomGraphs = flag.Int("graphs", 500, "how many random graphs to run")
	firstSeed    = flag.Uint64("seed", 1, "the seed of the first random graph")
)

// TestRandomGraphs compares random graphs on the fast path with the reference, for several runs so that states change.
// Reused memory is poisoned, which must make no difference.
//
//	go test ./runtime/cpu -run TestRandomGraphs -graphs 50000 -timeout 0
func TestRandomGraphs(t *testing.T) {
	n := *randomGraphs
	if testing.Short() {
		n = min(n, 100)
	}
	compareRandom(t, n, func(seed uint64) (*ir.Graph, error) { return graphgen.New(seed, graphgen.Options{}) })
}

// TestLargeRandomGraphs is TestRandomGraphs with tensors that several workers share.
func TestLargeRandomGraphs(t *testing.T) {
	n := *randomGraphs / 10
	if testing.Short() {
		n = min(n, 10)
	}
	compareRandom(t, n, func(seed uint64) (*ir.Graph, error) {
		return graphgen.New(seed, graphgen.Options{Large: true})
	})
}

// TestRandomGradients is TestRandomGraphs with gradients of random graphs, half of them large.
func TestRandomGradients(t *testing.T) {
	n := *randomGraphs / 5
	if testing.Short() {
		n = min(n, 20)
	}
	compareRandom(t, n, func(seed uint64) (*ir.Graph, error) {
		return gradgen.New(seed, graphgen.Options{Large: seed%2 == 1})
	})
}

// compareRandom compares n random graphs on the fast path with the reference. graph returns the graph of a seed.
func compareRandom(t *testing.T, n int, graph func(seed uint64) (*ir.Graph, error)) {
	t.Helper()
	var ran atomic.Int64
	var group errgroup.Group
	group.SetLimit(goruntime.GOMAXPROCS(0))
	for i := range uint64(n) {
		seed := *firstSeed + i
		group.Go(func() error {
			g, err := graph(seed)
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
			runs, err := differ(t, g, seed)
			ran.Add(int64(runs))
			if err != nil {
				small := graphgen.Shrink(g, func(g *ir.Graph) bool { _, err := differ(t, g, seed); return err != nil })
				if _, again := differ(t, small, seed); again != nil {
					err = again
				}
				t.Errorf("seed %d: %v\n%s", seed, err, small)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d graphs, %d runs", n, ran.Load())
	if int(ran.Load()) < n {
		t.Errorf("%d runs of %d graphs are too few to mean anything", ran.Load(), n)
	}
}

// TestWrappedStates: products of small integers wrap before they become a state, which the next run reads.
func TestWrappedStates(t *testing.T) {
	for _, dtype := range []string{"u8", "i8", "u16", "i16"} {
		for op, shape := range map[string]string{"prod %x {axes=[1]}": "[40]", "cumprod %x {axis=0}": "[40,9]"} {
			g, err := ir.Parse(fmt.Sprintf(`graph "g" {
				%%s = state {name="s", dtype=%[1]s, shape=%[2]s}
				%%x = input {name="x", dtype=%[1]s, shape=[40,9]}
				%%y = %[3]s
				%%o = argsort %%s {axis=0}
				update %%s = %%y
				output "o" %%o
			}`, dtype, shape, op))
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(4) {
				if _, err := differ(t, g, seed); err != nil {
					t.Errorf("%s of %s: %v", op, dtype, err)
				}
			}
		}
	}
}

// differ runs a graph on the reference, on the fast path, and on the fast path with poison. It returns the number of
// compared runs, without those that the reference rejects.
func differ(t *testing.T, g *ir.Graph, seed uint64) (ran int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic, %v\n%s", p, debug.Stack())
		}
	}()
	values := graphgen.Values{Seed: seed, Graph: g}
	var ways [3]runtime.Executable
	for i, opt := range []Options{{Reference: true, Workers: 1}, {Workers: 1}, {Workers: 2, Poison: true}} {
		if ways[i], err = Load(g, values, opt); err != nil {
			return 0, err
		}
		defer ways[i].Close()
	}
	symbols := values.Symbols(4)
	symbols = append(symbols, symbols[0]) // in memory that the runs before have used
	bounds := graphgen.Bounds(g)
	// Of a graph with states, every third run has states of its own.
	var own [3]runtime.States
	if len(g.Leaves(ir.OpState)) > 0 {
		symbols = slices.Repeat(symbols, 2)
		for w := range ways {
			if own[w], err = ways[w].NewStates(); err != nil {
				return 0, err
			}
			defer own[w].Close()
		}
	}
	var passed []passedRun
	for i, s := range symbols {
		in, err := values.Inputs(s, i)
		if err != nil {
			return ran, err
		}
		var results [3]*runtime.Result
		states := own
		if i%3 != 2 {
			states = [3]runtime.States{}
		}
		options := func(w int) runtime.RunOptions { return runtime.RunOptions{Symbols: s, States: states[w]} }
		if results[0], err = ways[0].Run(t.Context(), in, options(0)); err != nil {
			continue // an axis to pick from is empty under these values
		}
		for w := 1; w < len(ways); w++ {
			if results[w], err = ways[w].Run(t.Context(), in, options(w)); err != nil {
				return ran, err
			}
		}
		same := func(what string, tol ir.Tolerance, read func(w int) (*ir.Data, error)) error {
			var list [3]*ir.Data
			for w := range list {
				if list[w], err = read(w); err != nil {
					return err
				}
			}
			if err := interp.Compare(list[1], list[0], tol).Err(); err != nil {
				return fmt.Errorf("run %d with %v, %s: %w", i, s, what, err)
			}
			if !bytes.Equal(list[1].Bytes, list[2].Bytes) {
				return fmt.Errorf("run %d with %v, %s: poison makes a difference: %v", i, s, what,
					interp.Compare(list[2], list[1], ir.Tolerance{}).Err())
			}
			return nil
		}
		for _, o := range g.Outputs() {
			read := func(w int) (*ir.Data, error) { return results[w].Outputs[o.Name], nil }
			if err := same(fmt.Sprintf("output %q", o.Name), bounds[o.Node.ID()].Tolerance(o.Node), read); err != nil {
				return ran, err
			}
		}
		for _, n := range g.Leaves(ir.OpState) {
			read := func(w int) (*ir.Data, error) {
				if states[w] != nil {
					return states[w].Read(n.Name())
				}
				return ways[w].ReadState(n.Name())
			}
			if err := same(fmt.Sprintf("state %q", n.Name()), bounds[n.ID()].Tolerance(n), read); err != nil {
				return ran, err
			}
		}
		ran++
		passed = append(passed, passedRun{in, s, results[2].Outputs})
	}
	if len(g.Leaves(ir.OpState)) == 0 {
		err = atOnce(t, ways[2], passed)
	}
	return ran, err
}

// passedRun is a run with correct outputs.
type passedRun struct {
	in      map[string]*ir.Data
	symbols map[string]int64
	outputs map[string]*ir.Data
}

// atOnce repeats runs, all at the same time. They must give the same outputs.
func atOnce(t *testing.T, exe runtime.Executable, runs []passedRun) error {
	t.Helper()
	var group errgroup.Group
	for i, r := range runs {
		group.Go(func() error {
			again, err := exe.Run(t.Context(), r.in, runtime.RunOptions{Symbols: r.symbols})
			if err != nil {
				return fmt.Errorf("run %d next to others: %w", i, err)
			}
			for name, d := range r.outputs {
				if !bytes.Equal(again.Outputs[name].Bytes, d.Bytes) {
					return fmt.Errorf("run %d next to others with %v, output %q: %w", i, r.symbols, name,
						interp.Compare(again.Outputs[name], d, ir.Tolerance{}).Err())
				}
			}
			return nil
		})
	}
	return group.Wait()
}
