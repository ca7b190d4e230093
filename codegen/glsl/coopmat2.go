package glsl

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// coopMat2 is a matmul on cooperative matrices of workgroup scope. The driver loads an operand that lies in memory as a
// plain matrix. A tensor layout tells it the operand's address and strides, and if a tile may be partial, that elements
// beyond the ends are 0. Other operands are staged in shared memory.
type coopMat2 struct {
	*staging
	tensors map[*matOperand]*tensor
	staged  map[*matOperand]*staged
	pieces  []piece
	pieceM  int // rows of a piece
	pieceN  int // columns
}

// piece is a part of the tile with sums in a matrix of its own.
type piece struct {
	row, col int    // its origin in the tile
	sums     []text // one for each matmul
}

// tensor is an operand that the driver loads by tensor addressing.
type tensor struct {
	layout string
	buffer string // the array
	base   text   // the position of element (0, 0); each step recomputes it if the operand comes in runs
	plain  schedule.Plain
}

// emitCoopMat2 writes a matmul on cooperative matrices of workgroup scope.
func emitCoopMat2(e *emitter) {
	m := newMatMul(e)
	if e.err != nil {
		return
	}
	e.need(NeedCoopMat, NeedCoopMat2, NeedMemoryModel, NeedMaintenance4)
	c := &coopMat2{staging: m.newStaging(primary("gl_LocalInvocationIndex")), tensors: map[*matOperand]*tensor{},
		staged: map[*matOperand]*staged{}}
	if touches(c.emitter, ir.BF16) {
		e.need(NeedInt16) // the elements of its buffers
	}
	for _, st := range c.operands {
		c.staged[st.matOperand] = st
	}
	for _, o := range slices.Concat(c.a, c.b) {
		if c.staged[o] == nil {
			c.tensors[o] = c.operandTensor(o)
		}
	}
	c.declareSums()
	c.accumulate()
	c.storeResults()
}

// touches reports whether a buffer has this dtype.
func touches(e *emitter, t ir.DType) bool {
	return slices.ContainsFunc(e.k.Bindings, func(b kernel.Binding) bool { return b.DType == t })
}

func (c *coopMat2) sumsType(t ir.DType) string {
	return matrixType("Workgroup", t, c.pieceM, c.pieceN, "Accumulator")
}

// declareSums declares zero sums of each matmul for every piece.
func (c *coopMat2) declareSums() {
	down, across := c.s.Pieces()
	c.pieceM, c.pieceN = c.s.TileM/down, c.s.TileN/across
	for row := 0; row < c.s.TileM; row += c.pieceM {
		for col := 0; col < c.s.TileN; col += c.pieceN {
			c.pieces = append(c.pieces, piece{row: row, col: col})
		}
	}
	c.nameOrigin(&c.row0, "row0", down)
	c.nameOrigin(&c.col0, "col0", across)
	for i, p := range c.k.Products {
		c.products[i].sums = syntax.Ident(c.fresh(c.scope, p.Name))
		for n := range c.pieces {
			name := c.products[i].sums
			if len(c.pieces) > 1 {
				name = syntax.Ident(c.fresh(c.scope, numberedName(name.Text, n, len(c.pieces))))
			}
			c.pieces[n].sums = append(c.pieces[n].sums, name)
			c.line("%s %s = %s;", c.sumsType(c.sums), name, call(c.sumsType(c.sums), c.quads.zero))
		}
	}
}

// nameOrigin stores the tile's origin in a variable if there are several pieces, because their element functions take
// it as a parameter.
func (c *coopMat2) nameOrigin(at *text, name string, pieces int) {
	if pieces > 1 && isNumber(*at) {
		*at = c.variable("uint", name, *at)
	}
}

// operandTensor declares the layout of an operand.
func (c *coopMat2) operandTensor(o *matOperand) *tensor {
	p, ok := schedule.PlainOperand(c.k, o.value, o.axis, c.dtype)
	if !ok {
		c.fail("operand %s is not loaded as it lies in memory", o.name)
		return &tensor{}
	}
	t := &tensor{plain: p, layout: c.fresh(c.scope, "layout_"+o.name), buffer: c.view(c.buffers[p.Load.Bind], 1)}
	outer, inner := c.fold, o.axis
	if p.Along {
		outer, inner = inner, outer
	}
	clamp := schedule.EdgeOf(c.k, c.s, o.axis) == schedule.EdgeClamped ||
		schedule.EdgeOf(c.k, c.s, c.fold) == schedule.EdgeClamped
	c.declareLayout(t.layout, clamp, outer, inner, p)
	if p.Run > 0 {
		return t
	}
	c.plan(nil, []kernel.Index{p.Base})
	t.base = c.coordinate(p.Base)
	return t
}

