package rewrite_test

import (
	"math"
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/quant"
)

// oneWeight is a weight of any name.
type oneWeight struct{ *ir.Data }

// Weight implements [ir.WeightSource].
func (w oneWeight) Weight(string) (*ir.Data, error) { return w.Data, nil }

// TestSplitRows: rows as sums of two f16 values give results within 2^-21 of the sum of the magnitudes, for rows of any
// size. An infinity or NaN in a row gives what it gives without them.
func TestSplitRows(t *testing.T) {
	const rows, depth = 8, 32
	g := passtest.Parse(t, `graph "t" {
		%x = input {name="x", dtype=f32, shape=[8,32]}
		%w = weight {name="w", dtype=q8_0, shape=[4,32]}
		%y = matmul %x, %w {transpose_b=true}
		output "y" %y
	}`)
	s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Halves: 1}, Until: "round_rows"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Graph.String() == g.String() {
		t.Fatal("rows are not split")
	}
	sizes := [rows]float64{1, 1e38, 1e-37, 0, 1e5, 1, 1, 3e4} // of rows
	values := make([]float64, rows*depth)
	for i := range values {
		row, at := i/depth, i%depth
		values[i] = float64(float32(sizes[row] * math.Sin(float64(7*i+1))))
		if row == 4 && at%2 == 1 {
			values[i] = float64(float32(values[i] * 1e-9))
		}
	}
	values[5*depth+3], values[6*depth+9] = math.Inf(-1), math.NaN()
	x, err := ir.FromFloats(ir.F32, values, rows, depth)
	if err != nil {
		t.Fatal(err)
	}
	weights := make([]float32, 4*depth)
	for i := range weights {
		weights[i] = float32(math.Cos(float64(3*i + 1)))
	}
	w := &ir.Data{DType: ir.Q8_0, Dims: []int{4, depth}, Bytes: make([]byte, 4*ir.Q8_0.BlockBytes())}
	if err := quant.Quantize(w.Bytes, ir.Q8_0, weights, nil); err != nil {
		t.Fatal(err)
	}
	run := func(g *ir.Graph) []float64 {
		t.Helper()
		p, err := interp.New(g, interp.Options{Weights: oneWeight{w}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Run(t.Context(), map[string]*ir.Data{"x": x}, nil)
		if err != nil {
			t.Fatal(err)
		}
		list, err := out["y"].Floats()
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	want, have := run(g), run(s.Graph)
	for i, v := range want {
		allowed := 0.0
		for _, x := range values[i/4*depth:][:depth] {
			allowed += math.Abs(x) * 0x1p-21
		}
		if math.IsNaN(v) != math.IsNaN(have[i]) || math.IsInf(v, 0) != math.IsInf(have[i], 0) ||
			math.Abs(have[i]-v) > allowed {
			t.Errorf("row %d, column %d: %g, want %g within %g", i/4, i%4, have[i], v, allowed)
		}
	}
}
