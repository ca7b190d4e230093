package frontend

import (
	"errors"
	"fmt"
	"math"

	"github.com/vkc-go/vkc/ir"
)

// toData returns Go values, in the forms that Const documents, as a host tensor. dims are the extents, or nil for the
// extents of nested slices. It returns an error if the number of values does not fit dims.
func toData(values any, dims []int) (*ir.Data, error) {
	if d, ok := values.(*ir.Data); ok {
		return copyData(d, dims)
	}
	d, err := ir.FromSlices(values)
	if err != nil || dims == nil {
		return d, err
	}
	shaped, err := ir.NewData(d.DType, dims...)
	if err == nil && shaped.Elems() != d.Elems() {
		err = fmt.Errorf("%s needs %d values, have %d", shaped, shaped.Elems(), d.Elems())
	}
	return &ir.Data{DType: d.DType, Dims: append([]int{}, dims...), Bytes: d.Bytes}, err
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

// scalarData makes a scalar of dtype t. It returns an error if t cannot hold the value: a finite number that rounds to
// infinity, or for integers a fraction or a number out of range.
func scalarData(t ir.DType, value float64) (*ir.Data, error) {
	switch {
	case t.IsBlock() || !t.Valid():
		return nil, fmt.Errorf("a number cannot be %s: apply Dequantize to the other operand", t)
	case t.IsFloat():
		if math.IsInf(ir.RoundTo(value, t), 0) && !math.IsInf(value, 0) {
			return nil, fmt.Errorf("%v is too large for %s", value, t)
		}
	default:
		least, most := ir.IntRange(t)
		if value != math.Trunc(value) || value < float64(least) || value > float64(most) {
			return nil, fmt.Errorf("%v is not a value of %s", value, t)
		}
	}
	return ir.FromFloats(t, []float64{value})
}
