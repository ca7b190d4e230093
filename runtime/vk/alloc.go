package vk

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/vkc-go/vkc/runtime"
)

// span is a range of bytes in a block.
type span struct{ offset, size uint64 }

// block divides one range of bytes among allocations. It only keeps track of offsets. An allocation takes the smallest
// free span that fits (best fit), and adjacent free spans are merged.
type block struct {
	size uint64
	free []span            // in ascending order; no two are adjacent
	used map[uint64]uint64 // size by offset
}

// newBlock returns a block without allocations.
func newBlock(size uint64) *block {
	return &block{size: size, free: []span{{0, size}}, used: map[uint64]uint64{}}
}

// alloc returns an aligned offset of size bytes in the smallest free span that fits. align is a power of two.
func (b *block) alloc(size, align uint64) (offset uint64, ok bool) {
	best := -1
	for i, s := range b.free {
		pad := -s.offset & (align - 1) // distance to the next multiple of align
		if pad <= s.size && size <= s.size-pad && (best < 0 || s.size < b.free[best].size) {
			best, offset = i, s.offset+pad
		}
	}
	if best < 0 {
		return 0, false
	}
	s := b.free[best]
	// The parts of the free span before and after the allocation stay free.
	var rest []span
	if offset > s.offset {
		rest = append(rest, span{s.offset, offset - s.offset})
	}
	if end := s.offset + s.size; offset+size < end {
		rest = append(rest, span{offset + size, end - offset - size})
	}
	b.free = slices.Replace(b.free, best, best+1, rest...)
	b.used[offset] = size
	return offset, true
}

// release frees the span at offset. It returns an error if nothing is allocated there, for example after a double free.
func (b *block) release(offset uint64) error {
	size, ok := b.used[offset]
	if !ok {
		return fmt.Errorf("vk: free of offset %d, which is not allocated", offset)
	}
	delete(b.used, offset)
	// at is the index of the first free span after the freed one. b.free[from:to] are the free spans next to it, which
	// it is merged with.
	at, _ := slices.BinarySearchFunc(b.free, offset, func(s span, o uint64) int { return cmp.Compare(s.offset, o) })
	freed, from, to := span{offset, size}, at, at
	if at < len(b.free) && b.free[at].offset == offset+size {
		freed.size += b.free[at].size
		to++
	}
	if at > 0 && b.free[at-1].offset+b.free[at-1].size == offset {
		freed.offset = b.free[at-1].offset
		freed.size += b.free[at-1].size
		from--
	}
	b.free = slices.Replace(b.free, from, to, freed)
	return nil
}

// empty reports whether the block has no allocations.
func (b *block) empty() bool { return len(b.used) == 0 }

// memorySource is the source of an allocator's memory: the driver, or a test.
type memorySource interface {
	// allocate returns the handle of new memory, and the host's pointer to it if mapped is true. dedicated is the
	// handle of the only buffer that will use it, or 0.
	allocate(size uint64, memoryType int, dedicated uint64, mapped bool) (uint64, unsafe.Pointer, Result)
	destroy(kind objectType, handle uint64)
}

// memoryBlock is a VkDeviceMemory, and its division among allocations.
type memoryBlock struct {
	*block
	memory     uint64
	mapped     unsafe.Pointer // the host's pointer to the memory; nil unless it is host-visible
	memoryType int
	dedicated  bool // whether it is for a single buffer
}

// allocation is a span of a memory block.
type allocation struct {
	block        *memoryBlock
	offset, size uint64
}

// allocator allocates large blocks of device memory from the driver and divides them among buffers. Each block has one
// memory type. The reason is that driver allocations are slow, and limited in number (often to 4096). It may be used
// concurrently.
type allocator struct {
	source     memorySource
	types      []MemoryType
	blockBytes []uint64 // by memory type

	mu     sync.Mutex
	blocks []*memoryBlock
	stats  MemoryStats
}

// MemoryStats counts a device's memory, in bytes.
type MemoryStats struct {
	InUse       uint64            // allocated to buffers
	Peak        uint64            // the highest InUse so far
	Reserved    uint64            // allocated from the driver
	Blocks      int               // allocations from the driver
	Allocations int               // allocations to buffers
	HeapInUse   []uint64          // InUse by heap
	Owners      runtime.MemoryUse // InUse by owner
}

// minAlignment keeps buffers on separate cache lines, even if the driver asks for less.
const minAlignment = 256

