package schedule

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// maxVariants is the maximum number of schedules of a kernel that Variants returns. It chooses the ones that are no
// candidates among enoughVariants.
const maxVariants, enoughVariants = 128, 512

// Variants lists the schedules to measure for a kernel on a device; [New] accepts all of them. The first is the choice
// of [Select]. The others are its other [Candidates], and the schedules around these that are most similar to the
// first. They are ordered by similarity to the first, so that a short measurement tries the most promising ones. It
// returns nil if the device lacks a feature that the kernel needs.
func Variants(k *kernel.Kernel, caps device.Caps) []Candidate {
	if len(Missing(k, caps)) > 0 {
		return nil
	}
	var all []ranked // the cost is the distance to the first
	distance := func(kernel.Schedule) float64 { return 0 }
	seen := map[kernel.Schedule]bool{}
	add := func(c Candidate, maxDistance float64) {
		if len(all) > 0 { // keep the number of splits that the kernel has, and the keys of each
			first := AttentionTileOf(all[0].Schedule)
			c.Schedule = withSplits(c.Schedule, first.Splits)
			if first.Splits > 1 && AttentionTileOf(c.Schedule).Step != first.Step {
				return
			}
		}
		if seen[c.Schedule] || refusal(k, c.Schedule, caps) != nil {
			return
		}
		seen[c.Schedule] = true
		if len(all) == 0 {
			distance = distanceTo(c.Schedule)
		}
		all = append(all, ranked{c, min(maxDistance, distance(c.Schedule))})
	}
	for _, c := range Candidates(k, caps) {
		add(c, float64(len(all))/2) // the heuristics' order counts as similarity: two ranks for a doubling
	}
	candidates := len(all)
	for i := 0; i < len(all) && len(all) < enoughVariants; i++ {
		for _, s := range around(all[i].Schedule) {
			add(Candidate{normalize(k, s, caps), "to be measured"}, math.Inf(1))
		}
	}
	if candidates == 0 {
		return nil
	}
	sortByCost(all[candidates:])
	all = all[:min(len(all), max(candidates, maxVariants))]
	list := append([]Candidate{all[0].Candidate}, byCost(all[1:])...)
	return list[:min(len(list), maxVariants)]
}

// variantDistance is the distance (see distanceTo) between schedules of different variants, or between a schedule that
// quantizes rows and one that does not.
const variantDistance = 2

// distanceTo returns a function that measures how much a schedule differs from schedule a: the number of doublings of
// their numeric fields that lead from one to the other, where a change from 0 counts as one.
func distanceTo(a kernel.Schedule) func(b kernel.Schedule) float64 {
	vecA, _ := a.(kernel.MatVec)
	numbersA := kernel.Numbers(a)
	return func(b kernel.Schedule) float64 {
		d := 0.0
		vecB, _ := b.(kernel.MatVec)
		if a.Config().Variant != b.Config().Variant || vecA.RoundRows != vecB.RoundRows {
			d = variantDistance
		}
		numbersB := kernel.Numbers(b)
		names := maps.Clone(numbersA)
		maps.Copy(names, numbersB)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			switch n, m := numbersA[name], numbersB[name]; {
			case n == m:
			case n <= 0 || m <= 0:
				d++
			default:
				d += math.Abs(math.Log2(n / m))
			}
		}
		return d
	}
}

// around lists the schedules that are one or two steps from s. [New] rejects many of them. Two steps are necessary
// because parameters depend on one another. A wider tile, for example, needs a larger workgroup or more columns per
// invocation.
func around(s kernel.Schedule) (all []kernel.Schedule) {
	// Numbers of 0 and 1 can mean the same. Then the descriptions of the schedules are equal, and one schedule is
	// enough.
	seen, described := map[kernel.Schedule]bool{s: true}, map[string]bool{s.String(): true}
	isNew := func(s kernel.Schedule) bool {
		if seen[s] {
			return false
		}
		seen[s] = true
		text := s.String()
		if described[text] {
			return false
		}
		described[text] = true
		return true
	}
	fields := reflect.VisibleFields(reflect.TypeOf(s))
	ones := make([][]kernel.Schedule, len(fields))
	for i := range fields {
		ones[i] = slices.DeleteFunc(steps(s, fields[i:i+1]), func(s kernel.Schedule) bool { return !isNew(s) })
	}
	for i := range fields {
		for _, one := range ones[i] {
			all = append(all, one)
			// A step of an earlier field and this one lead to the same schedule in either order.
			for _, two := range steps(one, fields[i:]) {
				if isNew(two) {
					all = append(all, two)
				}
			}
		}
	}
	return all
}

// steps lists the schedules that differ from s in one of the fields: a number is doubled or halved or becomes one of
// its jumps, a flag is changed, or the prefetch has another mode.
func steps(s kernel.Schedule, fields []reflect.StructField) (all []kernel.Schedule) {
	from := reflect.ValueOf(s)
	for _, field := range fields {
		for _, value := range otherValues(field.Name, from.FieldByIndex(field.Index)) {
			to := reflect.New(from.Type()).Elem()
			to.Set(from)
			to.FieldByIndex(field.Index).Set(reflect.ValueOf(value))
			all = append(all, to.Interface().(kernel.Schedule))
		}
	}
	return all
}

// otherValues lists the values that a step gives to a schedule's field of the given name.
func otherValues(field string, now reflect.Value) (values []any) {
	switch v := now.Interface().(type) {
	case bool:
		return []any{!v}
	case int:
		values = []any{0, 1, 2 * v, v / 2}
		if v == 0 {
			values = []any{1, 2}
		}
		for _, n := range jumps[field] {
			values = append(values, n)
		}
	case kernel.Prefetch:
		for _, mode := range slices.Sorted(maps.Keys(prefetchDepths)) {
			values = append(values, kernel.Prefetch{Mode: mode, Depth: prefetchDepths[mode].least})
		}
	}
	return values
}

// jumps has values of schedules' fields that few doublings do not reach, by field: keeping a whole row, many copies,
// the only number of digits, and the number of unrolled steps that was the fastest in measurements (see
// matrixTile.Unroll).
var jumps = map[string][]int{"Cache": {maxCached}, "Copies": {8, maxCopies}, "Digits": {maxDigits}, "Unroll": {36}}

// Label describes a kernel briefly for people: its family, its extents, and the dtype of the largest tensor that it
// reads.
func Label(k *kernel.Kernel) string {
	text := string(k.Family)
	switch {
	case k.Family == kernel.FamilyMatMul && len(k.Parallel) >= 2:
		sh := matShapeOf(k)
		text += fmt.Sprintf(" %dx%dx%d", sh.M, sh.N, sh.K)
		if sh.Batch > 1 {
			text += fmt.Sprintf(" x%d", sh.Batch)
		}
	case k.Family == kernel.FamilyMap || k.Custom != nil:
		text += fmt.Sprintf(" %d", points(k.Parallel))
	default:
		text += fmt.Sprintf(" %dx%d", points(k.Parallel), k.Fold.Max())
	}
	largest := -1
	for i, b := range k.Bindings {
		if !b.Write && (largest < 0 || b.Elems > k.Bindings[largest].Elems) {
			largest = i
		}
	}
	if largest >= 0 {
		text += " " + k.Bindings[largest].DType.String()
	}
	return text
}
