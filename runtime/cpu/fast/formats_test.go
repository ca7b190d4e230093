package fast

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// TestFormats reads all elements of each format, in lists of all lengths around a vector, and compares them with the
// conversions of package ir. It stores them again, which gives the same bits.
func TestFormats(t *testing.T) {
	for d, f := range formats {
		size := d.BlockBytes()
		if f == nil || size > 2 {
			t.Errorf("%s: no format of at most 16 bits", d)
			continue
		}
		all := &interp.Stored{DType: d, Bytes: make([]byte, size<<(8*size))}
		for i := range len(all.Bytes) / size {
			if all.Bytes[i*size] = byte(i); size == 2 {
				all.Bytes[2*i+1] = byte(i >> 8)
			}
		}
		if d == ir.Bool {
			all.Bytes = []byte{0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1}
		}
		n := len(all.Bytes) / size
		want := make([]float64, n)
		if d.IsFloat() {
			ir.DecodeFloats(want, d, all.Bytes)
		} else {
			ints := make([]int64, n)
			ir.DecodeInts(ints, d, all.Bytes)
			for i, x := range ints {
				want[i] = float64(x)
			}
		}
		for _, step := range []int{1, 3} {
			for count := range min(n/step, 20) {
				have, wide := make([]float32, n/step-count), make([]float64, n/step-count)
				loader[float32](all)(have, count*step, step)
				loader[float64](all)(wide, count*step, step)
				for i, x := range have {
					y, z := float64(x), wide[i]
					if !d.IsFloat() {
						y, z = float64(word(x)), float64(long(z))
					}
					if w := want[(count+i)*step]; (y != w || z != w) && (w == w || y == y || z == z) {
						t.Fatalf("%s: element %d is %g and %g, want %g", d, (count+i)*step, y, z, w)
					}
				}
				if step > 1 {
					continue
				}
				for width, store := range []func(s *interp.Stored){
					func(s *interp.Stored) { storer[float32](s)(count, have) },
					func(s *interp.Stored) { storer[float64](s)(count, wide) },
				} {
					again := &interp.Stored{DType: d, Bytes: slices.Clone(all.Bytes)}
					clear(again.Bytes[count*size:])
					store(again)
					for i := range n {
						old, now := all.Bytes[i*size:(i+1)*size], again.Bytes[i*size:(i+1)*size]
						if want[i] == want[i] && !bytes.Equal(old, now) {
							t.Fatalf("%s, width %d: element %d with bits %x became %x", d, width, i, old, now)
						}
						if y := []float64{0}; want[i] != want[i] {
							if ir.DecodeFloats(y, d, now); y[0] == y[0] {
								t.Fatalf("%s, width %d: NaN with bits %x became %x", d, width, old, now)
							}
						}
					}
				}
			}
		}
	}
}

// TestTruths reads bools whose bytes are neither 0 nor 1: they are true.
func TestTruths(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 1))
	x := &ir.Data{DType: ir.Bool, Dims: []int{100}, Bytes: randomBytes(rng, 100)}
	g, err := ir.Parse(`graph "g" {
		%x = input {name="x", dtype=bool, shape=[100]}
		%n = not %x
		%o = not %n
		output "o" %o
	}`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := interp.New(g, interp.Options{Replace: Kernels})
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(t.Context(), map[string]*ir.Data{"x": x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range out["o"].Bytes {
		if want := min(x.Bytes[i], 1); b != want {
			t.Errorf("byte %d became %d, want %d", x.Bytes[i], b, want)
		}
	}
}

// TestFormatsRound stores numbers that a format does not have, in lists of all lengths around a vector. They become
// what package ir rounds them to, once: also next to ties, NaN, and beyond the range.
func TestFormatsRound(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 2))
	for d := range formats {
		if !d.IsFloat() {
			continue
		}
		for n := range 3 * lanes {
			floats, doubles := anyFloats(rng, n), make([]float64, n)
			for i, x := range floats {
				if i%3 == 0 { // a tie, or just beside it
					a := ir.RoundTo(float64(x), d)
					x = float32((a + ir.RoundTo(a*(1+math.Exp2(float64(-1-rng.IntN(12)))), d)) / 2)
					floats[i] = math.Float32frombits(math.Float32bits(x) + uint32(rng.IntN(3)) - 1)
				}
				doubles[i] = float64(floats[i]) * (1 + (rng.Float64()-0.5)*1e-9)
			}
			bytes, have := make([]byte, n*d.BlockBytes()), make([]float64, n)
			check := func(width int, x func(i int) float64) {
				ir.DecodeFloats(have, d, bytes)
				for i, y := range have {
					if want := ir.RoundTo(x(i), d); !same(float32(y), float32(want), 0) {
						t.Fatalf("%s: %v of %d bits, element %d of %d, became %g, want %g", d, x(i), width, i, n, y,
							want)
					}
				}
			}
			storer[float32](&interp.Stored{DType: d, Bytes: bytes})(0, floats)
			check(32, func(i int) float64 { return float64(floats[i]) })
			storer[float64](&interp.Stored{DType: d, Bytes: bytes})(0, doubles)
			check(64, func(i int) float64 { return doubles[i] })
		}
	}
}

