package kernel

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Canonical returns an equal kernel in canonical form, for which schedules are chosen and shaders are generated. It
// merges axes that are contiguous in memory, unless the family gives them meanings. It removes casts that stores
// perform anyway.
func Canonical(k *Kernel) *Kernel {
	k = withoutStoredCasts(k)
	if slices.Contains([]Family{FamilyMap, FamilyRow, FamilyScan, FamilySort}, k.Family) {
		return Collapse(k)
	}
	return k
}

// withoutStoredCasts returns k without casts that its stores perform anyway: from a wider float, or between integers.
func withoutStoredCasts(k *Kernel) *Kernel {
	users := map[*Expr]int{}
	for _, r := range k.Roots() {
		users[r]++
	}
	Walk(k.Roots(), func(v *Expr) {
		for _, a := range v.Args {
			users[a]++
		}
	})
	return Map(k, Edit{SameBindings: true, Stores: func(m *Mapping) (stores []Store) {
		for _, s := range k.Stores {
			v, stored := s.Value, k.Bindings[s.Bind].DType
			// A cast with other users stays, because its value is computed anyway.
			if v.Kind == ExprApply && v.Op == ir.OpCast && v.DType == stored && users[v] == 1 {
				s.Value = Unstored(v)
				if v.DType.IsInteger() && v.Args[0].DType.IsInteger() {
					s.Value = v.Args[0]
				}
			}
			stores = append(stores, m.Store(s))
		}
		return stores
	}})
}

// Collapse returns an equal kernel with as few parallel axes as its indices allow. It drops axes of extent 1. It merges
// two adjacent axes if every index depends on them only through their row-major position. An elementwise kernel over
// dense tensors ends with one axis for any rank, unless that axis would exceed the limit on extents.
func Collapse(k *Kernel) *Kernel {
	for i := len(k.Parallel) - 1; i >= 0; i-- {
		if k.Parallel[i].Is(1) {
			k = substitute(k, i, -1, ir.Dim{})
		}
	}
	// From the innermost pair on: a merged axis can merge again with the axis before it.
	for i := len(k.Parallel) - 2; i >= 0; i-- {
		extent, err := k.Parallel[i].Mul2(k.Parallel[i+1])
		if err == nil && extent.Max() <= maxSigned && k.Parallel[i+1].Max() > 0 && mergeable(k, i, i+1) {
			k = substitute(k, i, i+1, extent)
		}
	}
	return k
}

// mergeable reports whether axes outer and inner can be merged: in every index, and in every operand of a quotient,
// remainder or clamp, the stride along outer is the inner extent times the stride along inner.
func mergeable(k *Kernel, outer, inner int) bool {
	ok := true
	k.WalkIndices(func(x Index) { ok = ok && mergeableIn(x, outer, inner, k.Parallel[inner]) })
	return ok
}

// mergeableIn reports whether index x depends on the axes outer and inner only through their row-major position. extent
// is the extent of the inner axis.
func mergeableIn(x Index, outer, inner int, extent ir.Dim) bool {
	own := func(f *Factor) bool { // whether it is the coordinate along one of the two axes
		return f.Kind == FactorAxis && (f.Axis == outer || f.Axis == inner)
	}
	// x is a sum of products. A product may have the coordinate along one of the two axes as a factor, once. The stride
	// along an axis is then the sum of the products with its coordinate, each without that factor.
	strides := map[int]Index{} // by axis
	for _, t := range x.Terms() {
		i := slices.IndexFunc(t.Factors, own)
		rest, plain := Const(t.Coef), true
		for j, f := range t.Factors {
			switch {
			case j == i: // the coordinate, which is not part of the stride
			case own(f):
				return false // a product of two coordinates
			case f.Kind == FactorAxis:
				rest = rest.Mul(Axis(f.Axis, f.Extent))
			case f.Kind == FactorSym:
				rest = rest.Mul(DimIndex(f.symbol()))
			case f.Kind == FactorValue || mergeableIn(f.X, outer, inner, extent) &&
				mergeableIn(f.D, outer, inner, extent):
				plain = false // does not use the two axes, or only through their row-major position
			default:
				return false
			}
		}
		if i < 0 {
			continue
		}
		if !plain {
			return false // a coordinate times an opaque factor: not worth the proof
		}
		strides[t.Factors[i].Axis] = strides[t.Factors[i].Axis].Plus(rest)
	}
	// The row-major position is outer*extent + inner.
	return strides[outer].Equal(strides[inner].Mul(DimIndex(extent)))
}

// substitute returns k without the parallel axis gone. If into >= 0, it merges gone into axis into, which then has the
// given extent and counts the row-major position along both. Indices use the two axes only through that position, so it
// is correct to set gone to 0 and into to the position.
func substitute(k *Kernel, gone, into int, extent ir.Dim) *Kernel {
	parallel := slices.Delete(slices.Clone(k.Parallel), gone, gone+1)
	if into >= 0 {
		// into is an axis inside of gone, so its number is one less without gone.
		parallel[into-1] = extent
	}
	return Map(k, Edit{Parallel: parallel, SameBindings: true, At: func(axis int, old ir.Dim) Index {
		switch {
		case axis == gone:
			return Const(0)
		case axis == into:
			return Axis(axis-1, extent)
		case axis > gone:
			return Axis(axis-1, old)
		}
		return Axis(axis, old)
	}})
}
