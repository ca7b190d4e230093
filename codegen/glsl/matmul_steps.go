package glsl

import "github.com/vkc-go/vkc/codegen/target"

// Tiles that are kept step by step along the contraction: of every step an
// invocation reads its rows and columns in vectors of four neighbours, and
// multiplies all of them with each other. It needs registers for one step at a
// time, where quads along the contraction need them for four.

// putSteps stores a quad along the contraction in four steps of a tile.
func (m *matTile) putSteps(o *matOperand, stage, line, quad, value text) {
	if !value.plain() {
		value = primary(m.variable("vec4", o.quadName(), value))
	}
	pitch := target.StepPitch(m.extentOf(o))
	m.repeat("depth", 4, func(depth text) {
		place := plus(times(plus(times(quad, 4), depth), pitch), quotient(line, 4, m.extentOf(o)))
		m.line("%s[%s][%s] = %s[%s];", m.tiles[o], plus(times(stage, m.tileSize(o)), place).s,
			remainder(line, 4, m.extentOf(o)).s, value.s, depth.s)
	})
}

// multiplySteps adds the products of the tiles in a stage to the sums.
func (m *matTile) multiplySteps(x, y, stage text) {
	s := m.s
	m.line("")
	m.repeat("depth", s.TileK, func(depth text) {
		vectors := map[*matOperand]string{}
		read := func(list []*matOperand, base string, at text, count, apart int) {
			for _, o := range list {
				vectors[o] = m.array("vec4", o.name+base, count)
				m.repeat("i", count, func(i text) {
					place := plus(times(depth, target.StepPitch(m.extentOf(o))), plus(at, times(i, apart)))
					m.line("%s = %s[%s];", elementOf(vectors[o], count, i).s, m.tiles[o],
						plus(times(stage, m.tileSize(o)), place).s)
				})
			}
		}
		read(m.a, "_rows", y, s.ThreadM/4, s.TileM/s.ThreadM)
		read(m.b, "_cols", x, s.ThreadN/4, s.TileN/s.ThreadN)
		m.repeat("i", s.ThreadM, func(i text) {
			m.repeat("j", s.ThreadN/4, func(j text) {
				for _, p := range m.products {
					sum := elementOf(p.sums, s.ThreadM*s.ThreadN/4, plus(times(i, s.ThreadN/4), j)).s
					row := elementOf(vectors[p.a], s.ThreadM/4, quotient(i, 4, s.ThreadM)).s + "[" +
						remainder(i, 4, s.ThreadM).s + "]"
					m.line("%s = fma(vec4(%s), %s, %s);", sum, row, elementOf(vectors[p.b], s.ThreadN/4, j).s, sum)
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
		row := primary(m.variable("uint", "row", plus(m.row0, plus(group, remainder(i, 4, s.ThreadM)))))
		m.repeat("j", s.ThreadN/4, func(j text) {
			col := primary(m.variable("uint", "col", plus(m.col0, times(plus(x, times(j, s.TileN/s.ThreadN)), 4))))
			var sums []text
			for _, p := range m.products {
				sums = append(sums, elementOf(p.sums, s.ThreadM*s.ThreadN/4, plus(times(i, s.ThreadN/4), j)))
			}
			m.finishQuad(row, col, sums)
		})
	})
}
