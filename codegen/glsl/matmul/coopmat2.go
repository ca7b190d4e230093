package matmul

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// coopMat2 is a matmul on cooperative matrices of workgroup scope. If an operand is a plain matrix in memory, the
// driver loads it by tensor addressing: a tensor layout gives the operand's address and strides and, if a tile may be
// partial, says that elements beyond the ends are 0. Other operands pass through shared memory.
type coopMat2 struct {
	*staging
	s       kernel.CoopMat2
	tensors map[*Operand]*tensor
	staged  map[*Operand]*staged
	pieces  []piece
	pieceM  int // rows of a piece
	pieceN  int // columns of a piece
}

// piece is a part of the tile that has its sums in a separate matrix.
type piece struct {
	row, col int         // its first row and column in the tile
	sums     []expr.Expr // one for each matmul
}

// tensor is an operand that the driver loads by tensor addressing.
type tensor struct {
	layout string    // the name of the GLSL tensor layout
	buffer string    // the name of the array
	base   expr.Expr // position of element (0, 0); each step recomputes it if the operand is contiguous only in runs
	plain  schedule.Plain
}

// EmitCoopMat2 writes a matmul on cooperative matrices of workgroup scope.
func EmitCoopMat2(e *emit.Emitter) {
	s := e.Sched.(kernel.CoopMat2)
	m := New(e, s.Tile, s.Band)
	if e.Err != nil {
		return
	}
	e.Need(emit.NeedCoopMat, emit.NeedCoopMat2, emit.NeedMemoryModel, emit.NeedMaintenance4)
	c := &coopMat2{staging: m.newStaging(expr.Of("gl_LocalInvocationIndex")), s: s,
		tensors: map[*Operand]*tensor{}, staged: map[*Operand]*staged{}}
	// Bf16 lies in buffers as 16-bit integers.
	if slices.ContainsFunc(e.K.Bindings, func(b kernel.Binding) bool { return b.DType == ir.BF16 }) {
		e.Need(emit.NeedInt16)
	}
	for _, st := range c.operands {
		c.staged[st.Operand] = st
	}
	for _, o := range slices.Concat(c.A, c.B) {
		if c.staged[o] == nil {
			c.tensors[o] = c.operandTensor(o)
		}
	}
	c.declareSums()
	c.accumulate()
	c.storeResults()
}

// sumsType is the GLSL type of a piece's sums, with elements of dtype t.
func (c *coopMat2) sumsType(t ir.DType) string {
	return emit.MatrixType("Workgroup", t, c.pieceM, c.pieceN, "Accumulator")
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
	c.nameOrigin(&c.Row0, "row0", down)
	c.nameOrigin(&c.Col0, "col0", across)
	for i, p := range c.K.MatMuls {
		c.MatMuls[i].Sums.Name = syntax.Ident(c.Fresh(c.Scope, p.Name))
		for n := range c.pieces {
			name := c.MatMuls[i].Sums.Name
			if len(c.pieces) > 1 {
				name = syntax.Ident(c.Fresh(c.Scope, Numbered(name.Text, n, len(c.pieces))))
			}
			c.pieces[n].sums = append(c.pieces[n].sums, name)
			typ := c.sumsType(c.sums)
			c.Variables(typ, syntax.Var{Name: name.Text, Init: expr.Call(typ, c.Quads.Zero)})
		}
	}
}

// nameOrigin makes the tile's first row or column, *at, a variable if it is a constant and there are several pieces.
// Functions of elements then take it as a parameter, which differs between pieces.
func (c *coopMat2) nameOrigin(at *expr.Expr, name string, pieces int) {
	if pieces > 1 && expr.IsNumber(*at) {
		*at = c.Variable("uint", name, *at)
	}
}

