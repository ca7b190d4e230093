package vk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unsafe"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/runtime"
)

// requirements are the driver's requirements for a buffer's memory.
type requirements struct {
	size, alignment uint64
	types           uint32 // bit mask of memory types
	dedicated       bool   // whether the driver asks for an allocation for this buffer alone
}

// Buffer is a range of memory that kernels, copies and indirect dispatches may use.
type Buffer struct {
	object
	name    string
	kind    MemoryKind
	size    int64
	handle  uint64              // Vulkan's buffer
	piece   allocation          // its memory
	address uint64              // for kernels; 0 if there is none
	owner   runtime.MemoryOwner // its purpose, for statistics
}

// NewBuffer makes a buffer of size bytes with undefined contents. name appears in errors and in validation messages.
// Errors wrap [ErrTooLarge] or are an [*OutOfMemoryError].
func (d *Device) NewBuffer(name string, size int64, kind MemoryKind) (*Buffer, error) {
	return d.newBuffer(runtime.OwnOther, name, size, kind)
}

// newBuffer makes a buffer, as [Device.NewBuffer] does, and counts it as memory of owner in the memory statistics.
func (d *Device) newBuffer(owner runtime.MemoryOwner, name string, size int64, kind MemoryKind) (*Buffer, error) {
	if err := d.checkUsable("make buffer " + name); err != nil {
		return nil, err
	}
	if err := d.checkSize(name, size); err != nil {
		return nil, err
	}
	d.reap()
	id, req, r := d.native.createBuffer(uint64(size))
	if err := d.checkResult(r, "create buffer %s of %s", name, formatBytes(uint64(size))); err != nil {
		return nil, err
	}
	piece, err := d.allocate(owner, name, kind, id, req)
	if err != nil {
		d.native.destroy(objectBuffer, id)
		return nil, err
	}
	r = d.native.bind(id, piece.block.memory, piece.offset)
	if err := d.checkResult(r, "bind buffer %s", name); err != nil {
		d.native.destroy(objectBuffer, id)
		d.memory.free(piece)
		d.used.release(owner, piece.size)
		return nil, err
	}
	d.native.setName(objectBuffer, id, name)
	b := &Buffer{object: object{device: d, owned: [2]handle{{objectBuffer, id}}}, name: name, kind: kind, size: size,
		handle: id, piece: piece, owner: owner, address: d.native.address(id)}
	d.adopt(b)
	return b, nil
}

// checkSize returns an error if the device cannot have a buffer of that size. A buffer may be larger than
// Caps.MaxAllocation, the size that the driver guarantees: the driver then reports whether it has enough memory.
func (d *Device) checkSize(name string, size int64) error {
	if size <= 0 {
		return fmt.Errorf("vk: buffer %s: size %d; want at least 1 byte", name, size)
	}
	if limit := d.info.Caps.MaxBuffer; uint64(size) > limit {
		return fmt.Errorf("vk: buffer %s: %s %w of %s for one buffer; split it", name, formatBytes(uint64(size)),
			ErrTooLarge, formatBytes(limit))
	}
	return nil
}

// typesOf returns the memory types for a kind of buffer, best first. allowed is a bit mask of the types that the buffer
// supports.
func (d *Device) typesOf(kind MemoryKind, allowed uint32) []int {
	if kind == HostMemory && d.options.ownAsHost {
		kind = UploadMemory
	}
	return chooseMemoryTypes(d.info.MemoryTypes, allowed, kind, d.info.Caps.UnifiedMemory)
}

// hasMemory reports whether the device has memory of a kind.
func (d *Device) hasMemory(kind MemoryKind) bool { return len(d.typesOf(kind, ^uint32(0))) > 0 }

// allocate allocates memory for a buffer. If there is not enough memory, it waits until the device has finished with
// retired resources, frees them, and tries once more.
func (d *Device) allocate(owner runtime.MemoryOwner, name string, kind MemoryKind, buffer uint64,
	req requirements) (allocation, error) {
	types := d.typesOf(kind, req.types)
	if len(types) == 0 {
		return allocation{}, fmt.Errorf("vk: buffer %s: device %s has no %s memory that can hold buffers", name,
			d.info.Caps.Name, kind)
	}
	piece, r := d.tryAllocate(owner, types, buffer, req)
	if r < 0 && d.freeRetired() { // negative results are errors
		piece, r = d.tryAllocate(owner, types, buffer, req)
	}
	if r != ErrorOutOfDeviceMemory && r != ErrorOutOfHostMemory {
		return piece, d.checkResult(r, "allocate memory for buffer %s", name)
	}
	heap := d.info.MemoryTypes[types[0]].Heap
	available, _ := d.available(heap) // 0 if the driver makes no estimate
	var err error = &OutOfMemoryError{What: "buffer " + name, Requested: req.size, Heap: heap,
		HeapSize: d.info.Heaps[heap].Size, InUse: d.memory.statistics().HeapInUse[heap], Available: available,
		Result: r, Limit: d.options.MemoryLimit, Use: d.used.use()}
	if most := d.info.Caps.MaxAllocation; req.size > most {
		err = fmt.Errorf("%w; the driver promises no allocation of more than %s: split the tensor", err,
			formatBytes(most))
	}
	return allocation{}, err
}

