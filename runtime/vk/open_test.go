package vk_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
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
		} else if !strings.Contains(text, "VK_DRIVER_FILES=/nonexistent") {
			t.Errorf("error %q does not say that the environment hides the system's drivers", text)
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

// TestDisabled: features that the environment turns off are none of the devices', and a name of none is an error.
func TestDisabled(t *testing.T) {
	inst, err := vk.Open()
	if err != nil {
		t.Skip("no Vulkan: ", err)
	}
	before := inst.Devices()
	inst.Close()
	t.Setenv(device.DisableEnv, "subgroup,storage16")
	if inst, err = vk.Open(); err != nil {
		t.Fatal(err)
	}
	for i, d := range inst.Devices() {
		if c := d.Caps; c.SubgroupOps&device.SubgroupBasic != 0 || c.Features.Storage16 ||
			c.Features.Storage8 != before[i].Caps.Features.Storage8 || len(d.Disabled) != 2 {
			t.Errorf("%s without %q: subgroups %v, features %+v", c.Name, d.Disabled, c.SubgroupOps, c.Features)
		}
	}
	inst.Close()
	t.Setenv(device.DisableEnv, "storage17")
	if inst, err = vk.Open(); err == nil {
		inst.Close()
	}
	if len(before) > 0 && (err == nil || errors.Is(err, vk.ErrUnavailable) ||
		!strings.Contains(err.Error(), `"storage17"`)) {
		t.Errorf("a feature of no device: %v", err)
	}
}
