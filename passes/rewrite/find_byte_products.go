package rewrite

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// FindByteProducts rewrites matmuls and convolutions of dequantized int8 operands to integer matmuls. Let x =
// sx*(qx-zx) and w = sw*(qw-zw) for int8 qx and qw, with scales and zero points that are constant along the contraction
// axis. Then x*w is sx*sw*(qx*qw - zx*qw - qx*zw + zx*zw). The first term is an exact integer matmul, and the others
// need only sums of rows and columns (Jacob et al. 2018, arXiv:1712.05877). Later ops, such as requantization, become
// an epilogue.
func FindByteProducts(g *ir.Graph) (*ir.Graph, error) {
	out, err := rewrite(g, nil, func(r *rewriter, n *ir.Node, _ []*ir.Node) *ir.Node {
		p := newInt8Matmul(n)
		if p == nil {
			return nil
		}
		p.rewriter = r
		return p.build()
	})
	if err != nil {
		return nil, err
	}
	return DCE(out)
}

// dequantized is an operand factor*scale*(bytes-zero) with its axes permuted by perm.
type dequantized struct {
	bytes  *ir.Node // i8 or u8
	zero   *ir.Node // integers that broadcast to bytes, or nil
	number float64  // the zero point if zero is nil
	scale  *ir.Node // f32 that broadcasts to bytes, or nil
	factor float64  // of the scale
	perm   []int64  // nil if the axes are not permuted
	rank   int
}

// newDequantized matches n as dequantized i8 or u8. summed says which axes the matmul sums along; scale and zero point
// must be constant along these. It returns nil if n is something else.
func newDequantized(n *ir.Node, summed []bool) *dequantized {
	d := &dequantized{factor: 1, rank: n.Rank()}
	// The argument of the transpose has the summed axes at other positions.
	if n.Op() == ir.OpTranspose {
		d.perm = n.Attrs().Ints("perm")
		unpermuted := make([]bool, len(summed))
		for i, p := range d.perm {
			unpermuted[p] = summed[i]
		}
		n, summed = n.Arg(0), unpermuted
	}
	if n.DType() != ir.F32 {
		return nil
	}
	same := func(s *ir.Node) bool {
		// s may have fewer axes than the operand: they correspond to the last ones.
		for i, is := range summed {
			if at := i - (d.rank - s.Rank()); is && at >= 0 && !s.Shape()[at].Is(1) {
				return false
			}
		}
		return true
	}
	for x := d.inside(n, same); x != nil; x = d.inside(n, same) {
		n = x
	}
	if !isByteValue(n) || !d.wholeZero(n.Arg(0).DType()) {
		return nil
	}
	d.bytes = n.Arg(0)
	return d
}

// inside strips one op, such as an addition, from n and accounts for it in d: the operand is factor*scale*(x-zero) for
// the returned x. It returns nil if it cannot strip an op. same reports whether a tensor is constant along the summed
// axes.
func (d *dequantized) inside(n *ir.Node, same func(*ir.Node) bool) *ir.Node {
	if d.zero != nil { // the zero point is the innermost
		return nil
	}
	var x *ir.Node // n is x*mul + add, up to a tensor that d records
	mul, add := 1.0, 0.0
	switch n.Op() {
	case ir.OpAffine:
		x, mul, add = n.Arg(0), n.Attrs().Float("mul"), n.Attrs().Float("add")
	case ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv:
		x, mul, add = d.insideBinary(n, same)
	}
	if x == nil || mul == 0 || !isFinite(mul) {
		return nil
	}
	// factor*(x*mul + add - number) = factor*mul*(x - (number-add)/mul).
	d.factor, d.number = d.factor*mul, (d.number-add)/mul
	return x
}

