//go:build !windows

package atomicfile

// Retry calls use. On Windows it does so again as long as use fails because somebody else has a file open.
func Retry(use func() error) error { return use() }
