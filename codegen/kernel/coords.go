package kernel

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Axes returns the coordinates along parallel axes: axis 0, axis 1, …
func Axes(parallel []ir.Dim) []Index {
	at := make([]Index, len(parallel))
	for i, d := range parallel {
		at[i] = Axis(i, d)
	}
	return at
}

// Linear returns the row-major position of coordinates in a shape.
func Linear(s ir.Shape, at []Index) Index {
	x := Const(0)
	for i, d := range s {
		x = x.Mul(DimIndex(d)).Plus(at[i])
	}
	return x
}

// Unflatten returns the coordinates of a row-major position in a shape.
func Unflatten(s ir.Shape, x Index) []Index {
	at := make([]Index, len(s))
	for i := len(s) - 1; i > 0; i-- {
		if s[i].IsStatic() && s[i].Add == 0 {
			continue // an empty tensor has no positions
		}
		x, at[i] = x.DivMod(s[i])
	}
	if len(s) > 0 {
		at[0] = x
	}
	return at
}

// Last returns the largest coordinate along an axis.
func Last(d ir.Dim) Index { return DimIndex(d).Minus(Const(1)) }

// ReadsBuffer reports whether a kernel reads a buffer, or must run after the kernels that store to it.
func (k *Kernel) ReadsBuffer(buffer int) bool {
	return slices.Contains(k.After, buffer) ||
		slices.ContainsFunc(k.Bindings, func(b Binding) bool { return b.Read && b.Buffer == buffer })
}

// FirstStored returns the buffer of a kernel's first store, or -1.
func (k *Kernel) FirstStored() int {
	if len(k.Stores) == 0 {
		return -1
	}
	return k.Bindings[k.Stores[0].Bind].Buffer
}