// insideBinary is inside for an op n of two arguments: n is x*mul + add if the other argument is a number. If it is a
// tensor, insideBinary records it as the scale or zero point, and returns mul 1 and add 0. It returns x nil if n has no
// such form.
func (d *dequantized) insideBinary(n *ir.Node, same func(*ir.Node) bool) (x *ir.Node, mul, add float64) {
	x, y := n.Arg(0), n.Arg(1)
	v, isNumber := scalarOf(y)
	commutes := n.Op() == ir.OpAdd || n.Op() == ir.OpMul
	if !isNumber && commutes && !keepsShape(n, x) {
		x, y = y, x
		v, isNumber = scalarOf(y)
	}
	// A tensor inside of an addition would scale or shift the added number too, which d cannot represent.
	if !keepsShape(n, x) || !isNumber && (d.number != 0 || !same(y)) {
		return nil, 0, 0
	}
	switch {
	case isNumber && n.Op() == ir.OpAdd:
		return x, 1, v
	case isNumber && n.Op() == ir.OpSub:
		return x, 1, -v
	case isNumber && n.Op() == ir.OpMul:
		return x, v, 0
	case isNumber:
		return x, 1 / v, 0
	case n.Op() == ir.OpMul && d.scale == nil:
		d.scale = y
	case n.Op() == ir.OpSub:
		d.zero = y
	default:
		return nil, 0, 0
	}
	return x, 1, 0
}

// isByteValue reports whether n is a cast from i8 or u8 to f32.
func isByteValue(n *ir.Node) bool {
	return n.Op() == ir.OpCast && n.DType() == ir.F32 &&
		slices.Contains([]ir.DType{ir.I8, ir.U8}, n.Arg(0).DType())
}

// wholeZero reports whether the zero point is a value of dtype t, i8 or u8. It converts it to a number or to a node of
// that dtype.
func (d *dequantized) wholeZero(t ir.DType) bool {
	if z := d.zero; z != nil {
		if z.Op() == ir.OpCast && z.Arg(0).DType() == t { // a zero point given as a byte
			z = z.Arg(0)
		}
		v, ok := wholeScalar(z)
		if !ok {
			d.zero = z
			return z.DType() == t
		}
		d.zero, d.number = nil, v
	}
	low, high := 0.0, 255.0
	if t == ir.I8 {
		low, high = -128, 127
	}
	return d.number == math.Trunc(d.number) && d.number >= low && d.number <= high
}

// wholeScalar returns the value of zero point x if all its elements are the same number.
func wholeScalar(x *ir.Node) (float64, bool) {
	if x.DType().IsFloat() {
		return scalarOf(x)
	}
	for x.Op().Class() == ir.ClassView { // a view changes places of elements, not their values
		x = x.Arg(0)
	}
	if x.Op() != ir.OpConst {
		return 0, false
	}
	v, err := x.Attrs().Data("data").Ints()
	if err != nil || len(v) == 0 || slices.Min(v) != slices.Max(v) {
		return 0, false
	}
	return float64(v[0]), true
}

// int8Matmul is a matmul or convolution of two dequantized operands. It adds the integer form to the new graph.
type int8Matmul struct {
	*rewriter
	n   *ir.Node
	ops [2]*dequantized // the operands
}

// maxByteSum is the largest number of terms (qx-zx)*(qw-zw) with a sum that always fits in i32.
const maxByteSum = math.MaxInt32 / (255 * 255)

// newInt8Matmul matches n as a matmul or convolution of dequantized int8 operands. It returns nil if n is something
// else.
func newInt8Matmul(n *ir.Node) *int8Matmul {
	if n.DType() != ir.F32 || n.Op() != ir.OpMatMul && n.Op() != ir.OpConv {
		return nil
	}
	p := &int8Matmul{n: n}
	if p.count().Max() > maxByteSum { // an i32 sum could overflow
		return nil
	}
	for i := range p.ops {
		summed := make([]bool, n.Arg(i).Rank())
		for _, axis := range p.summedAxes(i) {
			summed[axis] = true
		}
		p.ops[i] = newDequantized(n.Arg(i), summed)
		if p.ops[i] == nil {
			return nil
		}
	}
	return p
}

