package attention

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// EmitTile writes an attention for any device. Several lanes (invocations) share a row. Each lane computes ThreadN
// scores of each of ThreadM rows, from tiles of queries and keys in shared memory, and stores the softmax weights in
// shared memory. Then lane i of the n lanes of a row computes the vec4s i, i+n, i+2n, ... of its rows' results.
//
// With Steps, tiles are stored and multiplied in steps along the contraction axis (see steps.go). An invocation then
// holds one step in registers, not a whole tile.
func EmitTile(e *emit.Emitter) {
	s := e.Sched.(kernel.FlashTile)
	f := newAttention(e)
	if e.Err != nil {
		return
	}
	t := &flashTile{s: s, strip: s.TileM / s.ThreadM, flashRows: flashRows{attention: f,
		lanes: s.TileN / s.ThreadN, rows: s.ThreadM, keys: s.ThreadN}}
	t.quads = schedule.FlashQuads(f.width, t.lanes)
	t.lane, t.row = e.PlaceInTile(f.self, t.lanes, s.Paired, "lane_of_row", "row0")
	t.declare()
	first, end := t.keyRange()

	if s.Steps {
		t.loopOverSteps(first, end)
	} else {
		t.loopOverRows(first, end)
	}

	t.Blank()
	t.reduceAcrossLanes(t.total, "+")
	t.Blank()
	t.Repeat("i", s.ThreadM, func(i expr.Expr) { t.storeOwn(i, t.Named("row", t.rowOf(i))) })
}

// flashTile is an attention in tiles. See EmitTile.
type flashTile struct {
	flashRows
	s kernel.FlashTile
	// An invocation has the rows row, row+strip, row+2*strip, ... of the tile. With Steps these are the numbers of
	// groups of four rows.
	row   expr.Expr
	strip int
	best  expr.Array // by row: the largest score of the current tile

	factors expr.Array // by row and key: the factors of the weights, if the attention has a factor

	// Shared arrays. With Steps, kvTile has two stages of keys and later of values, and replaces kTile and vTile.
	// partial has a number per row and lane, for lanes that cannot shuffle.
	qTile, kTile, vTile, kvTile, weights, partial expr.Expr
}

// declare declares the tiles in shared memory and the registers of an invocation.
func (t *flashTile) declare() {
	s := t.s
	if s.Steps {
		t.shareSteps()
	} else {
		pitch := schedule.TilePitch(s.TileK)
		t.qTile = t.Share("vec4", "tile_q", s.TileM*pitch)
		t.kTile = t.Share("vec4", "tile_k", s.TileN*pitch)
		t.vTile = t.Share("vec4", "tile_v", s.TileK*schedule.ValueQuads(t.width))
		t.weights = t.Share("float", "weights", s.TileM*(s.TileN+1))
	}
	if s.Subgroup == 0 {
		t.partial = t.Share("float", "partial", s.TileM*t.lanes)
	}
	t.top, t.total = t.Array("float", "top", s.ThreadM), t.Array("float", "total", s.ThreadM)
	t.best = t.Array("float", "best", s.ThreadM)
	t.sums = t.Array("vec4", "sums", s.ThreadM*t.quads)
	t.Repeat("i", s.ThreadM, t.begin)
}

// loopOverRows writes the loop over the keys, with tiles stored row by row.
func (t *flashTile) loopOverRows(first, end expr.Expr) {
	t.Blank()
	key0 := t.keyLoop(first, end, t.s.TileN)
	t.score = t.products("score", key0, t.a.Q, t.a.K, t.dotAxis())
	if f := t.a.Factor; f != nil {
		t.factors = t.products("factor", key0, f.Q, f.K, emit.Along{Axis: t.ax.Factor, Extent: f.Dot})
	}
	t.weigh(key0)
	t.addValues(key0, end)
	t.Close()
}

// rowOf returns the tile's row number of the invocation's i-th row.
func (t *flashTile) rowOf(i expr.Expr) expr.Expr {
	if t.s.Steps {
		return emit.Fours(t.row, i, t.s.ThreadM, t.strip)
	}
	return expr.Plus(t.row, expr.Times(i, t.strip))
}

