package vk

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/vkc-go/vkc/runtime"
)

// checkBlock fails unless the block's pieces are in order, merged, disjoint, and add up.
func checkBlock(t *testing.T, b *block) {
	t.Helper()
	var pieces []span
	for i, s := range b.free {
		if s.size == 0 || i > 0 && b.free[i-1].offset+b.free[i-1].size >= s.offset {
			t.Fatalf("free pieces are empty, out of order or not merged: %v", b.free)
		}
	}
	pieces = append(pieces, b.free...)
	for offset, size := range b.used {
		pieces = append(pieces, span{offset, size})
	}
	slices.SortFunc(pieces, func(a, b span) int { return int(a.offset) - int(b.offset) })
	at := uint64(0)
	for _, p := range pieces {
		if p.offset != at {
			t.Fatalf("a gap or overlap at %d: next piece %v", at, p)
		}
		at += p.size
	}
	if at != b.size {
		t.Fatalf("pieces add up to %d of %d bytes", at, b.size)
	}
}

func TestBlockRandom(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := newBlock(1 << 16)
		var held []uint64
		for range 2000 {
			if rng.IntN(5) < 3 {
				size, align := uint64(1+rng.IntN(3000)), uint64(1)<<rng.IntN(10)
				if offset, ok := b.alloc(size, align); ok {
					if offset%align != 0 {
						t.Fatalf("offset %d is not a multiple of %d", offset, align)
					}
					held = append(held, offset)
				}
			} else if len(held) > 0 {
				i := rng.IntN(len(held))
				if err := b.release(held[i]); err != nil {
					t.Fatal(err)
				}
				held = slices.Delete(held, i, i+1)
			}
			checkBlock(t, b)
		}
		for _, offset := range held {
			if err := b.release(offset); err != nil {
				t.Fatal(err)
			}
		}
		if !b.empty() || !slices.Equal(b.free, []span{{0, 1 << 16}}) {
			t.Fatalf("after freeing all, what is free is %v", b.free)
		}
	}
}

func TestBlockBestFit(t *testing.T) {
	b := newBlock(1000)
	var offsets []uint64
	for _, size := range []uint64{100, 300, 100, 120, 380} {
		offset, _ := b.alloc(size, 1)
		offsets = append(offsets, offset)
	}
	b.release(offsets[1]) // 300 free at 100
	b.release(offsets[3]) // 120 free at 500
	if offset, ok := b.alloc(110, 1); !ok || offset != 500 {
		t.Errorf("110 bytes are placed at %d; want 500, the tighter gap", offset)
	}
	if offset, ok := b.alloc(301, 1); ok {
		t.Errorf("301 bytes are placed at %d where no gap holds them", offset)
	}
	if offset, ok := b.alloc(200, 128); !ok || offset != 128 {
		t.Errorf("200 aligned bytes are placed at %d; want 128", offset)
	}
	checkBlock(t, b)
}

func TestBlockDoubleFree(t *testing.T) {
	b := newBlock(100)
	offset, _ := b.alloc(10, 1)
	if err := b.release(offset + 1); err == nil {
		t.Error("freeing the middle of a piece succeeds")
	}
	if err := b.release(offset); err != nil {
		t.Error(err)
	}
	if err := b.release(offset); err == nil {
		t.Error("a double free succeeds")
	}
	checkBlock(t, b)
}

func FuzzBlock(f *testing.F) {
	f.Add([]byte{1, 2, 3, 250, 4, 251})
	f.Fuzz(func(t *testing.T, script []byte) {
		b := newBlock(4096)
		var held []uint64
		for _, step := range script {
			if step >= 240 && len(held) > 0 {
				i := int(step-240) % len(held)
				if err := b.release(held[i]); err != nil {
					t.Fatal(err)
				}
				held = slices.Delete(held, i, i+1)
			} else if offset, ok := b.alloc(uint64(step)*7+1, 1<<(step%8)); ok {
				held = append(held, offset)
			}
			checkBlock(t, b)
		}
	})
}

// fakeMemory is device memory with a limit.
type fakeMemory struct {
	limit, used uint64
	sizes       map[uint64]uint64
	next        uint64
}

