package fast

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// ordered places floats in their order, neighbours one apart.
func ordered(x float32) int64 {
	bits := int64(int32(math.Float32bits(x)))
	if bits < 0 {
		return math.MinInt32 - bits
	}
	return bits
}

// anyFloats returns floats of any bits, more of them such as need care.
func anyFloats(rng *rand.Rand, n int) []float32 {
	inf := float32(math.Inf(1))
	special := []float32{0, float32(math.Copysign(0, -1)), inf, -inf, float32(math.NaN()), 1e-45, -1e-40, 65504, 65519,
		65520, 6e-8, 88.7, 88.8, -87.3, -88, -103, -104, math.MaxFloat32, -math.MaxFloat32, 0.5, -1.5, 2.5, 1}
	x := make([]float32, n)
	for i := range x {
		switch rng.IntN(4) {
		case 0:
			x[i] = special[rng.IntN(len(special))]
		case 1:
			x[i] = math.Float32frombits(rng.Uint32())
		default:
			x[i] = float32(rng.NormFloat64() * 20)
		}
	}
	return x
}

// same reports whether two floats are at most so many units apart, or both NaN.
func same(x, y float32, units int64) bool {
	off := ordered(x) - ordered(y)
	return x != x && y != y || max(off, -off) <= units
}

func TestExps(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for n := range 60 {
		for _, shift := range []float32{0, 0.5} {
			x := anyFloats(rng, n)
			want, have := slices.Clone(x), append(x[:n:n], 7)
			expsPlain(want, shift)
			exps(have[:n], shift)
			for i := range want {
				if !same(have[i], want[i], 2) {
					t.Errorf("%g less %g gives %g, want %g", x[i], shift, have[i], want[i])
				}
			}
			if have[n] != 7 {
				t.Errorf("%d elements: it writes past them", n)
			}
		}
	}
}

// TestPrimitives compares the vectorized primitives with plain Go, on lists of any length, also with the result in the
// memory of an argument.
func TestPrimitives(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	compare := func(name string, p *primitive, units int64) {
		for n := range 60 {
			x, y, z := anyFloats(rng, n), anyFloats(rng, n), anyFloats(rng, n)
			if n%3 == 0 {
				copy(y, x[:n/2]) // so that some are equal
			}
			want := make([]float32, n)
			p.plain(want, x, y, z)
			for place, list := range [][]float32{nil, x, y, z} {
				have := append(slices.Clone(list), make([]float32, n+1-len(list))...)
				have[n] = 7
				in := [4][]float32{nil, x, y, z}
				in[place] = have[:n]
				p.apply(have[:n], in[1], in[2], in[3])
				for i := range want {
					if !same(have[i], want[i], units) {
						t.Fatalf("%s of %g, %g, %g gives %g, want %g", name, x[i], y[i], z[i], have[i], want[i])
					}
				}
				if have[n] != 7 {
					t.Fatalf("%s, %d elements: it writes past them", name, n)
				}
			}
		}
	}
	vectors := 0
	for _, name := range slices.Sorted(maps.Keys(primitives)) {
		if p := primitives[name]; p.vectors != nil && !isFunction(name) {
			compare(name, p, 0)
			vectors++
		}
	}
	for _, a := range assemblies() {
		for _, name := range slices.Sorted(maps.Keys(a.functions)) {
			compare(a.name+" "+name, primitives[name].with(a.functions[name], a.lanes), 4)
			vectors++
		}
	}
	t.Logf("%d primitives on vectors", vectors)
}

// isFunction reports whether a primitive has assembly for each width.
func isFunction(name string) bool {
	return slices.ContainsFunc(assemblies(), func(a *assembly) bool { return a.functions[name] != nil })
}

