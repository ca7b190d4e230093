package vkc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"strings"

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
	var v T
	if _, ok := any(v).(int); ok {
		return nil, fmt.Errorf("tensor of %T: there is no such dtype; "+
			"name the one you want with OfType, such as OfType(ir.I32, values, dims...)", v)
	}
	return OfType(elementType[T](), values, dims...)
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
//   - float32 for f32, f16, bf16, floats of up to 8 bits, integers of up to 16 bits, and blocks, which are decoded;
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

// elementTypes maps a Go type to the dtype with the same elements. For int that is i64, or i32 on 32-bit machines; Of
// does not accept int, so that no program depends on the machine.
var elementTypes = map[reflect.Kind]ir.DType{reflect.Float32: ir.F32, reflect.Float64: ir.F64, reflect.Int64: ir.I64,
	reflect.Int32: ir.I32, reflect.Int16: ir.I16, reflect.Int8: ir.I8, reflect.Uint32: ir.U32, reflect.Uint16: ir.U16,
	reflect.Uint8: ir.U8, reflect.Bool: ir.Bool, reflect.Int: map[int]ir.DType{32: ir.I32, 64: ir.I64}[bits.UintSize]}

func elementType[T Element]() ir.DType { return elementTypes[reflect.TypeFor[T]().Kind()] }

// isBits reports whether a []T holds the bits of elements of dtype t: T is uint16, and t is f16 or bf16.
func isBits[T Element](t ir.DType) bool {
	return elementType[T]() == ir.U16 && (t == ir.F16 || t == ir.BF16)
}

// checkEncodes returns an error if values of Go type T may not be converted to a dtype.
func checkEncodes[T Element](to ir.DType) error {
	switch from := elementType[T](); {
	case isBits[T](to) || from == to || from == ir.F32 && to.IsBlock():
		return nil
	case from == ir.Bool:
		return errors.New("bools go into bool alone")
	case from.IsFloat() && !to.IsFloat():
		return errors.New("floats go into float dtypes, and float32 into block dtypes: convert them in Go first")
	case !to.IsFloat() && !to.IsInteger():
		return errors.New("integers go into integer and float dtypes: convert them in Go first")
	}
	return nil
}

// encode converts the values to d's dtype and writes them to d. len(values) must be d's number of elements.
func encode[T Element](d *ir.Data, values []T) error {
	from, to := elementType[T](), d.DType
	if err := checkEncodes[T](to); err != nil {
		return err
	}
	var all any = values
	if v, ok := all.([]int); ok { // package binary has no int
		wide := make([]int64, len(v))
		for i, n := range v {
			wide[i] = int64(n)
		}
		from, all = ir.I64, wide
	}
	if v, ok := all.([]float32); ok && to.IsBlock() {
		return quant.Quantize(d.Bytes, to, v, nil)
	}
	raw, err := binary.Append(nil, binary.LittleEndian, all)
	switch {
	case err != nil:
		return err
	case isBits[T](to) || from == to:
		copy(d.Bytes, raw)
		return nil
	case from.IsFloat():
		floats := make([]float64, len(values))
		ir.DecodeFloats(floats, from, raw)
		ir.EncodeFloats(d.Bytes, to, floats)
		return nil
	}
	ints := make([]int64, len(values))
	ir.DecodeInts(ints, from, raw)
	if to.IsFloat() {
		floats := make([]float64, len(values))
		for i, v := range ints {
			floats[i] = ir.IntToFloat(v, to)
		}
		ir.EncodeFloats(d.Bytes, to, floats)
		return nil
	}
	low, high := ir.IntRange(to)
	for i, v := range ints {
		if v < low || v > high {
			return fmt.Errorf("value %d is %d: want %d to %d", i, v, low, high)
		}
	}
	ir.EncodeInts(d.Bytes, to, ints)
	return nil
}

// decode converts the elements of d to T. len(out) must be d's number of elements.
func decode[T Element](out []T, d *ir.Data) error {
	t, to := d.DType, elementType[T]()
	if !isBits[T](t) && !holds[T](t) {
		return fmt.Errorf("the Go type %s does not hold every value of %s: read it as %s",
			reflect.TypeFor[T](), t, goTypes(t))
	}
	raw := d.Bytes
	switch {
	case isBits[T](t) || t == to: // the bytes are T's already
	case t.IsBlock():
		narrow, ok := any(out).([]float32)
		if !ok {
			narrow = make([]float32, len(out))
		}
		if err := quant.DequantizeParallel(narrow, t, d.Bytes); err != nil || ok { // ok: narrow is out
			return err
		}
		for i, v := range narrow {
			any(out).([]float64)[i] = float64(v)
		}
		return nil
	case to.IsFloat():
		floats := make([]float64, len(out))
		ir.DecodeFloats(floats, t, d.Bytes)
		raw = make([]byte, len(out)*to.BlockBytes())
		ir.EncodeFloats(raw, to, floats)
	default:
		ints := make([]int64, len(out))
		ir.DecodeInts(ints, t, d.Bytes)
		raw = make([]byte, len(out)*to.BlockBytes())
		ir.EncodeInts(raw, to, ints)
	}
	// Package binary does not decode to int, which has no fixed size.
	if v, ok := any(out).([]int); ok {
		ints := make([]int64, len(out))
		ir.DecodeInts(ints, to, raw)
		for i, n := range ints {
			v[i] = int(n)
		}
		return nil
	}
	_, err := binary.Decode(raw, binary.LittleEndian, out)
	return err
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
	if !t.IsInteger() {
		return false
	}
	low, high := ir.IntRange(t)
	least, most := ir.IntRange(elementType[T]())
	return least <= low && high <= most
}

// isNarrow reports whether t is an integer of at most 16 bits.
func isNarrow(t ir.DType) bool { return t.IsInteger() && t.Bits() <= 16 }

// goTypes lists the Go types to which Values can convert a dtype, for an error.
func goTypes(t ir.DType) string {
	var list []string
	for _, one := range []struct {
		name  string
		holds bool
	}{{"float32", holds[float32](t)}, {"float64", holds[float64](t)}, {"bool", holds[bool](t)},
		{"int8", holds[int8](t)}, {"uint8", holds[uint8](t)}, {"int16", holds[int16](t)}, {"uint16", holds[uint16](t)},
		{"uint16, its bits", isBits[uint16](t)}, {"int32", holds[int32](t)}, {"uint32", holds[uint32](t)},
		{"int64", holds[int64](t)}} {
		if one.holds {
			list = append(list, one.name)
		}
	}
	return strings.Join(list, " or ")
}
