//go:build !linux && !windows && !darwin

package hostmem

// physical does not know this system.
func physical() (int64, bool) { return 0, false }