func (f *fakeMemory) allocate(size uint64, _ int, _ uint64, mapped bool) (uint64, unsafe.Pointer, Result) {
	if f.used+size > f.limit {
		return 0, nil, ErrorOutOfDeviceMemory
	}
	f.used += size
	f.next++
	f.sizes[f.next] = size
	if mapped {
		return f.next, unsafe.Pointer(new(byte)), Success
	}
	return f.next, nil, Success
}

func (f *fakeMemory) destroy(kind objectType, handle uint64) {
	f.used -= f.sizes[handle]
	delete(f.sizes, handle)
}

func fakeAllocator(limit uint64) (*allocator, *fakeMemory) {
	f := &fakeMemory{limit: limit, sizes: map[uint64]uint64{}}
	return newAllocator(f, h100Heaps, h100Types, 1<<20, 1<<30), f
}

func mustAlloc(t *testing.T, a *allocator, size, align uint64, memoryType int, dedicated uint64) allocation {
	t.Helper()
	p, r := a.alloc(size, align, memoryType, dedicated)
	if r != Success {
		t.Fatalf("%d bytes: %v", size, r)
	}
	return p
}

func TestAllocatorSharesBlocks(t *testing.T) {
	a, f := fakeAllocator(1 << 30)
	var pieces []allocation
	for range 100 {
		p := mustAlloc(t, a, 1000, 16, 1, 0)
		if p.offset%minAlignment != 0 {
			t.Errorf("offset %d is not a multiple of %d", p.offset, minAlignment)
		}
		pieces = append(pieces, p)
	}
	other := mustAlloc(t, a, 1000, 16, 3, 0)
	if other.block == pieces[0].block || other.block.mapped == nil || pieces[0].block.mapped != nil {
		t.Error("memory types share a block, or are mapped wrongly")
	}
	s := a.statistics()
	if s.Blocks != 2 || s.Allocations != 101 || s.InUse != 101000 || s.HeapInUse[0] != 100000 ||
		s.HeapInUse[1] != 1000 {
		t.Errorf("statistics %+v", s)
	}
	for _, p := range append(pieces, other) {
		if err := a.free(p); err != nil {
			t.Fatal(err)
		}
	}
	if s := a.statistics(); s.InUse != 0 || s.Allocations != 0 || s.Peak != 101000 || s.Reserved != f.used {
		t.Errorf("after freeing all: statistics %+v, %d bytes taken", s, f.used)
	}
	a.trim()
	if f.used != 0 || a.statistics().Reserved != 0 || a.statistics().Blocks != 0 {
		t.Errorf("after trim %d bytes are still taken", f.used)
	}
}

func TestAllocatorGivesLargeBuffersTheirOwn(t *testing.T) {
	a, f := fakeAllocator(1 << 30)
	big := mustAlloc(t, a, 600<<10, 16, 1, 0)
	asked := mustAlloc(t, a, 100, 16, 1, 77)
	small := mustAlloc(t, a, 100, 16, 1, 0)
	if f.sizes[big.block.memory] != 600<<10 || f.sizes[asked.block.memory] != 100 ||
		f.sizes[small.block.memory] != 1<<20 {
		t.Errorf("sizes taken from the driver: %v", f.sizes)
	}
	before := f.used
	a.free(big)
	a.free(asked)
	if f.used != before-600<<10-100 {
		t.Error("dedicated memory is not given back at once")
	}
}

func TestAllocatorKeepsOneEmptyBlock(t *testing.T) {
	a, f := fakeAllocator(1 << 30)
	var pieces []allocation
	for range 6 { // two to a block
		pieces = append(pieces, mustAlloc(t, a, 500<<10, 16, 1, 0))
	}
	if len(f.sizes) != 3 {
		t.Fatalf("%d blocks; want 3", len(f.sizes))
	}
	for _, p := range pieces {
		a.free(p)
	}
	if len(f.sizes) != 1 {
		t.Errorf("%d blocks are kept; want 1", len(f.sizes))
	}
}

