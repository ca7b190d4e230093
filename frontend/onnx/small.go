package onnx

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// converted returns x in another type, as op Cast does. A float that becomes an integer of less than 8 bits keeps the
// lowest bits of its whole part. In floats of up to 8 bits, numbers beyond the range, and infinities, become the
// largest number if attribute saturate is set. Otherwise they become infinite, or NaN in a format without infinities.
// For each format, vkc's cast does one of these, and converted builds the other.
func (c *call) converted(x tensor, to DataType) *value {
	saturate, mode := c.flag("saturate", true), c.choice("round_mode", "up", "down", "nearest")
	t, f := dataTypes[to].dtype, dataTypes[to].dtype.Float()
	switch {
	case x.DType() == t:
		return &value{tensor: x}
	case t.IsInteger() && t.StorageOnly() && x.DType().IsFloat():
		return &value{tensor: x.Cast(ir.I32).Cast(t)}
	case !t.IsFloat() || t.Bits() > 8:
		return &value{tensor: castTo(x, t)}
	// The formats below are defined for f32, and some also for f64.
	case x.DType() != ir.F32 && (x.DType() != ir.F64 || f.Exponents && mode != "nearest"):
		x = x.Cast(ir.F32)
	}
	hasNaN, nan := t != ir.F4E2M1, x.Lit(math.NaN())
	switch {
	case f.Exponents:
		x = powerOfTwo(x, mode)
		if !saturate {
			x = x.Gt(x.Lit(f.Largest)).Where(nan, x)
		}
	case f.Infinite && saturate:
		x = x.Clamp(-f.Largest, f.Largest)
	case !f.Infinite && !saturate && hasNaN:
		x = x.Abs().Gt(x.Lit(largestRounded(t))).Where(nan, x)
	}
	return &value{tensor: x.Cast(t)}
}

// largestRounded returns the largest f32 that rounds to the largest number of float dtype t.
func largestRounded(t ir.DType) float64 {
	f := t.Float()
	half := math.Ldexp(1, math.Ilogb(f.Largest)-f.Mantissa-1) // half the distance to the next number
	if odd := int(f.Largest/(2*half))%2 == 1; odd {           // a tie rounds away from an odd number
		return float64(math.Nextafter32(float32(f.Largest+half), 0))
	}
	return f.Largest + half
}

// powerOfTwo rounds the magnitude of x to a power of two for float8e8m0, by a mode of op Cast: "up", "down" or
// "nearest". In mode "nearest" it returns the unrounded magnitude, because the cast to float8e8m0 rounds to nearest. In
// the other modes x must be f32. f32 bounds their results: up makes numbers of up to 2^-127 zero and numbers above
// 2^127 infinite, and down makes subnormal numbers zero.
func powerOfTwo(x tensor, mode string) tensor {
	const exponent, fraction, least = 0x7f800000, 0x7fffff, 0x400000 // least is 2^-127, the least power of e8m0
	bits := x.Abs().Bitcast(ir.I32)
	switch mode {
	case "nearest":
		return x.Abs()
	case "up":
		bits = bits.Gt(bits.Lit(least)).Where(bits.AddScalar(fraction), bits.Lit(0))
	}
	y := bits.And(bits.Lit(exponent)).Bitcast(ir.F32)
	return x.Eq(x).Where(y, x)
}

// typeOf returns ONNX's type of a value that is a tensor.
func (c *call) typeOf(v *value) DataType {
	t := c.dtypeOf(v)
	for number, row := range dataTypes {
		if row.dtype == t && row.unsigned == (t == ir.I64 && v.unsigned) {
			return number
		}
	}
	return 0
}

// typeAttr returns the type that an attribute names, or 0 if the node lacks the attribute. Types that vkc does not have
// are errors.
func (c *call) typeAttr(name string) DataType {
	a := c.attr(name, AttrInt)
	if a == nil || a.Int == 0 {
		return 0
	}
	t := DataType(a.Int)
	if dataTypes[t].dtype == ir.Invalid {
		c.fail("%s is %s (type %d), which vkc does not support", name, t, a.Int)
	}
	c.toUnsigned = c.toUnsigned || dataTypes[t].unsigned
	return t
}
