package multi_test

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
)

// TestCopiesOfCUDA makes devices exchange values with CUDA copies. A fake library replaces CUDA: it imports memory that
// lavapipe exports, and ends the program on misuse. The bits must be those of one device.
func TestCopiesOfCUDA(t *testing.T) {
	devtest.NeedTools(t)
	cc, err := exec.LookPath("cc")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("cc on Linux makes what is in the place of CUDA's driver")
	}
	library := filepath.Join(t.TempDir(), "libcuda.so.1")
	made := exec.Command(cc, "-shared", "-fPIC", "-o", library, "../vk/testdata/cuda.c")
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	one, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	caps := one.Caps()
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if caps.Type != device.DeviceCPU || !strings.Contains(caps.Name, "llvmpipe") {
		t.Skip("the library imports memory of lavapipe")
	}
	t.Setenv("VKC_CUDA", library)
	t.Setenv("VKC_TEST_UUID", caps.DeviceUUID)
	for list, n := range map[string]int{"vulkan,vulkan": 2, "vulkan,vulkan,vulkan,vulkan": 4} {
		testBits(t, "copied", copyByCUDA, list, n)
	}
}
