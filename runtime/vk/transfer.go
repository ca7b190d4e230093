package vk

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/runtime"
)

// stagingSlots is the number of slots in a staging ring. While the device copies from or to one slot, the host fills or
// empties others.
const stagingSlots = 4

// stagingRing is a ring of slots in host memory through which data is copied to or from the device in chunks. One
// transfer uses it at a time.
type stagingRing struct {
	device *Device
	kind   MemoryKind

	mu    sync.Mutex     // held during a transfer
	slots []*stagingSlot // nil before the first transfer
	next  int            // index of the next slot to use
}

// stagingSlot is host memory for one chunk, with a command buffer for its copy.
type stagingSlot struct {
	memory       *Buffer
	pool, buffer uint64
	busy         uint64 // the device uses the slot until this point of the copies' timeline
}

// open makes the slots on first use.
func (s *stagingRing) open() error {
	if s.slots != nil {
		return nil
	}
	d := s.device
	size := d.slotBytes()
	var slots []*stagingSlot
	for i := range stagingSlots {
		memory, err := d.newBuffer(runtime.OwnStaging, fmt.Sprintf("%s staging %d", s.kind, i), size, s.kind)
		if err != nil {
			s.destroy(slots)
			return err
		}
		d.mu.Lock()
		delete(d.live, memory) // the ring releases its slots itself
		d.mu.Unlock()
		pool, buffer, r := d.native.createCommands(copyQueue)
		if err := d.checkResult(r, "create staging commands"); err != nil {
			memory.release()
			s.destroy(slots)
			return err
		}
		slots = append(slots, &stagingSlot{memory: memory, pool: pool, buffer: buffer})
	}
	s.slots = slots
	return nil
}

// slotBytes returns the size of a slot of the staging rings, in bytes.
func (d *Device) slotBytes() int64 { return max(d.options.StagingBytes/stagingSlots&^3, 4) }

// destroy frees the slots' memory and command pools.
func (s *stagingRing) destroy(slots []*stagingSlot) {
	for _, slot := range slots {
		s.device.native.destroy(objectCommandPool, slot.pool)
		slot.memory.release()
	}
}

// release frees all slots.
func (s *stagingRing) release() {
	s.destroy(s.slots)
	s.slots = nil
}

// take returns the next slot once the device has finished with it.
func (s *stagingRing) take(ctx context.Context) (*stagingSlot, error) {
	slot := s.slots[s.next]
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.device.waitOn(ctx, &s.device.copies, slot.busy); err != nil {
		return nil, err
	}
	s.next = (s.next + 1) % len(s.slots)
	return slot, nil
}

// submit records commands in the slot's command buffer, after a barrier for earlier copies, and submits them. o is
// their order relative to recordings.
func (s *stagingRing) submit(slot *stagingSlot, words []uint64, o order) error {
	d := s.device
	words = slices.Concat(appendBarrier(nil, StageTransfer, StageTransfer), words)
	r := d.native.record(slot.pool, slot.buffer, words, true)
	if err := d.checkResult(r, "record transfer"); err != nil {
		return err
	}
	p, err := d.submitCopy(slot.buffer, o, s.kind == UploadMemory)
	if err == nil {
		slot.busy = p
	}
	return err
}

// hostMapped reports whether the host can access the buffer's memory, so that a transfer needs no staging.
func (d *Device) hostMapped(b *Buffer) bool {
	return b.piece.block.mapped != nil && !d.options.forceStaging
}

// directChunk is the number of bytes that the host copies between two checks of the context.
const directChunk = 16 << 20

// Upload copies src to dst at the given offset, after all earlier submissions and before all later ones. The device may
// still be copying when it returns, but the caller may reuse src. If ctx ends midway, only a part has been copied.
func (d *Device) Upload(ctx context.Context, dst *Buffer, offset int64, src []byte) error {
	return d.UploadFunc(ctx, dst, offset, int64(len(src)), fillFrom(src))
}

