package onnx

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

var quantizedOps = table{
	"QuantizeLinear":        manyOp(quantizeLinear),
	"DequantizeLinear":      controlOp(dequantizeNode),
	"DynamicQuantizeLinear": manyOp(dynamicQuantizeLinear),
	"MatMulInteger":         tensorOp(matmulInteger),
	"ConvInteger":           tensorOp(convInteger),
	"QLinearMatMul":         tensorOp(qlinearMatMul),
	"QLinearConv":           tensorOp(qlinearConv),
}

// alongAxis reshapes v, which has scales or zero points, so that it broadcasts against x. v is a scalar, a vector along
// an axis of x, or has an element for each block of `block` elements along the axis. It fails for other shapes.
func (c *call) alongAxis(v, x tensor, axis, block int) tensor {
	switch {
	case v.Rank() == 0 || v.Rank() == 1 && v.Dim(0).Is(1):
		return v.Reshape()
	case v.Rank() == 1 && (block == 0 || x.Rank() > 1):
		axis = c.axis(axis, x.Rank())
		for range x.Rank() - 1 - axis {
			v = v.Unsqueeze(v.Rank())
		}
		return v
	case block > 0 && v.Rank() == x.Rank():
		axis = c.axis(axis, x.Rank())
		s := append(ir.Shape{}, v.Shape()...)
		wide := v.Unsqueeze(axis + 1) // each element is repeated for its block
		wide = wide.Broadcast(wide.Shape()[:axis+1], block, wide.Shape()[axis+2:])
		s[axis] = s[axis].Times(int64(block))
		return wide.Reshape(s).Slice(axis, 0, x.Shape()[axis])
	}
	c.fail("scales or zero points %s do not fit %s", v, x)
	return v
}

// quantized rounds x/scale to integers, adds the zero point, if any, and saturates to dtype t.
func quantized(x, scale, zero tensor, t ir.DType) tensor {
	return rounded(x.Div(castTo(scale, x.DType())), zero, t)
}

// requantized rounds x*a*b/scale to integers, adds the zero point, if any, and saturates to dtype t. x are sums of
// products of integers with the scales a and b. It multiplies by one number, as onnxruntime does, so that both round
// equally.
func requantized(x, a, b, scale, zero tensor, t ir.DType) tensor {
	return rounded(x.Mul(a.Cast(ir.F32).Mul(b.Cast(ir.F32)).Div(scale.Cast(ir.F32))), zero, t)
}

// rounded rounds x to integers, adds the zero point, if any, and saturates to dtype t.
func rounded(x, zero tensor, t ir.DType) tensor {
	y := x.Round()
	if !zero.IsZero() {
		if y.DType() != ir.F64 { // f32 represents integers that f16 and bf16 cannot
			y = castTo(y, ir.F32)
		}
		y = y.Add(castTo(zero, y.DType()))
	}
	return y.Cast(t) // saturates
}

// centred returns x minus the zero point. The result is f32, which represents the difference exactly.
func centred(x, zero tensor) tensor {
	y := x.Cast(ir.F32)
	if zero.IsZero() {
		return y
	}
	return y.Sub(zero.Cast(ir.F32))
}

// quantizeLinear builds QuantizeLinear: it rounds x/scale, and adds the zero point.
func quantizeLinear(c *call) []*value {
	x := c.x(0)
	axis, block := c.intAttr("axis", 1), c.intAttr("block_size", 0)
	t, zero := c.typeAttr("output_dtype"), tensor{}
	if c.has(2) {
		if of := c.typeOf(c.in[2]); t != 0 && t != of {
			c.fail("attribute output_dtype is %s, and the zero point is %s: want the same type", t, of)
		}
		t = c.typeOf(c.in[2])
		if !dataTypes[t].dtype.IsFloat() || !c.isZero(2) {
			zero = c.alongAxis(c.x(2), x, axis, block)
		}
	}
	if t == 0 {
		t = uint8Type
	}
	scale := c.alongAxis(c.x(1), x, axis, block)
	x = castTo(x, c.openDType("precision", scale.DType()))
	row := dataTypes[t]
	if row.dtype.IsFloat() { // floats are not rounded before
		y := x.Div(castTo(scale, x.DType()))
		if !zero.IsZero() {
			y = y.Add(castTo(zero, y.DType()))
		}
		return []*value{c.converted(y, t)}
	}
	c.flag("saturate", true) // only for 8-bit floats
	return one(quantized(x, scale, zero, row.dtype))
}

// dequantizeNode builds DequantizeLinear. It keeps int8 matrices as they are, because passes fuse their dequantization
// into matmuls. It computes smaller constants at once.
func dequantizeNode(c *call) []*value {
	plain := tensorOp(dequantizeLinear)
	if len(c.shapeOf(c.input(0))) < 2 {
		if v := c.folded(plain.build); v != nil {
			return v
		}
	}
	return plain.build(c)
}

