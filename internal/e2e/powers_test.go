package e2e_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// TestPowersByConstants: kernels compute powers with small integer or root exponents by multiplication, division and
// roots, for exponents in attributes and in constants. They use exponentials for other exponents.
func TestPowersByConstants(t *testing.T) {
	caps := devtest.Profile(t, "generic")
	for _, tt := range []struct {
		name  string
		dtype ir.DType
		of    func(x frontend.Tensor) frontend.Tensor
		call  bool
	}{
		{"powf 2", ir.F32, func(x frontend.Tensor) frontend.Tensor { return x.Powf(2) }, false},
		{"powf 3", ir.F16, func(x frontend.Tensor) frontend.Tensor { return x.Powf(3) }, false},
		{"powf 0.5", ir.F32, func(x frontend.Tensor) frontend.Tensor { return x.Powf(0.5) }, false},
		{"powf -0.5", ir.F32, func(x frontend.Tensor) frontend.Tensor { return x.Powf(-0.5) }, false},
		{"powf -1", ir.F32, func(x frontend.Tensor) frontend.Tensor { return x.Powf(-1) }, false},
		{"powf 1.5", ir.F32, func(x frontend.Tensor) frontend.Tensor { return x.Powf(1.5) }, true},
		{"pow 2", ir.F32, func(x frontend.Tensor) frontend.Tensor { return x.Pow(x.Lit(2)) }, false},
		{"pow 2 of integers", ir.I32, func(x frontend.Tensor) frontend.Tensor {
			return x.Pow(x.Lit(2))
		}, false},
		{"pow of another", ir.F32, func(x frontend.Tensor) frontend.Tensor { return x.Pow(x) }, true},
	} {
		g, err := frontend.Build(tt.name, func(b *frontend.Builder) { b.Output("y", tt.of(b.Input("x", tt.dtype, 8))) })
		if err != nil {
			t.Fatal(err)
		}
		low, err := compiler.Lower(t.Context(), g, caps, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text := low.GLSL[0]; strings.Contains(text, "pow_") != tt.call {
			t.Errorf("%s: calls a function of any power %v, want %v, in\n%s", tt.name, !tt.call, tt.call, text)
		}
	}
}
