package fast

import (
	"math"
	"sync"
	"unsafe"

	"github.com/vkc-go/vkc/ir"
)

// reducer folds float32 elements into a float64 result. In float64 the squares of elements are in range, and the
// rounding errors of sums are negligible.
type reducer struct {
	kind     reducerKind
	identity float64                      // the result for no elements
	merge    func(a, b float64) float64   // returns the result for two lists together, from the results a and b
	next     func(acc, x float64) float64 // folds another element into a result
	words    bool                         // whether the elements are words
	// The others are for lists of 64 bits. all folds the elements of a list into acc, and each folds x[i] into acc[i].
	all  func(acc float64, x []float64) float64
	each func(acc, x []float64)
	// running sets out[i] to the fold of acc and x[0] to x[i], and returns the last element. It may be nil.
	running func(acc float64, out, x []float64) float64
}

// reducerKind says which assembly a reducer has. Words have 32 bits, or 64 if the elements are float64.
type reducerKind uint8

const (
	noKind reducerKind = iota // it has none
	sumOfFloats
	productOfFloats
	sumOfSquares
	leastFloat
	greatestFloat
	sumOfWords
	leastWord
	greatestWord
	reducerKinds // number of kinds
)

// reducers has the reducers of the basic reductions of floats.
var reducers = map[ir.Op]*reducer{
	ir.OpSum: {kind: sumOfFloats, identity: 0, merge: sumOf, next: sumOf, all: sumAll[float64],
		each: sumEachOf[float64], running: runningSum64},
	ir.OpProd: {kind: productOfFloats, identity: 1, merge: productOf, next: productOf, all: productAll[float64],
		each: productEachOf[float64]},
	ir.OpReduceMax: {kind: greatestFloat, identity: math.Inf(-1), merge: greater, next: greater,
		all: greatestAll[float64], each: greatestEachOf[float64]},
	ir.OpReduceMin: {kind: leastFloat, identity: math.Inf(1), merge: lesser, next: lesser, all: leastAll[float64],
		each: leastEachOf[float64]},
}

// longReducer returns the reducer of an op for 64-bit integers of dtype t, or nil if there is none. The reducer takes
// and returns integers as the bits of float64 numbers.
func longReducer(op ir.Op, t ir.DType) *reducer {
	least, most := ir.IntRange(t)
	r := &reducer{words: true}
	set := func(first int64, next func(a, b int64) int64) {
		r.identity = bitsOfLong(first)
		r.next = func(a, b float64) float64 { return bitsOfLong(next(long(a), long(b))) }
		r.merge = r.next
	}
	switch op {
	case ir.OpSum:
		r.kind, r.all, r.each = sumOfWords, sumAll[int64], sumEachOf[int64]
		set(0, func(a, b int64) int64 { return a + b })
	case ir.OpProd:
		r.all, r.each = productAll[int64], productEachOf[int64]
		set(1, func(a, b int64) int64 { return a * b })
	case ir.OpReduceMax:
		r.kind, r.all, r.each = greatestWord, greatestAll[int64], greatestEachOf[int64]
		set(least, func(a, b int64) int64 { return max(a, b) })
	case ir.OpReduceMin:
		r.kind, r.all, r.each = leastWord, leastAll[int64], leastEachOf[int64]
		set(most, func(a, b int64) int64 { return min(a, b) })
	default:
		return nil
	}
	return r
}

// runningSum64 sets out to the running sums of acc and the elements of x, and returns the last.
func runningSum64(acc float64, out, x []float64) float64 {
	for i, y := range x[:len(out)] {
		acc += y
		out[i] = acc
	}
	return acc
}

// wordsIn returns the memory of a list of 64 bits as elements of type E.
func wordsIn[E float64 | int64](list []float64) []E {
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(list))), len(list))
}

// result64 returns f of acc, which has the bits of an E.
func result64[E float64 | int64](acc float64, f func(acc E) E) float64 {
	list := [1]float64{acc}
	e := wordsIn[E](list[:])
	e[0] = f(e[0])
	return list[0]
}

// Each of the next functions folds a list in several independent parts, because an operation takes several cycles and
// the CPU can overlap independent ones.

