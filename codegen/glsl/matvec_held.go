package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/target"
)

// heldRows are the runs of A that an invocation meets the blocks of all its
// columns with. They stay in registers while the columns take turns, so that
// nothing but B is read then.
type heldRows struct {
	run   blockRun
	steps []heldStep
}

// heldStep is one run along the contraction.
type heldStep struct {
	inside string // whether there is such a run, where it is in question
	strips []strip
	fields map[*matOperand]fieldRow // of a run with fields, whose first strip says where it is
}

// takeTurns computes the columns of a workgroup some at a time, one after
// another.
func (v *matVec) takeTurns() {
	s := v.s
	run := v.blockRun()
	early := v.prefetch(run)
	v.shareTablesOf(run)
	var held *heldRows
	if s.TileK > 0 {
		held = v.holdRows(run)
	}
	nothing := v.awaitEarly(early)
	v.line("")
	v.turn = v.loop("turn", primary("0u"), uintLit(int64(s.TileN)), v.groups*s.ThreadN)
	v.declareSums(s.ThreadM * s.ThreadN)
	if held != nil {
		v.accumulateHeld(held)
		if nothing.s != "" {
			v.line("%s += %s;", v.sumsAt(primary("0u"))[0].s, nothing.s)
		}
		v.liftSums(run)
	} else {
		v.accumulateAny(run)
	}
	shared := v.shareParts()
	v.close()
	v.turn = text{}
	v.meet(shared)
}

// holdRows reads the runs that an invocation meets of all rows.
func (v *matVec) holdRows(r blockRun) *heldRows {
	v.prepareBlocks(r)
	v.line("")
	held := &heldRows{run: r}
	v.placeHeld(held)
	if v.s.Ahead > 0 {
		v.askAhead(held)
	}
	v.readHeld(held)
	return held
}

// readHeld reads the strips, each way rows can come.
func (v *matVec) readHeld(held *heldRows) {
	if held.run.rounds {
		v.roundRows(nil)
	}
	if tile := target.HeldTile(v.k, v.s); tile > 0 {
		v.holdThroughTile(held, tile)
		return
	}
	if held.run.fields {
		for i := range held.steps {
			held.steps[i].fields = v.readFieldRows(held.run, held.steps[i].strips[0].k)
		}
		return
	}
	held.each(func(s *strip) { s.rows, s.sums, s.scales = v.readRowStrips(held.run, s.k) })
}

// askAhead asks for what the first turn reads, a word of every sixteen bytes: it is
// on its way to the cache while the row is made ready, and takes few registers.
// Nothing comes of it, which only the device can tell.
func (v *matVec) askAhead(held *heldRows) {
	asked := v.variable("uint", "asked", primary("0u"))
	v.repeat("j", v.s.ThreadN, func(j text) {
		v.bindColumn(j)
		held.each(func(s *strip) {
			for _, o := range v.b {
				b, at := v.blockBuffer(o), primary(v.variable("uint", "at", v.blockOf(o, s.block)))
				for t := 0; t < held.run.Quads; t += 4 {
					v.line("%s ^= %s;", asked, call("quants_"+b.base, v.quadArgs(held.run, at, *s, uintLit(int64(t)))...).s)
				}
				if b.DType.BlockElems() > kernel.RoundedGroup { // whose scales take longer to make than to wait for
					continue
				}
				scale := call("scale_"+b.base, at, within(s.e, s.at))
				if held.run.Form.Affine {
					scale.s += ".x"
				}
				v.line("%s ^= floatBitsToUint(%s);", asked, scale.s)
			}
		})
	})
	v.line("ones += int(gl_NumWorkGroups.x >> 31 & %s); // + 0", asked)
}

// placeHeld says where the strips are that an invocation holds.
func (v *matVec) placeHeld(held *heldRows) {
	r, lanes := held.run, v.s.LanesPerRow
	steps, _ := v.k.Fold.Quo(int64(r.Elems))
	for first := int64(0); first < steps.Add; first += int64(lanes) {
		step := plus(v.part, uintLit(first))
		h := heldStep{}
		if first+int64(lanes) > steps.Add {
			step = primary(v.variable("uint", "step", step))
			h.inside = v.variable("bool", "inside", binary("<", step, uintLit(steps.Add)))
			step = call("min", step, uintLit(steps.Add-1))
		}
		block, e, k := v.placeStep(r, v.named("step", step), int(steps.Add))
		for p := range r.Strips {
			at := uintLit(int64(p * r.StripStride()))
			h.strips = append(h.strips, strip{block: block, e: e, at: at, p: uintLit(int64(p)), k: plus(k, at)})
		}
		held.steps = append(held.steps, h)
	}
}

// each calls do for every strip.
func (h *heldRows) each(do func(*strip)) {
	for i := range h.steps {
		for j := range h.steps[i].strips {
			do(&h.steps[i].strips[j])
		}
	}
}

