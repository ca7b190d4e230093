package generate

import (
	"testing"

	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestLoadPeak: while a model of several slots is loaded, it takes hardly more device memory than afterwards. The KV
// caches may fill most of the memory, so no step of the load may copy all of them.
func TestLoadPeak(t *testing.T) {
	needDevice(t)
	m := openModel(t, tinyModel(t), Options{Device: "vulkan", Context: 128, Parallel: 8, Deterministic: true})
	stats := vk.Of(m.device).MemoryStats()
	caches := stats.Owners[runtime.OwnStates]
	if more := stats.Peak - stats.InUse; caches == 0 || more > caches/2 {
		t.Errorf("loading took %d bytes more than the %d that the model keeps, want at most half of its caches of %d",
			more, stats.InUse, caches)
	}
}
