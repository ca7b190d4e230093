//go:build !linux

package spirv

import "os"

// setLimits does nothing: only Linux limits another process. What holds here is
// the limit of wall-clock time, and those of the output.
func setLimits(int, limits) error { return nil }

func outOfTime(*os.ProcessState) bool { return false }

// maxMemory knows nothing where no limit is set.
func maxMemory(*os.ProcessState) (int64, bool) { return 0, false }
