package fast

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// extremes returns 8-bit integers, many of which are at the ends of their range.
func extremes(rng *rand.Rand, t ir.DType, dims ...int) *ir.Data {
	d := &ir.Data{DType: t, Dims: dims, Bytes: randomBytes(rng, volume(dims))}
	for i := range d.Bytes {
		if rng.IntN(2) == 0 {
			d.Bytes[i] = []byte{0x80, 0x7f, 0xff, 0}[rng.IntN(4)]
		}
	}
	return d
}

// sameInts checks that a graph of inputs x and w, and one with w as a weight, give the interpreter's integers with each
// width of vectors.
func sameInts(t *testing.T, op string, x, w *ir.Data) {
	t.Helper()
	for _, leaf := range []string{"input", "weight"} {
		g, err := ir.Parse(fmt.Sprintf(`graph "g" {
  %%x = input {name="x", dtype=%s, shape=%s}
  %%w = %s {name="w", dtype=%s, shape=%s}
  %s
  output "y" %%y
}`, x.DType, extents(x.Dims), leaf, w.DType, extents(w.Dims), op))
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]*ir.Data{"x": x}
		if leaf == "input" {
			in["w"] = w
		}
		run := func(t *testing.T, replace func(*ir.Graph) []*interp.Kernel) []int64 {
			p, err := interp.New(g, interp.Options{Weights: oneWeight{w}, Replace: replace, Poison: true})
			if err != nil {
				t.Fatal(err)
			}
			var list []int64
			for range 2 { // the second run reuses memory
				out, err := p.Run(t.Context(), in, nil)
				if err == nil {
					list, err = out["y"].Ints()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			return list
		}
		want := run(t, nil)
		eachWidth(t, func(t *testing.T) {
			if last := len(g.Nodes()) - 1; multipliesInts() && Kernels(g)[last] == nil {
				t.Errorf("%s of %s%v and %v is not computed here", op, x.DType, x.Dims, w.Dims)
			}
			if have := run(t, Kernels); !slices.Equal(have, want) {
				t.Errorf("%s of %s%v and %s %v: %v, want %v", op, x.DType, x.Dims, leaf, w.Dims, have, want)
			}
		})
	}
}

// extents is the text of a shape.
func extents(dims []int) string {
	s := "["
	for i, d := range dims {
		if i > 0 {
			s += ","
		}
		s += fmt.Sprint(d)
	}
	return s + "]"
}

// TestMatmulInts compares matmuls of 8-bit integers with the interpreter's.
func TestMatmulInts(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 1))
	for i, c := range []struct{ outerA, outerB []int }{{}, {[]int{3}, nil}, {nil, []int{2}}, {[]int{2, 1}, []int{3}},
		{[]int{2}, []int{2}}} {
		for j, size := range [][3]int{{1, 1, 1}, {1, 70, 9}, {11, 33, 16}, {15, 31, 5}, {65, 2, 64}, {8, 64, 7}} {
			m, n, k := size[0], size[1], size[2]
			for _, d := range []ir.DType{ir.I8, ir.U8} {
				ta, tb := (i+j)%2 == 1, (i+j)/2%2 == 1
				a, b := append(slices.Clone(c.outerA), m, k), append(slices.Clone(c.outerB), k, n)
				if ta {
					a = append(slices.Clone(c.outerA), k, m)
				}
				if tb {
					b = append(slices.Clone(c.outerB), n, k)
				}
				op := fmt.Sprintf("%%y = matmul %%x, %%w {transpose_a=%v, transpose_b=%v}", ta, tb)
				sameInts(t, op, extremes(rng, d, a...), extremes(rng, d, b...))
			}
		}
	}
}

// TestWrappedInts: sums wrap past 32 bits.
func TestWrappedInts(t *testing.T) {
	const k = 1 << 18
	x := &ir.Data{DType: ir.I8, Dims: []int{1, k}, Bytes: slices.Repeat([]byte{0x80}, k)}
	w := &ir.Data{DType: ir.I8, Dims: []int{k, 1}, Bytes: x.Bytes}
	sameInts(t, "%y = matmul %x, %w", x, w)
}

