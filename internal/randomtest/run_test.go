package randomtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

var (
	randomGraphs = flag.Int("graphs", 0, "how many random graphs each test runs per device; 0 is a small number")
	firstSeed    = flag.Uint64("seed", 1, "the seed of the first random graph")
)

// TestMain gives the tests one cache of their own, as many kernels are alike.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "vkc-random-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := vktest.Share(dir, vktest.Shaders, vktest.Tools); err != nil {
		panic(err)
	}
	os.Setenv(cachefile.EnvDir, dir)
	os.Unsetenv(cachefile.Env)
	return vktest.Main(m)
}

// test is one kind of test of random graphs.
type test struct {
	// graphs is the number of graphs on the CPU, and fewer is the number on a Vulkan device.
	graphs, fewer int
	// graph returns the graph of a seed.
	graph  func(seed uint64) (*ir.Graph, error)
	differ comparison
}

// comparison is a function that compares a graph on a device with the reference. It returns the number of compared
// runs.
type comparison func(dev *vkc.Device, g *ir.Graph, seed uint64) (ran int, err error)

// run runs the test on the CPU and on a Vulkan device, as subtests.
func (c test) run(t *testing.T) {
	t.Run("cpu", func(t *testing.T) { c.runOn(t, devtest.OpenNamed(t, "cpu"), c.graphs) })
	t.Run("vulkan", func(t *testing.T) {
		devtest.NeedTools(t)
		dev, err := vkc.OpenDevice(cmp.Or(os.Getenv("VKC_DEVICE"), "vulkan"))
		vktest.Need(t, err)
		vktest.CloseAfter(t, dev)
		c.runOn(t, dev, c.fewer)
	})
}

// runOn runs n graphs on a device, or as many as flag -graphs says. It reports each failure with the graph made as
// small as the failure allows.
func (c test) runOn(t *testing.T, dev *vkc.Device, n int) {
	t.Helper()
	n = cmp.Or(*randomGraphs, n)
	var mu sync.Mutex
	ran, unsupported := 0, 0
	var group errgroup.Group
	group.SetLimit(goruntime.GOMAXPROCS(0))
	for i := range uint64(n) {
		seed := *firstSeed + i
		group.Go(func() error {
			g, err := c.graph(seed)
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
			runs, err := c.safely(dev, g, seed)
			mu.Lock()
			defer mu.Unlock()
			ran += runs
			var missing *vkc.UnsupportedError
			switch {
			case errors.As(err, &missing):
				unsupported++
			case err != nil:
				c.report(t, dev, g, seed, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d graphs, %d runs; the device lacks features for %d graphs", n, ran, unsupported)
	if unsupported > n/4 || ran < n/2 {
		t.Errorf("%d of %d graphs are left out, and there were %d runs: too few to mean anything", unsupported, n, ran)
	}
}

// safely is differ with panics as errors.
func (c test) safely(dev *vkc.Device, g *ir.Graph, seed uint64) (ran int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic, %v\n%s", p, debug.Stack())
		}
	}()
	return c.differ(dev, g, seed)
}

// report fails the test with the graph made small.
func (c test) report(t *testing.T, dev *vkc.Device, g *ir.Graph, seed uint64, err error) {
	t.Helper()
	kind := func(err error) string { return strings.SplitN(err.Error(), ",", 2)[0] }
	small := graphgen.Shrink(g, func(g *ir.Graph) bool {
		_, again := c.safely(dev, g, seed)
		return again != nil && kind(again) == kind(err)
	})
	if _, again := c.safely(dev, small, seed); again != nil {
		err = again
	}
	t.Errorf("seed %d: %v\n%s", seed, err, small)
}

// refusesRun reports whether the reference refuses a run, because an axis to pick from is empty under its symbols.
func refusesRun(err error) bool { return err != nil && strings.Contains(err.Error(), "is empty") }

// onKernels compares n random graphs after each pass of the compiler, and their kernels, with the reference, without a
// device.
func (c test) onKernels(t *testing.T, n int) {
	t.Helper()
	n = cmp.Or(*randomGraphs, n)
	c.differ = func(_ *vkc.Device, g *ir.Graph, seed uint64) (int, error) {
		_, done, err := passtest.CheckRandom(g, seed, 4)
		return done.Ran, err
	}
	c.runOn(t, nil, n)
}

// differ compares at least five runs of a graph on a device with the reference: backends record work in early runs and
// repeat it in later ones. States advance from run to run.
func differ(dev *vkc.Device, g *ir.Graph, seed uint64) (ran int, err error) {
	values := graphgen.Values{Seed: seed, Graph: g}
	symbols := values.Symbols(5)
	symbols = slices.Repeat(symbols, ceil.Div(5, max(len(symbols), 1)))
	return differAt(dev, g, values, symbols)
}

// garbageLike returns tensors for outputs, which a run must overwrite.
func garbageLike(outputs map[string]*ir.Data) map[string]*ir.Data {
	list := map[string]*ir.Data{}
	for name, d := range outputs {
		list[name] = &ir.Data{DType: d.DType, Dims: d.Dims, Bytes: bytes.Repeat([]byte{0x55}, len(d.Bytes))}
	}
	return list
}

// differAt is differ for a list of symbol values, one run each.
func differAt(dev *vkc.Device, g *ir.Graph, values graphgen.Values, symbols []map[string]int64) (ran int, err error) {
	ctx := context.Background()
	reference, err := interp.New(g, interp.Options{Weights: values})
	if err != nil {
		return 0, err
	}
	exe, err := dev.LoadGraph(ctx, g, values)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	bounds := graphgen.Bounds(g)
	for i, at := range symbols {
		in, err := values.Inputs(at, i)
		if err != nil {
			return ran, err
		}
		want, err := reference.Run(ctx, in, at)
		if refusesRun(err) {
			continue
		}
		if err != nil {
			return ran, err
		}
		options := runtime.RunOptions{Symbols: at}
		if i%2 == 1 {
			options.Into = garbageLike(want)
		}
		r, err := exe.Run(ctx, in, options)
		if err != nil {
			return ran, err
		}
		for _, o := range g.Outputs() {
			tol := bounds[o.Node.ID()].Tolerance(o.Node)
			if err := interp.Compare(r.Outputs[o.Name], want[o.Name], tol).Err(); err != nil {
				return ran, fmt.Errorf("run %d with %v: output %q, %w", i, at, o.Name, err)
			}
		}
		for _, s := range g.Leaves(ir.OpState) {
			have, err := exe.ReadState(s.Name())
			if err != nil {
				return ran, err
			}
			want, err := reference.State(s.Name())
			if err != nil {
				return ran, err
			}
			if err := interp.Compare(have, want, bounds[s.ID()].Tolerance(s)).Err(); err != nil {
				return ran, fmt.Errorf("run %d with %v: state %q, %w", i, at, s.Name(), err)
			}
		}
		ran++
	}
	return ran, nil
}
