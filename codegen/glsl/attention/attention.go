// Package attention writes fused attention: in tiles, for few rows, and on cooperative matrices.
package attention

import (
	"math"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// attention is the state that all attention variants share. A workgroup computes TileM rows. A row is one query of
// one head: Heads heads that share keys, and TileM/Heads queries of each. It steps over the keys, TileN at a time.
// For each row it keeps the largest score so far, the sum of weights and the weighted sum of values. When a larger
// score appears, it rescales both sums.
type attention struct {
	*emit.Emitter
	self   expr.Expr // the invocation's number in the workgroup
	tile   schedule.AttentionTile
	a      *kernel.Attention    // what the kernel computes
	ax     kernel.AttentionAxes // ids of the kernel's axes
	query0 expr.Expr            // the first query of the tile
	width  int                  // elements of a row's result
}

// Numbers of the results that an attention's stores may read (see [kernel.Attention]).
const (
	accTop   = 0 // a row's largest score
	accTotal = 1 // its sum of weights
	accSums  = 2 // an element of its weighted sum of values
)

// newAttention returns the writer of an attention, and sets the grid. After an error it returns nil.
func newAttention(e *emit.Emitter) *attention {
	f := &attention{Emitter: e, self: e.SelfIndex(), tile: schedule.AttentionTileOf(e.Sched), a: e.K.Attention,
		ax: e.K.AttentionAxes(), query0: expr.Of("0u")}
	f.width = int(e.K.Parallel[f.ax.Value].Add)
	if f.tile.Splits > 1 && e.K.Parallel[f.ax.Split].Is(1) {
		e.Fail("the kernel is to be split into %d first", f.tile.Splits)
	}
	g, err := schedule.AttentionGrid(e.K, e.Sched, e.Caps)
	if err != nil {
		e.Fail("%v", err)
		return nil
	}
	f.Grid = g.Grid(e.K)
	// Each dimension of the grid counts the tiles along several axes.
	for dim, factors := range g {
		f.PlaceFactors(dim, factors, f.placeAxis)
	}
	return f
}

// placeAxis binds an axis to the workgroup's coordinate along it. For the axis of queries it sets query0 instead. The
// workgroup has tile number place of count tiles. In a causal attention that is not Reversed, later queries see more
// keys. placeAxis then takes the tiles of queries in reverse order, so that workgroups with more keys begin earlier.
func (f *attention) placeAxis(t schedule.AxisTiles, place, count expr.Expr) {
	extent := f.K.Parallel[t.Axis]
	switch {
	case extent.Is(1): // all indices use coordinate 0
	case t.Axis != f.ax.Query:
		if f.UsesAxis(t.Axis) || t.Axis == f.ax.Split { // keyRange uses the split
			f.BindAxis(t.Axis, f.Variable("uint", f.ParaName(t.Axis), place))
		}
	case extent.Max() > int64(t.Tile):
		if f.a.Causal && !f.a.Reversed {
			place = expr.Binary("-", expr.Binary("-", count, expr.Uint(1)), place)
		}
		f.query0 = f.Variable("uint", "query0", expr.Times(place, t.Tile))
	}
}

// queries is the number of queries of each head in a tile.
func (f *attention) queries() int { return f.tile.Rows / f.tile.Heads }

// queryOf returns the query of a row of the tile. It may be past the last query.
func (f *attention) queryOf(row expr.Expr) expr.Expr {
	return expr.Plus(f.query0, expr.Quotient(row, f.tile.Heads, f.tile.Rows))
}

// bindRow binds the axes of a row of the tile in the open scope. A row past the last query computes the last query
// again; its result is not stored.
func (f *attention) bindRow(row expr.Expr) {
	f.bindRowAt(row, f.Limit(f.queryOf(row), f.K.Parallel[f.ax.Query], f.queries()))
}

// bindRowAt is bindRow for a row with a known query.
func (f *attention) bindRowAt(row, query expr.Expr) {
	if f.K.Parallel[f.ax.Query].Is(1) {
		query = expr.Of("0u")
	}
	f.bindNamed(f.ax.Query, "query", query)
	if f.tile.Heads > 1 {
		f.bindNamed(f.ax.Head, "head", expr.Remainder(row, f.tile.Heads, f.tile.Rows))
	}
}

// bindNamed binds an axis to a coordinate that becomes a variable at its first use.
func (f *attention) bindNamed(axis int, name string, at expr.Expr) {
	if expr.IsPlain(at) {
		f.BindAxis(axis, at)
		return
	}
	f.BindAxisLater(axis, name, at)
}

// seen returns the end of the keys that a query sees, and firstSeen the first of these keys.
func (f *attention) seen(query expr.Expr) expr.Expr      { return f.atQuery(query, f.K.Seen) }
func (f *attention) firstSeen(query expr.Expr) expr.Expr { return f.atQuery(query, f.K.FirstSeen) }

// atQuery returns the GLSL expression of keyOf(query). keyOf, such as K.Seen, maps the coordinate of a query to a key.
func (f *attention) atQuery(query expr.Expr, keyOf func(kernel.Index) kernel.Index) expr.Expr {
	f.OpenScope()
	defer f.Close()
	f.BindAxis(f.ax.Query, query)
	return f.Coordinate(keyOf(kernel.Axis(f.ax.Query, f.K.Parallel[f.ax.Query])))
}

// keyRange declares the first key of the workgroup's split, and the end of the keys in the split that any of the
// workgroup's rows sees. The keys of all splits begin at the last whole step that is not after any row's first key.
func (f *attention) keyRange() (first, end expr.Expr) {
	// The last query of the tile sees the most keys.
	last := expr.Plus(f.query0, expr.Uint(f.queries()-1))
	if queries := f.K.Parallel[f.ax.Query]; queries.Is(1) {
		last = expr.Of("0u")
	} else {
		last = f.Limit(last, queries, f.queries())
	}
	end = f.Named("keys", f.seen(last))
	start := expr.Of("0u")
	if f.K.SkipsFirst() {
		step := expr.Uint(max(f.tile.Step, 1))
		// Rounded down to whole steps. The first query of the tile has the earliest first key.
		start = f.Named("start", expr.Binary("*", expr.Binary("/", f.firstSeen(f.query0), step), step))
	}
	splits := f.K.Parallel[f.ax.Split]
	if splits.Is(1) {
		return start, end
	}
	each := f.splitLength(splits.Add)
	first = f.Variable("uint", "first", expr.Plus(start, expr.Binary("*", f.Axis(f.ax.Split), each)))
	return first, f.Variable("uint", "end", expr.Call("min", end, expr.Binary("+", first, each)))
}

// keyLoop opens the loop over the keys, step keys at a time, and returns the first key of a step. The loop is never
// unrolled: unrolling gains nothing and slows down drivers. lavapipe of Mesa 26.1 even crashes if the loop is unrolled
// and a workgroup executes no iteration.
func (f *attention) keyLoop(first, end expr.Expr, step int) expr.Expr {
	return f.OpenFor(emit.DontUnroll, "key0", first, end, expr.Uint(step))
}

// splitLength returns the number of keys of a split. All splits except the last have whole steps.
func (f *attention) splitLength(splits int64) expr.Expr {
	tile, keys := int64(max(f.tile.Step, 1)), schedule.SplitKeys(f.K, f.tile)
	if keys.IsStatic() {
		each := ceil.Div(keys.Add, splits)
		return expr.Uint(ceil.Multiple(each, tile))
	}
	tiles := expr.Binary("/", f.Dim(keys.Plus(splits*tile-1)), expr.Uint(splits*tile)) // of a split, rounded up
	return f.Variable("uint", "each", expr.Binary("*", tiles, expr.Uint(tile)))
}

// dotAxis is the axis along which Q and K are read four elements at a time, and valueAxis this axis of V.
func (f *attention) dotAxis() emit.Along { return emit.Along{Axis: f.ax.Dot, Extent: f.a.Dot} }
func (f *attention) valueAxis() emit.Along {
	return emit.Along{Axis: f.ax.Value, Extent: ir.D(f.width)}
}

// lowest is the score of a masked key.
func (f *attention) lowest() expr.Expr { return f.FloatLit(math.Inf(-1)) }

// score returns the score of the bound row and key. dot is q·k, before scaling. A key that the row does not see has
// the score -inf.
func (f *attention) score(dot expr.Expr, key expr.Expr, query expr.Expr) expr.Expr {
	s := f.adjusted(expr.Binary("*", dot, f.FloatLit(f.a.Scale)))
	return f.Choose("float", "seen", expr.Binary("<", key, f.seen(query)), s, f.lowest())
}

// adjusted returns a scaled score after the softcap and the mask.
func (f *attention) adjusted(s expr.Expr) expr.Expr {
	if f.a.Softcap != 0 {
		f.Helper("tanh_safe", "float")
		s = expr.Binary("*", expr.Call("tanh_safe", s), f.FloatLit(f.a.Softcap))
	}
	if f.a.Mask != nil {
		s = expr.Binary("+", s, f.AsFloat(f.a.Mask))
	}
	return s
}

// factor returns the factor of the softmax weight of the bound row and key, in an attention that computes a gradient
// (see kernel.AttentionFactor). Weight times factor is the derivative by the score before the softcap. dot is the dot
// product of Q and K, and other the dot product of Factor.Q and Factor.K.
func (f *attention) factor(dot, other expr.Expr) expr.Expr {
	x := expr.Binary("-", other, f.AsFloat(f.a.Factor.Delta))
	if f.a.Softcap != 0 { // times the derivative of the softcap: tanh'(s) = 1 - tanh(s)^2
		f.Helper("tanh_safe", "float")
		tanh := f.Variable("float", "bent", expr.Call("tanh_safe", expr.Binary("*", dot, f.FloatLit(f.a.Scale))))
		x = expr.Binary("*", x, expr.Binary("-", expr.Of("1.0"), expr.Binary("*", tanh, tanh)))
	}
	return x
}

// rebase declares two variables. shift is the new largest score, best. While every key is masked, best is -inf, and
// shift is 0, so that the weights 2^(score - shift) are not NaN. correction = 2^(top - shift) is the factor that
// rescales the sums so far, because these are relative to top, the largest score before.
func (f *attention) rebase(best expr.Expr, top expr.Expr) (shift, correction expr.Expr) {
	shift = f.Variable("float", "shift", expr.Choose(expr.Binary("==", best, f.lowest()), expr.Of("0.0"), best))
	return shift, f.Variable("float", "correction", expr.Call("exp2", expr.Binary("-", top, shift)))
}

// storeOnce writes the stores that happen once per row. Only invocations with isFirst execute them.
func (f *attention) storeOnce(isFirst expr.Expr) {
	if _, perRow := f.SplitStores(); len(perRow) > 0 {
		f.OpenIf(isFirst)
		f.StoreAll(perRow)
		f.Close()
	}
}

// storeQuad stores sum, which is vec4 number quad of a row's result. It leaves out elements past the end of the row.
func (f *attention) storeQuad(quad, sum expr.Expr) {
	stores, _ := f.SplitStores()
	bind := func() { f.BindAcc(accSums, expr.At(sum, emit.Lane)) }
	if f.width%4 == 0 {
		f.RunLanes(emit.Run{Axis: f.ax.Value, Width: 4, Base: expr.Times(quad, 4)}, emit.ValuesOf(stores), stores, bind)
		return
	}
	// The end of the row may be inside the quad, so the elements are stored one by one.
	f.OpenLanes(4)
	col := f.Variable("uint", "col", expr.Flat(quad, 4, emit.Lane))
	f.OpenIf(expr.Binary("<", col, expr.Uint(f.width)))
	f.BindAxis(f.ax.Value, col)
	bind()
	f.StoreAll(stores)
	f.Close()
	f.Close()
}

// ifRow writes a block that runs only if row r of the tile exists. It binds the row's axes there and calls body.
func (f *attention) ifRow(r expr.Expr, body func()) {
	queries := f.K.Parallel[f.ax.Query]
	if !schedule.DivisibleBy(queries, f.queries()) {
		f.OpenIf(expr.Binary("<", f.queryOf(r), f.Dim(queries)))
		defer f.Close()
	}
	f.bindRowAt(r, f.queryOf(r))
	body()
}

// flashRows is an invocation's share of the tile's rows: some rows, and of each row the parts that this lane computes.
type flashRows struct {
	*attention
	lane  expr.Expr // the invocation's number among the lanes of a row
	lanes int       // number of lanes of a row
	rows  int       // number of rows of an invocation
	keys  int       // number of keys of an invocation in a step
	quads int       // number of vec4 of a row's result in an invocation

	top, total expr.Array // by row: the largest score so far, and the sum of weights
	sums       expr.Array // by row and vec4: the weighted sum of values
	score      expr.Array // by row and key
}

// sum returns the n-th vec4 of row i's weighted sum, and scoreAt the score of row i and key j. i, j and n count the
// rows, keys and vec4s of the invocation.
func (f *flashRows) sum(i, n expr.Expr) expr.Expr     { return f.sums.At(expr.Flat(i, f.quads, n)) }
func (f *flashRows) scoreAt(i, j expr.Expr) expr.Expr { return f.score.At(expr.Flat(i, f.keys, j)) }

// column is the position, in vec4, of an invocation's n-th vector in a row.
func (f *flashRows) column(n expr.Expr) expr.Expr { return expr.Plus(f.lane, expr.Times(n, f.lanes)) }

// begin initializes the sums of row i before the first key.
func (f *flashRows) begin(i expr.Expr) {
	f.Assign(f.top.At(i), f.lowest())
	f.Assign(f.total.At(i), expr.Of("0.0"))
	f.Repeat("n", f.quads, func(n expr.Expr) { f.Assign(f.sum(i, n), expr.Of("vec4(0.0)")) })
}

// rescale multiplies the sums of row i by a correction.
func (f *flashRows) rescale(i, correction expr.Expr) {
	f.Update(f.total.At(i), "*=", correction)
	f.Repeat("n", f.quads, func(n expr.Expr) { f.Update(f.sum(i, n), "*=", correction) })
}

// storeOwn stores the invocation's row i, if it exists. `row` is the number of that row in the tile. Lane 0 writes the
// stores that happen once per row. Each lane stores its vec4s of the result, except vec4s past the row's end.
func (f *flashRows) storeOwn(i, row expr.Expr) {
	f.ifRow(row, func() {
		f.BindAcc(accTop, f.top.At(i))
		f.BindAcc(accTotal, f.total.At(i))
		f.storeOnce(expr.Binary("==", f.lane, expr.Of("0u")))
		f.Repeat("n", f.quads, func(n expr.Expr) {
			at := f.Named("quad", f.column(n))
			if all := schedule.ValueQuads(f.width); all < f.lanes*f.quads { // some lanes have quads past the end
				f.OpenIf(expr.Binary("<", at, expr.Uint(all)))
				defer f.Close()
			}
			f.storeQuad(at, f.sum(i, n))
		})
	})
}
