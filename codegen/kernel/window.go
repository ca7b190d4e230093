package kernel

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
