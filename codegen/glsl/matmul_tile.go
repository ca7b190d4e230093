package glsl

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/schedule"
)

// emitMatTile writes a tiled matmul. A workgroup computes TileM x TileN results in steps of TileK. It stages a tile of
// each operand in shared memory, row by row in vectors along the contraction axis. Every invocation multiplies ThreadM
// rows by ThreadN columns from there.
//
// Neighbouring invocations own neighbouring columns, so that stores are coalesced. An invocation's own rows and columns
// are a whole stride apart. A row of a staged tile is an odd number of vectors long. So 8 invocations that read 16
// bytes together use different banks.
//
// With Paired, invocations form blocks of 2x2, so that two lanes each read the same vector. The 16-byte reads of 8
// lanes then combine with the reads of the next 8.
//
// With Steps, the rows of a tile are next to each other in every step along the contraction axis; see matmul_steps.go.
//
// With two stages of tiles, invocations prefetch the next tiles into registers while they multiply.
func emitMatTile(e *emitter) {
	s := e.sched
	self := e.variable("uint", "self", primary("gl_LocalInvocationIndex"))
	m := newMatMul(e)
	if e.err != nil {
		return
	}
	if s.Steps {
		m.declareZeros("vec4", primary("vec4(0.0)"), s.ThreadM*s.ThreadN/4) // four neighbouring columns of a row each
	} else {
		m.declareSums(s.ThreadM * s.ThreadN)
	}
	across := s.TileN / s.ThreadN
	x, y := m.placeInTile(self, across, "tx", "ty")
	tiles := map[*matOperand]text{}
	for _, o := range slices.Concat(m.a, m.b) {
		tiles[o] = m.share(m.quads.typ(), "tile_"+o.name, max(s.Stages, 1)*m.tileSize(o))
	}

	t := &matTile{matMul: m, self: self, tiles: tiles, next: map[*matOperand]text{}}
	if s.Stages > 1 {
		t.overlap(x, y)
	} else {
		t.takeTurns(x, y)
	}

	m.line("")
	if s.Steps {
		t.finishSteps(x, y)
		return
	}
	m.repeat("i", s.ThreadM, func(i text) {
		row := m.variable("uint", "row", plus(plus(m.row0, y), times(i, s.TileM/s.ThreadM)))
		m.repeat("j", s.ThreadN, func(j text) {
			col := m.variable("uint", "col", plus(plus(m.col0, x), times(j, across)))
			m.finish(row, col, m.sumsAt(plus(times(i, s.ThreadN), j)))
		})
	})
}

// sumsAt prints sum i of every matmul.
func (m *matMul) sumsAt(i text) []text {
	var all []text
	for _, p := range m.products {
		all = append(all, elementOf(p.sums, m.s.ThreadM*m.s.ThreadN, i))
	}
	return all
}

// matTile is a tiled matmul.
type matTile struct {
	*matMul
	self  text
	tiles map[*matOperand]text // in shared memory
	next  map[*matOperand]text // registers of the prefetched vectors
}

// extentOf is the number of rows or columns of an operand's tile.
func (m *matMul) extentOf(o *matOperand) int {
	if o.axis == m.row {
		return m.s.TileM
	}
	return m.s.TileN
}

// tileSize is the size of an operand's tile, in vectors.
func (m *matMul) tileSize(o *matOperand) int {
	if m.s.Steps {
		return m.s.TileK * schedule.StepPitch(m.extentOf(o))
	}
	return m.extentOf(o) * schedule.TilePitch(m.s.TileK)
}

// takeTurns alternates between staging and multiplying.
func (m *matTile) takeTurns(x, y text) {
	m.line("")
	k0 := m.loop("k0", primary("0u"), m.dim(m.k.Fold), m.s.TileK)
	for _, o := range slices.Concat(m.a, m.b) {
		m.comment("Stage %d %s of %s.", m.extentOf(o), m.linesOf(o), o.name)
		if m.across(o) {
			m.fetchAcross(o, k0, func(_, four, depth, value text) { m.putAcross(o, primary("0u"), four, depth, value) })
		} else {
			m.fetch(o, k0, func(_, line, quad, value text) { m.put(o, primary("0u"), line, quad, value) })
		}
	}
	m.barrier()
	m.multiplyTiles(x, y, primary("0u"))
	m.barrier()
	m.close()
}

// overlap prefetches the next tiles while it multiplies.
func (m *matTile) overlap(x, y text) {
	operands := slices.Concat(m.a, m.b)
	for _, o := range operands {
		m.next[o] = m.array(m.quads.typ(), "next_"+o.name, m.rounds(o))
	}
	m.overlapped(tileStages{1, m.fetchNext, m.putNext, func(_, stage text) { m.multiplyTiles(x, y, stage) }})
}

// rounds is the number of vectors of an operand's tile that an invocation loads.
func (m *matTile) rounds(o *matOperand) int {
	return (m.extentOf(o)*m.s.TileK/4 + m.s.Workgroup - 1) / m.s.Workgroup
}

