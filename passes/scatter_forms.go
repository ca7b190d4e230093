package passes

import (
	"errors"
	"math"
	"math/bits"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// scatterForm is a way to compute a scatter. Each gives the same bits in every run.
type scatterForm uint8

const (
	compareAll scatterForm = iota // each destination is compared with each index; simple, but the work is quadratic
	accumulate                    // updates change destinations by integer atomics
	sortFirst                     // updates in the order of their indices are folded
)

// scatterSize describes a scatter of updates [outer, K, inner] to a base [outer, N, inner], folded by a mode or
// overwriting.
type scatterSize struct {
	base, updates ir.Shape
	mode          string
	t             ir.DType
}

// nominal are the rates of a device that is not known.
var nominal = kernel.Rates{Bytes: 500, LaunchNs: 5000}

// minShared is how many updates fill a device by workgroups that accumulate in shared memory.
const minShared = 1 << 16

// form chooses the form of a scatter with the least estimated time on the device. steps is the number of comparisons in
// the comparing form.
func (r *rewriter) form(s scatterSize, steps float64) scatterForm {
	time := nominal.Time
	if r.pricer != nil {
		time = r.pricer.Time
	}
	places, each := s.elements(s.base), s.elements(s.updates)
	width := float64(s.t.BlockBytes())
	best, least := compareAll, time(kernel.Work{Form: "compare", Places: steps, Launches: 1})
	take := func(f scatterForm, w kernel.Work) {
		if t := time(w); t < least {
			best, least = f, t
		}
	}
	if acc := s.accumulator(); acc.words > 0 && s.fits() {
		w := kernel.Work{Form: "accumulate", Launches: 3, Bytes: each*(4+width) + 8*float64(acc.words)*places}
		if !acc.near(s) {
			w.Places = each * float64(acc.words)
		}
		if acc.exponents { // an extra pass finds them, and each update reads its destination's
			w.Places, w.Launches = w.Places+each, w.Launches+2
			w.Bytes += each*(4+width) + 8*places
		}
		take(accumulate, w)
	}
	if s.sorts() && r.pricerHas(s.t) {
		keys, rows := float64(s.updates[1].Max()), float64(s.base[1].Max())
		turns := (bits.Len64(uint64(s.base[1].Max())) + 7) / 8
		launches := 6
		if s.updates[1].Max() > maxSort {
			launches += 3 * turns
		}
		sectors := keys * math.Ceil(each/max(keys, 1)*width/kernel.Sector) // of rows that are no neighbours
		take(sortFirst, kernel.Work{Form: "sort", Launches: launches, Bytes: each*width + 2*places*width,
			Places: keys*float64(turns) + sectors + rows*math.Log2(keys+2)/4})
	}
	return best
}

func (r *rewriter) pricerHas(t ir.DType) bool {
	return r.pricer == nil || t != ir.I64 || r.pricer.Has("int64")
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
	return s.elements(s.base) <= math.MaxInt32/4 && updates > 0 && updates <= scatterTile*math.MaxUint16
}

// sorts reports whether there are kernels that fold the updates in sorted order.
func (s scatterSize) sorts() bool {
	_, ok := foldsEqual[foldKey{s.mode, accType("", s.t)}]
	return ok && s.updates[1].Max() > 1 && s.elements(s.updates) > 0 &&
		s.elements(s.updates) <= math.MaxInt32 && s.elements(s.base) <= math.MaxInt32
}

// accumulator describes the kernels that accumulate a scatter's updates.
type accumulator struct {
	accumulationOps
	exponents bool // a kernel first finds the exponents of floats
}

// accumulator returns the accumulator of a scatter, with no words if there is none.
func (s scatterSize) accumulator() accumulator {
	float, wide := s.t.IsFloat(), s.t == ir.F64 || s.t == ir.I64
	switch {
	case s.mode == "" && s.updates[0].Is(1): // the last update of a destination
		return accumulator{scatterMost, false}
	case s.mode == "add" && s.t == ir.I64:
		return accumulator{scatterWide, false}
	case s.mode == "add" && float && !wide:
		return accumulator{scatterFixed, true}
	case s.mode == "add" && !wide:
		return accumulator{scatterSum, false}
	case (s.mode == "min" || s.mode == "max") && !wide:
		return accumulator{scatterMost, false}
	}
	return accumulator{}
}

// near reports whether workgroups should accumulate in shared memory: all destinations fit, and there are many updates.
func (a accumulationOps) near(s scatterSize) bool {
	columns := 1.0
	if s.mode != "" {
		columns = float64(s.updates[2].Max())
	}
	return float64(s.base[0].Max())*float64(s.base[1].Max())*columns*float64(a.words) <= sharedWords &&
		s.elements(s.updates) >= minShared
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
	at := r.below(indices, s.base[1])
	if !s.updates[0].Is(1) {
		table := s.updates[:2]
		moved := r.binary(ir.OpAdd, at, r.binary(ir.OpMul, r.iota(table, 0), r.dimValue(s.base[1])))
		at = r.add(ir.OpWhere, []*ir.Node{r.binary(ir.OpGe, at, r.scalar(ir.I32, 0)), moved, r.scalar(ir.I32, -1)})
	}
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

// accumulateInto accumulates values, with the given number of columns per index, into the words of slots. more are
// further arguments of the kernel.
func (r *rewriter) accumulateInto(l landing, ops accumulationOps, columns ir.Dim, values *ir.Node, more []*ir.Node,
	attrs ...ir.Attr) *ir.Node {
	slots := l.slots(r, columns)
	if r.err != nil {
		return nil
	}
	op := ops.far
	if ops.near(l.size) {
		op = ops.shared
	}
	return r.add(op, append([]*ir.Node{l.at, unshaped(values)}, more...),
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
func (r *rewriter) accumulated(l landing, updates *ir.Node) *ir.Node {
	s := l.size
	acc, wide := s.accumulator(), accType("", s.t)
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
	case acc.exponents:
		values = r.castTo(values, ir.F32)
		most := into(scatterExponents, values, nil)
		units := ir.Attr{Name: "lowest", Value: lowestBit(l.updates.Max())}
		sums := into(acc.accumulationOps, values, []*ir.Node{most}, units)
		return bitcast(r.add(fixedFloat, []*ir.Node{words(sums, 0), words(sums, 1),
			words(most, 0)}, units))
	case acc.words == 2: // i64 has no shifts, and divisions truncate
		low := r.binary(ir.OpAnd, values, r.scalar(ir.I64, math.MaxUint32))
		high := r.binary(ir.OpDiv, r.binary(ir.OpSub, values, low), r.scalar(ir.I64, 1<<32))
		sums := into(acc.accumulationOps, r.castTo(low, ir.U32), []*ir.Node{r.castTo(high, ir.U32)})
		low, high = r.castTo(words(sums, 0), ir.I64), r.castTo(words(sums, 1), ir.I64)
		return r.binary(ir.OpAdd, r.binary(ir.OpMul, high, r.scalar(ir.I64, 1<<32)), low)
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

// lastUpdate returns, for each destination, the last row of updates with that destination, or -1: i32[outer*N].
func (r *rewriter) lastUpdate(l landing) *ir.Node {
	one := ir.D(1)
	numbers := r.castTo(r.binary(ir.OpAdd, r.iota(ir.Shape{l.updates}, 0), r.scalar(ir.I32, 1)), ir.U32)
	last := r.slotsOf(l, one, r.accumulateInto(l, scatterMost, one, numbers, nil), 0)
	return r.binary(ir.OpSub, r.castTo(last, ir.I32), r.scalar(ir.I32, 1))
}