// operandTensor declares the tensor layout of an operand.
func (c *coopMat2) operandTensor(o *Operand) *tensor {
	p, ok := schedule.PlainOperand(c.K, o.Value, o.axis, c.dtype)
	if !ok {
		c.Fail("operand %s is not loaded as it lies in memory", o.Name)
		return &tensor{}
	}
	t := &tensor{plain: p, layout: c.Fresh(c.Scope, "layout_"+o.Name), buffer: c.View(c.Buffers[p.Load.Bind], 1)}
	outer, inner := c.Fold, o.axis
	if p.Along {
		outer, inner = inner, outer
	}
	clamp := schedule.EdgeOf(c.K, c.s.Variant, c.Tile, o.axis) == schedule.EdgeClamped ||
		schedule.EdgeOf(c.K, c.s.Variant, c.Tile, c.Fold) == schedule.EdgeClamped
	c.declareLayout(t.layout, clamp, outer, inner, p)
	if p.Run > 0 { // load computes the base of each step
		return t
	}
	t.base = c.EvalCoordinate(p.Base)
	return t
}

// mayExceed reports whether some tile may extend beyond an axis of the result.
func (m *Base) mayExceed(axis int) bool {
	e := schedule.EdgeOf(m.K, m.Launch.Variant, m.Tile, axis)
	return e == schedule.EdgeOverread || e == schedule.EdgeClamped
}

// declareLayout declares the tensor layout of an operand or result; the inner axis has stride 1. With clamp, elements
// beyond the ends are read as 0 and not written. For an operand that is contiguous in runs only, the layout covers one
// step along the contraction axis.
func (c *coopMat2) declareLayout(name string, clamp bool, outer, inner int, p schedule.Plain) {
	mode := "gl_CooperativeMatrixClampModeUndefinedNV"
	if clamp {
		mode = "gl_CooperativeMatrixClampModeConstantNV"
	}
	c.Variables("tensorLayoutNV<2, "+mode+">",
		syntax.Var{Name: name, Init: expr.Call("createTensorLayoutNV", expr.Int(2), expr.Of(mode))})
	sizes := [2]expr.Expr{c.Dim(c.extent(outer)), c.Dim(c.extent(inner))}
	ownStride := false // whether the layout's inner size differs from the operand's inner extent
	for i, axis := range []int{outer, inner} {
		// Tiles may read past the end, where the buffer has other elements.
		if !clamp && schedule.EdgeOf(c.K, c.s.Variant, c.Tile, axis) == schedule.EdgeOverread {
			sizes[i] = expr.Uint(schedule.WholeTiles(c.K, c.Tile, axis))
			ownStride = ownStride || axis == inner
		}
	}
	if p.Run > 0 {
		sizes[1], ownStride = expr.Uint(c.s.TileK), true
	}
	layout := expr.Of(name)
	c.Assign(layout, expr.Call("setTensorLayoutDimensionNV", layout, sizes[0], sizes[1]))
	if (ownStride || !p.Pitch.Equal(kernel.DimIndex(c.extent(inner)))) && !c.extent(outer).Is(1) {
		c.Assign(layout, expr.Call("setTensorLayoutStrideNV", layout, c.Coordinate(p.Pitch), expr.Of("1u")))
	}
}

// slice returns the named layout, limited to one tile: outerTile rows from row outer on, and innerTile columns from
// column inner on.
func (c *coopMat2) slice(name string, outer expr.Expr, outerTile int, inner expr.Expr, innerTile int) expr.Expr {
	return expr.Call("sliceTensorLayoutNV", expr.Of(name), outer, expr.Uint(outerTile), inner, expr.Uint(innerTile))
}

// accumulate writes the loop along the contraction axis.
func (c *coopMat2) accumulate() {
	switch {
	case len(c.operands) > 0:
		c.Blank()
		c.stagedLoop(c.step)
	case c.s.Unroll > 0:
		c.Blank()
		c.unrolledSteps()
	default:
		k0 := c.OpenLoop("k0", expr.Of("0u"), c.depth(), c.s.TileK)
		c.step(k0, nil)
		c.Close()
	}
}

