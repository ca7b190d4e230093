package ir

import (
	"math/rand/v2"
	"testing"
)

func randomDim(rng *rand.Rand) Dim {
	d := Dim{Add: rng.Int64N(9)}
	if rng.IntN(2) == 0 {
		d.Sym, d.Bound, d.Mul = "T", 10, 1+rng.Int64N(4)
		d.Add -= 4
	}
	return d
}

// TestDimArithmetic checks that dims compute as their values do: for every
// value of the symbol, f(d, o) evaluates to f of what d and o evaluate to.
func TestDimArithmetic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	defined := map[string]int{}
	for range 2000 {
		d, o, n := randomDim(rng), randomDim(rng), 1+rng.Int64N(4)
		check := func(name string, got Dim, ok bool, want func(a, b int64) int64) {
			if !ok {
				return
			}
			defined[name]++
			for v := range int64(11) {
				at := map[string]int64{"T": v}
				a, _ := d.Eval(at)
				b, _ := o.Eval(at)
				if have, err := got.Eval(at); err != nil || have != want(a, b) {
					t.Fatalf("%s of %s and %s (n=%d) at T=%d: %s is %d (%v), want %d", name, d, o, n, v, got,
						have, err, want(a, b))
				}
			}
		}
		check("plus", d.Plus(n), true, func(a, _ int64) int64 { return a + n })
		check("times", d.Times(n), true, func(a, _ int64) int64 { return a * n })
		check("times 0", d.Times(0), true, func(_, _ int64) int64 { return 0 })
		mul, err := d.Mul2(o)
		check("mul", mul, err == nil, func(a, b int64) int64 { return a * b })
		sum, err := d.Sum(o)
		check("sum", sum, err == nil, func(a, b int64) int64 { return a + b })
		less, err := d.Less(o)
		check("less", less, err == nil, func(a, b int64) int64 { return a - b })
		quo, ok := d.Times(n).Quo(n)
		check("quo", quo, ok, func(a, _ int64) int64 { return a })
		quo, ok = d.Quo(n)
		check("quo if it divides", quo, ok, func(a, _ int64) int64 { return a / n })
		if text, err := ParseDim(d.String(), map[string]int64{"T": 10}); d.Max() >= 0 && (d.Sym != "" || d.Add >= 0) &&
			(err != nil || text != d) {
			t.Fatalf("%s reads back as %s, %v", d, text, err)
		}
	}
	for _, name := range []string{"plus", "times", "times 0", "mul", "sum", "less", "quo", "quo if it divides"} {
		if defined[name] < 100 {
			t.Errorf("%s was defined %d times only", name, defined[name])
		}
	}
}

func TestDimRefuses(t *testing.T) {
	tt, s := Symbol("T", 8), Symbol("S", 8)
	if d, err := tt.Mul2(s); err == nil {
		t.Errorf("T*S = %s", d)
	}
	if d, err := tt.Mul2(tt); err == nil {
		t.Errorf("T*T = %s", d)
	}
	if d, err := tt.Sum(s); err == nil {
		t.Errorf("T+S = %s", d)
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
		9:  "symbol T = 9 is outside 0..8, its declared bound",
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
		" T", "T ", "1.5",
		"1099511627777", "99999999999999999999", "1099511627776*T", "T+1099511627776", "é"} {
		if d, err := ParseDim(text, bounds); err == nil {
			t.Errorf("%q reads as %s", text, d)
		}
	}
}
