package matmul

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// This file has tiles that are stored step by step: element 0 along the contraction axis of all rows (or columns), then
// element 1 of all rows, and so on. In each step an invocation reads its rows and columns as vectors of four
// neighbours, and multiplies all rows by all columns. So it needs registers for one step at a time. With quads along
// the contraction axis it would need registers for four steps.

// moveAcross makes a mover load an operand four lines (rows or columns) at a time. The lines are neighbours in memory,
// and also in a step of the tile. A line of the mover is such a group of lines, and a unit is a step along the
// contraction axis.
func (m *matTile) moveAcross(o *Operand, mover *emit.Mover, origin expr.Expr) {
	extent := m.extent(o.axis)
	mover.Lines, mover.PerLine, mover.Line, mover.Unit = m.tileExtent(o)/4, m.s.TileK, "four", "depth"
	mover.Load = func(_, k0, four, depth expr.Expr, keep func(value expr.Expr)) {
		at := expr.Plus(origin, expr.Times(four, 4))
		if !schedule.DivisibleBy(extent, m.tileExtent(o)) { // past the end, repeat the last lines; nothing stores them
			at = expr.Call("min", at, m.Coordinate(kernel.DimIndex(extent).Minus(kernel.Const(4))))
		}
		at = m.Variable("uint", m.ParaName(o.axis), at)
		k := m.Named("k", expr.Plus(k0, depth))
		m.BindAxis(m.Fold, k)
		if emit.WholeStep(m.K.Fold, k0, m.s.TileK) {
			keep(m.quadAlong(o.Value, o.axis, at, emit.Inside, o.QuadName()))
			return
		}
		name := m.Variable("vec4", o.QuadName(), expr.Of("vec4(0.0)"))
		m.OpenIf(expr.Binary("<", k, m.Dim(m.K.Fold)))
		m.Assign(name, m.quadAlong(o.Value, o.axis, at, emit.Inside, o.QuadName()))
		m.Close()
		keep(name)
	}
	mover.Store = func(stage, four, depth, value expr.Expr) {
		place := expr.Flat(depth, schedule.StepPitch(m.tileExtent(o)), four)
		m.Assign(expr.At(m.tiles[o], expr.Flat(stage, m.tileSize(o), place)), value)
	}
}

// multiplySteps multiplies the tiles of a stage and adds to the sums. x and y are the invocation's column and row among
// the invocations of the tile.
func (m *matTile) multiplySteps(x, y, stage expr.Expr) {
	s := m.s
	m.Blank()
	m.Repeat("depth", s.TileK, func(depth expr.Expr) {
		rows := m.readStep(m.A, "_rows", stage, depth, y, s.ThreadM/4, s.TileM/s.ThreadM)
		cols := m.readStep(m.B, "_cols", stage, depth, x, s.ThreadN/4, s.TileN/s.ThreadN)
		m.Repeat("i", s.ThreadM, func(i expr.Expr) {
			m.Repeat("j", s.ThreadN/4, func(j expr.Expr) {
				for _, p := range m.MatMuls {
					sum := p.Sums.At(expr.Flat(i, s.ThreadN/4, j))
					row := expr.At(rows[p.A].At(expr.Quotient(i, 4, s.ThreadM)), expr.Remainder(i, 4, s.ThreadM))
					m.AddProduct("vec4", sum, expr.Call("vec4", row), cols[p.B].At(j))
				}
			})
		})
	})
}

// readStep loads `count` vectors of each operand of a list at step depth of a stage: the tile's groups at, at+apart,
// at+2*apart, ... of four rows or columns. The arrays' names end with suffix.
func (m *matTile) readStep(list []*Operand, suffix string, stage, depth, at expr.Expr,
	count, apart int) map[*Operand]expr.Array {
	vectors := map[*Operand]expr.Array{}
	for _, o := range list {
		vectors[o] = m.Filled("vec4", o.Name+suffix, count, "i", func(i expr.Expr) expr.Expr {
			place := expr.Flat(depth, schedule.StepPitch(m.tileExtent(o)), expr.Plus(at, expr.Times(i, apart)))
			return expr.At(m.tiles[o], expr.Flat(stage, m.tileSize(o), place))
		})
	}
	return vectors
}

// finishSteps writes the stores of an invocation's rows, four columns at a time. x and y are as in multiplySteps.
func (m *matTile) finishSteps(x, y expr.Expr) {
	s := m.s
	m.Repeat("i", s.ThreadM, func(i expr.Expr) {
		row := m.Variable("uint", "row", expr.Plus(m.Row0, emit.Fours(y, i, s.ThreadM, s.TileM/s.ThreadM)))
		m.Repeat("j", s.ThreadN/4, func(j expr.Expr) {
			col := m.Variable("uint", "col", expr.Plus(m.Col0,
				expr.Times(expr.Plus(x, expr.Times(j, s.TileN/s.ThreadN)), 4)))
			var sums []expr.Expr
			for _, p := range m.MatMuls {
				sums = append(sums, p.Sums.At(expr.Flat(i, s.ThreadN/4, j)))
			}
			m.FinishQuad(row, col, sums)
		})
	})
}
