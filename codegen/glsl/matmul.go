package glsl

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// matMul holds the state that all matmul variants share. Variants read operands in quads, four neighbours along the
// contraction axis, for any layout. If an operand is contiguous along the contraction axis, a quad is one vector load
// or one decoded run of a block. If it is contiguous along its other axis, a quad is four loads, each of them coalesced
// over neighbouring invocations.
type matMul struct {
	*emitter
	s              kernel.Schedule
	row, col, fold int // axes
	row0, col0     text
	a, b           []*matOperand
	quads          quadKind
	products       []matProduct
	otherSum       func(product int, col text) text // declares a sum of another column, for storeCols
}

// matOperand is an A or a B. Matmuls that share an operand share its loads.
type matOperand struct {
	value *kernel.Expr
	name  string // "a", or "a0", "a1" if there are several
	axis  int    // the axis besides the contraction: the rows of A, the columns of B
	along bool   // contiguous along the contraction axis
}

type matProduct struct {
	a, b *matOperand
	sums text // the variable, or array, that holds its sums in an invocation
}

// newMatMul takes the kernel apart and assigns every workgroup its tile.
func newMatMul(e *emitter) *matMul {
	r := len(e.k.Parallel)
	m := &matMul{emitter: e, s: e.sched, row: r - 2, col: r - 1, fold: e.k.FoldAxis(), quads: quadsOf(e.k, e.sched)}
	for _, p := range e.k.Products {
		m.products = append(m.products, matProduct{a: m.operand(&m.a, p.A, m.row), b: m.operand(&m.b, p.B, m.col)})
	}
	numbered("a", m.a)
	numbered("b", m.b)
	m.placeWorkgroup()
	if g := m.k.Guard; g != nil && g.Batch != nil {
		m.line("if (!(%s)) return;", m.eval(g.Batch)[0])
	}
	return m
}

func (m *matMul) operand(list *[]*matOperand, v *kernel.Expr, axis int) *matOperand {
	for _, o := range *list {
		if o.value == v {
			return o
		}
	}
	o := &matOperand{value: v, axis: axis, along: schedule.FoldContiguous(m.k, v, axis)}
	*list = append(*list, o)
	return o
}

func numbered(base string, list []*matOperand) {
	for i, o := range list {
		o.name = numberedName(base, i, len(list))
	}
}

// numberedName numbers a name if there are several of its kind.
func numberedName(base string, i, count int) string {
	if count == 1 {
		return base
	}
	return fmt.Sprintf("%s%d", base, i)
}

// placeWorkgroup declares the rows, columns and batch that a workgroup computes.
func (m *matMul) placeWorkgroup() {
	g, err := schedule.MatMulGrid(m.k, m.s, m.caps)
	if err != nil {
		m.fail("%v", err)
		return
	}
	m.grid = g.Grid(m.k)
	m.row0, m.col0 = primary("0u"), primary("0u")
	for dim, factors := range g {
		if m.s.Band > 1 && dim == 0 {
			m.placeBand(g)
		}
		if m.s.Band > 1 && dim < 2 {
			continue
		}
		m.placeFactors(dim, factors, func(f schedule.AxisTiles, place, _ text) { m.placeAxis(f, place) })
	}
}

// placeBand assigns tiles to workgroups in bands of rows: down a band, then on to the next column. The last band may
// have fewer rows.
func (m *matMul) placeBand(g schedule.MatGrid) {
	cols, rows := g[0][0], g[1][0]
	across, down := m.wholeTiles(cols), m.wholeTiles(rows)
	tile := m.variable("uint", "tile", plus(binary("*", primary("gl_WorkGroupID.y"), uintLit(across)),
		primary("gl_WorkGroupID.x")))
	band := int64(m.s.Band)
	height, first := uintLit(band), binary("*", binary("/", tile, uintLit(band*across)), uintLit(band))
	if down%band == 0 {
		m.placeAxis(cols, binary("%", binary("/", tile, height), uintLit(across)))
		m.placeAxis(rows, binary("+", first, binary("%", tile, height)))
		return
	}
	first = m.variable("uint", "band", first)
	height = m.variable("uint", "height", call("min", height, binary("-", uintLit(down), first)))
	within := m.variable("uint", "within", binary("%", tile, uintLit(band*across)))
	m.placeAxis(cols, binary("/", within, height))
	m.placeAxis(rows, binary("+", first, binary("%", within, height)))
}

func (m *matMul) placeAxis(f schedule.AxisTiles, place text) {
	extent := m.k.Parallel[f.Axis]
	if f.Tile > 1 {
		place = binary("*", place, uintLit(f.Tile))
	}
	switch {
	case f.Axis < m.row:
		if m.usesAxis(f.Axis) && !extent.Is(1) {
			m.bindAxis(f.Axis, m.variable("uint", m.paraName(f.Axis), place))
		}
	case extent.Max() <= int64(f.Tile): // there is one tile
	case f.Axis == m.row:
		m.row0 = m.variable("uint", "row0", place)
	default:
		m.col0 = m.variable("uint", "col0", place)
	}
}