func TestAllocatorOutOfMemory(t *testing.T) {
	a, f := fakeAllocator(300 << 10) // less than a block
	p := mustAlloc(t, a, 200<<10, 16, 1, 0)
	if f.sizes[p.block.memory] != 200<<10 {
		t.Error("where no block fits, the piece alone is not taken")
	}
	if _, r := a.alloc(200<<10, 16, 1, 0); r != ErrorOutOfDeviceMemory {
		t.Errorf("past the limit: %v", r)
	}
	if err := a.free(p); err != nil {
		t.Fatal(err)
	}
	mustAlloc(t, a, 200<<10, 16, 1, 0)
}

func TestAllocatorDoubleFree(t *testing.T) {
	a, _ := fakeAllocator(1 << 30)
	shared, alone := mustAlloc(t, a, 100, 16, 1, 0), mustAlloc(t, a, 800<<10, 16, 1, 0)
	for _, p := range []allocation{shared, alone} {
		if err := a.free(p); err != nil {
			t.Error(err)
		}
		if err := a.free(p); err == nil {
			t.Error("a double free succeeds")
		}
	}
	if err := a.free(allocation{}); err == nil {
		t.Error("freeing nothing succeeds")
	}
	if s := a.statistics(); s.InUse != 0 || s.Allocations != 0 {
		t.Errorf("statistics after double frees: %+v", s)
	}
}

func TestBlockSizeFollowsHeapAndLimit(t *testing.T) {
	a := newAllocator(nil, smallBARHeaps, smallBARTypes, 64<<20, 1<<30)
	if got, want := a.blockBytes, []uint64{64 << 20, 64 << 20, 64 << 20, 16 << 20}; !slices.Equal(got, want) {
		t.Errorf("block sizes %v; want %v", got, want)
	}
	a = newAllocator(nil, smallBARHeaps, smallBARTypes, 64<<20, 1<<20)
	if a.blockBytes[0] != 1<<20 {
		t.Errorf("a block of %d bytes exceeds the limit of one allocation", a.blockBytes[0])
	}
}

// TestMemoryLimit: buffers may take a limit to its last byte, and not a byte more.
func TestMemoryLimit(t *testing.T) {
	const limit = 1000
	for _, c := range []struct {
		taken, size, limit uint64
		fits               bool
	}{
		{0, limit, limit, true}, {0, limit + 1, limit, false}, {0, math.MaxUint64, limit, false},
		{400, 600, limit, true}, {400, 601, limit, false}, {limit, 1, limit, false}, {limit, math.MaxUint64, limit, false},
		{limit, limit, 0, true}, // without a limit
	} {
		var m memoryUse
		if c.taken > 0 && !m.reserve(runtime.OwnTensors, c.taken, c.limit) {
			t.Fatalf("%d bytes of %d do not fit", c.taken, c.limit)
		}
		want := c.taken
		if fits := m.reserve(runtime.OwnOther, c.size, c.limit); fits != c.fits {
			t.Errorf("with %d bytes taken of %d, %d more fit: %v, want %v", c.taken, c.limit, c.size, fits, c.fits)
		} else if fits {
			want += c.size
		}
		if have := m.use().Total(); have != want {
			t.Errorf("with %d bytes taken of %d, and %d more asked for, %d are taken", c.taken, c.limit, c.size, have)
		}
	}
}

func TestOutOfMemoryErrorText(t *testing.T) {
	err := &OutOfMemoryError{What: "buffer weights", Requested: 3 << 30, Heap: 0, HeapSize: 8 << 30, InUse: 6 << 30,
		Available: 1536 << 20, Result: ErrorOutOfDeviceMemory}
	for _, want := range []string{"buffer weights", "3.0 GiB", "8.0 GiB", "6.0 GiB used", "1.5 GiB still available"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	err.Available = 0
	if strings.Contains(err.Error(), "available") {
		t.Errorf("error %q says what is available, which is unknown", err)
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB",
		1 << 20:    "1.0 MiB",
		^uint64(0): "16.0 EiB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("%d bytes are %q; want %q", n, got, want)
		}
	}
}
