package e2e

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir/optest"
)

// TestNeedsAreThere: code generated for a device needs no feature that the device lacks. SwiftShader has no 64-bit
// types and no 8-bit storage. The generic device has little but 16-bit storage.
func TestNeedsAreThere(t *testing.T) {
	for _, name := range []string{"swiftshader", "generic"} {
		caps, err := device.Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		kernels := 0
		for _, c := range optest.Select(optest.Options{Smoke: true}) {
			g, _, ok := c.Build(c.DType)
			if !ok {
				t.Fatalf("%s has no graph", c.Name)
			}
			low, err := compiler.Lower(t.Context(), g, caps, nil)
			if err != nil {
				continue // rejected because of its needs
			}
			for _, s := range low.Program.Shaders {
				kernels++
				for _, need := range s.Needs {
					if !caps.Has(need) {
						t.Errorf("%s on %s: kernel %s needs %s", c.Name, name, s.Name, need)
					}
				}
			}
		}
		if kernels < 300 {
			t.Errorf("%s: only %d kernels", name, kernels)
		}
	}
}
