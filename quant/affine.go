package quant

import "math"

// affineFormat is the common form of q2_K, q4_K and q5_K: 256 elements in groups. An element is d*s*q - dmin*m. q is
// its level, s and m are integers of its group, and d and dmin belong to the block. d*s is the group's scale, and
// dmin*m its minimum.
type affineFormat struct {
	lineSearch
	group    int   // elements per group
	scaleTop int32 // the greatest stored scale or minimum

	// weigh sets the weights of a group's elements if no importance is given.
	weigh func(w, x []float32)
}

// affineBlock is a block before it is packed.
type affineBlock struct {
	d, dmin      uint16 // float16
	scales, mins [16]byte
	q            [256]byte
}

// quantize quantizes the elements x to the block a. It fits a scale and a minimum to each group, rounds them to
// multiples of d and dmin, and then chooses the levels nearest to x for the rounded scales and minima. If the scale of
// a group rounds to zero, the group keeps the levels of its fit, as in ggml.
func (f *affineFormat) quantize(a *affineBlock, x *[256]float32, importance []float32) {
	var scales, minima, totals [16]float32 // of each group; totals are sums of weights
	var weights [maxGroup]float32
	var spread float32
	if importance != nil {
		spread = meanSquare2(x[:])
	}
	w, groups := weights[:f.group], len(x)/f.group
	for g := range groups {
		xs := x[g*f.group:][:f.group]
		if importance == nil {
			f.weigh(w, xs)
		} else {
			weighImportance(w, xs, importance[g*f.group:], spread)
			totals[g] = sum(w)
		}
		scales[g], minima[g] = f.fit(a.q[g*f.group:][:f.group], xs, w)
	}
	// round sets list to multiples of the unit that it returns.
	round := func(list []byte, v []float32) (unit float32) {
		if importance == nil {
			return roundScales(list, v, f.scaleTop)
		}
		return fitScale(list, v, totals[:groups], levelRange{0, f.scaleTop})
	}
	var d, dmin float32
	a.d, d = roundHalf(round(a.scales[:groups], scales[:groups]))
	a.dmin, dmin = roundHalf(round(a.mins[:groups], minima[:groups]))
	for g := range groups {
		if scale := d * float32(a.scales[g]); scale != 0 {
			minimum := float32(dmin * float32(a.mins[g])) // the conversion prevents a fused multiply-add
			f.requantize(a.q[g*f.group:][:f.group], x[g*f.group:], scale, minimum)
		}
	}
}

// requantize sets q to the levels nearest to x under scale s and minimum m.
func (f *affineFormat) requantize(q []byte, x []float32, s, m float32) {
	r := levelRange{0, f.top}
	x = x[:len(q)]
	for i := range q {
		q[i] = byte(r.nearest((x[i] + m) / s))
	}
}

// roundScales rounds the nonnegative scales v to multiples q[i]*unit, where q[i] is at most `top`. The largest scale
// gets the multiple `top`.
func roundScales(q []byte, v []float32, top int32) (unit float32) {
	var most float32
	for _, e := range v {
		most = max(most, e)
	}
	r := levelRange{0, top}
	inv := inverse(most)
	// A tiny scale has no finite inverse: then inv stays 0, and all levels are 0.
	if inv > 0 {
		inv = float32(top) / most
	}
	for i, e := range v {
		q[i] = byte(r.nearest(inv * e))
	}
	return most / float32(top)
}

// weighMagnitude sets the weight of each element to its magnitude.
func weighMagnitude(w, x []float32) {
	for i, v := range x {
		w[i] = abs32(v)
	}
}

// weighAboveRMS sets the weight of each element to its magnitude plus the group's root mean square.
func weighAboveRMS(w, x []float32) {
	var squares float32
	for _, v := range x {
		squares += float32(v * v)
	}
	rms := float32(math.Sqrt(float64(squares / float32(len(x)))))
	for i, v := range x {
		w[i] = rms + abs32(v)
	}
}

// sum returns the sum of the elements, added in order.
func sum(w []float32) (total float32) {
	for _, v := range w {
		total += v
	}
	return total
}
