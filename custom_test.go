package vkc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
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
var deviceOnly = ir.MustRegisterCustom(ir.CustomOp{Name: "testcustom.device_only", Args: []ir.ArgInfo{{Name: "x"}},
	Expr: "x * 2.0"})

// broken does not compile: the second line of Body uses an undefined name.
var broken = ir.MustRegisterCustom(ir.CustomOp{Name: "testcustom.broken", Args: []ir.ArgInfo{{Name: "x"}},
	Body: "float y = x;\nreturn y + missing_thing;"})

func snakeGraph(t *testing.T) *ir.Graph {
	return devtest.Build(t, func(b *frontend.Builder) {
		x, alpha := b.Input("x", ir.F32, 6, 8), b.Input("alpha", ir.F32, 8)
		y := frontend.CustomOp(snake, []frontend.Tensor{x.Exp(), alpha}, frontend.Attr("times", 2))
		z := frontend.CustomOp(snake, []frontend.Tensor{y.Cast(ir.F16), alpha.Cast(ir.F16)},
			frontend.Attr("negate", true))
		b.Output("y", y.Relu())
		b.Output("z", z)
	})
}

func TestCustomScalarFuses(t *testing.T) {
	low, err := compiler.Lower(context.Background(), snakeGraph(t), devtest.Profile(t, "lavapipe"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(low.GLSL) != 1 {
		t.Fatalf("%d kernels, want 1", len(low.GLSL))
	}
	if n := strings.Count(low.GLSL[0], "float custom_testcustom_snake(float x, float alpha, float eps, bool negate, "+
		"int times) {"); n != 1 {
		t.Errorf("the function is there %d times, want once:\n%s", n, low.GLSL[0])
	}
}

func TestCustomScalarRuns(t *testing.T) {
	checkOnDevice(t, snakeGraph(t))
}

// checkOnDevice runs a graph a few times, at several symbol values, on a device,
// on the reference backend and through the host evaluator, and compares each
// with the reference.
func checkOnDevice(t *testing.T, g *ir.Graph) {
	t.Helper()
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	t.Run("evaluator", func(t *testing.T) { checkEvaluated(t, g) })
	for _, name := range []string{"cpu", "vulkan"} {
		t.Run(name, func(t *testing.T) {
			dev := devtest.OpenDevice(t)
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
	if missing := (*spirv.MissingToolError)(nil); errors.As(err, &missing) {
		p, err = dev.Compile(ctx, g, vkc.CompileOptions{}) // where there is no spirv-val
	}
	if err != nil {
		t.Fatal(err)
	}
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	checker, err := check.New(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, 1, 16} {
		in := inputs(t, g, n)
		res, err := exe.Run(ctx, in)
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
		in[x.Name()] = devtest.Noise(t, dims...)
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
	checker, err := check.New(g, nil)
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
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	g := devtest.Build(t, func(b *frontend.Builder) {
		b.Output("y", frontend.CustomOp(broken, []frontend.Tensor{b.Input("x", ir.F32, 8)}).Neg())
	})
	_, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{Target: devtest.Profile(t, "lavapipe")})
	var ce *vkc.CustomOpError
	if !errors.As(err, &ce) || ce.Op != "testcustom.broken" || ce.Part != "Body" || ce.Line != 2 ||
		!strings.Contains(ce.Text, "missing_thing") {
		t.Fatalf("have %v", err)
	}
	t.Log(err)
}

// TestCustomWithoutReference: a device runs the op, and all that would need its
// reference says so by name.
func TestCustomWithoutReference(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	g := devtest.Build(t, func(b *frontend.Builder) {
		b.Output("y", frontend.CustomOp(deviceOnly, []frontend.Tensor{b.Input("x", ir.F32, 8)}).Neg())
	})
	ctx, in := context.Background(), map[string]*ir.Data{"x": devtest.Noise(t, 8)}
	exe, err := devtest.OpenDevice(t).LoadGraph(ctx, g, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	res, err := exe.Run(ctx, in)
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
	checker, err := check.New(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = checker.Check(ctx, exe, in, nil, res.Outputs)
	devtest.WantError(t, err, "testcustom.device_only", "no Go reference")
	s, err := passes.Run(g, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := keval.New(s.Program, s.Kernels, keval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Run(in, nil)
	devtest.WantError(t, err, "testcustom.device_only", "no Go reference")
}

// prefix computes the running sum of every row and the row's total, a workgroup
// per row: two results, shared memory, extents of symbols, attributes.
var prefix = ir.MustRegisterCustom(ir.CustomOp{
	Name: "testcustom.prefix", Doc: "Running sums along the rows of x, scaled, and their totals.",
	Args:  []ir.ArgInfo{{Name: "x"}, {Name: "shift"}},
	Attrs: []ir.AttrInfo{{Name: "scale", Kind: ir.AttrFloat, Default: 1.0}, {Name: "skip", Kind: ir.AttrInt, Default: int64(0)}},
	Infer: func(c *ir.Call) ([]ir.Type, error) {
		x := c.Args[0].Type()
		if x.DType != ir.F32 || len(x.Shape) != 2 ||
			!c.Args[1].Type().Equal(ir.Type{DType: ir.F32, Shape: x.Shape[1:]}) {
			return nil, fmt.Errorf("want x f32[rows, columns] and shift f32[columns]")
		}
		return []ir.Type{x, {DType: ir.F32, Shape: x.Shape[:1]}}, nil
	},
	Kernel: &ir.CustomKernel{
		Outputs: []string{"sums", "total"}, Workgroup: [3]int{64}, SharedBytes: 64 * 4,
		Grid:   [3][]ir.GridRule{{{Of: "x", Axis: 0, Tile: 1}}},
		Shared: "shared float part[64];\n\nfloat scaled(float v) { return v * scale; }",
		Body: `uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
float carry = 0.0;
for (uint first = 0u; first < x_dim1; first += 64u) {
    uint column = first + lane;
    bool inside = column < x_dim1 && column >= uint(skip);
    part[lane] = inside ? x[row * x_dim1 + column] + shift[column] : 0.0;
    barrier();
    for (uint d = 1u; d < 64u; d *= 2u) {
        float left = lane >= d ? part[lane - d] : 0.0;
        barrier();
        part[lane] += left;
        barrier();
    }
    if (column < x_dim1) sums[row * x_dim1 + column] = scaled(carry + part[lane]);
    carry += part[63];
    barrier();
}
if (lane == 0u) total[row] = scaled(carry);`,
	},
	Reference: func(args []*ir.Data, a ir.Attrs) ([]*ir.Data, error) {
		x, err := args[0].Floats()
		if err != nil {
			return nil, err
		}
		shift, err := args[1].Floats()
		if err != nil {
			return nil, err
		}
		rows, columns := args[0].Dims[0], args[0].Dims[1]
		sums, totals := make([]float64, len(x)), make([]float64, rows)
		for r := range rows {
			carry := 0.0
			for c := range columns {
				if c >= a.Int("skip") {
					carry += x[r*columns+c] + shift[c]
				}
				sums[r*columns+c] = carry * a.Float("scale")
			}
			totals[r] = carry * a.Float("scale")
		}
		s, err := ir.FromFloats(ir.F32, sums, rows, columns)
		if err != nil {
			return nil, err
		}
		t, err := ir.FromFloats(ir.F32, totals, rows)
		return []*ir.Data{s, t}, err
	},
	Tol: ir.Tolerance{Eps: 64, Sum: true},
})

// TestCustomKernelRuns puts a custom kernel between fused ones: computed
// arguments, views and iotas as arguments, results that are used, unused,
// outputs and new values of states, extents that a symbol decides.
func TestCustomKernelRuns(t *testing.T) {
	tensors := func(list ...frontend.Tensor) []frontend.Tensor { return list }
	for name, define := range map[string]func(b *frontend.Builder){
		"outputs": func(b *frontend.Builder) {
			out := frontend.CustomOps(prefix, tensors(b.Input("x", ir.F32, 5, 100), b.Input("shift", ir.F32, 100)),
				frontend.Attr("skip", 3))
			b.Output("sums", out[0])
			b.Output("totals", out[1])
		},
		"in the middle": func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, b.Sym("T", 16), 70)
			shift := b.Iota(ir.F32, 0, 70)
			out := frontend.CustomOps(prefix, tensors(x.Tanh().Neg(), shift), frontend.Attr("scale", 0.5))
			b.Output("normed", out[0].MulScalar(0.1).Add(x).Softmax(1))
			b.Output("loud", out[1].Exp().Unsqueeze(1).Min(x))
		},
		"second result alone": func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 7, b.Sym("T", 16))
			b.Output("totals", frontend.CustomOps(prefix, tensors(x, x.Index(0, 3)))[1].Neg())
		},
		"a product of symbols": func(b *frontend.Builder) {
			n := b.Sym("T", 16)
			x := b.Input("x", ir.F32, 3, n, n.Plus(1))
			rows := x.Reshape(3, -1)
			out := frontend.CustomOps(prefix, tensors(rows, rows.Index(0, 1)))
			b.Output("sums", out[0].Reshape(x.Shape()))
			b.Output("totals", out[1])
		},
		"of views and of one another": func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 66, 9)
			first := frontend.CustomOps(prefix, tensors(x.T(), b.Const([]float32{1}).Broadcast(66)))
			second := frontend.CustomOps(prefix, tensors(first[0], first[0].Sum(0)), frontend.Attr("scale", 0.25))
			same := frontend.CustomOps(prefix, tensors(first[0], first[0].Sum(0)), frontend.Attr("scale", 0.25))
			b.Output("y", second[0].Add(same[1].Unsqueeze(1)).Add(first[1].Unsqueeze(1)))
		},
		"states": func(b *frontend.Builder) {
			x, s := b.Input("x", ir.F32, 4, 8), b.State("s", ir.F32, 4, 8)
			out := frontend.CustomOps(prefix, tensors(s.Add(x), x.Sum(0)))
			b.Update(s, out[0])
			b.Output("y", out[1].Add(frontend.CustomOps(prefix, tensors(s, x.Sum(0)))[1]))
		},
	} {
		t.Run(name, func(t *testing.T) { checkOnDevice(t, devtest.Build(t, define)) })
	}
}

// TestCustomKernelText checks the generated shader of a custom kernel with a symbol, shared memory and attributes.
func TestCustomKernelText(t *testing.T) {
	g := devtest.Build(t, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("T", 16), 70)
		b.Output("y", frontend.CustomOp(prefix, []frontend.Tensor{x, b.Iota(ir.F32, 0, 70)}))
	})
	low, err := compiler.Lower(context.Background(), g, devtest.Profile(t, "lavapipe"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"readonly buffer Custom_buffer_0 { float x[]; };",
		"writeonly buffer Custom_buffer_3 { float total[]; };",
		"\nconst uint x_dim1 = 70u;\nconst float scale = 1.0;\nconst int skip = 0;\n",
		"// >>> custom op testcustom.prefix Shared\nshared float part[64];\n",
	} {
		if !strings.Contains(low.GLSL[1], want) {
			t.Errorf("the text has no %q:\n%s", want, low.GLSL[1])
		}
	}
	if strings.Contains(low.GLSL[1], "params") || strings.Contains(low.GLSL[1], "x_dim0") {
		t.Errorf("the text declares what it does not use:\n%s", low.GLSL[1])
	}
}

// A kernel of any device may call a custom op, also from a function that stores the elements of a tile.
func TestCustomAfterMatMul(t *testing.T) {
	devtest.NeedTools(t)
	g := devtest.Build(t, func(b *frontend.Builder) {
		x := b.Input("x", ir.I8, 160, 64)
		y := x.MatMul(b.Input("w", ir.I8, 64, 160)).Cast(ir.F32)
		b.Output("y", frontend.CustomOp(snake, []frontend.Tensor{y, b.Input("alpha", ir.F32, 160)}))
	})
	for _, name := range device.Kinds() {
		_, err := vkc.Compile(t.Context(), g, vkc.CompileOptions{Target: devtest.Profile(t, name)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Custom kernels may use each feature that docs/CUSTOM-OPS.md lists, when they ask for it.
func TestCustomNeeds(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	for need, body := range map[string]string{
		"float16":             "y[i] = float(float16_t(x[i]) * float16_t(2.0));",
		"int8":                "y[i] = float(int8_t(x[i]) + int8_t(1));",
		"int16":               "y[i] = float(int16_t(x[i]) + int16_t(1));",
		"int64":               "y[i] = float(int64_t(x[i]) << 3);",
		"float64":             "y[i] = float(double(x[i]) * 3.0lf);",
		"subgroup_basic":      "y[i] = x[i] + float(gl_SubgroupID);",
		"subgroup_shuffle":    "y[i] = subgroupShuffle(x[i], 0u);",
		"subgroup_arithmetic": "y[i] = subgroupAdd(x[i]);",
		"atomicFloat32Add":    "atomicAdd(y[i], x[i]);",
	} {
		g := copying(t, "needs_"+strings.ToLower(need), ir.F32, 64, func(c *ir.CustomOp) {
			c.Kernel.Needs, c.Kernel.Body = []string{need}, "uint i = gl_GlobalInvocationID.x;\n"+body
			if strings.HasPrefix(need, "atomic") {
				c.Kernel.Zeroed = c.Kernel.Outputs
			}
		})
		p, err := vkc.Compile(t.Context(), g, vkc.CompileOptions{Target: devtest.Profile(t, "nvidia-h100")})
		if err != nil {
			t.Errorf("%s: %v", need, err)
			continue
		}
		shaders := p.Contents.Program.Shaders
		// The first shader clears the Zeroed results.
		if last := shaders[len(shaders)-1]; !slices.Contains(last.Needs, need) {
			t.Errorf("%s: the shader needs %v", need, last.Needs)
		}
	}
}

// kernelOp registers a kernel that copies x to y, changed.
func kernelOp(t *testing.T, name string, change func(c *ir.CustomOp)) ir.Op {
	t.Helper()
	c := ir.CustomOp{Name: "testcustom." + name, Args: []ir.ArgInfo{{Name: "x"}},
		Infer: func(c *ir.Call) ([]ir.Type, error) { return []ir.Type{c.Args[0].Type()}, nil },
		Kernel: &ir.CustomKernel{Outputs: []string{"y"}, Workgroup: [3]int{64},
			Grid: [3][]ir.GridRule{{{Of: "y", Axis: ir.AllAxes, Tile: 64}}},
			Body: "uint i = gl_GlobalInvocationID.x;\nif (i < y_size) y[i] = x[i];"}}
	change(&c)
	op, err := ir.RegisterCustom(c)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

var ops = map[string]ir.Op{} // registered by tests, which may run several times

// copying is a graph with such an op, which is registered once per process.
func copying(t *testing.T, name string, dt ir.DType, n int, change func(c *ir.CustomOp)) *ir.Graph {
	t.Helper()
	if ops[name] == 0 {
		ops[name] = kernelOp(t, name, change)
	}
	return devtest.Build(t, func(b *frontend.Builder) {
		b.Output("y", frontend.CustomOp(ops[name], []frontend.Tensor{b.Input("x", dt, n)}))
	})
}

// TestCustomKernelRefused: errors for kernels that a device or the generator does not support have the op's name.
// Errors in the GLSL source have its line numbers.
func TestCustomKernelRefused(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	for _, tt := range []struct {
		name   string
		n      int
		change func(c *ir.CustomOp)
		want   string
	}{
		{"many_groups", 1 << 24, func(c *ir.CustomOp) { c.Kernel.Grid[0][0].Tile = 1 }, "custom op testcustom.many_groups: grid dimension 0 has up to 16777216 workgroups"},
		{"bad_axis", 8, func(c *ir.CustomOp) { c.Kernel.Grid[0][0].Axis = 3 }, "custom op testcustom.bad_axis: grid dimension 0: y is f32[8]: axis 3"},
		{"much_shared", 8, func(c *ir.CustomOp) { c.Kernel.SharedBytes = 1 << 19 }, "524288 bytes of shared memory"},
		{"bad_need", 8, func(c *ir.CustomOp) { c.Kernel.Needs = []string{"teleport"} }, "teleport"},
		{"no_use_of_need", 8, func(c *ir.CustomOp) { c.Kernel.Needs = []string{"timeline"} }, "none that a custom kernel can use"},
		{"reserved_name", 8, func(c *ir.CustomOp) { c.Args[0].Name = "sample" }, `"sample" cannot name`},
		{"shared_fault", 8, func(c *ir.CustomOp) { c.Kernel.Shared = "const float a = 1.0;\nfloat f() { return nothing; }" }, "custom op testcustom.shared_fault: Shared line 2: 'nothing'"},
		{"body_fault", 8, func(c *ir.CustomOp) { c.Kernel.Body = "\n\ny[0] = x[0] +;" }, "custom op testcustom.body_fault: Body line 3:"},
		{"writes_argument", 8, func(c *ir.CustomOp) { c.Kernel.Body = "x[0] = 1.0;" }, "custom op testcustom.writes_argument: Body line 1:"},
		{"reads_result", 8, func(c *ir.CustomOp) { c.Kernel.Body = "y[0] = y[1];" }, "custom op testcustom.reads_result: Body line 1:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := copying(t, tt.name, ir.F32, tt.n, tt.change)
			_, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{Target: devtest.Profile(t, "lavapipe")})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("have %v, want %q", err, tt.want)
			}
		})
	}
}

// TestCustomKernelDTypes copies elements of every dtype that a custom op can have.
func TestCustomKernelDTypes(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev := devtest.OpenDevice(t)
	var dtypes []ir.DType
	var graphs []*ir.Graph
	for _, dt := range ir.DTypes() {
		if dt.IsBlock() || dt.StorageOnly() || dt == ir.F64 && !dev.Caps().Has("float64") ||
			dt == ir.I64 && !dev.Caps().Has("int64") {
			continue
		}
		dtypes, graphs = append(dtypes, dt), append(graphs, copying(t, "copy", dt, 67, func(*ir.CustomOp) {}))
	}
	devtest.CompileShaders(t, dev.Caps(), graphs...)
	for i, dt := range dtypes {
		g := graphs[i]
		in, err := ir.NewData(dt, 67)
		if err != nil {
			t.Fatal(err)
		}
		for i := range in.Bytes {
			in.Bytes[i] = byte(i % 2)
		}
		exe, err := dev.LoadGraph(context.Background(), g, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := exe.Run(context.Background(), map[string]*ir.Data{"x": in})
		if err != nil || !bytes.Equal(res.Outputs["y"].Bytes, in.Bytes) {
			t.Errorf("%s: copied otherwise, %v", dt, err)
		}
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCustomReferenceChecked: a reference that gives other results than the op's
// Infer is an error that names the op.
func TestCustomReferenceChecked(t *testing.T) {
	for name, tt := range map[string]struct {
		ref  func([]*ir.Data, ir.Attrs) ([]*ir.Data, error)
		want string
	}{
		"ref_none": {nil, "because it has no Go reference"},
		"ref_few":  {func([]*ir.Data, ir.Attrs) ([]*ir.Data, error) { return nil, nil }, "0 results, want 1"},
		"ref_nil":  {func([]*ir.Data, ir.Attrs) ([]*ir.Data, error) { return []*ir.Data{nil}, nil }, "result 0 is nil"},
		"ref_other": {func([]*ir.Data, ir.Attrs) ([]*ir.Data, error) {
			d, err := ir.NewData(ir.F32, 9)
			return []*ir.Data{d}, err
		}, "want f32[8]"},
		"ref_error": {func([]*ir.Data, ir.Attrs) ([]*ir.Data, error) { return nil, errors.New("no luck") }, "reference of custom op testcustom.ref_error: no luck"},
	} {
		g := copying(t, name, ir.F32, 8, func(c *ir.CustomOp) { c.Reference = tt.ref })
		dev, err := vkc.OpenDevice("cpu")
		if err != nil {
			t.Fatal(err)
		}
		exe, err := dev.LoadGraph(context.Background(), g, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = exe.Run(context.Background(), map[string]*ir.Data{"x": devtest.Noise(t, 8)})
		devtest.WantError(t, err, tt.want)
		s, err := passes.Run(g, passes.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := keval.New(s.Program, s.Kernels, keval.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Run(map[string]*ir.Data{"x": devtest.Noise(t, 8)}, nil)
		devtest.WantError(t, err, tt.want)
	}
}

// TestCustomBundle saves a program with a custom op and opens it again; one that
// was compiled with other text under the op's name is refused.
func TestCustomBundle(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	g := devtest.Build(t, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 4, 8)
		b.Output("y", frontend.CustomOps(prefix, []frontend.Tensor{x, x.Sum(0)})[1])
	})
	p, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{Target: devtest.Profile(t, "lavapipe")})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "custom.vkb")
	if err := p.Save(path, nil); err != nil {
		t.Fatal(err)
	}
	opened, err := vkc.OpenBundle(path)
	if err != nil {
		t.Fatal(err)
	}
	if opened.Contents.Graph.HashString() != g.HashString() {
		t.Error("the graph has another hash")
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
	p.Contents.Program.GraphHash = strings.Repeat("0", 64)
	other := filepath.Join(t.TempDir(), "other.vkb")
	if err := p.Save(other, nil); err != nil {
		t.Fatal(err)
	}
	_, err = vkc.OpenBundle(other)
	devtest.WantError(t, err, "another definition of testcustom.prefix")
}

// TestCustomExamples runs the ops of the package's examples on a device.
func TestCustomExamples(t *testing.T) {
	t.Run("softcap", func(t *testing.T) {
		checkOnDevice(t, devtest.Build(t, func(b *frontend.Builder) {
			b.Output("y", frontend.CustomOp(softcap, []frontend.Tensor{b.Input("x", ir.F32, 4, 64)},
				frontend.Attr("limit", 0.5)))
		}))
	})
	t.Run("reverse_rows", func(t *testing.T) {
		checkOnDevice(t, devtest.Build(t, func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, b.Sym("N", 64), 200)
			b.Output("y", frontend.CustomOp(reverseRows, []frontend.Tensor{x.Neg()}).AddScalar(1))
		}))
	})
}
