package vkc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// Element is a Go type of tensor elements.
type Element interface {
	float32 | float64 | int | int64 | int32 | int16 | int8 | uint32 | uint16 | uint8 | bool
}

// Of returns a tensor with a copy of the values in row-major order. Its dtype follows from the Go type: f32, f64, i64,
// i32, i8, i16, u32, u16, u8 or bool. Without dims it is a scalar. It returns an error for a Go type without a dtype
// (int), and if the number of values does not match the dims. OfType makes tensors of the other dtypes.
func Of[T Element](values []T, dims ...int) (*ir.Data, error) {
	t := dtypeOf[T]()
	if !t.Valid() {
		var v T
		return nil, fmt.Errorf("tensor of %T: there is no such dtype; "+
			"name the one you want with OfType, such as OfType(ir.I32, values, dims...)", v)
	}
	return OfType(t, values, dims...)
}

// OfType returns a tensor of dtype t with the given values, converted as follows:
//
//   - floats are rounded to a float dtype, such as f16, bf16 or f8e4m3;
//   - float32 values are quantized to a block dtype, such as ir.Q8_0;
//   - integers keep their value in an integer dtype and are rounded to a float dtype. If a value is out of range, the
//     error has its index;
//   - uint16 values are the bits of f16 or bf16 elements, unconverted;
//   - bool values make a bool tensor.
//
// Any other pair of types is an error, and so is a wrong number of values.
func OfType[T Element](t ir.DType, values []T, dims ...int) (*ir.Data, error) {
	d, err := ir.NewData(t, dims...)
	if err != nil {
		return nil, fmt.Errorf("tensor %s%v: %w", t, dims, err)
	}
	if len(values) != d.Elems() {
		return nil, fmt.Errorf("tensor %s needs %d values, have %d", d, d.Elems(), len(values))
	}
	if err := encode(d, values); err != nil {
		return nil, fmt.Errorf("tensor %s of []%s: %w", d, reflect.TypeFor[T](), err)
	}
	return d, nil
}

// Values returns the elements of a tensor in row-major order. T must be able to represent every value of the dtype:
//
//   - float32 for f32, f16, bf16, 8-bit floats, integers of 8 and 16 bits, and blocks, which are decoded;
//   - float64 for all of these, and for f64 and 32-bit integers;
//   - an integer type for any integer dtype in its range;
//   - bool for bool;
//   - uint16 for the bits of f16 and bf16.
//
// For any other pair, the error names the types that would work.
func Values[T Element](d *ir.Data) ([]T, error) {
	if d == nil {
		return nil, errors.New("values of a tensor that is nil: is there an output of that name?")
	}
	if err := d.Check(); err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	out := make([]T, d.Elems())
	if err := decode(out, d); err != nil {
		return nil, fmt.Errorf("values of %s: %w", d, err)
	}
	return out, nil
}

// dtypeOf returns the dtype for T, or ir.Invalid.
func dtypeOf[T Element]() ir.DType {
	switch any(*new(T)).(type) {
	case float32:
		return ir.F32
	case float64:
		return ir.F64
	case int64:
		return ir.I64
	case int32:
		return ir.I32
	case int16:
		return ir.I16
	case int8:
		return ir.I8
	case uint32:
		return ir.U32
	case uint16:
		return ir.U16
	case uint8:
		return ir.U8
	case bool:
		return ir.Bool
	}
	return ir.Invalid
}

// isBits reports whether []T are the bits of a dtype's elements.
func isBits[T Element](t ir.DType) bool {
	_, ok := any(*new(T)).(uint16)
	return ok && (t == ir.F16 || t == ir.BF16)
}

// encode writes values to d. There is one value for each element of d.
func encode[T Element](d *ir.Data, values []T) error {
	if isBits[T](d.DType) {
		_, err := binary.Encode(d.Bytes, binary.LittleEndian, values)
		return err
	}
	switch v := any(values).(type) {
	case []float32:
		if d.DType.IsBlock() {
			return quant.Quantize(d.Bytes, d.DType, v, nil)
		}
		return encodeFloats(d, widen(v))
	case []float64:
		return encodeFloats(d, v)
	case []bool:
		if d.DType != ir.Bool {
			return errors.New("bools go into bool alone")
		}
		for i, b := range v {
			if b {
				d.Bytes[i] = 1
			}
		}
		return nil
	case []int64:
		return encodeInts(d, v)
	case []int:
		return encodeInts(d, toInts(v))
	case []int32:
		return encodeInts(d, toInts(v))
	case []int16:
		return encodeInts(d, toInts(v))
	case []int8:
		return encodeInts(d, toInts(v))
	case []uint32:
		return encodeInts(d, toInts(v))
	case []uint16:
		return encodeInts(d, toInts(v))
	case []uint8:
		return encodeInts(d, toInts(v))
	}
	return errors.New("not an element type") // Element has no other
}

func widen(values []float32) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}

func toInts[T int | int32 | int16 | int8 | uint32 | uint16 | uint8](values []T) []int64 {
	out := make([]int64, len(values))
	for i, v := range values {
		out[i] = int64(v)
	}
	return out
}

func encodeFloats(d *ir.Data, values []float64) error {
	if !d.DType.IsFloat() {
		return errors.New("floats go into float dtypes, and float32 into block dtypes: convert them in Go first")
	}
	ir.EncodeFloats(d.Bytes, d.DType, values)
	return nil
}