// depth returns the extent of the contraction axis. With HideSteps, it returns an expression that the compiler cannot
// evaluate, so that it does not unroll the loop (M-hidden-steps).
func (c *coopMat2) depth() expr.Expr {
	depth := c.Dim(c.K.Fold)
	if !c.s.HideSteps {
		c.Blank()
		return depth
	}
	c.Comment("The number of steps is hidden from the compiler, which would unroll them by 8 and run out of registers.")
	depth = &syntax.Expr{Op: syntax.Ternary, Args: []expr.Expr{expr.Of("gl_NumWorkGroups.x > 0u"), depth,
		expr.Of("0u")}}
	return c.Variable("uint", "depth", depth)
}

// unrolledSteps writes a loop along the contraction axis with Unroll steps in its body.
func (c *coopMat2) unrolledSteps() {
	first := c.OpenFor(emit.DontUnroll, "first", expr.Of("0u"), c.Dim(c.K.Fold), expr.Uint(c.s.Unroll*c.s.TileK))
	c.Repeat("n", c.s.Unroll, func(n expr.Expr) {
		c.step(c.Variable("uint", "k0", expr.Plus(first, expr.Times(n, c.s.TileK))), nil)
	})
	c.Close()
}

// step multiplies one tile of each operand, which begins at k0 along the contraction axis. stage is the index of the
// tiles in shared memory, or nil if no operand is there. step first loads one side completely: the columns if the rows
// have several pieces, and otherwise the rows. Then it loads the other side piece by piece, and multiplies each piece
// while the next one loads.
func (c *coopMat2) step(k0 expr.Expr, stage expr.Expr) {
	down, across := c.s.Pieces()
	rows, cols := pieceSide{c.A, down, c.pieceM}, pieceSide{c.B, across, c.pieceN}
	first, then := rows, cols
	if down > 1 {
		first, then = cols, rows
	}
	tiles := map[*Operand][]expr.Expr{}
	for i := range first.count {
		c.loadPiece(first, i, tiles, k0, stage)
	}
	for i := range then.count {
		c.loadPiece(then, i, tiles, k0, stage)
		for _, at := range c.pieces {
			row, col := at.row/c.pieceM, at.col/c.pieceN
			if down > 1 && row != i || down == 1 && col != i { // the piece needs another part of the side `then`
				continue
			}
			for n, p := range c.MatMuls {
				c.MultiplyAdd(at.sums[n], tiles[p.A][row], tiles[p.B][col])
			}
		}
	}
}

// pieceSide is one side of the matmuls, rows or columns, with its operands and the number of their pieces.
type pieceSide struct {
	operands []*Operand
	count    int
	extent   int // rows or columns per piece
}

// loadPiece loads piece i of the operands of a side, and appends them to tiles.
func (c *coopMat2) loadPiece(s pieceSide, i int, tiles map[*Operand][]expr.Expr, k0, stage expr.Expr) {
	for _, o := range s.operands {
		tiles[o] = append(tiles[o], c.load(o, Numbered("tile_"+o.Name, i, s.count), k0, stage, i*s.extent, s.extent))
	}
}

// load loads a part of an operand's tile: extent rows of an A or columns of a B, beginning at number at of the tile. It
// returns the matrix, which is named after base.
func (c *coopMat2) load(o *Operand, base string, k0, stage expr.Expr, at, extent int) (name expr.Expr) {
	isA := o.axis == c.Row
	origin, rows, cols, use := c.Col0, c.s.TileK, extent, "B"
	if isA {
		origin, rows, cols, use = c.Row0, extent, c.s.TileK, "A"
	}
	name = c.Unset(emit.MatrixType("Workgroup", c.dtype, rows, cols, use), base)
	if st := c.staged[o]; st != nil {
		c.loadStaged(st, name, expr.Plus(stage, expr.Uint(st.base)))
		return name
	}
	t := c.tensors[o]
	if t.plain.Run > 0 {
		c.BindAxis(c.Fold, k0)
		t.base, k0 = c.EvalCoordinate(t.plain.Base), expr.Of("0u")
	}
	origin = expr.Plus(origin, expr.Uint(at))
	tile := c.slice(t.layout, k0, c.s.TileK, origin, extent)
	if t.plain.Along {
		tile = c.slice(t.layout, origin, extent, k0, c.s.TileK)
	}
	args := []expr.Expr{name, expr.Of(t.buffer), t.base, tile}
	if t.plain.Along != isA {
		args = append(args, expr.Of("createTensorViewNV(2, false, 1, 0)")) // transposed
	}
	c.Do("coopMatLoadTensorNV", args...)
	return name
}

