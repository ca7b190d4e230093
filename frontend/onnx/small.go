package onnx

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// smallType describes a type of a few bits that is no dtype of vkc. vkc carries its values in a wider dtype that
// represents all of them: a value of the graph is a tensor of that dtype, and is rounded to the type where it is made.
// Files store the values packed.
type smallType struct {
	bits int // of a value: 2, 4 or 8
	// mantissa and least describe floats: the bits after the point, and the exponent of the smallest normal number.
	// The smallest exponent in files means numbers below it.
	mantissa, least int
	largest         float64 // 0 for integers
	nan             bool    // the code of -0 is NaN; there are no infinities
	exponents       bool    // values are powers of two from 2^-127 to 2^127, and NaN
	values          []float64
	carrier         ir.DType
	code            []byte // by code: the bytes of the carrier
}

// carried returns the row of a small type.
func carried(name string, carrier ir.DType, t smallType) dataType {
	t.carrier = carrier
	t.values = make([]float64, 1<<t.bits)
	for code := range t.values {
		t.values[code] = t.decode(code)
	}
	if carrier.IsFloat() {
		t.code = make([]byte, len(t.values)*carrier.BlockBytes())
		ir.EncodeFloats(t.code, carrier, t.values)
	} else {
		for _, v := range t.values {
			t.code = append(t.code, byte(int8(v)))
		}
	}
	return dataType{name: name, dtype: carrier, small: &t}
}

// decode returns the value of a code.
func (t *smallType) decode(code int) float64 {
	switch {
	case t.exponents && code == 255:
		return math.NaN()
	case t.exponents:
		return math.Ldexp(1, code-127)
	case t.isInteger():
		if low, _ := t.limits(); low < 0 && code >= 1<<(t.bits-1) {
			return float64(code - 1<<t.bits)
		}
		return float64(code)
	}
	sign, magnitude := 1.0, code&(1<<(t.bits-1)-1)
	if code != magnitude {
		sign = -1
	}
	if t.nan && sign < 0 && magnitude == 0 {
		return math.NaN()
	}
	exponent, rest := magnitude>>t.mantissa, float64(magnitude&(1<<t.mantissa-1))
	if exponent == 0 {
		return sign * math.Ldexp(rest, t.least-t.mantissa)
	}
	return sign * math.Ldexp(float64(int(1)<<t.mantissa)+rest, t.least+exponent-1-t.mantissa)
}

func (t *smallType) isInteger() bool { return t.largest == 0 && !t.exponents }

// limits returns the smallest and largest integer.
func (t *smallType) limits() (low, high float64) {
	if t.carrier == ir.I8 {
		return -math.Ldexp(1, t.bits-1), math.Ldexp(1, t.bits-1) - 1
	}
	return 0, math.Ldexp(1, t.bits) - 1
}

// bytes returns the size of packed values.
func (t *smallType) bytes(elems int64) int64 { return (elems*int64(t.bits) + 7) / 8 }

// unpack returns n values in the carrier. The first of several values in a byte is in its lowest bits.
func (t *smallType) unpack(packed []byte, n int64) []byte {
	size, per, mask := t.carrier.BlockBytes(), int64(8/t.bits), 1<<t.bits-1
	out := make([]byte, 0, n*int64(size))
	for i := range n {
		code := int(packed[i/per]) >> (int(i%per) * t.bits) & mask
		out = append(out, t.code[code*size:][:size]...)
	}
	return out
}