// TestConvInts compares convolutions of 8-bit integers with the interpreter's.
func TestConvInts(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 1))
	for _, c := range []struct {
		x, w  []int
		attrs string
	}{
		{[]int{1, 3, 8, 9}, []int{10, 3, 3, 3}, ", padding_low=[1,1], padding_high=[1,1]"},
		{[]int{2, 5, 7, 40}, []int{9, 5, 3, 2}, ", stride=[2,2], padding_low=[0,1], padding_high=[2,0]"},
		{[]int{1, 8, 6, 6}, []int{8, 1, 3, 3}, ", groups=8, padding_low=[1,1], padding_high=[1,1]"},
		{[]int{2, 6, 9, 5}, []int{4, 3, 2, 3}, ", groups=2, dilation=[3,2], stride=[3,1], padding_low=[2,2]"},
		{[]int{1, 4, 5, 5}, []int{3, 4, 1, 1}, ", stride=[2,3]"},
		{[]int{1, 9, 33}, []int{5, 9, 4}, ", stride=[3], padding_low=[5], padding_high=[6], dilation=[2]"},
		{[]int{1, 2, 4, 5, 6}, []int{3, 2, 2, 3, 2}, ", stride=[1,2,3], padding_low=[1,2,1], padding_high=[0,1,2]"},
		{[]int{1, 1, 2, 2}, []int{1, 1, 5, 5}, ", padding_low=[4,4], padding_high=[4,4]"},
		{[]int{1, 7, 1, 1}, []int{5, 7, 1, 1}, ""},
	} {
		for _, d := range []ir.DType{ir.I8, ir.U8} {
			for _, around := range []int{0, 100} {
				op := fmt.Sprintf("%%y = conv %%x, %%w {padding_value=%d%s}", around, c.attrs)
				sameInts(t, op, extremes(rng, d, c.x...), extremes(rng, d, c.w...))
			}
		}
	}
}

// TestQuantizedResults compares ops that quantize the results of a matmul or a convolution with the interpreter's. All
// scales are powers of two, so no float rounds. The kernel of the last op computes all of them.
func TestQuantizedResults(t *testing.T) {
	rng := rand.New(rand.NewPCG(24, 1))
	const floats = "%xf = cast %x {dtype=f32}\n %wf = cast %w {dtype=f32}\n %z = const {data=f32[](3)}\n" +
		"%xc = sub %xf, %z\n"
	for what, c := range map[string]struct {
		x, w []int
		ops  string
	}{
		"matmul":     {[]int{9, 33}, []int{33, 70}, "%s = matmul %x, %w"},
		"matmuls":    {[]int{2, 5, 40}, []int{2, 40, 300}, "%s = matmul %x, %w"},
		"conv":       {[]int{2, 5, 9, 40}, []int{40, 5, 3, 2}, "%s = conv %x, %w {padding_low=[1,1]}"},
		"depthwise":  {[]int{1, 9, 9, 70}, []int{9, 1, 3, 5}, "%s = conv %x, %w {groups=9, stride=[1,2], padding_low=[2,2]}"},
		"one column": {[]int{1, 5, 9, 3}, []int{8, 5, 1, 3}, "%s = conv %x, %w"},
		"floats":     {[]int{9, 33}, []int{33, 70}, floats + "%s = matmul %xc, %wf"},
		"conv of floats": {[]int{1, 9, 30, 9}, []int{33, 9, 3, 3}, floats +
			"%s = conv %xc, %wf {stride=[2,1], padding_low=[1,0]}"},
	} {
		for i, d := range []ir.DType{ir.I8, ir.U8} {
			after := fmt.Sprintf(`
				%%f = cast %%s {dtype=f32}
				%%h = const {data=f32[](0.015625)}
				%%m = mul %%f, %%h
				%%r = round %%m
				%%zero = const {data=f32[](%d)}
				%%a = add %%r, %%zero
				%%y = cast %%a {dtype=%s}`, 10*i, d)
			if what == "matmuls" {
				after = "\n%two = const {data=i32[](2)}\n%u = mul %s, %two\n%y = neg %u"
			}
			sameInts(t, c.ops+after, extremes(rng, d, c.x...), extremes(rng, d, c.w...))
		}
	}
}
