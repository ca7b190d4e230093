package fast

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// searches reports whether an op returns the coordinate of the largest or smallest element of each row.
func searches(op ir.Op) bool { return op == ir.OpArgmax || op == ir.OpArgmin }

// found is the best element of a part of a row, and the first of them if several are equal.
type found struct {
	x float32 // its value
	k int     // its coordinate
}

// search computes argmax or argmin of all rows.
func (r *foldRows) search() error {
	groups := r.groups()
	each, parts := r.parts(groups)
	best := make([][]found, len(groups)*parts)
	by, beats := reducers[ir.OpReduceMax], func(x, y float32) bool { return x > y || x != x && y == y }
	if r.node.Op() == ir.OpArgmin {
		by, beats = reducers[ir.OpReduceMin], func(x, y float32) bool { return x < y || x != x && y == y }
	}
	err := r.call.Parallel(len(best), r.work(each*groups[0].count), func(_, task int) {
		g, lo := r.group(groups[task/parts]), task%parts*each
		best[task] = g.search(lo, min(lo+each, r.n), by, beats)
	})
	if err != nil {
		return err
	}
	for i, g := range groups {
		for row := range g.count {
			first := best[i*parts][row]
			for _, part := range best[i*parts+1 : (i+1)*parts] {
				if beats(part[row].x, first.x) {
					first = part[row]
				}
			}
			r.call.Ints[g.from+row] = int64(first.k)
		}
	}
	return nil
}

// search returns the first of the best elements among elements lo to hi of each row. by reduces a list to its best
// value, and beats reports whether x is better than y.
func (g *groupFold) search(lo, hi int, by *reducer, beats func(x, y float32) bool) []found {
	best, extreme := make([]found, g.count), by.start()
	g.run(g.element, nil, lo, hi, func(row, k int, x []float32) {
		if g.across {
			for i, v := range x {
				if k == lo || beats(v, best[i].x) {
					best[i] = found{v, k}
				}
			}
			return
		}
		y := float32(extreme.list(by.first, x))
		if k > lo && !beats(y, best[row].x) {
			return
		}
		at := slices.Index(x, y)
		if y != y {
			at = slices.IndexFunc(x, func(v float32) bool { return math.IsNaN(float64(v)) })
		}
		best[row] = found{y, k + at}
	})
	return best
}
