package vkc_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestCompileHuge compiles kernels over tensors of 4.6e9 elements, which no device is needed for, and has those refused
// that count more than their integers hold.
func TestCompileHuge(t *testing.T) {
	needTools(t)
	ownCache(t)
	noTrial(t)
	const rows, cols = 70000, 1 << 16
	h100, err := target.Profile("nvidia-h100")
	if err != nil {
		t.Fatal(err)
	}
	noInt64, err := h100.Without("int64")
	if err != nil {
		t.Fatal(err)
	}
	noBytes, err := h100.Without("storage8")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		caps   target.Caps
		build  func(b *frontend.Builder) frontend.Tensor
		refuse string // "" for none
	}{
		{"map", h100, func(b *frontend.Builder) frontend.Tensor {
			return b.Input("x", ir.U8, rows, cols).Add(b.Input("y", ir.U8, cols))
		}, ""},
		{"transposed", h100, func(b *frontend.Builder) frontend.Tensor {
			return b.Input("x", ir.F16, rows, cols).Transpose(1, 0)
		}, ""},
		{"symbol", h100, func(b *frontend.Builder) frontend.Tensor {
			return b.Input("x", ir.F16, b.Sym("N", rows), cols).Pad([]int{1, 0}, []int{0, 0}, 0)
		}, ""},
		{"rows", h100, func(b *frontend.Builder) frontend.Tensor {
			return b.Input("x", ir.F16, rows, cols).Softmax(1)
		}, ""},
		{"columns", h100, func(b *frontend.Builder) frontend.Tensor {
			return b.Input("x", ir.F16, rows, cols).CumSum(0)
		}, ""},
		{"all", h100, func(b *frontend.Builder) frontend.Tensor {
			return b.Input("x", ir.U8, rows, cols).Cast(ir.F32).Sum()
		}, ""},
		{"product", h100, func(b *frontend.Builder) frontend.Tensor {
			return b.Input("x", ir.F16, 128, cols).MatMul(b.Input("w", ir.F16, cols, rows))
		}, ""},
		{"product of blocks", h100, func(b *frontend.Builder) frontend.Tensor {
			w := b.State("w", ir.Q4_0, rows, cols).Dequantize(ir.F32)
			return b.Input("x", ir.F32, 128, cols).MatMul(w.Transpose(1, 0))
		}, ""},
		{"an axis", h100, func(b *frontend.Builder) frontend.Tensor {
			return b.Input("x", ir.U8, 1<<32).Add(b.Input("y", ir.U8))
		}, "elements along an axis: 4294967296, more than the 2147483647"},
		{"random", h100, func(b *frontend.Builder) frontend.Tensor {
			return b.RandomUniform(b.Input("seed", ir.U32), b.Input("offset", ir.U32), ir.F16, rows, cols)
		}, "elements of a random stream"},
		{"sorted by digits", h100, func(b *frontend.Builder) frontend.Tensor {
			return b.Input("x", ir.F16, rows, cols).Sort(1)
		}, "maxStorageRange 4294967295: buffer \"keys\""},
		{"units of blocks", h100, func(b *frontend.Builder) frontend.Tensor {
			return b.State("x", ir.Q8_0, 2*rows, cols).Dequantize(ir.F16).Sum(1)
		}, "units of 2 bytes"},
		{"no int64", noInt64, func(b *frontend.Builder) frontend.Tensor {
			return b.Input("x", ir.F16, rows, cols).Sum(0)
		}, "feature int64: positions reach 4587519999"},
		{"bytes in words", noBytes, func(b *frontend.Builder) frontend.Tensor {
			return b.Input("x", ir.U8, rows, cols).Sum(0)
		}, "feature storage8: buffer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := build(t, func(b *frontend.Builder) { b.Output("y", tt.build(b)) })
			_, err := vkc.Compile(t.Context(), g, vkc.CompileOptions{Target: tt.caps})
			switch {
			case tt.refuse != "" && (err == nil || !strings.Contains(err.Error(), tt.refuse)):
				t.Errorf("error %v, want one that says %q", err, tt.refuse)
			case tt.refuse == "" && err != nil:
				t.Error(err)
			}
		})
	}
}
