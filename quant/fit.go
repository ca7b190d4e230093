package quant

import "math"

// The searches in this file choose the scale of a group of elements. They quantize the group with each of a list of
// candidate scales, solve for the scale of least weighted squared error given those levels, and keep the best. The
// lists and the order of every sum are ggml's, because a format's bits depend on them.

// maxGroup is the largest group of elements that shares one scale.
const maxGroup = 32

// minGroup is the magnitude below which a group counts as zero.
const minGroup = 1e-15

// weighImportance sets the weight of each element to its importance times sqrt(spread + square of the element). So
// large elements matter more, but the small elements of a block with a large spread are not lost. spread is meanSquare2
// of the block.
func weighImportance(w, x, importance []float32, spread float32) {
	importance, w = importance[:len(x)], w[:len(x)]
	for i, v := range x {
		square := float32(v * v)
		w[i] = importance[i] * float32(math.Sqrt(float64(spread+square)))
	}
}

// weighSquare sets the weight of each element to its square.
func weighSquare(w, x []float32) {
	for i, v := range x {
		w[i] = v * v
	}
}

// meanSquare2 returns twice the mean square of x. The conversion prevents fusing the multiplication with a sum after
// inlining.
func meanSquare2(x []float32) float32 {
	var sum float32
	for _, v := range x {
		sum += float32(v * v)
	}
	return float32(sum * (2 / float32(len(x))))
}

// levelRange are the integer levels that a format multiplies by its scale.
type levelRange struct{ least, most int32 }

// outermost returns the level of the largest magnitude.
func (r levelRange) outermost() int32 {
	if -r.least > r.most {
		return r.least
	}
	return r.most
}

// nearest returns the level nearest to v.
func (r levelRange) nearest(v float32) int32 { return max(r.least, min(roundHalfEven(v), r.most)) }

// triesScale is the number of candidates that fitScale tries on each side of the scale that maps the largest element to
// the outermost level, a tenth of a level apart.
const triesScale = 9

// fitScale returns the scale with which levels of r fit x best: it minimizes the squared errors with weights w. It sets
// q to the levels minus r.least. If all elements are below minGroup, the scale is zero, and q is meaningless but equal
// to ggml's.
func fitScale(q []byte, x, w []float32, r levelRange) (scale float32) {
	largest, magnitude := absMax(x)
	if magnitude < minGroup {
		clear(q)
		return 0
	}
	edge := float32(r.outermost())
	step := float32(math.Copysign(0.1, float64(edge)))
	var levels [maxGroup]float32
	qx, qq := r.sums(&levels, x, w, edge/largest)
	if qq > 0 { // all weights may be zero
		scale = qx / qq
	} else {
		scale = largest / edge
	}
	r.put(q, &levels)
	// The error is sum(w*x*x) - qx*qx/qq, so the greatest qx*qx/qq is best.
	best := scale * qx
	for try := -triesScale; try <= triesScale; try++ {
		if try == 0 {
			continue
		}
		qx, qq = r.sums(&levels, x, w, (edge+float32(step*float32(try)))/largest)
		if qq > 0 && float32(qx*qx) > best*qq {
			scale = qx / qq
			best = scale * qx
			r.put(q, &levels)
		}
	}
	return scale
}

// sums sets the levels nearest to x for the inverse scale inv. It returns the weighted sums of level times element and
// of level squared.
func (r levelRange) sums(levels *[maxGroup]float32, x, w []float32, inv float32) (qx, qq float32) {
	least, most := float32(r.least), float32(r.most)
	w = w[:len(x)]
	for i, v := range x {
		q := roundLevel(inv * v)
		if q > most {
			q = most
		}
		if q < least {
			q = least
		}
		levels[i&(maxGroup-1)] = q // the mask spares a bounds check
		qx += float32(float32(w[i]*v) * q)
		qq += float32(float32(w[i]*q) * q)
	}
	return qx, qq
}

// requantize sets q to the levels nearest to x, minus r.least. Group i of 16 elements has the scale d*scales[i]. A
// group with scale zero keeps its levels, as in ggml.
func (r levelRange) requantize(q *[256]byte, x *[256]float32, scales *[16]int8, d float32) {
	for g, s := range scales {
		scale := d * float32(s)
		if scale == 0 {
			continue
		}
		for i := g * 16; i < g*16+16; i++ {
			q[i] = byte(r.nearest(x[i]/scale) - r.least)
		}
	}
}

// roundSignedScales rounds the scales v to multiples q[i]*unit, where q[i] is between least and most. The scale with
// the largest magnitude, which must not be zero, gets the multiple least. So unit may be negative.
func roundSignedScales(q *[16]int8, v *[16]float32, least, most int32) (unit float32) {
	r := levelRange{least, most}
	largest, _ := absMax(v[:])
	inv := float32(least) / largest
	for i, e := range v {
		q[i] = int8(r.nearest(inv * e))
	}
	return 1 / inv
}

