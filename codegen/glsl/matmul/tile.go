package matmul

import (
	"fmt"
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
		// A vec4 has the sums of four neighbouring columns of a row.
		m.DeclareZeros("vec4", expr.Of("vec4(0.0)"), s.ThreadM*s.ThreadN/4)
	} else {
		m.DeclareSums(s.ThreadM * s.ThreadN)
	}
	x, y := m.PlaceInTile(self, s.TileN/s.ThreadN, s.Paired, "tx", "ty")
	t := &matTile{Base: m, s: s, self: self, tiles: map[*Operand]expr.Expr{}}
	var movers []*emit.Mover
	for _, o := range slices.Concat(m.A, m.B) {
		t.tiles[o] = m.Share(m.Quads.Typ(), "tile_"+o.Name, max(s.Stages, 1)*t.tileSize(o))
		movers = append(movers, t.mover(o))
	}
	if s.Stages > 1 {
		for i, o := range slices.Concat(m.A, m.B) {
			movers[i].Declare(m.Quads.Typ(), "next_"+o.Name)
		}
		m.prefetchLoop(emit.TileStages{Apart: 1, Movers: movers,
			Multiply: func(_, stage expr.Expr) { t.multiply(x, y, stage) }})
	} else {
		t.loopWithoutStages(movers, x, y)
	}

	m.Blank()
	if s.Steps {
		t.finishSteps(x, y)
	} else {
		t.finishLines(x, y)
	}
}

// loopWithoutStages writes the loop along the contraction axis. In each step, invocations wait for the tiles of the
// step and then multiply them.
func (m *matTile) loopWithoutStages(movers []*emit.Mover, x, y expr.Expr) {
	m.Blank()
	k0 := m.OpenLoop("k0", expr.Of("0u"), m.Dim(m.K.Fold), m.s.TileK)
	for _, mover := range movers {
		mover.Move(k0)
	}
	m.Barrier()
	m.multiply(x, y, expr.Of("0u"))
	m.Barrier()
	m.Close()
}

// multiply multiplies the tiles of a stage and adds the products to the sums of the invocation at column x and row y.
func (m *matTile) multiply(x, y, stage expr.Expr) {
	if m.s.Steps {
		m.multiplySteps(x, y, stage)
	} else {
		m.multiplyLines(x, y, stage)
	}
}

// finishLines finishes the results of the invocation at column x and row y of the workgroup, and stores them.
func (m *matTile) finishLines(x, y expr.Expr) {
	s := m.s
	m.Repeat("i", s.ThreadM, func(i expr.Expr) {
		row := m.Variable("uint", "row", expr.Plus(m.Row0, y, expr.Times(i, s.TileM/s.ThreadM)))
		m.Repeat("j", s.ThreadN, func(j expr.Expr) {
			col := m.Variable("uint", "col", expr.Plus(m.Col0, x, expr.Times(j, s.TileN/s.ThreadN)))
			m.Finish(row, col, m.SumsAt(expr.Flat(i, s.ThreadN, j)))
		})
	})
}

// SumsAt returns an invocation's i-th sum of every matmul.
func (m *Base) SumsAt(i expr.Expr) []expr.Expr {
	var all []expr.Expr
	for _, p := range m.MatMuls {
		all = append(all, p.Sums.At(i))
	}
	return all
}

// matTile is a tiled matmul. See EmitTile.
type matTile struct {
	*Base
	s     kernel.MatTile
	self  expr.Expr
	tiles map[*Operand]expr.Expr // in shared memory
}

// tileExtent is the extent of an operand's tile along the operand's own axis: rows of an A, columns of a B.
func (m *Base) tileExtent(o *Operand) int {
	if o.axis == m.Row {
		return m.Tile.TileM
	}
	return m.Tile.TileN
}

// tileSize is the size of an operand's tile in shared memory, in quads.
func (m *matTile) tileSize(o *Operand) int {
	if m.s.Steps {
		return m.s.TileK * schedule.StepPitch(m.tileExtent(o))
	}
	return m.tileExtent(o) * schedule.TilePitch(m.s.TileK)
}

// mover returns the mover of an operand's tile: TileK/4 quads of each line (a row of A, a column of B) along the
// contraction axis. Neighbouring invocations take neighbours in memory.
func (m *matTile) mover(o *Operand) *emit.Mover {
	lines, origin := "columns", m.Col0
	if o.axis == m.Row {
		lines, origin = "rows", m.Row0
	}
	mover := &emit.Mover{E: m.Emitter, Self: m.self, Name: fmt.Sprintf("%d %s of %s", m.tileExtent(o), lines, o.Name),
		Lines: m.tileExtent(o), PerLine: m.s.TileK / 4, Across: !o.Along, Line: "line", Unit: "quad"}
	if m.s.Steps && schedule.FoursAcross(m.K, o.Value, o.axis) {
		m.moveAcross(o, mover, origin)
		return mover
	}
	mover.Load = func(_, k0, line, quad expr.Expr, keep func(value expr.Expr)) {
		at := m.Variable("uint", m.ParaName(o.axis), m.ClampTo(expr.Plus(origin, line), o.axis, m.tileExtent(o)))
		m.BindAxis(o.axis, at)
		k := m.Variable("uint", "k", expr.Plus(k0, expr.Times(quad, 4)))
		keep(m.Quad(o, k, emit.WholeStep(m.K.Fold, k0, m.s.TileK)))
	}
	mover.Store = func(stage, line, quad, value expr.Expr) {
		first := expr.Times(stage, m.tileSize(o))
		if m.s.Steps {
			m.PutFours(o.QuadName(), m.tiles[o], first, expr.Times(quad, 4), line, m.tileExtent(o), value)
			return
		}
		place := expr.Flat(line, schedule.TilePitch(m.s.TileK), quad)
		m.Assign(expr.At(m.tiles[o], expr.Plus(first, place)), value)
	}
	return mover
}

// multiplyLines multiplies the tiles of a stage, which are stored line by line, and adds to the sums. x and y are the
// invocation's column and row among the invocations of the tile.
func (m *matTile) multiplyLines(x, y, stage expr.Expr) {
	s := m.s
	pitch := schedule.TilePitch(s.TileK)
	m.Blank()
	quad := m.OpenLoop("quad", expr.Of("0u"), expr.Uint(s.TileK/4), 1)
	read := func(o *Operand, line expr.Expr) expr.Expr {
		place := expr.Flat(stage, m.tileSize(o), expr.Flat(line, pitch, quad))
		return expr.At(m.tiles[o], place)
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
		m.addRow(i, s.ThreadN, rows, func(o *Operand, j expr.Expr) expr.Expr { return cols[o].At(j) })
	})
	m.Close()
}
