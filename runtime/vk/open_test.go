package vk_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/runtime/vk"
)

// TestOpenWithoutDriver runs itself in a process that finds no driver.
func TestOpenWithoutDriver(t *testing.T) {
	if os.Getenv("VKC_TEST_NO_DRIVER") == "1" {
		inst, err := vk.Open()
		if err == nil { // a loader may list no devices where others refuse
			_, _, err = vk.Choose(inst.Devices(), "")
			inst.Close()
		}
		if !errors.Is(err, vk.ErrUnavailable) {
			t.Fatalf("without a driver: %v; want ErrUnavailable", err)
		}
		if text := err.Error(); !strings.Contains(text, "CPU device") || strings.Contains(text, "\n") {
			t.Errorf("error %q does not name the CPU device in one line", text)
		}
		return
	}
	if _, err := vk.Open(); err != nil {
		t.Skip("no Vulkan in the first place: ", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Skip(err)
	}
	// Under a wrapper with a loader of its own, the executable is that loader.
	if strings.Contains(self, "ld-linux") || strings.Contains(self, "ld.so") {
		t.Skip("the test binary runs under another dynamic linker")
	}
	cmd := exec.Command(self, "-test.run=^TestOpenWithoutDriver$")
	cmd.Env = append(os.Environ(), "VKC_TEST_NO_DRIVER=1", "VK_DRIVER_FILES=/nonexistent",
		"VK_ICD_FILENAMES=/nonexistent")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
