package vk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vkc-go/vkc/codegen/device"
)

// DeviceOptions adjusts a device. The zero value means the defaults.
type DeviceOptions struct {
	// CacheDir is the directory for the pipeline cache. If empty, pipelines are not cached on disk.
	CacheDir string
	// StagingBytes is the size of each of the two staging rings, host memory through which uploads and downloads pass.
	// 0 means 32 MiB. A ring is made on first use.
	StagingBytes int64
	// BlockBytes is the size of one allocation from the driver, which several buffers share; 0 means 64 MiB.
	BlockBytes int64

	// Robust makes the driver check every access of a kernel to its buffers, which costs time. It is for programs from
	// untrusted sources. [Device.Robustness] returns what the driver guarantees.
	Robust bool

	// MemoryLimit limits the bytes of all buffers together; 0 means only the device's own limit. Making a buffer that
	// would exceed it fails with an [*OutOfMemoryError].
	MemoryLimit uint64

	// forceStaging makes all transfers use the staging rings. It is for tests.
	forceStaging bool
	// hostInputBytes, if not 0, replaces maxHostInputs. It is for tests.
	hostInputBytes int64
	// ownAsHost uses device memory as host memory. It is for tests on devices without separate host memory.
	ownAsHost bool
}

const (
	defaultStagingBytes = 32 << 20
	defaultBlockBytes   = 64 << 20
)

// Device is an open Vulkan device with a queue for kernels and one for copies that overlap them. Its methods may be
// called concurrently, except Close, which must come last. Methods of executables and tensors on the device may be
// called at any time: Close waits for calls in progress, and later calls fail with [ErrClosed].
type Device struct {
	inst    *Instance
	info    DeviceInfo
	options DeviceOptions
	native  nativeDevice
	submitter
	memory  *allocator
	used    memoryUse
	weights *weightStore
	layouts layoutCache
	cache   *pipelineCache
	up      stagingRing
	down    stagingRing

	lost    atomic.Bool
	traffic struct{ in, out atomic.Uint64 } // bytes of tensors copied from and to the host

	lifetimes
}

// lifetimes keeps track of the resources of a device and of calls in progress. A resource is live until its Close. It
// is then retired: it is destroyed as soon as the device has finished all work that may use it.
type lifetimes struct {
	mu      sync.Mutex
	closed  bool
	inside  int       // calls in progress, which Close waits for
	left    sync.Cond // signaled when inside drops to 0; its lock is mu
	live    map[resource]struct{}
	retired []retiree
}

// init prepares the zero value for use.
func (l *lifetimes) init() { l.live, l.left.L = map[resource]struct{}{}, &l.mu }

// resource is an object on a device that its user must close. It embeds an [object].
type resource interface {
	describe() string // kind and name, for reports
	isClosed() bool
	release() // destroys it; the device must not be using it
	base() *object
}

// object is the common part of all resources.
type object struct {
	device *Device
	closed atomic.Bool
	owned  [2]handle // Vulkan's objects, which release destroys in this order; zero for none
}

// handle is an object of Vulkan.
type handle struct {
	kind objectType
	id   uint64
}

func (o *object) base() *object  { return o }
func (o *object) isClosed() bool { return o.closed.Load() }

// release destroys Vulkan's objects.
func (o *object) release() {
	for _, h := range o.owned {
		if h.id != 0 {
			o.device.native.destroy(h.kind, h.id)
		}
	}
}

// closeOnce marks a resource as closed and retires it, unless it is nil or closed.
func closeOnce[T any, P interface {
	*T
	resource
}](r P) error {
	if r != nil && !r.base().closed.Swap(true) {
		r.base().device.retire(r)
	}
	return nil
}

