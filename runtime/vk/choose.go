package vk

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
)

// DeviceInfo describes a device, whether it is open or not. It is plain data.
type DeviceInfo struct {
	Index         int // in Instance.Devices
	Caps          device.Caps
	Heaps         []MemoryHeap
	MemoryTypes   []MemoryType
	QueueFamilies []QueueFamily
	// Disabled lists the features that [device.DisableEnv] turns off. Caps does not have them.
	Disabled []string
	// Problem says why this package cannot use the device. It is empty if it can.
	Problem string
}

// QueueFlags is a set of queue abilities, in VkQueueFlagBits.
type QueueFlags uint32

// The queue abilities used in this package.
const (
	QueueGraphics QueueFlags = 1 << iota
	QueueCompute
	QueueTransfer
	queueSparse
	queueProtected
	queueMemory = queueSparse | queueProtected // abilities that a queue for transfers only may also have
)

// QueueFamily is a group of queues with equal abilities.
type QueueFamily struct {
	Flags         QueueFlags
	Queues        int
	TimestampBits uint32 // valid bits of a timestamp; 0 if the family has no timestamps
}

// computeFamily returns the index of the queue family for kernels: the first one with compute and timestamps, or else
// the first one with compute, and false if there is none. If noGraphics is true it prefers, among equals, a family
// without graphics. Every family with compute can also do transfers.
func computeFamily(families []QueueFamily, noGraphics bool) (index int, ok bool) {
	index, best := -1, -1
	for i, f := range families {
		if f.Flags&QueueCompute == 0 || f.Queues == 0 {
			continue
		}
		// Timestamps count more than the absence of graphics.
		rank := 0
		if f.TimestampBits > 0 {
			rank += 2
		}
		if noGraphics && f.Flags&QueueGraphics == 0 {
			rank++
		}
		if rank > best {
			index, best = i, rank
		}
	}
	return index, index >= 0
}

// family returns the index of the device's queue family for kernels.
func (info *DeviceInfo) family() (index int, ok bool) {
	return computeFamily(info.QueueFamilies, device.QueueApart(info.Caps))
}

// copyFamily returns the index of the queue family for copies that overlap kernels: the first family for transfers
// only, which has copy engines of its own, or else the compute family.
func copyFamily(families []QueueFamily, compute int) int {
	for i, f := range families {
		if f.Flags&^queueMemory == QueueTransfer && f.Queues > 0 {
			return i
		}
	}
	return compute
}

// families returns the index of the queue family of each queue: kernelQueue and copyQueue.
func (info *DeviceInfo) families() (list [queueCount]int) {
	compute, _ := info.family()
	list = [queueCount]int{kernelQueue: compute, copyQueue: compute}
	if !slices.Contains(info.Disabled, device.TransferQueue) {
		list[copyQueue] = copyFamily(info.QueueFamilies, compute)
	}
	return list
}

// problem returns the reason why this package cannot use the device, or "".
func problem(info *DeviceInfo) string {
	if !info.Caps.API.AtLeast(1, 1) {
		return fmt.Sprintf("it has Vulkan %v; 1.1 is needed: a newer driver may have it, or use the CPU device",
			info.Caps.API)
	}
	if !info.Caps.Features.Timeline {
		return "it lacks timeline semaphores, which are part of Vulkan 1.2 and extension VK_KHR_timeline_semaphore " +
			"of 1.1: a newer driver may have them, or use the CPU device"
	}
	if _, ok := info.family(); !ok {
		return "it has no compute queue"
	}
	return ""
}

// unusable returns the error of using a device that this package cannot use.
func (info *DeviceInfo) unusable() error {
	return &unavailableError{text: fmt.Sprintf("device %d (%s) cannot be used: %s", info.Index, info.Caps.Name,
		info.Problem)}
}

// preference orders device types, best first.
var preference = map[device.DeviceType]int{
	device.DeviceDiscrete: 0, device.DeviceIntegrated: 1, device.DeviceVirtual: 2, device.DeviceOther: 3,
	device.DeviceCPU: 4,
}

