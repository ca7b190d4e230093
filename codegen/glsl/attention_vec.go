package glsl

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// emitFlashVec writes an attention of few rows. Its time is the time to read keys and values once, with enough loads in
// flight. The lanes of a team share a key. Each lane multiplies every lanes-th vector of four of the key by the queries
// of all rows, and owns the same vectors of the values. Teams take ThreadN keys each in turn. They do not wait for each
// other until the end, and then they join their results: by shuffles within a subgroup, and then in shared memory.
func emitFlashVec(e *emitter) {
	s := e.sched
	self := e.selfIndex()
	f := newAttention(e)
	if e.err != nil {
		return
	}
	v := &flashVec{flashRows: flashRows{attention: f, self: self, lanes: s.LanesPerRow}, rows: s.TileM,
		teams: s.Workgroup / s.LanesPerRow}
	v.dots = schedule.FlashQuads(int(f.a.Dot.Add), v.lanes)
	v.quads = schedule.FlashQuads(f.width, v.lanes)
	v.lane = v.variable("uint", "lane_of_key", remainder(self, v.lanes, s.Workgroup))
	v.team = v.variable("uint", "team", quotient(self, v.lanes, s.Workgroup))
	v.readQueries()
	v.declare()
	first, end := v.keyRange()

	v.line("")
	key0 := v.keyLoop(first, end, s.TileN)
	v.scores(key0, end)
	v.addValues()
	v.close()
	v.meet()
}

// flashVec is an attention of few rows.
type flashVec struct {
	flashRows
	team    text
	rows    int // ThreadM
	teams   int
	dots    int                  // vectors of a query in an invocation
	queries text                 // by row and vector
	value4  func(u, n text) text // a vector of a value
}

func (v *flashVec) query(r, n text) text {
	return elementOf(v.queries, v.rows*v.dots, plus(times(r, v.dots), n))
}

// whole reports whether all the lanes' vectors exist.
func (v *flashVec) whole(elems, vectors int) bool { return elems == 4*vectors*v.lanes }

// readQueries keeps the rows' scaled queries in registers.
func (v *flashVec) readQueries() {
	dot := int(v.a.Dot.Add)
	v.queries = v.array("vec4", "queries", v.rows*v.dots)
	v.repeat("r", v.rows, func(r text) {
		v.bindRow(r)
		v.repeat("n", v.dots, func(n text) {
			q := v.quad(v.a.Q, v.dotAxis(), times(v.column(n), 4), "q4", v.whole(dot, v.dots))
			v.assign(v.query(r, n), binary("*", q, v.floatLit(v.a.Scale)))
		})
	})
}

func (v *flashVec) declare() {
	v.top, v.total = v.array("float", "top", v.rows), v.array("float", "total", v.rows)
	v.sums = v.array("vec4", "sums", v.rows*v.quads)
	v.repeat("r", v.rows, v.begin)
}

// keyOf prints the u-th key of an invocation's team.
func (v *flashVec) keyOf(key0, u text) text {
	return plus(plus(key0, v.team), times(u, v.teams))
}

// boundKey binds a key to load. It is never past the last key that some row sees.
func (v *flashVec) boundKey(key0, u, end text) {
	key := v.keyOf(key0, u)
	v.bindAxis(v.ax.Key, v.variable("uint", "key", call("min", key, binary("-", end, uintLit(1)))))
}

// fetch loads all of the team's keys or values before it uses the first: loads in flight hide the latency.
func (v *flashVec) fetch(x *kernel.Expr, a along, name string, vectors int, key0, end text) func(u, n text) text {
	typ := "vec4"
	raw := v.caps.Features.Float16 && rawHalf(v.emitter, x, a) && v.whole(int(a.extent.Add), vectors)
	if raw {
		typ = "f16vec4"
		v.need(NeedFloat16)
	}
	count := v.s.ThreadN * vectors
	array := v.array(typ, name, count)
	at := func(u, n text) text { return elementOf(array, count, plus(times(u, vectors), n)) }
	v.repeat("u", v.s.ThreadN, func(u text) {
		v.boundKey(key0, u, end)
		v.repeat("n", vectors, func(n text) {
			from := times(v.column(n), 4)
			if raw {
				v.assign(at(u, n), rawQuad(v.emitter, x, a, from))
				return
			}
			q := v.quad(x, a, from, name+"_n", v.whole(int(a.extent.Add), vectors))
			v.assign(at(u, n), q)
		})
	})
	return func(u, n text) text {
		if raw {
			return call("vec4", at(u, n))
		}
		return at(u, n)
	}
}

