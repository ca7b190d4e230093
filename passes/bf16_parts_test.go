package passes_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
)

// takeApart splits the operands of all matmuls that allow it, with a layout along or across the contraction, padded or
// not.
func Decompose(across, pad bool) func(k *kernel.Kernel) []kernel.StoredOperand {
	return func(k *kernel.Kernel) []kernel.StoredOperand {
		var list []kernel.StoredOperand
		seen := map[*kernel.Expr]bool{}
		for _, p := range k.MatMuls {
			for i, v := range []*kernel.Expr{p.A, p.B} {
				if seen[v] || !p.BF16x3 {
					continue
				}
				seen[v] = true
				o := kernel.StoredOperand{Operand: v, Across: across}
				if d := k.Parallel[len(k.Parallel)-2+i]; pad && d.IsStatic() && d.Add > 0 {
					o.Rows = int(d.Add + 3)
				}
				if pad && k.Fold.IsStatic() && k.Fold.Add > 0 {
					o.Depth = int(k.Fold.Add + 5)
				}
				list = append(list, o)
			}
		}
		return list
	}
}

// splitProducts counts the bf16 products that come from splitting.
func splitProducts(s *passes.State) (n int) {
	for _, k := range s.Kernels {
		for _, p := range k.MatMuls {
			if p.Operands == ir.BF16 {
				n++
			}
		}
	}
	return n
}

func TestSplitOperands(t *testing.T) {
	const leaves = `
		symbol T <= 9
		%x = input {name="x", dtype=f32, shape=[T,6]}
		%y = input {name="y", dtype=f32, shape=[6,5]}
		%z = input {name="z", dtype=f32, shape=[5,6]}
		%b = weight {name="b", dtype=f32, shape=[5]}
		%c = input {name="c", dtype=f32, shape=[3,1,4,6]}
		%d = input {name="d", dtype=f32, shape=[2,6,7]}
		%v = input {name="v", dtype=f32, shape=[4,1]}
		%e = input {name="e", dtype=f32, shape=[4,0]}
		%f = input {name="f", dtype=f32, shape=[5,0]}
		%q = weight {name="q", dtype=q8_0, shape=[5,32]}
		%r = input {name="r", dtype=f32, shape=[4,32]}
		%w = weight {name="w", dtype=bf16, shape=[5,6]}
		%h = input {name="h", dtype=f16, shape=[5,6]}
		`
	tests := []struct {
		name, body string
		split      int
	}{
		{"plain", `%1 = matmul %x, %y {precision="bf16x3"}
			output "o" %1`, 1},
		{"transposed, with a producer and an epilogue", `%1 = transpose %x {perm=[1,0]}
			%2 = exp %1
			%3 = matmul %2, %z {transpose_a=true, transpose_b=true, precision="bf16x3"}
			%4 = add %3, %b
			%5 = relu %4
			output "o" %5`, 1},
		{"batches that broadcast", `%1 = matmul %c, %d {precision="bf16x3"}
			output "o" %1`, 1},
		{"two in one loop", `%1 = matmul %x, %y {precision="bf16x3"}
			%2 = matmul %x, %z {transpose_b=true, precision="bf16x3"}
			%3 = silu %1
			%4 = mul %3, %2
			output "o" %4`, 2},
		{"by itself", `%1 = matmul %x, %x {transpose_b=true, precision="bf16x3"}
			output "o" %1`, 1},
		{"an unknown contraction", `%1 = matmul %x, %x {transpose_a=true, precision="bf16x3"}
			output "o" %1`, 1},
		{"no contraction, which is zeros", `%1 = matmul %e, %f {transpose_b=true, precision="bf16x3"}
			output "o" %1`, 0},
		{"an operand that is also added", `%1 = broadcast %v {shape=[4,6]}
			%2 = matmul %1, %z {transpose_b=true, precision="bf16x3"}
			%3 = broadcast %v {shape=[4,5]}
			%4 = add %2, %3
			output "o" %4`, 1},
		{"both operands the same constant", `%1 = const {data=f32[](3.0)}
			%2 = broadcast %1 {shape=[4,4]}
			%3 = matmul %2, %2 {precision="bf16x3"}
			output "o" %3`, 0},
		{"by a weight of bf16", `%1 = cast %w {dtype=f32}
			%2 = matmul %x, %1 {transpose_b=true, precision="bf16x3"}
			output "o" %2`, 1},
		{"bf16 by a computed one", `%1 = cast %w {dtype=f32}
			%2 = matmul %1, %y {precision="bf16x3"}
			output "o" %2`, 1},
		{"full", `%1 = matmul %x, %y
			output "o" %1`, 0},
		{"blocks", `%1 = matmul %r, %q {transpose_b=true, precision="bf16x3"}
			output "o" %1`, 0},
		{"halves", `%1 = matmul %h, %h {transpose_b=true, precision="bf16x3"}
			output "o" %1`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := passtest.Parse(t, leaves+tt.body)
			for _, way := range []passtest.Choices{
				{Operands: Decompose(false, false)}, {Operands: Decompose(true, false)}, {Operands: Decompose(false, true)},
				{Operands: Decompose(true, true), Parts: passtest.SplitAny}, {},
			} {
				s := passtest.RunAndCompare(t, g, passes.Options{Pricer: way})
				want := tt.split
				if way.Operands == nil {
					want = 0
				}
				if n := splitProducts(s); n != want {
					t.Errorf("%d products are split, want %d:\n%s", n, want, s.Text())
				}
				for _, k := range s.Kernels {
					if strings.Contains(k.String(), "bf16x3") {
						t.Errorf("left undecided:\n%s", k)
					}
				}
			}
		})
	}
}

