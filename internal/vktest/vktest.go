// Package vktest helps tests that need a Vulkan device.
package vktest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/vkc-go/vkc/runtime/vk"
)

// Required reports whether VKC_REQUIRE_DEVICE=1 is set. Then a test fails if there is no Vulkan device. Otherwise it is
// skipped.
func Required() bool { return os.Getenv("VKC_REQUIRE_DEVICE") == "1" }

// Main is for TestMain. It runs the tests. The result is a failure if Vulkan's validation layers reported anything,
// which are enabled by environment variable VK_INSTANCE_LAYERS:
//
//	func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }
func Main(m *testing.M) int {
	// These are the variables that the loader and the layers read. Because Main reads them, "go test" runs the tests
	// again when they change.
	for _, name := range []string{"VK_INSTANCE_LAYERS", "VK_LAYER_ENABLES", "VK_LAYER_VALIDATE_SYNC", "VK_LAYER_PATH",
		"VK_DRIVER_FILES", "VK_ICD_FILENAMES"} {
		os.Getenv(name)
	}
	code := m.Run()
	if common.dir != os.Getenv(CommonEnv) {
		os.RemoveAll(common.dir)
	}
	messages := vk.ValidationMessages()
	for _, text := range messages {
		fmt.Fprintln(os.Stderr, "validation:", text)
	}
	if len(messages) > 0 && code == 0 {
		code = 1
	}
	return code
}

// CommonEnv is the name of the environment variable with the directory of CommonCache. scripts/test sets it, so that
// all processes of a run share the directory.
const CommonEnv = "VKC_TEST_CACHE"

var common struct {
	once sync.Once
	dir  string
	err  error
}

// CommonCache returns a directory for what tests compile. Without CommonEnv it is a directory of this process, and Main
// removes it.
func CommonCache() (string, error) {
	common.once.Do(func() {
		common.dir = os.Getenv(CommonEnv)
		if common.dir == "" {
			common.dir, common.err = os.MkdirTemp("", "vkc-common-")
		}
	})
	return common.dir, common.err
}

// The folders of a cache that tests share, and that Share takes.
const (
	Shaders = "spirv"
	Tools   = "tools" // the versions and features of the tools
)

// Share makes the folders of an empty cache those of CommonCache.
func Share(cache string, folders ...string) error {
	dir, err := CommonCache()
	for _, folder := range folders {
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, folder), 0o700)
		}
		if err == nil {
			err = os.Symlink(filepath.Join(dir, folder), filepath.Join(cache, folder))
		}
	}
	return err
}

// Instance opens Vulkan, and closes it when the test ends. Without Vulkan the test is skipped, or fails if a device is
// required.
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

// Device opens the device that VKC_DEVICE names, or the best one, and closes it when the test ends. The test fails if
// it has left resources open on the device. Without a device the test is skipped, or fails if a device is required.
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

// CloseAfter closes c when the test ends.
func CloseAfter(t testing.TB, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
