package frontend

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Dim is the type of extents in method arguments: an int, an ir.Dim (from Builder.Sym or Tensor.Dim), or several at
// once as an ir.Shape or a []int. So these are all valid:
//
//	b.Input("x", ir.F32, n, 8)
//	x.Reshape(x.Dim(0), 4, 64)
//	y.Broadcast(x.Shape())
//
// It is an alias of any, because Go has no type for "an untyped number or a symbol", and a conversion around every
// number would obscure the shape. Shapes are checked when the graph is built anyway; a value of another type is an
// *Error with its line.
type Dim = any

// toShape returns the shape that dims describe.
func toShape(dims []Dim) (ir.Shape, error) {
	s := make(ir.Shape, 0, len(dims))
	for _, d := range dims {
		switch d := d.(type) {
		case int:
			s = append(s, ir.D(d))
		case ir.Dim:
			s = append(s, d)
		case ir.Shape:
			s = append(s, d...)
		case []int:
			s = append(s, ir.ShapeOf(d...)...)
		default:
			return nil, fmt.Errorf("%v (%T) is not a dim: want int, ir.Dim, ir.Shape or []int", d, d)
		}
	}
	return s, nil
}

// mustShape returns the shape that dims describe, or fails with an error of op if toShape returns one.
func mustShape(op ir.Op, dims []Dim, args ...Tensor) ir.Shape {
	s, err := toShape(dims)
	if err != nil {
		fail(op.String(), err, args...)
	}
	return s
}

// mustDim returns the extent that d describes. It fails with an error of op if d does not describe exactly one.
func mustDim(op ir.Op, d Dim, args ...Tensor) ir.Dim {
	s := mustShape(op, []Dim{d}, args...)
	if len(s) != 1 {
		fail(op.String(), fmt.Errorf("%v is %d dims, want one", d, len(s)), args...)
	}
	return s[0]
}

// inferred stands for the one extent of a shape that Reshape computes.
var inferred = ir.D(-1)

// fillInferred returns shape `to` with a number in place of -1, so that it has as many elements as shape `from`. It
// returns an error if `to` has -1 twice, or if no number fits.
func fillInferred(from, to ir.Shape) (ir.Shape, error) {
	at := -1
	for i, d := range to {
		switch {
		case d != inferred:
		case at >= 0:
			return nil, fmt.Errorf("shape %s has two extents of -1: want at most one, because the other extents "+
				"determine only one", to)
		default:
			at = i
		}
	}
	if at < 0 {
		return to, nil
	}
	given := append(append(ir.Shape{}, to[:at]...), to[at+1:]...)
	d, err := quotient(from, given)
	if err != nil {
		return nil, fmt.Errorf("cannot compute the -1 of %s from %s: %w", to, from, err)
	}
	out := append(ir.Shape{}, to...)
	out[at] = d
	return out, nil
}

// quotient divides the number of elements of num by the number of elements of den. It first cancels equal extents,
// because a product of two symbols has no representation as a dim. It returns an error if the division leaves a
// remainder.
func quotient(num, den ir.Shape) (ir.Dim, error) {
	num, den = append(ir.Shape{}, num...), append(ir.Shape{}, den...)
	for i := 0; i < len(den); {
		if j := indexOf(num, den[i]); j >= 0 {
			num = append(num[:j], num[j+1:]...)
			den = append(den[:i], den[i+1:]...)
			continue
		}
		i++
	}
	n, err := num.Numel()
	if err != nil {
		return ir.Dim{}, err
	}
	d, err := den.Numel()
	if err != nil {
		return ir.Dim{}, err
	}
	q, ok := n.Quo2(d)
	if !ok {
		return ir.Dim{}, fmt.Errorf("%s elements are not a multiple of %s", n, d)
	}
	return q, nil
}

// indexOf returns the index of the first extent equal to d, or -1.
func indexOf(s ir.Shape, d ir.Dim) int {
	for i, e := range s {
		if e == d {
			return i
		}
	}
	return -1
}
