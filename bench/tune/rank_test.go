package tune

import (
	"math"
	"testing"
)

func TestSpearman(t *testing.T) {
	for _, test := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{10, 20, 30, 400}, 1},
		{[]float64{1, 2, 3, 4}, []float64{4, 3, 2, 1}, -1},
		{[]float64{1, 2, 3, 4, 5}, []float64{2, 1, 4, 3, 5}, 0.8},
		{[]float64{1, 1, 2}, []float64{1, 1, 2}, 1},
		{[]float64{1, 1, 2, 3}, []float64{1, 2, 3, 4}, 0.9486832980505138},
		{[]float64{1, 1}, []float64{1, 2}, math.NaN()},
		{nil, nil, math.NaN()},
	} {
		got := Spearman(test.a, test.b)
		if math.Abs(got-test.want) > 1e-12 || math.IsNaN(got) != math.IsNaN(test.want) {
			t.Errorf("Spearman(%v, %v) = %v, want %v", test.a, test.b, got, test.want)
		}
	}
}