// TestRandomSplits runs random graphs with split operands in all matmuls that allow it.
func TestRandomSplits(t *testing.T) {
	splits, compared := 0, 0
	for seed := *firstSeed; seed < *firstSeed+uint64(*randomGraphs); seed++ {
		g, err := graphgen.New(seed, graphgen.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if g, err = allowSplits(g); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(seed, 3))
		s, err := passes.Run(g,
			passes.Options{Pricer: passtest.Choices{Operands: Decompose(r.IntN(2) == 0, r.IntN(2) == 0),
				Parts: passtest.SplitAny}})
		if err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, g)
			continue
		}
		n := splitProducts(s)
		c, err := passtest.NewChecker(g, seed)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 || uncertain(g, c.Bounds) {
			continue
		}
		splits += n
		if err := c.AddKernels("kernels of split operands", s, r); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, g)
		} else if err := c.Compare(2); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, g)
		}
		compared += c.Ran
	}
	t.Logf("%d products, %d runs", splits, compared)
	if splits < *randomGraphs/20 || compared < splits {
		t.Errorf("%d products were split in %d runs of %d graphs: too few to see anything", splits,
			compared, *randomGraphs)
	}
}

// allowSplits sets precision bf16x3 on all matmuls of a graph.
func allowSplits(g *ir.Graph) (*ir.Graph, error) {
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		if n.Op() != ir.OpMatMul {
			return rw.Copy(n, args)
		}
		attrs := slices.DeleteFunc(slices.Clone(n.Attrs()), func(a ir.Attr) bool { return a.Name == "precision" })
		return rw.New.Add(n.Op(), args, append(attrs, ir.Attr{Name: "precision", Value: ir.PrecisionBF16x3}), n.Pos())
	})
}

// uncertain reports whether a result may be off by so much that it cannot be
// compared.
func uncertain(g *ir.Graph, bounds []graphgen.Bound) bool {
	for _, o := range g.Outputs() {
		if bounds[o.Node.ID()].Bad {
			return true
		}
	}
	return len(g.Updates()) > 0
}

// productOf is x [m,k] by the transpose of w [n,k].
func productOf(t *testing.T, m, n, k int) *ir.Graph {
	return passtest.Parse(t, fmt.Sprintf(`
		%%x = input {name="x", dtype=f32, shape=[%d,%d]}
		%%w = input {name="w", dtype=f32, shape=[%d,%d]}
		%%y = matmul %%x, %%w {transpose_b=true, precision="bf16x3"}
		output "y" %%y`, m, k, n, k))
}