// newAllocator returns an allocator without blocks. blockBytes is the size of a block; blocks of small heaps are
// smaller. maxAllocation is the driver's limit in bytes.
func newAllocator(source memorySource, heaps []MemoryHeap, types []MemoryType,
	blockBytes, maxAllocation uint64) *allocator {
	a := &allocator{source: source, types: types}
	for _, t := range types {
		// A block should be a small part of its heap: some heaps have only 256 MiB.
		a.blockBytes = append(a.blockBytes, min(blockBytes, max(heaps[t.Heap].Size/16, 1<<20), maxAllocation))
	}
	a.stats.HeapInUse = make([]uint64, len(heaps))
	return a
}

// alloc allocates size bytes of the given memory type. dedicated is the buffer's handle if the driver asks for an
// allocation for this buffer alone, else 0.
func (a *allocator) alloc(size, align uint64, memoryType int, dedicated uint64) (allocation, Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	align = max(align, minAlignment)
	blockBytes := a.blockBytes[memoryType]
	// A large buffer would leave most of a block unused.
	if dedicated != 0 || size > blockBytes/2 {
		return a.allocAlone(size, memoryType, dedicated)
	}
	for _, b := range a.blocks {
		if b.memoryType != memoryType || b.dedicated {
			continue
		}
		if offset, ok := b.alloc(size, align); ok {
			return a.count(b, offset, size), Success
		}
	}
	b, r := a.grow(blockBytes, memoryType, 0)
	if r < 0 {
		// The driver may lack room for a whole block but have enough for this buffer.
		return a.allocAlone(size, memoryType, 0)
	}
	offset, _ := b.alloc(size, align)
	return a.count(b, offset, size), Success
}

// allocAlone allocates a block for a single buffer.
func (a *allocator) allocAlone(size uint64, memoryType int, dedicated uint64) (allocation, Result) {
	b, r := a.grow(size, memoryType, dedicated)
	if r < 0 {
		return allocation{}, r
	}
	b.dedicated = true
	offset, _ := b.alloc(size, 1)
	return a.count(b, offset, size), Success
}

// grow allocates a block of memory from the driver. dedicated is as for alloc. On an error it returns the driver's
// result.
func (a *allocator) grow(size uint64, memoryType int, dedicated uint64) (*memoryBlock, Result) {
	mapped := a.types[memoryType].Flags&MemoryHostVisible != 0
	memory, pointer, r := a.source.allocate(size, memoryType, dedicated, mapped)
	if r < 0 {
		return nil, r
	}
	b := &memoryBlock{block: newBlock(size), memory: memory, mapped: pointer, memoryType: memoryType}
	a.blocks = append(a.blocks, b)
	a.stats.Reserved += size
	a.stats.Blocks++
	return b, Success
}

// count returns the allocation at an offset of a block, and counts it in the statistics.
func (a *allocator) count(b *memoryBlock, offset, size uint64) allocation {
	a.stats.InUse += size
	a.stats.Peak = max(a.stats.Peak, a.stats.InUse)
	a.stats.Allocations++
	a.stats.HeapInUse[a.types[b.memoryType].Heap] += size
	return allocation{b, offset, size}
}

// free frees an allocation. It keeps at most one empty block per memory type and returns other empty blocks to the
// driver. With the empty block, a loop that makes and closes a buffer needs no driver calls.
func (a *allocator) free(p allocation) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.block == nil || !slices.Contains(a.blocks, p.block) {
		return fmt.Errorf("vk: free of memory that is not allocated")
	}
	if err := p.block.release(p.offset); err != nil {
		return err
	}
	a.stats.InUse -= p.size
	a.stats.Allocations--
	a.stats.HeapInUse[a.types[p.block.memoryType].Heap] -= p.size
	if p.block.empty() && (p.block.dedicated || a.otherEmpty(p.block)) {
		a.drop(p.block)
	}
	return nil
}

// otherEmpty reports whether there is another empty block of the same memory type that several buffers can share.
func (a *allocator) otherEmpty(b *memoryBlock) bool {
	return slices.ContainsFunc(a.blocks, func(o *memoryBlock) bool {
		return o != b && o.memoryType == b.memoryType && !o.dedicated && o.empty()
	})
}

// drop returns a block to the driver.
func (a *allocator) drop(b *memoryBlock) {
	a.blocks = slices.DeleteFunc(a.blocks, func(o *memoryBlock) bool { return o == b })
	a.source.destroy(objectMemory, b.memory) // unmaps as well
	a.stats.Reserved -= b.size
	a.stats.Blocks--
}

// trim returns all empty blocks to the driver.
func (a *allocator) trim() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range slices.Clone(a.blocks) {
		if b.empty() {
			a.drop(b)
		}
	}
}

// statistics returns a copy of the statistics.
func (a *allocator) statistics() MemoryStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stats
	s.HeapInUse = slices.Clone(s.HeapInUse)
	return s
}
