package vk

import (
	"context"
	"path/filepath"
	"unsafe"
)

// What tests outside the package need from inside.

// ForceStaging makes transfers use the staging rings on devices with unified memory too.
func ForceStaging(o DeviceOptions) DeviceOptions {
	o.forceStaging = true
	return o
}

// OwnAsHost makes programs use the device's own memory instead of host memory.
func OwnAsHost(o DeviceOptions) DeviceOptions {
	o.ownAsHost = true
	return o
}

// InjectMessage stores a validation message as a layer would.
func InjectMessage(text string) { injectMessage(text) }

// ClearMessages forgets the validation messages so far.
func ClearMessages() { clearMessages() }

// Hold keeps runs of the program from going on until they are let.
func (e *Executable) Hold(ctx context.Context) (let func(), err error) { return e.unlock, e.lock(ctx) }

// FillUnchecked records a fill past the checks of FillBuffer.
func (c *CommandList) FillUnchecked(b *Buffer, offset, size int64) {
	c.emit(opFill, b.handle, uint64(offset), uint64(size), 0)
	c.users[b] = struct{}{}
}

// EmitRaw appends words to the list unchanged.
func (c *CommandList) EmitRaw(words ...uint64) { c.words = append(c.words, words...) }

// Dispatches counts the dispatches in the recordings for runs on tensors, and those that read their workgroup counts
// from a buffer.
func (e *Executable) Dispatches() (all, indirect int) {
	for i := range e.inFlight.ring {
		for _, b := range e.inFlight.ring[i].bound {
			if b.recording == nil {
				continue
			}
			for words := b.recording.words; len(words) > 0; words = words[1+words[0]>>32:] {
				switch opcode(uint32(words[0])) {
				case opDispatchIndirect:
					indirect++
					all++
				case opDispatch:
					all++
				}
			}
		}
	}
	return all, indirect
}

// Retired is the number of closed resources the device still keeps.
func (d *Device) Retired() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.retired)
}

// DownloadsAfter downloads a whole buffer with its contents at a point.
func (d *Device) DownloadsAfter(ctx context.Context, b *Buffer, p Point) error {
	return d.download(ctx, make([]byte, b.size), b, 0, order{overlaps: true, after: p})
}

// Downloading reports whether a download has the ring.
func (d *Device) Downloading() bool {
	if d.down.mu.TryLock() {
		d.down.mu.Unlock()
		return false
	}
	return true
}

// Waits is how many wait for the device's kernels.
func (d *Device) Waits() int {
	d.kernels.mu.Lock()
	defer d.kernels.mu.Unlock()
	return len(d.kernels.inDriver) + len(d.kernels.waiting)
}

// CachePath is the file of the pipeline cache.
func (d *Device) CachePath() string {
	key := cacheKey(&d.info).String()
	return filepath.Join(d.cache.files.Path, key[:2], key+d.cache.files.Suffix)
}

// MarkLost makes the device believe that a call has returned VK_ERROR_DEVICE_LOST.
func (d *Device) MarkLost() error { return d.checkResult(ErrorDeviceLost, "test") }

// CostOf is costOf.
var CostOf = costOf

// LimitGiven leaves so many bytes for larger inputs of runs ahead.
func LimitGiven(o DeviceOptions, bytes int64) DeviceOptions {
	o.hostInputBytes = bytes
	return o
}

// failingMemory runs out of memory after some allocations.
type failingMemory struct {
	memorySource
	left int
}

func (f *failingMemory) allocate(size uint64, memoryType int, dedicated uint64,
	mapped bool) (uint64, unsafe.Pointer, Result) {
	if f.left == 0 {
		return 0, nil, ErrorOutOfDeviceMemory
	}
	f.left--
	return f.memorySource.allocate(size, memoryType, dedicated, mapped)
}

// LimitAllocations makes the device run out of memory after n allocations, until the returned function is
// called.
func (d *Device) LimitAllocations(n int) (lift func()) {
	source := d.memory.source
	d.memory.source = &failingMemory{source, n}
	return func() { d.memory.source = source }
}

// ChangeCaps makes the device believe that it can do something else than it can.
func (d *Device) ChangeCaps(change func(*DeviceInfo)) { change(&d.info) }

// Damage writes a byte near a state of a program that was loaded with guards, offset bytes after its begin.
func (e *Executable) Damage(state string, offset int64) error {
	i, err := e.State(state)
	if err != nil {
		return err
	}
	at := e.buffers[e.program.States[i].Buffer].at
	return e.device.Upload(context.Background(), at.Buffer, at.Offset+offset, []byte{1})
}

// Name returns the name in PipelineDesc.
func (p *Pipeline) Name() string { return p.name }
