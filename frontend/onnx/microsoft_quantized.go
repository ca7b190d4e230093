package onnx

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// microsoftQuantizedOps are ONNX Runtime's ops on quantized tensors: integers with a scale and a zero point.
var microsoftQuantizedOps = table{
	"QuantizeLinear":           manyOp(quantizeLinear),
	"DequantizeLinear":         controlOp(dequantizeNode),
	"QLinearAdd":               tensorOp(qlinear(tensor.Add)),
	"QLinearMul":               tensorOp(qlinear(tensor.Mul)),
	"QLinearSigmoid":           tensorOp(qlinearUnary(func(_ *call, x tensor) tensor { return x.Sigmoid() })),
	"QLinearLeakyRelu":         tensorOp(qlinearUnary(func(c *call, x tensor) tensor { return x.LeakyRelu(c.floatAttr("alpha", 0.01)) })),
	"QLinearSoftmax":           tensorOp(qlinearUnary(qlinearSoftmax)),
	"QLinearAveragePool":       tensorOp(qlinearUnary(inEitherLayout((*call).averagePoolOf))),
	"QLinearGlobalAveragePool": tensorOp(qlinearUnary(inEitherLayout(func(_ *call, x tensor) tensor { return x.GlobalAvgPool() }))),
	"QLinearReduceMean":        tensorOp(qlinearUnary(qlinearReduceMean)),
	"QLinearConcat":            tensorOp(qlinearConcat),
	"QLinearWhere":             tensorOp(qlinearWhere),
	"QLinearConv":              tensorOp(orChannelsLast(qlinearConvOf)),
	"QGemm":                    tensorOp(qgemm),
	"NhwcMaxPool":              tensorOp(channelsLast(nhwcMaxPool)),
	"DynamicQuantizeMatMul":    tensorOp(dynamicQuantizeMatMul),
	"MatMulIntegerToFloat":     tensorOp(matmulIntegerToFloat),
	"MatMulInteger16":          tensorOp(matmulInteger16),
	"MulInteger":               tensorOp(mulInteger),
	"ReduceSumInteger":         tensorOp(reduceSumInteger),
	"DynamicQuantizeLSTM":      manyOp(dynamicQuantizeLSTM),
}

// dequantized returns input i of a quantized op as floats. Input i+1 is its scale, and input i+2 its zero point.
func (c *call) dequantized(i int) tensor {
	return centred(c.x(i), c.zeroPoint(i+2, false)).Mul(c.x(i + 1).Reshape())
}

// requantized quantizes a result by the scale, input i, and the zero point, input i+1, to the dtype of input 0.
func (c *call) requantized(y tensor, i int) tensor {
	return quantized(y, c.x(i).Reshape(), c.zeroPoint(i+1, false), c.dtypeOf(c.in[0]))
}

// qlinear returns the builder of an op on two quantized tensors, with a quantized result. f computes it on floats.
func qlinear(f func(a, b tensor) tensor) func(c *call) tensor {
	return func(c *call) tensor { return c.requantized(f(c.dequantized(0), c.dequantized(3)), 6) }
}

// qlinearUnary returns the builder of an op on a quantized tensor, with a quantized result. f computes it on floats.
func qlinearUnary(f func(c *call, x tensor) tensor) func(c *call) tensor {
	return func(c *call) tensor { return c.requantized(f(c, c.dequantized(0)), 3) }
}

// inEitherLayout returns a function that applies f, which expects channels at axis 1, to x in either layout. If
// attribute channels_last is set, it moves the channels of x to axis 1 before f, and to the last axis after it.
func inEitherLayout(f func(c *call, x tensor) tensor) func(c *call, x tensor) tensor {
	return func(c *call, x tensor) tensor {
		if c.flag("channels_last", false) {
			return channelsAtEnd(f(c, channelsFirst(x)))
		}
		return f(c, x)
	}
}

// qlinearSoftmax builds Softmax of the dequantized x along an axis or, before opset 13, over an axis and all later
// axes.
func qlinearSoftmax(c *call, x tensor) tensor {
	if c.mustInt("opset") >= 13 {
		return x.Softmax(c.axis(c.intAttr("axis", -1), x.Rank()))
	}
	s, axis := x.Shape(), c.axis(c.intAttr("axis", 1), x.Rank())
	return x.Reshape(s[:axis], -1).Softmax(axis).Reshape(s)
}

// qlinearReduceMean computes the mean of a dequantized input.
func qlinearReduceMean(c *call, x tensor) tensor {
	axes := c.resolved(c.mustInts("axes"), x.Rank())
	if c.must("keepdims", AttrInt).Int != 0 {
		return x.MeanKeep(axes...)
	}
	return x.Mean(axes...)
}

// qlinearConcat builds QLinearConcat: inputs 0 and 1 are the scale and zero point of the result, and each operand has
// three inputs after them.
func qlinearConcat(c *call) tensor {
	var parts []tensor
	// An operand is a tensor, its scale and its zero point. The last operand may lack the zero point.
	for i := 2; i+1 < len(c.in); i += 3 {
		parts = append(parts, c.dequantized(i))
	}
	if len(parts) == 0 {
		c.fail("it has no operands")
	}
	y, axis := parts[0], c.mustInt("axis")
	if len(parts) > 1 {
		y = y.Concat(c.axis(axis, y.Rank()), parts[1:]...)
	}
	return quantized(y, c.x(0).Reshape(), c.zeroPoint(1, false), c.dtypeOf(c.input(2)))
}

