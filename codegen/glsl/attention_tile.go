package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// emitFlashTile writes an attention for any device. Several lanes share a row. Each lane computes ThreadN scores of
// ThreadM rows from tiles of queries and keys in shared memory, and stores the weights there. It then owns every
// lanes-th vector of four of the rows' results. With Steps, attention_steps.go applies.
func emitFlashTile(e *emitter) {
	s := e.sched
	self := e.selfIndex()
	f := newAttention(e)
	if e.err != nil {
		return
	}
	t := &flashTile{flashRows: flashRows{attention: f, self: self, lanes: s.TileN / s.ThreadN},
		strip: s.TileM / s.ThreadM}
	t.quads = schedule.FlashQuads(f.width, t.lanes)
	t.lane, t.row = e.placeInTile(self, t.lanes, "lane_of_row", "row0")
	t.declare()
	first, end := t.keyRange()

	if s.Steps {
		t.overSteps(first, end)
	} else {
		t.overRows(first, end)
	}

	t.line("")
	t.acrossLanes(t.total, "+")
	t.line("")
	t.repeat("i", s.ThreadM, func(i text) { t.storeOwn(i, t.named("row", t.rowOf(i))) })
}

// flashTile is an attention in tiles.
type flashTile struct {
	flashRows
	strip int  // the invocations with rows between two of an invocation's own
	row   text // the first of its rows, or of its groups of four rows
	best  text // the largest scores of the tile

	factors text // by row and key: the factors of weights

	qTile, kTile, vTile, weights, partial text // shared arrays
}

func (t *flashTile) declare() {
	s := t.s
	if s.Steps {
		t.shareSteps()
	} else {
		pitch := schedule.TilePitch(s.TileK)
		t.qTile = t.share("vec4", "tile_q", s.TileM*pitch)
		t.kTile = t.share("vec4", "tile_k", s.TileN*pitch)
		t.vTile = t.share("vec4", "tile_v", s.TileK*schedule.ValueQuads(t.width))
		t.weights = t.share("float", "weights", s.TileM*(s.TileN+1))
	}
	if s.Subgroup == 0 {
		t.partial = t.share("float", "partial", s.TileM*t.lanes)
	}
	t.top, t.total, t.best = t.array("float", "top", s.ThreadM), t.array("float", "total", s.ThreadM), t.array("float",
		"best", s.ThreadM)
	t.sums = t.array("vec4", "sums", s.ThreadM*t.quads)
	t.repeat("i", s.ThreadM, t.begin)
}

// overRows steps over the keys, with tiles stored row by row.
func (t *flashTile) overRows(first, end text) {
	t.line("")
	key0 := t.keyLoop(first, end, t.s.TileN)
	t.score = t.products("score", key0, t.a.Q, t.a.K, t.dotAxis())
	if f := t.a.Factor; f != nil {
		t.factors = t.products("factor", key0, f.Q, f.K, t.factorAxis())
	}
	t.weigh(key0)
	t.addValues(key0, end)
	t.close()
}

// rowOf prints the tile's row of an invocation's row i.
func (t *flashTile) rowOf(i text) text {
	if t.s.Steps {
		return fours(t.row, i, t.s.ThreadM, t.strip)
	}
	return plus(t.row, times(i, t.strip))
}

// keyOf prints an invocation's key j, counted from the tile's first key.
func (t *flashTile) keyOf(j text) text {
	if t.s.Steps {
		return fours(t.lane, j, t.s.ThreadN, t.lanes)
	}
	return plus(t.lane, times(j, t.lanes))
}

