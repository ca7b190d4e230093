package matmul

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// EmitDirect writes a matmul without shared memory and barriers, for devices that implement both as plain loops over
// memory. An invocation computes ThreadM rows of ThreadN columns. Neighbours compute neighbouring columns of the same
// rows. So all of them read A at the same position, which costs a processor one load. Only B is gathered, and each of
// its values is used for ThreadM rows.
func EmitDirect(e *emit.Emitter) {
	s := e.Sched.(kernel.MatDirect)
	self := e.Variable("uint", "self", expr.Of("gl_LocalInvocationIndex"))
	m := &matDirect{New(e, s.Tile, 0), s}
	if e.Err != nil {
		return
	}
	m.DeclareSums(s.ThreadM * s.ThreadN)
	column := func(j expr.Expr) expr.Expr { return expr.Plus(m.Col0, self, expr.Times(j, s.Workgroup)) }

	m.Blank()
	k0 := m.OpenLoop("k0", expr.Of("0u"), m.Dim(m.K.Fold), s.TileK)
	cols := m.loadColumns(k0, column)
	m.Repeat("i", s.ThreadM, func(i expr.Expr) {
		m.BindRow(i)
		m.Repeat("q", s.TileK/4, func(q expr.Expr) { m.multiplyQuad(i, q, k0, cols) })
	})
	m.Close()

	m.Blank()
	m.Repeat("i", s.ThreadM, func(i expr.Expr) {
		row := m.Named("row", expr.Plus(m.Row0, i))
		m.Repeat("j", s.ThreadN, func(j expr.Expr) {
			m.Finish(row, m.Variable("uint", "col", column(j)), m.SumsAt(expr.Flat(i, s.ThreadN, j)))
		})
	})
}

// matDirect is a matmul without shared memory.
type matDirect struct {
	*Base
	s kernel.MatDirect
}

// loadColumns loads TileK elements of an invocation's columns of every B, in quads along the contraction axis, and
// returns the arrays with them.
func (m *matDirect) loadColumns(k0 expr.Expr, column func(j expr.Expr) expr.Expr) map[*Operand]expr.Array {
	quads := m.s.TileK / 4
	cols := map[*Operand]expr.Array{}
	for _, o := range m.B {
		cols[o] = m.Array(m.Quads.Typ(), o.Name+"_cols", m.s.ThreadN*quads)
	}
	m.Repeat("j", m.s.ThreadN, func(j expr.Expr) {
		col := m.Variable("uint", "col", m.ClampTo(column(j), m.Col, m.s.TileN))
		m.BindAxis(m.Col, col)
		m.Repeat("q", quads, func(q expr.Expr) {
			for _, o := range m.B {
				at := cols[o].At(expr.Flat(j, quads, q))
				m.Assign(at, m.stepQuad(o, k0, q))
			}
		})
	})
	return cols
}

// stepQuad returns quad q of an operand in the step that begins at k0. Its other axis is bound.
func (m *matDirect) stepQuad(o *Operand, k0, q expr.Expr) expr.Expr {
	return m.Quad(o, expr.Plus(k0, expr.Times(q, 4)), schedule.DivisibleBy(m.K.Fold, m.s.TileK))
}

// BindRow binds the row axis to row i of the tile.
func (m *Base) BindRow(i expr.Expr) {
	m.BindAxis(m.Row, m.Named("row", m.ClampTo(expr.Plus(m.Row0, i), m.Row, m.Tile.TileM)))
}

// multiplyQuad multiplies four elements of A's row i by the same four of each of the invocation's columns, and adds to
// the sums. Their position along the contraction axis is k0+4q. cols holds the columns' elements k0 to k0+TileK-1 in
// registers, in quads of four (loadColumns).
func (m *matDirect) multiplyQuad(i, q, k0 expr.Expr, cols map[*Operand]expr.Array) {
	s := m.s
	quads := s.TileK / 4
	rows := map[*Operand]expr.Expr{}
	for _, o := range m.A {
		rows[o] = m.Variable(m.Quads.Typ(), o.Name+"_row", m.stepQuad(o, k0, q))
	}
	m.addRow(i, s.ThreadN, rows, func(o *Operand, j expr.Expr) expr.Expr {
		return cols[o].At(expr.Flat(j, quads, q))
	})
}
