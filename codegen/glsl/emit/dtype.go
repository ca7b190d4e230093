package emit

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// scalar says how shaders store and compute with values of one dtype.
type scalar struct {
	Compute string // the type of variables and arithmetic
	Storage string // the element type of a buffer
	// Carrier is the type of a loaded element before it is decoded. Loaded vectors have carriers too. vec is the name
	// of a vector type of carriers, and storageVec of elements in a buffer, without the width: such as uvec and
	// u16vec.
	Carrier, vec, storageVec string
	decode, encode           string // helper functions from carrier to compute type and back, or ""
	need                     string // the device feature of such elements in buffers, or ""
}

// Scalars has a row for each dtype that is not a block format.
var Scalars = map[ir.DType]scalar{
	ir.F32:    {Compute: "float", Storage: "float", Carrier: "float", vec: "vec", storageVec: "vec"},
	ir.F16:    {Compute: "float", Storage: "float16_t", Carrier: "float", vec: "vec", storageVec: "f16vec", need: NeedStorage16},
	ir.BF16:   {Compute: "float", Storage: "uint16_t", Carrier: "uint", vec: "uvec", storageVec: "u16vec", decode: "bf16_to_f32", encode: "f32_to_bf16", need: NeedStorage16},
	ir.F64:    {Compute: "double", Storage: "double", Carrier: "double", vec: "dvec", storageVec: "dvec", need: NeedFloat64},
	ir.F8E4M3: {Compute: "float", Storage: "uint8_t", Carrier: "uint", vec: "uvec", storageVec: "u8vec", decode: "f8e4m3_to_f32", encode: "f32_to_f8e4m3", need: NeedStorage8},
	ir.F8E5M2: {Compute: "float", Storage: "uint8_t", Carrier: "uint", vec: "uvec", storageVec: "u8vec", decode: "f8e5m2_to_f32", encode: "f32_to_f8e5m2", need: NeedStorage8},
	ir.I64:    {Compute: "int64_t", Storage: "int64_t", Carrier: "int64_t", vec: "i64vec", storageVec: "i64vec", need: NeedInt64},
	ir.I32:    {Compute: "int", Storage: "int", Carrier: "int", vec: "ivec", storageVec: "ivec"},
	ir.U32:    {Compute: "uint", Storage: "uint", Carrier: "uint", vec: "uvec", storageVec: "uvec"},
	ir.I16:    {Compute: "int", Storage: "int16_t", Carrier: "int", vec: "ivec", storageVec: "i16vec", need: NeedStorage16},
	ir.U16:    {Compute: "uint", Storage: "uint16_t", Carrier: "uint", vec: "uvec", storageVec: "u16vec", need: NeedStorage16},
	ir.I8:     {Compute: "int", Storage: "int8_t", Carrier: "int", vec: "ivec", storageVec: "i8vec", need: NeedStorage8},
	ir.U8:     {Compute: "uint", Storage: "uint8_t", Carrier: "uint", vec: "uvec", storageVec: "u8vec", need: NeedStorage8},
	ir.Bool:   {Compute: "bool", Storage: "uint8_t", Carrier: "uint", vec: "uvec", storageVec: "u8vec", need: NeedStorage8},

	// Packed elements are always loaded from words and stored to words.
	ir.I4:         {Compute: "int", Storage: "uint", Carrier: "int", vec: "ivec", storageVec: "uvec"},
	ir.U4:         {Compute: "uint", Storage: "uint", Carrier: "uint", vec: "uvec", storageVec: "uvec"},
	ir.I2:         {Compute: "int", Storage: "uint", Carrier: "int", vec: "ivec", storageVec: "uvec"},
	ir.U2:         {Compute: "uint", Storage: "uint", Carrier: "uint", vec: "uvec", storageVec: "uvec"},
	ir.F4E2M1:     {Compute: "float", Storage: "uint", Carrier: "uint", vec: "uvec", storageVec: "uvec", decode: "f4e2m1_to_f32", encode: "f32_to_f4e2m1"},
	ir.F8E4M3FNUZ: {Compute: "float", Storage: "uint8_t", Carrier: "uint", vec: "uvec", storageVec: "u8vec", decode: "f8e4m3fnuz_to_f32", encode: "f32_to_f8e4m3fnuz", need: NeedStorage8},
	ir.F8E5M2FNUZ: {Compute: "float", Storage: "uint8_t", Carrier: "uint", vec: "uvec", storageVec: "u8vec", decode: "f8e5m2fnuz_to_f32", encode: "f32_to_f8e5m2fnuz", need: NeedStorage8},
	ir.F8E8M0:     {Compute: "float", Storage: "uint8_t", Carrier: "uint", vec: "uvec", storageVec: "u8vec", decode: "f8e8m0_to_f32", encode: "f32_to_f8e8m0", need: NeedStorage8},
}

// Types says how the device computes with each dtype, and converts between dtypes.
type Types struct{ Requirements }

