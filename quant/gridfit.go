package quant

import "math"

// gridFormat is the common form of the formats with a codebook. A block has 256 elements in groups. A codebook entry
// holds the levels of 8 or 4 elements. An element is its level times the scale of its group. The scale is
// d*unit*(2k+1), with one d for the block and an integer k for each group.
//
// The search for the best block is vkc's own:
//
//  1. For each group it finds entries and a scale with small squared error (see fit).
//  2. It chooses the d of the block for which the multiples d*unit*(2k+1) are nearest to the groups' scales (see
//     bestUnit).
//  3. Each group tries the multiples near its own scale, with new entries for each. Least squares then gives the best
//     d for the chosen k and entries (see roundFits). This step runs roundPassesGrid times.
type gridFormat struct {
	book    func() *codebook
	group   int     // elements that share a scale
	steps   int     // k is below steps
	unit    float32 // of the scales
	window  int     // number of steps beyond the nearest that are tried
	signs   signRule
	offsets int // elements that share an offset of -1/8 or 1/8 from the levels; zero for none
}

// signRule restricts the signs of the elements of a codebook entry.
type signRule uint8

const (
	signsOfEntry signRule = iota // the signs of its levels
	signsFree                    // any
	signsEven                    // any with an even number of negatives in each eight
)

// maxEntries is the largest number of codebook entries in a group.
const maxEntries = 8

// gridBlock is a block before it is packed.
type gridBlock struct {
	d      uint16     // float16
	scales [16]uint8  // k of each group
	index  [64]uint16 // of each entry in the codebook
	signs  [32]uint8  // of each eight elements, bit j of element j
	minus  [32]bool   // whether the offset at each eight elements is -1/8
}

// gridFit is the choice for one group.
//
// With targets t, levels l and weights w, the squared error at a scale is
// sum(w*t*t) - 2*scale*sum(w*t*l) + scale*scale*sum(w*l*l). Only the last two terms depend on the choice.
type gridFit struct {
	pos   [maxEntries]uint16 // of the entries in the arranged codebook
	minus [maxEntries]bool   // whether the offsets are -1/8

	targetLevel float32 // sum(w*t*l)
	levelSquare float32 // sum(w*l*l)
}

// scale returns the scale with the least squared error for the entries of f, or zero if no positive scale is better.
func (f *gridFit) scale() float32 {
	if f.levelSquare > 0 && f.targetLevel > 0 {
		return f.targetLevel / f.levelSquare
	}
	return 0
}

// errorAt returns the error at a scale, minus the error at scale zero.
func (f *gridFit) errorAt(scale float32) float32 {
	return float32(scale * (float32(scale*f.levelSquare) - float32(2*f.targetLevel)))
}

// least returns the error at the best scale, minus the error at scale zero.
func (f *gridFit) least() float32 { return -f.scale() * f.targetLevel }

// gridSearch is the state of the search for one block.
type gridSearch struct {
	*gridFormat
	c       *codebook
	levels  [2][8]float32 // the levels with offset 1/8 and -1/8, or twice the same
	targets [256]float32  // elements without their signs, which are stored separately
	weights [256]float32
	fits    [16]gridFit
}

// quantize chooses the entries, the signs and the scales of block a for x. It minimizes the squared error, weighted by
// the importance if that is not nil.
func (f *gridFormat) quantize(a *gridBlock, x *[256]float32, importance []float32) {
	s := gridSearch{gridFormat: f, c: f.book()}
	s.setLevels()
	s.setWeights(x, importance)
	s.setTargets(a, x)
	groups := len(x) / f.group
	var most float32
	for g := range groups {
		s.fit(g)
		most = max(most, s.fits[g].scale())
	}
	if most == 0 { // all elements are zero, or tiny
		*a = gridBlock{}
		return
	}
	var d float32
	a.d, d = roundHalf(s.bestUnit(groups, most))
	for range roundPassesGrid {
		a.d, d = roundHalf(s.roundFits(a, groups, d))
	}
	n := f.group / s.c.elems
	for g := range groups {
		for v := range n {
			fit := &s.fits[g]
			a.index[g*n+v] = s.c.index[fit.pos[v]]
			if f.offsets > 0 {
				a.minus[g*n+v] = fit.minus[v]
			}
		}
	}
}