// TestRoundedResults compares results of 16 bits with the interpreter, for elements that float32 represents and the
// dtype does not. They are rounded in the format of tensors, and in 32 bits where the program wants
// them so, as it does for the new value of a state.
func TestRoundedResults(t *testing.T) { eachWidth(t, testRoundedResults) }

func testRoundedResults(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 3))
	for _, d := range []ir.DType{ir.F16, ir.BF16} {
		for _, of := range []string{"cumsum %x {axis=1}", "cumsum %x {axis=0}", "mul %x, %x", "cast %f {dtype=TYPE}",
			"cast %d {dtype=TYPE}", "cast %i {dtype=TYPE}", "softmax %z {axis=1}", "softmax %z {axis=0}", "l2_normalize %z",
			"group_norm %z4 {groups=1}", "sum %x {axes=[1], keepdims=true}"} {
			cols, exact := 13, !strings.Contains(of, "%z")
			if strings.HasPrefix(of, "sum") {
				cols = 1
			}
			g, err := ir.Parse(strings.ReplaceAll(fmt.Sprintf(`graph "g" {
				%%s = state {name="s", dtype=TYPE, shape=[3,%d]}
				%%x = input {name="x", dtype=TYPE, shape=[3,13]}
				%%z = input {name="z", dtype=TYPE, shape=[3,13]}
				%%f = input {name="f", dtype=f32, shape=[3,13]}
				%%d = input {name="d", dtype=f64, shape=[3,13]}
				%%i = input {name="i", dtype=i64, shape=[3,13]}
				%%z4 = reshape %%z {shape=[3,13,1]}
				%%y = %s
				%%r = reshape %%y {shape=[3,%[1]d]}
				%%again = cast %%r {dtype=f32}
				update %%s = %%r
				output "y" %%again
			}`, cols, of), "TYPE", d.String()))
			if err != nil {
				t.Fatal(err)
			}
			in := map[string]*ir.Data{}
			for name, x := range map[string]ir.DType{"x": d, "z": d, "f": ir.F32, "d": ir.F64} {
				list := make([]float64, 3*13)
				for i := range list {
					// Sums of these have at most 20 bits, so that they are exact in any order.
					list[i] = float64(rng.IntN(2048)) / float64(int(16)<<(i%3*3))
					if x == d {
						list[i] = ir.RoundTo(list[i], d)
					}
				}
				if in[name], err = ir.FromFloats(x, list, 3, 13); err != nil {
					t.Fatal(err)
				}
			}
			if in["i"], err = ir.NewData(ir.I64, 3, 13); err != nil {
				t.Fatal(err)
			}
			ints := make([]int64, 3*13)
			for i := range ints {
				ints[i] = int64(rng.IntN(60000))
			}
			ir.EncodeInts(in["i"].Bytes, ir.I64, ints)
			var results [2]*ir.Data
			for k, options := range []interp.Options{{}, {Replace: Kernels}} {
				p, err := interp.New(g, options)
				if err != nil {
					t.Fatal(err)
				}
				out, err := p.Run(t.Context(), in, nil)
				if err != nil {
					t.Fatal(err)
				}
				results[k] = out["y"]
			}
			want, _ := results[0].Floats()
			have, _ := results[1].Floats()
			for i, y := range have {
				// Where functions differ by the last bits of float32, the rounded results may be neighbours.
				near := !exact && math.Abs(y-want[i]) <= max(math.Abs(want[i])*0x1p-7, 0x1p-24)
				if y != ir.RoundTo(y, d) || y != want[i] && !near {
					t.Errorf("%s, %s: element %d is %v, want %v", d, of, i, y, want[i])
				}
			}
		}
	}
}