func floats(t *testing.T, values []float64, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.FromFloats(ir.F32, values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSplitSpecialValues: an infinity or NaN has the same effect on a sum as in f32. The largest numbers, which would
// round to infinity in bf16, stay finite.
func TestSplitSpecialValues(t *testing.T) {
	inf, nan, most := math.Inf(1), math.NaN(), float64(math.MaxFloat32)
	xs := []float64{inf, -inf, nan, most, -most, 0, math.Copysign(0, -1), 1, -3.1415927, 0x1p-126, 0x1p-149, 1e-30}
	// One matmul for each value, plus a row that must stay 2*3.
	m := len(xs)
	x, w := make([]float64, 2*m), make([]float64, 2*m)
	for i, v := range xs {
		x[2*i], x[2*i+1], w[2*i], w[2*i+1] = v, 2, v, 3
		if math.Abs(v) == most {
			w[2*i] = 0.3 * v / most // otherwise products of two overflow
		}
	}
	g := productOf(t, m, m, 2)
	in := map[string]*ir.Data{"x": floats(t, x, m, 2), "w": floats(t, w, m, 2)}
	want := passtest.RunReference(t, g, nil, in, nil)["y"]
	for _, across := range []bool{false, true} {
		s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Operands: Decompose(across, true)}})
		if err != nil {
			t.Fatal(err)
		}
		have := passtest.RunKernels(t, s, nil, in, nil)["y"]
		h, _ := have.Floats()
		w, _ := want.Floats()
		for i := range w {
			// Infinite by a number that bf16 has no bits for is NaN.
			tiny := math.Abs(xs[i%m]) == 0x1p-149 || math.Abs(xs[i/m]) == 0x1p-149
			if tiny && math.IsInf(w[i], 0) {
				continue
			}
			if same := h[i] == w[i] || math.IsNaN(h[i]) && math.IsNaN(w[i]); !same &&
				!(math.Abs(h[i]-w[i]) <= 0x1p-15*math.Abs(w[i])) {
				t.Errorf("%v * %v + 6 = %v, want %v", xs[i/m], xs[i%m], h[i], w[i])
			}
		}
	}
}

// TestSplitError measures the errors stated in M-bf16x3, in standard deviations of a result. It also checks that the
// tolerance is tight: omitting one product of parts exceeds it.
func TestSplitError(t *testing.T) {
	const m, n, k = 24, 24, 1000
	r := rand.New(rand.NewPCG(7, 7))
	draw := func(count int) []float64 {
		v := make([]float64, count)
		for i := range v {
			v[i] = float64(float32(r.NormFloat64()))
		}
		return v
	}
	x, w := draw(m*k), draw(n*k)
	g := productOf(t, m, n, k)
	in := map[string]*ir.Data{"x": floats(t, x, m, k), "w": floats(t, w, n, k)}
	tol := interp.ToleranceOf(g, g.Outputs()[0].Node)
	s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Operands: Decompose(false, false)}})
	if err != nil {
		t.Fatal(err)
	}
	exact := passtest.RunReference(t, g, nil, in, nil)["y"]
	split := passtest.RunKernels(t, s, nil, in, nil)["y"]
	report := interp.Compare(split, exact, tol)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	high, low := make([]float64, m*k+n*k), make([]float64, m*k+n*k)
	for i, v := range append(append([]float64{}, x...), w...) {
		high[i] = ir.RoundTo(v, ir.BF16)
		low[i] = ir.RoundTo(v-high[i], ir.BF16)
	}
	// sums returns the exact sums of some of the products of parts.
	sums := func(parts ...[2][]float64) *ir.Data {
		out := make([]float64, m*n)
		for i := range out {
			a, b := i/n*k, m*k+i%n*k
			for _, p := range parts {
				for j := range k {
					out[i] += p[0][a+j] * p[1][b+j]
				}
			}
		}
		return floats(t, out, m, n)
	}
	for _, tt := range []struct {
		name string
		of   *ir.Data
		ok   bool
	}{
		{"all three", sums([2][]float64{high, high}, [2][]float64{high, low}, [2][]float64{low, high}), true},
		{"without low*high", sums([2][]float64{high, high}, [2][]float64{high, low}), false},
		{"without high*low", sums([2][]float64{high, high}, [2][]float64{low, high}), false},
		{"high*high alone", sums([2][]float64{high, high}), false},
		{"low*low for high*low", sums([2][]float64{high, high}, [2][]float64{low, low}, [2][]float64{low, high}), false},
	} {
		rep := interp.Compare(tt.of, exact, tol)
		if rep.OK != tt.ok {
			t.Errorf("%s: within the tolerance is %v (largest error %.3g)", tt.name, rep.OK, rep.WorstAbs)
		}
		t.Logf("%-22s largest error %.2e of a standard deviation, 2^%.1f", tt.name, rep.WorstAbs/math.Sqrt(k),
			math.Log2(rep.WorstAbs/math.Sqrt(k)))
	}
	t.Logf("%-22s largest error %.2e of a standard deviation", "kernels", report.WorstAbs/math.Sqrt(k))
}
