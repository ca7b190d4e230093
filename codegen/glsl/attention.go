package glsl

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// attention is what the variants of an attention share: a workgroup computes
// TileM rows, which are TileM/Heads queries of Heads heads that share keys, and
// goes over the keys TileN at a time. It keeps the largest score so far, the
// sum of weights and the weighted sum of values; when a larger score turns up,
// both sums are corrected to it.
type attention struct {
	*emitter
	s      kernel.Schedule
	a      *kernel.Attention
	ax     kernel.AttentionAxes
	query0 text // the first query of the tile
	width  int  // elements of a row's result
}

func (e *emitter) newAttention() *attention {
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

// placeAxis places the workgroup along one axis. The last queries of a causal
// attention see most keys, or the first of a reversed one: they begin first.
func (f *attention) placeAxis(t schedule.AxisTiles, place, count text) {
	extent := f.k.Parallel[t.Axis]
	switch {
	case extent.Is(1):
	case t.Axis != f.ax.Query:
		if f.usesAxis(t.Axis) || t.Axis == f.ax.Split {
			f.bindAxis(t.Axis, primary(f.variable("uint", f.paraName(t.Axis), place)))
		}
	case extent.Max() > int64(t.Tile):
		if f.a.Causal && !f.a.Reversed {
			place = binary("-", binary("-", count, uintLit(1)), place)
		}
		f.query0 = primary(f.variable("uint", "query0", times(place, t.Tile)))
	}
}

// queries is how many queries of a head a tile has.
func (f *attention) queries() int { return f.s.TileM / f.s.Heads }

// queryOf prints the query of a row of the tile, which may be past the last.
func (f *attention) queryOf(row text) text {
	return plus(f.query0, quotient(row, f.s.Heads, f.s.TileM))
}

// bindRow says in the open scope what the axes of a row of the tile are. A row
// past the last query computes the last one again; it is not stored.
func (f *attention) bindRow(row text) {
	f.bindRowAt(row, f.limit(f.queryOf(row), f.k.Parallel[f.ax.Query], f.queries()))
}

// bindRowAt is bindRow for a row whose query is known.
func (f *attention) bindRowAt(row, query text) {
	if f.k.Parallel[f.ax.Query].Is(1) {
		query = primary("0u")
	}
	f.bindNamed(f.ax.Query, "query", query)
	if f.s.Heads > 1 {
		f.bindNamed(f.ax.Head, "head", remainder(row, f.s.Heads, f.s.TileM))
	}
}

// bindNamed binds an axis to a coordinate that gets a name when it is used.
func (f *attention) bindNamed(axis int, name string, at text) {
	if isPlain(at) {
		f.bindAxis(axis, at)
		return
	}
	f.bindAxisLater(axis, name, at)
}

// seen prints how many keys a query sees.
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

// keyRange declares the first key of the workgroup's split and the end of the
// keys that any of its rows sees. Keys before the windows of all rows are left out, by
// whole steps.
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
	first = primary(f.variable("uint", "first", plus(start, binary("*", f.axis(f.ax.Split), each))))
	return first, primary(f.variable("uint", "end", call("min", end, binary("+", first, each))))
}

// keyLoop begins the loop over so many keys a step and returns the first of a step.
// Unrolled, it gains nothing and makes drivers slow, and lavapipe of Mesa 26.1
// crashes where a workgroup then has no step at all.
func (f *attention) keyLoop(first, end text, step int) text {
	return f.openFor(dontUnroll, "key0", first, end, uintLit(step))
}

// splitLength prints how many keys a split has: whole steps, but for the last.
func (f *attention) splitLength(splits int64) text {
	tile, keys := int64(max(schedule.AttentionStep(f.s), 1)), schedule.SplitKeys(f.k, f.s)
	if keys.IsStatic() {
		each := (keys.Add + splits - 1) / splits
		return uintLit((each + tile - 1) / tile * tile)
	}
	tiles := binary("/", f.dim(keys.Plus(splits*tile-1)), uintLit(splits*tile))
	return primary(f.variable("uint", "each", binary("*", tiles, uintLit(tile))))
}

// keyAxis and dotAxis and valueAxis are the axes over which operands are read
// four at a time.
func (f *attention) dotAxis() along   { return along{f.ax.Dot, f.a.Dot} }
func (f *attention) valueAxis() along { return along{f.ax.Value, ir.D(f.width)} }

// factorAxis is the axis of a factor, of an attention that has one.
func (f *attention) factorAxis() along { return along{f.ax.Factor, f.a.Factor.Dot} }

// lowest is the score of a key that does not count.
func (f *attention) lowest() text { return f.floatLit(math.Inf(-1)) }

// score prints the score of a key for the bound row: dot is the product, key
// must be bound too. Keys that the row does not see score -inf. Where whole,
// all keys of the tile exist and are seen.
func (f *attention) score(dot text, key text, query text) text {
	s := f.adjusted(binary("*", dot, f.floatLit(f.a.Scale)))
	return f.choose("float", "seen", binary("<", key, f.seen(query)), s, f.lowest())
}