// holdThroughTile reads the strips by way of shared memory, which takes that many
// quads at a time: neighbours then read neighbouring quads of the rows, all of
// theirs before the first is passed on. Read as such, strips are far apart and take longer (M-matvec-blocks).
func (v *matVec) holdThroughTile(held *heldRows, tile int) {
	s, r := v.s, held.run
	held.each(func(st *strip) {
		st.rows, st.sums = map[*matOperand]string{}, map[*matOperand]string{}
		for _, o := range v.a {
			st.rows[o], st.sums[o] = v.declareStrip(r, o)
		}
	})
	array := v.share("vec4", "tile", tile)
	quads, share := int(v.k.Fold.Add)/4, tile/s.Workgroup
	for _, o := range v.a {
		v.repeat("i", s.ThreadM, func(i text) {
			tiles := (quads + tile - 1) / tile
			own, each := v.readQuads(o, i, quads, tiles*share)
			v.repeat("c", tiles, func(c text) {
				v.repeat("q", share, func(q text) {
					place := primary(v.variable("uint", "place", plus(v.self, times(q, s.Workgroup))))
					v.line("%s[%s] = %s;", array, spread(place).s, elementOf(own, each, plus(times(c, share), q)).s)
				})
				v.line("barrier();")
				held.each(func(st *strip) { v.takeStrip(r, o, st, array, i, c, tile) })
				v.line("barrier();")
			})
		})
	}
}

// takeStrip takes a strip of row i of an A from tile number c, if it is there.
func (v *matVec) takeStrip(r blockRun, o *matOperand, st *strip, array string, i, c text, tile int) {
	first := binary("/", st.k, uintLit(4))
	v.openGuard("if (%s)", binary("==", binary("/", first, uintLit(int64(tile))), c).s)
	at := primary(v.variable("uint", "at", binary("%", first, uintLit(int64(tile)))))
	v.repeat("t", r.Quads, func(t text) {
		x := elementOf(st.rows[o], v.s.ThreadM*r.Quads, plus(times(i, r.Quads), t))
		v.line("%s = %s[%s];", x.s, array, spread(within(at, t)).s)
		if sum := st.sums[o]; sum != "" {
			v.line("%s += dot(%s, vec4(1.0));", elementOf(sum, v.s.ThreadM, i).s, x.s)
		}
	})
	v.weighSum(r, st.sums[o], i)
	v.close()
}

// accumulateHeld is accumulateBlocks with rows that are in registers.
func (v *matVec) accumulateHeld(held *heldRows) {
	v.line("")
	v.repeat("j", v.s.ThreadN, func(j text) {
		v.bindColumn(j)
		for _, step := range held.steps {
			v.openIf(step.inside)
			if held.run.fields {
				v.addFields(held.run, step.strips[0].block, step.strips[0].e, j, step.fields)
				v.close()
				continue
			}
			for _, s := range step.strips {
				s.j = j
				v.openScope()
				v.addStrip(held.run, s)
				v.close()
			}
			v.close()
		}
	})
}

// readRowStrips reads every row of all A along a strip.
func (v *matVec) readRowStrips(r blockRun, k text) (rows, sums, scales map[*matOperand]string) {
	rows, sums, scales = map[*matOperand]string{}, map[*matOperand]string{}, map[*matOperand]string{}
	for _, o := range v.a {
		switch {
		case r.rounds:
			rows[o], sums[o], scales[o] = v.readRounded(r, o, k)
		case r.ints:
			rows[o], sums[o], scales[o] = v.readIntStrip(r, o, k)
		default:
			rows[o], sums[o] = v.readStrip(r, o, k)
		}
	}
	return rows, sums, scales
}

// readQuads reads the quads of row i of an A, every invocation its share of them,
// to an array of so many, at least room.
func (v *matVec) readQuads(o *matOperand, i text, quads, room int) (own string, each int) {
	each = max((quads+v.s.Workgroup-1)/v.s.Workgroup, room)
	own = v.array("vec4", "own", each)
	v.bindRow(i)
	v.eachQuad(quads, func(q, n text) { v.line("%s = %s;", elementOf(own, each, q).s, v.quad(o, times(n, 4), true).s) })
	return own, each
}

// eachQuad writes body for every quad of a row that is an invocation's: its own
// number q, and n of the row.
func (v *matVec) eachQuad(quads int, body func(q, n text)) {
	lanes := v.s.Workgroup
	v.repeat("q", (quads+lanes-1)/lanes, func(q text) {
		n := primary(v.variable("uint", "n", plus(v.self, times(q, lanes))))
		v.openBelow(quads%lanes != 0, n, uintLit(int64(quads)))
		body(q, n)
		v.close()
	})
}
