package keval

import "github.com/vkc-go/vkc/ir"

// computeRecurrence computes a recurrence directly from its definition, row by row. dims has the run-time extents of
// the parallel axes, and times is the number of time steps.
func (r *run) computeRecurrence(dims []int, times int64) {
	keys := int(r.k.Recurrence.Keys.Add)
	for _, row := range r.m.order(dims) {
		r.moveTo(row, dims)
		r.at = append(r.at[:len(dims)], 0, 0) // time and key
		state := make([]number, keys)
		for j := range state {
			r.moveAlong(r.k.KeyAxis(), int64(j))
			state[j] = r.value(r.k.Recurrence.State)
		}
		for t := range times {
			r.inFold = true
			r.moveAlong(r.k.FoldAxis(), t)
			r.accs[0] = r.nextState(state)
			// Stores of y do not depend on the key.
			r.moveAlong(r.k.KeyAxis(), 0)
			r.runStores(oncePerElement)
			r.inFold = false
		}
		r.moveAlong(r.k.FoldAxis(), 0)
		for j, s := range state {
			r.moveAlong(r.k.KeyAxis(), int64(j))
			r.accs[1] = number{f: ir.RoundTo(s.f, ir.F32), undef: s.undef}
			r.runStores(oncePerRow)
		}
	}
}

// nextState computes one time of a row of the state, as [kernel.Recurrence] defines it: it replaces the row's elements,
// and returns y, the sum over keys of state*Q.
func (r *run) nextState(state []number) (y number) {
	c, key := r.k.Recurrence, r.k.KeyAxis()
	var read number // the sum over keys of state*A
	for j, s := range state {
		if c.A == nil {
			break
		}
		r.moveAlong(key, int64(j))
		a := r.value(c.A)
		read.f += float64(s.f * a.f)
		read.undef = read.undef || s.undef || a.undef
	}
	for j, s := range state {
		r.moveAlong(key, int64(j))
		decay, v, k, q := r.value(c.Decay), r.value(c.V), r.value(c.K), r.value(c.Q)
		next := number{f: float64(s.f*decay.f) + float64(v.f*k.f),
			undef: s.undef || decay.undef || v.undef || k.undef || read.undef}
		if c.B != nil {
			b := r.value(c.B)
			next.f, next.undef = next.f+float64(read.f*b.f), next.undef || b.undef
		}
		state[j] = next
		y.f += float64(next.f * q.f)
		y.undef = y.undef || next.undef || q.undef
	}
	y.f = ir.RoundTo(y.f, ir.F32)
	return y
}