// adjusted prints what becomes of a scaled product: it is capped, and the mask added.
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

// factor prints what the weight of the bound row and key is multiplied by, where dot is the product that its score is
// of, and other is the factor's.
func (f *attention) factor(dot, other text) text {
	x := binary("-", other, f.asFloat(f.a.Factor.Less))
	if f.a.Softcap != 0 {
		f.helper("tanh_safe", "float")
		bent := primary(f.variable("float", "bent", call("tanh_safe", binary("*", dot, f.floatLit(f.a.Scale)))))
		x = binary("*", x, binary("-", primary("1.0"), binary("*", bent, bent)))
	}
	return x
}

// rebase declares what weights are relative to where best is the largest score, and what
// takes sums relative to another, top, to those relative to it. While no key counts, any
// finite number does in place of the largest score.
func (f *attention) rebase(best text, top string) (shift, correction string) {
	shift = f.variable("float", "shift", ternary(binary("==", best, f.lowest()), primary("0.0"), best))
	return shift, f.variable("float", "correction", primary(fmt.Sprintf("exp2(%s - %s)", top, shift)))
}

// storeRow writes the stores of one row: what a row has once where first says
// so, and vectors of its result, of which each of so many lanes that share a row
// has quads, at column(n), as far as they exist.
func (f *attention) storeRow(first text, lanes, quads int, column func(n text) text, sum func(n text) text) {
	f.storeOnce(first)
	f.repeat("n", quads, func(n text) {
		at := f.named("quad", column(n))
		if all := schedule.ValueQuads(f.width); all < lanes*quads {
			f.openGuard("if (%s < %du)", at, all)
			defer f.close()
		}
		f.storeQuad(at, sum(n))
	})
}

// storeOnce writes what a row has once, where first says so.
func (f *attention) storeOnce(first text) {
	var stores []kernel.Store
	for _, s := range f.k.Stores {
		if !s.PerElement {
			stores = append(stores, s)
		}
	}
	if len(stores) > 0 {
		f.openGuard("if (%s)", first)
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
	lane := func() { f.bindAcc(2, sum.String()+"["+component+"]") }
	if f.width%4 == 0 {
		f.lanes(f.ax.Value, 4, times(quad, 4), roots, stores, lane)
		return
	}
	f.openLanes(4)
	col := primary(f.variable("uint", "col", plus(times(quad, 4), primary(component))))
	f.openGuard("if (%s < %du)", col, f.width)
	f.bindAxis(f.ax.Value, col)
	lane()
	f.storeAll(stores)
	f.close()
	f.close()
}

// ifRow writes a body for a row of the tile, if that exists.
func (f *attention) ifRow(r text, body func()) {
	queries := f.k.Parallel[f.ax.Query]
	if !schedule.DivisibleBy(queries, f.queries()) {
		f.openGuard("if (%s)", binary("<", f.queryOf(r), f.dim(queries)))
		defer f.close()
	}
	f.bindRowAt(r, f.queryOf(r))
	body()
}

// flashRows is what an invocation keeps of its rows, each of which some lanes share.
type flashRows struct {
	*attention
	self  text
	lane  text // which of the lanes of a row
	lanes int
	quads int // vectors of a row's result in an invocation
	// By row: the largest score, the sum of weights, and the weighted sums; then the
	// scores, by row and key.
	top, total, sums, score string
}

func (f *flashRows) at(array string, i text) string { return elementOf(array, f.s.ThreadM, i).String() }

func (f *flashRows) sum(i, n text) string {
	return elementOf(f.sums, f.s.ThreadM*f.quads, plus(times(i, f.quads), n)).String()
}

func (f *flashRows) scoreAt(i, j text) string {
	return elementOf(f.score, f.s.ThreadM*f.s.ThreadN, plus(times(i, f.s.ThreadN), j)).String()
}

// column is an invocation's vector n of a row.
func (f *flashRows) column(n text) text { return plus(f.lane, times(n, f.lanes)) }

// begin gives row i what it has before the first key.
func (f *flashRows) begin(i text) {
	f.line("%s = %s;", f.at(f.top, i), f.lowest())
	f.line("%s = 0.0;", f.at(f.total, i))
	f.repeat("n", f.quads, func(n text) { f.line("%s = vec4(0.0);", f.sum(i, n)) })
}

// storeOwn stores row i, which is that of the tile, if it exists.
func (f *flashRows) storeOwn(i, row text) {
	f.ifRow(row, func() {
		f.bindAcc(0, f.at(f.top, i))
		f.bindAcc(1, f.at(f.total, i))
		f.storeRow(binary("==", f.lane, primary("0u")), f.lanes, f.quads, f.column, func(n text) text {
			return primary(f.sum(i, n))
		})
	})
}
