package target

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
		if unsaidCores(caps) {
			t.Errorf("%s has cores, which its driver does not say", name)
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
	if err == nil || !strings.Contains(err.Error(), "maxSharedMemry") ||
		!strings.Contains(err.Error(), "vkc devices --profile") {
		t.Errorf("got %v, want the misspelt field named, and what writes profiles", err)
	}
}

// TestProfileTuning: a profile may carry what was measured on its device, and
// those that come with vkc do so by keys and schedules that can be.
func TestProfileTuning(t *testing.T) {
	k := rowSum(ir.F32, ir.D(64), ir.D(64), false)
	caps, err := json.Marshal(profile(t, "generic"))
	if err != nil {
		t.Fatal(err)
	}
	schedule := `{"variant":"row_serial","workgroup":64,"vec":4,"lanes_per_row":1}`
	f, err := parseProfile("x", fmt.Appendf(nil, `{"caps":%s,"tuning":{%q:{"schedule":%s,"us":2.5}}}`, caps,
		TuningKey(k), schedule))
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
		"qualcomm-adreno740": "qualcomm", "apple-m1": "apple", "amd-rdna4": "amd", "nvidia-ada-nvk": "nvidia", "swiftshader": "cpu",
	} {
		caps, err := Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := Class(caps); got != want {
			t.Errorf("%s is of class %s, want %s", name, got, want)
		}
	}
	// Mesa's drivers of what has no id of its own report Mesa as their vendor.
	if got := Class(Caps{VendorID: 0x10005, Type: DeviceIntegrated}); got != "generic" {
		t.Errorf("an integrated device of Mesa's is of class %s", got)
	}
	if got := Class(Caps{VendorID: 0xbeef, Type: DeviceDiscrete}); got != "generic" {
		t.Errorf("an unlisted device is of class %s", got)
	}
}

// TestReadProfile: what EncodeProfile writes is read back, without what tells one device from another; caps that no
// device has are refused.
func TestReadProfile(t *testing.T) {
	caps := profile(t, "nvidia-h200")
	tuning, err := ProfileTuning("nvidia-h200")
	if err != nil {
		t.Fatal(err)
	}
	caps.DeviceUUID = "0123"
	path := filepath.Join(t.TempDir(), "mine.json")
	write := func(c Caps) (Caps, Tuning, error) {
		text, err := EncodeProfile(c, tuning, "made by a test")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadProfile(path)
	}
	got, schedules, err := write(caps)
	if err != nil || got.Fingerprint() != caps.Fingerprint() || got.DeviceUUID != "" || len(schedules) != len(tuning) {
		t.Errorf("%+v with %d schedules of %d, error %v", got, len(schedules), len(tuning), err)
	}
	for want, change := range map[string]func(*Caps){
		"name":      func(c *Caps) { c.Name = "" },
		"1.1":       func(c *Caps) { c.API = Version(1, 0, 0) },
		"shared":    func(c *Caps) { c.MaxSharedMemory = 16 },
		"grids":     func(c *Caps) { c.MaxWorkgroupCount[1] = 0 },
		"subgroup":  func(c *Caps) { c.SubgroupSize = 33 },
		"in order":  func(c *Caps) { c.MinSubgroupSize = 64 },
		"matrix2":   func(c *Caps) { c.Matrix2 = nil },
		"cores":     func(c *Caps) { c.Cores = 1 << 30 },
		"times":     func(c *Caps) { c.Machine.LaunchNs = -1 },
		"alignment": func(c *Caps) { c.StorageAlignment = 0 },
	} {
		bad := caps
		change(&bad)
		if _, _, err := write(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
	if _, _, err := ReadProfile(path + ".json"); err == nil {
		t.Error("a file that is not there")
	}
}

// FuzzReadProfile: no profile that is read makes the choice of a schedule panic.
func FuzzReadProfile(f *testing.F) {
	for _, name := range []string{"generic", "nvidia-h100"} {
		text, err := profileFiles.ReadFile("profiles/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	k := blockMul(1, 4096, 4096, ir.Q4_0, true)
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := parseProfile("fuzzed", text); err == nil {
			if s, _, err := Select(k, p.Caps); err == nil && Check(k, s, p.Caps) != nil {
				t.Errorf("%s is chosen, which the device cannot run", s)
			}
		}
	})
}
