//go:build !cgo

package vk

import (
	"unsafe"

	"github.com/vkc-go/vkc/codegen/device"
)

// Without cgo openNative fails, so no instance or device exists and none of these methods is called. They give the
// package the same API in both builds.

type (
	nativeInstance struct{}
	nativeDevice   struct{}
	physicalDevice unsafe.Pointer
)

const unreachable = Result(-13)

var errNoCgo = &unavailableError{"this vkc was built without cgo: Vulkan is unavailable; " +
	"use the CPU device or rebuild with CGO_ENABLED=1", ErrNoCgo}

func openNative(device.APIVersion) (nativeInstance, error)       { return nativeInstance{}, errNoCgo }
func (nativeInstance) close()                                    {}
func (nativeInstance) apiVersion() uint32                        { return 0 }
func (nativeInstance) devices() ([]physicalDevice, Result)       { return nil, unreachable }
func (nativeInstance) probe(physicalDevice) (DeviceInfo, Result) { return DeviceInfo{}, unreachable }
func (nativeInstance) createDevice(physicalDevice, [queueCount]int, bool, *device.Features) (nativeDevice, Result) {
	return nativeDevice{}, unreachable
}

func nativeMessages() ([]string, int) { return nil, 0 }
func injectMessage(string)            {}
func clearMessages()                  {}

func (nativeDevice) robust() Robustness                       { return Unchecked }
func (nativeDevice) waitIdle() Result                         { return unreachable }
func (nativeDevice) close()                                   {}
func (nativeDevice) setName(objectType, uint64, string)       {}
func (nativeDevice) destroy(objectType, uint64)               {}
func (nativeDevice) memoryBudget() (b, u [16]uint64, ok bool) { return b, u, false }
func (nativeDevice) createBuffer(uint64) (uint64, requirements, Result) {
	return 0, requirements{}, unreachable
}
func (nativeDevice) allocate(uint64, int, uint64, bool) (uint64, unsafe.Pointer, Result) {
	return 0, nil, unreachable
}
func (nativeDevice) bind(_, _, _ uint64) Result { return unreachable }
func (nativeDevice) address(uint64) uint64      { return 0 }
func (nativeDevice) importHost(unsafe.Pointer, uint64) (uint64, uint64, Result) {
	return 0, 0, unreachable
}
func (nativeDevice) exportBuffer(uint64) (*exported, Result)      { return &exported{}, unreachable }
func allocateHost(_, _ uint64) unsafe.Pointer                     { return nil }
func freeHost(unsafe.Pointer)                                     {}
func (nativeDevice) createSetLayout(int) (uint64, Result)         { return 0, unreachable }
func (nativeDevice) createPipelineLayout(uint64) (uint64, Result) { return 0, unreachable }
func (nativeDevice) createPipelineCache([]byte) (uint64, Result)  { return 0, unreachable }
func (nativeDevice) pipelineCacheData(uint64) ([]byte, Result)    { return nil, unreachable }
func (nativeDevice) createPipeline(_, _ uint64, _ *PipelineDesc) (uint64, Result) {
	return 0, unreachable
}
func (nativeDevice) statistics(uint64) ([]Statistic, Result)             { return nil, unreachable }
func (nativeDevice) representations(uint64) ([]Representation, Result)   { return nil, unreachable }
func (nativeDevice) createSets([]uint64, int) (uint64, []uint64, Result) { return 0, nil, unreachable }
func (nativeDevice) updateSets([]uint64) Result                          { return unreachable }
func (nativeDevice) createQueryPool(int) (uint64, Result)                { return 0, unreachable }
func (nativeDevice) queryResults(uint64, int, int) ([]uint64, Result)    { return nil, unreachable }
func (nativeDevice) calibrate() (a, b, c uint64, r Result)               { return 0, 0, 0, unreachable }
func hostClock() uint64                                                  { return 0 }
func (nativeDevice) createCommands(int) (uint64, uint64, Result)         { return 0, 0, unreachable }
func (nativeDevice) record(_, _ uint64, _ []uint64, _ bool) Result       { return unreachable }
func (nativeDevice) submit(int, []uint64, uint64, uint64) Result         { return unreachable }
func (nativeDevice) wait(int, uint64, uint64, uint64) Result             { return unreachable }
func (nativeDevice) timeline(int) (uint64, Result)                       { return 0, unreachable }

type nativePeers struct{}

func openPeers([][16]byte) (nativePeers, error)                              { return nativePeers{}, errNoCgo }
func (nativePeers) close()                                                   {}
func (nativePeers) importMemory(int, int, uint64, uint64, *peerMemory) error { return errNoCgo }
func (nativePeers) forget(int, *peerMemory) error                            { return errNoCgo }
func (nativePeers) copy(int, []peerMemory, uint64, uint64) error             { return errNoCgo }
func (nativePeers) done() (bool, error)                                      { return false, errNoCgo }

type peerMemory struct{}