// put stores each level less r.least, as a byte.
func (r levelRange) put(q []byte, levels *[maxGroup]float32) {
	for i := range q {
		q[i] = byte(int32(levels[i]) - r.least)
	}
}

// lineSearch describes how a format with elements scale*q - depth finds the scale and the depth of a group: it searches
// the line that maps levels q to elements best. It tries several candidates. Candidate i has the scale (highest -
// lowest) / (top + first + i*step), where lowest is the element of level zero on the best line so far. With this scale,
// each element gets the nearest level. Least squares then gives the line from the levels to the elements.
type lineSearch struct {
	top         int32 // the greatest level q
	first, step float32
	tries       int
	absolute    bool // minimize absolute instead of squared errors
}

// fit returns the scale and depth with the least error for x under the weights w, and sets q to the levels. The depth
// is not negative.
func (s *lineSearch) fit(q []byte, x, w []float32) (scale, depth float32) {
	lower, upper := minMax(x)
	if lower > 0 {
		lower = 0
	}
	top := float32(s.top)
	inv := top / (upper - lower)
	if upper == lower || inv > math.MaxFloat32 {
		clear(q)
		return 0, -lower
	}
	g := lineGroup{x: x, w: w, absolute: s.absolute}
	for i, v := range x {
		g.w1 += w[i]
		g.wx += float32(w[i] * v)
	}
	var levels [maxGroup]float32
	g.sums(&levels, inv, lower, top)
	g.put(q, &levels)
	scale = 1 / inv
	best := g.errorOf(&levels, scale, lower, math.MaxFloat32)
	for i := range s.tries + 1 {
		span := top + (s.first + float32(s.step*float32(i))) // levels from lower to upper
		slope, start, ok := g.line(g.sums(&levels, span/(upper-lower), lower, top))
		if !ok {
			continue
		}
		if e := g.errorOf(&levels, slope, start, best); e < best {
			best, scale, lower = e, slope, start
			g.put(q, &levels)
		}
	}
	return scale, -lower
}

// lineGroup is the group of elements that lineSearch.fit works on.
type lineGroup struct {
	x, w     []float32
	w1, wx   float32 // sums of w and of w*x
	absolute bool
}

// levelSums are the weighted sums of the levels q, of q*q and of q*x.
type levelSums struct{ q, qq, qx float32 }

// sums sets the levels nearest to x for the inverse scale inv, with level zero at lower, and returns their sums.
func (g *lineGroup) sums(levels *[maxGroup]float32, inv, lower, top float32) (s levelSums) {
	w := g.w[:len(g.x)]
	for i, v := range g.x {
		q := roundLevel(inv * (v - lower))
		if q > top {
			q = top
		}
		if q < 0 {
			q = 0
		}
		levels[i&(maxGroup-1)] = q // the mask spares a bounds check
		wq := float32(w[i] * q)
		s.q += wq
		s.qq += float32(wq * q)
		s.qx += float32(wq * v)
	}
	return s
}

// line returns the least-squares line slope*level + lower for levels with the sums s. lower is at most zero, because
// the stored depth has no sign. ok is false if all levels are equal.
func (g *lineGroup) line(s levelSums) (slope, lower float32, ok bool) {
	det := float32(g.w1*s.qq) - float32(s.q*s.q)
	if !(det > 0) {
		return 0, 0, false
	}
	slope = (float32(g.w1*s.qx) - float32(g.wx*s.q)) / det
	lower = (float32(s.qq*g.wx) - float32(s.q*s.qx)) / det
	// With lower fixed at 0, the best slope is the least-squares slope through the origin.
	if lower > 0 {
		return s.qx / s.qq, 0, true
	}
	return slope, lower, true
}

// errorOf returns the weighted error of slope*level + lower. It may stop early at any sum of at least bound.
func (g *lineGroup) errorOf(levels *[maxGroup]float32, slope, lower, bound float32) (sum float32) {
	w := g.w[:len(g.x)]
	for i, v := range g.x {
		e := float32(slope*levels[i&(maxGroup-1)]) + lower - v
		if g.absolute {
			e = abs32(e)
		} else {
			e *= e
		}
		sum += float32(w[i] * e)
		if i%8 == 7 && sum >= bound {
			break
		}
	}
	return sum
}

// put stores the levels.
func (g *lineGroup) put(q []byte, levels *[maxGroup]float32) {
	for i := range q {
		q[i] = byte(levels[i])
	}
}
