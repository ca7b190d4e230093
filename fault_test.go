package vkc_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// TestQuantizeRefuses: a run that would quantize values out of a format's range fails on the device and on the
// reference. The error has the op and the elements. The next run is not affected.
func TestQuantizeRefuses(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	g, err := frontend.Build("blocks", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 3, 64)
		b.Output("y", x.Quantize(ir.Q8_0).Dequantize(ir.F32))
		b.Output("z", x.MulScalar(2).Quantize(ir.Q4_1).Dequantize(ir.F32))
	})
	if err != nil {
		t.Fatal(err)
	}
	reference, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer reference.Close()
	for _, dev := range []*vkc.Device{reference, devtest.OpenDevice(t)} {
		exe, err := dev.LoadGraph(t.Context(), g, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		for at, bad := range map[int]float32{0: float32(math.NaN()), 70: float32(math.Inf(-1)), 191: 40000} {
			values := make([]float32, 3*64)
			for i := range values {
				values[i] = float32(i)
			}
			values[at] = bad
			x, err := vkc.Of(values, 3, 64)
			if err != nil {
				t.Fatal(err)
			}
			_, err = exe.Run(t.Context(), vkc.Tensors{"x": x})
			var fault *ir.FaultError
			if !errors.As(err, &fault) {
				t.Fatalf("%s, %g at %d: %v", dev.Name(), bad, at, err)
			}
			format, limit := "quantize", "NaN"
			if bad == 40000 { // which only the doubled ones are too large with
				limit = "65504, the maximum of q4_1"
			}
			if int64(at) < fault.First || int64(at) > fault.Last || fault.Last-fault.First > 31 ||
				!strings.Contains(err.Error(), format) || !strings.Contains(err.Error(), limit) {
				t.Errorf("%s, %g at %d: %v", dev.Name(), bad, at, err)
			}
			values[at] = 1
			if x, err = vkc.Of(values, 3, 64); err != nil {
				t.Fatal(err)
			}
			if _, err := exe.Run(t.Context(), vkc.Tensors{"x": x}); err != nil {
				t.Errorf("%s, after %g at %d: %v", dev.Name(), bad, at, err)
			}
		}
	}
}
