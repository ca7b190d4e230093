//go:build !linux && !windows

package spirv

// limit does nothing: only Linux and Windows limit another process. What holds
// here is the limit of wall-clock time, and those of the output.
func (*group) limit(limits) error { return nil }

func (*group) outOfTime(limits) bool { return false }

// maxMemory knows nothing where no limit is set.
func (*group) maxMemory() (int64, bool) { return 0, false }
