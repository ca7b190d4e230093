package gomlx

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
)

// TestTotalOrder: floats have an order of all their values, -NaN < -Inf < ... < -0 < 0 < ... < Inf < NaN, and other
// numbers the order that they always have. GoMLX's own backend has no such comparisons.
func TestTotalOrder(t *testing.T) {
	b := open(t, *deviceName)
	nan := math.Float32frombits
	for _, rising := range []any{
		[]float32{nan(0xffc00000), float32(math.Inf(-1)), -2, -1e-3, float32(math.Copysign(0, -1)), 0, 1e-3, 2,
			float32(math.Inf(1)), nan(0x7fc00000)},
		[]float64{math.Copysign(math.NaN(), -1), math.Inf(-1), -2, math.Copysign(0, -1), 0, 1e-300, 2, math.Inf(1),
			math.NaN()},
		[]float16.Float16{0xfe00, 0xfc00, 0xc000, 0x8001, 0x8000, 0, 1, 0x4000, 0x7c00, 0x7e00},
		[]bfloat16.BFloat16{0xffc0, 0xff80, 0xc000, 0x8000, 0, 0x4000, 0x7f80, 0x7fc0},
		[]int32{math.MinInt32, -1, 0, 1, math.MaxInt32},
		[]uint64{0, 1, math.MaxInt64, 1 << 63, math.MaxUint64},
	} {
		shape, err := shapeOf(rising, nil)
		if err != nil {
			t.Fatal(err)
		}
		if shape.DType == dtypes.Float64 && !b.types[dtypes.Float64] {
			continue // a device without such numbers
		}
		n := len(floats(rising))
		if shape.DType == dtypes.Uint64 {
			n /= 2 // its halves
		}
		t.Run(shape.DType.String(), func(t *testing.T) {
			c := computation{name: "total order", in: []any{rising, rising}, dims: [][]int{{n, 1}, {1, n}}}
			c.of = func(f compute.Function, p []compute.Value) (all []compute.Value, err error) {
				for _, of := range []func(x, y compute.Value) (compute.Value, error){f.EqualTotalOrder,
					f.NotEqualTotalOrder, f.LessThanTotalOrder, f.LessOrEqualTotalOrder, f.GreaterThanTotalOrder,
					f.GreaterOrEqualTotalOrder} {
					v, err := of(p[0], p[1])
					if err != nil {
						return nil, err
					}
					all = append(all, v)
				}
				return all, nil
			}
			got := c.compute(t, b)
			for i := range n {
				for j := range n {
					want := fmt.Sprint(i == j, i != j, i < j, i <= j, i > j, i >= j)
					var have []any
					for _, r := range got {
						have = append(have, r.values[i*n+j] == 1)
					}
					if fmt.Sprint(have...) != want {
						t.Errorf("%v and %v compare as %v, want %s", i, j, have, want)
					}
				}
			}
		})
	}
}
