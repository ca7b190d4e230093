package optim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/optim"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// golden is the output of golden/optim/make.py.
type golden struct {
	Steps []struct {
		Op        string
		Shape     []int
		Constants struct {
			LR, B1, B2, Eps, WD, Mu float64
			Nesterov, Plain         bool
			Steps                   int
		}
		P     []float64
		Steps []struct {
			Grad, P []float64
			Memory  [][]float64
		}
	}
	Clip []struct {
		Max     float64
		Shapes  [][]int
		Grads   [][]float64
		Norm    float64
		Clipped [][]float64
	}
}

func readGolden(t *testing.T) golden {
	t.Helper()
	raw, err := os.ReadFile("../../golden/optim/steps.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func dims(n []int) []frontend.Dim {
	var d []frontend.Dim
	for _, x := range n {
		d = append(d, x)
	}
	return d
}

func data(t *testing.T, v []float64, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.FromFloats(ir.F32, v, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func near(t *testing.T, what string, have *ir.Data, want []float64, tol float64) {
	t.Helper()
	v, err := have.Floats()
	if err != nil || len(v) != len(want) {
		t.Fatalf("%s: %d values, want %d: %v", what, len(v), len(want), err)
	}
	for i := range v {
		if !(math.Abs(v[i]-want[i]) <= tol*(1+math.Abs(want[i]))) {
			t.Fatalf("%s[%d] is %v, want %v", what, i, v[i], want[i])
		}
	}
}

func build(t *testing.T, define func(b *frontend.Builder)) *interp.Program {
	t.Helper()
	g, err := frontend.Build("step", define)
	if err != nil {
		t.Fatal(err)
	}
	p, err := interp.New(g, interp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSteps trains a parameter for three steps and compares it and the
// optimizer's memory with NumPy after each.
func TestSteps(t *testing.T) {
	for i, c := range readGolden(t).Steps {
		t.Run(fmt.Sprintf("%d %s", i, c.Op), func(t *testing.T) {
			k, shape := c.Constants, dims(c.Shape)
			memory := 0
			p := build(t, func(b *frontend.Builder) {
				start := b.Input("start", ir.F32, shape...)
				param, m := b.State("p", ir.F32, shape...), b.State("0", ir.F32, shape...)
				step := optim.Steps(b, "step")
				x := step.Eq(step.Lit(1)).Where(start, param)
				grad := b.Input("grad", ir.F32, shape...)
				var p2, m2 frontend.Tensor
				switch c.Op {
				case "adamw":
					memory = 2
					v := b.State("1", ir.F32, shape...)
					a := optim.AdamW{Rate: k.LR, Beta1: k.B1, Beta2: k.B2, Eps: k.Eps, WeightDecay: k.WD}
					var v2 frontend.Tensor
					p2, m2, v2 = a.Step(x, grad, m, v, step)
					b.Update(v, v2)
				case "sgd":
					memory = 1
					p2, m2 = optim.SGD{Rate: k.LR, Momentum: k.Mu, WeightDecay: k.WD,
						Nesterov: k.Nesterov}.Step(x, grad, m)
				case "lion":
					memory = 1
					p2, m2 = optim.Lion{Rate: k.LR, Beta1: k.B1, Beta2: k.B2, WeightDecay: k.WD}.Step(x, grad, m)
				case "muon":
					memory = 1
					o := optim.NewMuon(k.LR)
					o.Momentum, o.WeightDecay, o.Iterations, o.Plain = k.Mu, k.WD, k.Steps, k.Plain
					p2, m2 = o.Step(x, grad, m)
				}
				b.Update(param, p2)
				b.Update(m, m2)
			})
			for n, s := range c.Steps {
				in := map[string]*ir.Data{"start": data(t, c.P, c.Shape...), "grad": data(t, s.Grad, c.Shape...)}
				if _, err := p.Run(context.Background(), in, nil); err != nil {
					t.Fatal(err)
				}
				state := func(name string) *ir.Data {
					d, err := p.State(name)
					if err != nil {
						t.Fatal(err)
					}
					return d
				}
				near(t, fmt.Sprintf("step %d: p", n), state("p"), s.P, 2e-6)
				for j := range memory {
					near(t, fmt.Sprintf("step %d: memory %d", n, j), state(fmt.Sprint(j)), s.Memory[j], 1e-6)
				}
			}
		})
	}
}

// TestClipGlobalNorm compares clipping, and letting pass, with NumPy.
func TestClipGlobalNorm(t *testing.T) {
	for _, c := range readGolden(t).Clip {
		in := map[string]*ir.Data{}
		p := build(t, func(b *frontend.Builder) {
			var grads []frontend.Tensor
			for i, shape := range c.Shapes {
				name := fmt.Sprint(i)
				in[name] = data(t, c.Grads[i], shape...)
				grads = append(grads, b.Input(name, ir.F32, dims(shape)...))
			}
			clipped, norm := optim.ClipGlobalNorm(c.Max, grads...)
			b.Output("norm", norm)
			for i, g := range clipped {
				b.Output(fmt.Sprint(i), g)
			}
		})
		out, err := p.Run(context.Background(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "norm", out["norm"], []float64{c.Norm}, 1e-6)
		for i := range c.Shapes {
			near(t, fmt.Sprint("gradient ", i), out[fmt.Sprint(i)], c.Clipped[i], 1e-6)
		}
	}
}

// TestOrthogonalize: the rows of the result are nearly orthonormal, for wide and
// tall matrices and batches of them.
func TestOrthogonalize(t *testing.T) {
	p := build(t, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 2, 6, 4)
		y := optim.Orthogonalize(x, 5)
		b.Output("gram", y.SwapAxes(-2, -1).MatMul(y))
	})
	v := make([]float64, 48)
	for i := range v {
		v[i] = math.Sin(float64(i*i) + 1)
	}
	out, err := p.Run(context.Background(), map[string]*ir.Data{"x": data(t, v, 2, 6, 4)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	gram, err := out["gram"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range gram {
		if row, col := i/4%4, i%4; row == col && (g < 0.4 || g > 1.6) || row != col && math.Abs(g) > 0.6 {
			t.Errorf("gram %d: [%d,%d] is %v", i/16, row, col, g)
		}
	}
}

// TestRefuses: constants and shapes that make no sense are errors of the build.
func TestRefuses(t *testing.T) {
	for _, tt := range []struct {
		want string
		step func(b *frontend.Builder, x, y frontend.Tensor)
	}{
		{"p is f32[4,6] and grad is f32[4]: want equal shapes", func(b *frontend.Builder, x, y frontend.Tensor) {
			optim.NewAdamW(1).Step(x, y, x, x, b.Scalar(ir.F32, 1))
		}},
		{"want a scalar", func(b *frontend.Builder, x, y frontend.Tensor) { optim.NewAdamW(1).Step(x, x, x, x, y) }},
		{"want betas from 0 to below 1", func(b *frontend.Builder, x, y frontend.Tensor) {
			optim.AdamW{Beta1: 1}.Step(x, x, x, x, b.Scalar(ir.F32, 1))
		}},
		{"want equal shapes", func(b *frontend.Builder, x, y frontend.Tensor) { optim.SGD{}.Step(x, x, y) }},
		{"is not a matrix", func(b *frontend.Builder, x, y frontend.Tensor) { optim.NewMuon(1).Step(y, y, y) }},
		{"-1 iterations", func(b *frontend.Builder, x, y frontend.Tensor) { optim.Orthogonalize(x, -1) }},
		{"must be above 0", func(b *frontend.Builder, x, y frontend.Tensor) { optim.ClipGlobalNorm(0, x) }},
	} {
		_, err := frontend.Build("wrong", func(b *frontend.Builder) {
			tt.step(b, b.Input("x", ir.F32, 4, 6), b.Input("y", ir.F32, 4))
			b.Output("x", b.Scalar(ir.F32, 0))
		})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("have error %v, want %q", err, tt.want)
		}
	}
}

// runTimes builds a graph and runs it some times.
func runTimes(t *testing.T, times int, in func(i int) map[string]*ir.Data,
	define func(b *frontend.Builder)) (outs []map[string]*ir.Data, p *interp.Program) {
	t.Helper()
	p = build(t, define)
	for i := range times {
		out, err := p.Run(context.Background(), in(i), nil)
		if err != nil {
			t.Fatal(err)
		}
		outs = append(outs, out)
	}
	return outs, p
}

// TestSchedules compares rates at single steps with the formulas, worked out by hand.
func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		name     string
		schedule optim.Schedule
		want     map[int]float64
	}{
		{"constant", optim.Constant(0.5), map[int]float64{1: 0.5, 1000: 0.5}},
		{"linear", optim.Linear(1, 0.2, 4), map[int]float64{1: 1, 2: 0.8, 5: 0.2, 9: 0.2}},
		{"cosine", optim.Cosine(1, 0.2, 4), map[int]float64{1: 1, 3: 0.6, 5: 0.2, 9: 0.2}},
		{"warm-up", optim.WarmUp(4, optim.Linear(1, 0.2, 4)), map[int]float64{1: 0.25, 2: 0.5, 4: 1, 5: 1, 6: 0.8, 9: 0.2}},
	} {
		for step, want := range c.want {
			outs, _ := runTimes(t, 1, func(int) map[string]*ir.Data { return nil }, func(b *frontend.Builder) {
				b.Output("rate", c.schedule(b.Const(int32(step))))
			})
			near(t, fmt.Sprintf("%s at step %d", c.name, step), outs[0]["rate"], []float64{want}, 1e-6)
		}
	}
}

// TestAccumulate: three runs of AdamW over parts of a batch are one run over the mean of their gradients.
func TestAccumulate(t *testing.T) {
	grads := [][]float64{{1, -2}, {0.5, 4}, {-3, 1}, {1, 1}}
	adam := optim.NewAdamW(0.1)
	_, parts := runTimes(t, 4, func(i int) map[string]*ir.Data {
		return map[string]*ir.Data{"g": data(t, grads[i], 2)}
	}, func(b *frontend.Builder) {
		params := []frontend.Tensor{b.State("p", ir.F32, 2)}
		mean, due := optim.Accumulate(3, params, []frontend.Tensor{b.Input("g", ir.F32, 2)})
		optim.Train(adam, params, mean, optim.StepsTaken(b, "step", due), optim.TakeIf(due))
	})
	_, whole := runTimes(t, 1, func(int) map[string]*ir.Data {
		return map[string]*ir.Data{"g": data(t, []float64{-0.5, 1}, 2)}
	}, func(b *frontend.Builder) {
		params := []frontend.Tensor{b.State("p", ir.F32, 2)}
		optim.Train(adam, params, []frontend.Tensor{b.Input("g", ir.F32, 2)}, optim.Steps(b, "step"))
	})
	for _, name := range []string{"p", "p.m", "p.v", "step"} {
		want, err := whole.State(name)
		if err != nil {
			t.Fatal(err)
		}
		have, err := parts.State(name)
		if err != nil {
			t.Fatal(err)
		}
		list, _ := want.Floats()
		near(t, name, have, list, 1e-6)
	}
	sum, err := parts.State("p.sum")
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the sum after the fourth run", sum, []float64{1, 1}, 0)
}

// TestLossScale: gradients that overflow change only the scale, and good steps increase it.
func TestLossScale(t *testing.T) {
	inf := math.Inf(1)
	scales := []float64{8, 16, 8, 8, 16} // after each run
	params := []float64{-1, -2, -2, -3, -4}
	grads := []float64{1, 1, inf, 1, 1}
	p := build(t, func(b *frontend.Builder) {
		scale := b.State("scale", ir.F32)
		w := []frontend.Tensor{b.State("w", ir.F32, 1)}
		l := optim.NewLossScale()
		l.Every, l.Max = 2, 32 // instead of 2000 steps
		g := b.Input("g", ir.F16, 1).Mul(scale.Cast(ir.F16))
		out, finite := l.Step(scale, g)
		b.Output("g", out[0])
		optim.Train(optim.SGD{Rate: 1}, w, out, optim.StepsTaken(b, "step", finite), optim.TakeIf(finite))
	})
	first := data(t, []float64{8})
	if err := p.SetState("scale", first); err != nil {
		t.Fatal(err)
	}
	for i, g := range grads {
		in, err := ir.FromFloats(ir.F16, []float64{g}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Run(context.Background(), map[string]*ir.Data{"g": in}, nil); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string][]float64{"scale": {scales[i]}, "w": {params[i]}} {
			have, err := p.State(name)
			if err != nil {
				t.Fatal(err)
			}
			near(t, fmt.Sprintf("%s after run %d", name, i), have, want, 0)
		}
	}
	steps, err := p.State("step")
	if n, _ := steps.Ints(); err != nil || len(n) != 1 || n[0] != 4 {
		t.Errorf("%v steps were taken, want 4: %v", n, err)
	}
}