// partial reports whether some tile may reach beyond the result.
func (c *coopMat2) partial() bool { return c.reaches(c.row) || c.reaches(c.col) }

// reaches reports whether some tile may reach beyond an axis of the result.
func (m *matMul) reaches(axis int) bool {
	e := schedule.EdgeOf(m.k, m.s, axis)
	return e == schedule.EdgeOverread || e == schedule.EdgeClamped
}

// declareLayout declares the layout of a tensor of two axes; the inner axis has stride 1. If tiles may be partial,
// elements beyond the ends are read as 0 and not written. For an operand in runs, the layout covers one step along the
// contraction axis.
func (c *coopMat2) declareLayout(name string, clamp bool, outer, inner int, p schedule.Plain) {
	mode := "gl_CooperativeMatrixClampModeUndefinedNV"
	if clamp {
		mode = "gl_CooperativeMatrixClampModeConstantNV"
	}
	c.line("tensorLayoutNV<2, %s> %s = createTensorLayoutNV(2, %s);", mode, name, mode)
	sizes := [2]text{c.dim(c.extent(outer)), c.dim(c.extent(inner))}
	spare := false
	for i, axis := range []int{outer, inner} {
		if !clamp && schedule.EdgeOf(c.k, c.s, axis) == schedule.EdgeOverread { // tiles read past the end, in memory
			sizes[i], spare = uintLit(schedule.WholeTiles(c.k, c.s, axis)), spare || i == 1
		}
	}
	if p.Run > 0 {
		sizes[1], spare = uintLit(c.s.TileK), true
	}
	c.line("%s = setTensorLayoutDimensionNV(%s, %s, %s);", name, name, sizes[0], sizes[1])
	if (spare || !p.Pitch.Equal(kernel.DimIndex(c.extent(inner)))) && !c.extent(outer).Is(1) {
		c.line("%s = setTensorLayoutStrideNV(%s, %s, 1u);", name, name, c.coordinate(p.Pitch))
	}
}

// slice prints a layout limited to a tile.
func (c *coopMat2) slice(name string, outer text, outerTile int, inner text, innerTile int) string {
	return fmt.Sprintf("sliceTensorLayoutNV(%s, %s, %du, %s, %du)", name, outer, outerTile, inner, innerTile)
}

// accumulate steps through the contraction axis.
func (c *coopMat2) accumulate() {
	switch {
	case len(c.operands) > 0:
		c.line("")
		c.stages(c.step)
	case c.s.Unroll > 0:
		c.line("")
		c.unrolledSteps()
	default:
		k0 := c.loop("k0", primary("0u"), c.depth(), c.s.TileK)
		c.step(k0, nil)
		c.close()
	}
}

// depth is the extent of the contraction axis. With HideSteps, only the running kernel knows it.
func (c *coopMat2) depth() text {
	depth := c.dim(c.k.Fold)
	if !c.s.HideSteps {
		c.line("")
		return depth
	}
	c.comment("The number of steps is hidden from the compiler, which would unroll them by 8 and run out of registers.")
	depth = &syntax.Expr{Op: syntax.Ternary, Args: []text{primary("gl_NumWorkGroups.x > 0u"), depth, primary("0u")}}
	return c.variable("uint", "depth", depth)
}

// unrolledSteps steps through the contraction axis, in a loop with Unroll steps in its body.
func (c *coopMat2) unrolledSteps() {
	first := c.openFor(dontUnroll, "first", primary("0u"), c.dim(c.k.Fold), uintLit(c.s.Unroll*c.s.TileK))
	c.repeat("n", c.s.Unroll, func(n text) {
		c.step(c.variable("uint", "k0", plus(first, times(n, c.s.TileK))), nil)
	})
	c.close()
}

// step multiplies one tile of each operand. It loads the side with one piece first, or else the columns. Then it loads
// the other side piece by piece, so that it multiplies each piece while the next one loads.
func (c *coopMat2) step(k0 text, stage text) {
	down, across := c.s.Pieces()
	rows := pieceSide{c.a, down, c.pieceM, func(p piece) int { return p.row }}
	cols := pieceSide{c.b, across, c.pieceN, func(p piece) int { return p.col }}
	first, then := rows, cols
	if down > 1 {
		first, then = cols, rows
	}
	tiles := map[*matOperand][]text{}
	for i := range first.count {
		c.loadPiece(first, i, tiles, k0, stage)
	}
	for i := range then.count {
		c.loadPiece(then, i, tiles, k0, stage)
		for _, at := range c.pieces {
			if then.of(at) != i*then.extent {
				continue
			}
			for n, p := range c.products {
				c.multiplyAdd(at.sums[n], tiles[p.a][at.row/c.pieceM], tiles[p.b][at.col/c.pieceN])
			}
		}
	}
}

