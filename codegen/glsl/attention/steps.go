package attention

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// This file has the attention whose tiles are stored step by step along the contraction axis, as in matmul/steps.go.
// Queries and keys are stored along the contraction axis of Q*K, weights and values along the keys. An invocation then
// needs registers for one step only, so it can hold more scores and reuses each vector from shared memory more often.
//
// Queries stay in shared memory. Keys and values have two stages: while invocations multiply a step or compute weights,
// they prefetch the next step into registers.

// fourKeys returns the elements of an array for the invocation's row i and its keys 4*j to 4*j+3, a vec4.
func (t *flashTile) fourKeys(array expr.Array, i, j expr.Expr) expr.Expr {
	return array.At(expr.Flat(i, t.s.ThreadN/4, j))
}

// flashSteps is an attention with tiles stored step by step.
type flashSteps struct {
	*flashTile
	tile       expr.Expr // two stages of keys or values, in shared memory
	valueQuads int       // vec4 per line of values
}

// shareSteps declares the tiles in shared memory. Keys and values use the same tile, one after the other.
func (t *flashTile) shareSteps() {
	s := t.s
	t.qTile = t.Share("vec4", "tile_q", schedule.FlashDepth(t.K, s)*schedule.StepPitch(s.TileM))
	t.kTile = t.Share("vec4", "tile", 2*schedule.FlashStage(t.K, s))
	t.weights = t.Share("vec4", "weights", s.TileN*schedule.StepPitch(s.TileM))
}

// overSteps writes the loop over the keys.
func (t *flashTile) overSteps(first, end expr.Expr) {
	s := t.s
	f := &flashSteps{flashTile: t, tile: t.kTile, valueQuads: schedule.ValueQuads(t.width)}
	keys := f.mover(s.TileN, s.TileK/4, func(stage, line, quad, value expr.Expr) {
		f.PutFours("quad4", f.tile, stage, expr.Times(quad, 4), line, s.TileN, value)
	}, nil)
	values := f.mover(s.TileK, f.valueQuads, func(stage, line, quad, value expr.Expr) {
		f.Assign(expr.At(f.tile, expr.Plus(stage, expr.Flat(line, f.valueQuads, quad))), value)
	}, nil)
	keys.Declare("vec4", "next_keys")
	values.Declare("vec4", "next_values")
	f.stageQueries()
	f.Blank()
	key0 := f.keyLoop(first, end, s.TileN)
	f.score = f.Filled("vec4", "score", s.ThreadM*s.ThreadN/4, "i", func(i expr.Expr) expr.Expr {
		return expr.Of("vec4(0.0)")
	})
	keys.Load, values.Load = f.loadKey(f.a.K, f.dotAxis(), key0), f.loadValue(key0, end)
	keys.Fetch(expr.Of("0u"))
	keys.Put(expr.Of("0u"))
	f.Barrier()
	stages := emit.TileStages{Apart: schedule.FlashStage(t.K, s), Movers: []*emit.Mover{keys}, Multiply: f.multiplyKeys}
	f.OpenScope()
	f.StagedLoop("d", ir.D(schedule.FlashDepth(f.K, s)), s.TileK, stages)
	f.Close()

	f.Comment("The first values are on their way while scores become weights.")
	values.Fetch(expr.Of("0u"))
	f.weigh(key0)
	f.keepWeights()
	values.Put(expr.Of("0u"))
	f.Barrier()
	stages.Movers, stages.Multiply = []*emit.Mover{values}, f.multiplyValues
	f.OpenScope()
	f.StagedLoop("v", ir.D(s.TileN), s.TileK, stages)
	f.Close()
	f.Close()
}

