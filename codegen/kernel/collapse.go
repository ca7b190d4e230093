package kernel

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Canonical returns an equal kernel in the form that schedules are chosen for and the generator writes: axes that
// lie in memory as one are one, unless the family gives them meanings, and stores leave casts to the buffer.
func Canonical(k *Kernel) *Kernel {
	k = withoutStoredCasts(k)
	if slices.Contains([]Family{FamilyMap, FamilyRow, FamilyScan, FamilySort}, k.Family) {
		return Collapse(k)
	}
	return k
}

// withoutStoredCasts returns k with stores of a cast that storing does anyway, from
// a wider float or between integers, storing the cast's argument instead.
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
			if v.Kind == ExprApply && v.Op == ir.OpCast && v.DType == stored && users[v] == 1 {
				if s.Value = Unstored(v); v.DType.IsInteger() && v.Args[0].DType.IsInteger() {
					s.Value = v.Args[0]
				}
			}
			stores = append(stores, m.Store(s))
		}
		return stores
	}})
}

// Collapse returns an equal kernel with as few parallel axes as its indices
// allow: axes of extent 1 go, and two neighbours become one where every index
// depends on them only through their row-major position. An elementwise kernel
// over dense tensors ends with a single axis whatever its rank was, unless that
// would be longer than axes may be.
func Collapse(k *Kernel) *Kernel {
	for i := len(k.Parallel) - 1; i >= 0; i-- {
		if k.Parallel[i].Is(1) {
			k = substitute(k, i, -1, ir.Dim{})
		}
	}
	for i := len(k.Parallel) - 2; i >= 0; i-- {
		extent, err := k.Parallel[i].Mul2(k.Parallel[i+1])
		if err == nil && extent.Max() <= maxSigned && k.Parallel[i+1].Max() > 0 && mergeable(k, i, i+1) {
			k = substitute(k, i, i+1, extent)
		}
	}
	return k
}

// mergeable reports whether every index of k, and every part of one that
// stands in a quotient, remainder or clamp, grows along the outer axis by the
// inner axis's extent times what it grows by along the inner axis.
func mergeable(k *Kernel, outer, inner int) bool {
	ok := true
	k.WalkIndices(func(x Index) { ok = ok && mergeableIn(x, outer, inner, k.Parallel[inner]) })
	return ok
}

func mergeableIn(x Index, outer, inner int, extent ir.Dim) bool {
	own := func(f *Factor) bool {
		return f.Kind == FactorAxis && (f.Axis == outer || f.Axis == inner)
	}
	strides := map[int]Index{}
	for _, t := range x.Terms() {
		i := slices.IndexFunc(t.Factors, own)
		rest, plain := Const(t.Coef), true
		for j, f := range t.Factors {
			switch {
			case j == i:
			case own(f):
				return false
			case f.Kind == FactorAxis:
				rest = rest.Mul(Axis(f.Axis, f.Extent))
			case f.Kind == FactorSym:
				rest = rest.Mul(DimIndex(f.symbol()))
			case f.Kind == FactorValue || mergeableIn(f.X, outer, inner, extent) &&
				mergeableIn(f.D, outer, inner, extent):
				plain = false // does not depend on the two, or only through their position
			default:
				return false
			}
		}
		if i < 0 {
			continue
		}
		if !plain {
			return false // a coordinate times something opaque: not worth the proof
		}
		strides[t.Factors[i].Axis] = strides[t.Factors[i].Axis].Plus(rest)
	}
	return strides[outer].Equal(strides[inner].Mul(DimIndex(extent)))
}

// substitute removes parallel axis gone. With into >= 0, coordinate into of
// the new kernel stands for the row-major position in both; since indices
// depend on nothing else, setting gone to 0 and into to the position gives the
// same values.
func substitute(k *Kernel, gone, into int, extent ir.Dim) *Kernel {
	parallel := slices.Delete(slices.Clone(k.Parallel), gone, gone+1)
	if into >= 0 {
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