// TestWidePrimitives compares the vectorized primitives of 64 bits with plain Go.
func TestWidePrimitives(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 5e-324, 0.5, -1.5, 2.5, 1,
		1 << 31, -1 << 31, 1<<31 - 0.5, 1 << 63, -1 << 63, 709, 710.1, -745.1, -746, math.MaxFloat64}
	elements := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			switch rng.IntN(4) {
			case 0:
				x[i] = special[rng.IntN(len(special))]
			case 1:
				x[i] = math.Float64frombits(rng.Uint64())
			case 2:
				x[i] = bitsOfLong(int64(rng.IntN(9) - 4))
			default:
				x[i] = rng.NormFloat64() * 20
			}
		}
		return x
	}
	vectors := 0
	compare := func(name string, p *primitiveOf[float64], units int64) {
		vectors++
		for n := range 60 {
			x, y, z := elements(n), elements(n), elements(n)
			if name == wordOfTruth {
				for i := range x {
					x[i] = float64(rng.IntN(2))
				}
			}
			copy(y, x[:n/2]) // so that some are equal
			want, have := make([]float64, n), append(slices.Clone(x), 7)
			p.plain(want, x, y, z)
			p.apply(have[:n], have, y, z)
			for i := range want {
				off := long(have[i]) - long(want[i])
				if max(off, -off) > units && (have[i] == have[i] || want[i] == want[i]) {
					t.Fatalf("%s of %g, %g, %g gives %g, want %g", name, x[i], y[i], z[i], have[i], want[i])
				}
			}
			if have[n] != 7 {
				t.Fatalf("%s, %d elements: it writes past them", name, n)
			}
		}
	}
	for _, a := range assemblies() {
		for _, name := range slices.Sorted(maps.Keys(a.doubles)) {
			p := widePrimitives[name].with(a.doubles[name], a.lanes/2)
			if f := betterFunctions[name]; f != nil {
				p.plain = of1(f).plain
			}
			if name == "sin_accurate" || name == "cos_accurate" {
				p = bounded(p, 1<<20)
			}
			if name != "pow_full" { // see TestWidePowers
				compare(a.name+" "+name, p, 4)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(widePrimitives)) {
		if p := widePrimitives[name]; p.vectors != nil && functions[name] == nil && name != "pow_full" {
			compare(name, p, 0)
		}
	}
	t.Logf("%d primitives on vectors", vectors)
}

// betterFunctions are references for functions of which Go's are less accurate for some numbers: logarithms of
// subnormal numbers and, to base 2, of numbers near 1, and the exponential of numbers above 709.
var betterFunctions = map[string]func(x float64) float64{
	"exp": func(x float64) float64 {
		if x > 700 {
			return math.Exp(x/2) * math.Exp(x/2)
		}
		return math.Exp(x)
	},
	"log": func(x float64) float64 {
		if x > 0 && x < 0x1p-1022 {
			return math.Log(x*0x1p54) - 54*math.Ln2
		}
		return math.Log(x)
	},
	"log2": func(x float64) float64 {
		if x > 0 && x < 0x1p-1022 {
			return math.Log2(x*0x1p54) - 54
		}
		if x > 0.5 && x < 2 {
			return math.Log1p(x-1) / math.Ln2
		}
		return math.Log2(x)
	},
	"logistic": func(x float64) float64 {
		if x < 0 {
			return math.Exp(x) / (1 + math.Exp(x))
		}
		return 1 / (1 + math.Exp(-x))
	},
}

// TestWidePowers compares powers of 64 bits with exact ones and with Go's, whose errors grow with the exponent.
func TestWidePowers(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 5))
	for _, a := range assemblies() {
		p := widePrimitives["pow_full"].with(a.doubles["pow_full"], a.lanes/2)
		power := func(x, y float64) float64 {
			list := slices.Repeat([]float64{x}, p.lanes)
			p.apply(list, list, slices.Repeat([]float64{y}, p.lanes), list)
			return list[0]
		}
		for base := 2.0; base < 40; base++ {
			for exact, y := base, 1.0; exact < 1<<53; exact, y = exact*base, y+1 {
				back, inverse := power(exact, 1/y), power(exact, -1)
				for _, off := range []float64{power(base, y) - exact, back - base, inverse*exact - 1} {
					if math.Abs(off) > 0x1p-52*exact {
						t.Errorf("%s: %g to the power of %g is off by %g", a.name, base, y, off)
					}
				}
			}
		}
		for y := -1074.0; y < 1024; y++ {
			if have := power(2, y); have != math.Ldexp(1, int(y)) {
				t.Errorf("%s: 2 to the power of %g is %g", a.name, y, have)
			}
		}
		special := []float64{0, math.Copysign(0, -1), 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1 << 60, math.MaxFloat64, 5e-324,
			math.Inf(1), math.Inf(-1), math.NaN()}
		for _, x := range special {
			for _, y := range special {
				want, have := math.Pow(x, y), power(x, y)
				same := math.IsNaN(have) == math.IsNaN(want) && math.IsInf(have, 0) == math.IsInf(want, 0) &&
					(want != want || math.Signbit(have) == math.Signbit(want))
				if !same || math.Abs(have-want) > 0x1p-52*math.Abs(want) {
					t.Errorf("%s: %g to the power of %g is %g, want %g", a.name, x, y, have, want)
				}
			}
		}
		for range 5000 {
			x, y := math.Exp2(rng.NormFloat64()*20), rng.NormFloat64()*5
			want, have := math.Pow(x, y), power(x, y)
			if off := math.Abs(have/want - 1); off > 0x1p-52*(4+math.Abs(y)+math.Abs(math.Log(x))) {
				t.Errorf("%s: %g to the power of %g is %g, want %g", a.name, x, y, have, want)
			}
		}
	}
}