// stageQueries copies the tile's queries to shared memory.
func (f *flashSteps) stageQueries() {
	s, over := f.s, f.dotAxis()
	f.Comment("Stage queries.")
	d0 := f.OpenLoop("d0", expr.Of("0u"), expr.Uint(schedule.FlashDepth(f.K, s)), s.TileK)
	f.mover(s.TileM, s.TileK/4, func(_, line, quad, value expr.Expr) {
		f.PutFours("quad4", f.qTile, expr.Of("0u"), expr.Plus(d0, expr.Times(quad, 4)), line, s.TileM, value)
	}, func(_, d0, line, quad expr.Expr, keep func(value expr.Expr)) {
		f.bindRow(line)
		keep(f.Quad(f.a.Q, over, expr.Plus(d0, expr.Times(quad, 4)), "q4", schedule.DivisibleBy(over.Extent, s.TileK)))
	}).Move(d0)
	f.Close()
}

// keepWeights stores an invocation's weights in shared memory; a vec4 has the weights of four adjacent rows.
func (f *flashSteps) keepWeights() {
	s := f.s
	f.Repeat("i", s.ThreadM/4, func(i expr.Expr) {
		f.Repeat("j", s.ThreadN, func(j expr.Expr) {
			row := func(n int) expr.Expr { return f.element(f.score, expr.Flat(i, 4, expr.Uint(n)), j) }
			place := expr.Flat(f.keyOf(j), schedule.StepPitch(s.TileM), expr.Plus(f.row, expr.Times(i, f.strip)))
			f.Assign(expr.At(f.weights, place), expr.Call("vec4", row(0), row(1), row(2), row(3)))
		})
	})
}

// multiplyKeys multiplies a step of the queries by a step of the keys, and adds to the scores.
func (f *flashSteps) multiplyKeys(d0, stage expr.Expr) {
	s := f.s
	f.multiplyStep(d0, "queries4", f.qTile, "keys4", s.ThreadN/4, func(depth, j expr.Expr) expr.Expr {
		return expr.Plus(stage, expr.Flat(depth, schedule.StepPitch(s.TileN),
			expr.Plus(f.lane, expr.Times(j, f.lanes))))
	}, func(i, j expr.Expr) expr.Expr { return f.fourKeys(f.score, i, j) })
}

// multiplyValues multiplies a step of the weights by a step of the values, and adds to the sums.
func (f *flashSteps) multiplyValues(v0, stage expr.Expr) {
	f.multiplyStep(v0, "weights4", f.weights, "values4", f.quads, func(depth, n expr.Expr) expr.Expr {
		column := f.column(n)
		if f.valueQuads%f.lanes != 0 {
			column = expr.Call("min", column, expr.Uint(f.valueQuads-1))
		}
		return expr.Plus(stage, expr.Flat(depth, f.valueQuads, column))
	}, f.sum)
}

// multiplyStep multiplies one step of TileK elements. The left operand is the invocation's rows in the shared array
// left, from element first on; its registers are named leftName. The right operand is in the tile: each element has
// `quads` vec4, and vec4 j of an element is at index at(element, j). multiplyStep adds the result for row i and vec4 j
// to sum(i, j).
func (f *flashSteps) multiplyStep(first expr.Expr, leftName string, left expr.Expr, rightName string, quads int,
	at func(depth, j expr.Expr) expr.Expr, sum func(i, j expr.Expr) expr.Expr) {
	s := f.s
	f.Blank()
	f.Repeat("depth", s.TileK, func(depth expr.Expr) {
		rows := f.Array("vec4", leftName, s.ThreadM/4)
		f.Repeat("i", s.ThreadM/4, func(i expr.Expr) {
			place := expr.Flat(expr.Plus(first, depth), schedule.StepPitch(s.TileM),
				expr.Plus(f.row, expr.Times(i, f.strip)))
			f.Assign(rows.At(i), expr.At(left, place))
		})
		right := f.Filled("vec4", rightName, quads, "j", func(j expr.Expr) expr.Expr {
			return expr.At(f.tile, at(depth, j))
		})
		f.Repeat("i", s.ThreadM, func(i expr.Expr) {
			row := expr.At(rows.At(expr.Quotient(i, 4, s.ThreadM)), expr.Remainder(i, 4, s.ThreadM))
			f.Repeat("j", quads, func(j expr.Expr) {
				f.AddProduct("vec4", sum(i, j), expr.Call("vec4", row), right.At(j))
			})
		})
	})
}
