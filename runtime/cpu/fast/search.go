package fast

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// searches reports whether an op returns the coordinate of the largest or smallest element of each row.
func searches(op ir.Op) bool { return op == ir.OpArgmax || op == ir.OpArgmin }

// best has, by row, the best element (greatest or least) of a part of the row, and its coordinate. If several elements
// are equally good, it is the first of them.
type best struct {
	x  []float32
	at []int32
}

// search computes argmax or argmin of all rows.
func (r *foldRows) search() error {
	groups := r.groups()
	each, parts := r.parts(groups)
	list := make([]best, len(groups)*parts)
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
				if beats(part.x[row], first.x[row], greatest) {
					first = part
				}
			}
			r.call.Words[g.from+row] = first.at[row]
		}
	}
	return nil
}

// beats reports whether element x of a row is better than an earlier element y. NaN is best.
func beats(x, y float32, greatest bool) bool {
	if x != x {
		return y == y
	}
	return greatest && x > y || !greatest && x < y
}

// search returns the best among elements lo to hi of each row: the greatest or the least.
func (g *groupFold) search(lo, hi int, greatest bool) best {
	found := best{make([]float32, g.count), make([]int32, g.count)}
	by := reducers[ir.OpReduceMin]
	if greatest {
		by = reducers[ir.OpReduceMax]
	}
	var extremes [block]float64
	g.run(g.element, -1, lo, hi, func(row, k, rows int, x []float32) {
		switch {
		case g.across && k == lo:
			copy(found.x, x)
			for i := range found.at {
				found.at[i] = int32(k)
			}
			return
		case g.across:
			for i := beatenBy(found.x, found.at, x, int32(k), greatest); i < len(x); i++ {
				if beats(x[i], found.x[i], greatest) {
					found.x[i], found.at[i] = x[i], int32(k)
				}
			}
			return
		}
		list := extremes[:rows]
		for i := range list {
			list[i] = by.identity
		}
		by.rows(list, x)
		n := len(x) / rows
		for i, y := range list {
			y := float32(y)
			if k > lo && !beats(y, found.x[row], greatest) {
				continue
			}
			part := x[i*n : (i+1)*n]
			at := 0
			if y != y {
				at = slices.IndexFunc(part, func(v float32) bool { return math.IsNaN(float64(v)) })
			} else {
				at = skip(part, y)
				at += slices.Index(part[at:], y)
			}
			found.x[row+i], found.at[row+i] = y, int32(k+at)
		}
	})
	return found
}