// pieceSide is the operands of one side of the matmuls, in pieces.
type pieceSide struct {
	operands []*matOperand
	count    int
	extent   int             // of a piece
	of       func(piece) int // the origin of a piece of the sums along this side
}

// loadPiece reads piece i of the operands of a side.
func (c *coopMat2) loadPiece(s pieceSide, i int, tiles map[*matOperand][]text, k0, stage text) {
	for _, o := range s.operands {
		tiles[o] = append(tiles[o], c.load(o, numberedName("tile_"+o.name, i, s.count), k0, stage, i*s.extent,
			s.extent))
	}
}

// load loads a part of an operand's tile: extent rows or columns, from at on.
func (c *coopMat2) load(o *matOperand, base string, k0, stage text, at, extent int) (name text) {
	isA := o.axis == c.row
	origin, rows, cols, use := c.col0, c.s.TileK, extent, "B"
	if isA {
		origin, rows, cols, use = c.row0, extent, c.s.TileK, "A"
	}
	name = c.unset(matrixType("Workgroup", c.dtype, rows, cols, use), base)
	if st := c.staged[o]; st != nil {
		c.loadStaged(st, name, plus(stage, uintLit(st.base)))
		return name
	}
	t := c.tensors[o]
	if t.plain.Run > 0 {
		c.bindAxis(c.fold, k0)
		c.plan(nil, []kernel.Index{t.plain.Base})
		t.base, k0 = c.coordinate(t.plain.Base), primary("0u")
	}
	origin = plus(origin, uintLit(at))
	tile := c.slice(t.layout, k0, c.s.TileK, origin, extent)
	if t.plain.Along {
		tile = c.slice(t.layout, origin, extent, k0, c.s.TileK)
	}
	if t.plain.Along != isA {
		tile += ", createTensorViewNV(2, false, 1, 0)" // transposed
	}
	c.line("coopMatLoadTensorNV(%s, %s, %s, %s);", name, t.buffer, t.base, tile)
	return name
}

// storeResults writes every store. It stores whole tiles if the results lie in memory as a matrix, and single elements
// otherwise.
func (c *coopMat2) storeResults() {
	c.widenSums()
	var tiles, single []kernel.Store
	for _, s := range c.k.Stores {
		_, _, tile := schedule.TensorStore(c.k, s)
		switch {
		case s.PerElement:
			c.fail("a matrix product has no elements to store besides its results")
			return
		case !tile:
			single = append(single, s)
		case schedule.IntegerTile(c.k, s):
			c.storeTile(s)
		default:
			tiles = append(tiles, s)
		}
	}
	if len(single) > 0 && c.dtype.IsInteger() { // before sums are floats
		c.storeElements(single)
		single = nil
	}
	if len(tiles) > 0 && c.dtype.IsInteger() {
		c.convertSums()
	}
	for _, s := range tiles {
		c.storeTile(s)
	}
	if len(single) > 0 {
		c.storeElements(single)
	}
}

// widenSums converts f16 sums to f32, unless the kernel stores the sums themselves as f16.
func (c *coopMat2) widenSums() {
	asTheyAre := !slices.ContainsFunc(c.k.Stores, func(s kernel.Store) bool {
		_, _, tile := schedule.TensorStore(c.k, s)
		return !tile || s.Value.Kind != kernel.ExprAcc || c.k.Bindings[s.Bind].DType != c.sums
	})
	if c.sums == ir.F16 && !asTheyAre {
		c.convertSums()
	}
}

// convertSums converts the sums to f32.
func (c *coopMat2) convertSums() {
	for i := range c.products {
		c.products[i].sums = syntax.Ident(c.products[i].sums.Text + "_f32")
		for _, at := range c.pieces {
			typ := c.sumsType(ir.F32)
			at.sums[i] = c.variable(typ, at.sums[i].Text+"_f32", call(typ, at.sums[i]))
		}
	}
	c.sums = ir.F32
}

// storeTile writes a tile of results.
func (c *coopMat2) storeTile(s kernel.Store) {
	b := c.buffers[s.Bind]
	base, pitch, _ := schedule.TensorStore(c.k, s)
	c.comment("Store a tile of %s.", b.base)
	values := c.resultTiles(s)
	convert := b.DType != c.sums && !schedule.IntegerTile(c.k, s)
	if convert && b.DType != c.dtype {
		c.needMatrix(b.DType)
	}
	name := c.fresh(c.scope, "layout_"+b.base)
	c.openScope()
	c.declareLayout(name, c.partial(), c.row, c.col, schedule.Plain{Pitch: pitch})
	c.plan(nil, []kernel.Index{base})
	at := c.coordinate(base)
	for i, p := range c.pieces {
		value := values[i]
		if convert {
			value = call(c.sumsType(b.DType), value)
		}
		row, col := c.origin(p)
		c.line("coopMatStoreTensorNV(%s, %s, %s, %s);", value, c.view(b, 1), at,
			c.slice(name, row, c.pieceM, col, c.pieceN))
	}
	c.close()
}

