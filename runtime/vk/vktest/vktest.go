// Package vktest helps tests that need a Vulkan device.
package vktest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/vkc-go/vkc/runtime/vk"
)

// Required reports whether VKC_REQUIRE_DEVICE=1 is set: then a test that finds no Vulkan device fails
// where it would be skipped.
func Required() bool { return os.Getenv("VKC_REQUIRE_DEVICE") == "1" }

// Main is for TestMain. It runs the tests, then fails the package if validation layers, switched on
// from outside with VK_INSTANCE_LAYERS, had anything to say:
//
//	func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }
func Main(m *testing.M) int {
	// Naming what the loader and the layers read makes "go test" run again when it changes.
	for _, name := range []string{"VK_INSTANCE_LAYERS", "VK_LAYER_ENABLES", "VK_LAYER_VALIDATE_SYNC", "VK_LAYER_PATH",
		"VK_DRIVER_FILES", "VK_ICD_FILENAMES"} {
		os.Getenv(name)
	}
	code := m.Run()
	messages := vk.ValidationMessages()
	for _, text := range messages {
		fmt.Fprintln(os.Stderr, "validation:", text)
	}
	if len(messages) > 0 && code == 0 {
		code = 1
	}
	return code
}

// Instance opens Vulkan and closes it when the test ends. Without Vulkan the test is skipped, or fails
// if a device is required.
func Instance(t testing.TB) *vk.Instance {
	t.Helper()
	inst, err := vk.Open()
	Need(t, err)
	t.Cleanup(func() {
		if err := inst.Close(); err != nil {
			t.Errorf("close instance: %v", err)
		}
	})
	return inst
}

// Device opens the device that VKC_DEVICE names, or the best one, and closes it when the test ends,
// which fails if the test has left something open on it. Without a device the test is skipped, or fails
// if one is required.
func Device(t testing.TB, options vk.DeviceOptions) *vk.Device {
	t.Helper()
	inst := Instance(t)
	index, _, err := vk.Choose(inst.Devices(), os.Getenv("VKC_DEVICE"))
	Need(t, err)
	d, err := inst.OpenDevice(index, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close device: %v", err)
		}
	})
	return d
}

// Need ends the test if opening a device failed. If the machine has no device, it skips the test, or fails it if a
// device is required.
func Need(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if Required() || !errors.Is(err, vk.ErrUnavailable) {
		t.Fatal(err)
	}
	t.Skipf("no Vulkan device here (VKC_REQUIRE_DEVICE=1 makes this a failure): %v", err)
}
