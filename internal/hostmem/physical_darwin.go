package hostmem

import "golang.org/x/sys/unix"

// physical returns the bytes of the machine's memory.
func physical() (bytes int64, ok bool) {
	n, err := unix.SysctlUint64("hw.memsize")
	return int64(n), err == nil
}
