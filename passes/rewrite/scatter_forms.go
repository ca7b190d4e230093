package rewrite

import (
	"math"
	"math/bits"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// scatterSize describes a scatter by everything that its cost depends on. base is [outer, N, inner], for N destinations
// along the axis of the scatter. updates is [outer, K, inner], for K updates along it. mode is "add", "mul", "min" or
// "max", or "" to overwrite. t is the dtype.
type scatterSize struct {
	base, updates ir.Shape
	mode          string
	t             ir.DType
	unordered     bool // whether floats may be added in any order
	each          bool // whether there is a result for each update (its destination's) instead of each destination
}

// lastOf returns the size of a search for the last of n updates of each destination below limit: a maximum of the
// updates' indices.
func lastOf(limit, n ir.Dim) scatterSize {
	one := ir.D(1)
	return scatterSize{base: ir.Shape{one, limit, one}, updates: ir.Shape{one, n, one}, mode: "max", t: ir.I32}
}

// wanted returns the number of results along the axis of the scatter.
func (s scatterSize) wanted() ir.Dim {
	if s.each {
		return s.updates[1]
	}
	return s.base[1]
}

// nominal are the rates assumed of a device if there is no pricer.
var nominal = kernel.Rates{Bytes: 500, LaunchNs: 5000}

// inFlight is roughly the number of updates that a device works on at the same time.
const inFlight = 1 << 16

// form returns the way to compute a scatter that has the least estimated time on the device. In kernel.FormCompare,
// each destination is compared with `along` indices.
func (r *rewriter) form(s scatterSize, along ir.Dim) kernel.Form {
	// FormCompare always works. It looks at each update once per compared index.
	best := kernel.Work{Form: kernel.FormCompare, Launches: 1,
		Scattered: float64(s.elements(s.updates) * float64(along.Max()))}
	var others []kernel.Work
	if s.fits() {
		others = append(others, r.accumulateWork(kernel.FormAccumulate, s)...)
		if s.addsFloats() && s.unordered {
			others = append(others, r.accumulateWork(kernel.FormAnyOrder, s)...)
		}
	}
	if s.sorts() {
		others = append(others, s.sortWork())
	}
	least := r.time(best)
	for _, w := range others {
		if t := r.time(w); t < least {
			best, least = w, t
		}
	}
	return best.Form
}

// accumulateWork returns the work of accumulating by atomics, or nothing if there is no kernel for the scatter.
func (r *rewriter) accumulateWork(form kernel.Form, s scatterSize) []kernel.Work {
	acc := r.accumulator(form, s)
	if acc.words == 0 {
		return nil
	}
	places := s.elements(s.base)
	_, w := acc.kernel(r, s)
	w.Form, w.Launches, w.Bytes = form, 3, w.Bytes+float64(8*float64(acc.words)*places)
	if acc.exponents { // another kernel finds them, and each update reads the exponent of its destination
		_, find := scatterExponents.kernel(r, s)
		w.Launches, w.Bytes = w.Launches+2, w.Bytes+find.Bytes+float64(8*places)
		w.Scattered += find.Scattered
	}
	if s.each {
		w.Scattered += s.elements(s.updates)
	}
	return []kernel.Work{w}
}

// sortWork returns the work of sorting the updates by their indices (the keys) and reducing them in that order. The
// traffic is an estimate: about 32 bytes for each key that is sorted. Each result finds its updates by a binary search,
// and a step of it counts as a quarter of an access.
func (s scatterSize) sortWork() kernel.Work {
	places, each := s.elements(s.base), s.elements(s.updates)
	keys, width := float64(s.updates[1].Max()), float64(s.t.BlockBytes())
	rows := float64(s.wanted().Max())
	digits := (bits.Len64(uint64(s.base[1].Max())) + 7) / 8 // of 8 bits in an index
	launches := 6
	if s.updates[1].Max() > maxSort {
		launches += 3 * digits // a radix sort has three kernels for each digit
	}
	results := each
	if !s.each {
		results = places
	}
	return kernel.Work{Form: kernel.FormSort, Launches: launches,
		Bytes: float64(32*keys) + float64(each*width) + float64(2*results*width),
		Scattered: float64(2*keys*float64(digits)) + float64(2*s.sectors(width)) + // keys move with their indices
			rows*math.Log2(keys+2)/4}
}

// time estimates the nanoseconds of some work on the device.
func (r *rewriter) time(w kernel.Work) float64 {
	if r.pricer == nil {
		return nominal.Time(w)
	}
	return r.pricer.Price(kernel.Rewrite{Work: &w}).After
}

// sectors returns the number of memory sectors that the updates take, with elements of width bytes, if no two rows
// share a sector.
func (s scatterSize) sectors(width float64) float64 {
	keys := float64(s.updates[1].Max())
	return float64(keys * math.Ceil(s.elements(s.updates)/max(keys, 1)*width/kernel.Sector))
}

// elements returns the number of elements of a shape with its symbols at their bounds. It is a float because it may
// exceed 64 bits.
func (s scatterSize) elements(of ir.Shape) float64 {
	n := 1.0
	for _, d := range of {
		n *= float64(d.Max())
	}
	return n
}

// fits reports whether kernels can accumulate the scatter: positions have at most 31 bits, and grids have no more
// workgroups than every device allows.
func (s scatterSize) fits() bool {
	updates := s.elements(s.updates)
	return s.elements(s.base) <= math.MaxInt32/4 && updates > 0 && updates <= accumulationKinds[accumulateMany].most()
}

// sorts reports whether kernels can reduce the updates in the order of their sorted indices.
func (s scatterSize) sorts() bool {
	_, ok := keyFolds[foldKey{s.mode, kernel.AccType(s.t)}]
	return ok && s.updates[1].Max() > 1 && s.elements(s.updates) > 0 &&
		s.elements(s.updates) <= math.MaxInt32 && s.elements(s.base) <= math.MaxInt32
}

// addsFloats reports whether the scatter adds floats in f32.
func (s scatterSize) addsFloats() bool { return s.mode == "add" && s.t.IsFloat() && s.t != ir.F64 }

// accumulator has the kernels that accumulate a scatter's updates by atomics.
type accumulator struct {
	accumulationOps
	exponents bool // whether another kernel must first find the largest exponent of each destination
	swaps     bool // whether floats are added by compare-and-swap, in any order
}

// accumulator returns the accumulator of a scatter in form FormAccumulate or FormAnyOrder. Its field words is 0 if
// there is none.
func (r *rewriter) accumulator(form kernel.Form, s scatterSize) (a accumulator) {
	wide := s.t == ir.F64 || s.t == ir.I64
	switch {
	case form == kernel.FormAnyOrder:
		a.accumulationOps = scatterFloat
		// Float atomics may be slower than compare-and-swap, or missing.
		_, float := a.kernel(r, s)
		_, swap := scatterSwap.kernel(r, s)
		a.swaps = r.time(swap) < r.time(float)
		if a.swaps {
			a.accumulationOps = scatterSwap
		}
	case s.mode == "add" && s.t == ir.I64:
		a.accumulationOps = scatterWide
	case s.addsFloats():
		a.accumulationOps, a.exponents = scatterFixed, true
	case s.mode == "add" && !wide:
		a.accumulationOps = scatterSum
	case (s.mode == "min" || s.mode == "max") && !wide:
		a.accumulationOps = scatterMost
	}
	return a
}

// kernel returns the fastest of the accumulation's kernels that the device can run for a scatter, and its work. If
// there is none, the work takes infinite time.
func (a accumulationOps) kernel(r *rewriter, s scatterSize) (op ir.Op, best kernel.Work) {
	each := s.elements(s.updates)                                 // number of updates
	slots := s.elements(s.base[:2]) * float64(s.updates[2].Max()) // number of destinations
	words := float64(a.words)                                     // of a destination
	pass := each * (4 + float64(s.t.BlockBytes()))                // bytes of all updates and their indices
	others := inFlight / max(slots, 1)                            // updates in flight to the same destination
	best.Bytes = math.Inf(1)
	for i, kind := range accumulationKinds {
		w := kernel.Work{Bytes: pass, Scattered: float64(each * words)}
		if a.adds { // the device combines atomic additions to adjacent words
			w.Scattered = s.sectors(4)
		}
		w.Scattered = float64(w.Scattered * (1 + float64(a.waits*others)))
		// Each window of destinations in shared memory reads all updates. An atomic there takes a quarter of the time
		// of one in memory. At its end, each workgroup adds its destinations to memory.
		if kind.words > 0 {
			windows := math.Ceil(slots / float64(kind.window(a.words)))
			w = kernel.Work{Bytes: float64(windows * pass),
				Scattered: windows*each*words/4 + float64(math.Ceil(each/float64(kind.tile))*slots*words)}
		}
		fits := each >= float64(kind.least) && each <= kind.most()
		if fits && r.runs(a.ops[i].Info().Custom.Kernel) && r.time(w) < r.time(best) {
			op, best = a.ops[i], w
		}
	}
	return op, best
}

// runs reports whether the device can run a custom kernel. Without a pricer it reports whether every device can.
func (r *rewriter) runs(k *ir.CustomKernel) bool {
	if r.pricer == nil {
		return len(k.Needs) == 0 && k.SharedBytes <= 16384 && k.Workgroup[0] <= 128
	}
	return kernel.Suits(r.pricer, kernel.Work{Custom: k})
}

// destinationRows is a scatter with its first two axes joined: outer*K rows of updates, each of which goes to one of
// outer*N destination rows, or to none. See scatterSize for the letters.
type destinationRows struct {
	size    scatterSize
	at      *ir.Node // i32[outer*K]: the destination row of each row of updates, or -1 for none
	places  ir.Dim   // number of destination rows, outer*N
	updates ir.Dim   // number of rows of updates, outer*K
	slots   ir.Dim   // number of elements of all destination rows
}

// destinationRows returns the rows of a scatter with the given indices.
func (r *rewriter) destinationRows(s scatterSize, indices *ir.Node) (l destinationRows) {
	places, updates := r.numel(s.base[:2]), r.numel(s.updates[:2])
	is, at := r.within(indices, s.base[1])
	if !s.updates[0].Is(1) {
		table := s.updates[:2]
		at = r.binary(ir.OpAdd, at, r.binary(ir.OpMul, r.iota(table, 0), r.dimValue(s.base[1])))
	}
	at = r.where(is, at, r.scalar(ir.I32, -1))
	slots, err := places.Mul2(s.updates[2])
	bailout.Check(err)
	return destinationRows{s, r.reshape(at, ir.Shape{updates}), places, updates, slots}
}

// slotsOf takes sums, the result of an accumulation, and returns the given word of the accumulator of each element of
// the destination rows. sums also has elements beyond them, because its size is for the largest values of symbols.
func (r *rewriter) slotsOf(l destinationRows, sums *ir.Node, word int) *ir.Node {
	s := sums.Shape()
	starts, limits := make([]int64, len(s)), append(ir.Shape{l.slots}, s[1:]...)
	if len(s) > 1 {
		starts[1], limits[1] = int64(word), ir.D(word+1)
	}
	if word > 0 || !limits.Equal(s) {
		sums = r.slice(sums, starts, limits)
	}
	return r.reshape(sums, ir.Shape{l.slots})
}

// accumulated returns the results of a scatter in the dtype of its accumulators, as [outer*N*inner]: for each element
// of the N destination rows, the sum, minimum or maximum (s.mode) of its updates. updates is [outer, K, inner], for K
// rows of updates. form says whether floats may be added in any order.
func (r *rewriter) accumulated(form kernel.Form, l destinationRows, updates *ir.Node) *ir.Node {
	s := l.size
	acc, wide, values := r.accumulator(form, s), kernel.AccType(s.t), updates
	// into accumulates rows of values into their destination rows, by the fastest of ops. more are further arguments.
	into := func(ops accumulationOps, values *ir.Node, more []*ir.Node, attrs ...ir.Attr) *ir.Node {
		op, _ := ops.kernel(r, s)
		return r.add(op, append([]*ir.Node{l.at, analysis.Unshaped(values)}, more...),
			append([]ir.Attr{attr("slots", l.slots.Max())}, attrs...)...)
	}
	words := func(sums *ir.Node, word int) *ir.Node { return r.slotsOf(l, sums, word) }
	switch {
	case form == kernel.FormAnyOrder:
		sums := words(into(acc.accumulationOps, r.castTo(values, ir.F32), nil), 0)
		if acc.swaps {
			sums = r.bitsAsFloat(sums)
		}
		return sums
	case acc.exponents:
		values = r.castTo(values, ir.F32)
		most := into(scatterExponents, values, nil)
		units := attr("lowest", lowestBit(l.updates.Max())) // the unit of the fixed-point sums
		sums := into(acc.accumulationOps, values, []*ir.Node{most}, units)
		return r.bitsAsFloat(r.add(fixedFloat, []*ir.Node{words(sums, 0), words(sums, 1), words(most, 0)}, units))
	case acc.words == 2: // i64
		low, high := r.wordsOf(values)
		sums := into(acc.accumulationOps, low, []*ir.Node{high})
		return r.fromWords(words(sums, 0), words(sums, 1))
	// Sums of words wrap around alike, signed or not.
	case s.mode == "add":
		values = r.castTo(r.castTo(values, wide), ir.U32)
		return r.castTo(words(into(acc.accumulationOps, values, nil), 0), wide)
	}
	return r.extremum(s, values, func(keys *ir.Node) *ir.Node {
		return words(into(acc.accumulationOps, keys, nil), 0)
	})
}

// extremum returns the largest or smallest values by an accumulation of keys with an atomic maximum. Keys are integers
// in the order of the values.
func (r *rewriter) extremum(s scatterSize, values *ir.Node, largestKeys func(keys *ir.Node) *ir.Node) *ir.Node {
	if !s.t.IsFloat() {
		wide := kernel.AccType(s.t)
		least, _ := ir.IntRange(wide)
		of, down := attr("least", least), attr("descending", s.mode == "min")
		keys := largestKeys(r.unary(integerKey, r.castTo(values, wide), of, down))
		return r.castTo(r.unary(keyInteger, keys, of, down), wide)
	}
	sign := func(x *ir.Node) *ir.Node { // the minimum is the negated maximum of negated values; NaN is the largest
		if s.mode == "min" {
			return r.unary(ir.OpNeg, x)
		}
		return x
	}
	keys := largestKeys(r.unary(floatKey, sign(r.castTo(values, ir.F32))))
	return sign(r.bitsAsFloat(r.unary(keyFloat, keys)))
}

// bitsAsFloat returns the f32 with the bits of a word.
func (r *rewriter) bitsAsFloat(x *ir.Node) *ir.Node {
	return r.unary(ir.OpBitcast, x, attr("dtype", ir.F32))
}

// lowestBit returns how many bits a fixed-point sum of n floats keeps below the last bit of the largest float, so that
// the sum fits in 63 bits.
func lowestBit(n int64) int {
	// A float has a significand of 24 bits, and the sum of n numbers has at most bits.Len64(n) bits more than each.
	return min(62-24-bits.Len64(uint64(n)), 31)
}

// wordsOf returns the low and high words of an i64 as u32.
func (r *rewriter) wordsOf(x *ir.Node) (low, high *ir.Node) { // i64 has no shifts, and divisions truncate
	low = r.binary(ir.OpAnd, x, r.scalar(ir.I64, math.MaxUint32))
	high = r.binary(ir.OpDiv, r.binary(ir.OpSub, x, low), r.scalar(ir.I64, 1<<32))
	return r.castTo(low, ir.U32), r.castTo(high, ir.U32)
}

// fromWords returns the i64 with the given words.
func (r *rewriter) fromWords(low, high *ir.Node) *ir.Node {
	high = r.binary(ir.OpMul, r.castTo(high, ir.I64), r.scalar(ir.I64, 1<<32))
	return r.binary(ir.OpAdd, high, r.castTo(low, ir.I64))
}
