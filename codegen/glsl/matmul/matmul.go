// Package matmul writes matmuls: tiled, direct, and on cooperative matrices. Package matvec uses its [Base] too.
package matmul

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// Base is the state that all matmul variants share. Variants read operands in quads: four neighbours along the
// contraction axis, for any layout. If an operand is contiguous along the contraction axis, a quad is one vector load,
// or one call of a block's decoder. If it is contiguous along its other axis, a quad is four loads, and neighbouring
// invocations load neighbouring elements.
type Base struct {
	*emit.Emitter
	Tile kernel.Tile
	// Consecutive workgroups take a band of this many rows of tiles, column by column; see kernel.MatrixTile.
	band           int
	Row, Col, Fold int           // ids of the axes; Fold is the contraction axis
	Row0, Col0     expr.Expr     // the first row and column of the workgroup's tile
	A, B           []*Operand    // of all matmuls, each once
	Quads          emit.QuadKind // the types of quads and sums
	MatMuls        []MatMul
	// OtherSum declares a variable with the sum of a matmul at another column of the bound row, and returns it. Stores
	// may need it (see bindOtherSums). Only package matvec sets it.
	OtherSum func(matmul int, col expr.Expr) expr.Expr
}

// Operand is an operand A or B. Matmuls that share an operand share its loads.
type Operand struct {
	Value *kernel.Expr
	Name  string // "a", or "a0", "a1" if there are several
	axis  int    // the axis other than the contraction axis: the rows of A, the columns of B
	Along bool   // it is contiguous along the contraction axis
}

// MatMul is one of the matmuls of a kernel.
type MatMul struct {
	A, B *Operand
	Sums expr.Array // an invocation's sums
}

// New declares the operands of a kernel and the tile of each workgroup. For band, see kernel.MatrixTile.
func New(e *emit.Emitter, tile kernel.Tile, band int) *Base {
	r := len(e.K.Parallel)
	m := &Base{Emitter: e, Tile: tile, band: band, Row: r - 2, Col: r - 1, Fold: e.K.FoldAxis(),
		Quads: quadsOf(e.K, e.Launch.Variant)}
	for _, p := range e.K.MatMuls {
		m.MatMuls = append(m.MatMuls, MatMul{A: m.operand(&m.A, p.A, m.Row), B: m.operand(&m.B, p.B, m.Col)})
	}
	if perElement, _ := e.SplitStores(); len(perElement) > 0 {
		e.Fail("a matmul has no elements to store besides its results")
	}
	nameOperands("a", m.A)
	nameOperands("b", m.B)
	m.placeWorkgroup()
	if g := m.K.Guard; g != nil && g.Batch != nil {
		m.When(expr.Unary("!", m.Eval(g.Batch)), &syntax.Return{})
	}
	return m
}

// operand returns the operand in the list that has value v. It appends a new one if there is none.
func (m *Base) operand(list *[]*Operand, v *kernel.Expr, axis int) *Operand {
	for _, o := range *list {
		if o.Value == v {
			return o
		}
	}
	o := &Operand{Value: v, axis: axis, Along: schedule.FoldContiguous(m.K, v, axis)}
	*list = append(*list, o)
	return o
}

// nameOperands names the operands of a list: "a", or "a0", "a1" if there are several.
func nameOperands(base string, list []*Operand) {
	for i, o := range list {
		o.Name = Numbered(base, i, len(list))
	}
}

// Numbered appends i to a name if there are several names of its kind.
func Numbered(base string, i, count int) string {
	if count == 1 {
		return base
	}
	return fmt.Sprintf("%s%d", base, i)
}

// placeWorkgroup declares the rows, columns and batch that a workgroup computes.
func (m *Base) placeWorkgroup() {
	g, err := schedule.MatMulGrid(m.K, m.Tile, m.Caps)
	if err != nil {
		m.Fail("%v", err)
		return
	}
	m.Grid = g.Grid(m.K)
	m.Row0, m.Col0 = expr.Of("0u"), expr.Of("0u")
	banded := m.band > 1
	if banded { // a band places rows and columns, which are grid dimensions 0 and 1
		m.placeBand(g)
	}
	for dim, factors := range g {
		if banded && dim < 2 {
			continue
		}
		m.PlaceFactors(dim, factors, func(f schedule.AxisTiles, place, _ expr.Expr) { m.placeAxis(f, place) })
	}
}

