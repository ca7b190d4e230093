package export_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/frontend/onnx/export"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

var (
	randomGraphs = flag.Int("graphs", 200, "how many random graphs to write and read back")
	firstSeed    = flag.Uint64("seed", 1, "the seed of the first random graph")
)

// TestRandomGraphs writes random graphs as ONNX, reads them back, and compares the model's results with the reference
// on the graph, for several runs so that states change.
//
//	go test ./frontend/onnx/export -run TestRandomGraphs -graphs 20000 -timeout 0
func TestRandomGraphs(t *testing.T) {
	n, ran := *randomGraphs, 0
	if testing.Short() {
		n = min(n, 50)
	}
	refusals := map[string]int{}
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		g, err := graphgen.New(seed, graphgen.Options{Derived: seed%4 == 3})
		if err != nil {
			t.Fatal(err)
		}
		runs, err := differ(t, g, seed)
		ran += runs
		switch {
		case refusal(err) != "":
			refusals[refusal(err)]++
		case err != nil:
			small := graphgen.Shrink(g, func(g *ir.Graph) bool {
				_, again := differ(t, g, seed)
				return again != nil && refusal(again) == ""
			})
			if _, again := differ(t, small, seed); again != nil {
				err = again
			}
			t.Errorf("seed %d: %v\n%s", seed, err, small)
		}
	}
	t.Logf("%d graphs, %d runs, and graphs left out: %v", n, ran, refusals)
	if ran < n {
		t.Errorf("%d runs of %d graphs are too few to mean anything", ran, n)
	}
}

// refusal returns the reason why a graph or a model is refused, or "" for any other error.
func refusal(err error) string {
	switch written, read := (*export.RefusedError)(nil), (*onnx.UnsupportedError)(nil); {
	case errors.As(err, &written):
		return "no equivalent in ONNX"
	case errors.As(err, &read):
		return "the importer needs a number instead of a symbol"
	}
	return ""
}

// differ compares the runs of a graph with the runs of the model that it becomes. It returns the number of runs that
// the reference accepts.
func differ(t *testing.T, g *ir.Graph, seed uint64) (ran int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic, %v\n%s", p, debug.Stack())
		}
	}()
	values := graphgen.Values{Seed: seed, Graph: g}
	reference, err := interp.New(g, interp.Options{Weights: values, Workers: 1})
	if err != nil {
		return 0, err
	}
	content, err := export.Marshal(g, values)
	if err != nil {
		return 0, err
	}
	extents, err := extentBounds(t, g, content)
	if err != nil {
		return 0, err
	}
	exe, err := read(g, content, onnx.Options{Bounds: extents})
	if err != nil {
		return 0, err
	}
	defer exe.Close()
	bounds := graphgen.Bounds(g)
	for i, symbols := range values.Symbols(4) {
		in, err := values.Inputs(symbols, i)
		if err != nil {
			return ran, err
		}
		want, err := reference.Run(t.Context(), in, symbols)
		if err != nil {
			continue // an axis to pick from is empty under these values
		}
		// A symbol that is the extent of no input is an input of the model.
		for name, value := range symbols {
			if in[name], err = ir.FromInts(ir.I64, []int64{value}); err != nil {
				return ran, err
			}
		}
		res, err := exe.Run(t.Context(), in)
		if err != nil {
			return ran, err
		}
		for _, o := range g.Outputs() {
			tol := bounds[o.Node.ID()].Tolerance(o.Node)
			if err := interp.Compare(res.Outputs[o.Name], want[o.Name], tol).Err(); err != nil {
				return ran, fmt.Errorf("run %d with %v, output %q: %w", i, symbols, o.Name, err)
			}
		}
		for _, s := range g.Leaves(ir.OpState) {
			want, err := reference.State(s.Name())
			if err != nil {
				return ran, err
			}
			tol := bounds[s.ID()].Tolerance(s)
			if err := interp.Compare(exe.states["past."+s.Name()], want, tol).Err(); err != nil {
				return ran, fmt.Errorf("run %d with %v, state %q: %w", i, symbols, s.Name(), err)
			}
		}
		ran++
	}
	return ran, nil
}

// extentBounds returns the bounds in g of the extents of a model's inputs. The model has the extents' names, but not
// their bounds.
func extentBounds(t *testing.T, g *ir.Graph, content []byte) (map[string]int, error) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	defer os.Remove(path)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return nil, err
	}
	f, err := onnx.Read(path)
	if err != nil {
		return nil, err
	}
	bounds := map[string]int{}
	for _, name := range f.Model.Extents() {
		d, err := ir.ParseDimOf(f.Model.Spelling(name), func(symbol string) (ir.Dim, error) {
			bound, ok := g.SymbolBound(symbol)
			if !ok {
				return ir.Dim{}, fmt.Errorf("extent %q has a symbol that the graph lacks", name)
			}
			return ir.Symbol(symbol, int(bound)), nil
		})
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		bounds[name] = int(d.Max())
	}
	return bounds, f.Close()
}
