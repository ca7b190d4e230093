package mmap

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapFile maps a file of that size.
func mapFile(f *os.File, size int) ([]byte, error) {
	mapping, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(mapping) // the view keeps it
	addr, err := windows.MapViewOfFile(mapping, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return nil, err
	}
	// unsafe.Pointer(addr) would do the same, but go vet takes it for a mistake: addr is no address of Go's memory.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size), nil
}

// isFault reports whether a system call failed because it accessed unmapped memory.
func isFault(err error) bool {
	return errors.Is(err, windows.ERROR_NOACCESS) || errors.Is(err, windows.ERROR_SWAPERROR)
}

// unmap ends a mapping.
func unmap(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
}
