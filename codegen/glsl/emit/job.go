package emit

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Job describes the shader to write: its kernel, its schedule and the device. It keeps the first error. So the
// functions that write the shader need not return errors.
type Job struct {
	K       *kernel.Kernel
	Sched   kernel.Schedule
	Launch  kernel.Launch // of Sched
	Caps    device.Caps
	Symbols []string // the program's symbols, in the order of their values in the params buffer
	Err     error    // the first error
}

// Fail records an error, unless one was recorded before.
func (j *Job) Fail(format string, args ...any) {
	if j.Err == nil {
		j.Err = fmt.Errorf("kernel %s (%s): "+format, append([]any{j.K.Name, j.Sched}, args...)...)
	}
}

// pairs reports whether i64 values are pairs of 32-bit words, because the device has no 64-bit integers. A custom
// kernel has its own shader and declares its own needs.
func (j *Job) pairs() bool { return !j.Caps.Features.Int64 && j.K.Custom == nil }

// inPairs reports whether the elements of a buffer are i64 values as pairs of words.
func (j *Job) inPairs(b *Buffer) bool { return b.DType == ir.I64 && j.pairs() }

// UsesAxis reports whether a value or an index of the kernel depends on an axis.
func (j *Job) UsesAxis(axis int) bool {
	for _, r := range j.K.Roots() {
		if r.Uses(axis) {
			return true
		}
	}
	return slices.ContainsFunc(j.K.Stores, func(s kernel.Store) bool { return s.Index.Uses(axis) })
}

// SplitStores returns the kernel's stores that happen once per element, and those that happen once per row (see
// [kernel.Store]).
func (j *Job) SplitStores() (perElement, perRow []kernel.Store) {
	for _, s := range j.K.Stores {
		if s.PerElement {
			perElement = append(perElement, s)
		} else {
			perRow = append(perRow, s)
		}
	}
	return perElement, perRow
}

// ParaName returns the GLSL name of a parallel axis, by the kernel's family. Axes before the last few have numbers.
func (j *Job) ParaName(axis int) string {
	var names []string // of the last axes
	switch j.K.Family {
	case kernel.FamilyAttention:
		if axis == j.K.AttentionAxes().Split {
			return "chunk"
		}
		names = []string{"batch", "group", "head", "query", "col"}
	case kernel.FamilyRecurrence:
		names = []string{"batch", "head", "row"}
	case kernel.FamilyRow, kernel.FamilyScan, kernel.FamilySort:
		names = []string{"batch", "row"}
	default:
		if len(j.K.Parallel) == 1 {
			return "i"
		}
		names = []string{"batch", "row", "col"}
	}
	if i := axis - len(j.K.Parallel) + len(names); i >= 0 {
		return names[i]
	}
	return fmt.Sprintf("axis%d", axis)
}