// fillFunc sets p to the bytes of an upload from position `at` on.
type fillFunc = func(p []byte, at int64) error

// fillFrom returns a fillFunc that copies the bytes of src.
func fillFrom(src []byte) fillFunc {
	return func(p []byte, at int64) error {
		copyBytes(p, src[at:])
		return nil
	}
}

// copyPart is the least number of bytes that a goroutine copies. Starting it takes as long as copying about 10 KiB.
const copyPart = 1 << 20

// copyBytes copies as many bytes as both slices have, on several cores, because one core copies slower than the bus to
// a device.
func copyBytes(dst, src []byte) {
	n := min(len(dst), len(src))
	parts := min(n/copyPart, goruntime.GOMAXPROCS(0), 8)
	if parts < 2 {
		copy(dst, src)
		return
	}
	var all sync.WaitGroup
	for i := range parts {
		lo, hi := n/parts*i, n/parts*(i+1)
		if i == parts-1 {
			hi = n
		}
		all.Go(func() { copy(dst[lo:hi], src[lo:hi]) })
	}
	all.Wait()
}

// UploadFunc copies size bytes that fill produces to dst at an offset, after all earlier submissions and before all
// later ones. It saves a copy if the bytes are read from a file or converted. Each call of fill must write all of p:
// the bytes from offset `at` on. The calls are in order. p may be device memory, which is slow to read, so fill should
// only write it, in order.
func (d *Device) UploadFunc(ctx context.Context, dst *Buffer, offset, size int64,
	fill func(p []byte, at int64) error) error {
	return d.upload(ctx, dst, offset, size, fill, order{})
}

// uploadToNew copies src to a new buffer that the device does not use yet, at an offset, so that the copy may overlap
// with earlier submissions.
func (d *Device) uploadToNew(ctx context.Context, dst *Buffer, offset int64, src []byte) error {
	return d.upload(ctx, dst, offset, int64(len(src)), fillFrom(src), order{overlaps: true})
}

