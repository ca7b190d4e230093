package kernel

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

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