func (p *int8Matmul) isConv() bool { return p.n.Op() == ir.OpConv }

// count returns the number of terms in the sum of one result element.
func (p *int8Matmul) count() ir.Dim {
	if w := p.n.Arg(1).Shape(); p.isConv() {
		return w[1].Times(w[2:].MaxElems())
	}
	return p.n.Arg(0).Shape()[p.summedAxes(0)[0]]
}

// isTransposed reports whether operand i of a matmul is transposed.
func (p *int8Matmul) isTransposed(i int) bool {
	return p.n.Attrs().Bool([]string{"transpose_a", "transpose_b"}[i])
}

// summedAxes returns the contraction axes of operand i. For a convolution these are all axes except the first, which is
// images or output channels.
func (p *int8Matmul) summedAxes(i int) (axes []int64) {
	rank := int64(p.n.Arg(i).Rank())
	switch {
	case p.isConv():
		for axis := int64(1); axis < rank; axis++ {
			axes = append(axes, axis)
		}
		return axes
	case p.isTransposed(i) == (i == 0):
		return []int64{rank - 2}
	}
	return []int64{rank - 1}
}

// permuted permutes the axes of x, which broadcasts to d.bytes, by d.perm.
func (p *int8Matmul) permuted(d *dequantized, x *ir.Node) *ir.Node {
	if x.Shape().MaxElems() == 1 {
		return p.reshape(x, nil)
	}
	s := x.Shape()
	for len(s) < d.rank {
		s = append(ir.Shape{ir.D(1)}, s...)
	}
	x = p.reshape(x, s)
	if d.perm != nil {
		x = p.transpose(x, d.perm)
	}
	return x
}

// aligned reshapes x, a scale or zero point of operand i with its axes permuted, so that it broadcasts to the result.
// For a matmul it becomes a column for operand 0, and a row for operand 1. For a convolution it has one value per image
// or per output channel.
func (p *int8Matmul) aligned(i int, x *ir.Node) *ir.Node {
	switch {
	case x.Rank() == 0:
		return x
	case p.isConv() && i == 1:
		s := slices.Clone(x.Shape())
		s[0], s[1] = s[1], s[0]
		return p.reshape(x, s)
	case !p.isConv() && p.isTransposed(i):
		return p.swapAxes(x, x.Rank()-2, x.Rank()-1)
	}
	return x
}

// scaled returns y times the scales of both operands.
func (p *int8Matmul) scaled(y *ir.Node) *ir.Node {
	// Scales of one number are multiplied first, so that only one multiplication per result element remains.
	factor, single := 1.0, (*ir.Node)(nil)
	for i, d := range p.ops {
		factor *= d.factor
		if d.scale == nil {
			continue
		}
		switch s := p.aligned(i, p.permuted(d, p.mapped(d.scale))); {
		case s.Rank() > 0:
			y = p.binary(ir.OpMul, y, s)
		case single == nil:
			single = s
		default:
			single = p.binary(ir.OpMul, single, s)
		}
	}
	if single != nil {
		y = p.binary(ir.OpMul, y, single)
	}
	if factor != 1 {
		y = p.binary(ir.OpMul, y, p.scalar(ir.F32, factor))
	}
	return y
}