// upload copies size bytes to dst at an offset. It calls fill for each piece of the copy. o is the order of the copy
// relative to recordings.
func (d *Device) upload(ctx context.Context, dst *Buffer, offset, size int64, fill fillFunc, o order) error {
	if err := d.checkTransfer(ctx, "upload", dst, offset, size); err != nil || size == 0 {
		return err
	}
	d.traffic.in.Add(uint64(size))
	// No staging: the host writes to the buffer itself.
	if d.hostMapped(dst) {
		return d.directChunks(ctx, dst, offset, size, fill, o)
	}
	d.up.mu.Lock()
	defer d.up.mu.Unlock()
	if err := d.up.open(); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		slot, err := d.up.take(ctx)
		if err != nil {
			return fmt.Errorf("vk: upload to %s: %w", dst.name, err)
		}
		n := min(size-at, slot.memory.size)
		if err := fill(slot.memory.Bytes()[:n], at); err != nil {
			return err
		}
		words := appendCopy(nil, slot.memory.handle, dst.handle, 0, offset+at, n)
		if err := d.up.submit(slot, words, o); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// Download copies from src at the given offset to dst, after all earlier submissions, and waits for that.
func (d *Device) Download(ctx context.Context, dst []byte, src *Buffer, offset int64) error {
	return d.download(ctx, dst, src, offset, order{})
}

// download copies from src at the given offset to dst, in order o relative to recordings, and waits for that.
func (d *Device) download(ctx context.Context, dst []byte, src *Buffer, offset int64, o order) error {
	size := int64(len(dst))
	if err := d.checkTransfer(ctx, "download", src, offset, size); err != nil || size == 0 {
		return err
	}
	d.traffic.out.Add(uint64(size))
	if d.hostMapped(src) {
		return d.directChunks(ctx, src, offset, size, func(p []byte, at int64) error {
			copyBytes(dst[at:], p)
			return nil
		}, o)
	}
	// A download uses the ring until the device has reached o.after, and other downloads wait for the ring meanwhile.
	// So it takes the ring only when the device has reached the point before. Otherwise callers that read earlier runs
	// would be late to record that these are done, and resources of these runs would not be reused.
	if o.overlaps && o.after > 0 {
		if err := d.Wait(ctx, o.after-1); err != nil {
			return err
		}
	}
	d.down.mu.Lock()
	defer d.down.mu.Unlock()
	if err := d.down.open(); err != nil {
		return err
	}
	return d.down.download(ctx, dst, src, offset, o)
}

// stagedChunk is a chunk of a download, in a slot: n bytes for position at of the destination.
type stagedChunk struct {
	slot  *stagingSlot
	at, n int64
}

// download copies bytes of src from an offset on to dst, in chunks. It keeps as many copies by the device in flight as
// the ring has slots, and copies from the slots to dst in order.
func (s *stagingRing) download(ctx context.Context, dst []byte, src *Buffer, offset int64, o order) error {
	size := int64(len(dst))
	var inFlight []stagedChunk
	for at := int64(0); at < size || len(inFlight) > 0; {
		if at < size && len(inFlight) < stagingSlots { // request the next chunk, unless all slots are in use
			c, err := s.fetch(ctx, src, offset+at, size-at, o)
			if err != nil {
				return err
			}
			c.at = at
			inFlight = append(inFlight, c)
			at += c.n
			continue
		}
		c := inFlight[0]
		inFlight = inFlight[1:]
		if err := s.device.waitOn(ctx, &s.device.copies, c.slot.busy); err != nil {
			return fmt.Errorf("vk: download from %s: %w", src.name, err)
		}
		copyBytes(dst[c.at:c.at+c.n], c.slot.memory.Bytes())
	}
	return nil
}

// fetch starts to copy up to limit bytes of src, from an offset on, to the next slot.
func (s *stagingRing) fetch(ctx context.Context, src *Buffer, offset, limit int64, o order) (stagedChunk, error) {
	slot, err := s.take(ctx)
	if err != nil {
		return stagedChunk{}, fmt.Errorf("vk: download from %s: %w", src.name, err)
	}
	n := min(limit, slot.memory.size)
	words := appendCopy(nil, src.handle, slot.memory.handle, offset, 0, n)
	words = appendBarrier(words, StageTransfer, StageHost)
	return stagedChunk{slot: slot, n: n}, s.submit(slot, words, o)
}

// waitBefore waits until the host may access memory in order o relative to recordings.
func (d *Device) waitBefore(ctx context.Context, o order) error {
	if o.overlaps {
		return d.Wait(ctx, o.after)
	}
	return d.WaitIdle(ctx)
}

// directChunks waits until the host may access buffer b (see order), and then calls access with size bytes of its
// memory from an offset on, a chunk p at a time. `at` is the position of p in these bytes.
func (d *Device) directChunks(ctx context.Context, b *Buffer, offset, size int64,
	access func(p []byte, at int64) error, o order) error {
	if err := d.waitBefore(ctx, o); err != nil {
		return err
	}
	memory := b.Bytes()[offset : offset+size]
	for at := int64(0); at < size; at += directChunk {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("vk: transfer with %s: %w", b.name, err)
		}
		if err := access(memory[at:min(at+directChunk, size)], at); err != nil {
			return err
		}
	}
	return nil
}

// checkTransfer returns an error if there is no context, or if the range cannot be copied on this device.
func (d *Device) checkTransfer(ctx context.Context, doing string, b *Buffer, offset, size int64) error {
	if err := runtime.CheckContext(ctx); err != nil {
		return fmt.Errorf("vk: %s: %w", doing, err)
	}
	if err := d.checkUsable(doing); err != nil {
		return err
	}
	if err := d.checkRange(b, offset, size); err != nil {
		return fmt.Errorf("vk: %s: %w", doing, err)
	}
	return nil
}
