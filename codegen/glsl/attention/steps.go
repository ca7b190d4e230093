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

// shareSteps declares the tiles in shared memory. Keys and values use the same tile, one after the other.
func (t *flashTile) shareSteps() {
	s := t.s
	t.qTile = t.Share("vec4", "tile_q", schedule.FlashDepth(t.K, s)*schedule.StepPitch(s.TileM))
	t.kvTile = t.Share("vec4", "tile", 2*schedule.FlashStage(t.K, s))
	t.weights = t.Share("vec4", "weights", s.TileN*schedule.StepPitch(s.TileM))
}

// loopOverSteps writes the loop over the keys from first to end, a tile of keys at a time. A tile is loaded in steps
// of TileK elements: first all steps of the keys, and then of the values. While a step is multiplied, the next one is
// on its way to registers.
func (t *flashTile) loopOverSteps(first, end expr.Expr) {
	s := t.s
	valueQuads := schedule.ValueQuads(t.width)
	keys := t.mover(s.TileN, s.TileK/4, func(stage, line, quad, value expr.Expr) {
		t.PutFours("quad4", t.kvTile, stage, expr.Times(quad, 4), line, s.TileN, value)
	}, nil)
	values := t.mover(s.TileK, valueQuads, func(stage, line, quad, value expr.Expr) {
		t.Assign(expr.At(t.kvTile, expr.Plus(stage, expr.Flat(line, valueQuads, quad))), value)
	}, nil)
	keys.Declare("vec4", "next_keys")
	values.Declare("vec4", "next_values")
	t.stageQueries()
	t.Blank()
	key0 := t.keyLoop(first, end, s.TileN)
	t.score = t.Filled("vec4", "score", s.ThreadM*s.ThreadN/4, "i", func(i expr.Expr) expr.Expr {
		return expr.Of("vec4(0.0)")
	})
	keys.Load, values.Load = t.loadKey(t.a.K, t.dotAxis(), key0), t.loadValue(key0, end)
	keys.Fetch(expr.Of("0u"))
	keys.Put(expr.Of("0u"))
	t.Barrier()
	stages := emit.TileStages{Apart: schedule.FlashStage(t.K, s), Movers: []*emit.Mover{keys}, Multiply: t.multiplyKeys}
	t.OpenScope()
	t.StagedLoop("d", ir.D(schedule.FlashDepth(t.K, s)), s.TileK, stages)
	t.Close()

	t.Comment("The first values are on their way while scores become weights.")
	values.Fetch(expr.Of("0u"))
	t.weigh(key0)
	t.keepWeights()
	values.Put(expr.Of("0u"))
	t.Barrier()
	stages.Movers, stages.Multiply = []*emit.Mover{values}, t.multiplyValues
	t.OpenScope()
	t.StagedLoop("v", ir.D(s.TileN), s.TileK, stages)
	t.Close()
	t.Close()
}

// stageQueries copies the tile's queries to shared memory.
func (t *flashTile) stageQueries() {
	s, over := t.s, t.dotAxis()
	t.Comment("Stage queries.")
	d0 := t.OpenLoop("d0", expr.Of("0u"), expr.Uint(schedule.FlashDepth(t.K, s)), s.TileK)
	t.mover(s.TileM, s.TileK/4, func(_, line, quad, value expr.Expr) {
		t.PutFours("quad4", t.qTile, expr.Of("0u"), expr.Plus(d0, expr.Times(quad, 4)), line, s.TileM, value)
	}, func(_, d0, line, quad expr.Expr, keep func(value expr.Expr)) {
		t.bindRow(line)
		keep(t.Quad(t.a.Q, over, expr.Plus(d0, expr.Times(quad, 4)), "q4", schedule.DivisibleBy(over.Extent, s.TileK)))
	}).Move(d0)
	t.Close()
}

// keepWeights stores an invocation's weights in shared memory; a vec4 has the weights of four adjacent rows.
func (t *flashTile) keepWeights() {
	s := t.s
	t.Repeat("i", s.ThreadM/4, func(i expr.Expr) {
		t.Repeat("j", s.ThreadN, func(j expr.Expr) {
			row := func(n int) expr.Expr { return t.element(t.score, expr.Flat(i, 4, expr.Uint(n)), j) }
			place := expr.Flat(t.keyOf(j), schedule.StepPitch(s.TileM), expr.Plus(t.row, expr.Times(i, t.strip)))
			t.Assign(expr.At(t.weights, place), expr.Call("vec4", row(0), row(1), row(2), row(3)))
		})
	})
}

// multiplyKeys multiplies a step of the queries by a step of the keys, and adds to the scores.
func (t *flashTile) multiplyKeys(d0, stage expr.Expr) {
	s := t.s
	t.multiplyStep(d0, "queries4", t.qTile, "keys4", s.ThreadN/4, func(depth, j expr.Expr) expr.Expr {
		return expr.Plus(stage, expr.Flat(depth, schedule.StepPitch(s.TileN),
			expr.Plus(t.lane, expr.Times(j, t.lanes))))
	}, func(i, j expr.Expr) expr.Expr { return t.fourKeys(t.score, i, j) })
}

// multiplyValues multiplies a step of the weights by a step of the values, and adds to the sums.
func (t *flashTile) multiplyValues(v0, stage expr.Expr) {
	t.multiplyStep(v0, "weights4", t.weights, "values4", t.quads, func(depth, n expr.Expr) expr.Expr {
		return expr.Plus(stage, expr.Flat(depth, schedule.ValueQuads(t.width), t.valueColumn(n)))
	}, t.sum)
}

// multiplyStep multiplies one step of TileK elements. The left operand is the invocation's rows in the shared array
// left, from element first on; its registers are named leftName. The right operand is in the tile: each element has
// `quads` vec4, and vec4 j of an element is at index at(element, j). multiplyStep adds the result for row i and vec4 j
// to sum(i, j).
func (t *flashTile) multiplyStep(first expr.Expr, leftName string, left expr.Expr, rightName string, quads int,
	at func(depth, j expr.Expr) expr.Expr, sum func(i, j expr.Expr) expr.Expr) {
	s := t.s
	t.Blank()
	t.Repeat("depth", s.TileK, func(depth expr.Expr) {
		rows := t.Array("vec4", leftName, s.ThreadM/4)
		t.Repeat("i", s.ThreadM/4, func(i expr.Expr) {
			place := expr.Flat(expr.Plus(first, depth), schedule.StepPitch(s.TileM),
				expr.Plus(t.row, expr.Times(i, t.strip)))
			t.Assign(rows.At(i), expr.At(left, place))
		})
		right := t.Filled("vec4", rightName, quads, "j", func(j expr.Expr) expr.Expr {
			return expr.At(t.kvTile, at(depth, j))
		})
		t.Repeat("i", s.ThreadM, func(i expr.Expr) {
			row := expr.At(rows.At(expr.Quotient(i, 4, s.ThreadM)), expr.Remainder(i, 4, s.ThreadM))
			t.Repeat("j", quads, func(j expr.Expr) {
				t.AddProduct("vec4", sum(i, j), expr.Call("vec4", row), right.At(j))
			})
		})
	})
}
