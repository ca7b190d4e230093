package glsl

// heldBlocks are the preloaded blocks of a pass, by the buffer of each B.
type heldBlocks map[*buffer]heldRuns

// heldRuns are the raw words of the quants of runs, and their scales.
type heldRuns struct {
	words, scales text
	count         int
}

// holdBlocks preloads the blocks of the first columns before the workgroup prepares the row. A no-op data dependency of
// the multiplication keeps compilers from sinking the loads to their use.
func (v *matVec) holdBlocks(rows resident) {
	v.held = heldBlocks{}
	count := v.s.ThreadN * len(rows)
	for _, o := range v.b {
		v.held[v.blockBuffer(o)] = heldRuns{v.array("uvec4", o.name+"_words", count),
			v.array(scaleType(v.run.Form), o.name+"_scale", count), count}
	}
	asked := v.variable("uint", "asked", primary("0u"))
	v.repeat("j", v.s.ThreadN, func(j text) {
		v.bindColumn(j)
		for i, run := range rows {
			for _, o := range v.b {
				b, s := v.blockBuffer(o), run.parts[0]
				held, slot := v.held[b], heldSlot(rows, i, j)
				words, scale := elementOf(held.words, count, slot), elementOf(held.scales, count, slot)
				at := v.variable("uint", "at", v.blockOf(o, s.block))
				v.assign(words, call(heldWords(v.emitter, b), at, s.e))
				v.assign(scale, call("scale_"+b.base, at, within(s.e, s.at)))
				if v.run.Form.Affine {
					scale = member(scale, "x")
				}
				v.line("%s ^= %s.x ^ %[2]s.y ^ %[2]s.z ^ %[2]s.w ^ floatBitsToUint(%[3]s);", asked, words, scale)
			}
		}
	})
	v.dependOn(asked)
}

// heldSlot is the slot of run i of column j among the preloaded runs.
func heldSlot(rows resident, i int, j text) text { return plus(times(j, len(rows)), uintLit(i)) }

// decodeHeld decodes the quants of a strip, and returns the variable's name.
func (v *matVec) decodeHeld(b *buffer, held heldRuns, at place) text {
	words, decode := elementOf(held.words, held.count, at.slot), heldQuants(v.emitter, b)
	name := v.array("uvec4", "quants", v.run.Quads/4)
	v.repeat("w", v.run.Quads/4, func(w text) {
		v.assign(elementOf(name, v.run.Quads/4, w), call(decode, words, w))
	})
	return name
}