// storeResults writes every store: a tile at a time if the results are a matrix in memory, and otherwise element by
// element. Stores that need integer sums come before convertSums makes them floats.
func (c *coopMat2) storeResults() {
	c.widenSums()
	var tiles, single []kernel.Store
	for _, s := range c.K.Stores {
		_, _, tile := schedule.TensorStore(c.K, s)
		switch {
		case !tile:
			single = append(single, s)
		case schedule.IntegerTile(c.K, s):
			c.storeTile(s)
		default:
			tiles = append(tiles, s)
		}
	}
	if len(single) > 0 && c.dtype.IsInteger() {
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

// widenSums converts f16 sums to f32, unless the kernel stores the sums unchanged as f16.
func (c *coopMat2) widenSums() {
	convert := slices.ContainsFunc(c.K.Stores, func(s kernel.Store) bool {
		_, _, tile := schedule.TensorStore(c.K, s)
		return !tile || s.Value.Kind != kernel.ExprAcc || c.K.Bindings[s.Bind].DType != c.sums
	})
	if c.sums == ir.F16 && convert {
		c.convertSums()
	}
}

// convertSums converts the sums to f32.
func (c *coopMat2) convertSums() {
	for i := range c.MatMuls {
		c.MatMuls[i].Sums.Name = syntax.Ident(c.MatMuls[i].Sums.Name.Text + "_f32")
		for _, at := range c.pieces {
			typ := c.sumsType(ir.F32)
			at.sums[i] = c.Variable(typ, at.sums[i].Text+"_f32", expr.Call(typ, at.sums[i]))
		}
	}
	c.sums = ir.F32
}

// storeTile writes the code that stores the workgroup's tile of results by store s, converted to the buffer's dtype.
func (c *coopMat2) storeTile(s kernel.Store) {
	b := c.Buffers[s.Bind]
	base, pitch, _ := schedule.TensorStore(c.K, s)
	c.Comment("Store a tile of %s.", b.Base)
	values := c.resultTiles(s)
	convert := b.DType != c.sums && !schedule.IntegerTile(c.K, s)
	if convert && b.DType != c.dtype {
		c.NeedMatrix(b.DType)
	}
	name := c.Fresh(c.Scope, "layout_"+b.Base)
	c.OpenScope()
	c.declareLayout(name, c.mayExceed(c.Row) || c.mayExceed(c.Col), c.Row, c.Col, schedule.Plain{Pitch: pitch})
	at := c.EvalCoordinate(base)
	for i, p := range c.pieces {
		value := values[i]
		if convert {
			value = expr.Call(c.sumsType(b.DType), value)
		}
		row, col := c.origin(p)
		c.Do("coopMatStoreTensorNV", value, expr.Of(c.View(b, 1)), at, c.slice(name, row, c.pieceM, col, c.pieceN))
	}
	c.Close()
}

// origin is the first row and column of a piece in the result.
func (c *coopMat2) origin(p piece) (row, col expr.Expr) {
	return expr.Plus(c.Row0, expr.Uint(p.row)), expr.Plus(c.Col0, expr.Uint(p.col))
}

// resultTiles returns the values of a store, as a matrix per piece: the sums themselves, or the results of a function
// that is applied to each element.
func (c *coopMat2) resultTiles(s kernel.Store) []expr.Expr {
	tiles := make([]expr.Expr, len(c.pieces))
	if s.Value.Kind == kernel.ExprAcc { // stores a sum unchanged
		for i, p := range c.pieces {
			tiles[i] = p.sums[s.Value.Acc]
		}
		return tiles
	}
	b := c.Buffers[s.Bind]
	name := c.Fresh(c.Root, "finish_"+b.Base)
	c.definePerElement(name, func() {
		c.Return(c.AsFloat(s.Value))
	})
	for i, p := range c.pieces {
		tiles[i] = c.Unset(c.sumsType(ir.F32), Numbered(b.Base+"_tile", i, len(c.pieces)))
		c.callPerElement(tiles[i], name, p)
	}
	return tiles
}

// storeElements writes the stores that cannot store a tile at a time.
func (c *coopMat2) storeElements(stores []kernel.Store) {
	name := c.Fresh(c.Root, "store_elements")
	c.definePerElement(name, func() {
		c.StoreAll(stores)
		c.Return(c.MatMuls[0].Sums.Name)
	})
	c.Comment("Store element by element.")
	for i, p := range c.pieces {
		c.callPerElement(c.Unset(c.sumsType(c.sums), Numbered("stored", i, len(c.pieces))), name, p)
	}
}

// definePerElement defines a GLSL function that body writes. Its parameters are the sums of an element, and the
// element's row and column in the tile. It returns elements beyond the result unchanged.
func (c *coopMat2) definePerElement(name string, body func()) {
	params := []string{"const in uint tile_row", "const in uint tile_col"}
	for _, p := range c.MatMuls {
		params = append(params, "const in "+emit.MatrixElement(c.sums)+" "+p.Sums.Name.Text)
	}
	captured := c.Captured(c.Row, c.Row0, c.Col0)
	c.DefineOver(emit.MatrixElement(c.sums), name, params, c.Row, captured, func() {
		row := c.Named("row", expr.Plus(c.Row0, expr.Of("tile_row")))
		col := c.Named("col", expr.Plus(c.Col0, expr.Of("tile_col")))
		if cond := c.inside(row, col); cond != nil {
			// Elements beyond the result must not load anything.
			c.When(expr.Unary("!", cond), &syntax.Return{X: c.MatMuls[0].Sums.Name})
		}
		c.BindAxis(c.Row, row)
		c.BindAxis(c.Col, col)
		c.bindSums()
		if cond := c.guards(); cond != nil {
			c.When(expr.Unary("!", cond), &syntax.Return{X: c.MatMuls[0].Sums.Name})
		}
		body()
	})
}

// bindSums makes the arguments of the per-element callback the results of the kernel's matmuls. Cooperative matrices of
// uint8 operands have sums of type uint, with the same bits as the signed sums.
func (c *coopMat2) bindSums() {
	for i, p := range c.MatMuls {
		if c.sums == ir.U32 {
			c.BindAcc(i, expr.Call("int", p.Sums.Name))
		} else {
			c.BindAcc(i, p.Sums.Name)
		}
	}
	if c.sums != ir.F32 || !c.dtype.IsInteger() {
		return
	}
	// The sums are floats already, so a cast of a sum to f32 is the sum itself.
	kernel.Walk(c.K.Roots(), func(v *kernel.Expr) {
		if schedule.IsFloatSum(v) {
			c.BindValue(v, c.MatMuls[v.Args[0].Acc].Sums.Name)
		}
	})
}

// callPerElement applies a function that perElement defined to all elements of a piece.
func (c *coopMat2) callPerElement(result expr.Expr, name string, p piece) {
	row, col := c.origin(p)
	args := slices.Concat([]expr.Expr{result, p.sums[0], syntax.Ident(name)}, p.sums[1:], c.Captured(c.Row, row, col))
	c.Do("coopMatPerElementNV", args...)
}
