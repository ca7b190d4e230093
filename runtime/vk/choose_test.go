package vk

import (
	"errors"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
)

func info(index int, name string, t device.DeviceType, memory uint64, problem string) DeviceInfo {
	return DeviceInfo{Index: index, Caps: device.Caps{Name: name, Type: t, DeviceMemory: memory}, Problem: problem}
}

func TestChoose(t *testing.T) {
	cpu := info(0, "llvmpipe (LLVM 19)", device.DeviceCPU, 64<<30, "")
	igpu := info(1, "Intel(R) Iris(R) Xe", device.DeviceIntegrated, 32<<30, "")
	small := info(2, "GeForce GTX 1650", device.DeviceDiscrete, 4<<30, "")
	big := info(3, "GeForce RTX 4090", device.DeviceDiscrete, 24<<30, "")
	twin := info(4, "GeForce RTX 4090", device.DeviceDiscrete, 24<<30, "")
	virtual := info(5, "virtio", device.DeviceVirtual, 8<<30, "")
	other := info(6, "strange", device.DeviceOther, 90<<30, "")
	old := info(7, "Old card", device.DeviceDiscrete, 99<<30, "it has Vulkan 1.0.0; 1.2 is needed")

	tests := []struct {
		name    string
		devices []DeviceInfo
		want    string
		index   int
		why     []string // parts of the reason
	}{
		{"only one", []DeviceInfo{cpu}, "", 0, []string{"llvmpipe", "only usable"}},
		{"auto", []DeviceInfo{cpu, igpu, small}, "auto", 2, []string{"GTX 1650", "best of 3", "discrete", "4.0 GiB"}},
		{"auto in capitals", []DeviceInfo{cpu, igpu}, "AUTO", 1, []string{"integrated"}},
		{"more memory", []DeviceInfo{cpu, small, big}, "", 3, []string{"RTX 4090"}},
		{"first of twins", []DeviceInfo{cpu, big, twin}, "", 3, nil},
		{"integrated before virtual", []DeviceInfo{virtual, igpu}, "", 1, nil},
		{"virtual before CPU", []DeviceInfo{cpu, virtual}, "", 5, nil},
		{"virtual before other", []DeviceInfo{other, virtual}, "", 5, nil},
		{"other before CPU", []DeviceInfo{cpu, other}, "", 6, nil},
		{"unusable passed over", []DeviceInfo{old, cpu}, "", 0, []string{"only usable"}},
		{"index", []DeviceInfo{cpu, igpu, big}, "1", 1, []string{"index 1"}},
		{"index with spaces", []DeviceInfo{cpu, igpu, big}, " 0 ", 0, nil},
		{"name", []DeviceInfo{cpu, igpu, big}, "iris", 1, []string{`contains "iris"`}},
		{"name of two", []DeviceInfo{cpu, small, big}, "geforce", 3, []string{"best of 2"}},
		{"CPU by name", []DeviceInfo{big, cpu}, "llvm", 0, nil},
		{"name with an unusable match", []DeviceInfo{old, info(8, "old CPU", device.DeviceCPU, 1, "")}, "old", 8, nil},
	}
	for _, test := range tests {
		index, why, err := Choose(test.devices, test.want)
		if err != nil || index != test.index {
			t.Errorf("%s: device %d, %v; want %d", test.name, index, err, test.index)
			continue
		}
		for _, part := range test.why {
			if !strings.Contains(why, part) {
				t.Errorf("%s: reason %q does not say %q", test.name, why, part)
			}
		}
	}

	bad := []struct {
		name        string
		devices     []DeviceInfo
		want        string
		text        string
		unavailable bool
	}{
		{"none", nil, "", "no Vulkan device", true},
		{"unknown name", []DeviceInfo{cpu, big}, "radeon", `3 (GeForce RTX 4090)`, false},
		{"index too large", []DeviceInfo{cpu}, "1", "there is no device 1", false},
		{"negative index", []DeviceInfo{cpu}, "-1", "there is no device -1", false},
		{"unusable index", []DeviceInfo{old}, "7", "Vulkan 1.0.0", true},
		{"unusable name", []DeviceInfo{cpu, old}, "old card", "Vulkan 1.0.0", true},
		{"all unusable", []DeviceInfo{old}, "auto", "Vulkan 1.0.0", true},
	}
	for _, test := range bad {
		_, _, err := Choose(test.devices, test.want)
		if err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: error %v; want one that says %q", test.name, err, test.text)
		}
		if errors.Is(err, ErrUnavailable) != test.unavailable {
			t.Errorf("%s: error %v wraps ErrUnavailable: %v; want %v", test.name, err, !test.unavailable,
				test.unavailable)
		}
	}
}

