package target

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

func TestProfiles(t *testing.T) {
	names := Profiles()
	for _, want := range []string{"amd-rdna3", "arm-mali", "generic", "intel-xe", "lavapipe", "nvidia-h100"} {
		if !slices.Contains(names, want) {
			t.Errorf("no profile %s among %v", want, names)
		}
	}
	for _, name := range names {
		caps, err := Profile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		for what, bad := range map[string]bool{
			"no name":                              caps.Name == "",
			"no type":                              caps.Type == "",
			"less shared memory than Vulkan asks":  caps.MaxSharedMemory < 16384,
			"fewer invocations than Vulkan asks":   caps.MaxInvocations < 128 || caps.MaxWorkgroupSize[0] < 128,
			"shorter grids than Vulkan asks":       slices.Min(caps.MaxWorkgroupCount[:]) < 65535,
			"a smaller storage range than asked":   caps.MaxStorageRange < 1<<27,
			"subgroup sizes out of order":          caps.MinSubgroupSize > caps.SubgroupSize || caps.SubgroupSize > caps.MaxSubgroupSize,
			"an API before 1.2":                    !caps.API.AtLeast(1, 2),
			"matrix shapes without the feature":    len(caps.Matrices) > 0 && !caps.Features.CooperativeMatrix,
			"matrix 2 data without the feature":    (caps.Matrix2 != nil) != caps.Features.CooperativeMatrix2,
			"an allocation limit below the range":  caps.MaxAllocation < min(caps.MaxStorageRange, caps.MaxBuffer) && caps.MaxAllocation < 1<<30,
			"cores, which its driver does not say": unsaidCores(caps),
			"a storage alignment that is none":     caps.StorageAlignment == 0 || caps.StorageAlignment > 256,
		} {
			if bad {
				t.Errorf("%s: %s", name, what)
			}
		}
		notes, err := ProfileNotes(name)
		if err != nil || len(notes) == 0 {
			t.Errorf("%s: notes %v, %v; want what it models", name, notes, err)
		}
	}
}

// unsaidCores reports whether caps know of cores though a device of the kind says
// nothing of them: NVIDIA and AMD have an extension for it. What is compiled for
// a profile would not be what its device runs. (That a device can say all else is
// TestCapsAreProbed of runtime/vk.)
func unsaidCores(caps Caps) bool {
	says := caps.VendorID == VendorNVIDIA || caps.VendorID == VendorAMD
	return !says && (caps.Cores > 0 || caps.SubgroupsPerCore > 0)
}

func TestProfileUnknown(t *testing.T) {
	_, err := Profile("nvidia-h10")
	if err == nil || !strings.Contains(err.Error(), "nvidia-h100") {
		t.Errorf("got %v, want a suggestion", err)
	}
	if _, err := ProfileNotes("../caps"); err == nil {
		t.Error("a path is taken for a profile")
	}
}

func TestParseProfileRefusesUnknownFields(t *testing.T) {
	_, err := parseProfile("x", []byte(`{"caps":{"maxSharedMemry":1}}`))
	if err == nil || !strings.Contains(err.Error(), "maxSharedMemry") {
		t.Errorf("got %v, want the misspelt field named", err)
	}
}

// TestProfileTuning: a profile may carry what was measured on its device, and
// those that come with vkc do so by keys and schedules that can be.
func TestProfileTuning(t *testing.T) {
	k := rowSum(ir.F32, ir.D(64), ir.D(64), false)
	f, err := parseProfile(
		"x", fmt.Appendf(nil,
			`{"caps":{},"tuning":{%q:{"schedule":{"variant":"row_serial","workgroup":64,"vec":4,"lanes_per_row":1},"us":2.5}}}`, TuningKey(k)))
	if err != nil {
		t.Fatal(err)
	}
	s, reason, _, err := SelectTuned(k, profile(t, "generic"), f.Tuning)
	if err != nil || s.Variant != kernel.VarRowSerial || s.Workgroup != 64 || reason != "tuned: 2.5 us" {
		t.Errorf("%v (%s), %v", s, reason, err)
	}
	for _, name := range Profiles() {
		tuning, err := ProfileTuning(name)
		if err != nil {
			t.Error(err)
		}
		for key, won := range tuning {
			if len(key) != 64 || won.Micros <= 0 || variants[won.Schedule.Variant].check == nil {
				t.Errorf("%s: %s: %v", name, key, won)
			}
		}
	}
	if _, err := ProfileTuning("gtx"); err == nil {
		t.Error("an unknown profile has a tuning")
	}
}

func TestProfileClasses(t *testing.T) {
	for name, want := range map[string]string{
		"generic": "generic", "lavapipe": "cpu", "nvidia-h100": "nvidia", "amd-rdna3": "amd", "intel-xe": "intel", "arm-mali": "arm",
		"qualcomm-adreno740": "qualcomm",
	} {
		caps, err := Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := Class(caps); got != want {
			t.Errorf("%s is of class %s, want %s", name, got, want)
		}
	}
	// Mesa's drivers of Apple's devices report Mesa as their vendor.
	if got := Class(Caps{VendorID: 0x10005, Type: DeviceIntegrated}); got != "generic" {
		t.Errorf("an integrated device of Mesa's is of class %s", got)
	}
	if got := Class(Caps{VendorID: 0xbeef, Type: DeviceDiscrete}); got != "generic" {
		t.Errorf("an unlisted device is of class %s", got)
	}
}