// sumAll adds the elements of x to acc, in four sums. Integers are in the bits of the float64 numbers.
func sumAll[E float64 | int64](acc float64, x []float64) float64 {
	return result64(acc, func(sum E) E {
		list, a, b, c := wordsIn[E](x), E(0), E(0), E(0)
		for ; len(list) >= 4; list = list[4:] {
			sum, a, b, c = sum+list[0], a+list[1], b+list[2], c+list[3]
		}
		for _, y := range list {
			sum += y
		}
		return (sum + a) + (b + c)
	})
}

// productAll multiplies acc by the elements of x, in four products as sumAll does.
func productAll[E float64 | int64](acc float64, x []float64) float64 {
	return result64(acc, func(product E) E {
		list, a, b, c := wordsIn[E](x), E(1), E(1), E(1)
		for ; len(list) >= 4; list = list[4:] {
			product, a, b, c = product*list[0], a*list[1], b*list[2], c*list[3]
		}
		for _, y := range list {
			product *= y
		}
		return E(product*a) * E(b*c)
	})
}

// greatestAll returns the greatest of acc and the elements of x.
func greatestAll[E float64 | int64](acc float64, x []float64) float64 {
	return result64(acc, func(best E) E {
		list, a := wordsIn[E](x), best
		for ; len(list) >= 2; list = list[2:] {
			best, a = max(best, list[0]), max(a, list[1])
		}
		for _, y := range list {
			best = max(best, y)
		}
		return max(best, a)
	})
}

// leastAll returns the least of acc and the elements of x.
func leastAll[E float64 | int64](acc float64, x []float64) float64 {
	return result64(acc, func(best E) E {
		list, a := wordsIn[E](x), best
		for ; len(list) >= 2; list = list[2:] {
			best, a = min(best, list[0]), min(a, list[1])
		}
		for _, y := range list {
			best = min(best, y)
		}
		return min(best, a)
	})
}

func sumEachOf[E float64 | int64](acc, x []float64) {
	to := wordsIn[E](acc)
	for i, y := range wordsIn[E](x) {
		to[i] += y
	}
}

func productEachOf[E float64 | int64](acc, x []float64) {
	to := wordsIn[E](acc)
	for i, y := range wordsIn[E](x) {
		to[i] *= y
	}
}

func greatestEachOf[E float64 | int64](acc, x []float64) {
	to := wordsIn[E](acc)
	for i, y := range wordsIn[E](x) {
		to[i] = max(to[i], y)
	}
}