func TestComputeFamily(t *testing.T) {
	const gct = QueueGraphics | QueueCompute | QueueTransfer
	tests := []struct {
		name     string
		families []QueueFamily
		want     int
		apart    int // where one without graphics is better
	}{
		{"none", nil, -1, -1},
		{"transfer only", []QueueFamily{{QueueTransfer, 2, 64}}, -1, -1},
		{"first", []QueueFamily{{gct, 16, 64}, {QueueTransfer, 2, 64}, {QueueCompute, 8, 64}}, 0, 2},
		{"after graphics", []QueueFamily{{QueueGraphics, 1, 64}, {QueueCompute, 1, 64}}, 1, 1},
		{"timestamps preferred", []QueueFamily{{gct, 1, 0}, {QueueCompute, 1, 36}}, 1, 1},
		{"without timestamps", []QueueFamily{{QueueTransfer, 1, 64}, {gct, 1, 0}, {QueueCompute, 1, 0}}, 1, 2},
		{"no queues in it", []QueueFamily{{gct, 0, 64}, {QueueCompute, 1, 64}}, 1, 1},
		{"timestamps before queues apart", []QueueFamily{{gct, 1, 64}, {QueueCompute, 1, 0}}, 0, 0},
	}
	for _, test := range tests {
		for apart, want := range map[bool]int{false: test.want, true: test.apart} {
			got, ok := computeFamily(test.families, apart)
			if got != want || ok != (want >= 0) {
				t.Errorf("%s, apart %v: family %d, %v; want %d", test.name, apart, got, ok, want)
			}
		}
	}
}

// TestCopyFamily: copies concurrent with kernels use a queue family for transfers only, if there is one. Video families
// do not count. Otherwise they use the family of kernels.
func TestCopyFamily(t *testing.T) {
	const gct = QueueGraphics | QueueCompute | QueueTransfer
	const video, sparse = QueueFlags(0x20), QueueFlags(8)
	tests := []struct {
		name     string
		families []QueueFamily
		want     int
	}{
		{"one family", []QueueFamily{{gct, 1, 64}}, 0},
		{"an engine for copies", []QueueFamily{{gct, 16, 64}, {QueueTransfer | sparse, 2, 64}}, 1},
		{"one for video that copies", []QueueFamily{{gct, 16, 64}, {QueueTransfer | video, 1, 64}}, 0},
		{"a second of kernels", []QueueFamily{{gct, 16, 64}, {QueueCompute | QueueTransfer, 8, 64}}, 0},
		{"no queues in it", []QueueFamily{{gct, 16, 64}, {QueueTransfer, 0, 64}}, 0},
	}
	for _, test := range tests {
		if got := copyFamily(test.families, 0); got != test.want {
			t.Errorf("%s: family %d, want %d", test.name, got, test.want)
		}
		info := DeviceInfo{QueueFamilies: test.families, Disabled: []string{device.TransferQueue}}
		if got := info.families(); got[copyQueue] != got[kernelQueue] {
			t.Errorf("%s, turned off: families %v", test.name, got)
		}
	}
}

func TestProblem(t *testing.T) {
	good := func() DeviceInfo {
		return DeviceInfo{Caps: device.Caps{API: device.Version(1, 1, 0), Features: device.Features{Timeline: true}},
			QueueFamilies: []QueueFamily{{QueueCompute, 1, 64}}}
	}
	if d := good(); problem(&d) != "" {
		t.Errorf("a good device has the problem %q", problem(&d))
	}
	for want, spoil := range map[string]func(*DeviceInfo){
		"Vulkan 1.0.9":     func(d *DeviceInfo) { d.Caps.API = device.Version(1, 0, 9) },
		"timeline":         func(d *DeviceInfo) { d.Caps.Features.Timeline = false },
		"no compute queue": func(d *DeviceInfo) { d.QueueFamilies = nil },
	} {
		d := good()
		if spoil(&d); !strings.Contains(problem(&d), want) {
			t.Errorf("the problem is %q; want %q", problem(&d), want)
		}
	}
}
