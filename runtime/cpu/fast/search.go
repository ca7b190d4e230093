package fast

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// searches reports whether an op returns the coordinate of the largest or smallest element of each row.
func searches(op ir.Op) bool { return op == ir.OpArgmax || op == ir.OpArgmin }

// best has, by row, the best element (greatest or least) of a part of the row, and its coordinate. If several elements
// are equally good, it is the first of them.
type best[T number] struct {
	x  []T
	at []int32
}

// search computes argmax or argmin of all rows. A task finds the best element of a part of some rows.
func (r *foldRows[T]) search() error {
	groups := r.groups
	each, parts := r.parts(groups)
	list := make([]best[T], len(groups)*parts)
	greatest := r.node.Op() == ir.OpArgmax
	err := r.call.Parallel(len(list), r.work(each*groups[0].count), func(_, task int) {
		g, lo := r.group(groups[task/parts]), task%parts*each
		list[task] = g.search(lo, min(lo+each, r.n), greatest)
	})
	if err != nil {
		return err
	}
	for i, g := range groups {
		for row := range g.count {
			first := list[i*parts]
			for _, part := range list[i*parts+1 : (i+1)*parts] {
				if r.beats(part.x[row], first.x[row], greatest) {
					first = part
				}
			}
			r.call.Words[g.from+row] = first.at[row]
		}
	}
	return nil
}

// beats reports whether element x of a row is better than an earlier element y.
func (f *fold[T]) beats(x, y T, greatest bool) bool {
	switch {
	case !f.ofWords():
		return beats(x, y, greatest)
	case f.wide():
		return beats(long(float64(x)), long(float64(y)), greatest)
	}
	return beats(word(float32(x)), word(float32(y)), greatest)
}

// beats reports whether element x of a row is better than an earlier element y. NaN is best.
func beats[E float32 | float64 | int32 | int64](x, y E, greatest bool) bool {
	if x != x {
		return y == y
	}
	return greatest && x > y || !greatest && x < y
}

// search returns the greatest or the least of elements lo to hi-1 and its index, for each row of the group. It goes
// through the elements block by block, and keeps the best one of each row so far.
func (g *groupFold[T]) search(lo, hi int, greatest bool) best[T] {
	found := best[T]{make([]T, g.count), make([]int32, g.count)}
	extremes, places := make([]float64, min(block, g.count)), make([]int32, min(block, g.count))
	g.run(g.element, sink[T]{keeps: -1, f: func(row, k, rows int, x []T) {
		switch n := len(x) / rows; { // elements of each row in the block
		case g.across && k == lo: // element k of every row
			copy(found.x, x)
			for i := range found.at {
				found.at[i] = int32(k)
			}
		case g.across:
			switch whole := beatenBy(found.x, found.at, x, int32(k), greatest, g.ofWords()); {
			case !g.ofWords():
				replace(found.x, found.at, x, whole, k, greatest)
			case g.wide():
				replace(listOf[int64](found.x), found.at, listOf[int64](x), whole, k, greatest)
			default:
				replace(listOf[int32](found.x), found.at, listOf[int32](x), whole, k, greatest)
			}
		default:
			at := places[:rows]
			firsts(g.extreme(greatest), extremes[:rows], at, x)
			for i, place := range at {
				if y := x[i*n+int(place)]; k == lo || g.beats(y, found.x[row+i], greatest) {
					found.x[row+i], found.at[row+i] = y, int32(k)+place
				}
			}
		}
	}}, lo, hi)
	return found
}

// replace replaces the best elements by better ones of x, from element number `from` on, and their coordinates by k.
func replace[E float32 | float64 | int32 | int64](best []E, at []int32, x []E, from, k int, greatest bool) {
	for i := from; i < len(x); i++ {
		if beats(x[i], best[i], greatest) {
			best[i], at[i] = x[i], int32(k)
		}
	}
}

// extreme returns the reducer that finds the best one.
func (f *fold[T]) extreme(greatest bool) *reducer {
	op := ir.OpReduceMin
	if greatest {
		op = ir.OpReduceMax
	}
	return f.reducer(op)
}

// searchFunctions has the assembly of searches, or nil functions. Function first sets at to the index of the first
// element of each row of n that equals the row's result, or to -1. Functions greatest and least replace n best
// elements, a multiple of lanes, by better ones of x, and set the coordinates of these to k.
type searchFunctions[T number] struct {
	first           func(at *int32, results *float64, x *T, rows, n int)
	greatest, least func(best *T, at *int32, x *T, k int32, n int)
}

// searchFunctionsOf returns the assembly for floats, or for words, of type T.
func searchFunctionsOf[T number](words bool) *searchFunctions[T] {
	if words {
		return &rowFoldsOf[T](vector).ofWords
	}
	return &rowFoldsOf[T](vector).ofFloats
}

// beatenBy does the work of replace with assembly, for as many of the first elements as fill vectors, and returns their
// number. words says that the elements are words.
func beatenBy[T number](best []T, at []int32, x []T, k int32, greatest, words bool) (whole int) {
	functions := searchFunctionsOf[T](words)
	f := functions.least
	if greatest {
		f = functions.greatest
	}
	if whole = len(x) / lanes * lanes; f == nil || whole == 0 {
		return 0
	}
	_, _ = best[:whole], at[:whole] // the assembly checks no bounds
	f(&best[0], &at[0], &x[0], k, whole)
	return whole
}

// firsts sets extremes to the best element of each row of x, which reducer `by` finds, and `at` to the index of the
// first such element in its row. NaN is best.
func firsts[T number](by *reducer, extremes []float64, at []int32, x []T) {
	for i := range extremes {
		extremes[i] = by.identity
	}
	rowsOf(by, extremes, x, x)
	// Find the first element that equals the extreme. NaN equals nothing, so rows with NaN are searched again below.
	n := len(x) / len(extremes)
	if f := searchFunctionsOf[T](by.words).first; f != nil {
		f(&at[0], &extremes[0], &x[0], len(extremes), n)
	} else {
		for i, y := range extremes {
			at[i] = int32(slices.IndexFunc(x[i*n:(i+1)*n], func(v T) bool { return is(by, v, y) }))
		}
	}
	for i, y := range extremes {
		if y != y && !by.words {
			at[i] = int32(slices.IndexFunc(x[i*n:(i+1)*n], func(v T) bool { return v != v }))
		}
	}
}

// is reports whether element x is y, the result of a reducer.
func is[T number](by *reducer, x T, y float64) bool {
	switch narrow, ok := any(x).(float32); {
	case ok:
		return by.wide(narrow) == y
	case by.words:
		return long(float64(x)) == long(y)
	}
	return float64(x) == y
}
