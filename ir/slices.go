package ir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
)

// goTypes has the dtype of each kind of Go values that FromSlices reads. An int becomes i32, the dtype of indices.
var goTypes = map[reflect.Kind]DType{
	reflect.Float32: F32, reflect.Float64: F64, reflect.Bool: Bool, reflect.Int: I32,
	reflect.Int64: I64, reflect.Int32: I32, reflect.Int16: I16, reflect.Int8: I8,
	reflect.Uint32: U32, reflect.Uint16: U16, reflect.Uint8: U8,
}

// dtypeOf returns the dtype of a number or bool, or of nested slices or arrays of these.
func dtypeOf(t reflect.Type) (DType, error) {
	elem := t
	for elem.Kind() == reflect.Slice || elem.Kind() == reflect.Array {
		elem = elem.Elem()
	}
	if to, ok := goTypes[elem.Kind()]; ok {
		return to, nil
	}
	return Invalid, fmt.Errorf("a %s cannot be a tensor: want float32, float64, int, int8 to int64, uint8 to uint32, "+
		"bool, or slices of one", t)
}

// FromSlices makes a tensor of a number or bool, a slice or array of these, or nested slices of equal lengths. The Go
// type determines the dtype, and the lengths determine the shape. An int becomes i32 and must fit it.
func FromSlices(values any) (*Data, error) {
	v := reflect.ValueOf(values)
	if !v.IsValid() {
		return nil, errors.New("the value is nil")
	}
	t, err := dtypeOf(v.Type())
	if err != nil {
		return nil, err
	}
	d, err := NewData(t, lengths(v)...)
	if err != nil {
		return nil, err
	}
	return d, fill(d.Bytes, v, d.Dims)
}

// lengths returns the length of the first slice at each depth of nested slices. Inside an empty slice they are 0, or
// the lengths of arrays.
func lengths(v reflect.Value) (dims []int) {
	for t := v.Type(); t.Kind() == reflect.Slice || t.Kind() == reflect.Array; t = t.Elem() {
		n := 0
		switch {
		case t.Kind() == reflect.Array:
			n = t.Len()
		case v.IsValid():
			n = v.Len()
		}
		if v.IsValid() && n > 0 {
			v = v.Index(0)
		} else {
			v = reflect.Value{}
		}
		dims = append(dims, n)
	}
	return dims
}

// fill writes the elements of nested slices, which must have these lengths.
func fill(to []byte, v reflect.Value, dims []int) error {
	if len(dims) == 0 {
		return fillOne(to, v)
	}
	if v.Len() != dims[0] {
		return fmt.Errorf("nested slices have %d and %d elements: want equal lengths", dims[0], v.Len())
	}
	elem := v.Type().Elem()
	encodable := v.Kind() == reflect.Slice && elem.PkgPath() == "" && elem.Kind() != reflect.Int // by package binary
	if len(dims) == 1 && encodable {
		_, err := binary.Encode(to, binary.LittleEndian, v.Convert(reflect.SliceOf(elem)).Interface())
		return err
	}
	for i := range v.Len() {
		size := len(to) / v.Len()
		if err := fill(to[i*size:(i+1)*size], v.Index(i), dims[1:]); err != nil {
			return err
		}
	}
	return nil
}

// fillOne writes one number or bool.
func fillOne(to []byte, v reflect.Value) error {
	n := uint64(0)
	switch {
	case v.Kind() == reflect.Float32:
		n = uint64(math.Float32bits(float32(v.Float())))
	case v.CanFloat():
		n = math.Float64bits(v.Float())
	case v.CanUint():
		n = v.Uint()
	case v.Kind() == reflect.Int && v.Int() != int64(int32(v.Int())):
		return fmt.Errorf("%d does not fit i32, the dtype of an int: use int64", v.Int())
	case v.CanInt():
		n = uint64(v.Int())
	case v.Bool():
		n = 1
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], n)
	copy(to, word[:])
	return nil
}
