package glsl

import (
	"github.com/vkc-go/vkc/codegen/schedule"
)

// emitMatDirect writes a matmul without shared memory and barriers, for devices that implement both as plain loops over
// memory. An invocation computes ThreadM rows of ThreadN columns. Neighbours own neighbouring columns of the same rows.
// So all of them read A at the same position, which costs a processor one load. Only B is gathered, and each of its
// values serves ThreadM rows.
func emitMatDirect(e *emitter) {
	self := e.variable("uint", "self", primary("gl_LocalInvocationIndex"))
	m := newMatMul(e)
	if e.err != nil {
		return
	}
	s := m.s
	m.declareSums(s.ThreadM * s.ThreadN)
	column := func(j text) text { return plus(plus(m.col0, self), times(j, s.Workgroup)) }

	m.line("")
	k0 := m.loop("k0", primary("0u"), m.dim(m.k.Fold), s.TileK)
	cols := m.directColumns(k0, column)
	m.repeat("i", s.ThreadM, func(i text) {
		m.bindRow(i)
		m.repeat("q", s.TileK/4, func(q text) { m.directRow(i, q, k0, cols) })
	})
	m.close()

	m.line("")
	m.repeat("i", s.ThreadM, func(i text) {
		row := m.named("row", plus(m.row0, i))
		m.repeat("j", s.ThreadN, func(j text) {
			m.finish(row, m.variable("uint", "col", column(j)), m.sumsAt(plus(times(i, s.ThreadN), j)))
		})
	})
}

// directColumns loads TileK elements of an invocation's columns of every B, in vectors along the contraction axis, and
// returns their arrays.
func (m *matMul) directColumns(k0 text, column func(j text) text) map[*matOperand]text {
	quads := m.s.TileK / 4
	cols := map[*matOperand]text{}
	for _, o := range m.b {
		cols[o] = m.array(m.quads.typ(), o.name+"_cols", m.s.ThreadN*quads)
	}
	m.repeat("j", m.s.ThreadN, func(j text) {
		col := m.variable("uint", "col", m.clampTo(column(j), m.col, m.s.TileN))
		m.bindAxis(m.col, col)
		m.repeat("q", quads, func(q text) {
			for _, o := range m.b {
				at := elementOf(cols[o], m.s.ThreadN*quads, plus(times(j, quads), q))
				m.assign(at, m.directQuad(o, k0, q))
			}
		})
	})
	return cols
}

func (m *matMul) directQuad(o *matOperand, k0, q text) text {
	return m.quad(o, plus(k0, times(q, 4)), schedule.DivisibleBy(m.k.Fold, m.s.TileK))
}

// bindRow binds the row axis to row i of the tile.
func (m *matMul) bindRow(i text) {
	m.bindAxis(m.row, m.named("row", m.clampTo(plus(m.row0, i), m.row, m.s.TileM)))
}

// directRow multiplies four elements of a row by every column, and adds to the sums.
func (m *matMul) directRow(i, q, k0 text, cols map[*matOperand]text) {
	s := m.s
	quads := s.TileK / 4
	rows := map[*matOperand]text{}
	for _, o := range m.a {
		rows[o] = m.variable(m.quads.typ(), o.name+"_row", m.directQuad(o, k0, q))
	}
	m.repeat("j", s.ThreadN, func(j text) {
		for n, p := range m.products {
			sum := m.sumsAt(plus(times(i, s.ThreadN), j))[n]
			col := elementOf(cols[p.b], s.ThreadN*quads, plus(times(j, quads), q))
			m.addQuads(sum, rows[p.a], col)
		}
	})
}