// keyOf returns the number of the invocation's j-th key, counted from the tile's first key.
func (t *flashTile) keyOf(j expr.Expr) expr.Expr {
	if t.s.Steps {
		return emit.Fours(t.lane, j, t.s.ThreadN, t.lanes)
	}
	return expr.Plus(t.lane, expr.Times(j, t.lanes))
}

// products multiplies the tile's queries by its keys along an axis, and returns the array of results.
func (t *flashTile) products(name string, key0 expr.Expr, q, k *kernel.Expr, over emit.Along) expr.Array {
	s := t.s
	sums := t.Filled("float", name, s.ThreadM*s.ThreadN, "i", func(i expr.Expr) expr.Expr { return expr.Of("0.0") })
	d0 := t.OpenLoop("d0", expr.Of("0u"), expr.Uint(over.Extent.Add), s.TileK)
	inside := schedule.DivisibleBy(over.Extent, s.TileK) // no quad begins past the end of the vectors
	t.Comment("Stage queries and keys.")
	t.mover(s.TileM, s.TileK/4, t.rowByRow(t.qTile), func(_, d0, line, quad expr.Expr, keep func(value expr.Expr)) {
		t.bindRow(line)
		keep(t.Quad(q, over, expr.Plus(d0, expr.Times(quad, 4)), "q4", inside))
	}).Move(d0)
	t.mover(s.TileN, s.TileK/4, t.rowByRow(t.kTile), t.loadKey(k, over, key0)).Move(d0)
	t.Barrier()
	t.multiply(sums)
	t.Barrier()
	t.Close()
	return sums
}

// element returns the element of an array for the invocation's row i and key j.
func (t *flashTile) element(array expr.Array, i, j expr.Expr) expr.Expr {
	if t.s.Steps {
		return expr.At(t.fourKeys(array, i, expr.Quotient(j, 4, t.s.ThreadN)), expr.Remainder(j, 4, t.s.ThreadN))
	}
	return array.At(expr.Flat(i, t.s.ThreadN, j))
}

// mover returns the mover of a tile with the given number of lines and of quads (vec4) per line.
func (t *flashTile) mover(lines, quads int, store emit.StoreUnit, load emit.LoadUnit) *emit.Mover {
	return &emit.Mover{E: t.Emitter, Self: t.self, Lines: lines, PerLine: quads, Line: "line", Unit: "quad", Load: load,
		Store: store}
}

// rowByRow returns the Store of a Mover. It stores quads in a shared array of queries or keys, line after line.
func (t *flashTile) rowByRow(array expr.Expr) emit.StoreUnit {
	return func(_, line, quad, value expr.Expr) {
		t.Assign(expr.At(array, expr.Flat(line, schedule.TilePitch(t.s.TileK), quad)), value)
	}
}

// loadKey returns the Load of a Mover of keys. A line of the tile is a key, and line 0 is key0. A step begins at
// element d0 of each key.
func (t *flashTile) loadKey(k *kernel.Expr, over emit.Along, key0 expr.Expr) emit.LoadUnit {
	return func(_, d0, line, quad expr.Expr, keep func(value expr.Expr)) {
		t.BindAxis(t.ax.Key, t.Variable("uint", "key", t.Limit(expr.Plus(key0, line), t.K.Fold, t.s.TileN)))
		keep(t.Quad(k, over, expr.Plus(d0, expr.Times(quad, 4)), "k4", schedule.DivisibleBy(over.Extent, t.s.TileK)))
	}
}

// loadValue returns the Load of a Mover of values. A line of the tile is the value of a key. Line 0 belongs to key
// key0 + v0, where v0 is the step's first key in the tile of keys. No row sees key end or a later one; their values
// become 0.
func (t *flashTile) loadValue(key0, end expr.Expr) emit.LoadUnit {
	return func(_, v0, line, quad expr.Expr, keep func(value expr.Expr)) {
		key := t.Variable("uint", "key", expr.Plus(key0, v0, line))
		keep(expr.Of("vec4(0.0)")) // replaced below if the key is before end
		t.OpenIf(expr.Binary("<", key, end))
		t.BindAxis(t.ax.Key, key)
		keep(t.Quad(t.a.V, t.valueAxis(), expr.Times(quad, 4), "v4", emit.Inside))
		t.Close()
	}
}

