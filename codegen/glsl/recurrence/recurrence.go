// Package recurrence writes kernels that go along time with a matrix as their state.
package recurrence

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// writer writes a recurrence. A team is the invocations (lanes) that share rows of the state. Of n lanes, lane i keeps
// the vec4s i, i+n, i+2n, ... of the team's rows in registers, from the first time step to the last. Teams never wait
// for each other. The lanes of a team exchange values to add up the products of the state and A, once per time step,
// and to add up the output y, once in several time steps.
type writer struct {
	*emit.Emitter
	s     kernel.Recurrent
	r     *kernel.Recurrence
	along emit.Along
	lanes int
	rows  int // rows of a team
	quads int // vec4 of a row in a lane

	lane  expr.Expr  // the invocation's number in its team
	unit  expr.Expr  // the team's first row is unit*rows
	valid expr.Expr  // the condition that the team exists, or nil
	state expr.Array // by row and vec4

	perTime, ofState []kernel.Store // the stores of every time step, and of the state after the last one
}

// Emit writes a recurrence.
func Emit(e *emit.Emitter) {
	s, r := e.Sched.(kernel.Recurrent), e.K.Recurrence
	w := &writer{Emitter: e, s: s, r: r, along: emit.Along{Axis: e.K.KeyAxis(), Extent: r.Keys}, lanes: s.LanesPerRow,
		rows: s.ThreadM, quads: schedule.StateQuads(e.K, s)}
	w.perTime, w.ofState = e.SplitStores()
	e.OverSpace(w.place, w.run)
}

// place assigns rows to each team. If the last workgroup has more teams than there are rows, the additional ones repeat
// the last rows and store nothing, because all lanes of a subgroup must reach every shuffle.
func (w *writer) place(s emit.Space) {
	self, teams := w.SelfIndex(), w.s.Workgroup/w.lanes
	w.lane = expr.Of("0u")
	if w.lanes > 1 {
		w.lane = w.Variable("uint", "lane_of_row", expr.Remainder(self, w.lanes, w.s.Workgroup))
	}
	n, _ := s[0].Points[0].Quo(int64(w.rows)) // teams along the innermost axis, which rows divides
	first := expr.Times(expr.Of("gl_WorkGroupID.x"), teams)
	points := slices.Clone(s[0].Points)
	points[0] = n
	if w.SetGrid(0, points, int64(teams)) {
		first = w.OpenFor("", "first_team", first, w.Dim(n), expr.Times(expr.Of("gl_NumWorkGroups.x"), teams))
	}
	team := expr.Plus(first, expr.Quotient(self, w.lanes, w.s.Workgroup))
	if _, whole := n.Quo(int64(teams)); !whole {
		raw := w.Variable("uint", "team_unlimited", team)
		w.valid = w.Variable("bool", "in_range", expr.Binary("<", raw, w.Dim(n)))
		team = expr.Call("min", raw, w.Coordinate(kernel.DimIndex(n).Minus(kernel.Const(1))))
	}
	w.unit = w.Split(s[0], w.rows, w.Variable("uint", "team", team))
}

// each writes body in a loop of count iterations. Short loops are unrolled, so that arrays stay in registers.
func (w *writer) each(name string, count int, body func(i expr.Expr)) {
	if count <= 64 {
		w.Repeat(name, count, body)
		return
	}
	body(w.OpenLoop(name, expr.Of("0u"), expr.Uint(count), 1))
	w.Close()
}

// row returns the axis of the rows.
func (w *writer) row() int { return len(w.K.Parallel) - 1 }

// bindRow binds the row axis to the r-th row of the team.
func (w *writer) bindRow(r expr.Expr) { w.BindAxis(w.row(), expr.Flat(w.unit, w.rows, r)) }

// column returns the number, in a row, of the n-th vec4 of the lane.
func (w *writer) column(n expr.Expr) expr.Expr { return expr.Plus(w.lane, expr.Times(n, w.lanes)) }

// whole reports whether all vec4 of a lane are inside the row.
func (w *writer) whole() bool { return w.r.Keys.Add == int64(4*w.quads*w.lanes) }