// products multiplies vectors of the tile's queries by vectors of its keys, and returns the array of the results.
func (t *flashTile) products(name string, key0 text, q, k *kernel.Expr, over along) text {
	s := t.s
	sums := t.array("float", name, s.ThreadM*s.ThreadN)
	t.repeat("i", s.ThreadM*s.ThreadN, func(i text) {
		t.assign(elementOf(sums, s.ThreadM*s.ThreadN, i), primary("0.0"))
	})
	d0 := t.loop("d0", primary("0u"), uintLit(over.extent.Add), s.TileK)
	all := schedule.DivisibleBy(over.extent, s.TileK)
	t.comment("Stage queries and keys.")
	t.stage(s.TileM, s.TileK/4, func(line, quad text) {
		t.bindRow(line)
		v := t.quad(q, over, plus(d0, times(quad, 4)), "q4", all)
		t.assign(elementAt(t.qTile, plus(times(line, schedule.TilePitch(s.TileK)), quad)), v)
	})
	t.stage(s.TileN, s.TileK/4, func(line, quad text) {
		key := t.variable("uint", "key", t.limit(plus(key0, line), t.k.Fold, s.TileN))
		t.bindAxis(t.ax.Key, key)
		v := t.quad(k, over, plus(d0, times(quad, 4)), "k4", all)
		t.assign(elementAt(t.kTile, plus(times(line, schedule.TilePitch(s.TileK)), quad)), v)
	})
	t.barrier()
	t.multiply(sums)
	t.barrier()
	t.close()
	return sums
}

// of prints an array's element for an invocation's row i and key j.
func (t *flashTile) of(array text, i, j text) text {
	if t.s.Steps {
		return elementAt(t.fourOf(array, i, quotient(j, 4, t.s.ThreadN)), remainder(j, 4, t.s.ThreadN))
	}
	return elementOf(array, t.s.ThreadM*t.s.ThreadN, plus(times(i, t.s.ThreadN), j))
}

// stage distributes lines of quads over the workgroup. Neighbouring invocations take neighbouring quads.
func (t *flashTile) stage(lines, quads int, body func(line, quad text)) {
	total := lines * quads
	t.eachSlot(t.self, total, t.s.Workgroup, func(_, slot text) {
		body(t.named("line", quotient(slot, quads, total)), t.named("quad", remainder(slot, quads, total)))
	})
}

// multiply multiplies the staged vectors and adds to the sums.
func (t *flashTile) multiply(sums text) {
	s := t.s
	pitch := schedule.TilePitch(s.TileK)
	t.line("")
	quad := t.loop("quad", primary("0u"), uintLit(s.TileK/4), 1)
	keys := t.array("vec4", "keys4", s.ThreadN)
	t.repeat("j", s.ThreadN, func(j text) {
		t.line("%s = %s[%s];", elementOf(keys, s.ThreadN, j), t.kTile, plus(times(t.keyOf(j), pitch), quad))
	})
	t.repeat("i", s.ThreadM, func(i text) {
		q := t.variable("vec4", "query4", elementAt(t.qTile, plus(times(t.rowOf(i), pitch), quad)))
		t.repeat("j", s.ThreadN, func(j text) {
			k := elementOf(keys, s.ThreadN, j)
			for _, c := range "xyzw" {
				t.addProduct("float", t.of(sums, i, j), member(q, string(c)), member(k, string(c)))
			}
		})
	})
	t.close()
}

// weigh turns scores into weights, and rescales the sums to the largest score so far.
func (t *flashTile) weigh(key0 text) {
	s := t.s
	t.line("")
	t.repeat("i", s.ThreadM, func(i text) {
		t.bindRow(t.named("row", t.rowOf(i)))
		t.assign(t.at(t.best, i), t.lowest())
		t.repeat("j", s.ThreadN, func(j text) {
			key := t.variable("uint", "key", plus(key0, t.keyOf(j)))
			t.bindAxis(t.ax.Key, t.limit(key, t.k.Fold, s.TileN))
			if t.a.Factor != nil {
				t.assign(t.of(t.factors, i, j), t.factor(t.of(t.score, i, j), t.of(t.factors, i, j)))
			}
			score := t.of(t.score, i, j)
			t.assign(score, t.attention.score(score, key, t.axis(t.ax.Query)))
			t.atLeast(t.at(t.best, i), score)
		})
	})
	t.acrossLanes(t.best, "max")
	t.comment("While no key counts, any finite number does in place of the largest score.")
	t.repeat("i", s.ThreadM, func(i text) {
		t.atLeast(t.at(t.best, i), t.at(t.top, i))
		largest := t.variable("float", "largest", t.at(t.best, i))
		shift, correction := t.rebase(largest, t.at(t.top, i))
		t.assign(t.at(t.top, i), t.at(t.best, i))
		t.update(t.at(t.total, i), "*=", correction)
		t.repeat("n", t.quads, func(n text) { t.update(t.sum(i, n), "*=", correction) })
		var row text
		if !s.Steps {
			row = t.named("row", t.rowOf(i))
		}
		t.repeat("j", s.ThreadN, func(j text) {
			weight := t.variable("float", "weight", call("exp2", binary("-", t.of(t.score, i, j), shift)))
			t.update(t.at(t.total, i), "+=", weight)
			if t.a.Factor != nil {
				weight = t.factored(i, j, weight)
			}
			if s.Steps {
				t.assign(t.of(t.score, i, j), weight)
			} else {
				t.assign(elementAt(t.weights, plus(times(row, s.TileN+1), t.keyOf(j))), weight)
			}
		})
	})
}

