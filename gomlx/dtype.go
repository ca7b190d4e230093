package gomlx

import (
	"reflect"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc/ir"
)

// elementTypes maps the dtypes with the same memory layout in GoMLX and vkc.
var elementTypes = map[dtypes.DType]ir.DType{
	dtypes.Float32:  ir.F32,
	dtypes.Float64:  ir.F64,
	dtypes.Float16:  ir.F16,
	dtypes.BFloat16: ir.BF16,
	dtypes.Int8:     ir.I8,
	dtypes.Int16:    ir.I16,
	dtypes.Int32:    ir.I32,
	dtypes.Int64:    ir.I64,
	dtypes.Uint8:    ir.U8,
	dtypes.Uint16:   ir.U16,
	dtypes.Uint32:   ir.U32,
	dtypes.Uint64:   ir.I64, // the same bits: see uint64.go
	dtypes.Bool:     ir.Bool,
}

// elementType returns vkc's dtype for one of GoMLX.
func elementType(t dtypes.DType) (ir.DType, error) {
	e, ok := elementTypes[t]
	if !ok {
		return ir.Invalid, errors.Wrapf(compute.ErrNotImplemented, "dtype %s: vkc has none like it", t)
	}
	return e, nil
}

// shapeOf returns the shape of a slice of Go values under dims.
func shapeOf(flat any, dims []int) (shapes.Shape, error) {
	t := reflect.TypeOf(flat)
	if t == nil || t.Kind() != reflect.Slice || dtypes.FromGoType(t.Elem()) == dtypes.InvalidDType {
		return shapes.Invalid(), errors.Errorf("a %T is not a slice of a dtype's Go type", flat)
	}
	return shapes.Make(dtypes.FromGoType(t.Elem()), dims...), nil
}

// dataOf returns a tensor with a copy of a slice of Go values.
func dataOf(flat any, shape shapes.Shape) (*ir.Data, error) {
	t, err := elementType(shape.DType)
	if err != nil {
		return nil, err
	}
	if shape.IsDynamic() {
		return nil, errors.Errorf("values of shape %s: the shape of values has no dynamic axes", shape)
	}
	raw, err := bytesOf(flat, shape)
	if err != nil {
		return nil, err
	}
	d, err := ir.NewData(t, shape.Dimensions...)
	if err != nil {
		return nil, errors.WithMessagef(err, "values of shape %s", shape)
	}
	copy(d.Bytes, raw)
	return d, d.Check()
}

// bytesOf returns the memory of a slice of Go values, without a copy. It returns an error unless the slice has the
// dtype and the number of elements of the shape.
func bytesOf(flat any, shape shapes.Shape) ([]byte, error) {
	v := reflect.ValueOf(flat)
	if v.Kind() != reflect.Slice || dtypes.FromGoType(v.Type().Elem()) != shape.DType || v.Len() != shape.Size() {
		length := 0
		if v.Kind() == reflect.Slice {
			length = v.Len()
		}
		return nil, errors.Errorf("a %T of %d values for shape %s: want a slice of %d values of %s", flat, length,
			shape,
			shape.Size(), shape.DType.GoType())
	}
	return unsafe.Slice((*byte)(v.UnsafePointer()), v.Len()*int(v.Type().Elem().Size())), nil
}
