package ir_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

var x1 = []ir.ArgInfo{{Name: "x"}}

func sameType(c *ir.Call) ([]ir.Type, error) {
	return []ir.Type{{DType: c.DType(0), Shape: c.Shape(0)}}, nil
}

var twice = ir.MustRegisterCustom(ir.CustomOp{Name: "irtest.twice", Args: x1, Expr: "x * factor",
	Attrs: []ir.AttrInfo{{Name: "factor", Kind: ir.AttrFloat, Default: 2.0}}})

// TestRegisterCustomRefuses: invalid ops are rejected when they are registered.
func TestRegisterCustomRefuses(t *testing.T) {
	kernel := func(change func(c *ir.CustomOp)) ir.CustomOp {
		c := ir.CustomOp{Name: "irtest.k", Args: x1, Infer: sameType,
			Kernel: &ir.CustomKernel{Outputs: []string{"y"}, Body: "y[0] = x[0];",
				Workgroup: [3]int{64}, Grid: [3][]ir.GridRule{{{Of: "y", Axis: ir.AllAxes, Tile: 64}}}}}
		change(&c)
		return c
	}
	expr := func(s string) ir.CustomOp { return ir.CustomOp{Name: "irtest.e", Args: x1, Expr: s} }
	body := func(s string) ir.CustomOp { return ir.CustomOp{Name: "irtest.b", Args: x1, Body: s} }
	arg := func(names ...string) ir.CustomOp {
		c := ir.CustomOp{Name: "irtest.a", Expr: "1.0"}
		for _, n := range names {
			c.Args = append(c.Args, ir.ArgInfo{Name: n})
		}
		return c
	}
	for _, tt := range []struct {
		op   ir.CustomOp
		want string
	}{
		{ir.CustomOp{Name: "snake", Args: x1, Expr: "x"}, `must be "package.op"`},
		{ir.CustomOp{Name: "a_b.snake", Args: x1, Expr: "x"}, `must be "package.op"`},
		{ir.CustomOp{Name: "a.b.c", Args: x1, Expr: "x"}, `must be "package.op"`},
		{ir.CustomOp{Name: "a.Snake", Args: x1, Expr: "x"}, `must be "package.op"`},
		{ir.CustomOp{Name: "a.snake__x", Args: x1, Expr: "x"}, `must be "package.op"`},
		{ir.CustomOp{Name: "a." + strings.Repeat("x", 100), Args: x1, Expr: "x"}, `must be "package.op"`},
		{ir.CustomOp{Name: "irtest.twice", Args: x1, Expr: "x"}, "already registered"},
		{ir.CustomOp{Name: "irtest.none", Args: x1}, "of the fields Expr, Body and Kernel"},
		{ir.CustomOp{Name: "irtest.two", Args: x1, Expr: "x", Body: "return x;"}, "of the fields Expr, Body and Kernel"},
		{arg(), "0 arguments"},
		{arg("x", "x"), "the name is taken"},
		{arg("gl_x"), "not a valid name in GLSL"},
		{arg("a__b"), "not a valid name in GLSL"},
		{arg("a b"), "not a valid name in GLSL"},
		{arg("x) { } void f("), "not a valid name in GLSL"},
		{ir.CustomOp{Name: "irtest.v", Args: []ir.ArgInfo{{Name: "x", Variadic: true}}, Expr: "1.0"}, "neither optional nor variadic"},
		{ir.CustomOp{Name: "irtest.at", Args: x1, Expr: "x", Attrs: []ir.AttrInfo{{Name: "s", Kind: ir.AttrString}}}, "want kind int, float or bool"},
		{ir.CustomOp{Name: "irtest.at", Args: x1, Expr: "x", Attrs: []ir.AttrInfo{{Name: "output", Kind: ir.AttrInt}}}, "vkc itself uses this name"},
		{ir.CustomOp{Name: "irtest.at", Args: x1, Expr: "x", Attrs: []ir.AttrInfo{{Name: "s", Kind: ir.AttrInt, Default: 1.5}}}, "default 1.5"},
		{expr("x; x"), "semicolon"},
		{expr("x // y"), "comment"},
		{expr("(x"), `'(' is not closed`},
		{expr("x) + (x"), "closes nothing"},
		{body("return x;\n}\nvoid f() {"), `Body line 2: '}' closes nothing`},
		{body("/* return x;"), "no end"},
		{body("return x;\n#version 460"), "Body line 2: preprocessor"},
		{body("return x; // \\\n}"), "backslashes"},
		{body("return x;\x00"), "control characters"},
		{body("return \xff;"), "UTF-8"},
		{body(strings.Repeat("x", 1<<17)), "at most"},
		{kernel(func(c *ir.CustomOp) { c.Infer = nil }), "a kernel needs it"},
		{kernel(func(c *ir.CustomOp) { c.Kernel.Outputs = nil }), "field Outputs has 0 names"},
		{kernel(func(c *ir.CustomOp) { c.Kernel.Outputs = []string{"x"} }), "the name is taken"},
		{kernel(func(c *ir.CustomOp) { c.Kernel.Outputs = []string{"x_size"} }), "are for extents"},
		{kernel(func(c *ir.CustomOp) { c.Kernel.Body = "" }), "neither field Body nor SPIRV"},
		{kernel(func(c *ir.CustomOp) { c.Kernel.Workgroup = [3]int{64, 64} }), "1024"},
		{kernel(func(c *ir.CustomOp) { c.Kernel.Workgroup = [3]int{-1} }), "field Workgroup is [-1 1 1]"},
		{kernel(func(c *ir.CustomOp) { c.Kernel.Grid[1] = []ir.GridRule{{Of: "z", Tile: 1}} }), "field Grid, dimension 1"},
		{kernel(func(c *ir.CustomOp) { c.Kernel.Grid[1] = []ir.GridRule{{Of: "x"}} }), "a tile of at least 1"},
		{kernel(func(c *ir.CustomOp) { c.Kernel.Zeroed = []string{"x"} }), "field Zeroed"},
		{kernel(func(c *ir.CustomOp) { c.Kernel.Zeroed = []string{"y", "y"} }), "field Zeroed"},
		{kernel(func(c *ir.CustomOp) { c.Kernel.Shared = "shared float s[64];" }), "SharedBytes"},
		{kernel(func(c *ir.CustomOp) { c.Kernel.Shared = "}" }), "Shared line 1"},
		{kernel(func(c *ir.CustomOp) { c.Float = func([]float64, ir.Attrs) float64 { return 0 } }), "set Reference instead"},
	} {
		if _, err := ir.RegisterCustom(tt.op); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: have error %v, want one with %q", tt.op.Name, err, tt.want)
		}
	}
}

