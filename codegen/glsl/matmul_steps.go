package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// Tiles that are stored step by step along the contraction axis. Of every step an invocation reads its rows and columns
// in vectors of four neighbours, and multiplies all rows by all columns. It needs registers for one step at a time.
// With quads along the contraction axis it would need registers for four steps.

// putSteps stores a quad along the contraction axis in four steps of a tile.
func (m *matTile) putSteps(o *matOperand, stage, line, quad, value text) {
	if !isPlain(value) {
		value = m.variable("vec4", o.quadName(), value)
	}
	pitch := schedule.StepPitch(m.extentOf(o))
	m.repeat("depth", 4, func(depth text) {
		place := plus(times(plus(times(quad, 4), depth), pitch), quotient(line, 4, m.extentOf(o)))
		vector := elementAt(m.tiles[o], plus(times(stage, m.tileSize(o)), place))
		m.assign(elementAt(vector, remainder(line, 4, m.extentOf(o))), elementAt(value, depth))
	})
}

// across reports whether an operand is loaded four lines at a time. The lines are neighbours in memory, and in a step
// of the tile too.
func (m *matTile) across(o *matOperand) bool {
	return m.s.Steps && schedule.FoursAcross(m.k, o.value, o.axis)
}

// eachAcross writes body for the vectors of four lines of a tile that an invocation loads. i is the vector's number
// among the invocation's own, four is the group of lines, and depth is the step along the contraction axis.
func (m *matTile) eachAcross(o *matOperand, body func(i, four, depth text)) {
	fours := m.extentOf(o) / 4
	total := fours * m.s.TileK
	m.eachSlot(m.self, total, m.s.Workgroup, func(i, slot text) {
		four := m.variable("uint", "four", remainder(slot, fours, total))
		body(i, four, m.variable("uint", "depth", quotient(slot, fours, total)))
	})
}

// fetchAcross is fetch for an operand that is loaded four lines at a time.
func (m *matTile) fetchAcross(o *matOperand, k0 text, keep func(i, four, depth, value text)) {
	origin, extent := m.col0, m.extent(o.axis)
	if o.axis == m.row {
		origin = m.row0
	}
	m.eachAcross(o, func(i, four, depth text) {
		at := plus(origin, times(four, 4))
		if !schedule.DivisibleBy(extent, m.extentOf(o)) { // results of repeated lines are not stored
			at = call("min", at, m.coordinate(kernel.DimIndex(extent).Minus(kernel.Const(4))))
		}
		at = m.variable("uint", m.paraName(o.axis), at)
		k := m.named("k", plus(k0, depth))
		m.bindAxis(m.fold, k)
		if wholeStep(m.k.Fold, k0, m.s.TileK) {
			keep(i, four, depth, m.quadAlong(o.value, o.axis, at, true, o.quadName()))
			return
		}
		name := m.variable("vec4", o.quadName(), primary("vec4(0.0)"))
		m.openIf(binary("<", k, m.dim(m.k.Fold)))
		m.assign(name, m.quadAlong(o.value, o.axis, at, true, o.quadName()))
		m.close()
		keep(i, four, depth, name)
	})
}

// putAcross stores four lines of an operand's tile in a step of the tile.
func (m *matTile) putAcross(o *matOperand, stage, four, depth, value text) {
	place := plus(times(depth, schedule.StepPitch(m.extentOf(o))), four)
	m.assign(elementAt(m.tiles[o], plus(times(stage, m.tileSize(o)), place)), value)
}

// multiplySteps multiplies the tiles of a stage and adds to the sums.
func (m *matTile) multiplySteps(x, y, stage text) {
	s := m.s
	m.line("")
	m.repeat("depth", s.TileK, func(depth text) {
		vectors := map[*matOperand]text{}
		read := func(list []*matOperand, base string, at text, count, apart int) {
			for _, o := range list {
				vectors[o] = m.array("vec4", o.name+base, count)
				m.repeat("i", count, func(i text) {
					place := plus(times(depth, schedule.StepPitch(m.extentOf(o))), plus(at, times(i, apart)))
					m.line("%s = %s[%s];", elementOf(vectors[o], count, i), m.tiles[o],
						plus(times(stage, m.tileSize(o)), place))
				})
			}
		}
		read(m.a, "_rows", y, s.ThreadM/4, s.TileM/s.ThreadM)
		read(m.b, "_cols", x, s.ThreadN/4, s.TileN/s.ThreadN)
		m.repeat("i", s.ThreadM, func(i text) {
			m.repeat("j", s.ThreadN/4, func(j text) {
				for _, p := range m.products {
					sum := elementOf(p.sums, s.ThreadM*s.ThreadN/4, plus(times(i, s.ThreadN/4), j))
					row := elementAt(elementOf(vectors[p.a], s.ThreadM/4, quotient(i, 4, s.ThreadM)),
						remainder(i, 4, s.ThreadM))
					m.addProduct("vec4", sum, call("vec4", row), elementOf(vectors[p.b], s.ThreadN/4, j))
				}
			})
		})
	})
}

// finishSteps writes the stores of an invocation's rows, four columns at a
// time.
func (m *matTile) finishSteps(x, y text) {
	s := m.s
	m.repeat("i", s.ThreadM, func(i text) {
		group := times(plus(y, times(quotient(i, 4, s.ThreadM), s.TileM/s.ThreadM)), 4)
		row := m.variable("uint", "row", plus(m.row0, plus(group, remainder(i, 4, s.ThreadM))))
		m.repeat("j", s.ThreadN/4, func(j text) {
			col := m.variable("uint", "col", plus(m.col0, times(plus(x, times(j, s.TileN/s.ThreadN)), 4)))
			var sums []text
			for _, p := range m.products {
				sums = append(sums, elementOf(p.sums, s.ThreadM*s.ThreadN/4, plus(times(i, s.ThreadN/4), j)))
			}
			m.finishQuad(row, col, sums)
		})
	})
}