// ComputeType is the GLSL type of a value.
func (ts *Types) ComputeType(t ir.DType) string { return ts.Scalar(t).Compute }

// Scalar returns the row of a dtype. On devices without 64-bit integers, i64 has another row.
func (ts *Types) Scalar(t ir.DType) scalar {
	if t == ir.I64 && ts.pairs() {
		return pairScalar
	}
	return Scalars[t]
}

// Zero returns the number 0 in a compute type.
func Zero(typ string) expr.Expr {
	return map[string]expr.Expr{"float": expr.Of("0.0"), "double": expr.Of("0.0"), "int": expr.Of("0"),
		"uint": expr.Of("0u"), "int64_t": expr.Of("0L"), Pair: expr.Of("uvec2(0u)")}[typ]
}

// FromCarrier converts a carrier (a loaded element) of dtype t to a value.
func (ts *Types) FromCarrier(t ir.DType, v expr.Expr) expr.Expr {
	s := ts.Scalar(t)
	switch {
	case t == ir.Bool:
		return expr.Binary("!=", v, expr.Of("0u"))
	case s.decode != "":
		ts.Helper(s.decode, "float")
		return expr.Call(s.decode, v)
	}
	return v
}

// toCarrier converts a value of dtype from to a carrier of dtype to, for storing it.
func (ts *Types) toCarrier(from, to ir.DType, v expr.Expr) expr.Expr {
	s := ts.Scalar(to)
	v = ts.Coerce(ts.ComputeType(from), s.Compute, v)
	switch {
	case to == ir.Bool:
		return expr.Call("uint", v)
	case s.encode != "":
		ts.Helper(s.encode, "float")
		return expr.Call(s.encode, v)
	}
	return v
}

// Coerce converts a value between compute types, as GLSL constructors do.
func (ts *Types) Coerce(from, to string, v expr.Expr) expr.Expr {
	switch {
	case from == to:
		return v
	case to == "bool":
		return expr.Binary("!=", v, Zero(from))
	case from == Pair:
		return ts.fromPair(to, v)
	case to == Pair:
		return ts.toPair(from, v)
	}
	ts.NeedType(to)
	return expr.Call(to, v)
}

// Literal returns a constant of a dtype: f for floats, n for others.
func (ts *Types) Literal(t ir.DType, f float64, n int64) expr.Expr {
	ts.NeedType(ts.ComputeType(t))
	switch ts.ComputeType(t) {
	case "float", "double":
		return ts.Number(ts.ComputeType(t), f)
	case "int64_t":
		return expr.Int64(n)
	case Pair:
		return pairLit(n)
	case "uint":
		return expr.Uint(n)
	case "bool":
		if n != 0 {
			return expr.Of("true")
		}
		return expr.Of("false")
	}
	return expr.Int(n)
}

// Number returns a literal of a float type.
func (ts *Types) Number(typ string, f float64) expr.Expr {
	switch {
	case typ != "double":
		return ts.FloatLit(f)
	case f-f != 0: // infinite or NaN
		return expr.Call("double", ts.FloatLit(f))
	}
	return expr.Float(f, 64, "lf")
}

// FloatLit returns a float literal. Infinities and NaN are named constants of the library.
func (ts *Types) FloatLit(f float64) expr.Expr {
	switch {
	case f != f:
		ts.Helper("NAN", "float")
		return expr.Of("NAN")
	case f-f != 0 && f > 0:
		ts.Helper("INF", "float")
		return expr.Of("INF")
	case f-f != 0:
		ts.Helper("INF", "float")
		return expr.Unary("-", expr.Of("INF"))
	}
	if r := float64(float32(f)); r-r != 0 { // beyond f32
		return ts.FloatLit(r)
	}
	return expr.Float(f, 32, "")
}

// cast returns x converted to a dtype by the rule of op cast. v is the expression of x.
func (ts *Types) cast(x *kernel.Expr, to ir.DType, v expr.Expr) expr.Expr {
	from := x.DType
	src, dst := ts.ComputeType(from), ts.ComputeType(to)
	switch {
	case from == to:
		return v
	case to.IsFloat():
		return ts.toFloat(x, to, v)
	case to == ir.Bool && from.Float().Exponents: // there is no 0, but a device may compare 2^-127 as 0
		return expr.Of("true")
	case to == ir.Bool:
		return ts.Coerce(src, dst, v)
	case from.IsFloat():
		name := "float_to_" + to.String()
		if dst == Pair {
			name = "float_to_pair"
		}
		ts.Helper(name, src)
		return expr.Call(name, v)
	}
	v = ts.Coerce(src, dst, v)
	if from == ir.Bool {
		return v
	}
	return wrap(to, v)
}

