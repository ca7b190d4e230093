package rewrite

import (
	"math"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// longOrder returns the sorted order of rows that are too long for one workgroup, by a radix sort (see radix_ops.go).
// It returns nil for shorter rows, and if no ir.Dim can express the number of rows.
func (r *rewriter) longOrder(n, x *ir.Node) *ir.Node {
	axis := analysis.Axis(n)
	length := x.Shape()[axis]
	if length.Max() <= maxSort {
		return nil
	}
	last := x.Rank() - 1
	x = r.swapAxes(x, axis, last)
	rows, err := x.Shape()[:last].Numel()
	if err != nil {
		return nil
	}
	shape := ir.Shape{rows, length}
	s := radixSort{rewriter: r, keys: r.reshape(r.keysOf(x, analysis.Descending(n), lowWord), shape)}
	s.sortBy(digitsOf(x.DType()))
	if isWide(x.DType()) { // first by the low half of each key, then by the high half
		s.keys = r.onAxis(ir.OpGather, 1, r.reshape(r.keysOf(x, analysis.Descending(n), highWord), shape), s.places)
		s.sortBy(digitsOf(x.DType()))
	}
	out := r.swapAxes(r.reshape(s.places, x.Shape()), axis, last)
	if n.Op() != ir.OpTopKIndices {
		return out
	}
	return r.slice(out, make([]int64, n.Rank()), n.Shape())
}

// radixSort adds the nodes of a radix sort of rows. keys are the rows' keys, sorted by the digits so far. places are
// the positions that these keys had in the original rows; nil before the first digit.
type radixSort struct {
	*rewriter
	keys, places *ir.Node
	keep         bool // whether the caller also needs the sorted keys
}

// isWide reports whether keys of a dtype have 64 bits.
func isWide(t ir.DType) bool { return t == ir.I64 || t == ir.F64 }

// sortBy sorts by several digits of the keys, one after the other. A digit is given by the bit offset of its 8 bits.
func (s *radixSort) sortBy(digits []int) {
	for i, shift := range digits {
		s.sortByDigit(shift, radixMove{first: s.places == nil, last: !s.keep && i == len(digits)-1})
	}
}

// digitsOf lists the bit offsets of the digits that can differ between keys of a dtype. Keys of floats are made of f32
// values, so that narrower floats have low bits of 0.
func digitsOf(t ir.DType) []int {
	all := []int{0, 8, 16, 24}
	switch t {
	case ir.F16:
		return all[1:]
	case ir.BF16, ir.F8E4M3, ir.F8E5M2:
		return all[2:]
	case ir.I16, ir.U16:
		return all[:2]
	case ir.I8, ir.U8:
		return all[:1]
	}
	return all
}

// The words of a 64-bit key, for keysOf.
const (
	lowWord  = false
	highWord = true
)

// keysOf maps elements to u32 keys. Ascending keys sort the elements in ascending order, or in descending order if
// descending is set. Keys of 64-bit elements have two words: high chooses which one it returns.
func (r *rewriter) keysOf(x *ir.Node, descending, high bool) *ir.Node {
	down := attr("descending", descending)
	least, _ := ir.IntRange(x.DType())
	switch {
	case x.DType() == ir.F64:
		return r.unary(doubleKey, x, attr("high", high), down)
	case x.DType().IsFloat():
		return r.unary(floatKey, x, down)
	case x.DType() == ir.I64 && high: // i64 has no shifts, and divisions truncate
		low := r.binary(ir.OpAnd, x, r.scalar(ir.I64, math.MaxUint32))
		x = r.binary(ir.OpDiv, r.binary(ir.OpSub, x, low), r.scalar(ir.I64, 1<<32))
		x, least = r.castTo(x, ir.I32), math.MinInt32
	case x.DType() == ir.I64:
		x, least = r.castTo(x, ir.U32), 0
	}
	return r.unary(integerKey, x, attr("least", least), down)
}

// sortByDigit sorts by the 8 bits of the keys from bit shift on: it counts the digits of each chunk, computes the
// position where each chunk's elements with a digit begin, and moves the elements.
func (s *radixSort) sortByDigit(shift int, m radixMove) {
	at := attr("shift", int64(shift))
	chunks := ceil.Div(s.keys.Shape()[1].Max(), radixChunk)
	counts := s.unary(radixCount, s.keys, at, attr("chunks", chunks))
	starts := s.starts(counts)
	args := []*ir.Node{s.keys, starts}
	if !m.first {
		args = append(args, s.places)
	}
	s.places = s.add(radixMoves[m], args, at)
	if !m.last {
		s.keys = s.add(radixMoves[m], args, at, attr("output", int64(1)))
	}
}

// starts returns, for each digit and chunk of a row, the position in the sorted row of the first element with this
// digit in this chunk: the number of elements with smaller digits, plus the number with the same digit in earlier
// chunks.
func (s *radixSort) starts(counts *ir.Node) *ir.Node {
	shape := counts.Shape()
	flat := s.reshape(counts, ir.Shape{shape[0], shape[2].Times(radixDigits)})
	sum := s.unary(ir.OpCumSum, flat, attr("axis", 1), attr("exclusive", true))
	// Splitting the scan costs one kernel more, which is less than long rows take in one workgroup each.
	if flat.Shape()[1].Max() > 8*minLongSum {
		if long := s.longScan(sum, flat); long != nil {
			sum = long
		}
	}
	return s.reshape(sum, shape)
}
