package keval

import (
	"math"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// computeAttention computes an attention kernel directly from its definition: row by row, with all scores of a row in
// memory. dims has the run-time extents of the parallel axes, and keys is the number of keys.
func (r *run) computeAttention(dims []int, keys int64) {
	ax := r.k.AttentionAxes()
	rows, elements := dims[:ax.Value], dims[ax.Value]
	for _, row := range r.m.order(rows) {
		r.moveTo(row, rows)
		r.at = append(r.at[:ax.Value], 0, 0, 0, 0) // value, key, contraction and factor axes
		r.computeAttentionRow(keys, elements)
	}
}

// computeAttentionRow computes an attention for one row of queries, up to `keys` keys, and runs the stores of the row
// and of its `elements` elements.
func (r *run) computeAttentionRow(keys int64, elements int) {
	ax := r.k.AttentionAxes()
	first, end := r.keysOf(keys)
	scores := make([]number, max(end-first, 0))
	top := math.Inf(-1)
	for i := range scores {
		scores[i] = r.score(first + int64(i))
		top = max(top, scores[i].f)
	}
	sum, undef := 0.0, false
	for i, s := range scores {
		// Scores count in powers of 2, not of e. The largest weight is 1, so that none overflows.
		s.f = math.Exp2(s.f - top)
		if top == math.Inf(-1) {
			s.f = 0 // no key counts
		}
		scores[i] = s
		sum, undef = sum+s.f, undef || s.undef
	}
	r.accs[0] = number{f: ir.RoundTo(top, ir.F32), undef: undef}
	r.accs[1] = number{f: ir.RoundTo(sum, ir.F32), undef: undef}
	if r.k.Attention.Factor != nil {
		for i := range scores {
			f := r.weightFactor(first + int64(i))
			// A key with weight 0 does not count, even if its factor is infinite.
			if scores[i].f != 0 {
				scores[i] = number{f: float64(scores[i].f * f.f), undef: scores[i].undef || f.undef}
			}
		}
	}
	for e := range elements {
		r.moveAlong(ax.Value, int64(e))
		r.accs[2] = r.weighted(scores, first)
		r.runStores(oncePerElement)
	}
	r.moveAlong(ax.Value, 0)
	r.runStores(oncePerRow)
}

// keysOf returns the keys, first to end-1, that the current row sees within its run of keys (see kernel.AttentionAxes).
func (r *run) keysOf(keys int64) (first, end int64) {
	ax := r.k.AttentionAxes()
	splits := r.k.Parallel[ax.Split].Add
	// Splits have equal numbers of keys, rounded up; the last ones may have fewer.
	each := ceil.Div(keys, max(splits, 1))
	seen := r.index(r.k.Seen(kernel.Axis(ax.Query, r.k.Parallel[ax.Query])))
	first = r.at[ax.Split] * each
	return first, min(first+each, seen)
}

// moveAlong sets the coordinate along an axis, and marks all cached values of expressions as outdated.
func (r *run) moveAlong(axis int, to int64) {
	r.at[axis] = to
	r.round++
	r.firstRound = r.round
}

// score returns the score of a key for the current row. An infinite mask overrides the sum, as in any float addition.
func (r *run) score(key int64) number {
	r.inFold = true
	defer func() { r.inFold = false }()
	a, ax := r.k.Attention, r.k.AttentionAxes()
	r.moveAlong(ax.Key, key)
	sum := r.dot(a.Q, a.K, ax.Dot, a.Dot.Add)
	sum.f = float64(sum.f * a.Scale)
	if a.Softcap != 0 {
		sum.f = float64(a.Softcap * math.Tanh(sum.f))
	}
	if a.Mask != nil {
		m := r.value(a.Mask)
		sum.f += m.float(a.Mask.DType)
		sum.undef = sum.undef || m.undef
	}
	return sum
}

// dot returns the sum of q*k over n coordinates of an axis.
func (r *run) dot(q, k *kernel.Expr, axis int, n int64) (sum number) {
	for d := range n {
		r.moveAlong(axis, d)
		x, y := r.value(q), r.value(k)
		// The conversion keeps Go from fusing the multiplication with the addition.
		sum.f += float64(x.float(q.DType) * y.float(k.DType))
		sum.undef = sum.undef || x.undef || y.undef
	}
	return sum
}

// weightFactor returns the factor by which a key's weight is multiplied; see kernel.AttentionFactor.
func (r *run) weightFactor(key int64) number {
	r.inFold = true
	defer func() { r.inFold = false }()
	a, ax := r.k.Attention, r.k.AttentionAxes()
	r.moveAlong(ax.Key, key)
	sum, less := r.dot(a.Factor.Q, a.Factor.K, ax.Factor, a.Factor.Dot.Add), r.value(a.Factor.Delta)
	sum.f -= less.float(a.Factor.Delta.DType)
	sum.undef = sum.undef || less.undef
	if a.Softcap != 0 {
		tanh := math.Tanh(r.dot(a.Q, a.K, ax.Dot, a.Dot.Add).f * a.Scale)
		// 1 - tanh^2 is the derivative of tanh, which softcap applies to scores.
		sum.f = float64(sum.f * (1 - float64(tanh*tanh)))
	}
	return sum
}

// weighted returns the weighted sum of V at the current value coordinate. weights[i] is the weight of key first+i.
func (r *run) weighted(weights []number, first int64) (sum number) {
	r.inFold = true
	defer func() { r.inFold = false }()
	a, ax := r.k.Attention, r.k.AttentionAxes()
	for i, w := range weights {
		r.moveAlong(ax.Key, first+int64(i))
		v := r.value(a.V)
		sum.f += float64(w.f * v.float(a.V.DType))
		sum.undef = sum.undef || w.undef || v.undef
	}
	sum.f = ir.RoundTo(sum.f, ir.F32)
	return sum
}
