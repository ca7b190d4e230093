package vk

import "github.com/vkc-go/vkc/codegen/target"

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

// memoryUsual are all properties this package understands. A type with another (protected, lazily
// allocated, AMD's device-coherent) needs features that are not enabled, or cannot hold buffers.
const memoryUsual = MemoryDeviceLocal | MemoryHostVisible | MemoryHostCoherent | MemoryHostCached

// MemoryType is a way of allocating from a heap.
type MemoryType struct {
	Heap  int
	Flags MemoryFlags
}

// MemoryKind is what a buffer is for, which decides where it lives.
type MemoryKind int

const (
	// DeviceMemory is for what kernels read and write: the fastest memory of the device. Where memory is
	// unified the host can reach it too.
	DeviceMemory MemoryKind = iota
	// SharedMemory is for small things the host writes and kernels read often, such as parameters: in
	// device memory if the host can reach it there.
	SharedMemory
	// UploadMemory is for data on its way to the device: host memory, written once in order.
	UploadMemory
	// ReadbackMemory is for data on its way to the host: host memory that is fast to read.
	ReadbackMemory
	// NearMemory is for few bytes that kernels write and read, and the host reads: in device memory if the host can
	// reach it there, and else as ReadbackMemory is.
	NearMemory
	// HostMemory is for what kernels read that the device's memory has no room for: memory of the host, which
	// they reach over the bus.
	HostMemory
	// InboxMemory is for what the host writes while kernels that read it are under way: device memory that the host
	// can reach.
	InboxMemory
)

// String is the kind in a word.
func (k MemoryKind) String() string {
	switch k {
	case DeviceMemory:
		return "device"
	case SharedMemory:
		return "shared"
	case UploadMemory:
		return "upload"
	case ReadbackMemory:
		return "readback"
	case NearMemory:
		return "near"
	case HostMemory:
		return "host"
	case InboxMemory:
		return "inbox"
	}
	return "unknown"
}

// readByHost reports whether the host reads what kernels have written there, as soon as these are done.
func (k MemoryKind) readByHost() bool { return k == ReadbackMemory || k == NearMemory }

// memoryWish is one acceptable sort of memory: all of need, none of avoid.
type memoryWish struct{ need, avoid MemoryFlags }

const hostCoherent = MemoryHostVisible | MemoryHostCoherent

// memoryWishes lists, per kind, what is acceptable, best first. All host memory is coherent: Vulkan
// promises such a type on every device, and it spares flushing.
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

// unifiedWishes replaces the wishes for DeviceMemory where host and device share their memory.
var unifiedWishes = []memoryWish{
	{MemoryDeviceLocal | hostCoherent | MemoryHostCached, 0}, {MemoryDeviceLocal | hostCoherent, 0}, {MemoryDeviceLocal, 0},
}

// chooseMemoryTypes lists the memory types that may hold a buffer of the given kind, best first. allowed
// is the set of types the buffer can live in, as a bit mask over their indices.
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

// unifiedMemory reports whether host and device share their memory: the device is no separate card, or
// has no other heaps than its own, and the host can write there. A card whose whole memory the host can
// reach over the bus does not count: reading it that way is slow.
func unifiedMemory(t target.DeviceType, heaps []MemoryHeap, types []MemoryType) bool {
	shared := t == target.DeviceIntegrated || t == target.DeviceCPU
	if !shared {
		for _, h := range heaps {
			if !h.DeviceLocal {
				return false
			}
		}
	}
	for _, m := range types {
		const want = MemoryDeviceLocal | hostCoherent
		if m.Flags&want == want && m.Flags&^memoryUsual == 0 {
			return true
		}
	}
	return false
}
