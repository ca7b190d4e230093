package matmul

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// EmitTile writes a tiled matmul. A workgroup computes TileM x TileN results in steps of TileK. It copies a tile of
// each operand to shared memory, row by row as quads along the contraction axis. From there every invocation multiplies
// ThreadM rows by ThreadN columns.
//
// Neighbouring invocations compute neighbouring columns, so that stores are coalesced. The rows and columns of one
// invocation are evenly spread over the tile. A row of a tile in shared memory is an odd number of vectors long, so
// that 8 invocations which read 16 bytes each use different banks.
//
// With Paired, invocations form blocks of 2x2, so that two lanes read the same vector. The 16-byte reads of 8 lanes
// then combine with the reads of the next 8.
//
// With Steps, a tile is stored step by step along the contraction axis; see steps.go.
//
// With two stages of tiles, invocations prefetch the next tiles into registers while they multiply.
func EmitTile(e *emit.Emitter) {
	s := e.Sched.(kernel.MatTile)
	self := e.Variable("uint", "self", expr.Of("gl_LocalInvocationIndex"))
	m := New(e, s.Tile, 0)
	if e.Err != nil {
		return
	}
	if s.Steps {
		m.DeclareZeros("vec4", expr.Of("vec4(0.0)"), s.ThreadM*s.ThreadN/4) // four neighbouring columns of a row each
	} else {
		m.DeclareSums(s.ThreadM * s.ThreadN)
	}
	across := s.TileN / s.ThreadN
	x, y := m.PlaceInTile(self, across, s.Paired, "tx", "ty")
	t := &matTile{Base: m, s: s, self: self, tiles: map[*Operand]expr.Expr{}, next: map[*Operand]expr.Array{}}
	for _, o := range slices.Concat(m.A, m.B) {
		t.tiles[o] = m.Share(m.Quads.Typ(), "tile_"+o.Name, max(s.Stages, 1)*t.tileSize(o))
	}
	if s.Stages > 1 {
		t.overlap(x, y)
	} else {
		t.takeTurns(x, y)
	}

	m.Blank()
	if s.Steps {
		t.finishSteps(x, y)
		return
	}
	m.Repeat("i", s.ThreadM, func(i expr.Expr) {
		row := m.Variable("uint", "row", expr.Plus(expr.Plus(m.Row0, y), expr.Times(i, s.TileM/s.ThreadM)))
		m.Repeat("j", s.ThreadN, func(j expr.Expr) {
			col := m.Variable("uint", "col", expr.Plus(expr.Plus(m.Col0, x), expr.Times(j, across)))
			m.Finish(row, col, m.SumsAt(expr.Plus(expr.Times(i, s.ThreadN), j)))
		})
	})
}

// SumsAt prints an invocation's i-th sum of every matmul.
func (m *Base) SumsAt(i expr.Expr) []expr.Expr {
	var all []expr.Expr
	for _, p := range m.Products {
		all = append(all, p.Sums.At(i))
	}
	return all
}

// matTile is a tiled matmul. See EmitTile.
type matTile struct {
	*Base
	s     kernel.MatTile
	self  expr.Expr
	tiles map[*Operand]expr.Expr  // in shared memory
	next  map[*Operand]expr.Array // registers of the prefetched vectors
}

// extentOf is the number of rows of an A's tile, or columns of a B's.
func (m *Base) extentOf(o *Operand) int {
	if o.axis == m.Row {
		return m.Tile.TileM
	}
	return m.Tile.TileN
}

// tileSize is the size of an operand's tile in shared memory, in quads.
func (m *matTile) tileSize(o *Operand) int {
	if m.s.Steps {
		return m.s.TileK * schedule.StepPitch(m.extentOf(o))
	}
	return m.extentOf(o) * schedule.TilePitch(m.s.TileK)
}

// takeTurns writes a loop that copies tiles to shared memory and then multiplies them.
func (m *matTile) takeTurns(x, y expr.Expr) {
	m.Blank()
	k0 := m.Loop("k0", expr.Of("0u"), m.Dim(m.K.Fold), m.s.TileK)
	for _, o := range slices.Concat(m.A, m.B) {
		m.Comment("Stage %d %s of %s.", m.extentOf(o), m.linesOf(o), o.Name)
		if m.across(o) {
			m.fetchAcross(o, k0, func(_, four, depth, value expr.Expr) {
				m.putAcross(o, expr.Of("0u"), four, depth, value)
			})
		} else {
			m.fetch(o, k0, func(_, line, quad, value expr.Expr) { m.put(o, expr.Of("0u"), line, quad, value) })
		}
	}
	m.Barrier()
	m.multiplyTiles(x, y, expr.Of("0u"))
	m.Barrier()
	m.Close()
}

// overlap writes a loop that prefetches the next tiles while it multiplies.
func (m *matTile) overlap(x, y expr.Expr) {
	operands := slices.Concat(m.A, m.B)
	for _, o := range operands {
		m.next[o] = m.Array(m.Quads.Typ(), "next_"+o.Name, m.rounds(o))
	}
	m.overlapped(emit.TileStages{Apart: 1, Fetch: m.fetchNext, Put: m.putNext,
		Multiply: func(_, stage expr.Expr) { m.multiplyTiles(x, y, stage) }})
}

// rounds is the number of quads of an operand's tile that an invocation loads.
func (m *matTile) rounds(o *Operand) int {
	return (m.extentOf(o)*m.s.TileK/4 + m.s.Workgroup - 1) / m.s.Workgroup
}