// roundPassesGrid is the number of times that d of a block is fitted and its groups are chosen again.
const roundPassesGrid = 2

// setLevels sets the two lists of levels that the search tries. If the format has offsets, the first list is shifted by
// 1/8 and the second by -1/8.
func (s *gridSearch) setLevels() {
	for i, level := range s.c.levels {
		s.levels[0][i], s.levels[1][i] = level, level
		if s.offsets > 0 {
			s.levels[0][i] += 0.125
			s.levels[1][i] -= 0.125
		}
	}
}

// setWeights sets positive weights, so that a group without importance still gets entries near its elements.
func (s *gridSearch) setWeights(x *[256]float32, importance []float32) {
	var floor float32 = 1
	if importance != nil {
		weighImportance(s.weights[:], x[:], importance, meanSquare2(x[:]))
		if total := sum(s.weights[:]); total > 0 {
			floor = max(total*0x1p-28, 1e-30)
		}
	}
	for i := range s.weights {
		s.weights[i] += floor
	}
}

// setTargets sets the targets of the search: x, or the magnitudes of x if the format stores signs separately. In the
// second case it sets the signs of block a too. If the number of negative signs must be even but is odd, one element
// gets the wrong sign, and its target becomes negative. It is the element for which that costs least.
func (s *gridSearch) setTargets(a *gridBlock, x *[256]float32) {
	s.targets = *x
	if s.signs == signsOfEntry {
		return
	}
	for i := range a.signs {
		t, w := (*[8]float32)(s.targets[8*i:]), (*[8]float32)(s.weights[8*i:])
		var signs uint8
		odd, cheapest := false, 0
		for j, v := range t {
			if v < 0 {
				signs |= 1 << j
				odd = !odd
			}
			t[j] = abs32(v)
			if w[j]*t[j] < w[cheapest]*t[cheapest] {
				cheapest = j
			}
		}
		// The stored signs have seven bits, and the eighth follows from an even number of negative ones.
		if odd && s.signs == signsEven {
			signs ^= 1 << cheapest
			t[cheapest] = -t[cheapest]
		}
		a.signs[i] = signs
	}
}

// firstScales are the initial scales for the fit of a group: they map its largest element to these multiples of the
// largest level.
var firstScales = [...]float32{0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3}

// maxRefitsGrid is the maximum number of times that fit chooses new entries for the best scale so far.
const maxRefitsGrid = 3

// fit chooses the entries of group g with the least squared error at their best scale. It tries the entries nearest to
// the group at each of firstScales. Then it chooses the nearest entries again at the best scale so far, while that
// helps.
func (s *gridSearch) fit(g int) {
	_, magnitude := absMax(s.targets[g*s.group:][:s.group])
	if magnitude < minGroup {
		return
	}
	var try gridFit
	best := &s.fits[g]
	for _, multiple := range firstScales {
		s.choose(&try, g, magnitude/(s.c.top*multiple))
		if try.least() < best.least() {
			*best = try
		}
	}
	for range maxRefitsGrid {
		try = *best
		s.choose(&try, g, best.scale())
		if !(try.least() < best.least()) {
			return
		}
		*best = try
	}
}

// bestUnit returns the d with which the multiples fit the scales of the groups best. It tries 25 values: they make the
// largest scale (most) the largest multiple, or up to 6 units more or less, in steps of half a unit.
func (s *gridSearch) bestUnit(groups int, most float32) (d float32) {
	var least float32 = math.MaxFloat32
	outermost := float32(2*s.steps - 1)
	for try := -12; try <= 12; try++ {
		candidate := most / (s.unit * (outermost + float32(0.5*float32(try))))
		var e float32
		for g := range groups {
			fit := &s.fits[g]
			e += fit.errorAt(candidate * s.multiple(s.nearestStep(fit.scale()/candidate)))
		}
		if e < least {
			d, least = candidate, e
		}
	}
	return d
}

