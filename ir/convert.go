package ir

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"
)

// DecodeFloats decodes len(dst) elements of a scalar type from src, which must
// hold at least as many.
func DecodeFloats(dst []float64, t DType, src []byte) {
	le := binary.LittleEndian
	switch t {
	case F32:
		for i := range dst {
			dst[i] = float64(math.Float32frombits(le.Uint32(src[4*i:])))
		}
	case F16:
		for i := range dst {
			dst[i] = float64(float16.Frombits(le.Uint16(src[2*i:])).Float32())
		}
	case BF16:
		for i := range dst {
			dst[i] = float64(math.Float32frombits(uint32(le.Uint16(src[2*i:])) << 16))
		}
	case F64:
		for i := range dst {
			dst[i] = math.Float64frombits(le.Uint64(src[8*i:]))
		}
	default:
		if values := smallFloats[t]; values != nil {
			for i := range dst {
				dst[i] = values[t.code(src, i)]
			}
			return
		}
		var v [256]int64 // decodes part by part, so that a large tensor needs little memory
		for at := 0; at < len(dst); at += len(v) {
			part := v[:min(len(v), len(dst)-at)]
			DecodeInts(part, t, src[at*t.Bits()/8:])
			for i, x := range part {
				dst[at+i] = float64(x)
			}
		}
	}
}

// EncodeFloats encodes values as elements of a scalar type, rounding floats to
// nearest even and converting to integers as op cast does.
func EncodeFloats(dst []byte, t DType, src []float64) {
	le := binary.LittleEndian
	switch t {
	case F32:
		for i, v := range src {
			le.PutUint32(dst[4*i:], math.Float32bits(float32(v)))
		}
	case F16:
		for i, v := range src {
			le.PutUint16(dst[2*i:], roundF16(v))
		}
	case BF16:
		for i, v := range src {
			le.PutUint16(dst[2*i:], roundBF16(v))
		}
	case F64:
		for i, v := range src {
			le.PutUint64(dst[8*i:], math.Float64bits(v))
		}
	default:
		if smallFloats[t] != nil {
			for i, v := range src {
				t.setCode(dst, i, t.encodeSmall(v))
			}
			return
		}
		var v [256]int64 // encodes part by part, so that a large tensor needs little memory
		for at := 0; at < len(src); at += len(v) {
			part := v[:min(len(v), len(src)-at)]
			for i := range part {
				part[i] = FloatToInt(src[at+i], t)
			}
			EncodeInts(dst[at*t.Bits()/8:], t, part)
		}
	}
}

// DecodeInts decodes len(dst) elements of an integer or bool type.
func DecodeInts(dst []int64, t DType, src []byte) {
	le := binary.LittleEndian
	for i := range dst {
		switch t {
		case I64:
			dst[i] = int64(le.Uint64(src[8*i:]))
		case I32:
			dst[i] = int64(int32(le.Uint32(src[4*i:])))
		case U32:
			dst[i] = int64(le.Uint32(src[4*i:]))
		case I16:
			dst[i] = int64(int16(le.Uint16(src[2*i:])))
		case U16:
			dst[i] = int64(le.Uint16(src[2*i:]))
		case I8:
			dst[i] = int64(int8(src[i]))
		case U8:
			dst[i] = int64(src[i])
		case Bool:
			dst[i] = 0
			if src[i] != 0 {
				dst[i] = 1
			}
		default: // packed
			dst[i] = Wrap(int64(t.code(src, i)), t)
		}
	}
}

// EncodeInts encodes values as elements of an integer or bool type, wrapped to its range.
func EncodeInts(dst []byte, t DType, src []int64) {
	le := binary.LittleEndian
	for i, v := range src {
		switch t {
		case I64:
			le.PutUint64(dst[8*i:], uint64(v))
		case I32, U32:
			le.PutUint32(dst[4*i:], uint32(v))
		case I16, U16:
			le.PutUint16(dst[2*i:], uint16(v))
		case I8, U8:
			dst[i] = byte(v)
		case Bool:
			dst[i] = byte(v & 1)
		default: // packed
			t.setCode(dst, i, byte(v))
		}
	}
}