// toFloat converts a value to the nearest number of a float dtype. A value with more digits than the compute type needs
// care. If the dtype is narrower than the compute type, the value would be rounded twice, so toFloat first rounds to
// odd. Otherwise a helper makes sure that drivers round: some would go on with the unrounded value.
func (ts *Types) toFloat(x *kernel.Expr, to ir.DType, v expr.Expr) expr.Expr {
	src, dst := ts.ComputeType(x.DType), ts.ComputeType(to)
	switch {
	case to == ir.F64 && x.DType.Float().Exponents: // a device may take 2^-127 for 0 in f32, but not in f64
		ts.Helper("exponent_to_double", src)
		return expr.Call("exponent_to_double", v)
	case digitsOf(x) <= map[string]int{"float": 24, "double": 53}[dst]: // the first conversion is exact
		return ts.round(to, ts.Coerce(src, dst, v))
	case to == ir.F32 && src == "uint" && device.RoundsWordsTwice(ts.Caps):
		ts.Helper("word_to_float", src)
		return expr.Call("word_to_float", v)
	case to == ir.F32:
		ts.Helper("converted", dst)
		return expr.Call("converted", ts.Coerce(src, dst, v))
	case to == ir.F64:
		ts.Helper("converted_double", dst)
		return expr.Call("converted_double", ts.Coerce(src, dst, v))
	}
	ts.Helper("float_to_odd", src) // for dtypes narrower than f32
	return ts.round(to, expr.Call("float_to_odd", v))
}

// digitsOf is the largest number of significant binary digits that a value can have.
func digitsOf(x *kernel.Expr) int {
	switch t := x.DType; {
	case t == ir.F64:
		return 53
	case t.IsFloat():
		return 24
	case t == ir.Bool:
		return 1
	case x.Kind == kernel.ExprIndex && x.Index.NonNegative():
		if most, ok := x.Index.Upper(); ok {
			return bits.Len64(uint64(most))
		}
	}
	return x.DType.Bits()
}

// bitcast returns a value reinterpreted as another dtype of the same size.
func (ts *Types) bitcast(from, to ir.DType, v expr.Expr) expr.Expr {
	if from == to {
		return v
	}
	if from.BlockBytes() == 8 {
		ts.NeedType("double")
		name := map[string]string{"double": "int64BitsToDouble", "int64_t": "doubleBitsToInt64"}[ts.ComputeType(to)]
		switch {
		case ts.ComputeType(from) == Pair:
			name = "packDouble2x32"
		case ts.ComputeType(to) == Pair:
			name = "unpackDouble2x32"
		default:
			ts.NeedType("int64_t")
		}
		return expr.Call(name, v)
	}
	return ts.ofWord(to, ts.wordOf(from, v))
}

// wordOf converts a value of at most 32 bits to a uint with the bits of the value. The uint's other bits are 0.
func (ts *Types) wordOf(t ir.DType, v expr.Expr) expr.Expr {
	switch s := ts.Scalar(t); {
	case t == ir.F32:
		return expr.Call("floatBitsToUint", v)
	case t == ir.F16 && device.LosesHalfInfinity(ts.Caps):
		return expr.Of(ts.bits(t, v.String()))
	case t == ir.F16:
		return expr.Call("packHalf2x16", expr.Call("vec2", v, expr.Of("0.0")))
	case s.encode != "":
		ts.Helper(s.encode, "float")
		return expr.Call(s.encode, v)
	case s.Compute == "int" && t.Bits() < 32:
		return lowBits(t.Bits(), expr.Call("uint", v))
	case s.Compute == "int":
		return expr.Call("uint", v)
	}
	return v
}

// ofWord returns the GLSL expression of the value of dtype t that has the low bits of the uint expression bits. wordOf
// goes the other way.
func (ts *Types) ofWord(t ir.DType, bits expr.Expr) expr.Expr {
	switch s := ts.Scalar(t); {
	case t == ir.F32:
		return expr.Call("uintBitsToFloat", bits)
	case t == ir.F16:
		return expr.Of(expr.Call("unpackHalf2x16", bits).String() + ".x")
	case s.Compute == "int":
		return wrap(t, expr.Call("int", bits)) // extends the sign, or clears the other bits
	}
	// The loaded elements of all other dtypes are words already.
	return ts.FromCarrier(t, bits)
}

// round rounds a float value to the precision of t.
func (r *Requirements) round(t ir.DType, v expr.Expr) expr.Expr {
	if t.IsFloat() && t.Bits() < 32 {
		name := "round_" + t.String()
		r.Helper(name, "float")
		return expr.Call(name, v)
	}
	return v
}

// wrap reduces an integer to the range of a dtype of less than 32 bits. It returns integers of other dtypes unchanged.
func wrap(t ir.DType, v expr.Expr) expr.Expr {
	switch bits := t.Bits(); {
	case bits >= 32:
	case t.Kind() == ir.KindInt:
		return expr.Call("bitfieldExtract", v, expr.Of("0"), expr.Of(strconv.Itoa(bits)))
	case t.Kind() == ir.KindUint:
		return lowBits(bits, v)
	}
	return v
}

// lowBits returns the lowest bits of a uint.
func lowBits(bits int, v expr.Expr) expr.Expr {
	return expr.Binary("&", v, expr.Of(fmt.Sprintf("%#xu", 1<<bits-1)))
}
