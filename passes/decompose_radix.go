package passes

import "github.com/vkc-go/vkc/ir"

// longOrder is the order of rows that no workgroup holds, by a radix sort; nil
// where the keys are too wide, or where the number of rows is no linear
// expression of one symbol.
func (r *rewriter) longOrder(n, x *ir.Node) *ir.Node {
	axis, err := ir.ResolveAxis(int64(n.Attrs().Int("axis")), x.Rank())
	if err != nil {
		r.err = err
		return nil
	}
	length := x.Shape()[axis]
	if n.Op() == ir.OpTopKIndices || length.Max() <= maxSort || x.DType() == ir.I64 || x.DType() == ir.F64 {
		return nil
	}
	last := x.Rank() - 1
	x = r.swapAxes(x, axis, last)
	if r.err != nil {
		return nil
	}
	rows, err := x.Shape()[:last].Numel()
	if err != nil {
		return nil
	}
	s := radixSort{rewriter: r, keys: r.reshape(r.keysOf(x, descending(n)), ir.Shape{rows, length})}
	digits := digitsOf(x.DType())
	for i, shift := range digits {
		s.turn(shift, radixMove{first: i == 0, last: i == len(digits)-1})
	}
	if r.err != nil {
		return nil
	}
	return r.swapAxes(r.reshape(s.places, x.Shape()), axis, last)
}

// radixSort is a sort of rows being made.
type radixSort struct {
	*rewriter
	keys, places *ir.Node
}

// digitsOf lists where in keys of a dtype the digits are that can differ: keys
// of floats are made of f32, whose last bits narrower ones do not have.
func digitsOf(t ir.DType) []int {
	all := []int{0, 8, 16, 24}
	switch t {
	case ir.F16:
		return all[1:]
	case ir.BF16, ir.F8E4M3:
		return all[2:]
	case ir.I8, ir.U8:
		return all[:1]
	}
	return all
}

// keysOf maps elements to numbers in their order.
func (r *rewriter) keysOf(x *ir.Node, descending bool) *ir.Node {
	down := ir.Attr{Name: "descending", Value: descending}
	if x.DType().IsFloat() {
		return r.unary(floatKey, x, down)
	}
	least, _ := ir.IntRange(x.DType())
	return r.unary(integerKey, x, ir.Attr{Name: "least", Value: least}, down)
}

// turn sorts by one digit.
func (s *radixSort) turn(shift int, m radixMove) {
	if s.err != nil {
		return
	}
	at := ir.Attr{Name: "shift", Value: int64(shift)}
	chunks := (s.keys.Shape()[1].Max() + radixChunk - 1) / radixChunk
	counts := s.unary(radixCount, s.keys, at, ir.Attr{Name: "chunks", Value: chunks})
	starts := s.starts(counts)
	if s.err != nil {
		return
	}
	args := []*ir.Node{s.keys, starts}
	if !m.first {
		args = append(args, s.places)
	}
	s.places = s.add(radixMoves[m], args, at)
	if !m.last {
		s.keys = s.add(radixMoves[m], args, at, ir.Attr{Name: "output", Value: int64(1)})
	}
}

// starts is how many elements of a row come before those of each digit and
// chunk: all with a smaller digit, and those of the chunks before.
func (s *radixSort) starts(counts *ir.Node) *ir.Node {
	if s.err != nil {
		return nil
	}
	shape := counts.Shape()
	flat := s.reshape(counts, ir.Shape{shape[0], shape[2].Times(radixDigits)})
	if s.err != nil {
		return nil
	}
	sum := s.unary(ir.OpCumSum, flat, ir.Attr{Name: "axis", Value: 1}, ir.Attr{Name: "exclusive", Value: true})
	if s.err != nil {
		return nil
	}
	// One kernel more costs less than long rows in one workgroup each.
	if flat.Shape()[1].Max() > 8*minLongSum {
		if long := s.longSum(sum, flat); long != nil || s.err != nil {
			sum = long
		}
	}
	return s.reshape(sum, shape)
}