// Choose picks a device. want is "", "auto" or "vulkan" for any device, an index, or a part of a name in any case.
// Among several matches, it prefers discrete to integrated to virtual to CPU devices, then more memory, then the lower
// index. why explains the choice to the user.
func Choose(devices []DeviceInfo, want string) (index int, why string, err error) {
	if len(devices) == 0 {
		return 0, "", noDriver("no Vulkan device: the loader lists none (is a driver installed?)")
	}
	want = strings.TrimSpace(want)
	if n, err := strconv.Atoi(want); err == nil {
		return chooseIndex(devices, n)
	}
	anyDevice := want == "" || strings.EqualFold(want, "auto") || strings.EqualFold(want, "vulkan")
	matching := slices.DeleteFunc(slices.Clone(devices), func(d DeviceInfo) bool {
		return !anyDevice && !strings.Contains(strings.ToLower(d.Caps.Name), strings.ToLower(want))
	})
	if len(matching) == 0 {
		return 0, "", fmt.Errorf("vk: no device's name contains %q; the devices are %s", want, listDevices(devices))
	}
	first := matching[0]
	usable := slices.DeleteFunc(matching, func(d DeviceInfo) bool { return d.Problem != "" })
	if len(usable) == 0 {
		return 0, "", first.unusable()
	}
	best := bestOf(usable)
	return best.Index, explain(best, usable, want, anyDevice), nil
}

// chooseIndex picks the device with index n. why explains the choice. It returns an error if there is no such device,
// or if this package cannot use it.
func chooseIndex(devices []DeviceInfo, n int) (int, string, error) {
	i := slices.IndexFunc(devices, func(d DeviceInfo) bool { return d.Index == n })
	switch {
	case i < 0:
		return 0, "", fmt.Errorf("vk: there is no device %d; the devices are %s", n, listDevices(devices))
	case devices[i].Problem != "":
		return 0, "", devices[i].unusable()
	}
	return n, fmt.Sprintf("%s: index %d was asked for", devices[i].Caps.Name, n), nil
}

// bestOf returns the device of the preferred type, and among those the one with most memory.
func bestOf(devices []DeviceInfo) DeviceInfo {
	return slices.MinFunc(devices, func(a, b DeviceInfo) int {
		return cmp.Or(cmp.Compare(preference[a.Caps.Type], preference[b.Caps.Type]),
			cmp.Compare(b.Caps.DeviceMemory, a.Caps.DeviceMemory))
	})
}

// explain says why device best was chosen from the usable devices that match want. anyDevice means that want asks for
// no particular device.
func explain(best DeviceInfo, matching []DeviceInfo, want string, anyDevice bool) string {
	name, n := best.Caps.Name, len(matching)
	properties := fmt.Sprintf("(%s, %s)", best.Caps.Type, formatBytes(best.Caps.DeviceMemory))
	switch {
	case anyDevice && n == 1:
		return name + ": the only usable device"
	case anyDevice:
		return fmt.Sprintf("%s: the best of %d usable devices %s", name, n, properties)
	case n == 1:
		return fmt.Sprintf("%s: its name contains %q", name, want)
	}
	return fmt.Sprintf("%s: its name contains %q, the best of %d that match %s", name, want, n, properties)
}

// listDevices returns the indices and names of devices, for messages.
func listDevices(devices []DeviceInfo) string {
	var names []string
	for _, d := range devices {
		names = append(names, fmt.Sprintf("%d (%s)", d.Index, d.Caps.Name))
	}
	return strings.Join(names, ", ")
}

// gpuNodes are patterns of the device nodes by which drivers reach GPUs on Linux.
var gpuNodes = []string{"/dev/dri/*", "/dev/nvidia*", "/dev/dxg", "/dev/kgsl*", "/dev/mali*", "/dev/nvhost*",
	"/dev/nvgpu*", "/dev/nvmap", "/dev/pvr*", "/dev/galcore", "/dev/kfd", "/dev/goldfish*"}

// MayHaveGPU reports whether this machine may have a GPU. If it returns false, all Vulkan devices are software. It does
// not load Vulkan, because that takes longer than a small program runs on the processor.
func MayHaveGPU() bool { return runtime.GOOS != "linux" || anyFile(gpuNodes) }

// anyFile reports whether there is a file whose name matches one of the patterns.
func anyFile(patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		found, _ := filepath.Glob(p)
		return len(found) > 0
	})
}
