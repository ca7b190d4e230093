package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// roundedRows are rows of A in shared memory, as bytes with a scale for every
// group of them.
type roundedRows struct {
	bytes, scales string // arrays of sixteen bytes, and of floats, row after row
}

// roundedQuads is how many neighbouring quads an invocation rounds at a time: with
// one, eight invocations find the largest of a group in three exchanges, and each
// divides by it; with two, four do in two.
const roundedQuads = 2

// ownRows are the quads of rows that an invocation has read and not yet rounded.
type ownRows map[*matOperand]string

// readOwnRows asks for what an invocation rounds of a row, ahead of what else a
// workgroup makes ready.
func (v *matVec) readOwnRows(r blockRun) ownRows {
	own := ownRows{}
	if r.rounds && v.s.ThreadM == 1 {
		for _, o := range v.a {
			own[o] = v.readShare(o, primary("0u"))
		}
	}
	return own
}

// roundOwnRows is roundRows, if a run is by rows that are rounded.
func (v *matVec) roundOwnRows(r blockRun, own ownRows) {
	if r.rounds {
		v.roundRows(own)
	}
}

// shares returns how many times roundedQuads of a row there are, and how many of
// those are an invocation's.
func (v *matVec) shares() (all, each int) {
	all = int(v.k.Fold.Add) / 4 / roundedQuads
	return all, (all + v.s.Workgroup - 1) / v.s.Workgroup
}

// readShare reads the quads of row i that an invocation rounds.
func (v *matVec) readShare(o *matOperand, i text) string {
	all, each := v.shares()
	own := v.array("vec4", "own", each*roundedQuads)
	v.bindRow(i)
	v.eachQuad(all, func(q, n text) {
		v.repeat("h", roundedQuads, func(h text) {
			quad := plus(times(n, roundedQuads), h)
			v.line("%s = %s;", elementOf(own, each*roundedQuads, plus(times(q, roundedQuads), h)).s, v.quad(o, times(quad, 4), true).s)
		})
	})
	return own
}

// roundRows rounds all rows to bytes, groups of kernel.RoundedGroup to 255 steps of the
// largest of their elements. Neighbours read neighbouring quads, all of theirs
// before they round the first, unless they have been read.
func (v *matVec) roundRows(ready ownRows) {
	s, depth := v.s, int(v.k.Fold.Add)
	v.rounded = map[*matOperand]roundedRows{}
	for _, o := range v.a {
		rows := roundedRows{v.share("uvec4", o.name+"_bytes", s.ThreadM*depth/16), v.share("float", o.name+"_scales", s.ThreadM*depth/kernel.RoundedGroup)}
		v.rounded[o] = rows
		v.repeat("i", s.ThreadM, func(i text) {
			own := ready[o]
			if own == "" {
				own = v.readShare(o, i)
			}
			all, each := v.shares()
			v.eachQuad(all, func(q, n text) {
				x := func(h text) text { return elementOf(own, each*roundedQuads, plus(times(q, roundedQuads), h)) }
				v.roundShare(rows, x, n, plus(times(i, all), n))
			})
		})
	}
	v.line("barrier();")
}

// roundShare rounds share n of a row, of which x prints the quads, and leaves it
// as words of the bytes, from those of a place on. The lanes of a group find its
// largest element together, as bits, of which those of NaN are the largest.
func (v *matVec) roundShare(rows roundedRows, x func(h text) text, n, place text) {
	perGroup := kernel.RoundedGroup / 4 / roundedQuads
	size := v.variable("uvec4", "size", primary("uvec4(0u)"))
	v.repeat("h", roundedQuads, func(h text) { v.line("%s = max(%s, floatBitsToUint(%s) & 0x7fffffffu);", size, size, x(h).s) })
	top := v.variable("uint", "top", primary(fmt.Sprintf("max(max(%s.x, %s.y), max(%s.z, %s.w))", size, size, size, size)))
	for mask := 1; mask < perGroup; mask *= 2 {
		v.line("%s = max(%s, subgroupShuffleXor(%s, %du));", top, top, top, mask)
	}
	// The inverse is of the scale: that of an element above 2^126 would be less than
	// devices keep. Of zeros any number will do.
	scale := v.variable("float", "scale", binary("*", call("uintBitsToFloat", primary(top)), primary(finiteLit(float64(float32(1.0/127)), 32, "").s)))
	steps := v.variable("float", "steps", primary(fmt.Sprintf("1.0 / %s", scale)))
	v.repeat("h", roundedQuads, func(h text) {
		word := plus(times(place, roundedQuads), h)
		v.line("%s[%s][%s] = round_bytes(%s * %s);", rows.bytes, binary("/", word, uintLit(4)).s, binary("%", word, uintLit(4)).s, x(h).s, steps)
	})
	v.openGuard("if (%s)", binary("==", binary("%", n, uintLit(int64(perGroup))), primary("0u")).s)
	v.line("%s[%s] = %s;", rows.scales, binary("/", place, uintLit(int64(perGroup))).s, scale)
	v.close()
}

// readRounded is readIntStrip of rows that roundRows has rounded.
func (v *matVec) readRounded(r blockRun, o *matOperand, k text) (rows, sums, scales string) {
	s, depth := v.s, int(v.k.Fold.Add)
	from := v.rounded[o]
	rows, sums, scales = v.declareIntStrip(r, o)
	v.repeat("i", s.ThreadM, func(i text) {
		group := plus(times(i, depth/kernel.RoundedGroup), binary("/", k, uintLit(kernel.RoundedGroup)))
		v.line("%s = %s[%s];", elementOf(scales, s.ThreadM, i).s, from.scales, group.s)
		v.startIntSum(sums, i)
		v.readRoundedWords(r, from.bytes, plus(times(i, depth/4), binary("/", k, uintLit(4))), func(t, word text) {
			x := elementOf(rows, s.ThreadM*r.Quads, plus(times(i, r.Quads), t))
			v.line("%s = int(%s);", x.s, word.s)
			v.addIntSum(sums, i, x)
		})
		v.pairStrip(r, rows, i)
	})
	return rows, sums, scales
}

// readRoundedWords reads the words of a strip from the bytes that roundRows has
// left, four at a time if there are as many.
func (v *matVec) readRoundedWords(r blockRun, bytes string, first text, use func(t, word text)) {
	if r.Quads%4 != 0 {
		first = v.named("word", first)
		v.repeat("t", r.Quads, func(t text) {
			word := primary(v.variable("uint", "word", plus(first, t)))
			use(t, primary(bytes+"["+binary("/", word, uintLit(4)).s+"]["+binary("%", word, uintLit(4)).s+"]"))
		})
		return
	}
	first = v.named("quad", binary("/", first, uintLit(4)))
	v.repeat("w", r.Quads/4, func(w text) {
		four := v.variable("uvec4", "four", primary(bytes+"["+plus(first, w).s+"]"))
		v.repeat("n", 4, func(n text) { use(plus(times(w, 4), n), primary(four+"["+n.s+"]")) })
	})
}
