package fast

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// reducer folds float32 elements into a float64 result. In float64 the squares of elements are in range, and the
// rounding errors of sums are negligible.
type reducer struct {
	name     string
	identity float64                      // the result for no elements
	merge    func(a, b float64) float64   // returns the result for two lists together, from each one's
	next     func(acc, x float64) float64 // folds another element into a result
	words    bool                         // whether the elements are words
}

// reducers has the reducers of the basic reductions of floats.
var reducers = map[ir.Op]*reducer{
	ir.OpSum:       {"sum", 0, sumOf, sumOf, false},
	ir.OpProd:      {"product", 1, productOf, productOf, false},
	ir.OpReduceMax: {"greatest", math.Inf(-1), greater, greater, false},
	ir.OpReduceMin: {"least", math.Inf(1), lesser, lesser, false},
}

// wordReducer returns the reducer of an op for words of dtype t, or nil if there is none. n is the largest number of
// elements of a list. The results must be exact, so sums must be below 2^53, up to which float64 represents integers.
func wordReducer(op ir.Op, t ir.DType, n int64) *reducer {
	least, most := ir.IntRange(t)
	switch op {
	case ir.OpSum:
		if n > 1<<(53-8*t.BlockBytes()) {
			return nil
		}
		return &reducer{"sum of words", 0, sumOf, sumOf, true}
	case ir.OpAny:
		return &reducer{"greatest of words", 0, greater, greater, true}
	case ir.OpAll:
		return &reducer{"least of words", 1, lesser, lesser, true}
	}
	switch { // words of u32 are signed here
	case op == ir.OpReduceMax && t != ir.U32:
		return &reducer{"greatest of words", float64(least), greater, greater, true}
	case op == ir.OpReduceMin && t != ir.U32:
		return &reducer{"least of words", float64(most), lesser, lesser, true}
	}
	return nil
}

// wide returns element x, a float or the bits of a word, as float64.
func (r *reducer) wide(x float32) float64 {
	if r.words {
		return float64(word(x))
	}
	return float64(x)
}

// squares is the reducer that sums squares.
var squares = &reducer{"sumSquares", 0, sumOf, func(acc, x float64) float64 { return acc + float64(x*x) }, false}

func sumOf(a, b float64) float64     { return a + b }
func productOf(a, b float64) float64 { return float64(a * b) }
func greater(a, b float64) float64   { return max(a, b) }
func lesser(a, b float64) float64    { return min(a, b) }

// reduction is the assembly of a reducer. rows folds n elements of each row into the row's result. The rows are `apart`
// elements from each other, and first is the result for no elements. each folds each of n elements into a result of its
// own. n is a multiple of lanes.
type reduction struct {
	rows func(results *float64, x *float32, first float64, rows, n, apart int)
	each func(results *float64, x *float32, n int)
}

// rows folds each row of x into its element of results; all rows have the same length. The order of additions depends
// only on that length.
func (r *reducer) rows(results []float64, x []float32) {
	n, whole := len(x)/max(len(results), 1), 0
	if assembly := reductions[r.name]; assembly.rows != nil && n >= lanes {
		whole = n / lanes * lanes
		assembly.rows(&results[0], &x[0], r.identity, len(results), whole, n)
	}
	if whole == n {
		return
	}
	for row, acc := range results {
		for _, v := range x[row*n+whole : (row+1)*n] {
			acc = r.next(acc, r.wide(v))
		}
		results[row] = acc
	}
}

// list returns the result for the elements of a list.
func (r *reducer) list(x []float32) float64 {
	result := [1]float64{r.identity}
	r.rows(result[:], x)
	return result[0]
}

// each folds x[i] into acc[i], for each element of x.
func (r *reducer) each(acc []float64, x []float32) {
	acc = acc[:len(x)] // the assembly checks no bounds
	whole := 0
	if assembly := reductions[r.name]; assembly.each != nil && len(x) >= lanes {
		whole = len(x) / lanes * lanes
		assembly.each(&acc[0], &x[0], whole)
	}
	for i, v := range x[whole:] {
		acc[whole+i] = r.next(acc[whole+i], r.wide(v))
	}
}
