package attention

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// This file has the attention with tiles in steps along a contraction axis, as in matmul/steps.go: a tile has element 0
// of all its rows, then element 1 of all rows, and so on. The contraction axis of Q*K has the elements of a query or
// key; in weights*V it has the keys. An invocation needs registers for one step only. So it can hold more scores, and
// uses each vector that it reads from shared memory more often.
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

// loopOverSteps writes the loop over the keys from first to end, a tile of keys at a time. It loads a tile in steps:
// first its keys, TileK elements of each at a time, and then its values, for TileK keys at a time. While a step is
// multiplied, the next one is on its way to registers.
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
	t.stageQueries() // the barrier before the first multiplication makes them visible
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
	t.multiplyStep(stepProduct{left: t.qTile, leftName: "queries4", first: d0, rightName: "keys4", quads: s.ThreadN / 4,
		rightAt: func(depth, j expr.Expr) expr.Expr {
			return expr.Plus(stage, expr.Flat(depth, schedule.StepPitch(s.TileN),
				expr.Plus(t.lane, expr.Times(j, t.lanes))))
		},
		sum: func(i, j expr.Expr) expr.Expr { return t.fourKeys(t.score, i, j) }})
}

// multiplyValues multiplies a step of the weights by a step of the values, and adds to the sums.
func (t *flashTile) multiplyValues(v0, stage expr.Expr) {
	t.multiplyStep(stepProduct{left: t.weights, leftName: "weights4", first: v0, rightName: "values4", quads: t.quads,
		rightAt: func(depth, n expr.Expr) expr.Expr {
			return expr.Plus(stage, expr.Flat(depth, schedule.ValueQuads(t.width), t.valueColumn(n)))
		},
		sum: t.sum})
}

// stepProduct describes the multiplication of one step: of the invocation's rows of a left operand in shared memory by
// its vec4s of the right operand, which is in the tile of keys and values.
type stepProduct struct {
	left                expr.Expr                          // shared array of the left operand
	first               expr.Expr                          // the step's first element in left
	leftName, rightName string                             // names of the registers
	quads               int                                // the invocation's vec4s in an element of the right operand
	rightAt             func(depth, j expr.Expr) expr.Expr // index in kvTile of vec4 j of the step's element depth
	sum                 func(i, j expr.Expr) expr.Expr     // the sum to which the product of row i and vec4 j is added
}

// multiplyStep multiplies the operands of one step of TileK elements, and adds the products to the sums.
func (t *flashTile) multiplyStep(p stepProduct) {
	s := t.s
	t.Blank()
	t.Repeat("depth", s.TileK, func(depth expr.Expr) {
		rows := t.Filled("vec4", p.leftName, s.ThreadM/4, "i", func(i expr.Expr) expr.Expr {
			fourRows := expr.Plus(t.row, expr.Times(i, t.strip)) // a vec4 has four adjacent rows
			return expr.At(p.left, expr.Flat(expr.Plus(p.first, depth), schedule.StepPitch(s.TileM), fourRows))
		})
		right := t.Filled("vec4", p.rightName, p.quads, "j", func(j expr.Expr) expr.Expr {
			return expr.At(t.kvTile, p.rightAt(depth, j))
		})
		t.Repeat("i", s.ThreadM, func(i expr.Expr) {
			row := expr.At(rows.At(expr.Quotient(i, 4, s.ThreadM)), expr.Remainder(i, 4, s.ThreadM))
			t.Repeat("j", p.quads, func(j expr.Expr) {
				t.AddProduct("vec4", p.sum(i, j), expr.Call("vec4", row), right.At(j))
			})
		})
	})
}