// quad returns the n-th vec4 of the lane in an operand.
func (w *writer) quad(x *kernel.Expr, n expr.Expr, name string) expr.Expr {
	return w.Quad(x, w.along, expr.Times(w.column(n), 4), name, w.whole())
}

// stateAt returns the n-th vec4 of the lane in the r-th row.
func (w *writer) stateAt(r, n expr.Expr) expr.Expr { return w.state.At(expr.Flat(r, w.quads, n)) }

// run writes the whole recurrence of a team's rows.
func (w *writer) run() {
	w.Comment("The state before the first time.")
	w.state = w.Array("vec4", "state", w.rows*w.quads)
	w.each("r", w.rows, func(r expr.Expr) {
		w.bindRow(r)
		w.each("n", w.quads, func(n expr.Expr) { w.Assign(w.stateAt(r, n), w.quad(w.r.State, n, "state4")) })
	})
	w.Blank()
	times, each := w.K.Fold, w.s.TileK
	end := w.Dim(times)
	// The loop over groups ends at the last whole group.
	if !schedule.DivisibleBy(times, each) {
		end = w.Variable("uint", "whole_groups", expr.Binary("-", end, expr.Binary("%", end, expr.Uint(each))))
	}
	w.overGroups(end, each)
	if !schedule.DivisibleBy(times, each) {
		w.Comment("The other times, one by one.")
		t := w.OpenLoop("t", end, w.Dim(times), 1)
		last := w.declareOperands("last_", 1)
		last.load(t)
		w.compute(last, t)
		w.Close()
	}
	w.storeState()
}

// overGroups writes the loop over groups of time steps.
func (w *writer) overGroups(end expr.Expr, each int) {
	if !w.s.Ahead {
		t := w.OpenLoop("t0", expr.Of("0u"), end, each)
		now := w.declareOperands("", each)
		now.load(t)
		w.compute(now, t)
		w.Close()
		return
	}
	// next is loaded one group ahead.
	next := w.declareOperands("next_", each)
	// The first group may not exist.
	w.OpenBelow(w.K.Fold.Min() < int64(each), expr.Of("0u"), end)
	next.load(expr.Of("0u"))
	w.Close()
	t := w.OpenFor("", "t0", expr.Of("0u"), end, expr.Uint(each))
	now := w.declareOperands("", each)
	now.copyFrom(next)
	w.Comment("Load what the next times need while these are computed.")
	after := w.Variable("uint", "t1", expr.Plus(t, expr.Uint(each)))
	w.OpenIf(expr.Binary("<", after, end))
	next.load(after)
	w.Close()
	w.compute(now, t)
	w.Close()
}

// operands are the operands of several time steps, in registers.
type operands struct {
	*writer
	times   int
	vectors map[*kernel.Expr]expr.Array // by time and vec4
	decay   expr.Array                  // by time, if a head has one
	v       expr.Array                  // by time and row
}

// declareOperands declares the operands of several time steps.
func (w *writer) declareOperands(prefix string, times int) *operands {
	o := &operands{writer: w, times: times, vectors: map[*kernel.Expr]expr.Array{}}
	names := []string{"q4", "k4", "a4", "b4", "decay4"} // in the order of Vectors
	if w.r.A == nil {
		names = []string{"q4", "k4", "decay4"}
	}
	for i, x := range w.r.Vectors(w.along.Axis) {
		// One expression may be several operands.
		if _, known := o.vectors[x]; !known {
			o.vectors[x] = w.Array("vec4", prefix+names[i], times*w.quads)
		}
	}
	if !w.decaysByKey() {
		o.decay = w.Array("float", prefix+"decay", times)
	}
	o.v = w.Array("float", prefix+"v", times*w.rows)
	return o
}

// decaysByKey reports whether each element of a row has a decay of its own.
func (w *writer) decaysByKey() bool { return w.r.Decay.Uses(w.along.Axis) }

