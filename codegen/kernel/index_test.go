package kernel

import (
	"math/rand"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

func TestIndexSimplifies(t *testing.T) {
	T, B := ir.Symbol("T", 64), ir.Symbol("B", 8)
	i, j, k := Axis(0, T), Axis(1, ir.D(12)), Axis(2, ir.D(64))
	joined, wider := dimTimes(B, T), dimTimes(B, T.Plus(1))
	rows := j.Mul(DimIndex(B)).Mul(DimIndex(T)).Plus(Axis(3, joined))
	linear := i.Times(768).Plus(j.Times(64)).Plus(k)
	tests := []struct {
		name     string
		x        Index
		d        ir.Dim
		quo, rem string
	}{
		{"split heads", linear, ir.D(64), "12*a0 + a1", "a2"},
		{"split rows", linear, ir.D(768), "a0", "64*a1 + a2"},
		{"symbolic rows", j.Mul(DimIndex(T)).Plus(i), T, "a1", "a0"},
		{"affine rows", j.Mul(DimIndex(T.Plus(1))).Plus(i), T.Plus(1), "a1", "a0"},
		{"by parts", j.Times(4).Plus(Axis(3, ir.D(4))), ir.D(8), "(a1 / 2)", "4*(a1 % 2) + a3"},
		{"unknown", j, ir.D(5), "(a1 / 5)", "(a1 % 5)"},
		{"offset", linear.Plus(Const(64)), ir.D(64), "12*a0 + a1 + 1", "a2"},
		{"counting down", Const(95).Minus(Axis(4, ir.D(96))), ir.D(32), "(-1*a4 + 95 / 32)", "(-1*a4 + 95 % 32)"},
		{"counting down in its range", j.Times(64).Plus(Const(63)).Minus(k), ir.D(64), "a1", "-1*a2 + 63"},
		{"two steps of long division", i.Mul(DimIndex(T.Plus(3))).Mul(DimIndex(T.Plus(3))).Plus(Axis(3, T.Plus(3))), T.Plus(3), "T*a0 + 3*a0", "a3"},
		{"a product", rows, joined, "a1", "a3"},
		{"a factor of a product", j.Mul(DimIndex(joined)).Plus(i), T, "B*a1", "a0"},
		{"the other factor", j.Mul(DimIndex(joined)).Plus(Axis(3, B)), B, "T*a1", "a3"},
		{"a product of sums", j.Mul(DimIndex(wider)).Plus(Axis(3, B)), B, "(B*(T+1)*a1 + a3 / B)", "(B*(T+1)*a1 + a3 % B)"},
		{"a square", j.Mul(DimIndex(dimTimes(T, T))).Plus(i), T, "T*a1", "a0"},
		{"counting down past a multiple", Const(130).Minus(k), ir.D(64), "(-1*a2 + 66 / 64) + 1", "(-1*a2 + 66 % 64)"},
		{"crossing", k.Plus(Const(1)), ir.D(64), "(a2 + 1 / 64)", "(a2 + 1 % 64)"},
	}
	for _, tt := range tests {
		q, r := tt.x.DivMod(tt.d)
		if q.String() != tt.quo || r.String() != tt.rem {
			t.Errorf("%s: %s by %s = %q, %q; want %q, %q", tt.name, tt.x, tt.d, q, r, tt.quo, tt.rem)
		}
		if back := q.Mul(DimIndex(tt.d)).Plus(r); !back.Equal(tt.x) {
			t.Errorf("%s: quotient and remainder give back %s, want %s", tt.name, back, tt.x)
		}
	}
}

func dimTimes(a, b ir.Dim) ir.Dim {
	d, err := a.Mul2(b)
	if err != nil {
		panic(err)
	}
	return d
}

// TestIndexDivModMatchesIntegers evaluates random reshapes both ways.
func TestIndexDivModMatchesIntegers(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for range 500 {
		T, B := ir.Symbol("T", 9), ir.Symbol("B", 5)
		extents := []ir.Dim{ir.D(1 + rng.Intn(6)), T, ir.D(1 + rng.Intn(8)),
			[]ir.Dim{B, ir.D(1 + rng.Intn(4))}[rng.Intn(2)], []ir.Dim{dimTimes(B, T), ir.D(1)}[rng.Intn(2)]}
		rng.Shuffle(len(extents), func(a, b int) { extents[a], extents[b] = extents[b], extents[a] })
		x := Const(0)
		for a, e := range extents {
			at := Axis(a, e)
			if rng.Intn(3) == 0 { // as a flip reads it
				at = DimIndex(e).Minus(Const(1)).Minus(at)
			}
			x = x.Mul(DimIndex(e)).Plus(at)
		}
		divisors := []ir.Dim{ir.D(1 + rng.Intn(24)), T, T.Times(int64(1 + rng.Intn(4))),
			T.Plus(int64(1 + rng.Intn(3))), B, dimTimes(B, T), dimTimes(T, B.Plus(1)).Times(2), extents[3]}
		d := divisors[rng.Intn(len(divisors))]
		q, r := x.DivMod(d)
		for range 20 {
			env := newEnv(rng, extents, T, B)
			dv, _ := d.Eval(env.symbols)
			if dv == 0 {
				continue
			}
			v := env.eval(x)
			if n := env.negative(q) + env.negative(r); n > 0 {
				t.Fatalf("(%s) by %s: got %s and %s, which divide a negative number at %+v", x, d, q, r, env)
			}
			if env.eval(q) != v/dv || env.eval(r) != v%dv {
				t.Fatalf("(%s) by %s: got %s and %s, at %+v: %d/%d", x, d, q, r, env, v, dv)
			}
		}
	}
}

type env struct {
	axes    []int64
	symbols map[string]int64
}

func newEnv(rng *rand.Rand, extents []ir.Dim, symbols ...ir.Dim) env {
	e := env{symbols: map[string]int64{}}
	for _, s := range symbols {
		e.symbols[s.Sym] = 1 + rng.Int63n(s.Bound)
	}
	for _, d := range extents {
		n, _ := d.Eval(e.symbols)
		e.axes = append(e.axes, rng.Int63n(max(n, 1)))
	}
	return e
}

// negative counts the quotients and remainders of negative numbers in x, which
// devices do not compute alike.
func (e env) negative(x Index) int {
	n := 0
	x.Walk(func(f *Factor) {
		if (f.Kind == FactorDiv || f.Kind == FactorMod) && e.eval(f.X) < 0 {
			n++
		}
	})
	return n
}

func (e env) eval(x Index) int64 {
	sum := x.Offset()
	for _, t := range x.Terms() {
		p := t.Coef
		for _, f := range t.Factors {
			switch f.Kind {
			case FactorAxis:
				p *= e.axes[f.Axis]
			case FactorSym:
				v, err := f.symbol().Eval(e.symbols)
				if err != nil {
					panic(err)
				}
				p *= v
			case FactorDiv:
				p *= e.eval(f.X) / e.eval(f.D)
			case FactorMod:
				p *= e.eval(f.X) % e.eval(f.D)
			case FactorClamp:
				p *= min(max(e.eval(f.X), 0), e.eval(f.D))
			}
		}
		sum += p
	}
	return sum
}

func TestClampIsDroppedOnlyWhenProven(t *testing.T) {
	i := Axis(0, ir.D(8))
	if got := Clamp(i, Const(7)).String(); got != "a0" {
		t.Errorf("clamp of a coordinate to its own range: %s", got)
	}
	if got := Clamp(i.Plus(Const(-1)), Const(7)).String(); got != "clamp(a0 + -1, 7)" {
		t.Errorf("clamp of a coordinate that can be negative: %s", got)
	}
	T := ir.Symbol("T", 8)
	if got := Clamp(Const(0), DimIndex(T).Minus(Const(1))).String(); got != "0" {
		t.Errorf("0 clamped to an axis is %s", got)
	}
	flip := DimIndex(T).Minus(Const(1)).Minus(Axis(0, T))
	if got := Clamp(flip, DimIndex(T).Minus(Const(1))).String(); got != "T + -1*a0 + -1" {
		t.Errorf("clamp of a reversed coordinate: %s", got)
	}
}

func TestStride(t *testing.T) {
	i, j := Axis(0, ir.D(8)), Axis(1, ir.D(8))
	x := i.Times(16).Plus(j)
	if s, ok := x.Stride(0); !ok || s.String() != "16" {
		t.Errorf("stride %s, %v", s, ok)
	}
	q, _ := j.Plus(Const(3)).DivMod(ir.D(5))
	if _, ok := x.Plus(q).Stride(1); ok {
		t.Error("a quotient is not linear in its axis")
	}
	if s, ok := x.Plus(q).Stride(0); !ok || s.String() != "16" {
		t.Errorf("stride %s, %v", s, ok)
	}
	if got := x.Plus(Const(8)).Multiple(16); got != 1 {
		t.Errorf("multiple %d", got)
	}
	if got := i.Times(16).Plus(Const(8)).Multiple(16); got != 8 {
		t.Errorf("multiple %d", got)
	}
}