// build returns the integer matmul, plus the terms of the zero points, times the scales. It converts u8 operands to i8,
// which devices multiply natively.
func (p *int8Matmul) build() *ir.Node {
	var bytes, shift [2]*ir.Node // each operand is (bytes + shift) * scale; a nil shift means 0
	for i, d := range p.ops {
		x, offset := p.mapped(d.bytes), 0.0
		if d.perm != nil {
			x = p.transpose(x, d.perm)
		}
		// A u8 minus 128 is an i8.
		if d.bytes.DType() == ir.U8 {
			offset = 128
		}
		bytes[i] = p.signed(x)
		if d.zero == nil {
			if d.number != offset {
				shift[i] = p.scalar(ir.I32, offset-d.number)
			}
			continue
		}
		zero := p.castTo(p.aligned(i, p.permuted(d, p.mapped(d.zero))), ir.I32)
		shift[i] = p.binary(ir.OpSub, p.scalar(ir.I32, offset), zero)
	}
	attrs := p.n.Attrs()
	if p.isConv() {
		bytes[0], attrs = p.padded(bytes[0])
	}
	y := p.add(p.n.Op(), bytes[:], attrs...)
	// (a + s)*(b + t) = a*b + s*b + a*t + s*t, summed along the contraction axis
	for i, s := range shift {
		if s != nil {
			y = p.binary(ir.OpAdd, y, p.binary(ir.OpMul, p.sums(1-i, bytes[1-i], attrs), s))
		}
	}
	if shift[0] != nil && shift[1] != nil {
		y = p.binary(ir.OpAdd, y, p.binary(ir.OpMul, p.binary(ir.OpMul, shift[0], shift[1]), p.dimValue(p.count())))
	}
	return p.scaled(p.castTo(y, ir.F32))
}

// signed converts u8 to i8 by subtracting 128. It returns i8 unchanged.
func (p *int8Matmul) signed(x *ir.Node) *ir.Node {
	if x.DType() != ir.U8 {
		return x
	}
	return p.castTo(p.binary(ir.OpXor, x, p.scalar(ir.U8, 128)), ir.I8)
}

// padded makes a convolution pad its argument x with the zero point. If the zero point is a number, it becomes an
// attribute. If the zero point is computed, padded adds an XOR with it, a pad with 0, and another XOR with it: the
// padding is then 0 XOR the zero point. It returns the new argument and attributes.
func (p *int8Matmul) padded(x *ir.Node) (*ir.Node, ir.Attrs) {
	d, win, attrs := p.ops[0], ir.WindowOf(p.n), p.n.Attrs()
	without := func(names ...string) ir.Attrs {
		return slices.DeleteFunc(slices.Clone(attrs), func(a ir.Attr) bool { return slices.Contains(names, a.Name) })
	}
	pads := slices.ContainsFunc(slices.Concat(win.Low, win.High), func(n int64) bool { return n > 0 })
	switch {
	case pads && d.zero == nil:
		around := int64(d.number)
		// as the operand itself was shifted to i8
		if d.bytes.DType() == ir.U8 {
			around -= 128
		}
		attrs = append(without("padding_value"), attr("padding_value", around))
	case pads:
		zero := p.signed(p.permuted(d, p.mapped(d.zero)))
		images := []int64{0, 0} // batch and channels are not padded
		x = p.unary(ir.OpPad, p.binary(ir.OpXor, x, zero), attr("low", slices.Concat(images, win.Low)),
			attr("high", slices.Concat(images, win.High)))
		x = p.binary(ir.OpXor, x, zero)
		attrs = without("padding_low", "padding_high")
	}
	return x, attrs
}

// sums returns the sums of operand i's bytes along the contraction axes, in a shape that broadcasts to the result. The
// sums of a convolution's windows are a convolution with ones.
func (p *int8Matmul) sums(i int, bytes *ir.Node, attrs ir.Attrs) *ir.Node {
	if p.isConv() && i == 0 {
		w := slices.Clone(p.n.Arg(1).Shape())
		if p.n.Attrs().Int("groups") == 1 {
			w[0] = ir.D(1)
		}
		ones := p.fill(ir.I8, 1, w)
		return p.add(ir.OpConv, []*ir.Node{bytes, ones}, attrs...)
	}
	return p.aligned(i, p.foldAlong(ir.OpSum, p.castTo(bytes, ir.I32), p.summedAxes(i)...))
}
