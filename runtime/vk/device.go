package vk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vkc-go/vkc/codegen/target"
)

// DeviceOptions tune a device. The zero value is the usual choice.
type DeviceOptions struct {
	// CacheDir keeps compiled pipelines between runs; empty: they are not kept.
	CacheDir string
	// StagingBytes is the size of each of the two staging rings (up and down), made on first use;
	// 0 means 32 MiB.
	StagingBytes int64
	// BlockBytes is how much memory is taken from the driver at once; 0 means 64 MiB.
	BlockBytes int64

	// Robust has the driver check every access of a kernel to its buffers, for programs from elsewhere;
	// see [Device.Robustness] for what that gives. It costs time.
	Robust bool

	// MemoryLimit bounds the bytes of all buffers together; 0 means that the device's memory does. A buffer that
	// would pass it is an [*OutOfMemoryError].
	MemoryLimit uint64

	// forceStaging makes transfers go through the rings where they need not, for tests.
	forceStaging bool
	// givenBytes is what stands for maxGiven, for tests, if it is not 0.
	givenBytes int64
	// ownAsHost takes memory of the device for that of the host, for tests where there is no other.
	ownAsHost bool
}

const (
	defaultStagingBytes = 32 << 20
	defaultBlockBytes   = 64 << 20
)

// Device is an open Vulkan device with a queue for kernels and one for copies beside them. Its methods may be called
// concurrently, except Close, which is to be the last. Those of executables and tensors on it may be called at any
// time: Close waits for the ones under way, and later ones fail with [ErrClosed].
type Device struct {
	inst    *Instance
	info    DeviceInfo
	options DeviceOptions
	native  nativeDevice
	queues  queues
	memory  *allocator
	used    memoryUse
	weights *weightStore
	layouts layoutCache
	cache   *pipelineCache
	up      stagingRing
	down    stagingRing

	queue    sync.Mutex   // held while submitting
	gathered []*Recording // that the next submission of kernels begins with
	dropped  []*Recording // of groups, to be closed when the queue is not held
	awaited  uint64       // the point of copies that the next submission waits for; 0 if there is none
	kernels  timeline     // Points are of this one
	copies   timeline
	lost     atomic.Bool
	traffic  struct{ in, out atomic.Uint64 } // bytes of tensors, from and to the host

	mu      sync.Mutex
	closed  bool
	inside  int       // calls that Close waits for
	left    sync.Cond // told when inside is 0; its lock is mu
	live    map[resource]struct{}
	retired []retiree
}

// queues are those of a device, by number: native, or made up by a test.
type queues interface {
	// submit has a queue begin command buffers once the other queue has reached a point, and reach one itself at
	// their end.
	submit(queue int, buffers []uint64, wait, signal uint64) Result
	// wait waits until a queue has reached a point, or some time has passed.
	wait(queue int, point, timeoutNS, spinNS uint64) Result
	// timeline returns the point that a queue has reached.
	timeline(queue int) (uint64, Result)
}

// resource is something a user made on a device and is to close.
type resource interface {
	describe() string // kind and name, for reports
	release()         // destroys it; the device no longer uses it
}

// retiree is a closed resource the device may be using until it reaches the points.
type retiree struct {
	resource resource
	until    Point
	copied   uint64 // of the copies
}

// objectType is a VkObjectType.
type objectType uint32

const (
	objectMemory         objectType = 8
	objectBuffer         objectType = 9
	objectQueryPool      objectType = 12
	objectPipelineCache  objectType = 16
	objectPipelineLayout objectType = 17
	objectPipeline       objectType = 19
	objectSetLayout      objectType = 20
	objectDescriptorPool objectType = 22
	objectCommandPool    objectType = 25
)

