package vk

import (
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
)

const (
	dl = MemoryDeviceLocal
	hv = MemoryHostVisible
	hc = MemoryHostCoherent
	ca = MemoryHostCached
)

// Memory as real devices report it.
var (
	h100Heaps = []MemoryHeap{{85 << 30, true}, {101 << 30, false}}
	h100Types = []MemoryType{{1, 0}, {0, dl}, {1, hv | hc}, {1, hv | hc | ca}, {0, dl | hv | hc}}

	smallBARHeaps = []MemoryHeap{{8 << 30, true}, {32 << 30, false}, {256 << 20, true}}
	smallBARTypes = []MemoryType{{0, dl}, {1, hv | hc}, {1, hv | hc | ca}, {2, dl | hv | hc}}

	unifiedHeaps = []MemoryHeap{{24 << 30, true}}
	unifiedTypes = []MemoryType{{0, dl | hv | hc | ca}}

	apuHeaps = []MemoryHeap{{512 << 20, true}, {16 << 30, false}}
	apuTypes = []MemoryType{{0, dl}, {0, dl | hv | hc}, {1, hv | hc}, {1, hv | hc | ca},
		{0, dl | hv | hc | 0x40 | 0x80}}

	mobileHeaps = []MemoryHeap{{4 << 30, true}}
	mobileTypes = []MemoryType{{0, dl}, {0, dl | hv | ca}, {0, dl | hv | hc}}
)

func TestChooseMemoryTypes(t *testing.T) {
	const all = ^uint32(0)
	tests := []struct {
		name    string
		types   []MemoryType
		allowed uint32
		kind    MemoryKind
		unified bool
		want    []int
	}{
		{"H100 device", h100Types, all, DeviceMemory, false, []int{1, 4}},
		{"H100 shared", h100Types, all, SharedMemory, false, []int{4, 2, 3}},
		{"H100 upload", h100Types, all, UploadMemory, false, []int{2, 3, 4}},
		{"H100 readback", h100Types, all, ReadbackMemory, false, []int{3, 2, 4}},
		{"H100 device, type 1 not allowed", h100Types, all &^ 2, DeviceMemory, false, []int{4}},
		{"H100 host", h100Types, all, HostMemory, false, []int{3, 2}},
		{"H100 inbox", h100Types, all, InboxMemory, false, []int{4}},
		{"H100 near", h100Types, all, NearMemory, false, []int{4, 3, 2}},
		{"APU near", apuTypes, all, NearMemory, true, []int{1, 3, 2}},
		{"unified near", unifiedTypes, all, NearMemory, true, []int{0}},
		{"small BAR inbox", smallBARTypes, all, InboxMemory, false, []int{3}},
		{"inbox where no device memory is allowed", h100Types, all &^ 16, InboxMemory, false, nil},
		{"unified host", unifiedTypes, all, HostMemory, true, nil},
		{"nothing allowed", h100Types, 0, DeviceMemory, false, nil},
		{"small BAR device", smallBARTypes, all, DeviceMemory, false, []int{0, 3}},
		{"small BAR shared", smallBARTypes, all, SharedMemory, false, []int{3, 1, 2}},
		{"unified device", unifiedTypes, all, DeviceMemory, true, []int{0}},
		{"unified readback", unifiedTypes, all, ReadbackMemory, true, []int{0}},
		{"APU device", apuTypes, all, DeviceMemory, true, []int{1, 0}},
		{"APU: device-coherent memory needs a feature", apuTypes, 1 << 4, DeviceMemory, true, nil},
		{"mobile readback: not coherent, not taken", mobileTypes, all, ReadbackMemory, true, []int{2}},
		{"mobile device", mobileTypes, all, DeviceMemory, true, []int{2, 0, 1}},
		{"no host memory", []MemoryType{{0, dl}}, all, UploadMemory, false, nil},
	}
	for _, test := range tests {
		got := chooseMemoryTypes(test.types, test.allowed, test.kind, test.unified)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v; want %v", test.name, got, test.want)
		}
	}
}

func TestUnifiedMemory(t *testing.T) {
	tests := []struct {
		name  string
		t     device.DeviceType
		heaps []MemoryHeap
		types []MemoryType
		want  bool
	}{
		{"H100", device.DeviceDiscrete, h100Heaps, h100Types, false},
		{"small BAR", device.DeviceDiscrete, smallBARHeaps, smallBARTypes, false},
		{"CPU", device.DeviceCPU, unifiedHeaps, unifiedTypes, true},
		{"APU", device.DeviceIntegrated, apuHeaps, apuTypes, true},
		{"discrete with one heap", device.DeviceDiscrete, unifiedHeaps, unifiedTypes, true},
		{"mobile", device.DeviceIntegrated, mobileHeaps, mobileTypes, true},
		{"integrated, out of the host's reach", device.DeviceIntegrated, unifiedHeaps, []MemoryType{{0, dl}, {0, hv | hc}}, false},
		{"only with a feature", device.DeviceIntegrated, unifiedHeaps, []MemoryType{{0, dl | hv | hc | 0x40}}, false},
	}
	for _, test := range tests {
		if got := unifiedMemory(test.t, test.heaps, test.types); got != test.want {
			t.Errorf("%s: unified %v; want %v", test.name, got, test.want)
		}
	}
}
