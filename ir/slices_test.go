package ir_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

func TestFromSlices(t *testing.T) {
	type celsius float32
	for _, c := range []struct {
		values any
		typ    ir.DType
		dims   []int
		floats []float64
	}{
		{float32(1.5), ir.F32, nil, []float64{1.5}},
		{[]int{-1, 7}, ir.I32, []int{2}, []float64{-1, 7}},
		{[][]int8{{-1}, {2}}, ir.I8, []int{2, 1}, []float64{-1, 2}},
		{[2][3]uint16{{1, 2, 3}, {4, 5, 6}}, ir.U16, []int{2, 3}, []float64{1, 2, 3, 4, 5, 6}},
		{[]celsius{20}, ir.F32, []int{1}, []float64{20}},
		{[][]bool{{true, false}}, ir.Bool, []int{1, 2}, []float64{1, 0}},
		{[][]float64{}, ir.F64, []int{0, 0}, []float64{}},
		{[][2]float32{}, ir.F32, []int{0, 2}, []float64{}},
	} {
		d, err := ir.FromSlices(c.values)
		if err != nil {
			t.Error(err)
			continue
		}
		wide, err := d.Floats()
		if d.DType.IsInteger() || d.DType == ir.Bool {
			var ints []int64
			ints, err = d.Ints()
			wide = make([]float64, len(ints))
			for i, n := range ints {
				wide[i] = float64(n)
			}
		}
		if err != nil || d.DType != c.typ || !slices.Equal(d.Dims, c.dims) || !slices.Equal(wide, c.floats) {
			t.Errorf("%v is %v %v %v", c.values, d, wide, err)
		}
	}
	for want, values := range map[string]any{"is nil": nil, "cannot be a tensor": []string{"x"},
		"want equal lengths": [][]int32{{1}, {}}, "does not fit i32": []int{1 << 40}} {
		_, err := ir.FromSlices(values)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with %q", err, want)
		}
	}
}