func newDevice(inst *Instance, index int, options DeviceOptions) (*Device, error) {
	info := inst.infos[index]
	if info.Problem != "" {
		return nil, &unavailableError{text: fmt.Sprintf("device %d (%s) cannot be used: %s", index,
			info.Caps.Name, info.Problem)}
	}
	if options.StagingBytes <= 0 {
		options.StagingBytes = defaultStagingBytes
	}
	if options.BlockBytes <= 0 {
		options.BlockBytes = defaultBlockBytes
	}
	native, r := inst.native.createDevice(inst.physical[index], info.families(), options.Robust, &info.Caps.Features)
	if err := r.check("open device %s", info.Caps.Name); err != nil {
		return nil, err
	}
	if options.Robust {
		info.Caps.Features.BufferDeviceAddress = false // no driver checks what is reached by an address
	}
	d := &Device{inst: inst, info: info, options: options, native: native, queues: native,
		live: map[resource]struct{}{}, weights: newWeightStore()}
	d.kernels.queue, d.copies.queue = kernelQueue, copyQueue
	d.left.L = &d.mu
	d.memory = newAllocator(native, info.Heaps, info.MemoryTypes, uint64(options.BlockBytes), info.Caps.MaxAllocation)
	d.up = stagingRing{device: d, kind: UploadMemory}
	d.down = stagingRing{device: d, kind: ReadbackMemory}
	d.layouts = layoutCache{device: d}
	cache, err := openPipelineCache(d)
	if err != nil {
		native.close()
		return nil, err
	}
	d.cache = cache
	return d, nil
}

// Robustness is what happens where a kernel reaches outside of the buffers that it was given.
type Robustness int

const (
	// Unchecked accesses may do anything: read and write what is not theirs, or lose the device.
	Unchecked Robustness = iota
	// WithinMemory is Vulkan's robustBufferAccess: they stay in the memory that a buffer lies in, which
	// other buffers of this process may share.
	WithinMemory
	// WithinBuffer is robustBufferAccess2: reads give zero, and writes are left out.
	WithinBuffer
)

// String says it in words.
func (r Robustness) String() string {
	switch r {
	case WithinMemory:
		return "kernels cannot leave the memory that their buffers lie in (robustBufferAccess)"
	case WithinBuffer:
		return "kernels cannot leave their buffers (robustBufferAccess2)"
	}
	return "what kernels access is not checked"
}

// Robustness says what was enabled for [DeviceOptions].Robust: the most that the device has.
func (d *Device) Robustness() Robustness {
	if d.usable("look for robustness") != nil {
		return Robustness(0)
	}
	return d.native.robust()
}

// Info is the device's entry in [Instance.Devices].
func (d *Device) Info() DeviceInfo {
	if d == nil {
		return DeviceInfo{}
	}
	return d.info
}

// Caps is what the device can do.
func (d *Device) Caps() target.Caps { return d.Info().Caps }

// MemoryStats counts the device memory this device's buffers take.
func (d *Device) MemoryStats() MemoryStats {
	if d == nil || d.memory == nil {
		return MemoryStats{}
	}
	s := d.memory.statistics()
	s.Owners = d.used.use()
	return s
}

// MemoryAvailable is how many bytes of device-local memory this process may still take, as the driver
// sees it; where it does not say, what this device has not taken of its largest heap.
func (d *Device) MemoryAvailable() uint64 {
	if d.usable("look for memory") != nil {
		return 0
	}
	heap := 0
	for i, h := range d.info.Heaps {
		if h.DeviceLocal && (!d.info.Heaps[heap].DeviceLocal || h.Size > d.info.Heaps[heap].Size) {
			heap = i
		}
	}
	if available, ok := d.available(heap); ok {
		return available
	}
	used := d.memory.statistics().HeapInUse[heap]
	return d.info.Heaps[heap].Size - min(used, d.info.Heaps[heap].Size)
}

func (d *Device) available(heap int) (uint64, bool) {
	budget, usage, ok := d.native.memoryBudget()
	if !ok || heap >= len(budget) {
		return 0, false
	}
	return budget[heap] - min(usage[heap], budget[heap]), true
}