// dequantizeLinear computes (x-zero)*scale.
func dequantizeLinear(c *call) tensor {
	x, scale := c.x(0), c.x(1)
	axis, block := c.intAttr("axis", 1), c.intAttr("block_size", 0)
	zero := tensor{}
	if !c.isZero(2) {
		zero = c.alongAxis(c.x(2), x, axis, block)
	}
	y := centred(x, zero).Mul(castTo(c.alongAxis(scale, x, axis, block), ir.F32))
	return castTo(y, c.openDType("output_dtype", scale.DType()))
}

func dynamicQuantizeLinear(c *call) []*value { return several(dynamicallyQuantized(c.x(0))) }

// dynamicallyQuantized quantizes x to u8 by the range of its elements. It returns the scale and the zero point, too.
func dynamicallyQuantized(x tensor) (y, scale, zero tensor) {
	low, high := x.ReduceMin().Min(x.Lit(0)), x.ReduceMax().Max(x.Lit(0))
	scale = high.Sub(low).DivScalar(255)
	zero = low.Neg().Div(scale).Clamp(0, 255).Round().Cast(ir.U8)
	return quantized(x, scale, zero, ir.U8), scale, zero
}

// zeroPoint returns input i, a zero point, or the zero Tensor if it is omitted. With column, a vector with a zero point
// for each row of a matrix becomes a column.
func (c *call) zeroPoint(i int, column bool) tensor {
	if !c.has(i) {
		return tensor{}
	}
	z := c.x(i)
	switch {
	case z.Rank() == 1 && z.Dim(0).Is(1):
		return z.Reshape()
	case column && z.Rank() == 1:
		return z.Unsqueeze(1)
	}
	return z
}

// exactSum computes f, in which each element is a sum of n products of 8-bit integers: in f32 if that is exact, else in
// f64.
func exactSum(n int64, a, b tensor, f func(a, b tensor) tensor) tensor {
	if n > exactF32 {
		a, b = a.Cast(ir.F64), b.Cast(ir.F64)
	}
	return f(a, b)
}

// signed converts u8 to i8 by subtracting the returned offset, and returns i8 unchanged.
func signed(x tensor) (y tensor, offset float64) {
	if x.DType() == ir.U8 {
		return x.Xor(x.Lit(128)).Cast(ir.I8), 128
	}
	return x, 0
}

// isZero reports whether input i is omitted, or a constant of zeros.
func (c *call) isZero(i int) bool {
	if !c.has(i) {
		return true
	}
	d := constant(c.in[i])
	if d == nil {
		return false
	}
	list, err := d.Floats()
	return err == nil && !slices.ContainsFunc(list, func(n float64) bool { return n != 0 })
}

// int8Operand is an operand of an int8 matmul or convolution.
type int8Operand struct {
	x tensor // i8, which devices multiply directly
	// shift is what must be added to an element of x to get its value minus the zero point. It broadcasts to the
	// result; the zero Tensor means 0.
	shift tensor
	sums  func() tensor // sums of x over the contraction axis, in a shape that broadcasts to the result
}

// withZero is a tensor of 8-bit integers and its zero point, the zero Tensor if that is known to be 0.
type withZero struct{ x, zero tensor }

// withZero returns input x with its zero point, input zero. column is as in zeroPoint.
func (c *call) withZero(x, zero int, column bool) withZero {
	if c.isZero(zero) {
		return withZero{x: c.x(x)}
	}
	return withZero{c.x(x), c.zeroPoint(zero, column)}
}

// int8Operand returns the operand of an int8 matmul for integers and their zero point: signed integers, and the shift
// to add to them. Unsigned ones are lowered by an offset, which goes into the shift.
func (c *call) int8Operand(of withZero) int8Operand {
	x, offset := signed(of.x)
	o := int8Operand{x: x}
	switch {
	case !of.zero.IsZero():
		zero := of.zero.Cast(ir.I32)
		o.shift = zero.Lit(offset).Sub(zero)
	case offset != 0:
		o.shift = c.b.Scalar(ir.I32, offset)
	}
	return o
}

// addZeros corrects out, the matmul of a.x and b.x over count elements, for the shifts: (a+sa)(b+sb) = ab + sa*b + a*sb
// + sa*sb, summed over the elements.
func addZeros(out tensor, a, b int8Operand, count tensor) tensor {
	if !a.shift.IsZero() {
		out = out.Add(b.sums().Mul(a.shift))
	}
	if !b.shift.IsZero() {
		out = out.Add(a.sums().Mul(b.shift))
	}
	if !a.shift.IsZero() && !b.shift.IsZero() {
		out = out.Add(a.shift.Mul(b.shift).Mul(count))
	}
	return out
}

// int8MatMul returns the matmul of 8-bit x and y minus their zero points, in i32.
func (c *call) int8MatMul(x, y withZero) tensor {
	if x.x.Rank() < 2 || y.x.Rank() < 2 {
		return exactSum(x.x.Dim(-1).Max(), centred(x.x, x.zero), centred(y.x, y.zero), matmul).Cast(ir.I32)
	}
	left, right := c.int8Operand(x), c.int8Operand(y)
	left.sums = func() tensor { return left.x.Cast(ir.I32).SumKeep(-1) }
	right.sums = func() tensor { return right.x.Cast(ir.I32).SumKeep(-2) }
	return addZeros(left.x.MatMul(right.x), left, right, c.b.DimValue(x.x.Dim(-1)))
}

