package kernel

import (
	"cmp"
	"slices"
)

// digit is a coordinate of a store: the store's position in its buffer is the sum of all coordinates times their
// strides. It runs from first to last.
type digit struct{ stride, first, last int64 }

// WriteApart reports whether two kernels provably store different elements through their bindings of one buffer, and
// read nothing there. Then they can run at the same time. For example, one stores the first columns of a matrix and the
// other the last ones. Elements of less than 4 bytes must be in different words, because some devices store whole
// words.
func WriteApart(k *Kernel, bind int, other *Kernel, otherBind int) bool {
	x, y := k.onlyStore(bind), other.onlyStore(otherBind)
	t := k.Bindings[bind].DType
	if x == nil || y == nil || t != other.Bindings[otherBind].DType || t.IsBlock() || t.BlockBytes() == 0 {
		return false
	}
	strides := append(storeStrides(x.Index), storeStrides(y.Index)...)
	slices.SortFunc(strides, func(a, b int64) int { return cmp.Compare(b, a) })
	strides = slices.Compact(strides)
	a, okA := digitsOf(x.Index, strides)
	b, okB := digitsOf(y.Index, strides)
	if !okA || !okB {
		return false
	}
	word := max(int64(32/t.Bits()), 1)
	for i, stride := range strides {
		low, high := a[i], b[i]
		if high.first < low.first {
			low, high = high, low
		}
		if low.last < high.first && high.first*stride%word == 0 {
			return true
		}
		if stride%word != 0 {
			return false // digits of smaller strides are in a word that other values of this one share
		}
	}
	return false
}

// onlyStore returns the only access of a kernel through a binding, if that is a store for each of its points.
func (k *Kernel) onlyStore(bind int) (only *Store) {
	simple := k.Family == FamilyMatMul || k.Family == FamilyMap
	if !simple || k.Guard != nil || k.Bindings[bind].Read {
		return nil
	}
	for i := range k.Stores {
		switch s := &k.Stores[i]; {
		case s.Bind != bind: // a store through another binding
		case only != nil || s.PerElement || !s.Cols.All():
			return nil
		default:
			only = s
		}
	}
	return only
}

// storeStrides returns the strides of the terms of x that are axes.
func storeStrides(x Index) (list []int64) {
	for _, t := range x.terms {
		list = append(list, t.Coef)
	}
	return list
}

// digitsOf returns the digits of x for some strides, the largest first. It reports false unless x is a sum of axes
// times strides, and each element has digits of its own: digits of smaller strides never carry into a larger one.
func digitsOf(x Index, strides []int64) ([]digit, bool) {
	rest, list := x.c, make([]digit, len(strides))
	for i, stride := range strides {
		if stride < 1 || rest < 0 {
			return nil, false
		}
		list[i] = digit{stride: stride, first: rest / stride, last: rest / stride}
		rest %= stride
	}
	if rest != 0 {
		return nil, false
	}
	for _, t := range x.terms {
		i := slices.Index(strides, t.Coef)
		if len(t.Factors) != 1 || t.Factors[0].Kind != FactorAxis || list[i].last != list[i].first {
			return nil, false
		}
		list[i].last += max(t.Factors[0].Extent.Max(), 1) - 1
	}
	below := int64(0) // the largest sum of the digits so far
	for _, d := range slices.Backward(list) {
		if below >= d.stride {
			return nil, false
		}
		below += d.last * d.stride
	}
	return list, true
}