// roundFits sets the k and the entries of each group: it tries the multiples of d near the group's scale, and keeps the
// one with the least error. It returns the best d for the chosen k and entries.
func (s *gridSearch) roundFits(a *gridBlock, groups int, d float32) float32 {
	if d == 0 {
		return 0
	}
	var targetLevel, levelSquare float32 // sums over the block, for scales in units of d
	for g := range groups {
		start := s.fits[g]
		near := s.nearestStep(start.scale() / d)
		var least float32 = math.MaxFloat32
		for k := max(0, near-s.window); k <= min(near+s.window, s.steps-1); k++ {
			try, scale := start, d*s.multiple(k)
			s.choose(&try, g, scale)
			if e := try.errorAt(scale); e < least {
				a.scales[g], s.fits[g], least = uint8(k), try, e
			}
		}
		m := s.multiple(int(a.scales[g]))
		targetLevel += float32(s.fits[g].targetLevel * m)
		levelSquare += float32(float32(s.fits[g].levelSquare*m) * m)
	}
	return max(0, targetLevel) / levelSquare // levelSquare is positive: no level is zero, and no weight
}

// multiple returns the scale of a group with number k, divided by d.
func (s *gridSearch) multiple(k int) float32 { return s.unit * float32(2*k+1) }

// nearestStep returns the k for which multiple(k) is nearest to v.
func (s *gridSearch) nearestStep(v float32) int {
	last := float32(s.steps - 1)
	return int(roundHalfEven(max(0, min((v/s.unit-1)*0.5, last))))
}

// choose sets fit to the entries of group g that are nearest at a scale. The entries already in fit only speed it up.
func (s *gridSearch) choose(fit *gridFit, g int, scale float32) {
	fit.targetLevel, fit.levelSquare = 0, 0
	run := max(1, s.offsets/s.c.elems) // entries that share an offset
	for first := 0; first < s.group/s.c.elems; first += run {
		s.chooseRun(fit, g, first, first+run, scale)
	}
}

// chooseRun adds the nearest entries of group g from first up to end to fit. All of them get the offset with the lower
// cost, if the format has offsets.
func (s *gridSearch) chooseRun(fit *gridFit, g, first, end int, scale float32) {
	minus := *fit // the choice with offset -1/8
	var costPlus, costMinus float32
	for v := first; v < end; v++ {
		costPlus += s.nearest(fit, g, v, 0, scale)
		if s.offsets > 0 {
			costMinus += s.nearest(&minus, g, v, 1, scale)
		}
	}
	if s.offsets > 0 && costMinus < costPlus {
		*fit = minus
	}
}

// nearest sets entry v of group g in fit to the entry of the codebook with the least cost, adds to the sums of fit, and
// returns the cost. It uses s.levels[list]: list 1 has the offset -1/8.
func (s *gridSearch) nearest(fit *gridFit, g, v, list int, scale float32) (cost float32) {
	first := g*s.group + v*s.c.elems
	t, w := s.targets[first:][:s.c.elems], s.weights[first:][:s.c.elems]
	levels := &s.levels[list]
	var q quarterCosts
	q.set(s.c.elems, levels, scale, t, w)
	pos, cost := s.c.nearest(&q, int(fit.pos[v]))
	fit.pos[v], fit.minus[v] = uint16(pos), list == 1
	digits := &s.c.digits[pos]
	for i, target := range t {
		level := levels[digits[i&7]&7] // &7 only removes the checks of bounds
		wl := float32(w[i] * level)
		fit.targetLevel += float32(wl * target)
		fit.levelSquare += float32(wl * level)
	}
	return cost
}
