package rewrite

import (
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// reference returns the Go reference of a custom op, given a function that bails out on errors.
func reference(f func(args []*ir.Data, a ir.Attrs) []*ir.Data) func([]*ir.Data, ir.Attrs) ([]*ir.Data, error) {
	return func(args []*ir.Data, a ir.Attrs) (_ []*ir.Data, err error) {
		defer bailout.Caught(&err)
		return f(args, a), nil
	}
}

func ints(d *ir.Data) []int64     { return bailout.Must(d.Ints()) }
func floats(d *ir.Data) []float64 { return bailout.Must(d.Floats()) }

// ofInts and ofFloats return a tensor of dtype t.
func ofInts(t ir.DType, v []int64, dims ...int) *ir.Data {
	return bailout.Must(ir.FromInts(t, v, dims...))
}
func ofFloats(t ir.DType, v []float64, dims ...int) *ir.Data {
	return bailout.Must(ir.FromFloats(t, v, dims...))
}
