package passes

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// findByteProducts has products and convolutions of dequantized bytes multiply the bytes. With x = sx*(qx-zx) and
// w = sw*(qw-zw), scales and zero points that are the same along what is summed, x*w is
// sx*sw*(qx*qw - zx*qw - qx*zw + zx*zw), whose products are exact integers and whose other terms take sums of rows and
// columns (Jacob et al. 2018, arXiv:1712.05877). What is made of the result, such as bytes of another scale, is an
// epilogue. A convolution multiplies the bytes less their zero points, which f16 holds.
func findByteProducts(g *ir.Graph) (*ir.Graph, error) {
	out, err := ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		p := newByteProduct(n)
		if p == nil {
			return rw.Copy(n, args)
		}
		p.rewriter, p.mapped = &rewriter{g: rw.New, pos: n.Pos()}, rw.Mapped
		build := p.matmul
		if n.Op() == ir.OpConv {
			build = p.conv
		}
		result := build()
		return result, p.err
	})
	if err != nil {
		return nil, err
	}
	return dce(out)
}

// dequantized is an operand that is scale*(bytes-zero), seen in another order of its axes.
type dequantized struct {
	bytes  *ir.Node // i8 or u8
	zero   *ir.Node // integers, which broadcast to bytes, or nil
	number float64  // the zero point where zero is nil
	scale  *ir.Node // f32, which broadcasts to bytes, or nil
	factor float64  // of the scale
	perm   []int64  // or nil
	rank   int
}