// factored prints a weight times its factor. A weight of 0 stays 0, because a masked key may have any factor.
func (t *flashTile) factored(i, j text, weight text) text {
	product := binary("*", weight, t.of(t.factors, i, j))
	return t.choose("float", "product", binary("!=", weight, primary("0.0")), product, primary("0.0"))
}

// acrossLanes folds one value per row over the lanes that share the row, in a fixed order. It uses shuffles if the
// lanes are in one subgroup, and shared memory otherwise.
func (t *flashTile) acrossLanes(array text, op string) {
	join := func(a, b text) text {
		if op == "max" {
			return call("max", a, b)
		}
		return binary(op, a, b)
	}
	if t.lanes == 1 {
		return
	}
	if t.s.Subgroup > 0 {
		t.repeat("i", t.s.ThreadM, func(i text) {
			x := t.at(array, i)
			for step := t.lanes / 2; step > 0; step /= 2 {
				mask := step
				if t.s.Paired && step > 1 {
					mask *= 2 // the next row of a block of 2x2 is in between
				}
				t.assign(x, join(x, shuffled(x, mask)))
			}
		})
		return
	}
	place := func(row, lane text) text {
		return elementAt(t.partial, plus(times(row, t.lanes), lane))
	}
	t.repeat("i", t.s.ThreadM, func(i text) {
		t.assign(place(t.rowOf(i), t.lane), t.at(array, i))
	})
	t.barrier()
	t.repeat("i", t.s.ThreadM, func(i text) {
		x := t.at(array, i)
		t.assign(x, place(t.rowOf(i), primary("0u")))
		other := t.loop("other", primary("1u"), uintLit(t.lanes), 1)
		t.assign(x, join(x, place(t.rowOf(i), other)))
		t.close()
	})
}

// addValues adds the tile's values, weighted. Values past the last key that any row sees become 0.
func (t *flashTile) addValues(key0, end text) {
	s := t.s
	quads := schedule.ValueQuads(t.width)
	t.line("")
	v0 := t.loop("v0", primary("0u"), uintLit(s.TileN), s.TileK)
	t.comment("Stage values.")
	t.stage(s.TileK, quads, func(line, quad text) {
		key := t.variable("uint", "key", plus(plus(key0, v0), line))
		t.line("%s[%s] = vec4(0.0);", t.vTile, plus(times(line, quads), quad))
		t.openIf(binary("<", key, end))
		t.bindAxis(t.ax.Key, key)
		v := t.quad(t.a.V, t.valueAxis(), times(quad, 4), "v4", true)
		t.assign(elementAt(t.vTile, plus(times(line, quads), quad)), v)
		t.close()
	})
	t.barrier()
	t.line("")
	line := t.loop("line", primary("0u"), uintLit(s.TileK), 1)
	values := t.array("vec4", "values4", t.quads)
	t.repeat("n", t.quads, func(n text) {
		column := t.column(n)
		if quads%t.lanes != 0 {
			column = call("min", column, uintLit(quads-1))
		}
		t.line("%s = %s[%s];", elementOf(values, t.quads, n), t.vTile, plus(times(line, quads), column))
	})
	t.repeat("i", s.ThreadM, func(i text) {
		w := t.variable("float", "weight", elementAt(t.weights, plus(plus(times(t.rowOf(i), s.TileN+1), v0), line)))
		t.repeat("n", t.quads, func(n text) {
			t.update(t.sum(i, n), "+=", binary("*", w, elementOf(values, t.quads, n)))
		})
	})
	t.close()
	t.barrier()
	t.close()
}
