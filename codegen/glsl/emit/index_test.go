package emit

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// number is a value of GLSL's integer types, which wrap.
type number struct {
	bits   uint32
	signed bool
}

func (n number) value() int64 {
	if n.signed {
		return int64(int32(n.bits))
	}
	return int64(n.bits)
}

// evaluate computes an index expression as a device does.
func evaluate(t *testing.T, n *syntax.Expr, vars map[string]uint32) number {
	t.Helper()
	kid := func(i int) number { return evaluate(t, n.Args[i], vars) }
	switch n.Op {
	case syntax.Name, syntax.Number:
		if v, ok := vars[n.Text]; ok {
			return number{v, false}
		}
		v, err := strconv.ParseInt(strings.TrimSuffix(n.Text, "u"), 10, 64)
		if err != nil {
			t.Fatalf("%s is not a number and no variable", n.Text)
		}
		return number{uint32(v), !strings.HasSuffix(n.Text, "u")}
	case syntax.Unary:
		return number{-kid(0).bits, kid(0).signed}
	case syntax.Binary:
		a, b := kid(0), kid(1)
		if a.signed != b.signed {
			t.Fatalf("%s of int and uint", n.Text)
		}
		switch n.Text {
		case "+":
			return number{a.bits + b.bits, a.signed}
		case "-":
			return number{a.bits - b.bits, a.signed}
		case "*":
			return number{a.bits * b.bits, a.signed}
		}
		if a.signed || b.bits == 0 {
			t.Fatalf("%s of ints, or by 0", n.Text)
		}
		if n.Text == "/" {
			return number{a.bits / b.bits, false}
		}
		return number{a.bits % b.bits, false}
	case syntax.Call:
		return evaluateCall(t, n, kid)
	}
	t.Fatalf("an index has %q", n.Text)
	return number{}
}

func evaluateCall(t *testing.T, n *syntax.Expr, kid func(int) number) number {
	t.Helper()
	pick := func(less bool) number {
		a, b := kid(0), kid(1)
		if a.signed != b.signed {
			t.Fatalf("%s of int and uint", n.Text)
		}
		if (a.value() < b.value()) == less {
			return a
		}
		return b
	}
	switch n.Text {
	case "uint":
		return number{kid(0).bits, false}
	case "int":
		return number{kid(0).bits, true}
	case "min":
		return pick(true)
	case "max":
		return pick(false)
	case "clamp":
		return number{uint32(int32(min(max(kid(0).value(), kid(1).value()), kid(2).value()))), kid(0).signed}
	}
	t.Fatalf("an index calls %s", n.Text)
	return number{}
}

// direct computes an index from its definition.
func direct(x kernel.Index, axes []int64, sym int64) int64 {
	sum := x.Offset()
	for _, t := range x.Terms() {
		prod := t.Coef
		for _, f := range t.Factors {
			switch f.Kind {
			case kernel.FactorAxis:
				prod *= axes[f.Axis]
			case kernel.FactorSym:
				prod *= sym
			case kernel.FactorDiv:
				prod *= direct(f.X, axes, sym) / direct(f.D, axes, sym)
			case kernel.FactorMod:
				prod *= direct(f.X, axes, sym) % direct(f.D, axes, sym)
			case kernel.FactorClamp:
				prod *= max(min(direct(f.X, axes, sym), direct(f.D, axes, sym)), 0)
			}
		}
		sum += prod
	}
	return sum
}

