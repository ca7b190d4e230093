package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestDoctorTellsTheLoaderFromTheDriver: doctor reports exactly the missing component.
func TestDoctorTellsTheLoaderFromTheDriver(t *testing.T) {
	old := deviceEntry{Problem: "it has Vulkan 1.0", Caps: &device.Caps{Name: "old"}}
	tests := []struct {
		name    string
		info    devicesInfo
		err     error
		found   string // names of the components found
		missing string
		fix     string
	}{
		{"no cgo", devicesInfo{}, fmt.Errorf("x: %w", vk.ErrNoCgo), "", "Vulkan", "CGO_ENABLED=1"},
		{"no loader", devicesInfo{}, fmt.Errorf("x: %w", vk.ErrNoLoader), "", "Vulkan loader", "libvulkan1"},
		{"no driver", devicesInfo{}, fmt.Errorf("x: %w", vk.ErrNoDriver), "Vulkan loader", "Vulkan driver", "mesa-vulkan-drivers"},
		{"no device", devicesInfo{Vulkan: "1.3"}, fmt.Errorf("x: %w", vk.ErrNoDriver), "Vulkan loader", "Vulkan driver", "mesa-vulkan-drivers"},
		{"no instance", devicesInfo{}, errors.New("layer not present"), "Vulkan loader", "Vulkan driver", "VK_INSTANCE_LAYERS"},
		{"only old devices", devicesInfo{Vulkan: "1.3", Devices: []deviceEntry{old}}, vk.ErrUnavailable, "Vulkan loader", "Vulkan device", "GPU's maker"},
	}
	for _, tt := range tests {
		var found, missing []string
		var fix string
		for _, f := range examineVulkan(tt.info, tt.err) {
			if f.Detail == "" || f.Purpose == "" {
				t.Errorf("%s: %+v", tt.name, f)
			}
			switch {
			case f.OK:
				found = append(found, f.Name)
			case !f.Optional:
				missing, fix = append(missing, f.Name), fix+f.Fix
			}
		}
		if strings.Join(found, ",") != tt.found || strings.Join(missing, ",") != tt.missing ||
			!strings.Contains(fix, tt.fix) {
			t.Errorf("%s: found %q, missing %q, %q; want %q, %q, %q", tt.name, found, missing, fix, tt.found,
				tt.missing, tt.fix)
		}
	}
}

// TestDoctorWithoutDriver: this machine has a loader, which finds no driver.
func TestDoctorWithoutDriver(t *testing.T) {
	if info, err := listDevices(); info.Vulkan == "" {
		t.Skip("no Vulkan in the first place: ", err)
	}
	devtest.NoCache(t)
	noVulkan(t)
	r := run(t, "doctor")
	has(t, r.stdout, "ok       Vulkan loader", "MISSING  Vulkan driver", "mesa-vulkan-drivers", "unset that variable",
		"VK_DRIVER_FILES="+os.Getenv("VK_DRIVER_FILES"))
	if strings.Contains(r.stdout, "libvulkan1") || r.code != exitFailure ||
		!strings.Contains(r.stderr, "missing: Vulkan driver: "+withoutVulkan) {
		t.Errorf("exit code %d, %s\n%s", r.code, r.stderr, r.stdout)
	}
}

// TestDoctorSaysWhatStillWorks: programs of the cache and bundles run on devices
// without the tools.
func TestDoctorSaysWhatStillWorks(t *testing.T) {
	tool := finding{Name: "spirv-opt", Without: withoutTools}
	driver := finding{Name: "Vulkan driver", Without: withoutVulkan}
	for _, tt := range []struct {
		findings []finding
		want     string
	}{
		{[]finding{{Name: "glslc", Optional: true}, {Name: "spirv-opt", OK: true}}, ""},
		{[]finding{{Name: "glslc", Without: withoutTools}, tool}, "missing: glslc, spirv-opt: " + withoutTools},
		{[]finding{tool, driver}, "missing: spirv-opt: " + withoutTools + "; and Vulkan driver: " + withoutVulkan},
	} {
		got := ""
		if err := verdict(tt.findings); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestDoctorOfGraph: with a graph, doctor gives hints, and refuses their flags without one.
func TestDoctorOfGraph(t *testing.T) {
	wide := filepath.Join(t.TempDir(), "wide.ir")
	const text = `graph "wide" {
  symbol T <= 4096
  %0 = input {name="x", dtype=f32, shape=[T,1024]}
  %1 = exp %0
  output "y" %1
}
`
	if err := os.WriteFile(wide, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, ok(t, "doctor", wide, "--symbol", "T=6").stdout, "symbols", "T <= 4096 is 6",
		"docs/GUIDE.md#symbolic-extents")
	has(t, ok(t, "doctor", wide).stdout, "found no usual reason for a slow graph")
	if list := okJSON[[]struct{ Name, Page string }](t, "doctor", wide, "--symbol", "T=6"); len(list) != 1 ||
		list[0].Name != "symbols" || list[0].Page == "" {
		t.Errorf("hints %+v", list)
	}
	for _, args := range [][]string{{"--symbol", "T=6"}, {"--target", "generic"}, {"--step"},
		{wide, "--symbol", "U=6"}} {
		if r := run(t, append([]string{"doctor"}, args...)...); r.code != exitUsage {
			t.Errorf("doctor %v: code %d, %s", args, r.code, r.stderr)
		}
	}
}