// tryAllocate allocates memory of the first of the given types that has enough, within the device's memory limit.
// buffer is Vulkan's buffer, which the memory is for. A negative result is an error.
func (d *Device) tryAllocate(owner runtime.MemoryOwner, types []int, buffer uint64,
	req requirements) (piece allocation, r Result) {
	if !d.used.reserve(owner, req.size, d.options.MemoryLimit) {
		return allocation{}, ErrorOutOfDeviceMemory
	}
	dedicated := uint64(0)
	if req.dedicated {
		dedicated = buffer
	}
	for _, t := range types {
		if piece, r = d.memory.alloc(req.size, req.alignment, t, dedicated); r >= 0 {
			return piece, r
		}
	}
	d.used.release(owner, req.size)
	return allocation{}, r
}

// memoryUse counts the bytes of buffers by purpose. It may be used concurrently.
type memoryUse struct {
	mu    sync.Mutex
	bytes runtime.MemoryUse
}

// reserve adds size bytes. If the total would exceed the limit (0 for none), it adds nothing and returns false.
func (m *memoryUse) reserve(owner runtime.MemoryOwner, size, limit uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if used := m.bytes.Total(); limit > 0 && (size > limit || used > limit-size) {
		return false
	}
	if m.bytes == nil {
		m.bytes = runtime.MemoryUse{}
	}
	m.bytes[owner] += size
	return true
}

// release undoes a reserve.
func (m *memoryUse) release(owner runtime.MemoryOwner, size uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes[owner] -= size
	if m.bytes[owner] == 0 {
		delete(m.bytes, owner)
	}
}

// use returns the bytes by purpose.
func (m *memoryUse) use() runtime.MemoryUse {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.bytes)
}

// freeRetired waits until the device is idle, and frees retired resources and empty blocks. It returns false if that
// freed nothing.
func (d *Device) freeRetired() bool {
	before := d.memory.statistics()
	if d.WaitIdle(context.Background()) != nil {
		return false
	}
	d.reap()
	d.memory.trim()
	after := d.memory.statistics()
	return after.Reserved < before.Reserved || after.InUse < before.InUse
}

// Size returns the size in bytes.
func (b *Buffer) Size() int64 {
	if b == nil {
		return 0
	}
	return b.size
}

// Address returns the buffer's address for kernels, or 0 if the device lacks Features.BufferDeviceAddress.
func (b *Buffer) Address() uint64 {
	if b == nil {
		return 0
	}
	return b.address
}

// Bytes returns the buffer's memory. It returns nil if the host cannot map it, which is only possible for DeviceMemory,
// and after Close. The device sees the host's writes in later submissions. To read what the device has written, wait
// for a recording that ends with a barrier to [StageHost]: [Device.Download] does so, and recordings that write
// ReadbackMemory or NearMemory have one.
func (b *Buffer) Bytes() []byte {
	if b == nil || b.closed.Load() || b.piece.block.mapped == nil {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(b.piece.block.mapped, b.piece.offset)), b.size)
}

// Close frees the buffer after the work submitted so far has finished. Recordings and bindings that use it must not be
// submitted any more. Closing twice is fine.
func (b *Buffer) Close() error { return closeOnce(b) }

func (b *Buffer) describe() string {
	return fmt.Sprintf("buffer %s (%s)", b.name, formatBytes(uint64(b.size)))
}

// release destroys the buffer and frees its memory.
func (b *Buffer) release() {
	b.object.release()
	b.device.used.release(b.owner, b.piece.size)
	// free fails only on a double free, which retire rules out.
	if err := b.device.memory.free(b.piece); err != nil {
		panic(err)
	}
}

// checkRange returns an error unless b is an open buffer of this device with bytes offset to offset+size.
func (d *Device) checkRange(b *Buffer, offset, size int64) error {
	switch {
	case b == nil:
		return errors.New("there is no buffer")
	case b.device != d:
		return fmt.Errorf("buffer %s belongs to another device", b.name)
	case b.closed.Load():
		return fmt.Errorf("buffer %s %w", b.name, ErrClosed)
	case offset < 0 || size < 0 || offset > b.size || size > b.size-offset:
		return fmt.Errorf("bytes %d to %d+%d lie outside buffer %s of %d bytes", offset, offset, size, b.name, b.size)
	}
	return nil
}

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
