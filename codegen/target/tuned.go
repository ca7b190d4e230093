package target

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
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
		fmt.Fprintf(sum, "%s %+v\n", key, t[key].Schedule)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// String is what a schedule's reason says.
func (t Tuned) String() string {
	if t.Next == 0 {
		return fmt.Sprintf("tuned: %.4g us", t.Micros)
	}
	return fmt.Sprintf("tuned: %.4g us, next best %.4g", t.Micros, t.Next)
}

// TuningKey identifies a kernel by its structure alone: family, extents,
// dtypes and expressions. Two kernels that differ in names only, of buffers or
// of symbols, have one key.
func TuningKey(k *kernel.Kernel) string {
	text := k.Identity()
	bounds := boundsOf(k)
	for i, sym := range k.Symbols() {
		name := regexp.MustCompile(`\b` + regexp.QuoteMeta(sym) + `\b`)
		text = name.ReplaceAllLiteralString(text, fmt.Sprintf("$%d", i)) + fmt.Sprintf("$%d <= %d\n", i, bounds[sym])
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// boundsOf returns the bounds of the symbols that a kernel's extents have.
func boundsOf(k *kernel.Kernel) map[string]int64 {
	bounds := map[string]int64{}
	for _, d := range append(slices.Clone(k.Parallel), k.Fold, k.Take) {
		bounds[d.Sym] = d.Bound
	}
	k.WalkIndices(func(x kernel.Index) {
		x.Walk(func(f *kernel.Factor) {
			if _, known := bounds[f.Extent.Sym]; !known {
				bounds[f.Extent.Sym] = f.Extent.Bound
			}
		})
	})
	return bounds
}

// Chose returns the measurement by which a kernel has its schedule, and false
// where it has it by other reasons.
func (t Tuning) Chose(k *kernel.Kernel, s kernel.Schedule) (Tuned, bool) {
	if len(t) == 0 {
		return Tuned{}, false
	}
	won, ok := t[TuningKey(k)]
	return won, ok && won.Schedule == s
}

// SelectTuned is [Select] with measurements: the schedule that won for the
// kernel, where there is one and it passes [Check].
func SelectTuned(k *kernel.Kernel, caps Caps, tuning Tuning) (s kernel.Schedule, reason string, err error) {
	if len(tuning) == 0 {
		return Select(k, caps)
	}
	won, ok := tuning[TuningKey(k)]
	if !ok {
		return Select(k, caps)
	}
	unfit := Check(k, won.Schedule, caps)
	if unfit == nil {
		unfit = checkWhole(k, won.Schedule)
	}
	if unfit == nil {
		return won.Schedule, won.String(), nil
	}
	s, reason, err = Select(k, caps)
	if err == nil {
		reason += fmt.Sprintf(" (not what tuning says: %v)", unfit)
	}
	return s, reason, err
}