// linesOf names the lines of an operand's tile, for comments in the shader.
func (m *matTile) linesOf(o *Operand) string {
	if o.axis == m.Row {
		return "rows"
	}
	return "columns"
}

// fetchNext loads the tiles at k0 into registers.
func (m *matTile) fetchNext(k0 expr.Expr) {
	for _, o := range slices.Concat(m.A, m.B) {
		m.Comment("Fetch %d %s of %s.", m.extentOf(o), m.linesOf(o), o.Name)
		keep := func(i, _, _, value expr.Expr) { m.Assign(m.next[o].At(i), value) }
		if m.across(o) {
			m.fetchAcross(o, k0, keep)
		} else {
			m.fetch(o, k0, keep)
		}
	}
}

// putNext stores the tiles in registers to shared memory, in the given stage.
func (m *matTile) putNext(stage expr.Expr) {
	for _, o := range slices.Concat(m.A, m.B) {
		if m.across(o) {
			m.eachAcross(o, func(i, four, depth expr.Expr) {
				m.putAcross(o, stage, four, depth, m.next[o].At(i))
			})
			continue
		}
		m.eachQuad(o, func(i, line, quad expr.Expr) {
			m.put(o, stage, line, quad, m.next[o].At(i))
		})
	}
}

// put stores a quad in the tile of a stage. line and quad are its position in the tile.
func (m *matTile) put(o *Operand, stage, line, quad, value expr.Expr) {
	if m.s.Steps {
		m.PutFours(o.QuadName(), m.tiles[o], expr.Times(stage, m.tileSize(o)), expr.Times(quad, 4), line, m.extentOf(o),
			value)
		return
	}
	place := expr.Plus(expr.Times(stage, m.tileSize(o)),
		expr.Plus(expr.Times(line, schedule.TilePitch(m.s.TileK)), quad))
	m.Assign(expr.At(m.tiles[o], place), value)
}

// multiplyTiles multiplies the tiles of a stage and adds to the sums.
func (m *matTile) multiplyTiles(x, y, stage expr.Expr) {
	if m.s.Steps {
		m.multiplySteps(x, y, stage)
		return
	}
	m.multiply(m.tiles, x, y, stage)
}

// eachQuad calls body for each quad of a tile that this invocation loads. i counts the invocation's own quads. line and
// quad are the quad's position in the tile. Neighbouring invocations take neighbours in memory.
func (m *matTile) eachQuad(o *Operand, body func(i, line, quad expr.Expr)) {
	lines, perLine := m.extentOf(o), m.s.TileK/4
	if !o.Along {
		lines, perLine = perLine, lines
	}
	m.EachUnit(m.self, lines, perLine, func(i, line, quad expr.Expr) {
		if !o.Along {
			line, quad = quad, line
		}
		line = m.Variable("uint", "line", line)
		body(i, line, m.Variable("uint", "quad", quad))
	})
}

// fetch loads the tile of an operand at k0: TileK/4 quads of each line. It calls keep for each quad that this
// invocation loads, with i, line and quad as in eachQuad.
func (m *matTile) fetch(o *Operand, k0 expr.Expr, keep func(i, line, quad, value expr.Expr)) {
	origin := m.Col0
	if o.axis == m.Row {
		origin = m.Row0
	}
	m.eachQuad(o, func(i, line, quad expr.Expr) {
		at := m.Variable("uint", m.ParaName(o.axis), m.ClampTo(expr.Plus(origin, line), o.axis, m.extentOf(o)))
		m.BindAxis(o.axis, at)
		k := m.Variable("uint", "k", expr.Plus(k0, expr.Times(quad, 4)))
		value := m.Quad(o, k, emit.WholeStep(m.K.Fold, k0, m.s.TileK))
		keep(i, line, quad, value)
	})
}

// multiply multiplies the tiles of a stage and adds to the sums.
func (m *matTile) multiply(tiles map[*Operand]expr.Expr, x, y, stage expr.Expr) {
	s := m.s
	pitch := schedule.TilePitch(s.TileK)
	m.Blank()
	quad := m.Loop("quad", expr.Of("0u"), expr.Uint(s.TileK/4), 1)
	read := func(o *Operand, line expr.Expr) expr.Expr {
		place := expr.Plus(expr.Times(stage, m.tileSize(o)), expr.Plus(expr.Times(line, pitch), quad))
		return expr.At(tiles[o], place)
	}
	cols := map[*Operand]expr.Array{}
	for _, o := range m.B {
		cols[o] = m.Array(m.Quads.Typ(), o.Name+"_cols", s.ThreadN)
	}
	m.Repeat("j", s.ThreadN, func(j expr.Expr) {
		for _, o := range m.B {
			m.Assign(cols[o].At(j), read(o, expr.Plus(x, expr.Times(j, s.TileN/s.ThreadN))))
		}
	})
	m.Repeat("i", s.ThreadM, func(i expr.Expr) {
		rows := map[*Operand]expr.Expr{}
		for _, o := range m.A {
			rows[o] = m.Variable(m.Quads.Typ(), o.Name+"_row", read(o, expr.Plus(y, expr.Times(i, s.TileM/s.ThreadM))))
		}
		m.Repeat("j", s.ThreadN, func(j expr.Expr) {
			for n, p := range m.Products {
				sum := m.SumsAt(expr.Plus(expr.Times(i, s.ThreadN), j))[n]
				col := cols[p.B].At(j)
				m.AddQuads(sum, rows[p.A], col)
			}
		})
	})
	m.Close()
}