// TestIndexText prints random coordinates of reshapes, slices, flips and pads of three axes, and evaluates the
// expressions.
func TestIndexText(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 3000 {
		T := ir.Symbol("T", 9)
		extents := []ir.Dim{ir.D(1 + rng.IntN(6)), T, ir.D(2 + rng.IntN(7))}
		sym := 1 + rng.Int64N(9)
		axes := make([]int64, 3)
		for i, d := range extents {
			n, _ := d.Eval(map[string]int64{"T": sym})
			axes[i] = rng.Int64N(n)
		}
		x := randomIndex(rng, extents)
		e := scratch()
		vars := map[string]uint32{"T": uint32(sym)}
		for i, name := range []string{"batch", "row", "col"} {
			e.BindAxis(i, expr.Of(name))
			vars[name] = uint32(axes[i])
		}
		if rng.IntN(3) == 0 { // as in the lanes of a vector
			base := uint32(rng.IntN(int(axes[2]) + 1))
			vars["base"], vars["lane"] = base, uint32(axes[2])-base
			e.BindAxis(2, expr.Binary("+", expr.Of("base"), expr.Of("lane")))
		}
		got := e.IndexValue(x).String()
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		n, err := parseTemplate(got)
		if err != nil {
			t.Fatal(err)
		}
		if v := evaluate(t, n, vars); v.signed || v.value() != direct(x, axes, sym) {
			t.Fatalf("%s is printed as %s, which is %d at %v, want %d", x, got, v.value(), vars, direct(x, axes, sym))
		}
	}
}

// randomIndex is the row-major position in the three axes, after a few transformations of views.
func randomIndex(rng *rand.Rand, extents []ir.Dim) kernel.Index {
	x := kernel.Const(0)
	for i, d := range extents {
		x = x.Mul(kernel.DimIndex(d)).Plus(kernel.Axis(i, d))
	}
	for range rng.IntN(4) {
		d := ir.D(1 + rng.IntN(12))
		q, r := x.DivMod(d)
		switch rng.IntN(5) {
		case 0:
			x = q
		case 1:
			x = r
		case 2: // a flip of the remainder
			x = q.Mul(kernel.DimIndex(d)).Plus(kernel.DimIndex(d).Minus(kernel.Const(1)).Minus(r))
		case 3: // a pad
			x = kernel.Clamp(x.Minus(kernel.Const(rng.Int64N(9))), kernel.Const(rng.Int64N(20)))
		case 4:
			x = kernel.Clamp(x.Minus(kernel.Axis(1, extents[1])),
				kernel.DimIndex(extents[1]).Times(3).Minus(kernel.Const(1)))
		}
	}
	return x
}

// TestSharedIndex checks that values with several uses are declared once, and that loop-invariant values are declared
// before the loop.
func TestSharedIndex(t *testing.T) {
	e := scratch()
	b := kernel.NewBuilder()
	rows, cols := ir.D(9), ir.D(7)
	x := kernel.Axis(0, rows).Times(7).Plus(kernel.Axis(1, cols))
	e.K = &kernel.Kernel{Parallel: []ir.Dim{rows}, Fold: cols, Bindings: []kernel.Binding{
		{Name: "x", DType: ir.F32, Read: true}, {Name: "w", DType: ir.F32, Read: true}, {Name: "s", DType: ir.F32, Read: true}}}
	for i, bd := range e.K.Bindings {
		e.Buffers = append(e.Buffers, e.newBuffer(i, bd))
	}
	scale := b.Apply(ir.OpExp, ir.F32, nil, b.Load(2, ir.F32, kernel.Axis(0, rows), "s"))
	v := b.Apply(ir.OpMul, ir.F32, nil,
		b.Apply(ir.OpMul, ir.F32, nil, b.Load(0, ir.F32, x, "x"), b.Load(1, ir.F32, x, "w")), scale)
	e.BindAxis(0, expr.Of("row"))
	e.OpenFor("", "j", expr.Uint(0), expr.Uint(7), expr.Uint(1))
	e.BindAxis(1, expr.Of("j"))
	e.Update(expr.Of("sum"), "+=", e.Eval(v))
	e.Close()
	want := `void main() {
    float exponential = exp(s[row]);
    for (uint j = 0u; j < 7u; ++j) {
        uint at = row * 7u + j;
        sum += fmul(fmul(x[at], w[at]), exponential);
    }
}
`
	main := &syntax.Definition{Type: "void", Name: "main", Body: e.Root.body}
	if got := main.String(); got != want || e.Err != nil {
		t.Errorf("got\n%s\nwant\n%s\n%v", got, want, e.Err)
	}
}
