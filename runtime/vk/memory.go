package vk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"unsafe"

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