// RoundTo rounds a value to the nearest value of float dtype t.
func RoundTo(v float64, t DType) float64 {
	switch t {
	case F32:
		return float64(float32(v))
	case F16:
		return float64(float16.Frombits(roundF16(v)).Float32())
	case BF16:
		return float64(math.Float32frombits(uint32(roundBF16(v)) << 16))
	}
	if values := smallFloats[t]; values != nil {
		return values[t.encodeSmall(v)]
	}
	return v
}

// FloatToInt converts a float to integer dtype t as op cast does: it truncates and saturates, and NaN becomes 0. For
// bool it returns 1 if v is not 0.
func FloatToInt(v float64, t DType) int64 {
	lo, hi := IntRange(t)
	switch {
	case t == Bool:
		return int64(b2f(v != 0))
	case v != v:
		return 0
	case v <= float64(lo):
		return lo
	case v >= float64(hi):
		return hi
	}
	return int64(v)
}

// IntToFloat returns x as a float64 that rounds to t as x itself would. If float64 cannot represent x and t is
// narrower, that is the neighbour of x with an odd last bit (round to odd, Boldo and Melquiond 2008).
func IntToFloat(x int64, t DType) float64 {
	f := float64(x)
	if t == F64 || x > -1<<53 && x < 1<<53 {
		return f
	}
	if f < 1<<63 && int64(f) == x { // f is exact
		return f
	}
	b := math.Float64bits(f)
	awayFromZero := f >= 1<<63 || x >= 0 && int64(f) > x || x < 0 && int64(f) < x
	if awayFromZero {
		b-- // the float64 before f, towards zero
	}
	return math.Float64frombits(b | 1)
}

// IntRange returns the smallest and largest value of an integer dtype, or 0 and 1 for bool.
func IntRange(t DType) (lo, hi int64) {
	switch bits := t.Bits(); t.Kind() {
	case KindInt:
		return math.MinInt64 >> (64 - bits), math.MaxInt64 >> (64 - bits)
	case KindUint:
		return 0, math.MaxInt64 >> (63 - bits)
	}
	return 0, 1
}

// roundF16 rounds to float16 in one step. Rounding to float32 first would round twice, so it converts to a float32 with
// a sticky last bit.
func roundF16(v float64) uint16 { return float16.Fromfloat32(stickyF32(v)).Bits() }

// roundBF16 rounds to bfloat16, the upper half of a float32, to nearest even.
func roundBF16(v float64) uint16 {
	b := math.Float32bits(stickyF32(v))
	if v != v {
		return uint16(b>>16) | 0x40 // a quiet NaN, also if only the lower half had bits
	}
	return uint16((b + 0x7fff + (b >> 16 & 1)) >> 16) // adds half of the last place, or just less if that is even
}

// stickyF32 truncates to float32 towards zero and sets the last bit if the result is inexact (round to odd). Rounding
// the result further gives the same as rounding v (Boldo and Melquiond 2008).
func stickyF32(v float64) float32 {
	f := float32(v)
	if float64(f) == v || v != v || math.IsInf(v, 0) {
		return f
	}
	b := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(v) {
		b--
	}
	return math.Float32frombits(b | 1)
}

// smallFloats has the values of all codes of the floats of up to 8 bits.
var smallFloats = func() (tables [numDTypes][]float64) {
	for _, t := range DTypes() {
		if !t.IsFloat() || t.Bits() > 8 {
			continue
		}
		for code := range 1 << t.Bits() {
			tables[t] = append(tables[t], t.decodeSmall(code))
		}
	}
	return tables
}()

// decodeSmall returns the value of a code of a float of up to 8 bits.
func (t DType) decodeSmall(code int) float64 {
	f, signBit := t.Float(), 1<<(t.Bits()-1)
	if f.Exponents {
		if code == int(f.NaN) {
			return math.NaN()
		}
		return math.Ldexp(1, code+f.Least)
	}
	magnitude, negative := code&(signBit-1), code&signBit != 0
	exponent, significand := magnitude>>f.Mantissa, magnitude&(1<<f.Mantissa-1)
	if exponent > 0 {
		significand |= 1 << f.Mantissa // the leading 1, which codes of normal numbers leave out
	} else {
		exponent = 1 // subnormal
	}
	v := math.Ldexp(float64(significand), exponent-1+f.Least-f.Mantissa)
	switch { // codes above the largest number are infinity or NaN
	case v > f.Largest && f.Infinite && significand == 1<<f.Mantissa:
		v = math.Inf(1)
	case v > f.Largest || negative && magnitude == 0 && f.noMinusZero(t):
		return math.NaN()
	}
	if negative {
		return -v
	}
	return v
}