// linesOf names the lines of an operand's tile.
func (m *matTile) linesOf(o *matOperand) string {
	if o.axis == m.row {
		return "rows"
	}
	return "columns"
}

func (m *matTile) fetchNext(k0 text) {
	for _, o := range slices.Concat(m.a, m.b) {
		m.comment("Fetch %d %s of %s.", m.extentOf(o), m.linesOf(o), o.name)
		keep := func(i, _, _, value text) { m.assign(elementOf(m.next[o], m.rounds(o), i), value) }
		if m.across(o) {
			m.fetchAcross(o, k0, keep)
		} else {
			m.fetch(o, k0, keep)
		}
	}
}

func (m *matTile) putNext(stage text) {
	for _, o := range slices.Concat(m.a, m.b) {
		if m.across(o) {
			m.eachAcross(o, func(i, four, depth text) {
				m.putAcross(o, stage, four, depth, elementOf(m.next[o], m.rounds(o), i))
			})
			continue
		}
		m.eachQuad(o, func(i, line, quad text) { m.put(o, stage, line, quad, elementOf(m.next[o], m.rounds(o), i)) })
	}
}

// put stores a quad of a line of an operand's tile in shared memory.
func (m *matTile) put(o *matOperand, stage, line, quad, value text) {
	if m.s.Steps {
		m.putSteps(o, stage, line, quad, value)
		return
	}
	place := plus(times(stage, m.tileSize(o)), plus(times(line, schedule.TilePitch(m.s.TileK)), quad))
	m.assign(elementAt(m.tiles[o], place), value)
}

// multiplyTiles multiplies a stage's tiles and adds to the sums.
func (m *matTile) multiplyTiles(x, y, stage text) {
	if m.s.Steps {
		m.multiplySteps(x, y, stage)
		return
	}
	m.multiply(m.tiles, x, y, stage)
}

// eachQuad writes body for the vectors of a tile that an invocation loads. i is the vector's number among the
// invocation's own, and line and quad are its position in the tile. Neighbouring invocations take neighbours in memory.
func (m *matTile) eachQuad(o *matOperand, body func(i, line, quad text)) {
	extent, quads := m.extentOf(o), m.s.TileK/4
	total := extent * quads
	m.eachSlot(m.self, total, m.s.Workgroup, func(i, slot text) {
		line, quad := quotient(slot, quads, total), remainder(slot, quads, total)
		if !o.along {
			line, quad = remainder(slot, extent, total), quotient(slot, extent, total)
		}
		line = m.variable("uint", "line", line)
		quad = m.variable("uint", "quad", quad)
		body(i, line, quad)
	})
}

// fetch loads a tile of an operand: TileK/4 vectors of each of its lines, from k0 on. It calls keep with each vector
// that an invocation loaded, its number among the invocation's own, and its line and quad in the tile.
func (m *matTile) fetch(o *matOperand, k0 text, keep func(i, line, quad, value text)) {
	origin := m.col0
	if o.axis == m.row {
		origin = m.row0
	}
	m.eachQuad(o, func(i, line, quad text) {
		at := m.variable("uint", m.paraName(o.axis), m.clampTo(plus(origin, line), o.axis, m.extentOf(o)))
		m.bindAxis(o.axis, at)
		k := m.variable("uint", "k", plus(k0, times(quad, 4)))
		value := m.quad(o, k, wholeStep(m.k.Fold, k0, m.s.TileK))
		keep(i, line, quad, value)
	})
}

// multiply multiplies the tiles of a stage and adds to the sums.
func (m *matMul) multiply(tiles map[*matOperand]text, x, y, stage text) {
	s := m.s
	pitch := schedule.TilePitch(s.TileK)
	m.line("")
	quad := m.loop("quad", primary("0u"), uintLit(s.TileK/4), 1)
	read := func(o *matOperand, line text) text {
		place := plus(times(stage, m.tileSize(o)), plus(times(line, pitch), quad))
		return elementAt(tiles[o], place)
	}
	cols := map[*matOperand]text{}
	for _, o := range m.b {
		cols[o] = m.array(m.quads.typ(), o.name+"_cols", s.ThreadN)
	}
	m.repeat("j", s.ThreadN, func(j text) {
		for _, o := range m.b {
			m.assign(elementOf(cols[o], s.ThreadN, j), read(o, plus(x, times(j, s.TileN/s.ThreadN))))
		}
	})
	m.repeat("i", s.ThreadM, func(i text) {
		rows := map[*matOperand]text{}
		for _, o := range m.a {
			rows[o] = m.variable(m.quads.typ(), o.name+"_row", read(o, plus(y, times(i, s.TileM/s.ThreadM))))
		}
		m.repeat("j", s.ThreadN, func(j text) {
			for n, p := range m.products {
				sum := m.sumsAt(plus(times(i, s.ThreadN), j))[n]
				col := elementOf(cols[p.b], s.ThreadN, j)
				m.addQuads(sum, rows[p.a], col)
			}
		})
	})
	m.close()
}
