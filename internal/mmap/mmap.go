// Package mmap maps files read-only into memory, so that a reader can return slices of a large weight file without
// copying. On systems without memory mapping it reads the file into memory, with the same API.
//
// If a mapped file is truncated while in use, reading the lost part faults and would end the program. So any code that
// may read bytes of a mapped file must run under [Guard].
package mmap

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/vkc-go/vkc/internal/inputfile"
)

// File is a file whose content is one byte slice.
//
// Only Close unmaps the file: slices of Bytes do not keep the File alive, so the garbage collector must not unmap it.
type File struct {
	path string
	file *os.File // kept open so that Intact can query the size; nil after Close
	data []byte
}

// Open maps the regular file at path. An empty file gives an empty slice.
func Open(path string) (*File, error) {
	f, err := inputfile.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := mapWhole(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	m := &File{path: path, file: f, data: data}
	if len(data) > 0 { // an empty file has no mapping that could fault
		mappings.Lock()
		mappings.open[m] = true
		mappings.Unlock()
	}
	return m, nil
}

// mappings records all mapped files, to attribute a fault to one.
var mappings = struct {
	sync.Mutex
	open map[*File]bool
}{open: map[*File]bool{}}

// mappingAt returns the file that is mapped at an address, or nil.
func mappingAt(addr uintptr) *File {
	mappings.Lock()
	defer mappings.Unlock()
	for m := range mappings.open {
		if m.covers(addr) {
			return m
		}
	}
	return nil
}

// mapWhole maps a whole regular file. An empty file gives nil.
func mapWhole(f *os.File, path string) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory and not a regular file", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: cannot map: not a regular file (%s)", path, info.Mode().Type())
	case size > math.MaxInt:
		return nil, fmt.Errorf("%s: cannot map: %d bytes do not fit this system's address space", path, size)
	case size == 0:
		return nil, nil // mmap refuses a length of zero
	}
	data, err := mapFile(f, int(size))
	if err != nil {
		return nil, &os.PathError{Op: "map", Path: path, Err: err}
	}
	return data, nil
}

// Bytes returns the content. It is read-only: a write to it is a fault that ends
// the program. It must not be used after Close.
func (f *File) Bytes() []byte { return f.data }

// Intact returns an error if the file is closed or is shorter than when it was mapped. Reading the lost part of a
// truncated file would fault.
func (f *File) Intact() error {
	if f.file == nil {
		return fmt.Errorf("%s: %w", f.path, os.ErrClosed)
	}
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < int64(len(f.data)) {
		return f.shrunk()
	}
	return nil
}

func (f *File) shrunk() error {
	return fmt.Errorf("%s: the file was cut short or became unreadable while in use (it had %d bytes): restore it "+
		"and open it again",
		f.path, len(f.data))
}

// Guard runs read and returns its error. If a mapped file is truncated while read accesses it, the fault would end the
// program; Guard returns an error that names the file instead. It covers only the calling goroutine: a goroutine
// started by read needs its own Guard.
func Guard(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // a memory fault
			f := mappingAt(fault.Addr())
			if f == nil { // not in a mapped file: a fault of the program
				panic(fault)
			}
			err = f.shrunk()
		default:
			panic(fault)
		}
	}()
	err = read()
	// A system call that reads the mapping returns an error instead of a fault.
	if isFault(err) {
		err = errors.Join(anyShrunk(), err)
	}
	return err
}

// anyShrunk returns an error for any mapped file that was truncated. When a write of mapped bytes to another file
// fails, the system does not say which source file is at fault.
func anyShrunk() error {
	mappings.Lock()
	defer mappings.Unlock()
	for m := range mappings.open {
		if err := m.Intact(); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) covers(addr uintptr) bool {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(f.data)))
	return addr >= start && addr-start < uintptr(len(f.data))
}

// Close unmaps the file. Slices of Bytes must not be used afterwards. Closing
// twice is harmless.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	mappings.Lock()
	delete(mappings.open, f)
	mappings.Unlock()
	err := unmap(f.data)
	if cerr := f.file.Close(); err == nil {
		err = cerr
	}
	f.file, f.data = nil, nil
	return err
}
