package tune

import (
	"math"
	"slices"
)

// Spearman returns the rank correlation of two lists of equal length: 1 if both have the same order, -1 if the order is
// reversed, 0 if the orders are unrelated. Equal values share the mean of their ranks. It is NaN if a list has no
// order: fewer than two values, or all equal. (Spearman, The proof and measurement of association between two things,
// 1904.)
func Spearman(a, b []float64) float64 {
	n := min(len(a), len(b))
	x, y := ranks(a[:n]), ranks(b[:n])
	mean := float64(n-1) / 2
	var xy, xx, yy float64
	for i := range n {
		dx, dy := x[i]-mean, y[i]-mean
		xy, xx, yy = xy+dx*dy, xx+dx*dx, yy+dy*dy
	}
	if xx == 0 || yy == 0 {
		return math.NaN()
	}
	return xy / math.Sqrt(xx*yy)
}

// ranks returns the rank of each value, from 0. Equal values share the mean of their ranks.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return compare(values[i], values[j]) })
	out := make([]float64, len(values))
	for i := 0; i < len(order); {
		// Values i to j-1 in order are equal.
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, n := range order[i:j] {
			out[n] = float64(i+j-1) / 2
		}
		i = j
	}
	return out
}
