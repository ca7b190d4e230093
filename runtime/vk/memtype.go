package vk

import (
	"cmp"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
)

// MemoryHeap is a physical pool of memory.
type MemoryHeap struct {
	Size        uint64
	DeviceLocal bool
}

// MemoryFlags are properties of a memory type, in VkMemoryPropertyFlagBits.
type MemoryFlags uint32

// The memory properties.
const (
	MemoryDeviceLocal MemoryFlags = 1 << iota
	MemoryHostVisible
	MemoryHostCoherent
	MemoryHostCached
)

// memoryUsual is the set of properties that this package knows. It does not use types with other properties (protected,
// lazily allocated, AMD's device-coherent): they need features that are not enabled, or cannot hold buffers.
const memoryUsual = MemoryDeviceLocal | MemoryHostVisible | MemoryHostCoherent | MemoryHostCached

// MemoryType is one of the memory types of a heap.
type MemoryType struct {
	Heap  int
	Flags MemoryFlags
}

// MemoryKind says who reads and writes a buffer. It decides the buffer's memory type.
type MemoryKind int

const (
	// DeviceMemory is for data that kernels read and write: the device's fastest memory. With unified memory the host
	// can map it too.
	DeviceMemory MemoryKind = iota
	// SharedMemory is for small data that the host writes and kernels read often, such as the values of symbols. It is
	// device memory if the host can map that.
	SharedMemory
	// UploadMemory is for data to copy to the device: host memory, written once in order.
	UploadMemory
	// ReadbackMemory is for data to copy to the host: host memory that is fast to read.
	ReadbackMemory
	// NearMemory is for a few bytes that kernels write and read, and the host reads. It is device memory if the host
	// can map that, and ReadbackMemory otherwise.
	NearMemory
	// HostMemory is for data that does not fit in device memory: host memory that kernels read over the bus.
	HostMemory
	// InboxMemory is for words that the host writes while running kernels poll them: device memory that the host can
	// map.
	InboxMemory
)

// String returns the kind in a word.
func (k MemoryKind) String() string {
	return cmp.Or(map[MemoryKind]string{DeviceMemory: "device", SharedMemory: "shared", UploadMemory: "upload",
		ReadbackMemory: "readback", NearMemory: "near", HostMemory: "host", InboxMemory: "inbox"}[k], "unknown")
}

// readByHost reports whether the host reads results from memory of this kind. Recordings that write such memory end
// with a barrier for the host.
func (k MemoryKind) readByHost() bool { return k == ReadbackMemory || k == NearMemory }

// memoryWish is a condition for a memory type: it must have all properties in need and none in avoid.
type memoryWish struct{ need, avoid MemoryFlags }

// hostCoherent has the properties of memory that the host can map and access without flushes.
const hostCoherent = MemoryHostVisible | MemoryHostCoherent

// memoryWishes lists the acceptable memory types per kind, best first. Memory that the host maps must be coherent:
// Vulkan guarantees such a type on every device, and it needs no flushing.
var memoryWishes = map[MemoryKind][]memoryWish{
	DeviceMemory: {{MemoryDeviceLocal, MemoryHostVisible}, {MemoryDeviceLocal, 0}},
	SharedMemory: {{MemoryDeviceLocal | hostCoherent, 0}, {hostCoherent, 0}},
	InboxMemory:  {{MemoryDeviceLocal | hostCoherent, 0}},
	NearMemory: {{MemoryDeviceLocal | hostCoherent | MemoryHostCached, 0}, {MemoryDeviceLocal | hostCoherent, 0},
		{hostCoherent | MemoryHostCached, 0}, {hostCoherent, 0}},
	UploadMemory: {{hostCoherent, MemoryDeviceLocal | MemoryHostCached}, {hostCoherent, MemoryDeviceLocal},
		{hostCoherent, 0}},
	HostMemory: {{hostCoherent | MemoryHostCached, MemoryDeviceLocal}, {hostCoherent, MemoryDeviceLocal}},
	ReadbackMemory: {{hostCoherent | MemoryHostCached, MemoryDeviceLocal}, {hostCoherent | MemoryHostCached, 0},
		{hostCoherent, 0}},
}

// unifiedWishes is the list for DeviceMemory if host and device share their memory.
var unifiedWishes = []memoryWish{
	{MemoryDeviceLocal | hostCoherent | MemoryHostCached, 0}, {MemoryDeviceLocal | hostCoherent, 0}, {MemoryDeviceLocal, 0},
}

// chooseMemoryTypes returns the indices of the memory types for a buffer of the given kind, best first. allowed is a
// bit mask of the types that the buffer supports. unified means that host and device share their memory.
func chooseMemoryTypes(types []MemoryType, allowed uint32, kind MemoryKind, unified bool) []int {
	wishes := memoryWishes[kind]
	if kind == DeviceMemory && unified {
		wishes = unifiedWishes
	}
	var list []int
	var taken uint32
	for _, wish := range wishes {
		for i, t := range types {
			bit := uint32(1) << i
			// Each type is listed once, at the first wish that it fulfils.
			if allowed&bit == 0 || taken&bit != 0 || t.Flags&^memoryUsual != 0 {
				continue
			}
			if t.Flags&wish.need == wish.need && t.Flags&wish.avoid == 0 {
				list = append(list, i)
				taken |= bit
			}
		}
	}
	return list
}

// unifiedMemory reports whether host and device share their memory: the device is integrated or a CPU, or has only
// device-local heaps, and the host can map device-local memory. A discrete card does not count even if all of its
// memory can be mapped, because the host reads it slowly over the bus.
func unifiedMemory(t device.DeviceType, heaps []MemoryHeap, types []MemoryType) bool {
	hostHeap := func(h MemoryHeap) bool { return !h.DeviceLocal }
	if t != device.DeviceIntegrated && t != device.DeviceCPU && slices.ContainsFunc(heaps, hostHeap) {
		return false
	}
	const allTypes = ^uint32(0)
	return len(chooseMemoryTypes(types, allTypes, InboxMemory, false)) > 0 // memory of the device that the host maps
}
