//go:build !linux && !windows && !darwin

package hostmem

// physical does not know this system.
func physical() (bytes int64, ok bool) { return 0, false }
