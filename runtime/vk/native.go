//go:build cgo

package vk

/*
#cgo CFLAGS: -std=gnu11 -O2
#cgo linux LDFLAGS: -ldl

#include <stdlib.h>
#include "vkc.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"unsafe"

	goki "github.com/goki/vulkan"

	"github.com/vkc-go/vkc/codegen/device"
)

// This file has all calls into C. Each method is one call. It uses github.com/goki/vulkan for enumeration and for calls
// that take only handles, where that is safe. vkc.h says why the other calls use C code of our own. native_stub.go has
// the same methods for builds without cgo.

// These lines check at compile time that constants in Go and C are equal: an index other than 0 does not compile.
var (
	_ = [1]int{}[opBindPipeline-C.VKC_OP_BIND_PIPELINE]
	_ = [1]int{}[opBindSet-C.VKC_OP_BIND_SET]
	_ = [1]int{}[opDispatch-C.VKC_OP_DISPATCH]
	_ = [1]int{}[opDispatchIndirect-C.VKC_OP_DISPATCH_INDIRECT]
	_ = [1]int{}[opBarrier-C.VKC_OP_BARRIER]
	_ = [1]int{}[opCopy-C.VKC_OP_COPY]
	_ = [1]int{}[opFill-C.VKC_OP_FILL]
	_ = [1]int{}[opTimestamp-C.VKC_OP_TIMESTAMP]
	_ = [1]int{}[opResetQueries-C.VKC_OP_RESET_QUERIES]
	_ = [1]int{}[resultBadWords-C.VKC_ERROR_BAD_WORDS]
	_ = [1]int{}[kernelQueue-C.VKC_KERNELS]
	_ = [1]int{}[copyQueue-C.VKC_COPIES]
	_ = [1]int{}[queueCount-C.VKC_QUEUES]
)

// nativeInstance is a VkInstance and its function table.
type nativeInstance struct{ ptr *C.vkc_instance }

// nativeDevice is a VkDevice with its function table, its queues and their timeline semaphores.
type nativeDevice struct{ ptr *C.vkc_device }

// physicalDevice is a VkPhysicalDevice.
type physicalDevice unsafe.Pointer

// loadMutex protects the loader, goki's global table of functions, and driversStay.
var (
	loadMutex sync.Mutex
	gokiReady bool
	// driversStay is true if an instance stays until the process ends.
	driversStay bool
)

// openNative creates an instance that uses Vulkan up to the given version.
func openNative(newest device.APIVersion) (nativeInstance, error) {
	loadMutex.Lock()
	defer loadMutex.Unlock()
	if problem := C.vkc_load(); problem != nil {
		return nativeInstance{}, &unavailableError{noLoaderText(C.GoString(problem)), ErrNoLoader}
	}
	var inst *C.vkc_instance
	r := Result(C.vkc_instance_create(C.uint32_t(newest), &inst))
	if r == ErrorIncompatibleDriver {
		return nativeInstance{}, noDriver("the Vulkan loader finds no usable driver (on Debian and Ubuntu " +
			"install mesa-vulkan-drivers, or the maker's driver)")
	}
	if err := r.check("create instance"); err != nil {
		return nativeInstance{}, err
	}
	if err := initGoki(inst); err != nil {
		C.vkc_instance_destroy(inst)
		return nativeInstance{}, err
	}
	return nativeInstance{inst}, nil
}

// noLoaderText adds advice for this system to the reason why the Vulkan loader cannot be opened.
func noLoaderText(problem string) string {
	switch runtime.GOOS {
	case "linux":
		return problem + ": no Vulkan loader (install libvulkan1 on Debian and Ubuntu, vulkan-loader on Fedora); " +
			"or use the CPU device"
	case "darwin":
		return problem + ": no Vulkan loader (install the Vulkan SDK or MoltenVK); or use the CPU device"
	}
	return problem + ": no Vulkan loader (it comes with the graphics driver); or use the CPU device"
}

// initGoki makes goki use the loader that vkc_load opened. goki itself would look for libvulkan.so, which only -dev
// packages install. Once per process is enough, because the loader's functions work for every instance.
func initGoki(inst *C.vkc_instance) error {
	if gokiReady {
		return nil
	}
	goki.SetGetInstanceProcAddr(C.vkc_loader_entry())
	if err := goki.Init(); err != nil {
		return fmt.Errorf("vk: load functions: %w", err)
	}
	handle := C.vkc_instance_handle(inst)
	// goki has its own Go type for the same handle.
	if err := goki.InitInstance(*(*goki.Instance)(unsafe.Pointer(&handle))); err != nil {
		return fmt.Errorf("vk: load instance functions: %w", err)
	}
	gokiReady = true
	return nil
}

// close destroys the instance, unless it is the first one of the process that is closed. That one stays, and with it
// the loaded drivers: NVIDIA's, unloaded and loaded again about 25 times, is not found any more.
func (n nativeInstance) close() {
	loadMutex.Lock()
	defer loadMutex.Unlock()
	if !driversStay {
		driversStay = true
		return
	}
	C.vkc_instance_destroy(n.ptr)
}

func (n nativeInstance) apiVersion() uint32 { return uint32(C.vkc_instance_api(n.ptr)) }

// devices lists the physical devices.
func (n nativeInstance) devices() ([]physicalDevice, Result) {
	handle := C.vkc_instance_handle(n.ptr)
	inst := *(*goki.Instance)(unsafe.Pointer(&handle))
	var count uint32
	// The first call counts the devices, the second lists them.
	if r := Result(goki.EnumeratePhysicalDevices(inst, &count, nil)); r < 0 || count == 0 {
		return nil, r
	}
	list := make([]goki.PhysicalDevice, count)
	r := Result(goki.EnumeratePhysicalDevices(inst, &count, list))
	if r < 0 {
		return nil, r
	}
	devices := make([]physicalDevice, count)
	for i := range devices {
		devices[i] = physicalDevice(unsafe.Pointer(list[i]))
	}
	return devices, r
}

// probe finds out the capabilities of a physical device.
func (n nativeInstance) probe(p physicalDevice) (DeviceInfo, Result) {
	probe := (*C.vkc_probe)(C.calloc(1, C.sizeof_vkc_probe))
	defer C.free(unsafe.Pointer(probe))
	if r := Result(C.vkc_probe_device(n.ptr, unsafe.Pointer(p), probe)); r < 0 {
		return DeviceInfo{}, r
	}
	return deviceInfo(probe), Success
}

// flag converts a bool to C.
func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// createDevice creates a device with one queue of each given family. It enables the features in `use` that the device
// supports. If robust is set, the driver checks every access to a buffer.
func (n nativeInstance) createDevice(p physicalDevice, families [queueCount]int, robust bool,
	use *device.Features) (nativeDevice, Result) {
	var dev *C.vkc_device
	features := nativeFeatures(*use)
	var list [queueCount]C.uint32_t
	for i, f := range families {
		list[i] = C.uint32_t(f)
	}
	r := Result(C.vkc_device_create(n.ptr, unsafe.Pointer(p), &list[0], flag(robust), &features, &dev))
	return nativeDevice{dev}, r
}

func (d nativeDevice) robust() Robustness { return Robustness(C.vkc_device_robust(d.ptr)) }

// Messages of validation layers.

// nativeMessages returns the first messages and the number of all.
func nativeMessages() (texts []string, total int) {
	total = int(C.vkc_message_count())
	const size = 1 << 14 // longer messages are cut
	buf := (*C.char)(C.malloc(size))
	defer C.free(unsafe.Pointer(buf))
	for i := range min(total, C.VKC_MAX_MESSAGES) {
		if C.vkc_message(C.uint64_t(i), buf, size) >= 0 {
			texts = append(texts, C.GoString(buf))
		}
	}
	return texts, total
}

// injectMessage adds a message, for tests.
func injectMessage(text string) {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	C.vkc_message_inject(c)
}

func clearMessages() { C.vkc_messages_clear() }

// Devices.

func (n nativeDevice) waitIdle() Result { return Result(C.vkc_wait_idle(n.ptr)) }

// close destroys the device. All of its objects must be destroyed before.
func (n nativeDevice) close() { C.vkc_device_free(n.ptr) }

// setName gives an object a name for messages and for tools such as RenderDoc.
func (n nativeDevice) setName(kind objectType, handle uint64, name string) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	C.vkc_set_name(n.ptr, C.uint32_t(kind), C.uint64_t(handle), c)
}

// destroy destroys an object made by this device.
func (n nativeDevice) destroy(kind objectType, handle uint64) {
	pointer := C.vkc_device_handle(n.ptr)
	device := *(*goki.Device)(unsafe.Pointer(&pointer))
	object := unsafe.Pointer(&handle)
	switch kind {
	case objectBuffer:
		goki.DestroyBuffer(device, *(*goki.Buffer)(object), nil)
	case objectMemory:
		goki.FreeMemory(device, *(*goki.DeviceMemory)(object), nil)
	case objectQueryPool:
		goki.DestroyQueryPool(device, *(*goki.QueryPool)(object), nil)
	case objectPipelineCache:
		goki.DestroyPipelineCache(device, *(*goki.PipelineCache)(object), nil)
	case objectPipelineLayout:
		goki.DestroyPipelineLayout(device, *(*goki.PipelineLayout)(object), nil)
	case objectPipeline:
		goki.DestroyPipeline(device, *(*goki.Pipeline)(object), nil)
	case objectSetLayout:
		goki.DestroyDescriptorSetLayout(device, *(*goki.DescriptorSetLayout)(object), nil)
	case objectDescriptorPool:
		goki.DestroyDescriptorPool(device, *(*goki.DescriptorPool)(object), nil)
	case objectCommandPool:
		goki.DestroyCommandPool(device, *(*goki.CommandPool)(object), nil)
	default:
		panic(fmt.Sprintf("vk: destroy of object type %d", kind)) // a bug in this package
	}
}

// Memory.

// memoryBudget returns the driver's estimates by heap, in bytes: how much this process may use, and how much it uses.
// It returns false if the driver makes none.
func (n nativeDevice) memoryBudget() (budget, usage [16]uint64, ok bool) {
	ok = C.vkc_memory_budget(n.ptr, (*C.uint64_t)(&budget[0]), (*C.uint64_t)(&usage[0])) != 0
	return budget, usage, ok
}

// createBuffer creates a buffer without memory.
func (n nativeDevice) createBuffer(size uint64) (handle uint64, req requirements, r Result) {
	var c C.vkc_requirements
	r = Result(C.vkc_buffer_create(n.ptr, C.uint64_t(size), (*C.uint64_t)(&handle), &c))
	req = requirements{uint64(c.size), uint64(c.alignment), uint32(c.type_bits), c.dedicated != 0}
	return handle, req, r
}

// allocate implements memorySource.
func (n nativeDevice) allocate(size uint64, memoryType int, dedicated uint64,
	mapped bool) (uint64, unsafe.Pointer, Result) {
	var handle uint64
	var pointer unsafe.Pointer
	r := Result(C.vkc_memory_allocate(n.ptr, C.uint64_t(size), C.uint32_t(memoryType), C.uint64_t(dedicated),
		flag(mapped), (*C.uint64_t)(&handle), &pointer))
	return handle, pointer, r
}

func (n nativeDevice) bind(buffer, memory, offset uint64) Result {
	return Result(C.vkc_buffer_bind(n.ptr, C.uint64_t(buffer), C.uint64_t(memory), C.uint64_t(offset)))
}

func (n nativeDevice) address(buffer uint64) uint64 {
	return uint64(C.vkc_buffer_address(n.ptr, C.uint64_t(buffer)))
}

// importHost makes a buffer in the given host memory. After an error the caller must destroy the returned objects.
func (n nativeDevice) importHost(memory unsafe.Pointer, size uint64) (buffer, imported uint64, r Result) {
	r = Result(C.vkc_buffer_import(n.ptr, memory, C.uint64_t(size), (*C.uint64_t)(&buffer), (*C.uint64_t)(&imported)))
	return buffer, imported, r
}

// exportBuffer makes a buffer with memory that CUDA can import. After an error the caller must destroy the returned
// objects.
func (n nativeDevice) exportBuffer(size uint64) (*exported, Result) {
	out := C.vkc_export{fd: -1}
	r := Result(C.vkc_buffer_export(n.ptr, C.uint64_t(size), &out))
	owned := [2]handle{{objectBuffer, uint64(out.buffer)}, {objectMemory, uint64(out.memory)}}
	return &exported{object: object{owned: owned}, size: uint64(out.size), fd: int(out.fd)}, r
}

// allocateHost returns zeroed host memory, or nil.
func allocateHost(size, align uint64) unsafe.Pointer {
	return C.vkc_host_allocate(C.uint64_t(size), C.uint64_t(align))
}

func freeHost(memory unsafe.Pointer) { C.vkc_host_free(memory) }

// Pipelines.

func (n nativeDevice) createSetLayout(buffers int) (handle uint64, r Result) {
	r = Result(C.vkc_set_layout_create(n.ptr, C.uint32_t(buffers), (*C.uint64_t)(&handle)))
	return handle, r
}

// createPipelineLayout creates the layout of pipelines with a descriptor set.
func (n nativeDevice) createPipelineLayout(setLayout uint64) (handle uint64, r Result) {
	r = Result(C.vkc_pipeline_layout_create(n.ptr, C.uint64_t(setLayout), (*C.uint64_t)(&handle)))
	return handle, r
}

// createPipelineCache creates a pipeline cache with the given data, which may be nil.
func (n nativeDevice) createPipelineCache(data []byte) (handle uint64, r Result) {
	r = Result(C.vkc_pipeline_cache_create(n.ptr, unsafe.Pointer(unsafe.SliceData(data)), C.uint64_t(len(data)),
		(*C.uint64_t)(&handle)))
	return handle, r
}

// pipelineCacheData returns the data of a pipeline cache.
func (n nativeDevice) pipelineCacheData(cache uint64) ([]byte, Result) {
	var size C.uint64_t
	if r := Result(C.vkc_pipeline_cache_data(n.ptr, C.uint64_t(cache), nil, &size)); r < 0 || size == 0 {
		return nil, r
	}
	data := make([]byte, size)
	r := Result(C.vkc_pipeline_cache_data(n.ptr, C.uint64_t(cache), unsafe.Pointer(&data[0]), &size))
	return data[:size], r
}

// createPipeline creates a compute pipeline.
func (n nativeDevice) createPipeline(layout, cache uint64, desc *PipelineDesc) (handle uint64, r Result) {
	info := C.vkc_pipeline_info{layout: C.uint64_t(layout), cache: C.uint64_t(cache),
		subgroup_size: C.uint32_t(desc.SubgroupSize)}
	if desc.FullSubgroups {
		info.full_subgroups = 1
	}
	if desc.Capture&CaptureStatistics != 0 {
		info.statistics = 1
	}
	if desc.Capture&CaptureRepresentations != 0 {
		info.representations = 1
	}
	r = Result(C.vkc_pipeline_create(n.ptr, &info, unsafe.Pointer(unsafe.SliceData(desc.Code)),
		C.uint64_t(len(desc.Code)), (*C.uint64_t)(&handle)))
	return handle, r
}

// statistics returns the driver's statistics about a pipeline.
func (n nativeDevice) statistics(pipeline uint64) ([]Statistic, Result) {
	var list *C.vkc_statistic
	var count C.uint32_t
	r := Result(C.vkc_pipeline_statistics(n.ptr, C.uint64_t(pipeline), &list, &count))
	defer C.free(unsafe.Pointer(list))
	if r < 0 {
		return nil, r
	}
	var rows []Statistic
	for _, s := range unsafe.Slice(list, count) {
		value := float64(s.bits) // bools and unsigned numbers
		switch s.format {
		case C.VKC_STATISTIC_INT:
			value = float64(int64(s.bits))
		case C.VKC_STATISTIC_FLOAT:
			value = math.Float64frombits(uint64(s.bits))
		}
		rows = append(rows, Statistic{goString(s.name[:]), value})
	}
	return rows, r
}

// representations returns the forms of a pipeline's code that the driver shows, such as assembly.
func (n nativeDevice) representations(pipeline uint64) ([]Representation, Result) {
	var list *C.vkc_representation
	var count C.uint32_t
	r := Result(C.vkc_pipeline_representations(n.ptr, C.uint64_t(pipeline), &list, &count))
	defer func() { C.vkc_representations_free(list, count) }()
	if r < 0 {
		return nil, r
	}
	var all []Representation
	for _, s := range unsafe.Slice(list, count) {
		all = append(all, Representation{goString(s.name[:]), s.is_text != 0,
			C.GoBytes(s.data, C.int(min(s.size, maxRepresentation)))})
	}
	return all, r
}

// createSets creates a descriptor set for each layout, and a pool with room for them. descriptors is their total number
// of buffers.
func (n nativeDevice) createSets(layouts []uint64, descriptors int) (pool uint64, sets []uint64, r Result) {
	sets = make([]uint64, len(layouts))
	r = Result(C.vkc_sets_create(n.ptr, (*C.uint64_t)(unsafe.SliceData(layouts)), C.uint32_t(len(layouts)),
		C.uint32_t(descriptors), (*C.uint64_t)(&pool), (*C.uint64_t)(unsafe.SliceData(sets))))
	return pool, sets, r
}

// updateSets writes descriptors of five words each: set, binding, buffer, offset, range.
func (n nativeDevice) updateSets(words []uint64) Result {
	return Result(C.vkc_sets_update(n.ptr, (*C.uint64_t)(unsafe.SliceData(words)), C.uint32_t(len(words)/5)))
}

// Queries.

func (n nativeDevice) createQueryPool(count int) (handle uint64, r Result) {
	r = Result(C.vkc_query_pool_create(n.ptr, C.uint32_t(count), (*C.uint64_t)(&handle)))
	return handle, r
}

// queryResults returns two words per timestamp: its ticks, and whether it was written.
func (n nativeDevice) queryResults(pool uint64, first, count int) ([]uint64, Result) {
	out := make([]uint64, 2*count)
	r := Result(C.vkc_query_results(n.ptr, C.uint64_t(pool), C.uint32_t(first), C.uint32_t(count),
		(*C.uint64_t)(unsafe.SliceData(out))))
	return out, r
}

// calibrate reads the device's clock, in ticks, and the host's monotonic clock, in nanoseconds, at the same time.
// deviation is the largest possible time between the two readings, in nanoseconds.
func (n nativeDevice) calibrate() (ticks, host, deviation uint64, r Result) {
	var out [3]uint64
	r = Result(C.vkc_calibrate(n.ptr, (*C.uint64_t)(&out[0])))
	return out[0], out[1], out[2], r
}

// hostClock returns the time of the host's monotonic clock in nanoseconds.
func hostClock() uint64 { return uint64(C.vkc_host_clock()) }

// Recording and submission.

func (n nativeDevice) createCommands(queue int) (pool, buffer uint64, r Result) {
	r = Result(C.vkc_commands_create(n.ptr, C.uint32_t(queue), (*C.uint64_t)(&pool), (*C.uint64_t)(&buffer)))
	return pool, buffer, r
}

// record records commands, encoded in words (see CommandList), into a command buffer.
func (n nativeDevice) record(pool, buffer uint64, words []uint64, oneTime bool) Result {
	return Result(C.vkc_record(n.ptr, C.uint64_t(pool), C.uint64_t(buffer), (*C.uint64_t)(unsafe.SliceData(words)),
		C.uint64_t(len(words)), flag(oneTime)))
}

// submit queues command buffers that begin once the other queue has reached wait. At their end this queue reaches
// signal.
func (n nativeDevice) submit(queue int, buffers []uint64, wait, signal uint64) Result {
	return Result(C.vkc_submit(n.ptr, C.uint32_t(queue), (*C.uint64_t)(unsafe.SliceData(buffers)),
		C.uint32_t(len(buffers)), C.uint64_t(wait), C.uint64_t(signal)))
}

func (n nativeDevice) wait(queue int, value, timeoutNS, spinNS uint64) Result {
	return Result(C.vkc_wait(n.ptr, C.uint32_t(queue), C.uint64_t(value), C.uint64_t(timeoutNS), C.uint64_t(spinNS)))
}

func (n nativeDevice) timeline(queue int) (value uint64, r Result) {
	r = Result(C.vkc_timeline(n.ptr, C.uint32_t(queue), (*C.uint64_t)(&value)))
	return value, r
}

// Peer copies by CUDA.

// nativePeers is a set of CUDA devices that copy to one another.
type nativePeers struct{ ptr *C.vkc_peers }

// cudaError converts the message of a failed CUDA call, or nil, to an error.
func cudaError(text *C.char) error {
	if text == nil {
		return nil
	}
	return errors.New(C.GoString(text))
}

// locked runs a CUDA call on a locked thread, because CUDA keeps the message of an error per thread.
func locked(call func() *C.char) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cudaError(call())
}

// openPeers opens CUDA contexts on the devices with these UUIDs.
func openPeers(uuids [][16]byte) (p nativePeers, err error) {
	err = locked(func() *C.char {
		return C.vkc_peers_open((*[16]C.uint8_t)(unsafe.Pointer(unsafe.SliceData(uuids))), C.uint32_t(len(uuids)),
			&p.ptr)
	})
	return p, err
}

func (p nativePeers) close() { C.vkc_peers_close(p.ptr) }

// peerMemory is memory that CUDA has imported.
type peerMemory = C.vkc_imported

// importMemory imports the memory of a file descriptor into CUDA. It closes the descriptor or keeps it, even after an
// error.
func (p nativePeers) importMemory(rank, fd int, size, most uint64, out *peerMemory) error {
	return locked(func() *C.char {
		return C.vkc_peers_import(p.ptr, C.uint32_t(rank), C.int(fd), C.uint64_t(size), C.uint64_t(most), out)
	})
}

func (p nativePeers) forget(rank int, m *peerMemory) error {
	return locked(func() *C.char { return C.vkc_peers_forget(p.ptr, C.uint32_t(rank), m) })
}

func (p nativePeers) copy(rank int, list []peerMemory, at, bytes uint64) error {
	return locked(func() *C.char {
		return C.vkc_peers_copy(p.ptr, C.uint32_t(rank), unsafe.SliceData(list), C.uint64_t(at), C.uint64_t(bytes))
	})
}

func (p nativePeers) done() (bool, error) {
	var done C.int
	err := locked(func() *C.char { return C.vkc_peers_done(p.ptr, &done) })
	return done != 0, err
}
