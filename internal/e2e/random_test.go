package e2e

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/gradgen"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

var (
	randomGraphs = flag.Int("graphs", 0, "how many random graphs to compile and run; 0 is a covering set of 500")
	firstSeed    = flag.Uint64("seed", 1, "the seed of the first random graph")
)

func graphCount() int { return cmp.Or(*randomGraphs, 500) }

// TestRandomGraphs compares random graphs, compiled for a device and run there, with the reference.
func TestRandomGraphs(t *testing.T) {
	compareRandom(t, nil, graphCount(), func(seed uint64) (*ir.Graph, error) {
		return graphgen.New(seed, graphgen.Options{Derived: seed%4 == 3})
	})
}

// TestRandomPortableGraphs is TestRandomGraphs with programs for the generic profile, which run on any device.
func TestRandomPortableGraphs(t *testing.T) {
	generic := devtest.Profile(t, "generic")
	compareRandom(t, &generic, cmp.Or(*randomGraphs, 12), func(seed uint64) (*ir.Graph, error) {
		return graphgen.New(seed, graphgen.Options{Large: seed%3 == 2})
	})
}

// TestLargeRandomGraphs is TestRandomGraphs with tensors that fill tiles and several workgroups.
func TestLargeRandomGraphs(t *testing.T) {
	compareRandom(t, nil, cmp.Or(*randomGraphs, 20), func(seed uint64) (*ir.Graph, error) {
		return graphgen.New(seed, graphgen.Options{Large: true})
	})
}

// TestRandomRunsInFlight is TestRandomGraphs with runs that start before earlier ones are over.
func TestRandomRunsInFlight(t *testing.T) {
	compareBy(t, differInFlight, nil, cmp.Or(*randomGraphs, 12), func(seed uint64) (*ir.Graph, error) {
		for ; ; seed += 1 << 32 { // half of them with states
			g, err := graphgen.New(seed, graphgen.Options{Derived: seed%4 == 3})
			if err != nil || seed%2 == 0 || len(g.Updates()) > 0 {
				return g, err
			}
		}
	})
}

// TestRandomBundles is TestRandomGraphs with programs that are saved and opened again. The CPU runs them too.
func TestRandomBundles(t *testing.T) {
	compareBy(t, differInBundle, nil, cmp.Or(*randomGraphs, 12), func(seed uint64) (*ir.Graph, error) {
		return graphgen.New(seed, graphgen.Options{Large: seed%4 == 2})
	})
}

// TestRandomGradients is TestRandomGraphs with gradients of random graphs, half of them large.
func TestRandomGradients(t *testing.T) {
	compareRandom(t, nil, cmp.Or(*randomGraphs, 20), func(seed uint64) (*ir.Graph, error) {
		return gradgen.New(seed, graphgen.Options{Large: seed%2 == 1})
	})
}

// compareRandom compares n random graphs, compiled for another device or for the one that runs them if other is nil,
// with the reference. graph returns the graph of a seed.
func compareRandom(t *testing.T, other *device.Caps, n int, graph func(seed uint64) (*ir.Graph, error)) {
	t.Helper()
	compareBy(t, differ, other, n, graph)
}

// comparison compares a graph, compiled for a target, on a device with the reference. It returns the number of compared
// runs.
type comparison func(dev *vkc.Device, target device.Caps, g *ir.Graph, seed uint64) (ran int, err error)