// origin is the first row and column of a piece in the result.
func (c *coopMat2) origin(p piece) (row, col text) {
	return plus(c.row0, uintLit(p.row)), plus(c.col0, uintLit(p.col))
}

// resultTiles returns a store's values as a matrix for each piece: the sums themselves, or the result of a function of
// each element.
func (c *coopMat2) resultTiles(s kernel.Store) []text {
	tiles := make([]text, len(c.pieces))
	if s.Value.Kind == kernel.ExprAcc {
		for i, p := range c.pieces {
			tiles[i] = p.sums[s.Value.Acc]
		}
		return tiles
	}
	b := c.buffers[s.Bind]
	name := c.fresh(c.root, "finish_"+b.base)
	c.perElement(name, func() {
		c.plan([]*kernel.Expr{s.Value}, nil)
		c.line("return %s;", c.coerce(c.computeType(s.Value.DType), "float", c.value(s.Value)))
	})
	for i, p := range c.pieces {
		tiles[i] = c.unset(c.sumsType(ir.F32), numberedName(b.base+"_tile", i, len(c.pieces)))
		c.callPerElement(tiles[i], name, p)
	}
	return tiles
}

// storeElements writes the stores that form no tile.
func (c *coopMat2) storeElements(stores []kernel.Store) {
	name := c.fresh(c.root, "store_elements")
	c.perElement(name, func() {
		c.storeAll(stores)
		c.line("return %s;", c.products[0].sums)
	})
	c.comment("Store element by element.")
	for i, p := range c.pieces {
		c.callPerElement(c.unset(c.sumsType(c.sums), numberedName("stored", i, len(c.pieces))), name, p)
	}
}

// context lists the variables of main that a function of an element needs besides the sums: the piece's origin and the
// batch.
func (c *coopMat2) context(row, col text) []string {
	var names []string
	add := func(origin, t text) {
		if !isNumber(origin) {
			names = append(names, t.String())
		}
	}
	add(c.row0, row)
	add(c.col0, col)
	for axis := range c.row {
		if t, ok := c.root.axes[axis]; ok {
			add(t, t)
		}
	}
	return names
}

// perElement defines a function of an element's sums and of its row and column in the tile. Elements beyond the result
// are unchanged.
func (c *coopMat2) perElement(name string, body func()) {
	params := []string{"const in uint tile_row", "const in uint tile_col"}
	for _, p := range c.products {
		params = append(params, "const in "+matrixElement(c.sums)+" "+p.sums.Text)
	}
	c.defineOver(matrixElement(c.sums), name, params, c.context(c.row0, c.col0), c.row, func() {
		row := c.named("row", plus(c.row0, primary("tile_row")))
		col := c.named("col", plus(c.col0, primary("tile_col")))
		if cond := c.inside(row, col); cond != nil {
			c.line("if (!(%s)) return %s;", cond, c.products[0].sums)
		}
		c.bindAxis(c.row, row)
		c.bindAxis(c.col, col)
		c.bindSums()
		if cond := c.guards(true); cond != nil {
			c.line("if (!(%s)) return %s;", cond, c.products[0].sums)
		}
		body()
	})
}

// bindSums binds the sums of an element. Sums of uint8 operands hold the bits of the signed sums.
func (c *coopMat2) bindSums() {
	for i, p := range c.products {
		if c.sums == ir.U32 {
			c.bindAcc(i, call("int", p.sums))
		} else {
			c.bindAcc(i, p.sums)
		}
	}
	if c.sums != ir.F32 || !c.dtype.IsInteger() {
		return
	}
	kernel.Walk(c.k.Roots(), func(v *kernel.Expr) {
		if schedule.IsFloatSum(v) {
			c.bindValue(v, c.products[v.Args[0].Acc].sums)
		}
	})
}

// callPerElement applies a function of perElement to a piece.
func (c *coopMat2) callPerElement(result text, name string, p piece) {
	args := slices.Concat([]text{result, p.sums[0], syntax.Ident(name)}, p.sums[1:])
	for _, v := range c.context(c.origin(p)) {
		args = append(args, primary(v))
	}
	c.do("coopMatPerElementNV", args...)
}
