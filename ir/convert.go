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
	case F8E4M3:
		for i := range dst {
			dst[i] = DecodeF8E4M3(src[i])
		}
	case F8E5M2: // the upper half of an f16
		for i := range dst {
			dst[i] = float64(float16.Frombits(uint16(src[i]) << 8).Float32())
		}
	default:
		var v [1]int64
		size := t.BlockBytes()
		for i := range dst {
			DecodeInts(v[:], t, src[size*i:])
			dst[i] = float64(v[0])
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
	case F8E4M3:
		for i, v := range src {
			dst[i] = EncodeF8E4M3(v)
		}
	case F8E5M2:
		for i, v := range src {
			dst[i] = roundF8E5M2(v)
		}
	default:
		size := t.BlockBytes()
		for i, v := range src {
			EncodeInts(dst[size*i:], t, []int64{FloatToInt(v, t)})
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
	case F8E4M3:
		return DecodeF8E4M3(EncodeF8E4M3(v))
	case F8E5M2:
		return float64(float16.Frombits(uint16(roundF8E5M2(v)) << 8).Float32())
	}
	return v
}

// FloatToInt converts by op cast's rule: truncate, saturate, NaN to 0; to bool
// is v != 0.
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
	if f < 1<<63 && int64(f) == x {
		return f
	}
	b := math.Float64bits(f)
	if f >= 1<<63 || x >= 0 && int64(f) > x || x < 0 && int64(f) < x {
		b-- // towards zero
	}
	return math.Float64frombits(b | 1)
}

// IntRange returns the smallest and largest value of an integer dtype.
func IntRange(t DType) (lo, hi int64) {
	switch t {
	case I64:
		return math.MinInt64, math.MaxInt64
	case I32:
		return math.MinInt32, math.MaxInt32
	case U32:
		return 0, math.MaxUint32
	case I16:
		return math.MinInt16, math.MaxInt16
	case U16:
		return 0, math.MaxUint16
	case I8:
		return math.MinInt8, math.MaxInt8
	case U8:
		return 0, math.MaxUint8
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
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + (b >> 16 & 1)) >> 16)
}

// roundF8E5M2 rounds to the OCP 8-bit float with 5 exponent and 2 mantissa bits. That format has infinities and is the
// upper half of an f16, so values out of range become infinite.
func roundF8E5M2(v float64) byte {
	f := stickyF32(v)
	a := math.Abs(float64(f))
	sign := byte(math.Float32bits(f) >> 24 & 0x80)
	switch {
	case v != v:
		return sign | 0x7e
	case a < 0x1p-14: // multiples of 2^-16
		return sign | byte(math.RoundToEven(math.Ldexp(a, 16)))
	case a >= 0x1p16:
		return sign | 0x7c
	}
	b := math.Float32bits(float32(a))
	return sign | byte((b+0xfffff+(b>>21&1))>>21-112<<2)
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

// DecodeF8E4M3 decodes an OCP 8-bit float with 4 exponent and 3 mantissa bits:
// no infinities, 0x7f and 0xff are NaN.
func DecodeF8E4M3(b byte) float64 {
	exp, man := int(b>>3&15), float64(b&7)
	v := math.Ldexp(1+man/8, exp-7)
	switch {
	case b&0x7f == 0x7f:
		return math.NaN()
	case exp == 0:
		v = math.Ldexp(man/8, -6)
	}
	if b&0x80 != 0 {
		return -v
	}
	return v
}

// EncodeF8E4M3 rounds to nearest even and saturates to ±448.
func EncodeF8E4M3(v float64) byte {
	s := byte(0)
	if math.Signbit(v) {
		s = 0x80
	}
	a := math.Abs(v)
	switch {
	case v != v:
		return s | 0x7f
	case a >= 448:
		return s | 0x7e
	case a < math.Ldexp(1, -6):
		return s | byte(math.RoundToEven(math.Ldexp(a, 9)))
	}
	frac, exp := math.Frexp(a) // a = frac * 2^exp, frac in [0.5, 1)
	q := int(math.RoundToEven(frac * 16))
	return s | byte((exp-1+7)<<3+q-8)
}

// Bitcast reinterprets the bits of a float or integer of dtype from as dtype to. Both dtypes have the same size.
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