// TestRoundedInWide: float64 numbers are rounded once, also those next to ties, infinities and the least numbers.
func TestRoundedInWide(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 3))
	for dtype, name := range roundings {
		for range 300 {
			x := ir.RoundTo(rng.NormFloat64()*math.Exp2(float64(rng.IntN(60)-30)), dtype)
			next := ir.RoundTo(x*(1+math.Exp2(float64(-1-rng.IntN(12)))), dtype)
			for _, x := range []float64{x, (x + next) / 2, math.Nextafter((x+next)/2, 0), x * 1e30, x * 1e-300, -x,
				math.NaN(), math.Inf(-1)} {
				var y [lanes + 1]float64 // by assembly, and by plain Go
				widePrimitives[name].apply(y[:], slices.Repeat([]float64{x}, len(y)), y[:], y[:])
				for _, y := range []float64{y[0], y[lanes]} {
					if want := ir.RoundTo(x, dtype); math.Float64bits(y) != math.Float64bits(want) && want == want {
						t.Fatalf("%s of %g gives %g, want %g", name, x, y, want)
					}
				}
			}
		}
	}
}

// TestBetween converts lists between 32 and 64 bits. The results must have the bits of Go's conversions.
func TestBetween(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 4))
	for n := range 40 {
		floats, doubles := anyFloats(rng, n), make([]float64, n)
		for i := range doubles {
			if doubles[i] = math.Float64frombits(rng.Uint64()); i%2 == 0 {
				doubles[i] = rng.NormFloat64() * 1e30
			}
		}
		words, wide, narrow := wordsOf(floats), make([]float64, n), make([]float32, n)
		check := func(what string, ok func(i int) bool) {
			for i := range n {
				if !ok(i) {
					t.Fatalf("%s, element %d of %d: %g and %g give %g and %g", what, i, n, floats[i], doubles[i],
						wide[i], narrow[i])
				}
			}
		}
		doublesOf(wide, floats)
		check("doublesOf", func(i int) bool {
			return wide[i] == float64(floats[i]) || wide[i] != wide[i] && floats[i] != floats[i]
		})
		longsOf(wide, words)
		check("longsOf", func(i int) bool { return long(wide[i]) == int64(words[i]) })
		unsignedLongsOf(wide, words)
		check("unsignedLongsOf", func(i int) bool { return long(wide[i]) == int64(uint32(words[i])) })
		floatsOf(narrow, doubles)
		check("floatsOf", func(i int) bool { return same(narrow[i], float32(doubles[i]), 0) })
		oddFloatsOf(narrow, doubles)
		check("oddFloatsOf", func(i int) bool {
			var one [1]float32
			oddFloatsOf(one[:], doubles[i:i+1]) // in plain Go
			return same(narrow[i], one[0], 0)
		})
		lowWordsOf(wordsOf(narrow), doubles)
		check("lowWordsOf", func(i int) bool { return word(narrow[i]) == int32(long(doubles[i])) })
	}
}

