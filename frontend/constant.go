package frontend

import (
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/vkc-go/vkc/ir"
)

// constTypes is the dtype for each Go type that Const accepts.
var constTypes = map[reflect.Kind]ir.DType{
	reflect.Float32: ir.F32,
	reflect.Float64: ir.F64,
	reflect.Int64:   ir.I64,
	reflect.Int32:   ir.I32,
	reflect.Int:     ir.I32,
	reflect.Uint32:  ir.U32,
	reflect.Int8:    ir.I8,
	reflect.Uint8:   ir.U8,
	reflect.Bool:    ir.Bool,
}

// toData makes a host tensor of Go values, in the forms that Const documents.
func toData(values any, dims []int) (*ir.Data, error) {
	if d, ok := values.(*ir.Data); ok {
		return copyData(d, dims)
	}
	v := reflect.ValueOf(values)
	if !v.IsValid() {
		return nil, errors.New("the value is nil")
	}
	elem, shape := nesting(v)
	t, ok := constTypes[elem.Kind()]
	if !ok {
		return nil, fmt.Errorf("a %s cannot be a constant: want float32, float64, int, int8, int32, int64, uint8, "+
			"uint32, bool or slices of one", v.Type())
	}
	c := collector{dtype: t, plainInt: elem.Kind() == reflect.Int}
	if err := c.collect(v, shape); err != nil {
		return nil, err
	}
	if dims != nil {
		shape = dims
	}
	if t.IsFloat() {
		return ir.FromFloats(t, c.floats, shape...)
	}
	return ir.FromInts(t, c.ints, shape...)
}

// nesting returns the element type of nested slices or arrays, and the length of the first slice at each depth.
func nesting(v reflect.Value) (elem reflect.Type, shape []int) {
	elem = v.Type()
	for elem.Kind() == reflect.Slice || elem.Kind() == reflect.Array {
		n := 0
		if v.IsValid() { // invalid inside an empty slice
			n = v.Len()
		}
		if n > 0 {
			v = v.Index(0)
		} else {
			v = reflect.Value{}
		}
		shape, elem = append(shape, n), elem.Elem()
	}
	return elem, shape
}

// collector flattens nested slices in row-major order, to floats or ints.
type collector struct {
	dtype    ir.DType
	plainInt bool // elements have type int, which must fit i32
	floats   []float64
	ints     []int64
}

// collect adds the elements of v, nested slices that must have the given shape.
func (c *collector) collect(v reflect.Value, shape []int) error {
	if len(shape) == 0 {
		return c.element(v)
	}
	if v.Len() != shape[0] {
		return fmt.Errorf("nested slices have %d and %d elements: want equal lengths", shape[0], v.Len())
	}
	for i := range v.Len() {
		if err := c.collect(v.Index(i), shape[1:]); err != nil {
			return err
		}
	}
	return nil
}

// element adds one number or bool.
func (c *collector) element(v reflect.Value) error {
	switch {
	case v.CanFloat():
		c.floats = append(c.floats, v.Float())
	case v.CanUint():
		c.ints = append(c.ints, int64(v.Uint()))
	case v.CanInt():
		if n := v.Int(); c.plainInt && n != int64(int32(n)) {
			return fmt.Errorf("%d does not fit i32, the dtype of a plain int: use int64", n)
		}
		c.ints = append(c.ints, v.Int())
	default:
		n := int64(0)
		if v.Bool() {
			n = 1
		}
		c.ints = append(c.ints, n)
	}
	return nil
}

// copyData returns a copy of d, with other dims if given. The graph keeps the copy, so the caller may modify d.
func copyData(d *ir.Data, dims []int) (*ir.Data, error) {
	if d == nil {
		return nil, errors.New("the value is nil")
	}
	out := &ir.Data{DType: d.DType, Dims: append([]int{}, d.Dims...), Bytes: append([]byte{}, d.Bytes...)}
	if dims != nil {
		out.Dims = append([]int{}, dims...)
	}
	return out, out.Check()
}

// scalarData makes a scalar of dtype t. It returns an error if t cannot hold the value.
func scalarData(t ir.DType, value float64) (*ir.Data, error) {
	switch {
	case t.IsBlock() || !t.Valid():
		return nil, fmt.Errorf("a number cannot be %s: apply Dequantize to the other operand", t)
	case t.IsFloat():
		if math.IsInf(ir.RoundTo(value, t), 0) && !math.IsInf(value, 0) {
			return nil, fmt.Errorf("%v is too large for %s", value, t)
		}
	default:
		if lo, hi := ir.IntRange(t); value != math.Trunc(value) || value < float64(lo) || value > float64(hi) {
			return nil, fmt.Errorf("%v is not a value of %s", value, t)
		}
	}
	return ir.FromFloats(t, []float64{value})
}