// rawHalf reports whether four neighbours of an operand are one load of f16.
func rawHalf(e *emitter, x *kernel.Expr, a along) bool {
	x = kernel.Widened(x)
	return e.isVector(x, a) && e.k.Bindings[x.Bind].DType == ir.F16 && !e.inWords(e.buffers[x.Bind])
}

// rawQuad prints four neighbours, unchanged.
func rawQuad(e *emitter, x *kernel.Expr, a along, at text) text {
	x = kernel.Widened(x)
	b := e.buffers[x.Bind]
	return e.element(b, 4, binary("/", e.indexAt(x.Index, a.axis, at), uintLit(4)))
}

// scores multiplies the team's keys by the queries of all rows.
func (v *flashVec) scores(key0, end text) {
	s := v.s
	key4 := v.fetch(v.a.K, v.dotAxis(), "keys4", v.dots, key0, end)
	v.value4 = v.fetch(v.a.V, v.valueAxis(), "values4", v.quads, key0, end)
	v.line("")
	v.score = v.array("float", "score", v.rows*s.ThreadN)
	v.repeat("u", s.ThreadN, func(u text) {
		v.repeat("r", v.rows, func(r text) {
			v.assign(v.scoreAt(r, u), primary("0.0"))
			v.repeat("n", v.dots, func(n text) {
				v.update(v.scoreAt(r, u), "+=", v.dot(v.query(r, n), key4(u, n)))
			})
		})
	})
	v.comment("The lanes of a team add up what each has of a product.")
	v.repeat("i", v.rows*s.ThreadN, func(i text) {
		x := elementOf(v.score, v.rows*s.ThreadN, i)
		for mask := v.lanes / 2; mask > 0; mask /= 2 {
			v.update(x, "+=", shuffled(x, mask))
		}
	})
	v.repeat("r", v.rows, func(r text) {
		v.bindRow(r)
		best := v.variable("float", "best", v.at(v.top, r))
		v.repeat("u", s.ThreadN, func(u text) {
			key := v.variable("uint", "key", v.keyOf(key0, u))
			v.bindAxis(v.ax.Key, call("min", key, binary("-", end, uintLit(1))))
			v.assign(v.scoreAt(r, u), v.seenScore(v.scoreAt(r, u), key, end))
			v.atLeast(best, v.scoreAt(r, u))
		})
		v.comment("While no key counts, any finite number does in place of the largest score.")
		shift, correction := v.rebase(best, v.at(v.top, r))
		v.assign(v.at(v.top, r), best)
		v.update(v.at(v.total, r), "*=", correction)
		v.repeat("n", v.quads, func(n text) { v.update(v.sum(r, n), "*=", correction) })
		v.repeat("u", s.ThreadN, func(u text) {
			v.assign(v.scoreAt(r, u), call("exp2", binary("-", v.scoreAt(r, u), shift)))
			v.update(v.at(v.total, r), "+=", v.scoreAt(r, u))
		})
	})
}

// seenScore prints a score. The queries are scaled already. A key past the team's run, or one that the bound row does
// not see, scores -inf.
func (v *flashVec) seenScore(dot, key, end text) text {
	s := v.adjusted(dot)
	limit := end
	if v.a.Causal && v.s.TileM > v.s.Heads {
		limit = v.seen(v.axis(v.ax.Query))
		if !v.k.Parallel[v.ax.Split].Is(1) {
			limit = call("min", end, limit)
		}
	}
	return v.choose("float", "seen", binary("<", key, limit), s, v.lowest())
}

// addValues adds the team's values, weighted by the results of scores.
func (v *flashVec) addValues() {
	v.line("")
	v.repeat("u", v.s.ThreadN, func(u text) {
		v.repeat("n", v.quads, func(n text) {
			x := v.variable("vec4", "v4", v.value4(u, n))
			v.repeat("r", v.rows, func(r text) {
				v.update(v.sum(r, n), "+=", binary("*", v.scoreAt(r, u), x))
			})
		})
	})
}

