package passes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/flowtest"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/quant"
)

func buildControl(t testing.TB, name string) *ir.Graph {
	g, err := frontend.Build(name, flowtest.Graphs[name])
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestControl: loops and branches compiled to kernels match the reference, at several lengths, and in two consecutive
// runs.
func TestControl(t *testing.T) {
	for name := range flowtest.Graphs {
		t.Run(name, func(t *testing.T) {
			g := buildControl(t, name)
			s, err := passes.Run(g, passes.Options{})
			if err != nil {
				t.Fatal(err)
			}
			values := graphgen.Values{Seed: 3, Graph: g}
			for _, order := range []*rand.Rand{nil, rand.New(rand.NewPCG(1, 2))} {
				want, err := interp.New(g, interp.Options{Weights: values})
				if err != nil {
					t.Fatal(err)
				}
				have, err := keval.New(s.Program, s.Kernels,
					keval.Options{Weights: values, Decode: quant.Dequantize, Order: order})
				if err != nil {
					t.Fatalf("%v\n%s", err, s.Text())
				}
				for run, symbols := range append(values.Symbols(4), values.Symbols(1)...) {
					in, err := values.Inputs(symbols, run)
					if err != nil {
						t.Fatal(err)
					}
					a, err := want.Run(context.Background(), in, symbols)
					if err != nil {
						t.Fatal(err)
					}
					b, err := have.Run(in, symbols)
					if err != nil {
						t.Fatalf("%v: %v\n%s", symbols, err, s.Text())
					}
					for _, o := range g.Outputs() {
						tol := ir.Tolerance{Eps: 256, Sum: true}
						if err := interp.Compare(b[o.Name], a[o.Name], tol).Err(); err != nil {
							t.Fatalf("%v: output %q: %v\n%s", symbols, o.Name, err, s.Text())
						}
					}
				}
			}
		})
	}
}

// TestMovedGraphs: random graphs inside loops give the same results as repeated separate runs, and inside branches the
// same results or 0. Their extents are symbols or derived from symbols.
func TestMovedGraphs(t *testing.T) {
	for seed := range uint64(80) {
		opt := graphgen.Options{Derived: seed%4 > 0}
		g, err := graphgen.New(seed, opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, moved := range flowtest.Moved(g) {
			if moved.Err != nil {
				t.Fatalf("seed %d, %s: %v\n%s", seed, moved.Name, moved.Err, g)
			}
			checkMoved(t, fmt.Sprintf("seed %d, %s", seed, moved.Name), g, moved, seed)
		}
	}
}

// checkMoved compares the kernels of a moved graph with the reference that runs the graph itself.
func checkMoved(t *testing.T, what string, g *ir.Graph, moved flowtest.Moving, seed uint64) {
	t.Helper()
	s, err := passes.Run(moved.Graph, passes.Options{Pricer: passtest.Choices{}})
	if err != nil {
		t.Fatalf("%s: %v\n%s", what, err, moved.Graph)
	}
	values := graphgen.Values{Seed: seed, Graph: g}
	have, err := keval.New(s.Program, s.Kernels, keval.Options{Weights: values, Decode: quant.Dequantize,
		Encode: passtest.Quantize, Order: rand.New(rand.NewPCG(seed, 1))})
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", what, err, moved.Graph, s.Text())
	}
	bounds := graphgen.Bounds(g)
	for run, symbols := range values.Symbols(3) {
		in, want, err := moved.Want(t.Context(), values, symbols, run)
		if err != nil {
			continue // an axis to pick from is empty under these values
		}
		got, err := have.Run(in, symbols)
		if err != nil {
			t.Fatalf("%s, %v: %v\n%s\n%s", what, symbols, err, moved.Graph, s.Text())
		}
		for _, o := range g.Outputs() {
			tol := bounds[o.Node.ID()].Tolerance(o.Node)
			if err := interp.Compare(got[o.Name], want[o.Name], tol).Err(); err != nil {
				t.Fatalf("%s, %v: output %q: %v\n%s\n%s", what, symbols, o.Name, err, moved.Graph, s.Text())
			}
		}
	}
}
