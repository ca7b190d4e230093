package e2e

import (
	"testing"

	"github.com/vkc-go/vkc"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/spv"
	"github.com/vkc-go/vkc/ir"
)

// TestVulkan11 uses a device as if it had only Vulkan 1.1 with extensions. It keeps features that are part of 1.2,
// shaders use SPIR-V 1.3, and random graphs match the reference.
func TestVulkan11(t *testing.T) {
	before := openDevice(t).Caps()
	t.Setenv(device.DisableEnv, "vulkan1.2")
	dev := openDevice(t)
	caps := dev.Caps()
	if caps.API != device.Version(1, 1, 0) || caps.DriverName != before.DriverName ||
		caps.SubgroupSize != before.SubgroupSize || caps.SubgroupOps != before.SubgroupOps ||
		caps.MaxAllocation != before.MaxAllocation || caps.DeviceUUID != before.DeviceUUID {
		t.Errorf("as a device of Vulkan 1.1 it is\n%+v\nof\n%+v", caps, before)
	}
	if have, want := caps.Features, before.Features; have.Storage8 != want.Storage8 || have.Float16 != want.Float16 ||
		have.BufferDeviceAddress != want.BufferDeviceAddress || have.MemoryModel != want.MemoryModel ||
		have.PreserveNaN32 != want.PreserveNaN32 || have.ScalarBlockLayout != want.ScalarBlockLayout {
		t.Errorf("its features are\n%+v\nof\n%+v", have, want)
	}
	graphs := make([]*ir.Graph, 30)
	for i := range graphs {
		var err error
		if graphs[i], err = graphgen.New(uint64(i)+9000, graphgen.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	devtest.CompileShaders(t, dev.Caps(), graphs...)
	ran := 0
	for i, g := range graphs {
		seed := uint64(i) + 9000
		runs, err := differ(dev, caps, g, seed)
		if err != nil && notYet(err) == "" {
			report(t, differ, dev, caps, g, seed, err)
		}
		ran += runs
	}
	if ran == 0 {
		t.Error("no graph ran")
	}
	p, err := dev.Compile(t.Context(), graphs[0], vkc.CompileOptions{Validate: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, code := range p.Contents.SPIRV {
		if v := spv.Version(code); v != 3 {
			t.Errorf("shader %d is of SPIR-V 1.%d", i, v)
		}
	}
}
