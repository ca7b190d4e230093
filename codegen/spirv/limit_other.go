//go:build !linux && !windows

package spirv

// limit does nothing: only Linux and Windows can limit another process. On other systems only the limits on wall-clock
// time and output apply.
func (*group) limit(limits) error { return nil }

// outOfTime returns false, because there is no limit.
func (*group) outOfTime(limits) bool { return false }

// maxMemory returns false, because there is no limit.
func (*group) maxMemory() (int64, bool) { return 0, false }
