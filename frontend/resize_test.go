package frontend_test

import (
	"math"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestResizeBy: elements lie where the factor says, whatever became of it when extents were rounded down, and extents
// of symbols follow.
func TestResizeBy(t *testing.T) {
	in := map[string]*ir.Data{"x": randomFloats(t, 1, 5)}
	x, err := in["x"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	out := runGrads(t, in, nil, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 5)
		b.Output("nearest", x.ResizeBy(frontend.Nearest, []float64{1.5}))
		b.Output("linear", x.ResizeBy(frontend.Linear, []float64{0.7}))
		b.Output("grown", x.ResizeBy(frontend.Nearest, []float64{2}, 12))
	})
	edge := func(i int) float64 { return x[min(max(i, 0), 4)] }
	want := map[string][]float64{}
	for i := range 7 {
		want["nearest"] = append(want["nearest"], edge(int(float64(i)/1.5)))
	}
	for i := range 3 {
		c := (float64(i)+0.5)*10/7 - 0.5
		at := math.Floor(c)
		want["linear"] = append(want["linear"], edge(int(at))*(1-c+at)+edge(int(at)+1)*(c-at))
	}
	for i := range 12 {
		want["grown"] = append(want["grown"], edge(i/2))
	}
	for name, w := range want {
		d, err := ir.FromFloats(ir.F32, w, len(w))
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, name, out[name], d, 1e-6)
	}
	g, err := frontend.Build("symbols", func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, b.Sym("T", 9)).ResizeBy(frontend.Linear, []float64{1.5}))
	})
	if err != nil {
		t.Fatal(err)
	}
	if have := g.Outputs()[0].Node.Shape().String(); have != "[T+floor(T/2)]" {
		t.Errorf("the extent is %s", have)
	}
	if _, err := frontend.Build("t", func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 5).ResizeBy(frontend.Linear, []float64{math.Pi}))
	}); err == nil {
		t.Error("a factor that is no fraction is taken")
	}
}

// TestFraction: factors are the fractions that f32 rounds to them.
func TestFraction(t *testing.T) {
	for _, tt := range []struct {
		f        float64
		num, den int64
	}{{1.5, 3, 2}, {float64(float32(0.6)), 3, 5}, {2, 2, 1}, {1.0 / 3, 1, 3}, {4095.0 / 4096, 4095, 4096}, {0, 0, 0},
		{-1, 0, 0}, {math.Pi, 0, 0}, {math.NaN(), 0, 0}, {math.Inf(1), 0, 0}, {1e-9, 0, 0}} {
		if num, den, ok := frontend.Fraction(tt.f); num != tt.num || den != tt.den || ok != (tt.num > 0) {
			t.Errorf("%v is %d/%d, %v", tt.f, num, den, ok)
		}
	}
}
