package e2e

import (
	"context"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// TestBytesCompileAnywhere compiles README's first graph, with a u8 input, and another graph with an i64 input for
// every profile. None may be rejected.
func TestBytesCompileAnywhere(t *testing.T) {
	devtest.NeedTools(t)
	g := build(t, func(b *frontend.Builder) {
		n := b.Sym("N", 64)
		x := b.Input("images", ir.U8, n, 28, 28).Reshape(n, 28*28).Cast(ir.F32).DivScalar(255)
		x = x.MatMulT(b.Weight("hidden.weight", ir.F32, 128, 784)).Add(b.Weight("hidden.bias", ir.F32, 128)).Relu()
		x = x.MatMulT(b.Weight("output.weight", ir.F32, 10, 128)).Add(b.Weight("output.bias", ir.F32, 10))
		b.Output("class", x.Argmax(-1).Cast(ir.I64).Add(b.Input("first", ir.I64, n)))
	})
	for _, name := range device.Kinds() {
		caps, err := device.Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{Target: caps}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
