package compiler

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/ir"
)

// TestCacheKey checks that a program is not found in the cache for a device with too little memory for the decoded
// copies of weights that it keeps, and that the size of the memory does not matter otherwise.
func TestCacheKey(t *testing.T) {
	g, err := ir.Parse(`graph "g" {
  %w = weight {name="w", dtype=q4_0, shape=[4,32]}
  %x = input {name="x", dtype=f32, shape=[4,32]}
  %y = matmul %x, %w {transpose_b=true}
  output "y" %y
}`)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := spirv.Find(t.Context(), spirv.FindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	key := func(memory uint64) string { return cacheKey(g, device.Caps{DeviceMemory: memory}, tools, Options{}) }
	const enough = 4*18 + 4*2*4*32 // the weight, and four times its decoded copy
	if key(enough-1) == key(enough) {
		t.Error("one key for devices with and without room for the decoded weight")
	}
	if cacheKey(g, device.Caps{}, tools, Options{OneKernel: true}) == key(0) {
		t.Error("one key for programs with and without alternatives")
	}
	if key(enough) != key(2*enough) || key(0) != key(enough-1) {
		t.Error("keys differ by the size of memory alone")
	}
}