// multiply multiplies the queries by the keys in shared memory, and adds the products to sums, by row and key.
func (t *flashTile) multiply(sums expr.Array) {
	s := t.s
	pitch := schedule.TilePitch(s.TileK)
	t.Blank()
	quad := t.OpenLoop("quad", expr.Of("0u"), expr.Uint(s.TileK/4), 1)
	keys := t.Filled("vec4", "keys4", s.ThreadN, "j", func(j expr.Expr) expr.Expr {
		return expr.At(t.kTile, expr.Flat(t.keyOf(j), pitch, quad))
	})
	t.Repeat("i", s.ThreadM, func(i expr.Expr) {
		q := t.Variable("vec4", "query4", expr.At(t.qTile, expr.Flat(t.rowOf(i), pitch, quad)))
		t.Repeat("j", s.ThreadN, func(j expr.Expr) {
			k := keys.At(j)
			for _, c := range "xyzw" {
				t.AddProduct("float", t.element(sums, i, j), expr.Member(q, string(c)), expr.Member(k, string(c)))
			}
		})
	})
	t.Close()
}

// weigh converts the scores of a tile of keys to weights 2^(score - shift), and adds them to the totals. If the
// largest score of a row has grown, it rescales the row's sums (see rebase). With Steps, weights replace scores in
// registers; otherwise they go to shared memory.
func (t *flashTile) weigh(key0 expr.Expr) {
	t.finishScores(key0)
	s := t.s
	t.Comment("While no key counts, any finite number does in place of the largest score.")
	t.Repeat("i", s.ThreadM, func(i expr.Expr) {
		t.AtLeast(t.best.At(i), t.top.At(i))
		largest := t.Variable("float", "largest", t.best.At(i))
		shift, correction := t.rebase(largest, t.top.At(i))
		t.Assign(t.top.At(i), t.best.At(i))
		t.rescale(i, correction)
		var row expr.Expr // the row in the shared array of weights
		if !s.Steps {
			row = t.Named("row", t.rowOf(i))
		}
		t.Repeat("j", s.ThreadN, func(j expr.Expr) {
			weight := t.Variable("float", "weight",
				expr.Call("exp2", expr.Binary("-", t.element(t.score, i, j), shift)))
			t.Update(t.total.At(i), "+=", weight)
			if t.a.Factor != nil {
				weight = t.factored(i, j, weight)
			}
			if s.Steps {
				t.Assign(t.element(t.score, i, j), weight)
			} else {
				t.Assign(expr.At(t.weights, expr.Flat(row, s.TileN+1, t.keyOf(j))), weight)
			}
		})
	})
}

// finishScores computes the scores and factors from dot products, and sets best to the largest score of each row of the
// tile.
func (t *flashTile) finishScores(key0 expr.Expr) {
	t.Blank()
	t.Repeat("i", t.s.ThreadM, func(i expr.Expr) {
		t.bindRow(t.Named("row", t.rowOf(i)))
		t.Assign(t.best.At(i), t.lowest())
		t.Repeat("j", t.s.ThreadN, func(j expr.Expr) {
			key := t.Variable("uint", "key", expr.Plus(key0, t.keyOf(j)))
			t.BindAxis(t.ax.Key, t.Limit(key, t.K.Fold, t.s.TileN))
			score := t.element(t.score, i, j)
			if t.a.Factor != nil {
				t.Assign(t.element(t.factors, i, j), t.factor(score, t.element(t.factors, i, j)))
			}
			t.Assign(score, t.attention.score(score, key, t.Axis(t.ax.Query)))
			t.AtLeast(t.best.At(i), score)
		})
	})
	t.reduceAcrossLanes(t.best, "max")
}

// factored returns a weight times its factor. A weight of 0 stays 0, even if the factor of a masked key is infinite or
// NaN.
func (t *flashTile) factored(i, j expr.Expr, weight expr.Expr) expr.Expr {
	product := expr.Binary("*", weight, t.element(t.factors, i, j))
	return t.Choose("float", "product", expr.Binary("!=", weight, expr.Of("0.0")), product, expr.Of("0.0"))
}

