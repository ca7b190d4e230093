package optest

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// recurrenceCase describes a recurrence of heads, which share vectors in groups. Each head has a state: rows of `of`
// elements.
type recurrenceCase struct {
	outer                          []int
	times, heads, groups, rows, of int
}

// dims returns extents that begin with the outer ones.
func (r recurrenceCase) dims(more ...int) []int { return append(append([]int{}, r.outer...), more...) }

// recurrences adds the cases of the ops that go along time: no time, one, fewer and more than a device computes at
// once, groups of heads, decays for each head and for each element, and rows that no power of two fits.
func (s *suite) recurrences() {
	s.convolutions()
	s.clearedStates()
	for _, tt := range []recurrenceCase{
		{nil, 1, 2, 1, 3, 5}, {nil, 5, 4, 2, 8, 16}, {[]int{2}, 19, 3, 3, 5, 17}, {[]int{2, 3}, 1, 2, 2, 4, 8},
		{nil, 37, 2, 1, 1, 16}, {nil, 67, 2, 2, 33, 40}, {nil, 0, 2, 1, 3, 5}, {[]int{0}, 3, 2, 1, 3, 5},
		{[]int{3}, 1, 4, 2, 1, 130},
	} {
		for _, of := range []string{"y", "state"} {
			for _, decays := range []int{1, tt.of} { // per head
				for l := plain; l < layouts; l++ {
					if l == plain || tt.times == 5 && !(l == viewed && of == "state") {
						s.recurrence(tt, of, decays, l)
					}
				}
			}
		}
	}
}

// recurrence adds a case of ssm_scan, and of delta_rule with and without a correction. The result is y or the last
// state, as attribute of says. A head has one decay, or one per element of a row.
func (s *suite) recurrence(r recurrenceCase, of string, decays int, l layout) {
	name := fmt.Sprintf("%s/%s/%d heads, %d groups, %d decays/%s", of,
		shapeName(r.dims(r.times, r.rows, r.of)), r.heads, r.groups, decays, layoutNames[l])
	every := r.times == 5 && l == plain && decays == 1
	s.add(ir.OpSSMScan, name, func(b *builder, t ir.DType) *ir.Node {
		vectors := r.dims(r.times, r.groups, r.of)
		dt := b.view(ir.OpSigmoid, b.arg(t, r.dims(r.times, r.heads), l, small))
		return b.op(ir.OpSSMScan, []*ir.Node{b.arg(t, r.dims(r.times, r.heads, r.rows), l, small), dt,
			b.lessThan0(t, []int{r.heads, decays}, l), b.arg(t, vectors, l, small),
			b.arg(t, vectors, l, small), b.arg(t, r.dims(r.heads, r.rows, r.of), l, small)},
			attr("of", of))
	}).allDTypesIf(every).smoke = every
	for _, corrected := range []bool{false, true} {
		name := fmt.Sprintf("%s/%v", name, corrected)
		s.add(ir.OpDeltaRule, name, func(b *builder, t ir.DType) *ir.Node {
			vectors := func(groups int) *ir.Node {
				x := b.arg(t, r.dims(r.times, groups, r.of), l, small)
				return b.view(ir.OpAffine, x, attr("mul", 0.5/float64(r.of)), attr("add", 0.0))
			}
			args := []*ir.Node{vectors(r.groups), vectors(r.heads),
				b.arg(t, r.dims(r.times, r.heads, r.rows), l, small),
				b.lessThan0(t, r.dims(r.times, r.heads, decays), l),
				b.arg(t, r.dims(r.heads, r.rows, r.of), l, small)}
			if corrected {
				args = append(args, vectors(r.heads), vectors(r.groups))
			}
			return b.op(ir.OpDeltaRule, args, attr("of", of))
		}).allDTypesIf(every && corrected).smoke = every && corrected
	}
}

// clearedStates adds scans of several chunks of times, with decays that clear the state now and then, and with decays
// that let it grow.
func (s *suite) clearedStates() {
	const times, heads, rows, keys = 70, 2, 9, 12
	rare := []float64{0, 0.5, -30, -50, -2000.5, -1e30}
	decays := func(b *builder, each int) *ir.Node {
		list := make([]float64, times*heads*each)
		for i := range list {
			list[i] = -0.1 * b.rng.Float64()
			if b.rng.IntN(20) == 0 {
				list[i] = rare[b.rng.IntN(len(rare))]
			}
		}
		return b.given(ir.F32, list, times, heads, each)
	}
	vectors := func(b *builder) *ir.Node {
		x := b.arg(ir.F32, []int{times, heads, keys}, plain, small)
		return b.view(ir.OpAffine, x, attr("mul", 0.5/float64(keys)), attr("add", 0.0))
	}
	for _, of := range []string{"y", "state"} {
		for _, each := range []int{1, keys} {
			for _, corrected := range []bool{false, true} {
				name := fmt.Sprintf("%s/cleared/%d decays/%v", of, each, corrected)
				s.add(ir.OpDeltaRule, name, func(b *builder, t ir.DType) *ir.Node {
					args := []*ir.Node{vectors(b), vectors(b), b.arg(t, []int{times, heads, rows}, plain, small),
						decays(b, each), b.arg(t, []int{heads, rows, keys}, plain, small)}
					if corrected {
						args = append(args, vectors(b), vectors(b))
					}
					return b.op(ir.OpDeltaRule, args, attr("of", of))
				}).types = []ir.DType{ir.F32} // others lack such decays
			}
		}
	}
}

// lessThan0 returns an argument with negative elements.
func (b *builder) lessThan0(t ir.DType, dims []int, l layout) *ir.Node {
	return b.view(ir.OpNeg, b.view(ir.OpSigmoid, b.arg(t, dims, l, small)))
}

// convolutions adds the cases of causal_conv1d: windows of one and more elements, and fewer times than a window.
func (s *suite) convolutions() {
	for _, tt := range []struct {
		outer                 []int
		times, channels, size int
	}{{nil, 1, 7, 4}, {nil, 9, 5, 4}, {[]int{2}, 3, 6, 1}, {[]int{2, 3}, 2, 3, 5}, {nil, 0, 3, 4},
		{[]int{0}, 2, 3, 4}} {
		dims := func(more ...int) []int { return append(append([]int{}, tt.outer...), more...) }
		for _, of := range []string{"y", "state"} {
			for l := plain; l < layouts; l++ {
				if l != plain && tt.times != 9 {
					continue
				}
				name := fmt.Sprintf("%s/%s/%d/%s", of, shapeName(dims(tt.times, tt.channels)), tt.size, layoutNames[l])
				every := tt.times == 9 && l == plain
				s.add(ir.OpCausalConv1D, name, func(b *builder, t ir.DType) *ir.Node {
					return b.op(ir.OpCausalConv1D, []*ir.Node{b.arg(t, dims(tt.times, tt.channels), l, small),
						b.arg(t, []int{tt.channels, tt.size}, l, small),
						b.arg(t, dims(tt.size-1, tt.channels), l, small)}, attr("of", of))
				}).allDTypesIf(every).smoke = every
			}
		}
	}
}