// TestWideOps compares ops of one f64 with the interpreter, more closely than their tolerances.
func TestWideOps(t *testing.T) {
	list := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 1e-300, 1e-9, -1e-9, 1e9, -1e9, 1e300, math.Inf(1),
		math.Inf(-1), math.NaN()}
	rng := rand.New(rand.NewPCG(7, 6))
	for len(list) < 500 {
		list = append(list, rng.NormFloat64()*math.Exp2(float64(rng.IntN(8)-4)))
	}
	in, err := ir.FromFloats(ir.F64, list, len(list))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, op := range ir.Ops() {
		info := op.Info()
		if info.Class != ir.ClassElementwise || info.Float == nil || len(info.Args) != 1 || len(info.Attrs) > 0 {
			continue
		}
		g, err := ir.Parse(fmt.Sprintf(`graph "op" {
			%%x = input {name="x", dtype=f64, shape=[%d]}
			%%y = %s %%x
			output "y" %%y
		}`, len(list), info.Name))
		if err != nil {
			t.Fatal(err)
		}
		var results [2][]float64
		for i, options := range []interp.Options{{}, {Replace: Kernels}} {
			p, err := interp.New(g, options)
			if err != nil {
				t.Fatal(err)
			}
			out, err := p.Run(t.Context(), map[string]*ir.Data{"x": in}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if results[i], err = out["y"].Floats(); err != nil {
				t.Fatal(err)
			}
		}
		compared++
		for i, want := range results[0] {
			have := results[1][i]
			same := have == want || have != have && want != want
			if !same && !(math.Abs(have-want) <= 0x1p-45+0x1p-46*math.Abs(want)) {
				t.Errorf("%s of %g gives %g, want %g", op, list[i], have, want)
			}
			if want == 0 && have == 0 && math.Signbit(have) != math.Signbit(want) {
				t.Errorf("%s of %g gives %g, want %g", op, list[i], have, want)
			}
		}
	}
	if compared < 30 {
		t.Errorf("%d ops", compared)
	}
}

// TestWordDivisions compares the assembly of quotients, remainders and shifts of words with plain Go.
func TestWordDivisions(t *testing.T) {
	special := []int32{0, 1, -1, 2, -3, 7, 31, 32, 33, -100, math.MaxInt32, math.MinInt32, math.MinInt32 + 1, 1 << 24}
	var x, y []int32
	for _, a := range special {
		for _, b := range special {
			x, y = append(x, a), append(y, b)
		}
	}
	for _, name := range []string{"div_int words", "rem_int words", "mod_int words", "shift_left words",
		"shift_right words"} {
		have, want := make([]int32, len(x)), make([]int32, len(x))
		primitives[name].apply(bitsOf(have), bitsOf(x), bitsOf(y), bitsOf(y))
		primitives[name].plain(bitsOf(want), bitsOf(x), bitsOf(y), bitsOf(y))
		for i := range x {
			if have[i] != want[i] {
				t.Errorf("%s of %d and %d is %d, want %d", name, x[i], y[i], have[i], want[i])
			}
		}
	}
}
