//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package mmap

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

// isFault reports whether a system call failed because it accessed unmapped memory.
func isFault(err error) bool { return errors.Is(err, unix.EFAULT) }

// unmap ends a mapping.
func unmap(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return unix.Munmap(data)
}
