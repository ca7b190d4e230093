package glsl

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// matMul holds the parts that the variants of a matmul share. They read operands
// four neighbours along the contraction at a time, whatever the layout: where
// it lies along the contraction, that is one vector load or one decoded run of
// a block; where it lies along the other axis, it is four loads, each of them
// contiguous over neighbouring invocations.
type matMul struct {
	*emitter
	s              kernel.Schedule
	row, col, fold int // axes
	row0, col0     text
	a, b           []*matOperand
	quads          quadKind
	products       []matProduct
	otherSum       func(product int, col text) text // declares a sum of another column of the row, for storeCols
}

// matOperand is an A or a B. Products that share one share its reading.
type matOperand struct {
	value *kernel.Expr
	name  string // "a", or "a0", "a1" where there are several
	axis  int    // besides the contraction: of the rows for A, of the columns for B
	along bool   // lies in memory along the contraction
}

type matProduct struct {
	a, b *matOperand
	sums string // the variable, or array, of its sums in an invocation
}

// newMatMul takes the kernel apart and gives every workgroup its place.
func (e *emitter) newMatMul() *matMul {
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

// numberedName tells several things of one kind apart.
func numberedName(base string, i, count int) string {
	if count == 1 {
		return base
	}
	return fmt.Sprintf("%s%d", base, i)
}

// placeWorkgroup says which rows, columns and batch a workgroup computes.
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

// placeFactors calls place for what a dimension of the grid goes over, with where the
// workgroup is along each axis and how many tiles there are.
func (e *emitter) placeFactors(dim int, factors []schedule.AxisTiles,
	place func(f schedule.AxisTiles, at, count text)) {
	id := primary("gl_WorkGroupID." + gridAxis[dim])
	for i, f := range factors {
		at, count := id, e.tiles(f)
		if i < len(factors)-1 {
			at, id = binary("%", id, count), binary("/", id, count)
		}
		place(f, at, count)
	}
}

// placeBand gives workgroups their tiles in bands of rows: down the band, then
// on to the next column. The last band may have fewer rows.
func (m *matMul) placeBand(g schedule.MatGrid) {
	cols, rows := g[0][0], g[1][0]
	across, down := m.wholeTiles(cols), m.wholeTiles(rows)
	tile := primary(
		m.variable("uint",
			"tile", plus(binary("*", primary("gl_WorkGroupID.y"), uintLit(across)), primary("gl_WorkGroupID.x"))))
	band := int64(m.s.Band)
	height, first := uintLit(band), binary("*", binary("/", tile, uintLit(band*across)), uintLit(band))
	if down%band == 0 {
		m.placeAxis(cols, binary("%", binary("/", tile, height), uintLit(across)))
		m.placeAxis(rows, binary("+", first, binary("%", tile, height)))
		return
	}
	first = primary(m.variable("uint", "band", first))
	height = primary(m.variable("uint", "height", call("min", height, binary("-", uintLit(down), first))))
	within := primary(m.variable("uint", "within", binary("%", tile, uintLit(band*across))))
	m.placeAxis(cols, binary("/", within, height))
	m.placeAxis(rows, binary("+", first, binary("%", within, height)))
}

// wholeTiles is the number of tiles along an axis that no symbol changes.
func (e *emitter) wholeTiles(f schedule.AxisTiles) int64 {
	return (e.k.Parallel[f.Axis].Add + int64(f.Tile) - 1) / int64(f.Tile)
}

func (m *matMul) placeAxis(f schedule.AxisTiles, place text) {
	extent := m.k.Parallel[f.Axis]
	if f.Tile > 1 {
		place = binary("*", place, uintLit(f.Tile))
	}
	switch {
	case f.Axis < m.row:
		if m.usesAxis(f.Axis) && !extent.Is(1) {
			m.bindAxis(f.Axis, primary(m.variable("uint", m.paraName(f.Axis), place)))
		}
	case extent.Max() <= int64(f.Tile): // there is one tile
	case f.Axis == m.row:
		m.row0 = primary(m.variable("uint", "row0", place))
	default:
		m.col0 = primary(m.variable("uint", "col0", place))
	}
}

// tiles prints the number of tiles along an axis.
func (e *emitter) tiles(f schedule.AxisTiles) text {
	d := e.k.Parallel[f.Axis]
	if d.IsStatic() {
		return uintLit(e.wholeTiles(f))
	}
	if f.Tile == 1 {
		return e.dim(d)
	}
	return binary("/", e.dim(d.Plus(int64(f.Tile)-1)), uintLit(f.Tile))
}

// declareSums declares the sums of each product, count per invocation, all 0.
func (m *matMul) declareSums(count int) {
	if count > 1 {
		m.declareZeros(m.quads.scalar, m.quads.zero, count)
		return
	}
	for i := range m.products {
		m.products[i].sums = m.variable(m.quads.scalar, m.k.Products[i].Name, primary(m.quads.zero))
	}
}

// declareZeros is declareSums for those of any type.
func (m *matMul) declareZeros(typ, zero string, count int) {
	for i := range m.products {
		m.products[i].sums = m.array(typ, m.k.Products[i].Name, count)
	}
	m.repeat("i", count, func(i text) {
		for _, p := range m.products {
			m.line("%s = %s;", elementOf(p.sums, count, i), zero)
		}
	})
}

// elementOf prints element i of an array of count, which is a plain variable
// where count is 1.
func elementOf(array string, count int, i text) text {
	if count == 1 {
		return primary(array)
	}
	return elementAt(array, i)
}

// array declares a variable of count elements and returns its name.
func (e *emitter) array(typ, name string, count int) string {
	name = e.fresh(e.scope, name)
	e.line("%s %s%s;", typ, name, arraySize(count))
	return name
}

// named gives a text a name unless it is as short as one.
func (e *emitter) named(name string, t text) text {
	if isPlain(t) {
		return t
	}
	return e.declareIndex(e.scope, name, t)
}

// openIf opens a block that runs under a condition, always if that is "".
func (e *emitter) openIf(cond string) {
	if cond == "" {
		e.openScope()
	} else {
		e.openGuard("if (%s)", cond)
	}
}

// openBelow opens a block for an x below an end that it may reach only if some says so.
func (e *emitter) openBelow(some bool, x, end text) {
	cond := ""
	if some {
		cond = binary("<", x, end).String()
	}
	e.openIf(cond)
}

// eachResult opens a block, or a loop, in which invocations have one of so many results, and returns its number.
func (e *emitter) eachResult(self text, results int) text {
	if results > e.sched.Workgroup {
		return e.loop("id", self, uintLit(results), e.sched.Workgroup)
	}
	e.openBelow(results < e.sched.Workgroup, self, uintLit(results))
	return self
}

// eachSlot writes body for the slots, of so many, that an invocation takes: neighbours take neighbours.
func (e *emitter) eachSlot(self text, total, invocations int, body func(i, slot text)) {
	e.repeat("i", (total+invocations-1)/invocations, func(i text) {
		slot := e.named("slot", plus(self, times(i, invocations)))
		e.openBelow(total%invocations != 0, slot, uintLit(total))
		body(i, slot)
		e.close()
	})
}

// repeat writes body count times: as a loop to unroll, or once as it is.
func (e *emitter) repeat(name string, count int, body func(i text)) {
	i := primary("0u")
	if count == 1 {
		e.openScope()
	} else {
		i = e.openFor(unroll, name, i, uintLit(count), uintLit(1))
	}
	body(i)
	e.close()
}

// free returns a name like base that hides nothing, for a block about to be
// opened.
func (e *emitter) free(base string) string {
	name := base
	for n := 2; unusable(name) || e.taken(name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	return name
}

// loop opens a block that steps a variable from first by step up to an extent,
// and returns the variable. What has one step alone is no loop.
func (e *emitter) loop(name string, first text, end text, step int) text {
	return e.hinted("", name, first, end, step)
}

// rolled is a loop that compilers leave one. Code that runs a few times in a program of many kernels is fetched
// from memory each time, which takes longer than jumps do (M-code-size).
func (e *emitter) rolled(name string, first text, end text, step int) text {
	return e.hinted(dontUnroll, name, first, end, step)
}

func (e *emitter) hinted(hint, name string, first text, end text, step int) text {
	from, fromKnown := literalOf(first)
	to, toKnown := literalOf(end)
	if fromKnown && toKnown && from.v < to.v && from.v+int64(step) >= to.v {
		e.openScope()
		return first
	}
	return e.openFor(hint, name, first, end, uintLit(step))
}

// openFor opens a loop that steps a variable called like name from first up to an end,
// and returns it. hint is unroll, dontUnroll or nothing.
func (e *emitter) openFor(hint, name string, first, end, step text) text {
	i := e.free(name)
	next := i + " += " + step.String()
	if step.Is("1u") {
		next = "++" + i
	}
	e.open("%sfor (uint %s = %s; %s < %s; %s)", hint, i, first, i, end, next)
	e.scope.names[i] = true
	return primary(i)
}

// openLanes opens the loop over so many neighbours that an invocation takes at once.
func (e *emitter) openLanes(count int) {
	e.open("%sfor (uint %s = 0u; %s < %du; ++%s)", unroll, component, component, count, component)
}

func plus(a, b text) text { return binary("+", a, b) }

func times(a text, n int) text { return binary("*", a, uintLit(n)) }

// clampTo limits a coordinate to an extent, so that a partial tile reads its
// last row again instead of leaving the buffer; what comes of it is not
// stored. Workgroups exist only where the extent is not 0.
func (m *matMul) clampTo(x text, axis int, tile int) text {
	return m.limit(x, m.extent(axis), tile)
}

func (m *matMul) extent(axis int) ir.Dim {
	if axis == m.fold {
		return m.k.Fold
	}
	return m.k.Parallel[axis]
}

// inside returns the condition that a row and column exist, or "" where tiles
// are always whole.
func (m *matMul) inside(row, col text) string {
	return and(m.below(row, m.row), m.below(col, m.col)).String()
}

// below is the condition that a coordinate exists along an axis of the result.
func (m *matMul) below(at text, axis int) text {
	if !m.reaches(axis) {
		return nil
	}
	return binary("<", at, m.dim(m.extent(axis)))
}

// quad prints a quad of an operand, k … k+3 of the contraction, its other
// axis being bound. Unless all says that k is always within the contraction,
// quads beyond its end are 0.
func (m *matMul) quad(o *matOperand, k text, all bool) text {
	if m.quads.word != "" {
		return m.packedQuad(o, k, all)
	}
	return m.quadAlong(o.value, m.fold, k, all, o.quadName())
}

// quadAlong is quad along any axis, for a value whose other axes are bound.
func (m *matMul) quadAlong(v *kernel.Expr, axis int, at text, all bool, base string) text {
	return m.quadOf(m.quads, v, along{axis, m.extent(axis)}, at, base, all)
}

// quadName is what a quad of the operand is called.
func (o *matOperand) quadName() string {
	if len(o.name) > 1 {
		return o.name + "_4" // b0_4, not b04
	}
	return o.name + "4"
}

// share declares an array of shared memory.
func (e *emitter) share(typ, name string, size int) string {
	name = e.fresh(e.root, name)
	e.shared = append(e.shared, sharedArray{typ, name, fmt.Sprintf("[%d]", size)})
	return name
}

// finish writes the stores at a row and column, the sums of its products bound
// to sums. Rows and columns beyond the result are left out.
func (m *matMul) finish(row, col text, sums []text) {
	m.openIf(m.inside(row, col))
	m.bindAxis(m.row, row)
	m.bindAxis(m.col, col)
	for i, t := range sums {
		m.bindAcc(i, t.String())
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

// guards is the condition under which a row, which is bound, and where col is set a column, is stored; "" for always.
func (m *matMul) guards(col bool) string {
	var conds []*kernel.Expr
	if g := m.k.Guard; g != nil && g.Row != nil {
		conds = append(conds, g.Row)
	}
	if g := m.k.Guard; g != nil && g.Col != nil && col {
		conds = append(conds, g.Col)
	}
	return m.allOf(conds).String()
}

// allOf prints the conjunction of values.
func (e *emitter) allOf(values []*kernel.Expr) text {
	e.plan(values, nil)
	var all text
	for _, v := range values {
		all = and(all, e.value(v))
	}
	return all
}

// finishQuad writes the stores of four neighbouring columns, of which each
// product has its sums in a vector.
func (m *matMul) finishQuad(row, col text, sums []text) {
	width := m.extent(m.col)
	if !schedule.DivisibleBy(width, 4) || m.k.Guard != nil && m.k.Guard.Col != nil {
		m.repeat("part", 4, func(part text) {
			var at []text
			for _, s := range sums {
				at = append(at, primary(s.String()+"["+part.String()+"]"))
			}
			m.finish(row, primary(m.variable("uint", "col", plus(col, part))), at)
		})
		return
	}
	m.openIf(m.inside(row, col))
	m.bindAxis(m.row, row)
	m.openIf(m.guards(false))
	m.runLanes(run{axis: m.col, width: 4, base: col, name: "col"}, valuesOf(m.k.Stores), m.k.Stores, func() {
		for i, s := range sums {
			m.bindAcc(i, s.String()+"["+component+"]")
		}
	})
	m.close()
	m.close()
}

// tileStages are two stages of tiles in shared memory: while those in one are multiplied, the next are on their way
// from memory, in registers.
type tileStages struct {
	apart    int                  // how far, in elements of the shared array
	fetch    func(at text)        // reads the tiles of a step into registers
	put      func(stage text)     // stores them
	multiply func(at, stage text) // the tiles of a step
}

// overlapped goes through the contraction, TileK at a time.
func (m *matMul) overlapped(s tileStages) {
	m.comment("The first tiles go to shared memory.")
	m.openScope()
	s.fetch(primary("0u"))
	s.put(primary("0u"))
	m.line("barrier();")
	m.close()
	m.line("")
	m.ahead("k", m.k.Fold, m.s.TileK, s)
}

// ahead goes through an extent a step at a time, whose first tiles are in shared memory.
func (e *emitter) ahead(name string, extent ir.Dim, step int, s tileStages) {
	one := extent.IsStatic() && extent.Add <= int64(step)
	stage := primary("0u")
	if !one {
		stage = primary(e.variable("uint", "stage", stage))
	}
	at := e.loop(name+"0", primary("0u"), e.dim(extent), step)
	ifMore := func(func(next text)) {}
	if !one {
		// The last step fetches its own tiles once more, in vain, where tiles are whole: without a branch
		// around them, loads and what becomes of what they load overlap with the products.
		next, again := plus(at, uintLit(step)), extent.IsStatic() && schedule.DivisibleBy(extent, step)
		if again {
			next = call("min", next, uintLit(extent.Add-int64(step)))
		}
		next = primary(e.variable("uint", name+"1", next))
		ifMore = func(body func(next text)) {
			e.openBelow(!again, next, e.dim(extent))
			body(next)
			e.close()
		}
	}
	ifMore(s.fetch)
	s.multiply(at, stage)
	ifMore(func(text) {
		e.line("%s = %s;", stage, binary("-", uintLit(s.apart), stage))
		s.put(stage)
	})
	e.line("barrier();")
	e.close()
}
