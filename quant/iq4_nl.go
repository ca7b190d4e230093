package quant

// dequantizeIQ4_NL decodes a block of iq4_nl. A block has 32 elements in 18 bytes: float16 d; qs[16], nibbles as in
// q4_0. An element is d*valuesIQ4NL[q].
func dequantizeIQ4_NL(dst []float32, block []byte) {
	b := (*[18]byte)(block)
	putIQ4((*[32]float32)(dst), halfAt(b[:]), (*[16]byte)(b[2:]))
}

// quantizeIQ4_NL quantizes a block of 32 elements: an f16 scale, and 4-bit indices into a codebook.
func quantizeIQ4_NL(block []byte, src, weights []float32) {
	x, b := (*[32]float32)(src), (*[18]byte)(block)
	d := fitIQ4(x, weights, meanSquare2(src))
	putHalf(b[:], d)
	packIQ4((*[16]byte)(b[2:]), x, inverse(d))
}

// putIQ4 writes 32 elements with scale d and the levels qs.
func putIQ4(y *[32]float32, d float32, qs *[16]byte) {
	for i, q := range qs {
		y[i] = d * float32(valuesIQ4NL[q&15])
		y[i+16] = d * float32(valuesIQ4NL[q>>4])
	}
}

// packIQ4 stores the nearest levels of x with inverse scale inv.
func packIQ4(qs *[16]byte, x *[32]float32, inv float32) {
	for i := range qs {
		qs[i] = nearestIQ4(inv*x[i]) | nearestIQ4(inv*x[i+16])<<4
	}
}

// nearestIQ4 returns the index of the level nearest to v; of two equally near, the greater.
func nearestIQ4(v float32) byte {
	if v < -128 {
		return 0
	}
	if v >= 128 {
		return 15
	}
	return nearestOfHalf[int(2*(float64(v)+128))] // float64: just below a midpoint stays below
}

// nearestOfHalf tabulates nearestIQ4 in steps of one half, from -128. Levels are integers, so the points halfway
// between two of them are multiples of one half.
var nearestOfHalf = func() (table [512]byte) {
	for i := range table {
		twice, level := i-256, 0
		for level < 15 && twice >= int(valuesIQ4NL[level])+int(valuesIQ4NL[level+1]) {
			level++
		}
		table[i] = byte(level)
	}
	return table
}()

// triesIQ4 is the number of candidate scales that fitIQ4 tries on each side of the one that maps the largest element to
// the outermost level.
const triesIQ4 = 7

// fitIQ4 returns the scale d that fits the iq4 levels to x best. For each candidate scale it takes the nearest levels,
// and solves for the d of least weighted squared error with these levels. It returns the d of least error. Without an
// importance, the weight of an element is its square. With one, it is the weight of weighImportance.
func fitIQ4(x *[32]float32, importance []float32, spread float32) float32 {
	largest, magnitude := absMax(x[:])
	if magnitude < minGroup {
		return 0
	}
	var w [32]float32
	if importance == nil {
		weighSquare(w[:], x[:])
	} else {
		weighImportance(w[:], x[:], importance, spread)
	}
	outermost := float32(valuesIQ4NL[0])
	d := -largest / outermost
	qx, qq := sumsIQ4(x, &w, 1/d)
	if qq > 0 { // all weights may be zero
		d = qx / qq
	}
	// The error is sum(w*x*x) - qx*qx/qq, so the greatest qx*qx/qq is best.
	best := d * qx
	for try := -triesIQ4; try <= triesIQ4; try++ {
		qx, qq = sumsIQ4(x, &w, (float32(try)+outermost)/largest)
		if qq > 0 && qx*qx > best*qq {
			d = qx / qq
			best = d * qx
		}
	}
	return d
}

// sumsIQ4 returns the weighted sums of level times element and of level squared, for the levels nearest to x with the
// inverse scale inv.
func sumsIQ4(x, w *[32]float32, inv float32) (qx, qq float32) {
	for i, v := range x {
		q := float32(valuesIQ4NL[nearestIQ4(inv*v)])
		wq := w[i] * q
		qx += float32(wq * v)
		qq += float32(wq * q)
	}
	return qx, qq
}
