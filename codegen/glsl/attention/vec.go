package attention

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// EmitVec writes an attention of few rows. A team is the n = LanesPerRow invocations (lanes) that share a key. Lane i
// multiplies the vec4s i, i+n, i+2n, ... of the key by the queries of all rows, and reads the same vec4s of the value.
// A team takes ThreadN keys per step, and loads them all before it uses the first. So the kernel takes about as long as
// reading keys and values once. Teams do not wait for each other until the end. Then they join their results, within a
// subgroup by shuffles and then in shared memory.
func EmitVec(e *emit.Emitter) {
	s := e.Sched.(kernel.FlashVec)
	f := newAttention(e)
	if e.Err != nil {
		return
	}
	v := &flashVec{s: s, teams: s.Workgroup / s.LanesPerRow, flashRows: flashRows{attention: f,
		lanes: s.LanesPerRow, rows: s.ThreadM, keys: s.ThreadN}}
	v.dots = schedule.FlashQuads(int(f.a.Dot.Add), v.lanes)
	v.quads = schedule.FlashQuads(f.width, v.lanes)
	v.lane = v.Variable("uint", "lane_of_key", expr.Remainder(v.self, v.lanes, s.Workgroup))
	v.team = v.Variable("uint", "team", expr.Quotient(v.self, v.lanes, s.Workgroup))
	v.readQueries()
	v.top, v.total = v.Array("float", "top", v.rows), v.Array("float", "total", v.rows)
	v.sums = v.Array("vec4", "sums", v.rows*v.quads)
	v.Repeat("r", v.rows, v.begin)
	first, end := v.keyRange()

	v.Blank()
	key0 := v.keyLoop(first, end, s.TileN)
	keys := v.fetch(v.a.K, v.dotAxis(), "keys4", v.dots, key0, end)
	values := v.fetch(v.a.V, v.valueAxis(), "values4", v.quads, key0, end)
	v.multiplyKeys(keys)
	v.weighKeys(key0, end)
	v.addValues(values)
	v.Close()
	v.joinTeams()
}

// flashVec is an attention of few rows. See EmitVec.
type flashVec struct {
	flashRows
	s       kernel.FlashVec
	team    expr.Expr  // number of the invocation's team
	teams   int        // number of teams
	dots    int        // number of vec4 of a query in an invocation
	queries expr.Array // by row and vec4
}

// query returns the invocation's n-th vec4 of row r's query.
func (v *flashVec) query(r, n expr.Expr) expr.Expr { return v.queries.At(expr.Flat(r, v.dots, n)) }

// whole reports whether a vector of `elems` elements fills the given number of vec4 in every lane, so that no lane goes
// past the end.
func (v *flashVec) whole(elems, vectors int) bool { return elems == 4*vectors*v.lanes }

// readQueries loads the scaled queries of all rows into registers.
func (v *flashVec) readQueries() {
	dot := int(v.a.Dot.Add)
	v.queries = v.Array("vec4", "queries", v.rows*v.dots)
	v.Repeat("r", v.rows, func(r expr.Expr) {
		v.bindRow(r)
		v.Repeat("n", v.dots, func(n expr.Expr) {
			q := v.Quad(v.a.Q, v.dotAxis(), expr.Times(v.column(n), 4), "q4", v.whole(dot, v.dots))
			v.Assign(v.query(r, n), expr.Binary("*", q, v.FloatLit(v.a.Scale)))
		})
	})
}

// keyOf returns the u-th key of the invocation's team in the step that begins at key0.
func (v *flashVec) keyOf(key0, u expr.Expr) expr.Expr {
	return expr.Plus(key0, v.team, expr.Times(u, v.teams))
}

// fetchedVectors are a lane's parts of the keys or values of its team in a step, in registers.
type fetchedVectors struct {
	array  expr.Array // by key and vec4
	perKey int        // number of vec4 of a key or value in a lane
	isF16  bool       // the array has f16vec4
}

// raw returns the register with vec4 n of the team's key u, and at returns its value as a vec4 of floats.
func (f fetchedVectors) raw(u, n expr.Expr) expr.Expr { return f.array.At(expr.Flat(u, f.perKey, n)) }
func (f fetchedVectors) at(u, n expr.Expr) expr.Expr {
	if f.isF16 {
		return expr.Call("vec4", f.raw(u, n))
	}
	return f.raw(u, n)
}

