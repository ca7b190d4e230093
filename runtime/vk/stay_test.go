package vk_test

import (
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestDriversStay opens and closes Vulkan 60 times. NVIDIA's driver, unloaded and loaded again, was not found any more
// after about 25 times; other drivers have always passed.
func TestDriversStay(t *testing.T) {
	for range 60 {
		inst, err := vk.Open()
		vktest.Need(t, err)
		found := len(inst.Devices())
		if err := inst.Close(); err != nil {
			t.Fatal(err)
		}
		if found == 0 {
			t.Fatal("no device is found any more")
		}
	}
}