// rounded returns x rounded to the type, in its carrier. An integer type keeps the lowest bits of the whole number. In
// a float type, too large numbers become the largest, or without saturate NaN if the type has it.
func (t *smallType) rounded(x tensor, saturate bool, mode string) tensor {
	switch of := x.DType(); {
	case t.isInteger():
		if of.IsFloat() {
			x = x.Cast(ir.I32)
		}
		x = castTo(x, t.carrier)
		shift := x.Lit(float64(8 - t.bits))
		return x.Shl(shift).Shr(shift)
	case of != ir.F32:
		x = x.Cast(ir.F32)
	}
	const exponentBits, one = 23, 127
	bits := x.Bitcast(ir.I32)
	exponent := bits.Shr(bits.Lit(exponentBits)).And(bits.Lit(255)).SubScalar(one)
	power := func(e tensor) tensor { return e.AddScalar(one).Shl(e.Lit(exponentBits)).Bitcast(ir.F32) }
	nan := x.Lit(math.NaN())
	if t.exponents {
		half := x.Div(power(exponent.Max(exponent.Lit(-126)))).Abs()
		up := half.Gt(half.Lit(1))
		switch mode {
		case "down":
			up = half.Lt(half.Lit(0))
		case "nearest":
			up = half.Ge(half.Lit(1.5))
		}
		e := up.Where(exponent.AddScalar(1), exponent)
		y := power(e.Max(e.Lit(-126)).Min(e.Lit(127)))
		y = e.Lt(e.Lit(-126)).Where(y.MulScalar(0.5), y)
		if over := e.Gt(e.Lit(127)); saturate {
			y = over.Where(y.Lit(math.Ldexp(1, 127)), y)
		} else {
			y = over.Where(nan, y)
		}
		return x.Eq(x).Where(y, nan)
	}
	quantum := power(exponent.Max(exponent.Lit(float64(t.least))).SubScalar(float64(t.mantissa)))
	y := x.Div(quantum).Round().Mul(quantum)
	over := y.Abs().Gt(y.Lit(t.largest)).Or(x.IsInf())
	switch limit := x.Lit(0).Gt(x).Where(x.Lit(-t.largest), x.Lit(t.largest)); {
	case saturate || !t.nan:
		y = over.Where(limit, y)
	default:
		y = over.Where(nan, y)
	}
	if t.nan {
		y = y.Eq(y.Lit(0)).Where(y.Lit(0), y) // there is no -0
		y = x.Eq(x).Where(y, nan)
	} else {
		y = x.Eq(x).Where(y, y.Lit(math.Copysign(0, -1))) // there is no NaN
	}
	return y.Cast(t.carrier)
}

// converted returns x in another type. If attribute saturate is set, 8-bit floats saturate to their largest number,
// even from infinities. Otherwise f8e5m2 overflows to infinity, and f8e4m3, which has no infinities, to NaN. vkc's cast
// does one of the two for each format, and converted adds the other.
func (c *call) converted(x tensor, from, to DataType) *value {
	saturate, mode := c.flag("saturate", true), c.choice("round_mode", "up", "down", "nearest")
	row := dataTypes[to]
	switch {
	case row.small != nil && from == to:
		return &value{tensor: x, small: to}
	case row.small != nil:
		return &value{tensor: row.small.rounded(x, saturate, mode), small: to}
	}
	t := row.dtype
	if x.DType() == t || t != ir.F8E5M2 && t != ir.F8E4M3 {
		return &value{tensor: castTo(x, t)}
	}
	if of := x.DType(); of != ir.F32 && of != ir.F64 {
		x = x.Cast(ir.F32)
	}
	switch {
	case t == ir.F8E5M2 && saturate:
		const largest = 57344
		x = x.Clamp(-largest, largest)
	case t == ir.F8E4M3 && !saturate:
		const largestRounded = 464 // values up to it round to 448, the largest number
		x = x.Abs().Gt(x.Lit(largestRounded)).Where(x.Lit(math.NaN()), x)
	}
	return &value{tensor: x.Cast(t)}
}

// typeOf returns ONNX's type of a value that is a tensor.
func (c *call) typeOf(v *value) DataType {
	if v.small != 0 {
		return v.small
	}
	t := c.dtypeOf(v)
	for number, row := range dataTypes {
		if row.dtype == t && row.small == nil && row.unsigned == (t == ir.I64 && v.unsigned) {
			return number
		}
	}
	return 0
}

// typeAttr returns the type that an attribute names, or the default if it is missing or 0. Types that vkc does not have
// are errors.
func (c *call) typeAttr(name string, otherwise DataType) DataType {
	a := c.attr(name, AttrInt)
	if a == nil || a.Int == 0 {
		return otherwise
	}
	t := DataType(a.Int)
	if dataTypes[t].dtype == ir.Invalid {
		c.fail("%s is %s (type %d), which vkc does not have", name, t, a.Int)
	}
	c.toUnsigned = c.toUnsigned || dataTypes[t].unsigned
	return t
}
