package onnx

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

var quantizedOps = table{
	"QuantizeLinear":        tensorOp(quantizeLinear),
	"DequantizeLinear":      controlOp(dequantizeNode),
	"DynamicQuantizeLinear": manyOp(dynamicQuantizeLinear),
	"MatMulInteger":         tensorOp(matmulInteger),
	"ConvInteger":           tensorOp(convInteger),
	"QLinearMatMul":         tensorOp(qlinearMatMul),
	"QLinearConv":           tensorOp(qlinearConv),
}

// alongAxis shapes scales or zero points, a scalar, a vector along an axis of x, or blocks of x, to broadcast
// against it.
func (c *call) alongAxis(v, x tensor, axis, block int) tensor {
	switch {
	case v.Rank() == 0 || v.Rank() == 1 && v.Dim(0).Is(1):
		return v.Reshape()
	case v.Rank() == 1:
		axis = c.axis(axis, x.Rank())
		for range x.Rank() - 1 - axis {
			v = v.Unsqueeze(v.Rank())
		}
		return v
	case block > 0 && v.Rank() == x.Rank():
		axis = c.axis(axis, x.Rank())
		s := append(ir.Shape{}, v.Shape()...)
		wide := v.Unsqueeze(axis + 1)
		wide = wide.Broadcast(wide.Shape()[:axis+1], block, wide.Shape()[axis+2:])
		s[axis] = s[axis].Times(int64(block))
		return wide.Reshape(s).Slice(axis, 0, x.Shape()[axis])
	}
	c.fail("scales or zero points %s for %s", v, x)
	return v
}

// quantized rounds x/scale to integers of dtype t around a zero point, which may be left out.
func quantized(x, scale, zero tensor, t ir.DType) tensor {
	y := x.Div(castTo(scale, x.DType())).Round()
	if !zero.IsZero() {
		y = y.Add(castTo(zero, x.DType()))
	}
	return y.Cast(t) // which saturates
}

// centred is integers less their zero point, in f32, which holds them exactly.
func centred(x, zero tensor) tensor {
	y := x.Cast(ir.F32)
	if zero.IsZero() {
		return y
	}
	return y.Sub(zero.Cast(ir.F32))
}

func quantizeLinear(c *call) tensor {
	x := c.x(0)
	axis, block := c.intAttr("axis", 1), c.intAttr("block_size", 0)
	t, zero := c.dtypeAttr("output_dtype", ir.U8), tensor{}
	if c.has(2) {
		if c.in[2].narrow {
			c.fail("results of four bits are not supported")
		}
		t = c.dtypeOf(c.in[2])
		zero = c.alongAxis(c.x(2), x, axis, block)
	}
	if x.DType().IsInteger() {
		x = x.Cast(ir.F32)
	}
	return quantized(x, c.alongAxis(c.x(1), x, axis, block), zero, t)
}

// dequantizeNode leaves matrices as bytes, which products multiply as they are (package passes), and computes smaller
// constants.
func dequantizeNode(c *call) []*value {
	plain := tensorOp(dequantizeLinear)
	if len(c.shapeOf(c.input(0))) < 2 {
		if v := c.folded(&plain); v != nil {
			return v
		}
	}
	return plain.build(c)
}

func dequantizeLinear(c *call) tensor {
	x, scale := c.x(0), c.x(1)
	axis, block := c.intAttr("axis", 1), c.intAttr("block_size", 0)
	zero := tensor{}
	if !c.isZero(2) {
		zero = c.alongAxis(c.x(2), x, axis, block)
	}
	y := centred(x, zero).Mul(castTo(c.alongAxis(scale, x, axis, block), ir.F32))
	return castTo(y, scale.DType())
}

func dynamicQuantizeLinear(c *call) []*value {
	x := c.x(0)
	low, high := x.ReduceMin().Min(x.Lit(0)), x.ReduceMax().Max(x.Lit(0))
	scale := high.Sub(low).DivScalar(255)
	zero := low.Neg().Div(scale).Clamp(0, 255).Round().Cast(ir.U8)
	return several(quantized(x, scale, zero, ir.U8), scale, zero)
}

// zeroPoint is input i, or the zero Tensor where it is left out. One for each row of a matrix is a column.
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

// exactly computes a sum of products of bytes in floats: f32 where n of them are exact in it, else f64.
func exactly(n int64, a, b tensor, f func(a, b tensor) tensor) tensor {
	if n > exactF32 {
		a, b = a.Cast(ir.F64), b.Cast(ir.F64)
	}
	return f(a, b)
}

// signed makes bytes of signs of those without, of which each is less by the offset that it returns.
func signed(x tensor) (tensor, float64) {
	if x.DType() == ir.U8 {
		return x.Xor(x.Lit(128)).Cast(ir.I8), 128
	}
	return x, 0
}

// isZero reports whether input i is left out, or nothing but zeros that are known when the graph is built.
func (c *call) isZero(i int) bool {
	if !c.has(i) {
		return true
	}
	d := constant(c.in[i])
	if d == nil {
		return false
	}
	list, err := d.Ints()
	return err == nil && !slices.ContainsFunc(list, func(n int64) bool { return n != 0 })
}

