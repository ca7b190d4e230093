package glsl

import (
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// Attention with tiles that are stored step by step, as in matmul_steps.go. Queries and keys are stored along the
// contraction axis, and weights and values along the keys. An invocation then needs registers for one step only. So it
// can hold more scores, and it multiplies each vector from shared memory more often.
//
// Queries stay in shared memory. Keys and values have two stages: while invocations multiply a step or compute weights,
// they prefetch the next step into registers.

// fours prints the row number of an invocation's i-th row. An invocation has groups of four adjacent rows. apart
// invocations take turns with these groups.
func fours(first, i text, count, apart int) text {
	return plus(times(plus(first, times(quotient(i, 4, count), apart)), 4), remainder(i, 4, count))
}

// fourOf prints four neighbouring keys of an invocation's row i.
func (t *flashTile) fourOf(array text, i, four text) text {
	n := t.s.ThreadN / 4
	return elementOf(array, t.s.ThreadM*n, plus(times(i, n), four))
}

// flashSteps is an attention with tiles stored step by step.
type flashSteps struct {
	*flashTile
	stage                  int  // vectors of a stage
	tile                   text // two stages of keys or values, in shared memory
	nextKeys, nextValues   text // the registers of an invocation's prefetched vectors
	keyQuads, valueQuads   int  // vectors of a line of a step
	keyRounds, valueRounds int  // vectors of an invocation
}

// shareSteps declares the tiles. Keys and values use one tile in turn.
func (t *flashTile) shareSteps() {
	s := t.s
	t.qTile = t.share("vec4", "tile_q", schedule.FlashDepth(t.k, s)*schedule.StepPitch(s.TileM))
	t.kTile = t.share("vec4", "tile", 2*schedule.FlashStage(t.k, s))
	t.weights = t.share("vec4", "weights", s.TileN*schedule.StepPitch(s.TileM))
}

// overSteps steps over the keys, with tiles stored step by step.
func (t *flashTile) overSteps(first, end text) {
	s := t.s
	f := &flashSteps{flashTile: t, stage: schedule.FlashStage(t.k, s), tile: t.kTile,
		keyQuads: s.TileK / 4, valueQuads: schedule.ValueQuads(t.width)}
	f.keyRounds = (s.TileN*f.keyQuads + s.Workgroup - 1) / s.Workgroup
	f.valueRounds = (s.TileK*f.valueQuads + s.Workgroup - 1) / s.Workgroup
	f.nextKeys = f.array("vec4", "next_keys", f.keyRounds)
	f.nextValues = f.array("vec4", "next_values", f.valueRounds)
	f.stageQueries()
	f.line("")
	key0 := f.keyLoop(first, end, s.TileN)
	f.score = f.array("vec4", "score", s.ThreadM*s.ThreadN/4)
	f.repeat("i", s.ThreadM*s.ThreadN/4, func(i text) {
		f.assign(elementOf(f.score, s.ThreadM*s.ThreadN/4, i), primary("vec4(0.0)"))
	})
	f.fetchKeys(key0)(primary("0u"))
	f.putKeys(primary("0u"))
	f.barrier()
	f.openScope()
	f.ahead("d", ir.D(schedule.FlashDepth(f.k, s)), s.TileK,
		tileStages{f.stage, f.fetchKeys(key0), f.putKeys, f.multiplyKeys})
	f.close()

	f.comment("The first values are on their way while scores become weights.")
	f.fetchValues(key0, end)(primary("0u"))
	f.weigh(key0)
	f.keepWeights()
	f.putValues(primary("0u"))
	f.barrier()
	f.openScope()
	f.ahead("v", ir.D(s.TileN), s.TileK,
		tileStages{f.stage, f.fetchValues(key0, end), f.putValues, f.multiplyValues})
	f.close()
	f.close()
}

// stageQueries stores the tile's queries in shared memory.
func (f *flashSteps) stageQueries() {
	s, over := f.s, f.dotAxis()
	f.comment("Stage queries.")
	d0 := f.loop("d0", primary("0u"), uintLit(schedule.FlashDepth(f.k, s)), s.TileK)
	f.flashTile.stage(s.TileM, f.keyQuads, func(line, quad text) {
		f.bindRow(line)
		v := f.quad(f.a.Q, over, plus(d0, times(quad, 4)), "q4", schedule.DivisibleBy(over.extent, s.TileK))
		f.takeApart(f.qTile, plus(d0, times(quad, 4)), primary("0u"), line, s.TileM, v)
	})
	f.close()
}

// takeApart stores a quad along the contraction axis in four steps of a tile with the given number of lines.
func (f *flashSteps) takeApart(tile, step, from, line text, lines int, v text) {
	if !isPlain(v) {
		v = f.variable("vec4", "quad4", v)
	}
	f.repeat("depth", 4, func(depth text) {
		place := plus(times(plus(step, depth), schedule.StepPitch(lines)), quotient(line, 4, lines))
		f.assign(elementAt(elementAt(tile, plus(from, place)), remainder(line, 4, lines)), elementAt(v, depth))
	})
}

// fetchKeys loads a step of the keys from key0 on.
func (f *flashSteps) fetchKeys(key0 text) func(d0 text) {
	return func(d0 text) {
		over := f.dotAxis()
		f.eachVector(f.s.TileN, f.keyQuads, func(i, line, quad text) {
			f.bindAxis(f.ax.Key, f.variable("uint", "key", f.limit(plus(key0, line), f.k.Fold, f.s.TileN)))
			v := f.quad(f.a.K, over, plus(d0, times(quad, 4)), "k4", schedule.DivisibleBy(over.extent, f.s.TileK))
			f.assign(elementOf(f.nextKeys, f.keyRounds, i), v)
		})
	}
}

func (f *flashSteps) putKeys(stage text) {
	f.eachVector(f.s.TileN, f.keyQuads, func(i, line, quad text) {
		f.takeApart(f.tile, times(quad, 4), stage, line, f.s.TileN, elementOf(f.nextKeys, f.keyRounds, i))
	})
}

// fetchValues loads a step of the values from key0 on. Values past the last key that any row sees become 0.
func (f *flashSteps) fetchValues(key0, end text) func(v0 text) {
	return func(v0 text) {
		f.eachVector(f.s.TileK, f.valueQuads, func(i, line, quad text) {
			next := elementOf(f.nextValues, f.valueRounds, i)
			key := f.variable("uint", "key", plus(plus(key0, v0), line))
			f.assign(next, primary("vec4(0.0)"))
			f.openIf(binary("<", key, end))
			f.bindAxis(f.ax.Key, key)
			f.assign(next, f.quad(f.a.V, f.valueAxis(), times(quad, 4), "v4", true))
			f.close()
		})
	}
}

func (f *flashSteps) putValues(stage text) {
	f.eachVector(f.s.TileK, f.valueQuads, func(i, line, quad text) {
		f.assign(elementAt(f.tile, plus(stage, plus(times(line, f.valueQuads), quad))),
			elementOf(f.nextValues, f.valueRounds, i))
	})
}

// eachVector writes body for an invocation's vectors of a step of lines.
func (f *flashSteps) eachVector(lines, quads int, body func(i, line, quad text)) {
	total := lines * quads
	f.eachSlot(f.self, total, f.s.Workgroup, func(i, slot text) {
		body(i, f.named("line", quotient(slot, quads, total)), f.named("quad", remainder(slot, quads, total)))
	})
}

// keepWeights stores an invocation's weights in shared memory, four adjacent rows in a vector.
func (f *flashSteps) keepWeights() {
	s := f.s
	f.repeat("i", s.ThreadM/4, func(i text) {
		f.repeat("j", s.ThreadN, func(j text) {
			row := func(n int) text { return f.of(f.score, plus(times(i, 4), uintLit(n)), j) }
			place := plus(times(f.keyOf(j), schedule.StepPitch(s.TileM)), plus(f.row, times(i, f.strip)))
			f.assign(elementAt(f.weights, place), call("vec4", row(0), row(1), row(2), row(3)))
		})
	})
}

// multiplyKeys multiplies a step of queries and keys, and adds to the scores.
func (f *flashSteps) multiplyKeys(d0, stage text) {
	s := f.s
	f.multiplyStep(d0, "queries4", f.qTile, "keys4", s.ThreadN/4, func(depth, j text) text {
		return plus(stage, plus(times(depth, schedule.StepPitch(s.TileN)), plus(f.lane, times(j, f.lanes))))
	}, func(i, j text) text { return f.fourOf(f.score, i, j) })
}

// multiplyValues multiplies a step of weights and values, and adds to the sums.
func (f *flashSteps) multiplyValues(v0, stage text) {
	f.multiplyStep(v0, "weights4", f.weights, "values4", f.quads, func(depth, n text) text {
		column := f.column(n)
		if f.valueQuads%f.lanes != 0 {
			column = call("min", column, uintLit(f.valueQuads-1))
		}
		return plus(stage, plus(times(depth, f.valueQuads), column))
	}, f.sum)
}

// multiplyStep multiplies groups of four rows by groups of four columns, and adds to the sums.
func (f *flashSteps) multiplyStep(first text, name string, rows text, otherName string, others int,
	at func(depth, j text) text,
	sum func(i, j text) text) {
	s := f.s
	f.line("")
	f.repeat("depth", s.TileK, func(depth text) {
		left := f.array("vec4", name, s.ThreadM/4)
		f.repeat("i", s.ThreadM/4, func(i text) {
			place := plus(times(plus(first, depth), schedule.StepPitch(s.TileM)), plus(f.row, times(i, f.strip)))
			f.line("%s = %s[%s];", elementOf(left, s.ThreadM/4, i), rows, place)
		})
		right := f.array("vec4", otherName, others)
		f.repeat("j", others, func(j text) {
			f.line("%s = %s[%s];", elementOf(right, others, j), f.tile, at(depth, j))
		})
		f.repeat("i", s.ThreadM, func(i text) {
			row := elementAt(elementOf(left, s.ThreadM/4, quotient(i, 4, s.ThreadM)), remainder(i, 4, s.ThreadM))
			f.repeat("j", others, func(j text) {
				f.addProduct("vec4", sum(i, j), call("vec4", row), elementOf(right, others, j))
			})
		})
	})
}
