package optest

import (
	"maps"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// narrow are float dtypes that devices compute in f32, where values can exceed the narrow dtype's range.
var narrow = []ir.DType{ir.F16, ir.BF16}

// commonCases adds cases that hold for every float op: special values must match the reference, and another op in the
// same kernel must see the result rounded to its dtype. Some ops promise less about special values.
func (s *suite) commonCases() {
	done := map[ir.Op]bool{}
	for _, t := range s.list {
		elementwise := t.op.Class() == ir.ClassElementwise && t.op != ir.OpLerp // lerp has few extremes
		forAllDTypes := t.broad && t.types == nil
		if done[t.op] || !forAllDTypes || t.op.Class() == ir.ClassLeaf || spreads(t.op) || !t.accepts(ir.F32) ||
			elementwise && t.name != "extreme" {
			continue
		}
		done[t.op] = true
		v := special
		if t.op.Info().Tol != (ir.Tolerance{}) {
			v = summed
		}
		build := t.build
		if !elementwise { // elementwise ops have been tested with all extremes already
			build = func(b *builder, dt ir.DType) *ir.Node {
				b.first = v
				return t.build(b, dt)
			}
			s.add(t.op, "special/"+t.name, build).floats().inSmokeTest()
		}
		infinite := s.add(t.op, "infinite/"+t.name, func(b *builder, dt ir.DType) *ir.Node {
			return b.view(ir.OpIsInf, build(b, dt))
		})
		infinite.types, infinite.mayBeRefused = narrow, true // the result is no float
		infinite.allDTypes()
	}
	digits := s.add(ir.OpAffine, "digits beyond the dtype", func(b *builder, t ir.DType) *ir.Node {
		one := map[ir.DType]float64{ir.F16: 1 << 11, ir.BF16: 1 << 8}[t] // the next representable number is 2 away
		x := b.view(ir.OpAffine, b.input(t, []int{257}, small), attr("add", one))
		return b.view(ir.OpAffine, x, attr("add", -one))
	})
	digits.types = narrow
	digits.allDTypes().inSmokeTest()
	// Multiplied by these, most numbers are denormal: the distance of neighbours does not shrink any more.
	scales := map[ir.DType]float64{ir.F16: 0x1p-20, ir.F8E4M3: 0x1p-7, ir.F8E5M2: 0x1p-15}
	steps := s.add(ir.OpAffine, "steps of subnormals", func(b *builder, t ir.DType) *ir.Node {
		x := b.view(ir.OpAffine, b.input(t, []int{257}, small), attr("mul", scales[t]))
		return b.view(ir.OpAffine, x, attr("mul", 1/scales[t]))
	})
	steps.types = slices.Sorted(maps.Keys(scales))
	steps.allDTypes().inSmokeTest()
}

// floats are the float dtypes.
var floats = []ir.DType{ir.F32, ir.F16, ir.BF16, ir.F64, ir.F8E4M3, ir.F8E5M2, ir.F4E2M1, ir.F8E4M3FNUZ, ir.F8E5M2FNUZ,
	ir.F8E8M0}

// floats requests a case for every float dtype.
func (t *template) floats() *template {
	t.types = floats
	return t.allDTypes()
}

// spreads reports whether an op spreads one bad element over its row or matrix, in an undefined way.
func spreads(op ir.Op) bool {
	return op.Class() == ir.ClassLinear || op.Class() == ir.ClassRecurrent
}
