package hostmem

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	length, load                                    uint32
	totalPhysical, availablePhysical                uint64
	totalPageFile, availablePageFile                uint64
	totalVirtual, availableVirtual, extendedVirtual uint64
}

// limits returns the one limit that Windows gives: the available memory and page file.
func limits() []limit {
	status := memoryStatus{}
	status.length = uint32(unsafe.Sizeof(status))
	if ok, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return nil
	}
	free, _ := heap()
	return []limit{{int64(status.availablePageFile) + free, "the machine's memory and page file"}}
}
