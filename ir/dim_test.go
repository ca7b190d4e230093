package ir

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// randomDim makes numbers, multiples of symbols, and sums, products and quotients of them.
func randomDim(t *testing.T, rng *rand.Rand, depth int) Dim {
	d := Dim{Add: rng.Int64N(9)}
	if rng.IntN(3) > 0 {
		d.Sym, d.Bound, d.Mul = "T", 10, 1+rng.Int64N(4)
		if rng.IntN(3) == 0 {
			d.Sym, d.Bound = "S", 7
		}
		d.Add -= 4
	}
	if depth == 0 {
		return d
	}
	var err error
	switch o := randomDim(t, rng, depth-1); rng.IntN(4) {
	case 0:
		d, err = d.Sum(o)
	case 1:
		d, err = o.FloorQuo(1 + rng.Int64N(6))
	case 2:
		if d.Add >= 0 && o.Add >= 0 {
			d, err = d.Mul2(o)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDimArithmetic checks arithmetic on dims: for all values of the symbols, the value of f(d, o) is f of the values
// of d and o.
func TestDimArithmetic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	defined := map[string]int{}
	bounds := map[string]int64{"T": 10, "S": 7}
	for range 300 {
		d, o, n := randomDim(t, rng, 3), randomDim(t, rng, 2), 1+rng.Int64N(4)
		check := func(name string, got Dim, ok bool, want func(a, b int64) int64) {
			if !ok {
				return
			}
			defined[name]++
			for i := range int64(11 * 8) {
				at := map[string]int64{"T": i / 8, "S": i % 8}
				a, _ := d.Eval(at)
				b, _ := o.Eval(at)
				have, err := got.Eval(at)
				if err != nil || have != want(a, b) {
					t.Fatalf("%s of %s and %s (n=%d) at %v: %s is %d (%v), want %d", name, d, o, n, at, got,
						have, err, want(a, b))
				}
				if have > got.Max() || max(have, 0) < got.Min() && got.Add >= 0 {
					t.Fatalf("%s is %d at %v, outside %d..%d", got, have, at, got.Min(), got.Max())
				}
			}
		}
		check("plus", d.Plus(n), true, func(a, _ int64) int64 { return a + n })
		check("times", d.Times(n), true, func(a, _ int64) int64 { return a * n })
		check("times 0", d.Times(0), true, func(_, _ int64) int64 { return 0 })
		mul, err := d.Mul2(o)
		check("mul", mul, err == nil && (d.IsStatic() || o.IsStatic() || min(d.Add, o.Add) >= 0),
			func(a, b int64) int64 { return a * b })
		if again, err2 := o.Mul2(d); err != nil || err2 != nil || again != mul {
			t.Fatalf("(%s)*(%s) is %s, the other way round %s (%v, %v)", d, o, mul, again, err, err2)
		}
		if o.Max() > 0 && d.Max() > 0 {
			if back, ok := mul.Quo2(o); !ok || back != d {
				t.Fatalf("(%s)*(%s) by the latter is %s, %t", d, o, back, ok)
			}
		}
		sum, err := d.Sum(o)
		check("sum", sum, err == nil, func(a, b int64) int64 { return a + b })
		if again, err2 := o.Sum(d); err != nil || err2 != nil || again != sum {
			t.Fatalf("%s+%s is %s, the other way round %s (%v, %v)", d, o, sum, again, err, err2)
		}
		if back, err := sum.Less(o); err != nil || back != d {
			t.Fatalf("%s+%s-%s is %s, %v", d, o, o, back, err)
		}
		less, err := d.Less(o)
		check("less", less, err == nil, func(a, b int64) int64 { return a - b })
		quo, ok := d.Times(n).Quo(n)
		check("quo", quo, ok, func(a, _ int64) int64 { return a })
		quo, ok = d.Quo(n)
		check("quo if it divides", quo, ok, func(a, _ int64) int64 { return a / n })
		quo, err = d.FloorQuo(n)
		check("floor quo", quo, err == nil, func(a, _ int64) int64 { return floorDiv(a, n) })
		if text, err := ParseDim(d.String(), bounds); d.Max() >= 0 && (d.Sym != "" || d.Add >= 0) &&
			(err != nil || text != d) {
			t.Fatalf("%s reads back as %s, %v", d, text, err)
		}
	}
	for _, name := range []string{"plus", "times", "times 0", "mul", "sum", "less", "quo", "quo if it divides",
		"floor quo"} {
		if defined[name] < 50 {
			t.Errorf("%s was defined %d times only", name, defined[name])
		}
	}
}

// TestDimForms checks that dims with equal values for all symbols have the same form.
func TestDimForms(t *testing.T) {
	bounds := map[string]int64{"T": 100, "S": 10}
	for text, want := range map[string]string{
		"T+T": "2*T", "T+S": "S+T", "2*S+2*T": "2*(S+T)", "2*(S+T)+1": "2*(S+T)+1", "S+2*T-3": "S+2*T-3",
		"floor(T/2)": "floor(T/2)", "floor((T-1)/2)": "floor((T+1)/2)-1", "floor((2*T+3)/4)": "floor((T+1)/2)",
		"floor((3*T)/2)": "T+floor(T/2)", "floor((4*T+8)/4)": "T+2", "floor((4*T+2)/4)": "T",
		"floor((floor((T+1)/2)+1)/2)": "floor((T+3)/4)", "floor((2*floor(T/3)+1)/4)": "floor(T/6)",
		"floor((S+T)/2)": "floor((S+T)/2)", "3*floor(T/2)+1": "3*floor(T/2)+1",
		"floor((floor(T/2)+S)/2)": "floor((S+floor(T/2))/2)",
		"T*S":                     "S*T", "2*T*S+1": "2*S*T+1", "(2*T+2)*S": "2*S*(T+1)", "(S*T)*T": "S*T*T",
		"(T-2)*S": "S*(T-2)", "(T+1)*(S+2)": "(S+2)*(T+1)", "S*T+T*S": "2*S*T", "2*(S*T+T)": "2*(S*T+T)", "(S+T)*(S*T)": "S*T*(S+T)",
		"floor((2*S*T)/4)": "floor((S*T)/2)", "floor(T/2)*floor(S/2)": "floor(S/2)*floor(T/2)",
		"floor((floor(T/2)*S)/2)": "floor((S*floor(T/2))/2)", "(3)*T": "3*T",
	} {
		d, err := ParseDim(text, bounds)
		if err != nil || d.String() != want {
			t.Errorf("%s is %s (%v), want %s", text, d, err, want)
		}
	}
	long := D(0)
	var err error
	for i := 0; err == nil && i < 100; i++ {
		long, err = long.Sum(Symbol("symbol"+string(rune('a'+i%26))+string(rune('a'+i/26)), 8))
	}
	if err == nil {
		t.Errorf("a sum of any length: %s", long)
	}
	deep := Symbol("T", 100)
	for err = nil; err == nil && deep.Mul > 0; {
		deep, err = deep.Plus(1).FloorQuo(1 << 19)
	}
	if err == nil {
		t.Errorf("a divisor without limit: %s", deep)
	}
}

func TestDimRefuses(t *testing.T) {
	tt, s := Symbol("T", 8), Symbol("S", 8)
	if d, err := Symbol("T", 1<<21).Mul2(Symbol("S", 1<<20)); err == nil {
		t.Errorf("T*S = %s, at most %d", d, d.Max())
	}
	many := s
	for i := range 70 {
		var err error
		if many, err = many.Mul2(Symbol("symbol"+string(rune('a'+i%26))+string(rune('a'+i/26)), 1)); err != nil {
			break
		}
		if i == 69 {
			t.Errorf("a product of any length: %s", many)
		}
	}
	product, err := tt.Mul2(s.Plus(-2))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Dim{s, s.Plus(-1), Symbol("U", 8), tt.Times(2), {}} {
		if d, ok := product.Quo2(o); ok {
			t.Errorf("(%s)/(%s) = %s", product, o, d)
		}
	}
	for _, at := range []map[string]int64{{"T": 3, "S": 1}, {"T": 3}} {
		if v, err := product.Eval(at); err == nil {
			t.Errorf("%s at %v is %d", product, at, v)
		}
	}
	if both, err := tt.Plus(-3).Mul2(s.Plus(-2)); err != nil {
		t.Error(err)
	} else if v, err := both.Eval(map[string]int64{"T": 1, "S": 1}); err == nil {
		t.Errorf("%s of two extents below 0 is %d", both, v)
	}
	if d, err := tt.Less(s); err == nil {
		t.Errorf("T-S = %s", d)
	}
	for _, n := range []int64{0, -1} {
		if d, err := tt.FloorQuo(n); err == nil {
			t.Errorf("floor(T/%d) = %s", n, d)
		}
	}
	if d, err := tt.Less(tt.Times(2)); err == nil {
		t.Errorf("T-2*T = %s", d)
	}
	if d, err := D(3).Less(tt); err == nil {
		t.Errorf("3-T = %s", d)
	}
	for _, n := range []int64{0, -1, 3} {
		if d, ok := tt.Times(4).Quo(n); ok {
			t.Errorf("4*T/%d = %s", n, d)
		}
	}
	for at, want := range map[int64]string{
		-1: "symbol T = -1 is outside 0..8, its declared bound",
		9: "symbol T = 9 is outside 0..8, its declared bound: build the graph with a larger bound " +
			"(vkc: --bound T=9 of an ONNX model, --ctx of a GGUF one)",
	} {
		if _, err := tt.Eval(map[string]int64{"T": at}); err == nil || err.Error() != want {
			t.Errorf("have %v, want %s", err, want)
		}
	}
	if _, err := tt.Eval(nil); err == nil {
		t.Error("T evaluates without a value")
	}
	if dims, err := (Shape{D(2), tt.Plus(-4)}).Eval(map[string]int64{"T": 3}); err == nil {
		t.Errorf("T-4 at T=3 gives the shape %v", dims)
	}
}

func TestParseDim(t *testing.T) {
	bounds := map[string]int64{"T": 8, "_x9": 1}
	for text, want := range map[string]Dim{
		"0": {}, "12": D(12), "T": Symbol("T", 8), "1*T+0": Symbol("T", 8),
		"4*T+1": {"T", 8, 4, 1}, "T-8": {"T", 8, 1, -8}, "_x9": Symbol("_x9", 1),
	} {
		if d, err := ParseDim(text, bounds); err != nil || d != want {
			t.Errorf("%s: have %s, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "-1", "U", "T*4", "0*T", "-1*T", "4*", "*T", "T+", "T+x", "T+-1", "4*T*2", "3*4",
		" T", "T ", "1.5", "floor(T)", "floor(T/0)", "floor(T/2", "floor(T+1/2)", "(T", "T)", "2*(T", "-T", "4-T",
		"floor(T/-2)",
		"floor(/2)", "1099511627776*(1099511627776*T)", "2*3*T", "T--1",
		"T*", "T*2", "T*-1", "T*(S", "(T-1)*(-1)", "1099511627777", "99999999999999999999", "1099511627776*T", "T+1099511627776", "é"} {
		if d, err := ParseDim(text, bounds); err == nil {
			t.Errorf("%q reads as %s", text, d)
		}
	}
}

// TestDimSymbols lists the symbols of dims of every form.
func TestDimSymbols(t *testing.T) {
	bounds := map[string]int64{"T": 100, "S": 10}
	for text, want := range map[string][]string{
		"7": nil, "4*T+1": {"T"}, "S+2*T": {"S", "T"}, "floor((S+T+1)/2)": {"S", "T"},
		"3*S*(T+1)": {"S", "T"},
	} {
		d, err := ParseDim(text, bounds)
		if err != nil || !slices.Equal(d.Symbols(), want) {
			t.Errorf("%s has symbols %q, %v, want %q", text, d.Symbols(), err, want)
		}
	}
}
