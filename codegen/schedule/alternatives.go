package schedule

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Alternative is a schedule for small values of a symbol, because a kernel's own schedule is chosen for the largest.
type Alternative struct {
	Kernel   *kernel.Kernel // the kernel, narrowed to these values
	Schedule kernel.Schedule
	Symbol   kernel.Symbol // the symbol and its largest value
	Gain     float64       // the expected time without this alternative, as a multiple of the time with it
}

const (
	// alternativeRatio is the ratio of the numbers of rows that Alternatives tries: 1, 4, 16 and so on.
	alternativeRatio = 4
	// alternativeGain is the minimum gain, because an alternative is a shader to compile, and estimates have errors.
	alternativeGain = 1.5
	// maxAlternatives is the maximum number of alternatives of a kernel.
	maxAlternatives = 2
)

// Alternatives lists faster schedules for runs in which a matmul has few rows. It applies to a matmul with a symbolic
// number of rows: schedule s was chosen for the largest number, and a tile takes about as long for one row as for all
// of its rows. Each alternative is for a range of row counts, must gain alternativeGain at the largest, and must not be
// slower than s at the smallest. The list is sorted by increasing number of rows. It is nil for other kernels.
func Alternatives(k *kernel.Kernel, s kernel.Schedule, caps device.Caps, tuning device.Tuning) (list []Alternative) {
	if k.Family != kernel.FamilyMatMul || len(k.Parallel) < 2 {
		return nil
	}
	h, axis := heuristicsOf(caps), len(k.Parallel)-2
	rows := k.Parallel[axis]
	if rows.IsStatic() {
		return nil
	}
	bound := func(n int64) int64 { return (n - rows.Add) / rows.Mul } // the symbol's value for n rows
	narrow := func(n int64) *kernel.Kernel { return kernel.Narrow(k, rows.Sym, bound(n)) }
	// time estimates n rows, which a tile rounds up to whole tiles, and the launch.
	time := func(s kernel.Schedule, n int64) (float64, string) {
		t, unknown := h.rowsTime(narrow(WholeTiles(narrow(n), tileOf(s), axis)), caps)
		return t + h.LaunchNs, unknown
	}
	for few := largestBelow(rows.Max()); few >= 1 && bound(few) >= 1; few /= alternativeRatio {
		// This alternative is for fewest to few rows. For fewer rows there may be another one.
		fewest := max(few/alternativeRatio+1, rows.Mul+rows.Add)
		if isEmpty(narrow(fewest)) {
			continue // no run has so few rows, because another axis has fewer
		}
		small := narrow(few)
		own, _, _, err := SelectTuned(small, caps, tuning)
		if err != nil {
			continue
		}
		before, unknown := time(s, few)
		after, alsoUnknown := time(own, few)
		beforeFewest, _ := time(s, fewest)
		afterFewest, _ := time(own, fewest)
		gain := before / after
		if unknown != "" || alsoUnknown != "" || gain < alternativeGain || beforeFewest < afterFewest {
			continue
		}
		list = append(list, Alternative{small, own, kernel.Symbol{Name: rows.Sym, Bound: bound(few)}, gain})
		s = own // the next one must be faster than this one
	}
	slices.Reverse(list)
	return list[:min(len(list), maxAlternatives)]
}

// isEmpty reports whether a kernel has no elements for any values of its symbols: an extent such as T-8 is at most 0.
func isEmpty(k *kernel.Kernel) bool {
	return slices.ContainsFunc(append(slices.Clone(k.Parallel), k.Fold), func(d ir.Dim) bool { return d.Max() < 1 })
}

// largestBelow returns the largest power of alternativeRatio below n.
func largestBelow(n int64) int64 {
	few := int64(1)
	for few*alternativeRatio < n {
		few *= alternativeRatio
	}
	return few
}

// rowsTime is the expected time in nanoseconds of a matmul. If it is unknown, it returns the reason.
func (h heuristics) rowsTime(k *kernel.Kernel, caps device.Caps) (float64, string) {
	if s, _, _ := Select(k, caps); s != nil && s.Config().Variant == kernel.VarMatDirect {
		return h.directTime(k), ""
	}
	return h.kernelTime(k, caps, false)
}