// reduceAcrossLanes reduces each element of an array over the lanes that share a row, by op "+" or "max". Each lane
// gets the result. It uses shuffles if the lanes are in one subgroup, and shared memory otherwise. The order of
// additions is fixed.
func (t *flashTile) reduceAcrossLanes(array expr.Array, op string) {
	switch {
	case t.lanes == 1: // the lane has the whole row
	case t.s.Subgroup > 0:
		t.joinByShuffles(array, op)
	default:
		t.joinInSharedMemory(array, op)
	}
}

// join returns a + b or max(a, b).
func join(op string, a, b expr.Expr) expr.Expr {
	if op == "max" {
		return expr.Call("max", a, b)
	}
	return expr.Binary(op, a, b)
}

// joinByShuffles is reduceAcrossLanes for lanes of one subgroup.
func (t *flashTile) joinByShuffles(array expr.Array, op string) {
	t.Repeat("i", t.s.ThreadM, func(i expr.Expr) {
		x := array.At(i)
		for step := t.lanes / 2; step > 0; step /= 2 {
			mask := step
			if t.s.Paired && step > 1 {
				mask *= 2 // invocations are in blocks of 2x2: bit 1 of their number is the row
			}
			t.Assign(x, join(op, x, emit.Shuffled(x, mask)))
		}
	})
}

// joinInSharedMemory is reduceAcrossLanes by way of the shared array partial.
func (t *flashTile) joinInSharedMemory(array expr.Array, op string) {
	place := func(row, lane expr.Expr) expr.Expr {
		return expr.At(t.partial, expr.Flat(row, t.lanes, lane))
	}
	t.Repeat("i", t.s.ThreadM, func(i expr.Expr) {
		t.Assign(place(t.rowOf(i), t.lane), array.At(i))
	})
	t.Barrier()
	t.Repeat("i", t.s.ThreadM, func(i expr.Expr) {
		x := array.At(i)
		t.Assign(x, place(t.rowOf(i), expr.Of("0u")))
		other := t.OpenLoop("other", expr.Of("1u"), expr.Uint(t.lanes), 1)
		t.Assign(x, join(op, x, place(t.rowOf(i), other)))
		t.Close()
	})
}

// valueColumn is the column of an invocation's n-th vec4 of a value. Lanes past the end of the value repeat its last
// vec4; the results are not stored.
func (t *flashTile) valueColumn(n expr.Expr) expr.Expr {
	quads := schedule.ValueQuads(t.width)
	if quads%t.lanes == 0 {
		return t.column(n)
	}
	return expr.Call("min", t.column(n), expr.Uint(quads-1))
}

// addValues multiplies the tile's values by the weights and adds the products to the sums.
func (t *flashTile) addValues(key0, end expr.Expr) {
	s := t.s
	quads := schedule.ValueQuads(t.width)
	t.Blank()
	v0 := t.OpenLoop("v0", expr.Of("0u"), expr.Uint(s.TileN), s.TileK)
	t.Comment("Stage values.")
	t.mover(s.TileK, quads, func(_, line, quad, value expr.Expr) {
		t.Assign(expr.At(t.vTile, expr.Flat(line, quads, quad)), value)
	}, t.loadValue(key0, end)).Move(v0)
	t.Barrier()
	t.Blank()
	line := t.OpenLoop("line", expr.Of("0u"), expr.Uint(s.TileK), 1)
	values := t.Filled("vec4", "values4", t.quads, "n", func(n expr.Expr) expr.Expr {
		return expr.At(t.vTile, expr.Flat(line, quads, t.valueColumn(n)))
	})
	t.Repeat("i", s.ThreadM, func(i expr.Expr) {
		w := t.Variable("float", "weight", expr.At(t.weights, expr.Plus(expr.Flat(t.rowOf(i), s.TileN+1, v0), line)))
		t.Repeat("n", t.quads, func(n expr.Expr) {
			t.Update(t.sum(i, n), "+=", expr.Binary("*", w, values.At(n)))
		})
	})
	t.Close()
	t.Barrier()
	t.Close()
}
