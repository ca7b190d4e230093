package glsl

import (
	"math"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// attention holds the state that all attention variants share. A workgroup computes TileM rows: TileM/Heads queries of
// Heads heads that share keys. It steps over the keys, TileN at a time. It keeps the largest score so far, the sum of
// weights and the weighted sum of values. When a larger score turns up, it rescales both sums.
type attention struct {
	*emitter
	s      kernel.Schedule
	a      *kernel.Attention
	ax     kernel.AttentionAxes
	query0 text // the first query of the tile
	width  int  // elements of a row's result
}

func newAttention(e *emitter) *attention {
	f := &attention{emitter: e, s: e.sched, a: e.k.Attention, ax: e.k.AttentionAxes(), query0: primary("0u")}
	f.width = int(e.k.Parallel[f.ax.Value].Add)
	if f.s.Splits > 1 && e.k.Parallel[f.ax.Split].Is(1) {
		e.fail("the kernel is to be split into %d first", f.s.Splits)
	}
	g, err := schedule.AttentionGrid(e.k, e.sched, e.caps)
	if err != nil {
		e.fail("%v", err)
		return nil
	}
	f.grid = g.Grid(e.k)
	for dim, factors := range g {
		f.placeFactors(dim, factors, f.placeAxis)
	}
	return f
}

// placeAxis places the workgroup along one axis. The longest rows begin first: these are the last queries of a causal
// attention, or the first of a reversed one.
func (f *attention) placeAxis(t schedule.AxisTiles, place, count text) {
	extent := f.k.Parallel[t.Axis]
	switch {
	case extent.Is(1):
	case t.Axis != f.ax.Query:
		if f.usesAxis(t.Axis) || t.Axis == f.ax.Split {
			f.bindAxis(t.Axis, f.variable("uint", f.paraName(t.Axis), place))
		}
	case extent.Max() > int64(t.Tile):
		if f.a.Causal && !f.a.Reversed {
			place = binary("-", binary("-", count, uintLit(1)), place)
		}
		f.query0 = f.variable("uint", "query0", times(place, t.Tile))
	}
}

// queries is the number of queries of a head in a tile.
func (f *attention) queries() int { return f.s.TileM / f.s.Heads }

// queryOf prints the query of a row of the tile, which may be past the last.
func (f *attention) queryOf(row text) text {
	return plus(f.query0, quotient(row, f.s.Heads, f.s.TileM))
}

// bindRow binds the axes of a row of the tile in the open scope. A row past the last query computes the last one again;
// its result is not stored.
func (f *attention) bindRow(row text) {
	f.bindRowAt(row, f.limit(f.queryOf(row), f.k.Parallel[f.ax.Query], f.queries()))
}

// bindRowAt is bindRow for a known query.
func (f *attention) bindRowAt(row, query text) {
	if f.k.Parallel[f.ax.Query].Is(1) {
		query = primary("0u")
	}
	f.bindNamed(f.ax.Query, "query", query)
	if f.s.Heads > 1 {
		f.bindNamed(f.ax.Head, "head", remainder(row, f.s.Heads, f.s.TileM))
	}
}

// bindNamed binds an axis to a coordinate that becomes a variable at its first use.
func (f *attention) bindNamed(axis int, name string, at text) {
	if isPlain(at) {
		f.bindAxis(axis, at)
		return
	}
	f.bindAxisLater(axis, name, at)
}

// seen prints the number of keys that a query sees.
func (f *attention) seen(query text) text {
	f.openScope()
	defer f.close()
	f.bindAxis(f.ax.Query, query)
	return f.coordinate(f.k.Seen(kernel.Axis(f.ax.Query, f.k.Parallel[f.ax.Query])))
}

// firstSeen prints the first key that a query sees.
func (f *attention) firstSeen(query text) text {
	f.openScope()
	defer f.close()
	f.bindAxis(f.ax.Query, query)
	return f.coordinate(f.k.FirstSeen(kernel.Axis(f.ax.Query, f.k.Parallel[f.ax.Query])))
}

// keyRange declares the first key of the workgroup's split, and the end of the keys that any of its rows sees. It skips
// whole steps of keys that lie before every row's window.
func (f *attention) keyRange() (first, end text) {
	last := plus(f.query0, uintLit(f.queries()-1))
	if queries := f.k.Parallel[f.ax.Query]; queries.Is(1) {
		last = primary("0u")
	} else {
		last = f.limit(last, queries, f.queries())
	}
	end = f.seen(last)
	end = f.named("keys", end)
	start := primary("0u")
	if f.k.SkipsFirst() {
		step := uintLit(max(schedule.AttentionStep(f.s), 1))
		start = f.named("start", binary("*", binary("/", f.firstSeen(f.query0), step), step))
	}
	splits := f.k.Parallel[f.ax.Split]
	if splits.Is(1) {
		return start, end
	}
	each := f.splitLength(splits.Add)
	first = f.variable("uint", "first", plus(start, binary("*", f.axis(f.ax.Split), each)))
	return first, f.variable("uint", "end", call("min", end, binary("+", first, each)))
}

// keyLoop opens the loop over the keys, step at a time, and returns the first key of a step. The loop is never
// unrolled: that gains nothing and makes drivers slow. Lavapipe of Mesa 26.1 even crashes if a workgroup then has no
// step at all.
func (f *attention) keyLoop(first, end text, step int) text {
	return f.openFor(dontUnroll, "key0", first, end, uintLit(step))
}

// splitLength prints the number of keys of a split. Every split but the last has whole steps.
func (f *attention) splitLength(splits int64) text {
	tile, keys := int64(max(schedule.AttentionStep(f.s), 1)), schedule.SplitKeys(f.k, f.s)
	if keys.IsStatic() {
		each := (keys.Add + splits - 1) / splits
		return uintLit((each + tile - 1) / tile * tile)
	}
	tiles := binary("/", f.dim(keys.Plus(splits*tile-1)), uintLit(splits*tile))
	return f.variable("uint", "each", binary("*", tiles, uintLit(tile)))
}

// dotAxis and valueAxis are the axes along which operands are read four elements at a time.
func (f *attention) dotAxis() along   { return along{f.ax.Dot, f.a.Dot} }
func (f *attention) valueAxis() along { return along{f.ax.Value, ir.D(f.width)} }

// factorAxis is the contraction axis of the factor, for an attention with a factor.
func (f *attention) factorAxis() along { return along{f.ax.Factor, f.a.Factor.Dot} }

// lowest is the score of a masked key.
func (f *attention) lowest() text { return f.floatLit(math.Inf(-1)) }

// score prints the score of a key for the bound row. dot is the raw score q·k; the key must be bound too. A key
// that the row does not see scores -inf.
func (f *attention) score(dot text, key text, query text) text {
	s := f.adjusted(binary("*", dot, f.floatLit(f.a.Scale)))
	return f.choose("float", "seen", binary("<", key, f.seen(query)), s, f.lowest())
}

// adjusted prints a scaled raw score after the softcap and the mask.
func (f *attention) adjusted(s text) text {
	if f.a.Softcap != 0 {
		f.helper("tanh_safe", "float")
		s = binary("*", call("tanh_safe", s), f.floatLit(f.a.Softcap))
	}
	if f.a.Mask != nil {
		s = binary("+", s, f.asFloat(f.a.Mask))
	}
	return s
}

// factor prints the factor of the weight of the bound row and key. dot is the raw score, and other is the q·k of the
// factor.
func (f *attention) factor(dot, other text) text {
	x := binary("-", other, f.asFloat(f.a.Factor.Less))
	if f.a.Softcap != 0 {
		f.helper("tanh_safe", "float")
		bent := f.variable("float", "bent", call("tanh_safe", binary("*", dot, f.floatLit(f.a.Scale))))
		x = binary("*", x, binary("-", primary("1.0"), binary("*", bent, bent)))
	}
	return x
}

// rebase declares shift, the value that weights are relative to when best is the largest score, and correction, which
// rescales sums that are relative to top. While every key is masked, any finite shift will do.
func (f *attention) rebase(best text, top text) (shift, correction text) {
	shift = f.variable("float", "shift", ternary(binary("==", best, f.lowest()), primary("0.0"), best))
	return shift, f.variable("float", "correction", call("exp2", binary("-", top, shift)))
}

// storeRow writes the stores of one row. first is the condition for storing the values that a row has once. lanes lanes
// share the row; each stores quads vectors of the result, at column(n), if they exist.
func (f *attention) storeRow(first text, lanes, quads int, column func(n text) text, sum func(n text) text) {
	f.storeOnce(first)
	f.repeat("n", quads, func(n text) {
		at := f.named("quad", column(n))
		if all := schedule.ValueQuads(f.width); all < lanes*quads {
			f.openIf(binary("<", at, uintLit(all)))
			defer f.close()
		}
		f.storeQuad(at, sum(n))
	})
}

// storeOnce writes the stores that happen once per row, under the condition first.
func (f *attention) storeOnce(first text) {
	var stores []kernel.Store
	for _, s := range f.k.Stores {
		if !s.PerElement {
			stores = append(stores, s)
		}
	}
	if len(stores) > 0 {
		f.openIf(first)
		f.storeAll(stores)
		f.close()
	}
}

// storeQuad stores four neighbours of a row's result, as far as they exist.
func (f *attention) storeQuad(quad, sum text) {
	var stores []kernel.Store
	var roots []*kernel.Expr
	for _, s := range f.k.Stores {
		if s.PerElement {
			stores, roots = append(stores, s), append(roots, s.Value)
		}
	}
	bind := func() { f.bindAcc(2, elementAt(sum, lane)) }
	if f.width%4 == 0 {
		f.lanes(f.ax.Value, 4, times(quad, 4), roots, stores, bind)
		return
	}
	f.openLanes(4)
	col := f.variable("uint", "col", plus(times(quad, 4), lane))
	f.openIf(binary("<", col, uintLit(f.width)))
	f.bindAxis(f.ax.Value, col)
	bind()
	f.storeAll(stores)
	f.close()
	f.close()
}

// ifRow writes body for a row of the tile, if the row exists.
func (f *attention) ifRow(r text, body func()) {
	queries := f.k.Parallel[f.ax.Query]
	if !schedule.DivisibleBy(queries, f.queries()) {
		f.openIf(binary("<", f.queryOf(r), f.dim(queries)))
		defer f.close()
	}
	f.bindRowAt(r, f.queryOf(r))
	body()
}

// flashRows holds an invocation's share of its rows. Several lanes share a row.
type flashRows struct {
	*attention
	self  text
	lane  text // which of the lanes of a row
	lanes int
	quads int // vectors of a row's result in an invocation
	// Arrays by row: the largest score, the sum of weights, the weighted sums. score is by row and key.
	top, total, sums, score text
}

func (f *flashRows) at(array text, i text) text { return elementOf(array, f.s.ThreadM, i) }

func (f *flashRows) sum(i, n text) text {
	return elementOf(f.sums, f.s.ThreadM*f.quads, plus(times(i, f.quads), n))
}

func (f *flashRows) scoreAt(i, j text) text {
	return elementOf(f.score, f.s.ThreadM*f.s.ThreadN, plus(times(i, f.s.ThreadN), j))
}

// column is the column of an invocation's vector n of a row.
func (f *flashRows) column(n text) text { return plus(f.lane, times(n, f.lanes)) }

// begin initializes row i before the first key.
func (f *flashRows) begin(i text) {
	f.assign(f.at(f.top, i), f.lowest())
	f.assign(f.at(f.total, i), primary("0.0"))
	f.repeat("n", f.quads, func(n text) { f.assign(f.sum(i, n), primary("vec4(0.0)")) })
}

// storeOwn stores row i of the invocation, which is the given row of the tile, if it exists.
func (f *flashRows) storeOwn(i, row text) {
	f.ifRow(row, func() {
		f.bindAcc(0, f.at(f.top, i))
		f.bindAcc(1, f.at(f.total, i))
		f.storeRow(binary("==", f.lane, primary("0u")), f.lanes, f.quads, f.column, func(n text) text {
			return f.sum(i, n)
		})
	})
}
