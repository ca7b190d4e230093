package glsl

import (
	"math/bits"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// scalar says how shaders store values of a dtype and compute with them.
type scalar struct {
	compute string // the type of variables and arithmetic
	storage string // the element type of a buffer
	// carrier is the type between storage and decoding; lanes of a vector are extracted as carriers. vec and storageVec
	// begin the names of the carrier's and of the buffer's vector types.
	carrier, vec, storageVec string
	decode, encode           string // helpers between carrier and compute, or ""
	needs                    []string
}

var scalars = map[ir.DType]scalar{
	ir.F32:    {compute: "float", storage: "float", carrier: "float", vec: "vec", storageVec: "vec"},
	ir.F16:    {compute: "float", storage: "float16_t", carrier: "float", vec: "vec", storageVec: "f16vec", needs: []string{NeedStorage16}},
	ir.BF16:   {compute: "float", storage: "uint16_t", carrier: "uint", vec: "uvec", storageVec: "u16vec", decode: "bf16_to_f32", encode: "f32_to_bf16", needs: []string{NeedStorage16}},
	ir.F64:    {compute: "double", storage: "double", carrier: "double", vec: "dvec", storageVec: "dvec", needs: []string{NeedFloat64}},
	ir.F8E4M3: {compute: "float", storage: "uint8_t", carrier: "uint", vec: "uvec", storageVec: "u8vec", decode: "f8e4m3_to_f32", encode: "f32_to_f8e4m3", needs: []string{NeedStorage8}},
	ir.F8E5M2: {compute: "float", storage: "uint8_t", carrier: "uint", vec: "uvec", storageVec: "u8vec", decode: "f8e5m2_to_f32", encode: "f32_to_f8e5m2", needs: []string{NeedStorage8}},
	ir.I64:    {compute: "int64_t", storage: "int64_t", carrier: "int64_t", vec: "i64vec", storageVec: "i64vec", needs: []string{NeedInt64}},
	ir.I32:    {compute: "int", storage: "int", carrier: "int", vec: "ivec", storageVec: "ivec"},
	ir.U32:    {compute: "uint", storage: "uint", carrier: "uint", vec: "uvec", storageVec: "uvec"},
	ir.I16:    {compute: "int", storage: "int16_t", carrier: "int", vec: "ivec", storageVec: "i16vec", needs: []string{NeedStorage16}},
	ir.U16:    {compute: "uint", storage: "uint16_t", carrier: "uint", vec: "uvec", storageVec: "u16vec", needs: []string{NeedStorage16}},
	ir.I8:     {compute: "int", storage: "int8_t", carrier: "int", vec: "ivec", storageVec: "i8vec", needs: []string{NeedStorage8}},
	ir.U8:     {compute: "uint", storage: "uint8_t", carrier: "uint", vec: "uvec", storageVec: "u8vec", needs: []string{NeedStorage8}},
	ir.Bool:   {compute: "bool", storage: "uint8_t", carrier: "uint", vec: "uvec", storageVec: "u8vec", needs: []string{NeedStorage8}},
}

// computeType is the GLSL type of a value.
func (e *emitter) computeType(t ir.DType) string { return e.scalar(t).compute }

// scalar is the row of a dtype.
func (e *emitter) scalar(t ir.DType) scalar {
	if t == ir.I64 && e.pairs() {
		return pairScalar
	}
	return scalars[t]
}

// zero prints 0 in a compute type, for comparisons.
func zero(typ string) text {
	return map[string]text{"float": primary("0.0"), "double": primary("0.0"), "int": primary("0"),
		"uint": primary("0u"), "int64_t": primary("0L"), pair: primary("uvec2(0u)")}[typ]
}

// fromCarrier converts a loaded element to a value.
func (e *emitter) fromCarrier(t ir.DType, v text) text {
	s := e.scalar(t)
	switch {
	case t == ir.Bool:
		return binary("!=", v, primary("0u"))
	case s.decode != "":
		e.helper(s.decode, "float")
		return call(s.decode, v)
	}
	return v
}

// toCarrier converts a value of dtype from to a carrier of the stored dtype.
func (e *emitter) toCarrier(from, to ir.DType, v text) text {
	s := e.scalar(to)
	v = e.coerce(e.computeType(from), s.compute, v)
	switch {
	case to == ir.Bool:
		return call("uint", v)
	case s.encode != "":
		e.helper(s.encode, "float")
		return call(s.encode, v)
	}
	return v
}

// coerce converts between compute types like a constructor.
func (e *emitter) coerce(from, to string, v text) text {
	switch {
	case from == to:
		return v
	case to == "bool":
		return binary("!=", v, zero(from))
	case from == pair || to == pair:
		return e.coercePair(from, to, v)
	}
	e.needType(to)
	return call(to, v)
}

// needType records the device feature that a variable of a type needs.
func (e *emitter) needType(typ string) {
	switch typ {
	case "double":
		e.need(NeedFloat64)
	case "int64_t":
		e.need(NeedInt64)
	}
}

// literal prints a constant of a compute type.
func (e *emitter) literal(t ir.DType, f float64, n int64) text {
	e.needType(e.computeType(t))
	switch e.computeType(t) {
	case "float":
		return e.floatLit(f)
	case "double":
		if f-f != 0 { // infinite or NaN
			return call("double", e.floatLit(f))
		}
		return finiteLit(f, 64, "lf")
	case "int64_t":
		return int64Lit(n)
	case pair:
		return pairLit(n)
	case "uint":
		return uintLit(n)
	case "bool":
		if n != 0 {
			return primary("true")
		}
		return primary("false")
	}
	return intLit(n)
}

// floatLit prints a float. Infinities and NaN are named constants.
func (e *emitter) floatLit(f float64) text {
	switch {
	case f != f:
		e.helper("NAN", "float")
		return primary("NAN")
	case f-f != 0 && f > 0:
		e.helper("INF", "float")
		return primary("INF")
	case f-f != 0:
		e.helper("INF", "float")
		return unary("-", primary("INF"))
	}
	if r := float64(float32(f)); r-r != 0 { // beyond f32
		return e.floatLit(r)
	}
	return finiteLit(f, 32, "")
}

// cast converts a value by the rule of op cast. v is the printed value.
func (e *emitter) cast(x *kernel.Expr, to ir.DType, v text) text {
	from := x.DType
	src, dst := e.computeType(from), e.computeType(to)
	switch {
	case from == to:
		return v
	case to.IsFloat():
		return e.toFloat(x, to, v)
	case to == ir.Bool:
		return e.coerce(src, dst, v)
	case from.IsFloat():
		name := "float_to_" + to.String()
		if dst == pair {
			name = "float_to_pair"
		}
		e.helper(name, src)
		return call(name, v)
	}
	v = e.coerce(src, dst, v)
	if from == ir.Bool {
		return v
	}
	return e.wrap(to, v)
}

// toFloat converts a value to the nearest number of a float dtype. If the value has more digits than the compute type,
// rounding to the compute type first would round twice, so toFloat rounds to odd first. If the compute type itself
// loses digits, a helper keeps drivers from using the unrounded number.
func (e *emitter) toFloat(x *kernel.Expr, to ir.DType, v text) text {
	src, dst := e.computeType(x.DType), e.computeType(to)
	switch {
	case digitsOf(x) <= map[string]int{"float": 24, "double": 53}[dst]:
		return e.round(to, e.coerce(src, dst, v))
	case to == ir.F32 && src == "uint" && device.RoundsWordsTwice(e.caps):
		e.helper("word_to_float", src)
		return call("word_to_float", v)
	case to == ir.F32:
		e.helper("converted", dst)
		return call("converted", e.coerce(src, dst, v))
	case to == ir.F64:
		e.helper("converted_double", dst)
		return call("converted_double", e.coerce(src, dst, v))
	}
	e.helper("float_to_odd", src)
	return e.round(to, call("float_to_odd", v))
}

// digitsOf is the largest number of binary digits of a value.
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
	return 8 * x.DType.BlockBytes()
}