// placeBand assigns tiles to workgroups in bands of tile rows. Consecutive workgroups go down the rows of a band, and
// then to the next column. The last band may have fewer rows.
func (m *Base) placeBand(g schedule.MatGrid) {
	cols, rows := g[0][0], g[1][0]
	// Tiles are numbered band after band. height is the number of rows of the workgroup's band, and first its first
	// row.
	across, down := m.WholeTiles(cols), m.WholeTiles(rows)
	tile := m.Variable("uint", "tile", expr.Plus(expr.Binary("*", expr.Of("gl_WorkGroupID.y"), expr.Uint(across)),
		expr.Of("gl_WorkGroupID.x")))
	band := int64(m.band)
	height := expr.Uint(band)
	first := expr.Binary("*", expr.Binary("/", tile, expr.Uint(band*across)), expr.Uint(band))
	if down%band == 0 { // all bands are full
		m.placeAxis(cols, expr.Binary("%", expr.Binary("/", tile, height), expr.Uint(across)))
		m.placeAxis(rows, expr.Binary("+", first, expr.Binary("%", tile, height)))
		return
	}
	first = m.Variable("uint", "band", first)
	height = m.Variable("uint", "height", expr.Call("min", height, expr.Binary("-", expr.Uint(down), first)))
	within := m.Variable("uint", "within", expr.Binary("%", tile, expr.Uint(band*across)))
	m.placeAxis(cols, expr.Binary("/", within, height))
	m.placeAxis(rows, expr.Binary("+", first, expr.Binary("%", within, height)))
}

// placeAxis binds an axis to the workgroup's tile along it, which has number place.
func (m *Base) placeAxis(f schedule.AxisTiles, place expr.Expr) {
	extent := m.K.Parallel[f.Axis]
	if f.Tile > 1 {
		place = expr.Binary("*", place, expr.Uint(f.Tile))
	}
	switch {
	case f.Axis < m.Row:
		if m.UsesAxis(f.Axis) && !extent.Is(1) {
			m.BindAxis(f.Axis, m.Variable("uint", m.ParaName(f.Axis), place))
		}
	case extent.Max() <= int64(f.Tile): // there is one tile
	case f.Axis == m.Row:
		m.Row0 = m.Variable("uint", "row0", place)
	default:
		m.Col0 = m.Variable("uint", "col0", place)
	}
}

// DeclareSums declares count sums for each matmul, and sets them to 0.
func (m *Base) DeclareSums(count int) {
	if count > 1 {
		m.DeclareZeros(m.Quads.Scalar, m.Quads.Zero, count)
		return
	}
	for i := range m.MatMuls {
		m.MatMuls[i].Sums = expr.Variable(m.Variable(m.Quads.Scalar, m.K.MatMuls[i].Name, m.Quads.Zero))
	}
}

// DeclareZeros declares count sums of a type for each matmul, with the value zero.
func (m *Base) DeclareZeros(typ string, zero expr.Expr, count int) {
	for i := range m.MatMuls {
		m.MatMuls[i].Sums = m.Array(typ, m.K.MatMuls[i].Name, count)
	}
	m.Repeat("i", count, func(i expr.Expr) {
		for _, p := range m.MatMuls {
			m.Assign(p.Sums.At(i), zero)
		}
	})
}

// ClampTo returns min(x, last coordinate of the axis), or x if tiles of the given size divide the axis. So a partial
// tile reads its last row again instead of leaving the buffer, and the extra results are not stored. If the extent is
// 0, no workgroup runs.
func (m *Base) ClampTo(x expr.Expr, axis int, tile int) expr.Expr {
	return m.Limit(x, m.extent(axis), tile)
}

// extent is the extent of an axis, which may be the contraction axis.
func (m *Base) extent(axis int) ir.Dim {
	if axis == m.Fold {
		return m.K.Fold
	}
	return m.K.Parallel[axis]
}