// distinct lists the vectors in order, each once.
func (o *operands) distinct() (list []*kernel.Expr) {
	for _, x := range o.r.Vectors(o.along.Axis) {
		if !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return list
}

// load writes the code that loads the operands of the time steps from t0 on into their registers.
func (o *operands) load(t0 expr.Expr) {
	o.each("u", o.times, func(u expr.Expr) {
		o.BindAxis(o.K.FoldAxis(), o.Named("time", expr.Plus(t0, u)))
		for i, x := range o.distinct() {
			o.each("n", o.quads, func(n expr.Expr) {
				o.Assign(o.vectors[x].At(expr.Flat(u, o.quads, n)), o.quad(x, n, fmt.Sprintf("operand%d", i)))
			})
		}
		if !o.decaysByKey() {
			o.Assign(o.decay.At(u), o.AsFloat(o.r.Decay))
		}
		// Load V in vectors of up to 4 rows.
		width := min(o.rows, 4)
		o.each("m", o.rows/width, func(m expr.Expr) {
			unit := expr.Flat(o.unit, o.rows/width, m)
			o.RunLanes(emit.RunOf(o.row(), width, unit, "row_of_v"), []*kernel.Expr{o.r.V}, nil, func() {
				r := expr.Times(m, width)
				if width > 1 {
					r = expr.Plus(r, emit.Lane)
				}
				o.Assign(o.v.At(expr.Flat(u, o.rows, r)), o.AsFloat(o.r.V))
			})
		})
	})
}

// copyFrom sets the operands to those of another group of time steps.
func (o *operands) copyFrom(other *operands) {
	for _, x := range o.distinct() {
		o.copyArray(o.vectors[x], other.vectors[x])
	}
	if !o.decaysByKey() {
		o.copyArray(o.decay, other.decay)
	}
	o.copyArray(o.v, other.v)
}

// copyArray writes the code that copies an array of registers.
func (o *operands) copyArray(to, from expr.Array) {
	o.each("i", to.Len, func(i expr.Expr) { o.Assign(to.At(i), from.At(i)) })
}

// at returns the n-th vec4 of an operand at the u-th time.
func (o *operands) at(x *kernel.Expr, u, n expr.Expr) expr.Expr {
	return o.vectors[x].At(expr.Flat(u, o.quads, n))
}

// compute changes the state from time t0 on, and stores y.
func (w *writer) compute(o *operands, t0 expr.Expr) {
	w.Blank()
	y := expr.Array{}
	if len(w.perTime) > 0 {
		y = w.Array("float", "y", o.times*w.rows)
	}
	w.each("u", o.times, func(u expr.Expr) { w.step(o, y, u) })
	if y.Len > 0 {
		w.storeY(y, t0)
	}
}

// step writes the computation of time step u of a group (see kernel.Recurrence). Each row s of the state becomes
//
//	s*decay + v*k + (s·A)*B
//
// A kernel without a correction does not have the last term. If y is wanted, step sets it to this lane's part of s·Q.
func (w *writer) step(o *operands, y expr.Array, u expr.Expr) {
	var read expr.Array
	if w.r.A != nil {
		read = w.readState(o, u)
	}
	w.each("r", w.rows, func(r expr.Expr) {
		part := expr.Flat(u, w.rows, r)
		v := o.v.At(part)
		if y.Len > 0 {
			w.Assign(y.At(part), expr.Of("0.0"))
		}
		w.each("n", w.quads, func(n expr.Expr) {
			s := w.stateAt(r, n)
			decay := o.decay.At(u)
			if w.decaysByKey() {
				decay = o.at(w.r.Decay, u, n)
			}
			next := expr.Plus(expr.Binary("*", s, decay), expr.Binary("*", v, o.at(w.r.K, u, n)))
			if w.r.A != nil {
				next = expr.Plus(next, expr.Binary("*", read.At(r), o.at(w.r.B, u, n)))
			}
			w.Assign(s, next)
			if y.Len > 0 {
				w.Update(y.At(part), "+=", w.Dot(s, o.at(w.r.Q, u, n)))
			}
		})
	})
}

// readState returns the product of the state and A, which corrects the state in time step u of a group.
func (w *writer) readState(o *operands, u expr.Expr) expr.Array {
	read := w.Array("float", "read", w.rows)
	w.each("r", w.rows, func(r expr.Expr) {
		w.Assign(read.At(r), expr.Of("0.0"))
		w.each("n", w.quads, func(n expr.Expr) {
			w.Update(read.At(r), "+=", w.Dot(w.stateAt(r, n), o.at(w.r.A, u, n)))
		})
	})
	// Each lane has the sum over its own columns.
	if w.lanes > 1 {
		w.each("r", w.rows, func(r expr.Expr) { w.SumLanes(read.At(r), w.lanes/2) })
	}
	return read
}

// storeY adds up the lanes' parts of y, and stores it. In each round, a lane keeps half of its sums and gives the other
// half to a neighbour, so that all lanes have an equal share in the end (Rabenseifner 2004, reduce-scatter by recursive
// halving).
func (w *writer) storeY(y expr.Array, t0 expr.Expr) {
	count, mask := y.Len, w.lanes/2 // the sums that a lane has, and its distance to the neighbour
	for ; mask > 0 && count > 1; mask /= 2 {
		half := count / 2
		upper := w.Variable("bool", "upper", expr.Binary("!=", expr.Binary("&", w.lane, expr.Uint(mask)), expr.Uint(0)))
		w.each("i", half, func(i expr.Expr) {
			low, high := y.At(i), y.At(expr.Plus(i, expr.Uint(half)))
			given := w.Choose("float", "given", upper, low, high)
			w.Assign(low, expr.Plus(w.Choose("float", "kept", upper, high, low), emit.Shuffled(given, mask)))
		})
		count = half
	}
	// Once a lane has a single sum, the remaining rounds add up that sum in all lanes.
	sharers := 1 // lanes with the same sum
	for ; mask > 0; mask /= 2 {
		w.Update(y.At(expr.Of("0u")), "+=", emit.Shuffled(y.At(expr.Of("0u")), mask))
		sharers *= 2
	}
	var first expr.Expr
	if sharers > 1 {
		first = expr.Binary("==", expr.Remainder(w.lane, sharers, w.lanes), expr.Uint(0))
	}
	w.OpenIf(expr.And(first, w.valid))
	w.each("i", count, func(i expr.Expr) {
		// the sum's number among all sums of the team
		id := expr.Flat(expr.Quotient(w.lane, sharers, w.lanes), count, i)
		w.BindAxis(w.K.FoldAxis(), w.Named("time", expr.Plus(t0, expr.Quotient(id, w.rows, y.Len))))
		w.bindRow(expr.Remainder(id, w.rows, y.Len))
		w.BindAcc(accOutput, y.At(i))
		w.StoreAll(w.perTime)
	})
	w.Close()
}

// Numbers of the accumulators that a recurrence's stores may read.
const (
	accOutput = 0 // y at one time step
	accState  = 1 // the state after the last time step
)

// storeState stores the state after the last time step.
func (w *writer) storeState() {
	stores := w.ofState
	if len(stores) == 0 {
		return
	}
	w.Comment("The state after the last time.")
	w.OpenIf(w.valid)
	w.each("r", w.rows, func(r expr.Expr) {
		w.bindRow(r)
		w.each("n", w.quads, func(n expr.Expr) {
			if !schedule.DivisibleBy(w.r.Keys, 4) { // a vec4 may cross the end of the row: store element by element
				w.OpenLanes(4)
				at := w.Named("at_key", expr.Plus(expr.Times(w.column(n), 4), emit.Lane))
				w.OpenIf(expr.Binary("<", at, w.Dim(w.r.Keys)))
				w.BindAxis(w.along.Axis, at)
				w.BindAcc(accState, expr.At(w.stateAt(r, n), emit.Lane))
				w.StoreAll(stores)
				w.Close()
				w.Close()
				return
			}
			column := w.Named("column", w.column(n))
			// Lanes with all vec4 inside the row need no test.
			w.OpenBelow(!w.whole(), expr.Times(column, 4), w.Dim(w.r.Keys))
			w.RunLanes(emit.RunOf(w.along.Axis, 4, column, "at_key"), emit.ValuesOf(stores), stores, func() {
				w.BindAcc(accState, expr.At(w.stateAt(r, n), emit.Lane))
			})
			w.Close()
		})
	})
	w.Close()
}
