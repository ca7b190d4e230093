package e2e

import (
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestSharedByLanes turns pairs of neighbours by angles that all heads share, as rotary positions do. An invocation
// computes a pair for several heads, so both lanes of its vector share sine and cosine.
func TestSharedByLanes(t *testing.T) {
	dev := openDevice(t)
	g, err := frontend.Build("pairs", func(b *frontend.Builder) {
		x, angle := b.Input("x", ir.F32, b.Sym("T", 16), 8, 32, 2), b.Input("angle", ir.F32, b.Sym("T", 16), 1, 32)
		first, second, sine, cosine := x.Index(3, 0), x.Index(3, 1), angle.Sin(), angle.Cos()
		b.Output("y", first.Mul(cosine).Sub(second.Mul(sine)).Stack(3, first.Mul(sine).Add(second.Mul(cosine))))
	})
	if err != nil {
		t.Fatal(err)
	}
	checkRun(t, dev, g, lengths("T", 5))
}
