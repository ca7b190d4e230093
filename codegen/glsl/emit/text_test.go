package emit

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/lib"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// scratch is an Emitter for tests of its parts.
func scratch() *Emitter {
	return New(&kernel.Kernel{Name: "test"}, kernel.Launch{}, device.Caps{}, []string{"T"})
}

func TestParentheses(t *testing.T) {
	a, b, sum := expr.Of("a"), expr.Of("b"), expr.Of("a + b")
	tests := []struct {
		got  expr.Expr
		want string
	}{
		{expr.Binary("*", sum, b), "(a + b) * b"},
		{expr.Binary("*", b, sum), "b * (a + b)"},
		{expr.Binary("+", sum, sum), "a + b + (a + b)"},
		{expr.Binary("-", a, expr.Binary("-", a, b)), "a - (a - b)"},
		{expr.Binary("+", expr.Binary("*", a, b), expr.Binary("/", a, b)), "a * b + a / b"},
		{expr.Unary("-", sum), "-(a + b)"},
		{expr.Unary("-", expr.Unary("-", a)), "-(-a)"},
		{expr.Unary("-", expr.Number("-1.5")), "-(-1.5)"},
		{expr.Binary("*", expr.Unary("-", a), b), "-a * b"},
		{expr.Call("exp", sum), "exp(a + b)"},
		{expr.Choose(expr.Of("a < b"), sum, b), "a < b ? a + b : b"},
		{expr.Binary("+", expr.Choose(a, a, b), b), "(a ? a : b) + b"},
		{expr.Choose(a, expr.Choose(a, a, b), expr.Choose(b, a, b)), "a ? (a ? a : b) : b ? a : b"},
		{expr.Binary("&", a, expr.Of("a == b")), "a & a == b"},
		{expr.Binary("==", expr.Of("a & b"), b), "(a & b) == b"},
	}
	for _, tt := range tests {
		if tt.got.String() != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}

// TestTemplates fills forms with arguments of every precedence.
func TestTemplates(t *testing.T) {
	sum := expr.Of("x + 1.0")
	tests := []struct{ form, want string }{
		{"-{0}", "-(x + 1.0)"},
		{"{0} * {0}", "(x + 1.0) * (x + 1.0)"},
		{"1.0 / (1.0 + exp(-{0}))", "1.0 / (1.0 + exp(-(x + 1.0)))"},
		{"({0} < 0.0 ? {alpha} * {0} : {0})", "x + 1.0 < 0.0 ? 0.25 * (x + 1.0) : x + 1.0"},
		{"{0} + {1}", "x + 1.0 + y"},
		{"{1} - {0}", "y - (x + 1.0)"},
		{"{0} << ({1} & 31u)", "x + 1.0 << (y & 31u)"},
		{"nan_min(nan_max({0}, {alpha}), {1})", "nan_min(nan_max(x + 1.0, 0.25), y)"},
		{"!{1} && {1} != {0}", "!y && y != x + 1.0"},
	}
	args := map[string]expr.Expr{"0": sum, "1": expr.Of("y"), "alpha": expr.Of("0.25")}
	for _, tt := range tests {
		n, err := parseTemplate(tt.form)
		if err != nil {
			t.Error(err)
			continue
		}
		arg := func(name string) expr.Expr { return args[name] }
		got := fill(n, plainSpelling(arg))
		if got.String() != tt.want {
			t.Errorf("%s: got %s, want %s", tt.form, got, tt.want)
		}
	}
	for _, bad := range []string{"", "{0} +", "({0}", "f({0}", "{0} {1}", "{0} ? {1}", "@", "f(,)"} {
		if n, err := parseTemplate(bad); err == nil {
			t.Errorf("%q is read as %+v, want an error", bad, n)
		}
	}
}

// TestForms checks that every scalar form of the op table can be written. The form must parse, name only arguments and
// attributes of the op, and call only functions that GLSL or the library has for the types of its kind.
func TestForms(t *testing.T) {
	kinds := map[string][]string{"Float": []string{"float", "double"}, "Int": []string{"int", "int64_t"},
		"Uint": []string{"uint"}, "Bool": {"bool"}}
	for _, op := range ir.Ops() {
		info := op.Info()
		g := info.GLSL
		for kind, form := range map[string]string{"Float": g.Float, "Int": g.Int, "Uint": g.Uint, "Bool": g.Bool} {
			if form == "" {
				continue
			}
			n, err := parseTemplate(form)
			if err != nil {
				t.Errorf("%s: %v", op, err)
				continue
			}
			n.Walk(func(x *syntax.Expr) {
				switch x.Op {
				case syntax.Hole:
					checkPlaceholder(t, info, x.Text)
				case syntax.Call:
					checkCall(t, op, x.Text, kinds[kind])
				}
			})
		}
	}
}

func checkPlaceholder(t *testing.T, info *ir.OpInfo, name string) {
	t.Helper()
	if i, err := strconv.Atoi(name); err == nil {
		if i >= info.MaxArgs() {
			t.Errorf("%s: its form uses argument %d of %d", info.Name, i, info.MaxArgs())
		}
		return
	}
	for _, a := range info.Attrs {
		if a.Name == name && a.Kind == ir.AttrFloat {
			return
		}
	}
	t.Errorf("%s: its form uses attribute %s, which is no float of the op", info.Name, name)
}

func checkCall(t *testing.T, op ir.Op, name string, types []string) {
	t.Helper()
	if !lib.Names[name] {
		if !Reserved[name] {
			t.Errorf("%s: its form calls %s, which neither GLSL nor the library has", op, name)
		}
		return
	}
	for _, typ := range types {
		if h, _ := lib.Find(name, typ); h == nil {
			t.Errorf("%s: the library has no %s of %s", op, name, typ)
		}
	}
}

// TestFloatLiterals checks that literals parse to the same bits.
func TestFloatLiterals(t *testing.T) {
	e := scratch()
	rng := rand.New(rand.NewPCG(1, 1))
	values := []float32{0, 1, -1, 0.1, 1e-45, math.MaxFloat32, -math.SmallestNonzeroFloat32, 1e10, 16777216, 1.0 / 3}
	for range 5000 {
		if v := math.Float32frombits(rng.Uint32()); v-v == 0 {
			values = append(values, v)
		}
	}
	for _, v := range values {
		s := e.FloatLit(float64(v)).String()
		got, err := strconv.ParseFloat(s, 32)
		if err != nil || float32(got) != v || !strings.ContainsAny(s, ".e") {
			t.Errorf("%v is spelled %s, which reads as %v, %v", v, s, got, err)
		}
	}
	special := map[string]float64{"INF": math.Inf(1), "-INF": math.Inf(-1), "NAN": math.NaN(),
		"-0.0": math.Copysign(0, -1), "0.0": 0}
	for want, v := range special {
		if got := e.FloatLit(v).String(); got != want && got != strings.TrimSuffix(want, ".0") {
			t.Errorf("%v is spelled %s, want %s", v, got, want)
		}
	}
	if got := e.FloatLit(1e300).String(); got != "INF" {
		t.Errorf("1e300, beyond f32, is spelled %s, want INF", got)
	}
	if expr.Binary("*", expr.Int(math.MinInt32), expr.Of("x")).String() != "(-2147483647 - 1) * x" ||
		expr.Int64(-5).String() != "-5L" || expr.Uint(7).String() != "7u" {
		t.Error("integers are spelled wrongly")
	}
}

func TestNames(t *testing.T) {
	for in, want := range map[string]string{
		"x": "x", "h.0.attn": "h_0_attn", "a__b": "a_b", "_a_": "a", "9lives": "lives", "": "v", "gl_Position": "vgl_Position",
		"größe": "gr_e", strings.Repeat("a", 99): strings.Repeat("a", 40),
	} {
		if got := identifier(in); got != want {
			t.Errorf("%q becomes %s, want %s", in, got, want)
		}
	}
	e := scratch()
	if a, b := e.Fresh(e.Root, "x"), e.Fresh(e.Root, "x"); a != "x" || b != "x_2" {
		t.Errorf("two variables x are called %s and %s", a, b)
	}
	for _, taken := range []string{"exp", "float", "nan_max", "T", "lane", "common"} {
		if got := e.Fresh(e.Root, taken); got == taken {
			t.Errorf("a variable is called %s, which means something else", got)
		}
	}
	// A name that an inner block took must not be declared around the block.
	e.Open(&syntax.If{Cond: expr.Of("true")})
	inner := e.Fresh(e.Scope, "y")
	if outer := e.declare(e.Root, "float", "y", expr.Of("1.0")); outer.Is(inner) {
		t.Errorf("%s outside would be hidden by %s inside", outer, inner)
	}
	e.Close()
	outer := e.Fresh(e.Root, "z")
	e.Open(&syntax.If{Cond: expr.Of("true")})
	if inner := e.Fresh(e.Scope, "z"); inner == outer {
		t.Errorf("%s inside hides the one outside", inner)
	}
	e.Close()
}
