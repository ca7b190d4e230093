package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// TuningKey identifies a kernel in a [device.Tuning] by its structure: family, extents, dtypes, sizes of buffers and
// expressions. Kernels that differ only in names of buffers or symbols have the same key.
func TuningKey(k *kernel.Kernel) string {
	sum := sha256.Sum256([]byte(k.Identity().Structure))
	return hex.EncodeToString(sum[:])
}

// SelectTuned returns the schedule that a tuning has for the kernel, and true for tuned, if the device can run it.
// Otherwise it returns the result of [Select], and false. reason says why the schedule was chosen.
func SelectTuned(k *kernel.Kernel, caps device.Caps, tuning device.Tuning) (s kernel.Schedule, reason string,
	tuned bool, err error) {
	var won device.Tuned
	if len(tuning) > 0 {
		won, tuned = tuning[TuningKey(k)]
	}
	if !tuned {
		s, reason, err = Select(k, caps)
		return s, reason, false, err
	}
	var unfit error
	won.Schedule, unfit = New(k, won.Schedule, caps)
	if unfit == nil {
		unfit = checkWhole(k, won.Schedule)
	}
	if unfit == nil {
		return won.Schedule, won.String(), true, nil
	}
	s, reason, err = Select(k, caps)
	if err == nil {
		reason += fmt.Sprintf(" (not what tuning says: %v)", unfit)
	}
	return s, reason, false, err
}
