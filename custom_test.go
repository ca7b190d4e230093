package vkc_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/kernel/keval"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime"
)

// snake is x + sin(alpha*x)^2/alpha, a custom op of one element.
var snake = ir.MustRegisterCustom(ir.CustomOp{
	Name: "testcustom.snake", Doc: "x + sin(alpha*x)^2/alpha.",
	Args:  []ir.ArgInfo{{Name: "x"}, {Name: "alpha"}},
	Attrs: []ir.AttrInfo{{Name: "eps", Kind: ir.AttrFloat, Default: 1e-6}, {Name: "negate", Kind: ir.AttrBool, Default: false}, {Name: "times", Kind: ir.AttrInt, Default: int64(1)}},
	Body: `float s = sin(alpha * x);
for (int i = 1; i < times; ++i) s *= s;
float y = x + s * s / (alpha + eps);
return negate ? -y : y;`,
	Float: func(x []float64, a ir.Attrs) float64 {
		s := math.Sin(x[1] * x[0])
		for range a.Int("times") - 1 {
			s *= s
		}
		y := x[0] + s*s/(x[1]+a.Float("eps"))
		if a.Bool("negate") {
			return -y
		}
		return y
	},
	Tol: ir.Tolerance{Eps: 64, Abs: 1e-5},
})

// deviceOnly has no Go reference.
var deviceOnly = ir.MustRegisterCustom(ir.CustomOp{Name: "testcustom.device_only", Args: []ir.ArgInfo{{Name: "x"}}, Expr: "x * 2.0"})

// broken does not compile: the second line of Body names what is not there.
var broken = ir.MustRegisterCustom(ir.CustomOp{Name: "testcustom.broken", Args: []ir.ArgInfo{{Name: "x"}},
	Body: "float y = x;\nreturn y + missing_thing;"})