// declareSums declares count sums per matmul in each invocation, and sets them to 0.
func (m *matMul) declareSums(count int) {
	if count > 1 {
		m.declareZeros(m.quads.scalar, m.quads.zero, count)
		return
	}
	for i := range m.products {
		m.products[i].sums = m.variable(m.quads.scalar, m.k.Products[i].Name, m.quads.zero)
	}
}

// declareZeros is declareSums for elements of any type.
func (m *matMul) declareZeros(typ string, zero text, count int) {
	for i := range m.products {
		m.products[i].sums = m.array(typ, m.k.Products[i].Name, count)
	}
	m.repeat("i", count, func(i text) {
		for _, p := range m.products {
			m.assign(elementOf(p.sums, count, i), zero)
		}
	})
}

// clampTo limits a coordinate to its extent. So a partial tile reads its last row again instead of leaving the buffer.
// Its extra results are not stored. No workgroup runs if the extent is 0.
func (m *matMul) clampTo(x text, axis int, tile int) text {
	return m.limit(x, m.extent(axis), tile)
}

func (m *matMul) extent(axis int) ir.Dim {
	if axis == m.fold {
		return m.k.Fold
	}
	return m.k.Parallel[axis]
}

// inside returns the condition that a row and column exist, or nil if tiles are always whole.
func (m *matMul) inside(row, col text) text {
	return and(m.below(row, m.row), m.below(col, m.col))
}

// below is the condition that a coordinate exists along an axis of the result.
func (m *matMul) below(at text, axis int) text {
	if !m.reaches(axis) {
		return nil
	}
	return binary("<", at, m.dim(m.extent(axis)))
}

// quad prints a quad of an operand, elements k … k+3 along the contraction axis. The operand's other axis is bound.
// Unless all says that k is always inside the contraction, quads beyond its end are 0.
func (m *matMul) quad(o *matOperand, k text, all bool) text {
	if m.quads.word != "" {
		return m.packedQuad(o, k, all)
	}
	return m.quadAlong(o.value, m.fold, k, all, o.quadName())
}

// quadAlong is quad along any axis, for a value with its other axes bound.
func (m *matMul) quadAlong(v *kernel.Expr, axis int, at text, all bool, base string) text {
	return m.quadOf(m.quads, v, along{axis, m.extent(axis)}, at, base, all)
}

// quadName is the name of a quad of the operand.
func (o *matOperand) quadName() string {
	if len(o.name) > 1 {
		return o.name + "_4" // b0_4, not b04
	}
	return o.name + "4"
}

// finish stores the result at a row and column, from the sums of the kernel's matmuls. Rows and columns beyond the
// result are left out.
func (m *matMul) finish(row, col text, sums []text) {
	m.openIf(m.inside(row, col))
	m.bindAxis(m.row, row)
	m.bindAxis(m.col, col)
	for i, t := range sums {
		m.bindAcc(i, t)
	}
	m.openIf(m.guards(true))
	stores := slices.DeleteFunc(slices.Clone(m.k.Stores), func(s kernel.Store) bool { return s.PerElement })
	if len(stores) != len(m.k.Stores) {
		m.fail("a matrix product has no elements to store besides its results")
	}
	if m.k.CutsCols() {
		m.storeCols(col)
	} else {
		m.storeAll(stores)
	}
	m.close()
	m.close()
}

// guards is the condition for storing the bound row, and the bound column if col is set; nil means always.
func (m *matMul) guards(col bool) text {
	var conds []*kernel.Expr
	if g := m.k.Guard; g != nil && g.Row != nil {
		conds = append(conds, g.Row)
	}
	if g := m.k.Guard; g != nil && g.Col != nil && col {
		conds = append(conds, g.Col)
	}
	return m.allOf(conds)
}

// finishQuad writes the stores of four neighbouring columns. Each matmul has their sums in a vector.
func (m *matMul) finishQuad(row, col text, sums []text) {
	width := m.extent(m.col)
	if !schedule.DivisibleBy(width, 4) || m.k.Guard != nil && m.k.Guard.Col != nil {
		m.repeat("part", 4, func(part text) {
			var at []text
			for _, s := range sums {
				at = append(at, elementAt(s, part))
			}
			m.finish(row, m.variable("uint", "col", plus(col, part)), at)
		})
		return
	}
	m.openIf(m.inside(row, col))
	m.bindAxis(m.row, row)
	m.openIf(m.guards(false))
	m.runLanes(run{axis: m.col, width: 4, base: col, name: "col"}, valuesOf(m.k.Stores), m.k.Stores, func() {
		for i, s := range sums {
			m.bindAcc(i, elementAt(s, lane))
		}
	})
	m.close()
	m.close()
}

// overlapped steps through the contraction axis, TileK at a time.
func (m *matMul) overlapped(s tileStages) {
	m.comment("The first tiles go to shared memory.")
	m.openScope()
	s.fetch(primary("0u"))
	s.put(primary("0u"))
	m.barrier()
	m.close()
	m.line("")
	m.ahead("k", m.k.Fold, m.s.TileK, s)
}