func encodeInts(d *ir.Data, values []int64) error {
	if d.DType.IsFloat() {
		floats := make([]float64, len(values))
		for i, v := range values {
			floats[i] = float64(v)
		}
		return encodeFloats(d, floats)
	}
	low, high, ok := intRange(d.DType)
	if !ok {
		return errors.New("integers go into integer and float dtypes: convert them in Go first")
	}
	for i, v := range values {
		if v < low || v > high {
			return fmt.Errorf("value %d is %d: want %d to %d", i, v, low, high)
		}
	}
	ir.EncodeInts(d.Bytes, d.DType, values)
	return nil
}

// intRange returns the least and the largest value of an integer dtype.
func intRange(t ir.DType) (low, high int64, ok bool) {
	bits := 8 * t.BlockBytes()
	switch t.Kind() {
	case ir.KindInt:
		return math.MinInt64 >> (64 - bits), math.MaxInt64 >> (64 - bits), true
	case ir.KindUint:
		return 0, math.MaxInt64 >> (63 - bits), true
	}
	return 0, 0, false
}

// decode reads the elements of d into out, which has the same length.
func decode[T Element](out []T, d *ir.Data) error {
	t := d.DType
	if isBits[T](t) {
		_, err := binary.Decode(d.Bytes, binary.LittleEndian, out)
		return err
	}
	if !holds[T](t) {
		return fmt.Errorf("the Go type %s does not hold every value of %s: read it as %s",
			reflect.TypeFor[T](), t, goTypes(t))
	}
	switch out := any(out).(type) {
	case []float32:
		if t == ir.F32 {
			_, err := binary.Decode(d.Bytes, binary.LittleEndian, out)
			return err
		}
		if t.IsBlock() {
			return quant.DequantizeParallel(out, t, d.Bytes)
		}
		wide := make([]float64, len(out))
		ir.DecodeFloats(wide, t, d.Bytes)
		for i, v := range wide {
			out[i] = float32(v)
		}
	case []float64:
		if t.IsBlock() {
			narrow := make([]float32, len(out))
			if err := quant.DequantizeParallel(narrow, t, d.Bytes); err != nil {
				return err
			}
			copy(out, widen(narrow))
			return nil
		}
		ir.DecodeFloats(out, t, d.Bytes)
	case []bool:
		for i, b := range d.Bytes {
			out[i] = b != 0
		}
	default:
		ints := make([]int64, d.Elems())
		ir.DecodeInts(ints, t, d.Bytes)
		return assign(out, ints)
	}
	return nil
}

// assign converts integers to out's element type. The type can represent all of them.
func assign(out any, ints []int64) error {
	switch out := out.(type) {
	case []int64:
		copy(out, ints)
	case []int:
		fromInts(out, ints)
	case []int32:
		fromInts(out, ints)
	case []int16:
		fromInts(out, ints)
	case []int8:
		fromInts(out, ints)
	case []uint32:
		fromInts(out, ints)
	case []uint16:
		fromInts(out, ints)
	case []uint8:
		fromInts(out, ints)
	default:
		return errors.New("not an element type") // Element has no other
	}
	return nil
}

func fromInts[T int | int32 | int16 | int8 | uint32 | uint16 | uint8](out []T, ints []int64) {
	for i, v := range ints {
		out[i] = T(v)
	}
}

// holds reports whether T can represent every value of a dtype.
func holds[T Element](t ir.DType) bool {
	switch any(*new(T)).(type) {
	case float32:
		return t.IsBlock() || (t.IsFloat() && t != ir.F64) || isNarrow(t)
	case float64:
		return t.IsBlock() || t.IsFloat() || isNarrow(t) || t == ir.I32 || t == ir.U32
	case bool:
		return t == ir.Bool
	}
	low, high, ok := intRange(t)
	if !ok {
		return false
	}
	least, most := goRange[T]()
	return least <= low && high <= most
}

// isNarrow reports whether t is an integer of 16 or 8 bits.
func isNarrow(t ir.DType) bool { return t.IsInteger() && t.BlockBytes() <= 2 }

// goRange returns the smallest and largest value of an integer type, clamped to int64.
func goRange[T Element]() (low, high int64) {
	kind := reflect.TypeFor[T]()
	bits := kind.Bits()
	if kind.Kind() >= reflect.Uint && kind.Kind() <= reflect.Uint64 {
		return 0, math.MaxInt64 >> (63 - bits)
	}
	return math.MinInt64 >> (64 - bits), math.MaxInt64 >> (64 - bits)
}

// goTypes lists the types that Values reads a dtype as.
func goTypes(t ir.DType) string {
	switch {
	case t.IsBlock():
		return "float32 or float64"
	case t == ir.F16, t == ir.BF16:
		return "float32, float64, or uint16 for its bits"
	case t == ir.F64:
		return "float64"
	case t.IsFloat():
		return "float32 or float64"
	case t == ir.Bool:
		return "bool"
	}
	switch t {
	case ir.I64:
		return "int64"
	case ir.U32:
		return "uint32, int64 or float64"
	case ir.I32:
		return "int32, int64 or float64"
	case ir.I16:
		return "int16, a wider signed integer, float32 or float64"
	case ir.U16:
		return "uint16, a wider integer, float32 or float64"
	case ir.U8:
		return "uint8, a wider integer, float32 or float64"
	}
	return "int8, a wider signed integer, float32 or float64"
}