// retiree is a retired resource. The device may use it until its timelines of kernels and of copies reach these points.
type retiree struct {
	resource        resource
	kernels, copies uint64
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

// newDevice opens the device with an index in inst.Devices.
func newDevice(inst *Instance, index int, options DeviceOptions) (*Device, error) {
	info := inst.infos[index]
	if info.Problem != "" {
		return nil, info.unusable()
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
		info.Caps.Features.BufferDeviceAddress = false // the driver does not check accesses by address
	}
	d := &Device{inst: inst, info: info, options: options, native: native, weights: newWeightStore()}
	d.submitter.init(d, native)
	d.lifetimes.init()
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

// Robustness is what the driver guarantees about accesses outside of a kernel's buffers.
type Robustness int

const (
	// Unchecked accesses may read and write any memory, or lose the device.
	Unchecked Robustness = iota
	// WithinMemory is Vulkan's robustBufferAccess: accesses stay in the memory that the buffer is allocated in, which
	// other buffers of this process may share.
	WithinMemory
	// WithinBuffer is robustBufferAccess2: reads return zero, and writes are dropped.
	WithinBuffer
)

// String describes the guarantee.
func (r Robustness) String() string {
	switch r {
	case WithinMemory:
		return "kernels cannot leave the memory that their buffers lie in (robustBufferAccess)"
	case WithinBuffer:
		return "kernels cannot leave their buffers (robustBufferAccess2)"
	}
	return "what kernels access is not checked"
}

// Robustness returns the driver's guarantee. With [DeviceOptions].Robust it is the strongest one that the device
// supports, else it is Unchecked.
func (d *Device) Robustness() Robustness {
	if d.checkUsable("look for robustness") != nil {
		return Robustness(0)
	}
	return d.native.robust()
}

// Of returns the *Device of a device of package vkc, for tools that measure or inspect it. It returns nil unless d is a
// single Vulkan device. Do not close it: closing d does.
func Of(d interface{ Backend() any }) *Device {
	v, _ := d.Backend().(*Device)
	return v
}

// Info returns the device's entry in [Instance.Devices].
func (d *Device) Info() DeviceInfo {
	if d == nil {
		return DeviceInfo{}
	}
	return d.info
}

// Caps returns the device's capabilities.
func (d *Device) Caps() device.Caps { return d.Info().Caps }

// MemoryStats returns statistics of this device's memory.
func (d *Device) MemoryStats() MemoryStats {
	if d == nil || d.memory == nil {
		return MemoryStats{}
	}
	s := d.memory.statistics()
	s.Owners = d.used.use()
	return s
}

// MemoryAvailable returns the driver's estimate of the bytes of device-local memory that this process may still
// allocate. If the driver gives no estimate, it returns the part of the largest heap that this Device has not
// allocated.
func (d *Device) MemoryAvailable() uint64 {
	if d.checkUsable("look for memory") != nil {
		return 0
	}
	// The largest heap of the device's own memory.
	heap := 0
	for i, h := range d.info.Heaps {
		if h.DeviceLocal && (!d.info.Heaps[heap].DeviceLocal || h.Size > d.info.Heaps[heap].Size) {
			heap = i
		}
	}
	if available, ok := d.available(heap); ok {
		return available
	}
	// Without an estimate of the driver, only the memory that d has allocated counts as used.
	used := d.memory.statistics().HeapInUse[heap]
	return d.info.Heaps[heap].Size - min(used, d.info.Heaps[heap].Size)
}

// available returns how much this process may still allocate from a heap, as the driver estimates it.
func (d *Device) available(heap int) (uint64, bool) {
	budget, usage, ok := d.native.memoryBudget()
	if !ok || heap >= len(budget) {
		return 0, false
	}
	return budget[heap] - min(usage[heap], budget[heap]), true
}

// checkUsable returns an error if the device is nil, closed or lost. doing names the operation in the error.
func (d *Device) checkUsable(doing string) error {
	err := d.enter(doing)
	if err == nil {
		d.leave()
	}
	return err
}

// enter begins an operation that Close must wait for; doing names it. It returns an error if the device is nil, closed
// or lost. Otherwise leave must follow.
func (d *Device) enter(doing string) error {
	if d == nil || d.live == nil {
		return fmt.Errorf("vk: %s: there is no device: Instance.OpenDevice makes one, unless it returns an error",
			doing)
	}
	if d.lost.Load() {
		return fmt.Errorf("vk: %s on %s: %w", doing, d.info.Caps.Name, ErrDeviceLost)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("vk: %s: device %s %w", doing, d.info.Caps.Name, ErrClosed)
	}
	d.inside++
	return nil
}

// leave ends a call that enter began.
func (l *lifetimes) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside--
	if l.inside == 0 {
		l.left.Broadcast()
	}
}

// checkResult is [Result.check]. It also records if the device is lost.
func (d *Device) checkResult(r Result, format string, args ...any) error {
	if r == ErrorDeviceLost {
		d.lost.Store(true)
	}
	return r.check(format, args...)
}

// adopt records a new resource as live.
func (l *lifetimes) adopt(r resource) {
	l.mu.Lock()
	l.live[r] = struct{}{}
	l.mu.Unlock()
}

// retire retires a closed resource: it is destroyed as soon as the device has finished using it. A second call does
// nothing.
func (d *Device) retire(r resource) {
	// The caller has marked the resource as closed, and Submit checks the mark under the queue's lock. Submitted takes
	// the same lock, so the point that it returns comes after every submission that uses the resource.
	kernels := uint64(d.Submitted())
	d.mu.Lock()
	if _, alive := d.live[r]; alive {
		delete(d.live, r)
		d.retired = append(d.retired, retiree{r, kernels, d.copies.submitted.Load()})
	}
	d.mu.Unlock()
	d.reap()
}

// discard destroys a resource that the device is not using. A second call does nothing.
func (l *lifetimes) discard(r resource) {
	l.mu.Lock()
	_, alive := l.live[r]
	delete(l.live, r)
	l.mu.Unlock()
	if alive {
		r.release()
	}
}

// reap destroys the retired resources that the device has finished using.
func (d *Device) reap() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.retired) == 0 {
		return
	}
	kernels, copies := d.reached(&d.kernels), d.reached(&d.copies)
	d.retired = slices.DeleteFunc(d.retired, func(r retiree) bool {
		if r.kernels > kernels || r.copies > copies {
			return false
		}
		r.resource.release()
		return true
	})
}

// reached returns the point of a timeline that the device has reached. It asks the driver, unless all work is known to
// be done.
func (s *submitter) reached(t *timeline) uint64 {
	known := t.completed.Load()
	if known == t.submitted.Load() {
		return known
	}
	value, r := s.queues.timeline(t.queue)
	if s.device.checkResult(r, "read timeline") != nil {
		return known
	}
	t.note(value)
	return value
}

// Close waits for calls in progress and until the device is idle, saves the pipeline cache if it has a directory, and
// destroys everything. It also closes resources that are still open, and names them in its error. Closing twice is
// fine.
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

	// If the device is lost, the wait returns at once, and destroying its objects is still allowed.
	idle := d.checkResult(d.native.waitIdle(), "wait for the device before closing it")
	// The device is idle, so everything that was submitted is done.
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
	if d.cache.handle != 0 {
		d.native.destroy(objectPipelineCache, d.cache.handle)
	}
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

// releaseAll destroys all retired and all live resources, and returns descriptions of the live ones.
func (l *lifetimes) releaseAll() (left []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.retired {
		r.resource.release()
	}
	l.retired = nil
	for r := range l.live {
		left = append(left, r.describe())
		r.base().closed.Store(true)
		r.release()
	}
	clear(l.live)
	return left
}

// Live returns the number of resources that are still open, by kind: buffer, pipeline, bindings, recording, timestamps.
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