// bitcast converts a value to another dtype of the same size, and keeps its bits.
func (e *emitter) bitcast(from, to ir.DType, v text) text {
	if from == to {
		return v
	}
	if from.BlockBytes() == 8 {
		e.needType("double")
		name := map[string]string{"double": "int64BitsToDouble", "int64_t": "doubleBitsToInt64"}[e.computeType(to)]
		switch {
		case e.computeType(from) == pair:
			name = "packDouble2x32"
		case e.computeType(to) == pair:
			name = "unpackDouble2x32"
		default:
			e.needType("int64_t")
		}
		return call(name, v)
	}
	return e.ofWord(to, e.wordOf(from, v))
}

// wordOf converts a value of at most 32 bits to a word: the low bits are the value's, and the others are 0.
func (e *emitter) wordOf(t ir.DType, v text) text {
	switch s := e.scalar(t); {
	case t == ir.F32:
		return call("floatBitsToUint", v)
	case t == ir.F16 && device.LosesHalfInfinity(e.caps):
		return primary(e.bits(t, v.String()))
	case t == ir.F16:
		return call("packHalf2x16", call("vec2", v, primary("0.0")))
	case s.encode != "":
		e.helper(s.encode, "float")
		return call(s.encode, v)
	case s.compute == "int" && t.BlockBytes() == 2:
		return e.wrap(ir.U16, call("uint", v))
	case s.compute == "int" && t.BlockBytes() == 1:
		return e.wrap(ir.U8, call("uint", v))
	case s.compute == "int":
		return call("uint", v)
	}
	return v
}

// ofWord is the inverse of wordOf.
func (e *emitter) ofWord(t ir.DType, bits text) text {
	switch s := e.scalar(t); {
	case t == ir.F32:
		return call("uintBitsToFloat", bits)
	case t == ir.F16:
		return primary(call("unpackHalf2x16", bits).String() + ".x")
	case s.compute == "int":
		return e.wrap(t, call("int", bits))
	}
	return e.fromCarrier(t, bits)
}

// round rounds a float value to the precision of t.
func (e *emitter) round(t ir.DType, v text) text {
	switch t {
	case ir.F16, ir.BF16, ir.F8E4M3, ir.F8E5M2:
		name := "round_" + t.String()
		e.helper(name, "float")
		return call(name, v)
	}
	return v
}

// wrap reduces an integer to the range of a dtype of 8 or 16 bits.
func (e *emitter) wrap(t ir.DType, v text) text {
	switch t {
	case ir.I16:
		return call("bitfieldExtract", v, primary("0"), primary("16"))
	case ir.U16:
		return binary("&", v, primary("0xffffu"))
	case ir.I8:
		return call("bitfieldExtract", v, primary("0"), primary("8"))
	case ir.U8:
		return binary("&", v, primary("0xffu"))
	}
	return v
}