// TestCustomRoundTrip takes a graph with a custom op through text and JSON.
func TestCustomRoundTrip(t *testing.T) {
	g := ir.NewGraph("g")
	x, err := g.Add(ir.OpInput, nil,
		[]ir.Attr{{Name: "name", Value: "x"}, {Name: "dtype", Value: ir.F32},
			{Name: "shape", Value: ir.ShapeOf(4)}}, "")
	if err != nil {
		t.Fatal(err)
	}
	y, err := g.Add(twice, []*ir.Node{x}, []ir.Attr{{Name: "factor", Value: 3.0}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Output("y", y); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(g.String(), "%1 = irtest.twice %0 {factor=3.0} : f32[4]") {
		t.Errorf("printed as\n%s", g)
	}
	text, err := ir.Parse(g.String())
	if err != nil || text.HashString() != g.HashString() {
		t.Errorf("from text: %v", err)
	}
	raw, err := g.MarshalJSONText()
	if err != nil {
		t.Fatal(err)
	}
	read, err := ir.ReadJSON("graph.json", raw)
	if err != nil || read.HashString() != g.HashString() {
		t.Errorf("from JSON: %v", err)
	}
	for what, read := range map[string]func(string) error{
		"JSON": func(s string) error { _, err := ir.ReadJSON("graph.json", []byte(s)); return err },
		"text": func(s string) error { _, err := ir.Parse(s); return err },
	} {
		in := string(raw)
		if what == "text" {
			in = g.String()
		}
		err := read(strings.ReplaceAll(in, "irtest.twice", "acme.snake"))
		if err == nil || !strings.Contains(err.Error(), `"acme.snake" is not registered in this process`) ||
			!strings.Contains(err.Error(), "ir.RegisterCustom") {
			t.Errorf("%s with an op that is not registered: %v", what, err)
		}
	}
}

// TestCustomHash: two ops that differ in their text alone, or in how they are
// dispatched, give graphs of different hashes.
func TestCustomHash(t *testing.T) {
	base := func() ir.CustomOp {
		return ir.CustomOp{Name: "irtest.hash", Args: x1, Infer: sameType,
			Kernel: &ir.CustomKernel{Outputs: []string{"y"}, Body: "y[0] = x[0];"}}
	}
	seen := map[string]int{}
	for i, change := range []func(c *ir.CustomOp){
		func(c *ir.CustomOp) {},
		func(c *ir.CustomOp) { c.Kernel.Body += " " },
		func(c *ir.CustomOp) { c.Kernel.Shared = "const float k = 1.0;" },
		func(c *ir.CustomOp) { c.Kernel.Workgroup[1] = 2 },
		func(c *ir.CustomOp) { c.Kernel.SharedBytes = 2 },
		func(c *ir.CustomOp) { c.Kernel.Zeroed = []string{"y"} },
		func(c *ir.CustomOp) { c.Kernel.Grid[0] = []ir.GridRule{{Of: "y", Tile: 2}} },
		func(c *ir.CustomOp) { c.Kernel.Outputs[0] = "z" },
		func(c *ir.CustomOp) { c.Kernel.Needs = []string{"float64"} },
		func(c *ir.CustomOp) { c.Args = []ir.ArgInfo{{Name: "w"}} },
		func(c *ir.CustomOp) { c.Kernel, c.Expr = nil, "x" },
		func(c *ir.CustomOp) { c.Kernel, c.Body = nil, "x" },
	} {
		c := base()
		change(&c)
		if j, ok := seen[c.Definition()]; ok {
			t.Errorf("definitions %d and %d are one", i, j)
		}
		seen[c.Definition()] = i
	}
}

func TestCustomInferChecks(t *testing.T) {
	for _, tt := range []struct {
		infer func(c *ir.Call) ([]ir.Type, error)
		want  string
	}{
		{func(c *ir.Call) ([]ir.Type, error) { return nil, nil }, "0 types for 1 results"},
		{func(c *ir.Call) ([]ir.Type, error) { return []ir.Type{{DType: ir.Q4_0, Shape: c.Shape(0)}}, nil }, "have no block format"},
		{func(c *ir.Call) ([]ir.Type, error) { return []ir.Type{{DType: ir.F32, Shape: ir.ShapeOf(5)}}, nil }, "returns shape [5]"},
	} {
		c := ir.CustomOp{Name: "irtest.infer", Args: x1, Expr: "x", Infer: tt.infer}
		g := ir.NewGraph("g")
		x, err := g.Add(ir.OpInput, nil,
			[]ir.Attr{{Name: "name", Value: "x"}, {Name: "dtype", Value: ir.F32},
				{Name: "shape", Value: ir.ShapeOf(4)}}, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Results(&ir.Call{Args: []*ir.Node{x}}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("have %v, want %q", err, tt.want)
		}
	}
}
