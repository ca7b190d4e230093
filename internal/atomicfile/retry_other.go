//go:build !windows

package atomicfile

// Retry calls use. On Windows it repeats the call while another process has the file open.
func Retry(use func() error) error { return use() }
