package frontend_test

import (
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestRopeFactors compares the angles from the factors of a plain series with the papers' formulas. The values of YaRN
// come from NumPy (golden/llm/make.py).
func TestRopeFactors(t *testing.T) {
	const dims, base, times = 16, 10000.0, 4.0
	ntk, linear := make([]float64, dims/2), make([]float64, dims/2)
	for i := range ntk {
		linear[i] = math.Pow(base, -2*float64(i)/dims) / times
		ntk[i] = math.Pow(base*math.Pow(times, dims/(dims-2.0)), -2*float64(i)/dims)
	}
	yarn := frontend.YaRN{Times: times, Trained: 2048}
	exact := yarn
	exact.Exact = true
	for _, tt := range []struct {
		name          string
		factors, want []float64
	}{
		{"linear", frontend.RopeLinear(dims, times), linear},
		{"NTK", frontend.RopeNTK(dims, times), ntk},
		{"YaRN", yarn.Factors(dims, base),
			[]float64{1, 0.316227766, 0.1, 0.025693506, 0.00625, 0.00138349648, 0.00025, 7.90569415e-05}},
		{"exact YaRN", exact.Factors(dims, base),
			[]float64{1, 0.316227766, 0.1, 0.0238701923, 0.00505697152, 0.000811290382, 0.00025, 7.90569415e-05}},
	} {
		if len(tt.factors) != dims/2 {
			t.Fatalf("%s: %d factors", tt.name, len(tt.factors))
		}
		for i, f := range tt.factors {
			if have := math.Pow(base, -2*float64(i)/dims) / f; math.Abs(have-tt.want[i]) > 1e-8*tt.want[i] {
				t.Errorf("%s: pair %d turns by %v, want %v", tt.name, i, have, tt.want[i])
			}
		}
	}
	if have, want := yarn.Magnitude(), 1.1386294361; math.Abs(have-want) > 1e-9 {
		t.Errorf("YaRN multiplies by %v, want %v", have, want)
	}
	if have := frontend.RopeNTK(2, times); len(have) != 1 || have[0] != 1 {
		t.Errorf("NTK of one pair, the fastest: %v", have)
	}
}

// TestRopeScaled checks that factors reach the constant, and that invalid factors are rejected.
func TestRopeScaled(t *testing.T) {
	build := func(dims int, base float64, factors ...float64) (*ir.Graph, error) {
		return frontend.Build("g", func(b *frontend.Builder) {
			x, pos := b.Input("x", ir.F32, 3, 4), b.Input("pos", ir.I32, 3)
			b.Output("y", x.Rope(pos, frontend.RopeTurns(b.RopeScaled(dims, base, factors))))
		})
	}
	g, err := build(4, 100, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	want, err := ir.RopeTurns([]float64{1, 0.05})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range g.Leaves(ir.OpConst) {
		if have := n.Attrs().Data("data"); string(have.Bytes) != string(want.Bytes) {
			t.Errorf("turns are %v, want %v", have, want)
		}
	}
	for _, tt := range []struct {
		dims    int
		base    float64
		factors []float64
		want    string
	}{
		{4, 100, []float64{1}, "1 factors for 4 elements: want one factor per pair"},
		{3, 100, []float64{1}, "1 factors for 3 elements: want one factor per pair"},
		{-2, 100, nil, "0 factors for -2 elements: want one factor per pair"},
		{4, 0, []float64{1, 1}, "the base of the angles is 0: want a positive number"},
		{4, math.Inf(1), []float64{1, 1}, "the base of the angles is +Inf: want a positive number"},
		{4, 100, []float64{1, -1}, "factor 1 of the rotary angles is -1: want a positive number"},
		{4, 100, []float64{math.NaN(), 1}, "factor 0 of the rotary angles is NaN: want a positive number"},
	} {
		if _, err := build(tt.dims, tt.base, tt.factors...); err == nil || !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("%d elements, base %v, %v: %v, want %q", tt.dims, tt.base, tt.factors, err, tt.want)
		}
	}
}
