package device

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
		f, err := readProfile(name)
		if err != nil || len(f.Notes) == 0 {
			t.Errorf("%s: notes %v, %v; want what it models", name, f.Notes, err)
		}
	}
}

// unsaidCores reports whether caps have core counts that the driver of such a device cannot report; only NVIDIA and AMD
// have an extension for it. Programs compiled for such a profile would differ from those compiled on the device.
// (TestCapsAreProbed of runtime/vk checks the other fields.)
func unsaidCores(caps Caps) bool {
	says := caps.VendorID == VendorNVIDIA || caps.VendorID == VendorAMD
	return !says && (caps.Cores > 0 || caps.SubgroupsPerCore > 0)
}

func TestProfileUnknown(t *testing.T) {
	_, err := Profile("nvidia-h10")
	if err == nil || !strings.Contains(err.Error(), "nvidia-h100") {
		t.Errorf("got %v, want a suggestion", err)
	}
	if _, err := Profile("../caps"); err == nil {
		t.Error("a path is taken for a profile")
	}
}

func profileOf(t *testing.T, name string) Caps {
	t.Helper()
	caps, err := Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

func TestParseProfileRefusesUnknownFields(t *testing.T) {
	_, err := parseProfile("x", []byte(`{"caps":{"maxSharedMemry":1}}`))
	if err == nil || !strings.Contains(err.Error(), "maxSharedMemry") ||
		!strings.Contains(err.Error(), "vkc devices --profile") {
		t.Errorf("got %v, want the misspelt field named, and what writes profiles", err)
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
	// Mesa's drivers for devices without a vendor ID report Mesa as the vendor.
	if got := Class(Caps{VendorID: 0x10005, Type: DeviceIntegrated}); got != "generic" {
		t.Errorf("an integrated device of Mesa's is of class %s", got)
	}
	if got := Class(Caps{VendorID: 0xbeef, Type: DeviceDiscrete}); got != "generic" {
		t.Errorf("an unlisted device is of class %s", got)
	}
}

// TestReadProfile: the output of EncodeProfile is read back, except the fields that identify a single device.
// Impossible caps are rejected.
func TestReadProfile(t *testing.T) {
	caps := profileOf(t, "nvidia-h200")
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