// fetch loads all keys or values of the team in a step before the first is used, so that the loads overlap. x is the
// operand and a the axis along its vectors. perKey is the number of vec4 of a vector in each lane, and name is for the
// registers. The step begins at key0, and end is the end of all keys.
func (v *flashVec) fetch(x *kernel.Expr, a emit.Along, name string, perKey int, key0, end expr.Expr) fetchedVectors {
	whole := v.whole(int(a.Extent.Add), perKey)
	f := fetchedVectors{perKey: perKey, isF16: v.Caps.Features.Float16 && loadsF16Vector(v.Emitter, x, a) && whole}
	typ := "vec4"
	if f.isF16 {
		typ = "f16vec4"
		v.Need(emit.NeedFloat16)
	}
	f.array = v.Array(typ, name, v.s.ThreadN*perKey)
	v.Repeat("u", v.s.ThreadN, func(u expr.Expr) {
		// A team without a key at the end reads the last key, and seenScore excludes the result.
		last := expr.Binary("-", end, expr.Uint(1))
		v.BindAxis(v.ax.Key, v.Variable("uint", "key", expr.Call("min", v.keyOf(key0, u), last)))
		v.Repeat("n", perKey, func(n expr.Expr) {
			from := expr.Times(v.column(n), 4)
			if f.isF16 {
				v.Assign(f.raw(u, n), rawQuad(v.Emitter, x, a, from))
				return
			}
			v.Assign(f.raw(u, n), v.Quad(x, a, from, name+"_n", whole))
		})
	})
	return f
}

// loadsF16Vector reports whether four neighbours of an operand can be loaded as one f16vec4.
func loadsF16Vector(e *emit.Emitter, x *kernel.Expr, a emit.Along) bool {
	x = kernel.Widened(x)
	return e.IsVector(x, a) && e.K.Bindings[x.Bind].DType == ir.F16 && !e.InWords(e.Buffers[x.Bind])
}

// rawQuad returns the elements at to at+3 of an operand along an axis, in the operand's own type.
func rawQuad(e *emit.Emitter, x *kernel.Expr, a emit.Along, at expr.Expr) expr.Expr {
	x = kernel.Widened(x)
	b := e.Buffers[x.Bind]
	return e.Element(b, 4, expr.Binary("/", e.IndexAt(x.Index, a.Axis, at), expr.Uint(4)))
}

// weighKeys converts the dot products in score to weights 2^(score-shift). shift is the largest score of the row so
// far. If shift grows, weighKeys rescales the sums of the row (see rebase).
func (v *flashVec) weighKeys(key0, end expr.Expr) {
	v.Repeat("r", v.rows, func(r expr.Expr) {
		v.bindRow(r)
		best := v.Variable("float", "best", v.top.At(r))
		v.Repeat("u", v.s.ThreadN, func(u expr.Expr) {
			key := v.Variable("uint", "key", v.keyOf(key0, u))
			v.BindAxis(v.ax.Key, expr.Call("min", key, expr.Binary("-", end, expr.Uint(1))))
			v.Assign(v.scoreAt(r, u), v.seenScore(v.scoreAt(r, u), key, end))
			v.AtLeast(best, v.scoreAt(r, u))
		})
		v.Comment("While no key counts, any finite number does in place of the largest score.")
		shift, correction := v.rebase(best, v.top.At(r))
		v.Assign(v.top.At(r), best)
		v.rescale(r, correction)
		v.Repeat("u", v.s.ThreadN, func(u expr.Expr) {
			v.Assign(v.scoreAt(r, u), expr.Call("exp2", expr.Binary("-", v.scoreAt(r, u), shift)))
			v.Update(v.total.At(r), "+=", v.scoreAt(r, u))
		})
	})
}

// multiplyKeys sets score to the dot products of the team's keys and the queries of all rows.
func (v *flashVec) multiplyKeys(keys fetchedVectors) {
	s := v.s
	v.Blank()
	v.score = v.Array("float", "score", v.rows*s.ThreadN)
	v.Repeat("u", s.ThreadN, func(u expr.Expr) {
		v.Repeat("r", v.rows, func(r expr.Expr) {
			v.Assign(v.scoreAt(r, u), expr.Of("0.0"))
			v.Repeat("n", v.dots, func(n expr.Expr) {
				v.Update(v.scoreAt(r, u), "+=", v.Dot(v.query(r, n), keys.at(u, n)))
			})
		})
	})
	// Each lane has multiplied its own vec4s.
	v.Comment("The lanes of a team add up what each has of a product.")
	v.Repeat("i", v.rows*s.ThreadN, func(i expr.Expr) { v.SumLanes(v.score.At(i), v.lanes/2) })
}

// seenScore returns the score of the bound row and a key. dot is the dot product of the scaled query and the key. The
// score is -inf if the key is past the end of the team's split, or if the row does not see it.
func (v *flashVec) seenScore(dot, key, end expr.Expr) expr.Expr {
	s := v.adjusted(dot)
	limit := end
	if v.a.Causal && v.s.TileM > v.s.Heads {
		limit = v.seen(v.Axis(v.ax.Query))
		if !v.K.Parallel[v.ax.Split].Is(1) {
			limit = expr.Call("min", end, limit)
		}
	}
	return v.Choose("float", "seen", expr.Binary("<", key, limit), s, v.lowest())
}

// addValues multiplies the team's values by the weights and adds the products to the sums.
func (v *flashVec) addValues(values fetchedVectors) {
	v.Blank()
	v.Repeat("u", v.s.ThreadN, func(u expr.Expr) {
		v.Repeat("n", v.quads, func(n expr.Expr) {
			x := v.Variable("vec4", "v4", values.at(u, n))
			v.Repeat("r", v.rows, func(r expr.Expr) {
				v.Update(v.sum(r, n), "+=", expr.Binary("*", v.scoreAt(r, u), x))
			})
		})
	})
}

