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

// alongAxis reshapes v, scales or zero points, so that it broadcasts against x. v is a scalar, a vector along an axis
// of x, or has an element for each block of `block` elements along the axis. block is 0 if there are no blocks.
func (c *call) alongAxis(v, x tensor, axis, block int) tensor {
	switch {
	case v.Rank() == 0 || v.Rank() == 1 && v.Dim(0).Is(1):
		return v.Reshape()
	case v.Rank() == 1 && (block == 0 || x.Rank() > 1):
		return spread(v, c.axis(axis, x.Rank()), x.Rank())
	case block > 0 && v.Rank() == x.Rank():
		axis = c.axis(axis, x.Rank())
		return repeatEach(v, axis, block).Slice(axis, 0, x.Shape()[axis])
	}
	c.fail("scales or zero points %s do not fit %s", v, x)
	return v
}

// quantized rounds x/scale to integers, adds the zero point, if any, and saturates to dtype t.
func quantized(x, scale, zero tensor, t ir.DType) tensor {
	return rounded(x.Div(castTo(scale, x.DType())), zero, t)
}

// requantized rounds x*a*b/scale to integers, adds the zero point, if any, and saturates to dtype t. x has sums of
// products of integers with the scales a and b. It multiplies x by the number a*b/scale, as ONNX Runtime does, because
// other orders round differently.
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

// quantizeLinear builds QuantizeLinear: round(x/scale) + zero point, for integers, and without rounding for floats.
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
	to := dataTypes[t].dtype
	if to.IsFloat() {
		y := x.Div(castTo(scale, x.DType()))
		if !zero.IsZero() {
			y = y.Add(castTo(zero, y.DType()))
		}
		return []*value{c.converted(y, t)}
	}
	c.flag("saturate", true) // read, but without effect: it is for 8-bit floats
	return one(quantized(x, scale, zero, to))
}

// dequantizeNode builds DequantizeLinear. It computes constant scalars and vectors at once. It keeps constant matrices
// as integers, because passes fuse their dequantization into matmuls.
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

// dynamicallyQuantized quantizes x to u8, with the scale and zero point for the range of its elements and 0.
func dynamicallyQuantized(x tensor) (y, scale, zero tensor) {
	low, high := x.ReduceMin().Min(x.Lit(0)), x.ReduceMax().Max(x.Lit(0))
	scale = high.Sub(low).DivScalar(255)
	zero = low.Neg().Div(scale).Clamp(0, 255).Round().Cast(ir.U8)
	return quantized(x, scale, zero, ir.U8), scale, zero
}

// zeroPoint returns input i, a zero point, or the zero Tensor if the node lacks it. A vector of one element becomes a
// scalar. With column, another vector, which has a zero point for each row of a matrix, becomes a column.
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

// exactSum returns f(a, b), for f32 tensors a and b of 8-bit integers. Each element of the result is a sum of n
// products, which exactSum computes in f32 if that is exact, and otherwise in f64.
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

// int8Operand is an operand of an int8 matmul or convolution. An element stands for the number x + shift.
type int8Operand struct {
	x     tensor        // i8, which devices multiply directly
	shift tensor        // i32, in a shape that broadcasts to the result; the zero Tensor means 0
	sums  func() tensor // builds the sums of x over the contraction axis, in a shape that broadcasts to the result
}

// withZero is a tensor x of 8-bit integers and its zero point. The zero Tensor stands for the zero point 0.
type withZero struct{ x, zero tensor }

// withZero returns input x with its zero point, input zero. column is as in zeroPoint.
func (c *call) withZero(x, zero int, column bool) withZero {
	if c.isZero(zero) {
		return withZero{x: c.x(x)}
	}
	return withZero{c.x(x), c.zeroPoint(zero, column)}
}

// int8Operand returns the operand for integers minus their zero point. Unsigned integers are made signed by subtracting
// 128, and the shift adds it again. The caller sets sums.
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

// addZeros returns the product of operands a and b from out, the product of a.x and b.x, by adding the terms with
// shifts: (x+s)(y+t) = xy + s*y + t*x + s*t, summed over count elements.
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

// perOutput appends axes of extent 1 to v [output channels], so that it broadcasts against weights of the given rank. A
// scalar and the zero Tensor stay as they are.
func perOutput(v tensor, rank int) tensor {
	if v.IsZero() || v.Rank() == 0 {
		return v
	}
	return spread(v, 0, rank)
}

// convInteger builds ConvInteger, a convolution of 8-bit integers minus their zero points. Padding has the value of the
// zero point.
func convInteger(c *call) tensor {
	x, w := c.x(0), c.x(1)
	win, zero := c.window(x.Shape(), c.kernelOf(w)), c.zeroPoint(2, false)
	weights := c.withZero(1, 3, false)
	left := c.int8Operand(c.withZero(0, 2, false))
	right := c.int8Operand(withZero{w, perOutput(weights.zero, x.Rank()-1)})
	around, known := c.signedNumber(2, x.DType()) // the zero point, the value of padding
	if !known {
		// Xor with the zero point turns it into 0, which pad inserts. Xor again restores the elements.
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
		return channels(right.x.Cast(ir.I32).Sum(axesFrom(1, w.Rank())...), x.Rank())
	}
	return addZeros(left.x.Conv(right.x, options...), left, right,
		c.b.Scalar(ir.I32, float64(w.Shape()[1:].MaxElems())))
}

// signedNumber returns a zero point, the number of an optional input, as an i8: for dtype t = u8 it subtracts 128.
// known is false if the zero point is not known when the graph is built.
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

// qlinearConvOf builds QLinearConv of x, which is input 0 of the node with channels at axis 1. Inputs 1 and 2 are the
// scale and the zero point of x, inputs 3 to 5 the weights with theirs, inputs 6 and 7 the result's, and input 8 a
// bias.
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
