package fast

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// reducer folds float32 elements into a float64 result. In float64 the squares of elements are in range, and the
// rounding errors of sums are negligible.
type reducer struct {
	name  string
	first float64                      // the result for no elements
	merge func(a, b float64) float64   // returns the result for two lists from the results for each
	next  func(acc, x float64) float64 // folds another element into a result
}

// reducers has the reducers of the basic reductions of floats.
var reducers = map[ir.Op]*reducer{
	ir.OpSum:       {"sum", 0, sumOf, sumOf},
	ir.OpProd:      {"product", 1, productOf, productOf},
	ir.OpReduceMax: {"greatest", math.Inf(-1), greater, greater},
	ir.OpReduceMin: {"least", math.Inf(1), lesser, lesser},
}

// squares is the reducer that sums squares.
var squares = &reducer{"sumSquares", 0, sumOf, func(acc, x float64) float64 { return acc + float64(x*x) }}

func sumOf(a, b float64) float64     { return a + b }
func productOf(a, b float64) float64 { return float64(a * b) }
func greater(a, b float64) float64   { return max(a, b) }
func lesser(a, b float64) float64    { return min(a, b) }

// reduction is the assembly of a reducer. list folds n elements into 8 results: element i into result i%8. each folds n
// elements into n results. n is a multiple of lanes.
type reduction struct {
	list, each func(results *float64, x *float32, n int)
}

// running is a reducer in use by one task, with memory for the results of the assembly.
type running struct {
	*reducer
	assembly *reduction // nil if there is none
	results  [lanes]float64
}

// start returns the reducer for use by one task.
func (r *reducer) start() *running {
	s := &running{reducer: r}
	if v, ok := reductions[r.name]; ok {
		s.assembly = &v
	}
	return s
}

// list folds all elements of x into acc. The order of additions depends only on the length of x.
func (r *running) list(acc float64, x []float32) float64 {
	whole := 0
	if r.assembly != nil && len(x) >= lanes {
		for i := range r.results {
			r.results[i] = r.first
		}
		whole = len(x) / lanes * lanes
		r.assembly.list(&r.results[0], &x[0], whole)
		for _, y := range r.results {
			acc = r.merge(acc, y)
		}
	}
	for _, v := range x[whole:] {
		acc = r.next(acc, float64(v))
	}
	return acc
}

// each folds x[i] into acc[i].
func (r *running) each(acc []float64, x []float32) {
	acc = acc[:len(x)] // the assembly checks no bounds
	whole := 0
	if r.assembly != nil && len(x) >= lanes {
		whole = len(x) / lanes * lanes
		r.assembly.each(&acc[0], &x[0], whole)
	}
	for i, v := range x[whole:] {
		acc[whole+i] = r.next(acc[whole+i], float64(v))
	}
}
