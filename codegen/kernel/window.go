package kernel

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// RunStride returns the increase of x per step along an axis, within n neighbors that begin at a multiple of n. It
// reports false if the steps differ. It ignores clamps, so the result holds only if no clamp has an effect.
func (x Index) RunStride(axis, n int) (int64, bool) {
	sum := int64(0)
	for _, t := range x.terms {
		for _, f := range t.Factors {
			stride, ok := f.runStride(axis, n)
			if !ok || stride != 0 && len(t.Factors) > 1 {
				return 0, false
			}
			sum += t.Coef * stride
		}
	}
	return sum, true
}

// runStride returns the stride of the factor along an axis, if it is the same between all neighbours within a run of n;
// see [Index.RunStride].
func (f *Factor) runStride(axis, n int) (int64, bool) {
	switch {
	case !single(f).Uses(axis):
		return 0, true
	case f.Kind == FactorAxis:
		return 1, true
	case f.Kind == FactorClamp && !f.D.Uses(axis):
		return f.X.RunStride(axis, n)
	case f.Kind != FactorDiv && f.Kind != FactorMod || !f.D.IsConst():
		return 0, false
	}
	if stride, ok := f.X.RunStride(axis, n); ok && stride == 0 { // it is the same for all neighbors
		return 0, true
	}
	if f.D.c%int64(n) != 0 {
		return 0, false
	}
	stride, linear := f.X.Stride(axis)
	if !linear || !stride.isOne() || f.X.DropAxis(axis).Multiple(int64(n)) != int64(n) {
		return 0, false
	}
	if f.Kind == FactorDiv { // the neighbors do not cross a multiple of n
		return 0, true
	}
	return 1, true
}

// RunAligned reports whether x is a multiple of n whenever the coordinate along the axis is. n is a power of two.
func (x Index) RunAligned(axis, n int) bool {
	if x.c%int64(n) != 0 {
		return false
	}
	for _, t := range x.terms {
		// A multiple of n remains one if it is multiplied by other factors, so one aligned factor suffices.
		aligned := t.Coef%int64(n) == 0
		for _, f := range t.Factors {
			aligned = aligned || f.Kind == FactorAxis && f.Axis == axis ||
				f.Kind == FactorMod && f.D.IsConst() && f.D.c%int64(n) == 0 && f.X.RunAligned(axis, n)
		}
		if !aligned {
			return false
		}
	}
	return true
}

// IsVector reports whether n neighbors along the axis are one aligned vector, if the first is at a multiple of n. n is
// a power of two. Successive vectors may be anywhere, as when the heads of a tensor are not contiguous.
func (x Index) IsVector(axis, n int) bool {
	if n == 1 || x.Adjacent(axis, n) {
		return x.Adjacent(axis, n)
	}
	stride, ok := x.RunStride(axis, n)
	limited := false
	x.Walk(func(f *Factor) { limited = limited || f.Kind == FactorClamp && single(f).Uses(axis) })
	return ok && stride == 1 && !limited && x.RunAligned(axis, n)
}

// Unclamped returns x without the clamps that vary among n neighbors along the axis. If such a clamp has an effect, the
// result may be outside of the buffer.
func (x Index) Unclamped(axis, n int) Index {
	out := Const(x.c)
	for _, t := range x.terms {
		product := Const(t.Coef)
		for _, f := range t.Factors {
			part := single(f)
			if stride, _ := f.runStride(axis, n); f.Kind == FactorClamp && stride != 0 {
				part = f.X
			}
			product = product.Mul(part)
		}
		out = out.Plus(product)
	}
	return out
}

// LoadsVector reports whether a load can read width neighbors along an axis at once. A buffer that the kernel also
// writes has one GLSL type for loads and stores: vectors, if a map or recurrence loads and stores it only at one index,
// and scalars otherwise.
func (k *Kernel) LoadsVector(v *Expr, axis, width int) bool {
	b := k.Bindings[v.Bind]
	if b.Write {
		return k.vectorInPlace(v.Bind, axis, width)
	}
	if !v.Index.Uses(axis) || b.DType.IsBlock() && width != 4 {
		return false
	}
	return v.Index.IsVector(axis, width)
}

// StoresVector reports whether a store can write width neighbours along an axis at once.
func (k *Kernel) StoresVector(s Store, axis, width int) bool {
	b := k.Bindings[s.Bind]
	if b.Read {
		return k.vectorInPlace(s.Bind, axis, width)
	}
	if b.DType.IsBlock() || !s.Index.IsVector(axis, width) {
		return false
	}
	for _, other := range k.Stores { // one view per written buffer
		if other.Bind == s.Bind && (other.PerElement != s.PerElement || !other.Index.IsVector(axis, width)) {
			return false
		}
	}
	return true
}

// vectorInPlace reports whether a map or recurrence reads and writes a binding only at one index, and width neighbors
// at that index form a vector. Then it can read the vector, compute all its elements, and write the vector.
func (k *Kernel) vectorInPlace(bind, axis, width int) bool {
	if k.Family != FamilyMap && k.Family != FamilyRecurrence || k.Bindings[bind].DType.IsBlock() {
		return false
	}
	var at Index
	stores := 0
	for _, s := range k.Stores {
		if s.Bind == bind {
			at = s.Index
			stores++
		}
	}
	// Every load of the binding must be at the index of its only store.
	return stores == 1 && at.Uses(axis) && at.IsVector(axis, width) && !Any(k.Roots(), func(v *Expr) bool {
		return v.Kind == ExprLoad && v.Bind == bind && !v.Index.Equal(at)
	})
}

// VectorWidth returns the number of neighbors along an axis to process at once: 4 or 2, but at most `most`, if that
// divides the extent and lets a load of the roots, or a store, access a vector. Otherwise it returns 1.
func (k *Kernel) VectorWidth(axis int, extent ir.Dim, most int, roots []*Expr, stores []Store) int {
	for w := 4; w > 1; w /= 2 {
		if _, ok := extent.Quo(int64(w)); !ok || w > most {
			continue
		}
		if slices.ContainsFunc(stores, func(s Store) bool { return k.StoresVector(s, axis, w) }) ||
			Any(roots, func(v *Expr) bool { return v.Kind == ExprLoad && k.LoadsVector(v, axis, w) }) {
			return w
		}
	}
	return 1
}