// joinTeams joins the results of all teams and stores them. It joins them first within each subgroup by shuffles, and
// then across subgroups. Each team rescales its sums to the largest score of all teams (see rebase).
func (v *flashVec) joinTeams() {
	v.Comment("Teams of a subgroup join their results.")
	v.Repeat("r", v.rows, func(r expr.Expr) {
		top, total := v.top.At(r), v.total.At(r)
		best := v.Variable("float", "best", top)
		// Lanes that differ by a multiple of v.lanes are in different teams.
		for mask := v.lanes; mask < v.s.Subgroup; mask *= 2 {
			v.AtLeast(best, emit.Shuffled(best, mask))
		}
		_, correction := v.rebase(best, top)
		v.Assign(top, best)
		v.rescale(r, correction)
		for mask := v.lanes; mask < v.s.Subgroup; mask *= 2 {
			v.Update(total, "+=", emit.Shuffled(total, mask))
			v.Repeat("n", v.quads, func(n expr.Expr) {
				v.Update(v.sum(r, n), "+=", emit.Shuffled(v.sum(r, n), mask))
			})
		}
	})
	subgroups := v.s.Workgroup / v.s.Subgroup
	if subgroups == 1 {
		v.Blank()
		v.OpenIf(expr.Binary("==", v.team, expr.Uint(0)))
		v.Repeat("r", v.rows, func(r expr.Expr) { v.storeOwn(r, r) })
		v.Close()
		return
	}
	v.joinSubgroups(subgroups)
}

// joinSubgroups adds up the results of the subgroups, which computed different keys, and stores them. Every subgroup
// writes its largest scores, sums of weights and weighted sums of values to shared memory. Then each invocation joins
// them for its share of the result's vec4s.
func (v *flashVec) joinSubgroups(subgroups int) {
	quads := schedule.ValueQuads(v.width)
	results := v.rows * quads
	sums := v.Share("vec4", "shared_sums", subgroups*results)
	stats := v.Share("vec2", "shared_weights", subgroups*v.rows)
	v.Blank()
	// Only the first team of a subgroup writes, because all its teams have the same results.
	v.OpenIf(expr.Binary("<", expr.Of("gl_SubgroupInvocationID"), expr.Uint(v.lanes)))
	v.Repeat("r", v.rows, func(r expr.Expr) {
		place := expr.Flat(expr.Of("gl_SubgroupID"), v.rows, r)
		v.Assign(expr.At(stats, place), expr.Call("vec2", v.top.At(r), v.total.At(r)))
		v.Repeat("n", v.quads, func(n expr.Expr) {
			column := v.column(n)
			if !v.whole(v.width, v.quads) {
				v.OpenIf(expr.Binary("<", column, expr.Uint(quads)))
				defer v.Close()
			}
			v.Assign(expr.At(sums, expr.Flat(place, quads, column)), v.sum(r, n))
		})
	})
	v.Close()
	v.Barrier()
	v.Blank()
	id := v.OpenResults(v.self, results)
	row, quad := v.Named("row", expr.Quotient(id, quads, results)), v.Named("quad", expr.Remainder(id, quads, results))
	v.joinOne(row, quad, subgroups, quads, sums, stats)
	v.Close()
}

// joinOne joins the subgroups' results for one vec4 of a row, and stores it. quads is the number of vec4 per row. sums
// and stats are the shared arrays of weighted sums, and of pairs of largest score and sum of weights.
func (v *flashVec) joinOne(row, quad expr.Expr, subgroups, quads int, sums, stats expr.Expr) {
	stat := func(g expr.Expr) expr.Expr { return expr.At(stats, expr.Flat(g, v.rows, row)) }
	best := v.Variable("float", "best", v.lowest())
	g := v.OpenLoop("g", expr.Of("0u"), expr.Uint(subgroups), 1)
	v.AtLeast(best, expr.Member(stat(g), "x"))
	v.Close()
	total := v.Variable("float", "sum", expr.Of("0.0"))
	// A kernel that stores only the log-sum-exp does not need the weighted sum.
	weighted := slices.ContainsFunc(v.K.Stores, func(s kernel.Store) bool { return s.Value.UsesAcc(accSums) })
	var sum expr.Expr
	if weighted {
		sum = v.Variable("vec4", "weighted", expr.Of("vec4(0.0)"))
	}
	g = v.OpenLoop("g", expr.Of("0u"), expr.Uint(subgroups), 1)
	_, correction := v.rebase(best, expr.Member(stat(g), "x"))
	v.Update(total, "+=", expr.Binary("*", correction, expr.Member(stat(g), "y")))
	if weighted {
		v.Update(sum, "+=", expr.Binary("*", correction,
			expr.At(sums, expr.Flat(expr.Flat(g, v.rows, row), quads, quad))))
	}
	v.Close()
	v.ifRow(row, func() {
		v.BindAcc(accTop, best)
		v.BindAcc(accTotal, total)
		v.storeOnce(expr.Binary("==", quad, expr.Of("0u")))
		v.storeQuad(quad, sum)
	})
}
