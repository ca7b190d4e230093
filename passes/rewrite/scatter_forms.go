package rewrite

import (
	"errors"
	"math"
	"math/bits"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// scatterSize describes a scatter of updates [outer, K, inner] to a base [outer, N, inner], folded by a mode or
// overwriting.
type scatterSize struct {
	base, updates ir.Shape
	mode          string
	t             ir.DType
	unordered     bool // floats may be added in any order
	each          bool // one fold per update, of its destination, instead of one per destination
}

// lastOf returns the size of a search for the last of n updates per destination: a fold of the updates' numbers.
func lastOf(limit, n ir.Dim, each bool) scatterSize {
	one := ir.D(1)
	return scatterSize{base: ir.Shape{one, limit, one}, updates: ir.Shape{one, n, one}, mode: "max", t: ir.I32,
		each: each}
}

// wanted returns the number of folds along the axis.
func (s scatterSize) wanted() ir.Dim {
	if s.each {
		return s.updates[1]
	}
	return s.base[1]
}

// nominal are the rates of a device that is not known.
var nominal = kernel.Rates{Bytes: 500, LaunchNs: 5000}

// inFlight is about the number of updates that a device works on at once.
const inFlight = 1 << 16

// form chooses the form of a scatter with the least estimated time on the device. along is the number of comparisons
// per update in the comparing form.
func (r *rewriter) form(s scatterSize, along ir.Dim) kernel.Form {
	places, each := s.elements(s.base), s.elements(s.updates)
	width := float64(s.t.BlockBytes())
	compare := kernel.Work{Form: kernel.FormCompare, Scattered: float64(each * float64(along.Max())), Launches: 1}
	best, least := compare.Form, r.time(compare)
	take := func(w kernel.Work) {
		if t := r.time(w); t < least {
			best, least = w.Form, t
		}
	}
	keys := float64(s.updates[1].Max())
	accumulates := func(f kernel.Form) {
		acc := r.accumulator(f, s)
		if acc.words == 0 || !s.fits() {
			return
		}
		_, w := acc.kernel(r, s)
		w.Form, w.Launches, w.Bytes = f, 3, w.Bytes+float64(8*float64(acc.words)*places)
		if acc.exponents { // an extra pass finds them, and each update reads its destination's
			_, find := scatterExponents.kernel(r, s)
			w.Launches, w.Bytes = w.Launches+2, w.Bytes+find.Bytes+float64(8*places)
			w.Scattered += find.Scattered
		}
		if s.each {
			w.Scattered += each
		}
		take(w)
	}
	accumulates(kernel.FormAccumulate)
	if s.addsFloats() && s.unordered {
		accumulates(kernel.FormAnyOrder)
	}
	if s.sorts() {
		rows := float64(s.wanted().Max())
		turns := (bits.Len64(uint64(s.base[1].Max())) + 7) / 8
		launches := 6
		if s.updates[1].Max() > maxSort {
			launches += 3 * turns
		}
		results := each
		if !s.each {
			results = places
		}
		take(kernel.Work{Form: kernel.FormSort, Launches: launches,
			Bytes: float64(32*keys) + float64(each*width) + float64(2*results*width),
			Scattered: float64(2*keys*float64(turns)) + float64(2*s.sectors(width)) +
				rows*math.Log2(keys+2)/4}) // keys move with numbers
	}
	return best
}

// time estimates the nanoseconds of some work on the device.
func (r *rewriter) time(w kernel.Work) float64 {
	if r.pricer == nil {
		return nominal.Time(w)
	}
	return r.pricer.Price(kernel.Rewrite{Work: &w}).After
}

// sectors is the number of memory sectors in the updates, with elements of the given width, if their rows are not
// adjacent.
func (s scatterSize) sectors(width float64) float64 {
	keys := float64(s.updates[1].Max())
	return float64(keys * math.Ceil(s.elements(s.updates)/max(keys, 1)*width/kernel.Sector))
}

// elements returns the maximum number of elements of a shape, or infinity if it is not expressible as a dim.
func (s scatterSize) elements(of ir.Shape) float64 {
	n := 1.0
	for _, d := range of {
		n *= float64(d.Max())
	}
	return n
}

// fits reports whether positions in the accumulator have at most 31 bits, and grids have no more workgroups than every
// device allows.
func (s scatterSize) fits() bool {
	updates := s.elements(s.updates)
	return s.elements(s.base) <= math.MaxInt32/4 && updates > 0 && updates <= accumulationKinds[accumulateMany].most()
}

// sorts reports whether there are kernels that fold the updates in sorted order.
func (s scatterSize) sorts() bool {
	_, ok := foldsEqual[foldKey{s.mode, analysis.AccType(s.t)}]
	return ok && s.updates[1].Max() > 1 && s.elements(s.updates) > 0 &&
		s.elements(s.updates) <= math.MaxInt32 && s.elements(s.base) <= math.MaxInt32
}

// addsFloats reports whether the scatter adds in f32, so that float atomics can do it.
func (s scatterSize) addsFloats() bool {
	return s.mode == "add" && s.t.IsFloat() && s.t != ir.F64
}

// accumulator describes the kernels that accumulate a scatter's updates.
type accumulator struct {
	accumulationOps
	exponents bool // a kernel first finds the exponents of floats
	swaps     bool // compare-and-swap adds floats
}

// accumulator returns the accumulator of a scatter in a form, with no words if there is none.
func (r *rewriter) accumulator(form kernel.Form, s scatterSize) (a accumulator) {
	wide := s.t == ir.F64 || s.t == ir.I64
	switch {
	case form == kernel.FormAnyOrder:
		a.accumulationOps = scatterFloat
		_, float := a.kernel(r, s)
		_, swap := scatterSwap.kernel(r, s)
		if a.swaps = r.time(swap) < r.time(float); a.swaps {
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

// kernel returns the kernel with the least estimated time that accumulates a scatter, of those that the device can run,
// and its work. The work takes infinite time if there is no kernel.
func (a accumulationOps) kernel(r *rewriter, s scatterSize) (op ir.Op, best kernel.Work) {
	each, slots, words := s.elements(s.updates), s.elements(s.base[:2])*float64(s.updates[2].Max()), float64(a.words)
	pass, others := each*(4+float64(s.t.BlockBytes())), inFlight/max(slots, 1)
	best.Bytes = math.Inf(1)
	for i, kind := range accumulationKinds {
		w := kernel.Work{Bytes: pass, Scattered: float64(each * words)}
		if a.adds { // atomics on neighbours go together
			w.Scattered = s.sectors(4)
		}
		w.Scattered = float64(w.Scattered * (1 + float64(a.waits*others)))
		if kind.words > 0 { // an atomic in shared memory takes a quarter of one in memory
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

// runs reports whether the device can run a custom kernel, or every device if none is known.
func (r *rewriter) runs(k *ir.CustomKernel) bool {
	if r.pricer == nil {
		return len(k.Needs) == 0 && k.SharedBytes <= 16384 && k.Workgroup[0] <= 128
	}
	return kernel.Suits(r.pricer, kernel.Work{Custom: k})
}

// landing has the destination row of each row of updates, or -1 for none, and the number of destination rows.
type landing struct {
	size    scatterSize
	at      *ir.Node // i32[outer*K]
	places  ir.Dim   // outer*N
	updates ir.Dim   // outer*K
}

// landing joins the outer axis of a scatter with the destinations.
func (r *rewriter) landing(s scatterSize, indices *ir.Node) (l landing) {
	places, errPlaces := s.base[:2].Numel()
	updates, errUpdates := s.updates[:2].Numel()
	if err := errors.Join(errPlaces, errUpdates); err != nil && r.err == nil {
		r.err = err
	}
	is, at := r.within(indices, s.base[1])
	if !s.updates[0].Is(1) {
		table := s.updates[:2]
		at = r.binary(ir.OpAdd, at, r.binary(ir.OpMul, r.iota(table, 0), r.dimValue(s.base[1])))
	}
	at = r.add(ir.OpWhere, []*ir.Node{is, at, r.scalar(ir.I32, -1)})
	if r.err == nil {
		at = r.reshape(at, ir.Shape{updates})
	}
	return landing{s, at, places, updates}
}

// slots is the number of columns of all destinations.
func (l landing) slots(r *rewriter, columns ir.Dim) ir.Dim {
	all, err := l.places.Mul2(columns)
	if err != nil && r.err == nil {
		r.err = err
	}
	return all
}

// accumulateInto adds the op that accumulates values, with the given number of columns per index, into the
// destinations. more are the op's further arguments.
func (r *rewriter) accumulateInto(l landing, ops accumulationOps, columns ir.Dim, values *ir.Node, more []*ir.Node,
	attrs ...ir.Attr) *ir.Node {
	slots := l.slots(r, columns)
	if r.err != nil {
		return nil
	}
	op, _ := ops.kernel(r, l.size)
	return r.add(op, append([]*ir.Node{l.at, analysis.Unshaped(values)}, more...),
		append([]ir.Attr{{Name: "slots", Value: slots.Max()}}, attrs...)...)
}

// slotsOf returns the existing slots, or one of their words.
func (r *rewriter) slotsOf(l landing, columns ir.Dim, sums *ir.Node, word int) *ir.Node {
	slots := l.slots(r, columns)
	if r.err != nil {
		return nil
	}
	s := sums.Shape()
	starts, limits := make([]int, len(s)), append(ir.Shape{slots}, s[1:]...)
	if len(s) > 1 {
		starts[1], limits[1] = word, ir.D(word+1)
	}
	if word > 0 || !limits.Equal(s) {
		sums = r.unary(ir.OpSlice, sums, ir.Attr{Name: "starts", Value: starts}, ir.Attr{Name: "limits", Value: limits})
	}
	return r.reshape(sums, ir.Shape{slots})
}

// accumulated returns, for each destination and column, the fold of the updates [outer, K, inner] with that
// destination, in the accumulator dtype: [outer*N*inner].
func (r *rewriter) accumulated(form kernel.Form, l landing, updates *ir.Node) *ir.Node {
	s := l.size
	acc, wide := r.accumulator(form, s), analysis.AccType(s.t)
	values, columns := updates, s.updates[2]
	into := func(ops accumulationOps, values *ir.Node, more []*ir.Node, attrs ...ir.Attr) *ir.Node {
		return r.accumulateInto(l, ops, columns, values, more, attrs...)
	}
	words := func(sums *ir.Node, word int) *ir.Node { return r.slotsOf(l, columns, sums, word) }
	least, _ := ir.IntRange(wide)
	down := ir.Attr{Name: "descending", Value: s.mode == "min"}
	of := ir.Attr{Name: "least", Value: least}
	bitcast := func(x *ir.Node) *ir.Node { return r.unary(ir.OpBitcast, x, ir.Attr{Name: "dtype", Value: ir.F32}) }
	switch {
	case form == kernel.FormAnyOrder:
		sums := words(into(acc.accumulationOps, r.castTo(values, ir.F32), nil), 0)
		if acc.swaps {
			sums = bitcast(sums)
		}
		return sums
	case acc.exponents:
		values = r.castTo(values, ir.F32)
		most := into(scatterExponents, values, nil)
		units := ir.Attr{Name: "lowest", Value: lowestBit(l.updates.Max())}
		sums := into(acc.accumulationOps, values, []*ir.Node{most}, units)
		return bitcast(r.add(fixedFloat, []*ir.Node{words(sums, 0), words(sums, 1),
			words(most, 0)}, units))
	case acc.words == 2:
		low, high := r.wordsOf(values)
		sums := into(acc.accumulationOps, low, []*ir.Node{high})
		return r.fromWords(words(sums, 0), words(sums, 1))
	case s.mode == "add":
		values = r.castTo(r.castTo(values, wide), ir.U32)
		return r.castTo(words(into(acc.accumulationOps, values, nil), 0), wide)
	case s.t.IsFloat():
		sign := func(x *ir.Node) *ir.Node { // the minimum is the negated maximum of negated values; NaN is the largest
			if s.mode == "min" {
				return r.unary(ir.OpNeg, x)
			}
			return x
		}
		keys := r.unary(floatKey, sign(r.castTo(values, ir.F32)))
		return sign(bitcast(r.unary(keyFloat, words(into(acc.accumulationOps, keys, nil), 0))))
	}
	keys := into(acc.accumulationOps, r.unary(integerKey, r.castTo(values, wide), of, down), nil)
	return r.castTo(r.unary(keyInteger, words(keys, 0), of, down), wide)
}

// lowestBit is the number of bits below the last bit of the largest of n floats with which their sum is exact in 63
// bits.
func lowestBit(n int64) int {
	return min(62-24-bits.Len64(uint64(n)), 31)
}

// wordsOf returns the halves of an i64 as u32.
func (r *rewriter) wordsOf(x *ir.Node) (low, high *ir.Node) { // i64 has no shifts, and divisions truncate
	low = r.binary(ir.OpAnd, x, r.scalar(ir.I64, math.MaxUint32))
	high = r.binary(ir.OpDiv, r.binary(ir.OpSub, x, low), r.scalar(ir.I64, 1<<32))
	return r.castTo(low, ir.U32), r.castTo(high, ir.U32)
}

// fromWords returns the i64 of two halves.
func (r *rewriter) fromWords(low, high *ir.Node) *ir.Node {
	high = r.binary(ir.OpMul, r.castTo(high, ir.I64), r.scalar(ir.I64, 1<<32))
	return r.binary(ir.OpAdd, high, r.castTo(low, ir.I64))
}
