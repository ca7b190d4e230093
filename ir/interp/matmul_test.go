package interp

import (
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestMatMulOfBytes: sums are exact, in i32, and wrap around past it.
func TestMatMulOfBytes(t *testing.T) {
	const long = 1 << 17
	repeat := func(x int64, n int) []int64 { return slices.Repeat([]int64{x}, n) }
	tests := []struct {
		name    string
		dtype   ir.DType
		m, n, k int
		a, b    []int64 // [m, k], [n, k]
		want    []int64
	}{
		{"by hand", ir.I8, 2, 2, 3, []int64{1, -2, 3, -128, 127, 0}, []int64{-128, -128, -128, 127, -1, 5},
			[]int64{-256, 144, 128, -16383}},
		{"without a sign", ir.U8, 1, 2, 2, []int64{255, 200}, []int64{255, 255, 0, 1}, []int64{116025, 200}},
		{"2^31 wraps to its negative", ir.I8, 1, 2, long, repeat(-128, long),
			append(repeat(-128, long), repeat(127, long)...),
			[]int64{-1 << 31, -128 * 127 * long}},
		{"a sum that f32 would round", ir.U8, 1, 1, 259, append(repeat(255, 258), 1), append(repeat(255, 258), 1), []int64{16776451}},
		{"more than 2^31 without a sign", ir.U8, 1, 1, 33026, repeat(255, 33026), repeat(255, 33026), []int64{65025*33026 - 1<<32}},
		{"nothing to add up", ir.I8, 1, 1, 0, nil, nil, []int64{0}},
	}
	for _, tt := range tests {
		b := newGraph(t)
		x, w := b.input("x", tt.dtype, ir.ShapeOf(tt.m, tt.k)), b.input("w", tt.dtype, ir.ShapeOf(tt.n, tt.k))
		b.output("y", b.add(ir.OpMatMul, []*ir.Node{x, w}, "transpose_b", true))
		in := map[string]*ir.Data{"x": integers(t, tt.dtype, tt.a, tt.m, tt.k),
			"w": integers(t, tt.dtype, tt.b, tt.n, tt.k)}
		y := run(t, b.program(Options{}), in, nil)["y"]
		got := make([]int64, y.Elems())
		ir.DecodeInts(got, y.DType, y.Bytes)
		if y.DType != ir.I32 || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %s %v, want i32 %v", tt.name, y.DType, got, tt.want)
		}
	}
}