// meet joins the teams' results.
func (v *flashVec) meet() {
	v.comment("Teams of a subgroup join their results.")
	v.repeat("r", v.rows, func(r text) {
		top, total := v.at(v.top, r), v.at(v.total, r)
		best := v.variable("float", "best", top)
		for mask := v.lanes; mask < v.s.Subgroup; mask *= 2 {
			v.atLeast(best, shuffled(best, mask))
		}
		_, correction := v.rebase(best, top)
		v.assign(top, best)
		v.update(total, "*=", correction)
		v.repeat("n", v.quads, func(n text) { v.update(v.sum(r, n), "*=", correction) })
		for mask := v.lanes; mask < v.s.Subgroup; mask *= 2 {
			v.update(total, "+=", shuffled(total, mask))
			v.repeat("n", v.quads, func(n text) {
				v.update(v.sum(r, n), "+=", shuffled(v.sum(r, n), mask))
			})
		}
	})
	subgroups := v.s.Workgroup / v.s.Subgroup
	if subgroups == 1 {
		v.line("")
		v.openIf(binary("==", v.team, uintLit(0)))
		v.repeat("r", v.rows, func(r text) { v.storeOwn(r, r) })
		v.close()
		return
	}
	v.joinSubgroups(subgroups)
}

// joinSubgroups joins the results of subgroups in shared memory. Each invocation then has some vectors of some rows.
func (v *flashVec) joinSubgroups(subgroups int) {
	quads := schedule.ValueQuads(v.width)
	results := v.rows * quads
	sums := v.share("vec4", "shared_sums", subgroups*results)
	stats := v.share("vec2", "shared_weights", subgroups*v.rows)
	v.line("")
	v.openIf(binary("<", primary("gl_SubgroupInvocationID"), uintLit(v.lanes)))
	v.repeat("r", v.rows, func(r text) {
		place := plus(times(primary("gl_SubgroupID"), v.rows), r)
		v.line("%s[%s] = vec2(%s, %s);", stats, place, v.at(v.top, r), v.at(v.total, r))
		v.repeat("n", v.quads, func(n text) {
			column := v.column(n)
			if !v.whole(v.width, v.quads) {
				v.openIf(binary("<", column, uintLit(quads)))
				defer v.close()
			}
			v.assign(elementAt(sums, plus(times(place, quads), column)), v.sum(r, n))
		})
	})
	v.close()
	v.barrier()
	v.line("")
	id := v.eachResult(v.self, results)
	row, quad := v.named("row", quotient(id, quads, results)), v.named("quad", remainder(id, quads, results))
	v.joinOne(row, quad, subgroups, quads, sums, stats)
	v.close()
}

// joinOne joins the subgroups' results for one vector of a row, and stores it.
func (v *flashVec) joinOne(row, quad text, subgroups, quads int, sums, stats text) {
	stat := func(g text) text { return elementAt(stats, plus(times(g, v.rows), row)) }
	best := v.variable("float", "best", v.lowest())
	g := v.loop("g", primary("0u"), uintLit(subgroups), 1)
	v.line("%s = max(%s, %s.x);", best, best, stat(g))
	v.close()
	total := v.variable("float", "sum", primary("0.0"))
	weighted := slices.ContainsFunc(v.k.Stores, func(s kernel.Store) bool { return s.Value.UsesAcc(2) })
	var sum text
	if weighted {
		sum = v.variable("vec4", "weighted", primary("vec4(0.0)"))
	}
	g = v.loop("g", primary("0u"), uintLit(subgroups), 1)
	_, correction := v.rebase(best, member(stat(g), "x"))
	v.line("%s += %s * %s.y;", total, correction, stat(g))
	if weighted {
		v.line("%s += %s * %s[%s];", sum, correction, sums, plus(times(plus(times(g, v.rows), row), quads), quad))
	}
	v.close()
	v.ifRow(row, func() {
		v.bindAcc(0, best)
		v.bindAcc(1, total)
		v.storeOnce(binary("==", quad, primary("0u")))
		v.storeQuad(quad, sum)
	})
}
