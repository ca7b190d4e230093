package lower_test

import (
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// layouts puts weights in the planes layout and prices fusion of norms. It records the layouts of the weights that a
// matmul would read.
type layouts struct {
	kernel.Pricer
	asked *[]kernel.Layout
}

func (l layouts) Price(r kernel.Rewrite) kernel.Estimate {
	if r.Work != nil {
		return kernel.Estimate{}
	}
	for _, b := range r.After[0].Bindings {
		if b.DType.IsBlock() {
			*l.asked = append(*l.asked, b.Layout)
		}
	}
	return kernel.Estimate{Before: 1}
}

// TestLayoutsBeforePrices: a pricer sees the layout of the weights for which the kernel will be emitted, and the
// program's buffer has the same layout.
func TestLayoutsBeforePrices(t *testing.T) {
	g := passtest.Parse(t, `
		%x = input {name="x", dtype=f32, shape=[1,256]}
		%n = weight {name="n", dtype=f32, shape=[256]}
		%q = weight {name="q", dtype=q4_0, shape=[64,256]}
		%1 = rms_norm %x, %n
		%2 = dequantize %q
		%3 = matmul %1, %2 {transpose_b=true}
		output "o" %3`)
	var asked []kernel.Layout
	s, err := passes.Run(g, passes.Options{Pricer: layouts{passtest.Choices{}, &asked}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []kernel.Layout{kernel.LayoutPlanes}; !slices.Equal(asked, want) {
		t.Errorf("prices are asked for layouts %q and want %q", asked, want)
	}
	at := slices.IndexFunc(s.Program.Buffers, func(b kernel.Buffer) bool { return b.DType == ir.Q4_0 })
	b := s.Program.Buffers[at]
	if n, err := b.Layout.Bytes(b.DType, b.Shape.MaxElems()); err != nil ||
		b.Layout != kernel.LayoutPlanes || b.Bytes != n {
		t.Errorf("the buffer lies in %q, of %d bytes and wants %d: %v", b.Layout, b.Bytes, n, err)
	}
}