func matmulInteger(c *call) tensor {
	return c.int8MatMul(c.withZero(0, 2, true), c.withZero(1, 3, false))
}

// qlinearMatMul builds QLinearMatMul: a matmul of quantized operands, with a quantized result.
func qlinearMatMul(c *call) tensor {
	as := c.x(1)
	if as.Rank() == 1 && !as.Dim(0).Is(1) {
		as = as.Unsqueeze(1)
	}
	y := c.int8MatMul(c.withZero(0, 2, true), c.withZero(3, 5, false)).Cast(ir.F32)
	return requantized(y, as, c.x(4), c.x(6), c.x(7), c.dtypeOf(c.in[7]))
}

// perOutput appends axes of extent 1 to v, with one value per output channel, up to the given rank. Then v broadcasts
// against weights of that rank.
func perOutput(v tensor, rank int) tensor {
	if v.IsZero() || v.Rank() == 0 {
		return v
	}
	for range rank - 1 {
		v = v.Unsqueeze(v.Rank())
	}
	return v
}

// convInteger computes a convolution of 8-bit integers, padded by their zero point.
func convInteger(c *call) tensor {
	x, w := c.x(0), c.x(1)
	win, zero := c.window(x.Shape(), c.kernelOf(w)), c.zeroPoint(2, false)
	weights := c.withZero(1, 3, false)
	left := c.int8Operand(c.withZero(0, 2, false))
	right := c.int8Operand(withZero{w, perOutput(weights.zero, x.Rank()-1)})
	// around is the zero point as a number, if it is known before a run.
	around, known := c.signedNumber(2, x.DType())
	if !known { // xor with the zero point turns it into 0, which pad inserts; xor again restores the elements
		zero, _ = signed(zero)
		left.x = left.x.Xor(zero).Pad(append([]int{0, 0}, win.low...), append([]int{0, 0}, win.high...), 0).Xor(zero)
		win.low, win.high = make([]int, len(win.low)), make([]int, len(win.high))
	}
	options := append(win.options(), frontend.PaddingValue(around), frontend.Dilation(win.dilation...),
		frontend.Groups(c.intAttr("group", 1)))
	left.sums = func() tensor {
		s := slices.Clone(w.Shape())
		if c.intAttr("group", 1) == 1 {
			s[0] = ir.D(1)
		}
		return left.x.Conv(c.b.Full(ir.I8, 1, s), options...)
	}
	right.sums = func() tensor {
		axes := make([]int, w.Rank()-1)
		for i := range axes {
			axes[i] = i + 1
		}
		return channels(right.x.Cast(ir.I32).Sum(axes...), x.Rank())
	}
	return addZeros(left.x.Conv(right.x, options...), left, right,
		c.b.Scalar(ir.I32, float64(w.Shape()[1:].MaxElems())))
}

// signedNumber returns the zero point that an input gives for numbers of dtype t (i8 or u8), as a zero point for i8:
// for u8 it subtracts 128. It returns false if the zero point is not known when the graph is built.
func (c *call) signedNumber(input int, t ir.DType) (zero int, known bool) {
	number := 0
	if c.has(input) {
		d := constant(c.in[input])
		if d == nil {
			return 0, false
		}
		list, err := d.Ints()
		if err != nil || len(list) != 1 {
			return 0, false
		}
		number = int(list[0])
	}
	if t == ir.U8 {
		number -= 128
	}
	return number, true
}

// qlinearConv builds QLinearConv: a convolution of quantized operands, with a quantized result.
func qlinearConv(c *call) tensor { return qlinearConvOf(c, c.x(0)) }

// qlinearConvOf builds a convolution of quantized operands, with a quantized result. x is input 0 of the node with the
// channels on axis 1.
func qlinearConvOf(c *call, x tensor) tensor {
	w := c.x(3)
	win := c.window(x.Shape(), c.kernelOf(w))
	zero := tensor{}
	if !c.isZero(5) {
		zero = perOutput(c.zeroPoint(5, false), w.Rank())
	}
	// 8-bit integers minus their zero points are exact in f16. Passes turn this convolution into one of int8 on devices
	// that multiply int8.
	y := centred(x, c.zeroPoint(2, false)).Conv(centred(w, zero),
		append(win.options(), frontend.Dilation(win.dilation...), frontend.Groups(c.intAttr("group", 1)),
			frontend.InPrecision(frontend.HalfPrecision))...)
	if c.has(8) {
		y = y.Add(channels(c.x(8).Cast(y.DType()), x.Rank()))
	}
	ws := c.x(4)
	if ws.Rank() == 1 && !ws.Dim(0).Is(1) {
		ws = channels(ws, x.Rank())
	}
	return requantized(y, c.x(1), ws, c.x(6), c.x(7), c.dtypeOf(c.in[7]))
}
