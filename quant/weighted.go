package quant

import "slices"

// Blocks of 32 elements normally spread their levels over the range of the elements. With importance weights their
// scales are fitted, as in the formats with groups.

// fitWeighted quantizes x to levels of r with one scale, with the least error under importance weights. It returns the
// scale as a float16 and the levels minus r.least.
func fitWeighted(x *[32]float32, importance []float32, r levelRange) (d uint16, q [32]byte) {
	var w [32]float32
	weighImportance(w[:], x[:], importance, meanSquare2(x[:]))
	d, scale := roundHalf(fitScale(q[:], x[:], w[:], r))
	inv := inverse(scale)
	for i, v := range x {
		q[i] = byte(r.nearest(inv*v) - r.least)
	}
	return d, q
}

// fitWeightedLine quantizes x to d*q + m with levels q from zero to top, with the least error under importance weights.
// It returns d and m as float16, and the levels.
func fitWeightedLine(x *[32]float32, importance []float32, top int32) (d, m uint16, q [32]byte) {
	search := lineSearch{top: top, first: -0.9, step: 0.05, tries: 36}
	var w [32]float32
	weighImportance(w[:], x[:], importance, meanSquare2(x[:]))
	base := max(0, slices.Min(x[:])) // the search only considers lines that are not above zero at level zero
	var above [32]float32
	for i, v := range x {
		above[i] = v - base
	}
	scale, depth := search.fit(q[:], above[:], w[:])
	d, scale = roundHalf(scale)
	m, lower := roundHalf(base - depth)
	inv := inverse(scale)
	r := levelRange{0, top}
	for i, v := range x {
		q[i] = byte(r.nearest(inv * (v - lower)))
	}
	return d, m, q
}