// qlinearWhere builds QLinearWhere. Inputs 1 and 4 are quantized tensors, and each has its scale and its zero point in
// the next two inputs. Inputs 7 and 8 are the scale and the zero point of the result.
func qlinearWhere(c *call) tensor {
	y := c.x(0).Where(c.dequantized(1), c.dequantized(4))
	return quantized(y, c.x(7).Reshape(), c.zeroPoint(8, false), c.dtypeOf(c.in[1]))
}

// qgemm builds QGemm: a matmul of quantized operands plus input 6, integers with the scale of the product. Inputs 0 to
// 2 are the first operand, its scale and its zero point, and inputs 3 to 5 the second operand's. Input 7 is the
// result's scale, and input 8 its zero point. Without input 7, the result is not quantized.
func qgemm(c *call) tensor {
	a, b := c.withZero(0, 2, false), c.withZero(3, 5, false)
	if c.flag("transA", false) {
		a.x = a.x.T()
	}
	if c.flag("transB", false) {
		b.x = b.x.T()
	}
	y := c.int8MatMul(a, b)
	if c.has(6) {
		y = y.Add(c.x(6))
	}
	scale := c.x(1).Reshape().Mul(scalarOrRow(c.x(4))).MulScalar(c.floatAttr("alpha", 1))
	out := y.Cast(ir.F32).Mul(scale)
	if !c.has(7) {
		return out
	}
	t := ir.U8
	if c.has(8) {
		t = c.dtypeOf(c.in[8])
	}
	return quantized(out, c.x(7).Reshape(), c.zeroPoint(8, false), t)
}

// scalarOrRow returns a scale of one element as a scalar, and others as they are.
func scalarOrRow(v tensor) tensor {
	if v.Rank() == 1 && v.Dim(0).Is(1) {
		return v.Reshape()
	}
	return v
}

// nhwcMaxPool builds NhwcMaxPool. Its caller has moved the channels of x to axis 1.
func nhwcMaxPool(c *call, x tensor) tensor {
	x, w, options := c.pool(x, math.Inf(-1))
	return x.MaxPool(w.kernel, options...)
}

// dynamicQuantizeMatMul builds DynamicQuantizeMatMul: a matmul of floats, input 0, which are first quantized by the
// range of their elements, and of 8-bit integers, input 1.
func dynamicQuantizeMatMul(c *call) tensor {
	q, scale, zero := dynamicallyQuantized(c.x(0))
	y := c.int8MatMul(withZero{q, zero}, c.withZero(1, 3, false)).Cast(ir.F32).Mul(scale.Mul(scalarOrRow(c.x(2))))
	if c.has(4) {
		y = y.Add(c.x(4))
	}
	return y
}

// matmulIntegerToFloat builds MatMulIntegerToFloat: a matmul of quantized operands, times their scales, plus a bias.
func matmulIntegerToFloat(c *call) tensor {
	as, bs := scalarOrRow(c.x(2)), scalarOrRow(c.x(3))
	if as.Rank() == 1 { // one for each row
		as = as.Unsqueeze(1)
	}
	y := c.int8MatMul(c.withZero(0, 4, true), c.withZero(1, 5, false)).Cast(ir.F32)
	y = y.Mul(castTo(as, ir.F32).Mul(castTo(bs, ir.F32)))
	if c.has(6) {
		y = y.Add(castTo(c.x(6), ir.F32))
	}
	return castTo(y, as.DType())
}

// matmulInteger16 builds MatMulInteger16: its result is unsigned if both operands are.
func matmulInteger16(c *call) tensor {
	a, b, t := c.x(0), c.x(1), ir.I32
	if a.DType() == ir.U16 && b.DType() == ir.U16 {
		t = ir.U32
	}
	return matmul(a.Cast(ir.F64), b.Cast(ir.F64)).Cast(t)
}

// mulInteger builds MulInteger: the product of two operands, each minus its zero point.
func mulInteger(c *call) tensor {
	part := func(i int) tensor {
		x := c.x(i).Cast(ir.I32)
		if z := c.zeroPoint(i+1, false); !z.IsZero() {
			x = x.Sub(z.Cast(ir.I32))
		}
		return x
	}
	return part(0).Mul(part(2))
}

// reduceSumInteger builds ReduceSumInteger: a sum over axes in 32-bit integers, unsigned for u8.
func reduceSumInteger(c *call) tensor {
	x, t := c.x(0), ir.I32
	if x.DType() == ir.U8 {
		t = ir.U32
	}
	axes := c.resolved(c.mustInts("axes"), x.Rank())
	if c.must("keepdims", AttrInt).Int != 0 {
		return x.Cast(t).SumKeep(axes...)
	}
	return x.Cast(t).Sum(axes...)
}

// dynamicQuantizeLSTM builds DynamicQuantizeLSTM, with weights [D, I, 4*H] and [D, H, 4*H] of 8-bit integers, for D
// directions, I input elements and H elements of the state. The inputs of all steps together, and the state of each
// step, are quantized by the range of their elements.
func dynamicQuantizeLSTM(c *call) []*value {
	weights := func(i, scale int) tensor {
		s, z := c.x(scale), c.x(scale+1)
		per := func(v tensor) tensor { // [D] or [D, 4*H], as [D, 1, 1 or 4*H]
			if v.Rank() == 1 {
				v = v.Unsqueeze(1)
			}
			return v.Unsqueeze(1)
		}
		return centred(c.x(i), per(z)).Mul(per(s)).SwapAxes(1, 2)
	}
	round := func(x tensor) tensor { // x rounded to the values of its quantization
		q, scale, zero := dynamicallyQuantized(x)
		return centred(q, zero).Mul(scale)
	}
	return lstmOf(c, round(c.x(0)), weights(1, 8), weights(2, 10), round)
}