// build makes a graph or fails the test.
func build(t *testing.T, define func(b *frontend.Builder)) *ir.Graph {
	t.Helper()
	g, err := frontend.Build("custom", define)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func snakeGraph(t *testing.T) *ir.Graph {
	return build(t, func(b *frontend.Builder) {
		x, alpha := b.Input("x", ir.F32, 6, 8), b.Input("alpha", ir.F32, 8)
		y := frontend.CustomOp(snake, []frontend.Tensor{x.Exp(), alpha}, frontend.Attr("times", 2))
		z := frontend.CustomOp(snake, []frontend.Tensor{y.Cast(ir.F16), alpha.Cast(ir.F16)}, frontend.Attr("negate", true))
		b.Output("y", y.Relu())
		b.Output("z", z)
	})
}

func TestCustomScalarFuses(t *testing.T) {
	low, err := vkc.Lower(snakeGraph(t), profile(t, "lavapipe"))
	if err != nil {
		t.Fatal(err)
	}
	if len(low.GLSL) != 1 {
		t.Fatalf("%d kernels, want 1", len(low.GLSL))
	}
	if n := strings.Count(low.GLSL[0], "float custom_testcustom_snake(float x, float alpha, float eps, bool negate, int times) {"); n != 1 {
		t.Errorf("the function is there %d times, want once:\n%s", n, low.GLSL[0])
	}
}

func profile(t *testing.T, name string) target.Caps {
	t.Helper()
	caps, err := target.Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

func TestCustomScalarRuns(t *testing.T) {
	checkOnDevice(t, snakeGraph(t))
}

// checkOnDevice runs a graph a few times, at several symbol values, on a device,
// on the reference backend and through the host evaluator, and compares each
// with the reference.
func checkOnDevice(t *testing.T, g *ir.Graph) {
	t.Helper()
	needTools(t)
	ownCache(t)
	t.Run("evaluator", func(t *testing.T) { checkEvaluated(t, g) })
	for _, name := range []string{"cpu", "auto"} {
		t.Run(name, func(t *testing.T) {
			dev := openDevice(t)
			if name == "cpu" {
				var err error
				if dev, err = vkc.OpenDevice(name); err != nil {
					t.Fatal(err)
				}
			}
			checkOn(t, dev, g)
		})
	}
}

func checkOn(t *testing.T, dev *vkc.Device, g *ir.Graph) {
	t.Helper()
	ctx := context.Background()
	p, err := dev.Compile(ctx, g, vkc.CompileOptions{Validate: true})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	checker, err := vkc.NewChecker(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, 1, 16} {
		in := inputs(t, g, n)
		res, err := exe.Run(ctx, in, runtime.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		report, err := checker.Check(ctx, exe, in, nil, res.Outputs)
		if err != nil {
			t.Fatal(err)
		}
		if err := report.Err(); err != nil || len(report.Values) == 0 {
			t.Errorf("symbols at %d: %v", n, err)
		}
	}
}

// inputs are random tensors for the inputs of g, every symbol being n.
func inputs(t *testing.T, g *ir.Graph, n int) map[string]*ir.Data {
	t.Helper()
	symbols := map[string]int64{}
	for _, s := range g.Symbols() {
		symbols[s] = int64(n)
	}
	in := map[string]*ir.Data{}
	for _, x := range g.Leaves(ir.OpInput) {
		dims, err := x.Shape().Eval(symbols)
		if err != nil {
			t.Fatal(err)
		}
		in[x.Name()] = noise(t, dims...)
	}
	return in
}

// checkEvaluated runs the kernels on the host, in a random order as far as the
// barriers allow, with every access checked.
func checkEvaluated(t *testing.T, g *ir.Graph) {
	t.Helper()
	s, err := passes.Run(g, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := keval.New(s.Program, s.Kernels, keval.Options{Order: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		t.Fatal(err)
	}
	checker, err := vkc.NewChecker(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{2, 5} {
		in, symbols := inputs(t, g, int(n)), map[string]int64{}
		for _, s := range g.Symbols() {
			symbols[s] = n
		}
		out, err := m.Run(in, symbols)
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Updates()) > 0 {
			continue // the checker reads states from a device
		}
		report, err := checker.Check(context.Background(), nil, in, nil, out)
		if err != nil || report.Err() != nil {
			t.Errorf("%v %v", err, report.Err())
		}
	}
}

func TestCustomCompileError(t *testing.T) {
	needTools(t)
	ownCache(t)
	g := build(t, func(b *frontend.Builder) {
		b.Output("y", frontend.CustomOp(broken, []frontend.Tensor{b.Input("x", ir.F32, 8)}).Neg())
	})
	_, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{Target: profile(t, "lavapipe")})
	var ce *vkc.CustomOpError
	if !errors.As(err, &ce) || ce.Op != "testcustom.broken" || ce.Part != "Body" || ce.Line != 2 || !strings.Contains(ce.Text, "missing_thing") {
		t.Fatalf("have %v", err)
	}
	t.Log(err)
}

// TestCustomWithoutReference: a device runs the op, and all that would need its
// reference says so by name.
func TestCustomWithoutReference(t *testing.T) {
	needTools(t)
	ownCache(t)
	g := build(t, func(b *frontend.Builder) {
		b.Output("y", frontend.CustomOp(deviceOnly, []frontend.Tensor{b.Input("x", ir.F32, 8)}).Neg())
	})
	ctx, in := context.Background(), map[string]*ir.Data{"x": noise(t, 8)}
	exe, err := openDevice(t).LoadGraph(ctx, g, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	res, err := exe.Run(ctx, in, runtime.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x, _ := in["x"].Floats()
	y, _ := res.Outputs["y"].Floats()
	for i := range x {
		if y[i] != -2*x[i] {
			t.Fatalf("y[%d] is %v, want %v", i, y[i], -2*x[i])
		}
	}
	checker, err := vkc.NewChecker(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = checker.Check(ctx, exe, in, nil, res.Outputs)
	wantError(t, err, "testcustom.device_only", "no Go reference")
	s, err := passes.Run(g, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := keval.New(s.Program, s.Kernels, keval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Run(in, nil)
	wantError(t, err, "testcustom.device_only", "no Go reference")
}
