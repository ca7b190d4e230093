package target

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// Tuning holds, by [TuningKey], the schedules that won when they were measured
// on a device. It is plain data: who reads it from where is no business of this
// package. Nil and empty ones change nothing.
type Tuning map[string]Tuned

// Tuned is the schedule that won for a kernel.
type Tuned struct {
	Schedule kernel.Schedule `json:"schedule"`
	Micros   float64         `json:"us"`                // the median time of a dispatch
	Next     float64         `json:"next_us,omitempty"` // of the next best schedule; 0 where there was no other
	// Estimated says that nothing was run: times are what a driver's statistics come to.
	Estimated bool `json:"estimated,omitempty"`
}

// Hash identifies what a tuning chooses, for caches of what was made with it:
// measuring again without another outcome leaves it as it is. It is empty
// where nothing is chosen.
func (t Tuning) Hash() string {
	if len(t) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(sum, "%s %#v\n", key, t[key].Schedule)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// String is what a schedule's reason says.
func (t Tuned) String() string {
	how := "tuned"
	if t.Estimated {
		how = "estimated"
	}
	if t.Next == 0 {
		return fmt.Sprintf("%s: %.4g us", how, t.Micros)
	}
	return fmt.Sprintf("%s: %.4g us, next best %.4g", how, t.Micros, t.Next)
}

// TuningKey identifies a kernel by its structure alone: family, extents,
// dtypes, sizes of buffers and expressions. Two kernels that differ in names
// only, of buffers or of symbols, have one key.
func TuningKey(k *kernel.Kernel) string {
	sum := sha256.Sum256([]byte(k.Identity().Structure))
	return hex.EncodeToString(sum[:])
}

// SelectTuned is [Select] with measurements: the schedule that won for the
// kernel, where there is one and it passes [Check]. tuned is then true.
func SelectTuned(k *kernel.Kernel, caps Caps, tuning Tuning) (s kernel.Schedule, reason string, tuned bool, err error) {
	var won Tuned
	if len(tuning) > 0 {
		won, tuned = tuning[TuningKey(k)]
	}
	if !tuned {
		s, reason, err = Select(k, caps)
		return s, reason, false, err
	}
	won.Schedule = Settle(k, won.Schedule, caps)
	unfit := Check(k, won.Schedule, caps)
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