func leastEachOf[E float64 | int64](acc, x []float64) {
	to := wordsIn[E](acc)
	for i, y := range wordsIn[E](x) {
		to[i] = min(to[i], y)
	}
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
		return &reducer{kind: sumOfWords, identity: 0, merge: sumOf, next: sumOf, words: true}
	case ir.OpAny:
		return &reducer{kind: greatestWord, identity: 0, merge: greater, next: greater, words: true}
	case ir.OpAll:
		return &reducer{kind: leastWord, identity: 1, merge: lesser, next: lesser, words: true}
	}
	switch { // words of u32 are signed here
	case op == ir.OpReduceMax && t != ir.U32:
		return &reducer{kind: greatestWord, identity: float64(least), merge: greater, next: greater, words: true}
	case op == ir.OpReduceMin && t != ir.U32:
		return &reducer{kind: leastWord, identity: float64(most), merge: lesser, next: lesser, words: true}
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
var squares = &reducer{kind: sumOfSquares, merge: sumOf,
	next: func(acc, x float64) float64 { return acc + float64(x*x) },
	all: func(acc float64, x []float64) float64 {
		a, b := acc, 0.0
		for ; len(x) >= 2; x = x[2:] {
			a, b = a+float64(x[0]*x[0]), b+float64(x[1]*x[1])
		}
		for _, y := range x {
			a += float64(y * y)
		}
		return a + b
	},
	each: func(acc, x []float64) {
		for i, y := range x {
			acc[i] += float64(y * y)
		}
	}}

func sumOf(a, b float64) float64     { return a + b }
func productOf(a, b float64) float64 { return float64(a * b) }
func greater(a, b float64) float64   { return max(a, b) }
func lesser(a, b float64) float64    { return min(a, b) }

// reduction is the assembly of a reducer. Function rows folds n elements of each row into the row's result; first is
// the result for no elements, and rowsOf describes ahead. Function each folds element i of each row of x into result
// i. Rows are `apart` elements apart, and n is a positive multiple of the number of lanes.
type reduction[T number] struct {
	rows func(results *float64, x, ahead *T, first float64, rows, n, apart int)
	each func(results *float64, x *T, rows, n, apart int)
}

// reductionOf returns the reduction of an assembly for a kind of reducer of elements of T.
func reductionOf[T number](a *assembly, kind reducerKind) reduction[T] {
	if list, ok := any(&a.reductions).(*[reducerKinds]reduction[T]); ok {
		return list[kind]
	}
	return any(&a.wideReductions).(*[reducerKinds]reduction[T])[kind]
}

// list returns the result for the elements of a list.
func (r *reducer) list(x []float32) float64 {
	result := idleResults.Get().(*[1]float64)
	defer idleResults.Put(result)
	result[0] = r.identity
	rowsOf(r, result[:], x, x)
	return result[0]
}

// idleResults has memory for a result. Assembly takes its address, so it would be allocated on the heap in each call.
var idleResults = sync.Pool{New: func() any { return new([1]float64) }}

// rowsOf folds each row of x into the row's element of results. All rows have the same length, and the order of
// additions depends only on that length. ahead is nil, or memory that the caller reads next, with as many elements as
// x: the assembly prefetches it.
func rowsOf[T number](r *reducer, results []float64, x, ahead []T) {
	if len(results) == 0 {
		return
	}
	ahead = orSelf(ahead, x)
	n, done := len(x)/len(results), 0 // done: how many elements of each row are folded, by the widest vectors first
	for a := vector; a != nil; a = a.narrower {
		f := reductionOf[T](a, r.kind).rows
		if part := (n - done) / a.lanes * a.lanes; f != nil && part > 0 {
			f(&results[0], &x[done], &ahead[done], r.identity, len(results), part, n)
			done += part
		}
	}
	for row, acc := range results {
		results[row] = foldList(r, acc, x[row*n+done:(row+1)*n])
	}
}

// foldList folds the elements of a list into acc, without assembly.
func foldList[T number](r *reducer, acc float64, x []T) float64 {
	switch x := any(x).(type) {
	case []float32:
		for _, v := range x {
			acc = r.next(acc, r.wide(v))
		}
	case []float64:
		if len(x) > 0 {
			acc = r.all(acc, x)
		}
	}
	return acc
}

// eachOf folds each column of the rows x into the column's element of acc, row after row.
func eachOf[T number](r *reducer, acc []float64, x []T) {
	n, rows, whole := len(acc), len(x)/max(len(acc), 1), 0 // whole: how many columns assembly has folded
	x = x[:rows*n]                                         // the assembly checks no bounds
	for a := vector; a != nil && rows > 0; a = a.narrower {
		if f := reductionOf[T](a, r.kind).each; f != nil && n-whole >= a.lanes {
			part := (n - whole) / a.lanes * a.lanes
			f(&acc[whole], &x[whole], rows, part, n)
			whole += part
		}
	}
	for ; len(x) > 0 && whole < n; x = x[n:] {
		switch row := any(x[whole:n]).(type) {
		case []float32:
			for i, v := range row {
				acc[whole+i] = r.next(acc[whole+i], r.wide(v))
			}
		case []float64:
			r.each(acc[whole:], row)
		}
	}
}

// momentsFunction is the assembly of momentsOf. Rows have n elements, which is not 0.
type momentsFunction = func(sums, squares, firsts *float64, x, ahead *float32, rows, n int, begin bool)

// momentsOf sums, for each row of x, the differences of its elements from the row's number in firsts. It adds them to
// the row's element of sums, and their squares to the row's element of squares. If begin is true, it first sets the
// numbers in firsts to the first elements of the rows. All rows have the same length. See rowsOf for ahead.
func momentsOf(sums, squares, firsts []float64, x, ahead []float32, begin bool) {
	if len(x) == 0 {
		return
	}
	n := len(x) / len(sums)
	_, _, _ = squares[:len(sums)], firsts[:len(sums)], x[:n*len(sums)] // the assembly checks no bounds
	if vector != nil && vector.moments != nil {
		vector.moments(&sums[0], &squares[0], &firsts[0], &x[0], &orSelf(ahead, x)[0], len(sums), n, begin)
		return
	}
	for row := range sums {
		list := x[row*n : (row+1)*n]
		if begin {
			firsts[row] = float64(list[0])
		}
		sum, square := 0.0, 0.0
		for _, v := range list {
			d := float64(v) - firsts[row]
			sum, square = sum+d, square+float64(d*d)
		}
		sums[row], squares[row] = sums[row]+sum, squares[row]+square
	}
}