// newDequantized returns what n is made of, if it is dequantized bytes whose scale and zero point are the same along
// the axes that summed says, or nil.
func newDequantized(n *ir.Node, summed []bool) *dequantized {
	d := &dequantized{factor: 1, rank: n.Rank()}
	if n.Op() == ir.OpTranspose {
		d.perm = n.Attrs().Ints("perm")
		of := make([]bool, len(summed))
		for i, p := range d.perm {
			of[p] = summed[i]
		}
		n, summed = n.Arg(0), of
	}
	if n.DType() != ir.F32 {
		return nil
	}
	same := func(s *ir.Node) bool {
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

// inside takes one op off n, which is factor*scale*(n-zero), and returns what is left, or nil where no more is taken
// off.
func (d *dequantized) inside(n *ir.Node, same func(*ir.Node) bool) *ir.Node {
	if d.zero != nil { // which is inside of all else
		return nil
	}
	mul, add := 1.0, 0.0
	switch n.Op() {
	case ir.OpAffine:
		mul, add = n.Attrs().Float("mul"), n.Attrs().Float("add")
		n = n.Arg(0)
	case ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv:
		x, y := n.Arg(0), n.Arg(1)
		v, isNumber := scalarOf(y)
		if !isNumber && (n.Op() == ir.OpAdd || n.Op() == ir.OpMul) && !keepsShape(n, x) {
			x, y = y, x
			v, isNumber = scalarOf(y)
		}
		if !keepsShape(n, x) || !isNumber && (d.number != 0 || !same(y)) {
			return nil
		}
		switch {
		case isNumber && n.Op() == ir.OpAdd:
			add = v
		case isNumber && n.Op() == ir.OpSub:
			add = -v
		case isNumber && n.Op() == ir.OpMul:
			mul = v
		case isNumber:
			mul = 1 / v
		case n.Op() == ir.OpMul && d.scale == nil:
			d.scale = y
		case n.Op() == ir.OpSub:
			d.zero = y
		default:
			return nil
		}
		n = x
	default:
		return nil
	}
	if mul == 0 || mul-mul != 0 {
		return nil
	}
	d.factor, d.number = d.factor*mul, (d.number-add)/mul
	return n
}

// isByteValue reports whether n is bytes as floats.
func isByteValue(n *ir.Node) bool {
	return n.Op() == ir.OpCast && n.DType() == ir.F32 && isByte(n.Arg(0).DType())
}

func isByte(t ir.DType) bool { return t == ir.I8 || t == ir.U8 }

// wholeZero reports whether the zero point is one of bytes of that type, and makes a number of it, or a node of
// integers.
func (d *dequantized) wholeZero(t ir.DType) bool {
	if z := d.zero; z != nil {
		if z.Op() == ir.OpCast && z.Arg(0).DType() == t {
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

// wholeScalar returns the number that a zero point is, whatever its shape.
func wholeScalar(x *ir.Node) (float64, bool) {
	if x.DType().IsFloat() {
		return scalarOf(x)
	}
	for isView(x) {
		x = x.Arg(0)
	}
	if x.Op() != ir.OpConst || x.Shape().MaxElems() != 1 {
		return 0, false
	}
	v, err := x.Attrs().Data("data").Ints()
	return float64(append(v, 0)[0]), err == nil && len(v) == 1
}

// byteProduct is a product whose operands are dequantized bytes.
type byteProduct struct {
	*rewriter
	n      *ir.Node
	ops    [2]*dequantized
	mapped func(*ir.Node) *ir.Node
}

// maxByteSum is of how many products of bytes less zero points a sum fits in an i32.
const maxByteSum = math.MaxInt32 / (255 * 255)

// newByteProduct returns n as a product of bytes, or nil.
func newByteProduct(n *ir.Node) *byteProduct {
	if n.DType() != ir.F32 || n.Op() != ir.OpMatMul && n.Op() != ir.OpConv {
		return nil
	}
	p := &byteProduct{n: n}
	for i := range p.ops {
		x := n.Arg(i)
		summed := make([]bool, x.Rank())
		if n.Op() == ir.OpMatMul {
			at := p.summedAxis(i)
			summed[at] = true
			if x.Shape()[at].Max() > maxByteSum {
				return nil
			}
		} else { // all but the images, or the channels that are made
			for a := 1; a < len(summed); a++ {
				summed[a] = true
			}
		}
		if p.ops[i] = newDequantized(x, summed); p.ops[i] == nil {
			return nil
		}
	}
	return p
}

// isTransposed reports whether operand i of a matmul is.
func (p *byteProduct) isTransposed(i int) bool {
	return p.n.Attrs().Bool([]string{"transpose_a", "transpose_b"}[i])
}

// summedAxis is the axis of operand i of a matmul that is summed over.
func (p *byteProduct) summedAxis(i int) int {
	if p.isTransposed(i) == (i == 0) {
		return p.n.Arg(i).Rank() - 2
	}
	return p.n.Arg(i).Rank() - 1
}

// seen is a node beside the bytes of an operand, which broadcasts to them, in the operand's order of axes.
func (p *byteProduct) seen(d *dequantized, x *ir.Node) *ir.Node {
	if p.err != nil || x.Shape().MaxElems() == 1 {
		return p.reshape(x, nil)
	}
	s := x.Shape()
	for len(s) < d.rank {
		s = append(ir.Shape{ir.D(1)}, s...)
	}
	x = p.reshape(x, s)
	if d.perm != nil {
		x = p.unary(ir.OpTranspose, x, ir.Attr{Name: "perm", Value: d.perm})
	}
	return x
}

// beside is seen for something that stands beside the result of a matmul: a column for operand 0, a row for 1.
func (p *byteProduct) beside(i int, x *ir.Node) *ir.Node {
	if x = p.seen(p.ops[i], x); p.err == nil && x.Rank() > 0 && p.isTransposed(i) {
		x = p.swapAxes(x, x.Rank()-2, x.Rank()-1)
	}
	return x
}

// scaled multiplies by the scales of both operands, each put where it belongs.
func (p *byteProduct) scaled(y *ir.Node, put func(i int, x *ir.Node) *ir.Node) *ir.Node {
	factor, single := 1.0, (*ir.Node)(nil)
	for i, d := range p.ops {
		factor *= d.factor
		if d.scale == nil {
			continue
		}
		switch s := put(i, p.mapped(d.scale)); {
		case p.err != nil:
			return nil
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

// matmul is the product of signed bytes, which devices multiply as they are, and what zero points add to it. Bytes
// without a sign become signed ones, each less by 128, and their zero points, too.
func (p *byteProduct) matmul() *ir.Node {
	var bytes, shift [2]*ir.Node // shift is what a byte lacks to its value less the zero point, or nil
	for i, d := range p.ops {
		x, offset := p.mapped(d.bytes), 0.0
		if d.perm != nil {
			x = p.unary(ir.OpTranspose, x, ir.Attr{Name: "perm", Value: d.perm})
		}
		if d.bytes.DType() == ir.U8 {
			x, offset = p.castTo(p.binary(ir.OpXor, x, p.scalar(ir.U8, 128)), ir.I8), 128
		}
		bytes[i] = x
		if d.zero == nil {
			if d.number != offset {
				shift[i] = p.scalar(ir.I32, offset-d.number)
			}
			continue
		}
		shift[i] = p.binary(ir.OpSub, p.scalar(ir.I32, offset), p.castTo(p.beside(i, p.mapped(d.zero)), ir.I32))
	}
	y := p.add(ir.OpMatMul, bytes[:], p.n.Attrs()...)
	for i, s := range shift {
		if s == nil || p.err != nil {
			continue
		}
		other := 1 - i
		sums := p.unary(ir.OpSum, p.castTo(bytes[other], ir.I32),
			ir.Attr{Name: "axes", Value: []int64{int64(p.summedAxis(other))}}, ir.Attr{Name: "keepdims", Value: true})
		if p.err == nil && p.isTransposed(other) {
			sums = p.swapAxes(sums, sums.Rank()-2, sums.Rank()-1)
		}
		y = p.binary(ir.OpAdd, y, p.binary(ir.OpMul, sums, s))
	}
	if shift[0] != nil && shift[1] != nil {
		count := p.dimValue(p.n.Arg(0).Shape()[p.summedAxis(0)])
		y = p.binary(ir.OpAdd, y, p.binary(ir.OpMul, p.binary(ir.OpMul, shift[0], shift[1]), count))
	}
	if p.err != nil {
		return nil
	}
	return p.scaled(p.castTo(y, ir.F32), p.beside)
}

// conv is the convolution of bytes less their zero points, small whole numbers that need not be more than f16.
func (p *byteProduct) conv() *ir.Node {
	args := make([]*ir.Node, 2)
	for i, d := range p.ops {
		x := p.castTo(p.mapped(d.bytes), ir.F32)
		if d.zero != nil {
			x = p.binary(ir.OpSub, x, p.castTo(p.mapped(d.zero), ir.F32))
		} else if d.number != 0 {
			x = p.binary(ir.OpSub, x, p.scalar(ir.F32, d.number))
		}
		if d.perm != nil {
			x = p.unary(ir.OpTranspose, x, ir.Attr{Name: "perm", Value: d.perm})
		}
		args[i] = x
	}
	attrs := p.n.Attrs()
	if !ir.AllowsHalf(precision(p.n)) {
		attrs = append(slices.DeleteFunc(slices.Clone(attrs), func(a ir.Attr) bool { return a.Name == "precision" }),
			ir.Attr{Name: "precision", Value: ir.PrecisionHalf})
	}
	y := p.add(ir.OpConv, args, attrs...)
	return p.scaled(y, func(i int, x *ir.Node) *ir.Node {
		if x = p.seen(p.ops[i], x); p.err != nil || x.Rank() == 0 || i == 0 {
			return x
		}
		s := x.Shape() // one for each channel that is made
		return p.reshape(x, append(ir.Shape{ir.D(1)}, append(ir.Shape{s[0]}, s[2:]...)...))
	})
}