// noMinusZero reports whether the code that would be -0 is NaN.
func (f FloatFormat) noMinusZero(t DType) bool { return t.Bits() == 8 && f.NaN == 0x80 }

// encodeSmall returns the code of the nearest number, ties to even, in a float format of up to 8 bits. Numbers beyond
// the range become infinite, or the largest if the format has no infinities. In a format of exponents, a tie is rounded
// up, and numbers below the range become the smallest.
func (t DType) encodeSmall(v float64) byte {
	f := t.Float()
	if f.Exponents {
		return f.encodeExponent(v)
	}
	signBit, sign := byte(1)<<(t.Bits()-1), byte(0)
	if math.Signbit(v) {
		sign = signBit
	}
	if math.IsNaN(v) {
		if f.NaN >= signBit { // the sign is part of the code
			return f.NaN
		}
		return sign | f.NaN
	}
	a := math.Abs(v)
	_, exponent := math.Frexp(a)
	exponent = max(exponent-1, f.Least)
	if a < 2*f.Largest { // round to a multiple of the last place, 2^(exponent-Mantissa)
		a = math.Ldexp(math.RoundToEven(math.Ldexp(a, f.Mantissa-exponent)), exponent-f.Mantissa)
	}
	if a > f.Largest {
		a = f.Largest
		if f.Infinite {
			a = 2 * math.Ldexp(1, math.Ilogb(a)) // the code after the largest number is infinity
		}
	}
	code := byte(math.Ldexp(a, f.Mantissa-f.Least)) // of a number below the smallest normal one
	if a >= math.Ldexp(1, f.Least) {
		exponent = math.Ilogb(a)
		code = byte((exponent-f.Least)<<f.Mantissa + int(math.Ldexp(a, f.Mantissa-exponent)))
	}
	if code == 0 && f.noMinusZero(t) {
		return 0
	}
	return sign | code
}

// encodeExponent returns the byte of a format that has only exponents, with the power of two nearest to v.
func (f FloatFormat) encodeExponent(v float64) byte {
	switch {
	case math.IsNaN(v):
		return f.NaN
	case v <= math.Ldexp(1, f.Least):
		return 0
	case v >= f.Largest:
		return f.NaN - 1
	}
	fraction, exponent := math.Frexp(v) // fraction is 0.5 to 1
	exponent--
	if fraction >= 0.75 {
		exponent++
	}
	return byte(exponent - f.Least)
}

// code returns the bits of element i of a type of up to 8 bits.
func (t DType) code(src []byte, i int) byte {
	perByte := dtypes[t].elems
	bits := 8 / perByte
	return src[i/perByte] >> (i % perByte * bits) & (1<<bits - 1)
}

// setCode sets the bits of element i of a type of up to 8 bits, and no others.
func (t DType) setCode(dst []byte, i int, code byte) {
	perByte := dtypes[t].elems
	bits := 8 / perByte
	mask, shift := byte(1<<bits-1), i%perByte*bits
	dst[i/perByte] = dst[i/perByte]&^(mask<<shift) | code&mask<<shift
}

// Bitcast reinterprets the bits of a number of dtype `from` as dtype `to`, which has the same size. The number is f if
// `from` is a float dtype, and otherwise i. The result is returned in the same way.
func Bitcast(f float64, i int64, from, to DType) (float64, int64) {
	var bits [8]byte
	if from.IsFloat() {
		EncodeFloats(bits[:], from, []float64{f})
	} else {
		EncodeInts(bits[:], from, []int64{i})
	}
	if to.IsFloat() {
		var out [1]float64
		DecodeFloats(out[:], to, bits[:])
		return out[0], 0
	}
	var out [1]int64
	DecodeInts(out[:], to, bits[:])
	return 0, out[0]
}