// inside returns the condition that a row and a column exist, or nil if tiles are always whole.
func (m *Base) inside(row, col expr.Expr) expr.Expr {
	return expr.And(m.below(row, m.Row), m.below(col, m.Col))
}

// below returns the condition that a coordinate exists along an axis of the result, or nil if it always does.
func (m *Base) below(at expr.Expr, axis int) expr.Expr {
	if !m.mayExceed(axis) {
		return nil
	}
	return expr.Binary("<", at, m.Dim(m.extent(axis)))
}

// Quad returns the quad of an operand with elements k to k+3 along the contraction axis. The operand's other axis is
// bound. inside says that k is always within the contraction axis; otherwise quads beyond its end are 0.
func (m *Base) Quad(o *Operand, k expr.Expr, inside bool) expr.Expr {
	if m.Quads.Word != "" {
		return m.packedQuad(o, k, inside)
	}
	return m.quadAlong(o.Value, m.Fold, k, inside, o.QuadName())
}

// quadAlong is Quad along any axis, for a value with its other axes bound.
func (m *Base) quadAlong(v *kernel.Expr, axis int, at expr.Expr, inside bool, base string) expr.Expr {
	return m.QuadOf(m.Quads, v, emit.Along{Axis: axis, Extent: m.extent(axis)}, at, base, inside)
}

// QuadName returns a name for a quad of the operand.
func (o *Operand) QuadName() string {
	if len(o.Name) > 1 {
		return o.Name + "_4" // b0_4, not b04
	}
	return o.Name + "4"
}

// Finish writes the stores of the result at a row and column, unless these are beyond the result. sums are the sums of
// the kernel's matmuls.
func (m *Base) Finish(row, col expr.Expr, sums []expr.Expr) {
	m.OpenIf(m.inside(row, col))
	m.BindAxis(m.Row, row)
	m.BindAxis(m.Col, col)
	for i, t := range sums {
		m.BindAcc(i, t)
	}
	m.OpenIf(m.guards())
	if m.K.CutsCols() {
		m.storeCols(col)
	} else {
		m.StoreAll(m.K.Stores)
	}
	m.Close()
	m.Close()
}

// guards returns the condition for storing the bound row and column; nil means always.
func (m *Base) guards() expr.Expr {
	var conds []*kernel.Expr
	if g := m.K.Guard; g != nil {
		conds = slices.DeleteFunc([]*kernel.Expr{g.Row, g.Col}, func(v *kernel.Expr) bool { return v == nil })
	}
	return m.AllOf(conds)
}

// FinishQuad writes the stores of four neighbouring columns. sums has a vector of four sums for each matmul.
func (m *Base) FinishQuad(row, col expr.Expr, sums []expr.Expr) {
	width := m.extent(m.Col)
	// A condition may differ within the quad.
	if !schedule.DivisibleBy(width, 4) || m.K.Guard != nil && m.K.Guard.Col != nil {
		m.Repeat("part", 4, func(part expr.Expr) {
			var at []expr.Expr
			for _, s := range sums {
				at = append(at, expr.At(s, part))
			}
			m.Finish(row, m.Variable("uint", "col", expr.Plus(col, part)), at)
		})
		return
	}
	m.OpenIf(m.inside(row, col))
	m.BindAxis(m.Row, row)
	m.OpenIf(m.guards())
	m.RunLanes(emit.Run{Axis: m.Col, Width: 4, Base: col, Name: "col"}, emit.ValuesOf(m.K.Stores), m.K.Stores, func() {
		for i, s := range sums {
			m.BindAcc(i, expr.At(s, emit.Lane))
		}
	})
	m.Close()
	m.Close()
}

// prefetchLoop writes the loop along the contraction axis, TileK elements at a time. While invocations multiply tiles
// in shared memory, they prefetch the next tiles.
func (m *Base) prefetchLoop(s emit.TileStages) {
	m.Comment("The first tiles go to shared memory.")
	m.OpenScope()
	s.Fetch(expr.Of("0u"))
	s.Put(expr.Of("0u"))
	m.Barrier()
	m.Close()
	m.Blank()
	m.StagedLoop("k", m.K.Fold, m.Tile.TileK, s)
}
