package target

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// padded gives the buffers of both operands of a product whole tiles of rows
// of so many elements, as stored operands have them.
func padded(k *kernel.Kernel, rows, depth int64) *kernel.Kernel {
	for i := range k.Bindings[:2] {
		k.Bindings[i].Elems = rows * depth
	}
	return k
}

func TestCutTail(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	T := ir.Symbol("T", 4097)
	cases := []struct {
		what string
		k    *kernel.Kernel
		caps Caps
		want kernel.Tail
	}{
		{"whole tiles", matrixMul(one, ir.D(4096), ir.D(4096), ir.D(4096), ir.F16, true), h100, kernel.Tail{}},
		{"a row more, stored", padded(matrixMul(one, ir.D(4097), ir.D(4097), ir.D(4160), ir.F16, true), 4352, 4160), h100, kernel.Tail{Axis: 1, From: 4096}},
		{"a row more as it lies", matrixMul(one, ir.D(4097), ir.D(4096), ir.D(4096), ir.F16, true), h100, kernel.Tail{Axis: 1, From: 4096}},
		{"a column more", matrixMul(one, ir.D(4096), ir.D(4097), ir.D(4096), ir.F16, true), h100, kernel.Tail{Axis: 2, From: 4096, Swap: true}},
		{"columns of blocks more", inF16(matMul(one, ir.D(4096), ir.D(4097), ir.D(4096), ir.Q4_0, true)), h100, kernel.Tail{}},
		{"rows and columns more", matrixMul(one, ir.D(5000), ir.D(5000), ir.D(4096), ir.F16, true), h100, kernel.Tail{Axis: 1, From: 4864}},
		{"bytes", bytesMul(ir.D(4097), ir.D(4096), ir.D(4096), ir.I8, true), h100, kernel.Tail{Axis: 1, From: 4096}},
		{"a row less, stored", padded(matrixMul(one, ir.D(4095), ir.D(4095), ir.D(4096), ir.F16, true), 4096, 4096), h100, kernel.Tail{}},
		{"few tiles", matrixMul(one, ir.D(130), ir.D(512), ir.D(512), ir.F16, true), h100, kernel.Tail{}},
		{"rows at run time", matrixMul(one, T, ir.D(4096), ir.D(4096), ir.F16, true), h100, kernel.Tail{}},
		{"depth at run time", matrixMul(one, ir.D(4097), ir.D(4096), T, ir.F16, true), h100, kernel.Tail{}},
		{"few rows are for matvec", matrixMul(one, ir.D(4), ir.D(4097), ir.D(4096), ir.F16, true), h100, kernel.Tail{}},
		{"not on matrix units", matMul(one, ir.D(4097), ir.D(4096), ir.D(4096), ir.F32, true), h100, kernel.Tail{}},
		{"no rates are known", matrixMul(one, ir.D(4097), ir.D(4096), ir.D(4096), ir.F16, true), profile(t, "amd-rdna3"), kernel.Tail{}},
	}
	for _, c := range cases {
		if got := CutTail(c.k, c.caps); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}