// usable fails on a device that is closed or lost.
func (d *Device) usable(doing string) error {
	if d == nil || d.live == nil {
		return fmt.Errorf("vk: %s: there is no device: Instance.OpenDevice makes one, unless it returns an error",
			doing)
	}
	if d.lost.Load() {
		return fmt.Errorf("vk: %s on %s: %w", doing, d.info.Caps.Name, ErrDeviceLost)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.openLocked(doing)
}

func (d *Device) openLocked(doing string) error {
	if d.closed {
		return fmt.Errorf("vk: %s: device %s %w", doing, d.info.Caps.Name, ErrClosed)
	}
	return nil
}

// enter is usable for a call that Close is to wait for, which ends with leave.
func (d *Device) enter(doing string) error {
	if d == nil || d.live == nil || d.lost.Load() {
		return d.usable(doing)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.openLocked(doing); err != nil {
		return err
	}
	d.inside++
	return nil
}

func (d *Device) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside--; d.inside == 0 {
		d.left.Broadcast()
	}
}

// checkResult is Result.check, and remembers that the device is lost.
func (d *Device) checkResult(r Result, format string, args ...any) error {
	if r == ErrorDeviceLost {
		d.lost.Store(true)
	}
	return r.check(format, args...)
}

// adopt counts a new resource as live.
func (d *Device) adopt(r resource) {
	d.mu.Lock()
	d.live[r] = struct{}{}
	d.mu.Unlock()
}

// retire takes a resource from the live ones and destroys it as soon as the device cannot be using it.
// It does nothing the second time.
func (d *Device) retire(r resource) {
	// The caller has marked it closed. Submit looks at that mark with the queue held, so whatever
	// submission may use the resource is counted once the queue has been held here.
	until := d.Submitted()
	d.mu.Lock()
	_, alive := d.live[r]
	delete(d.live, r)
	if alive {
		d.retired = append(d.retired, retiree{r, until, d.copies.submitted.Load()})
	}
	d.mu.Unlock()
	d.reap()
}

// discard destroys a resource that the device is not using. It does nothing the second time.
func (d *Device) discard(r resource) {
	d.mu.Lock()
	_, alive := d.live[r]
	delete(d.live, r)
	d.mu.Unlock()
	if alive {
		r.release()
	}
}

// reap destroys the retired resources whose points have been reached.
func (d *Device) reap() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.retired) == 0 {
		return
	}
	kernels, copies := d.reached(&d.kernels), d.reached(&d.copies)
	d.retired = slices.DeleteFunc(d.retired, func(r retiree) bool {
		if uint64(r.until) > kernels || r.copied > copies {
			return false
		}
		r.resource.release()
		return true
	})
}

// reached asks the device how far it has come.
func (d *Device) reached(t *timeline) uint64 {
	known := t.completed.Load()
	if known == t.submitted.Load() {
		return known
	}
	value, r := d.queues.timeline(t.queue)
	if d.checkResult(r, "read timeline") != nil {
		return known
	}
	t.note(value)
	return value
}

// Close waits for calls under way and until the device is idle, saves the pipeline cache if there is a directory for
// it, and destroys everything. Its error names resources that were still open, which it closes. Closing twice is fine.
func (d *Device) Close() error {
	if d == nil || d.live == nil {
		return nil
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	for d.inside > 0 {
		d.left.Wait()
	}
	d.mu.Unlock()

	// A lost device returns at once, and its objects may be destroyed all the same.
	idle := d.checkResult(d.native.waitIdle(), "wait for the device before closing it")
	d.kernels.note(d.kernels.submitted.Load())
	d.copies.note(d.copies.submitted.Load())
	var saved error
	if !d.lost.Load() {
		saved = d.cache.save()
	}
	left := d.releaseAll()
	d.up.release()
	d.down.release()
	d.layouts.release()
	d.cache.release()
	d.memory.trim()
	if stats := d.memory.statistics(); stats.Allocations != 0 {
		left = append(left, fmt.Sprintf("%d memory allocations", stats.Allocations))
	}
	d.native.close()
	d.inst.forget(d)
	if len(left) > 0 {
		slices.Sort(left)
		return errors.Join(fmt.Errorf("vk: device %s closed with %d things still open: %s", d.info.Caps.Name, len(left),
			strings.Join(left[:min(len(left), 10)], ", ")), idle, saved)
	}
	return errors.Join(idle, saved)
}

// releaseAll destroys what is retired and what is live, and describes the latter.
func (d *Device) releaseAll() (left []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.retired {
		r.resource.release()
	}
	d.retired = nil
	for r := range d.live {
		left = append(left, r.describe())
		r.release()
	}
	clear(d.live)
	return left
}

// Live counts what was made on the device and not closed yet, by kind: buffer, pipeline, bindings,
// recording, timestamps.
func (d *Device) Live() map[string]int {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	count := map[string]int{}
	for r := range d.live {
		kind, _, _ := strings.Cut(r.describe(), " ")
		count[kind]++
	}
	return count
}
