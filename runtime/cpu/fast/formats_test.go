package fast

import (
	"bytes"
	"math/rand/v2"
	"slices"
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