// byteProduct is the product of matrices of bytes, inputs a and b, less their zero points, inputs za and zb, in i32: of
// signed bytes, which devices multiply as they are, and what the zero points add to that,
// (a-za)(b-zb) = ab - za*b - a*zb + za*zb, by the sums of columns and of rows.
func (c *call) byteProduct(a, za, b, zb int) tensor {
	x, y := c.x(a), c.x(b)
	if x.Rank() < 2 || y.Rank() < 2 {
		x, y := centred(x, c.zeroPoint(za, true)), centred(y, c.zeroPoint(zb, false))
		return exactly(x.Dim(-1).Max(), x, y, matmul).Cast(ir.I32)
	}
	left, offA := signed(x)
	right, offB := signed(y)
	out := left.MatMul(right)
	// shift is what a byte lacks to its value less the zero point.
	shift := func(zero tensor, offset float64) tensor {
		if zero.IsZero() {
			return c.b.Scalar(ir.I32, offset)
		}
		zero = zero.Cast(ir.I32)
		return zero.Lit(offset).Sub(zero)
	}
	plainA, plainB := offA == 0 && c.isZero(za), offB == 0 && c.isZero(zb)
	shiftA, shiftB := shift(c.zeroPoint(za, true), offA), shift(c.zeroPoint(zb, false), offB)
	if !plainA {
		out = out.Add(right.Cast(ir.I32).SumKeep(-2).Mul(shiftA))
	}
	if !plainB {
		out = out.Add(left.Cast(ir.I32).SumKeep(-1).Mul(shiftB))
	}
	if !plainA && !plainB {
		out = out.Add(shiftA.Mul(shiftB).Mul(c.b.DimValue(left.Dim(-1))))
	}
	return out
}

func matmulInteger(c *call) tensor { return c.byteProduct(0, 2, 1, 3) }

func qlinearMatMul(c *call) tensor {
	as := c.x(1)
	if as.Rank() == 1 && !as.Dim(0).Is(1) {
		as = as.Unsqueeze(1)
	}
	y := c.byteProduct(0, 2, 3, 5).Cast(ir.F32)
	return quantized(y.Mul(as.Cast(ir.F32)).Mul(c.x(4).Cast(ir.F32)), c.x(6).Cast(ir.F32), c.x(7), c.dtypeOf(c.in[7]))
}

// intConv is a convolution of whole numbers, around which it is padded by zeros.
func (c *call) intConv(x, w tensor, options ...frontend.WindowOption) tensor {
	win := c.window(x.Shape(), c.kernelOf(w))
	return x.Conv(w, slices.Concat(win.options(), options, []frontend.WindowOption{frontend.Dilation(win.dilation...),
		frontend.Groups(c.intAttr("group", 1))})...)
}

// perOutput shapes one for each channel of a convolution's result to stand beside its weights.
func perOutput(v tensor, rank int) tensor {
	if v.IsZero() || v.Rank() == 0 {
		return v
	}
	for range rank - 1 {
		v = v.Unsqueeze(v.Rank())
	}
	return v
}

func convInteger(c *call) tensor {
	x, w := c.x(0), c.x(1)
	c.kernelOf(w) // which checks its rank
	x, w = centred(x, c.zeroPoint(2, false)), centred(w, perOutput(c.zeroPoint(3, false), w.Rank()))
	// So many channels at a time as have a sum that is exact in f32. Those of a group do not lie side by side in parts.
	channels := w.Dim(1).Static()
	each := max(1, exactF32/int(max(1, w.Shape()[2:].MaxElems())))
	if c.intAttr("group", 1) > 1 || each >= channels {
		return c.exactConv(x, w)
	}
	y := c.exactConv(x.Slice(1, 0, each), w.Slice(1, 0, each))
	for from := each; from < channels; from += each {
		to := min(from+each, channels)
		y = y.Add(c.exactConv(x.Slice(1, from, to), w.Slice(1, from, to)))
	}
	return y
}

// exactConv is a convolution of whole numbers, of bytes less their zero points, in i32.
func (c *call) exactConv(x, w tensor) tensor {
	return exactly(w.Shape()[1:].MaxElems(), x, w, func(x, w tensor) tensor { return c.intConv(x, w) }).Cast(ir.I32)
}

func qlinearConv(c *call) tensor {
	x, w := c.x(0), c.x(3)
	// Bytes less their zero points are whole numbers that f16 holds, too.
	y := c.intConv(centred(x, c.zeroPoint(2, false)), centred(w, perOutput(c.zeroPoint(5, false), w.Rank())),
		frontend.InPrecision(frontend.HalfPrecision))
	if c.has(8) {
		y = y.Add(channels(c.x(8).Cast(y.DType()), x.Rank()))
	}
	ws := c.x(4)
	if ws.Rank() == 1 && !ws.Dim(0).Is(1) {
		ws = channels(ws, x.Rank())
	}
	y = y.Mul(c.x(1)).Mul(ws)
	return quantized(y, c.x(6), c.x(7), c.dtypeOf(c.in[7]))
}