// compareBy is compareRandom with another comparison than differ.
func compareBy(t *testing.T, differ comparison, other *device.Caps, n int,
	graph func(seed uint64) (*ir.Graph, error)) {
	t.Helper()
	type random struct {
		*ir.Graph
		seed uint64
	}
	dev := openDevice(t)
	target := dev.Caps()
	if other != nil {
		target = *other
	}
	if testing.Short() {
		n = min(n, 40)
	}
	list := make([]random, n)
	for i := range list {
		seed := *firstSeed + uint64(i)
		g, err := graph(seed)
		if err != nil {
			t.Fatal(err)
		}
		list[i] = random{g, seed}
	}
	if *randomGraphs == 0 && !testing.Short() {
		list = pairs.CoverAtCost(list, func(r random) ([]string, float64) {
			return featuresOf(r.Graph), float64(len(r.Nodes()))
		})
	}
	graphs := make([]*ir.Graph, len(list))
	for i, r := range list {
		graphs[i] = r.Graph
	}
	n = len(graphs)
	devtest.CompileShaders(t, target, graphs...)
	var mu sync.Mutex
	ran, unsupported := 0, map[string]int{}
	var group errgroup.Group
	group.SetLimit(goruntime.GOMAXPROCS(0))
	for _, r := range list {
		group.Go(func() error {
			runs, err := differ(dev, target, r.Graph, r.seed)
			mu.Lock()
			defer mu.Unlock()
			switch gap := notYet(err); {
			case gap != "":
				unsupported[gap]++
			case err != nil:
				report(t, differ, dev, target, r.Graph, r.seed, err)
			}
			ran += runs
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	skipped := 0
	for _, gap := range slices.Sorted(maps.Keys(unsupported)) {
		t.Logf("%d graphs are left out: %s", unsupported[gap], gap)
		skipped += unsupported[gap]
	}
	if skipped > n/4 || ran < n {
		t.Errorf("%d of %d graphs are left out, and there were %d runs: too few to mean anything", skipped, n, ran)
	}
}

// featuresOf lists the ops of a graph with their dtypes, and pairs of ops where one reads the other's result. Which
// dtype an elementwise op has matters to its formula alone, and TestOpsOnDevice of package glsl has all of them. So
// here each op and each dtype occurs, but not each pair.
func featuresOf(g *ir.Graph) (keys []string) {
	for _, n := range g.Nodes() {
		if n.Op().Class() == ir.ClassElementwise {
			keys = append(keys, n.Op().String(), fmt.Sprintf("elementwise of %s", n.DType()))
		} else {
			keys = append(keys, fmt.Sprintf("%s of %s", n.Op(), n.DType()))
		}
		for _, x := range n.Args() {
			keys = append(keys, fmt.Sprintf("%s of %s, static %t", n.Op().Class(), x.Op().Class(),
				n.Shape().IsStatic()))
		}
	}
	return keys
}

// differ compares a graph, compiled for a target, on a device with the reference, for several runs so that states
// advance. It returns the number of compared runs, without the ones that the reference rejects.
func differ(dev *vkc.Device, target device.Caps, g *ir.Graph, seed uint64) (ran int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic, %v\n%s", p, debug.Stack())
		}
	}()
	ctx := context.Background()
	values := valuesOf(g, seed)
	reference, err := interp.New(g, interp.Options{Weights: values})
	if err != nil {
		return 0, err
	}
	p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: target, Weights: values, Tuning: device.Tuning{}})
	if err != nil {
		return 0, err
	}
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: values})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	for i, symbols := range runsOf(g, values) {
		in, err := values.Inputs(symbols, i)
		if err != nil {
			return ran, err
		}
		want, err := reference.Run(ctx, in, symbols)
		if err != nil {
			continue // an axis to pick from is empty under these values
		}
		r, err := exe.Run(ctx, in, runtime.RunOptions{Symbols: symbols, Profile: i == 1})
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

// runsOf returns choices of symbol values, with several runs if the graph has states.
func runsOf(g *ir.Graph, values graphgen.Values) []map[string]int64 {
	symbols := values.Symbols(6)
	if len(g.Updates()) > 0 && len(symbols) < 3 {
		symbols = slices.Repeat(symbols, 3)
	}
	return symbols
}

func compareAll(g *ir.Graph, exe runtime.Executable, reference *interp.Program, have, want map[string]*ir.Data) error {
	bounds := graphgen.Bounds(g)
	for _, o := range g.Outputs() {
		if err := interp.Compare(have[o.Name], want[o.Name], bounds[o.Node.ID()].Tolerance(o.Node)).Err(); err != nil {
			return fmt.Errorf("output %q, %s", o.Name, err)
		}
	}
	return compareStates(g, bounds, exe.ReadState, reference)
}

// report fails the test with the graph made as small as the failure allows.
func report(t *testing.T, differ comparison, dev *vkc.Device, target device.Caps, g *ir.Graph, seed uint64,
	err error) {
	t.Helper()
	kind := func(err error) string { return strings.SplitN(err.Error(), ",", 2)[0] }
	small := graphgen.Shrink(g, func(g *ir.Graph) bool {
		_, again := differ(dev, target, g, seed)
		return again != nil && notYet(again) == "" && kind(again) == kind(err)
	})
	if _, again := differ(dev, target, small, seed); again != nil {
		err = again
	}
	t.Errorf("seed %d: %v\n%s", seed, err, small)
}

// notYet returns the features that the device lacks for a graph, or "" for any other error.
func notYet(err error) string {
	if err == nil {
		return ""
	}
	var unsupported *vkc.UnsupportedError
	if errors.As(err, &unsupported) {
		return "the device lacks features"
	}
	return ""
}

// TestFound runs the graphs that once failed, each made small.
func TestFound(t *testing.T) {
	dev := openDevice(t)
	files, err := filepath.Glob("testdata/*.ir")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d graphs, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".ir"), func(t *testing.T) {
			g, err := vkc.ReadGraph(file)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(3) {
				if ran, err := differ(dev, dev.Caps(), g, seed); err != nil || ran == 0 {
					t.Errorf("seed %d, %d runs: %v", seed, ran, err)
				}
			}
		})
	}
}

// FuzzDevice is TestRandomGraphs for any seed.
func FuzzDevice(f *testing.F) {
	dev := openDevice(f)
	for seed := range uint64(4) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g, err := graphgen.New(seed, graphgen.Options{Derived: seed%4 == 3})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := differ(dev, dev.Caps(), g, seed); err != nil && notYet(err) == "" {
			report(t, differ, dev, dev.Caps(), g, seed, err)
		}
	})
}
