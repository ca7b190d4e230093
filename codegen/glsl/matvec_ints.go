package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
)

// declareOnes declares the bytes that a dot product with adds up others. They are no constant: drivers make bytewise
// sums of dot products with one, which is slow (M-matvec-blocks).
func (v *matVec) declareOnes() {
	v.line("int ones = 0x01010101 + int(gl_NumWorkGroups.x >> 31); // + 0")
}

// readIntStrip reads every row of an A along a strip. It returns the names of
// the bytes, four to an int, of their sums where the format needs them, and of
// their scales.
func (v *matVec) readIntStrip(r blockRun, o *matOperand, k text) (rows, sums, scales string) {
	s := v.s
	bytes, scale, _ := v.k.ByteRows(o.value)
	rows, sums, scales = v.declareIntStrip(r, o)
	v.repeat("i", s.ThreadM, func(i text) {
		v.bindRow(i)
		v.bindAxis(v.fold, k)
		v.plan([]*kernel.Expr{scale}, []kernel.Index{bytes.Index})
		v.line("%s = %s;", elementOf(scales, s.ThreadM, i).s, v.value(scale).s)
		v.startIntSum(sums, i)
		v.readWords(r, v.buffers[bytes.Bind], v.named("word", binary("/", v.indexText(bytes.Index), uintLit(4))), func(t, word text) {
			x := elementOf(rows, s.ThreadM*r.Quads, plus(times(i, r.Quads), t))
			v.line("%s = int(%s);", x.s, word.s)
			v.addIntSum(sums, i, x)
		})
		v.pairStrip(r, rows, i)
	})
	return rows, sums, scales
}

// declareIntStrip declares what readIntStrip reads.
func (v *matVec) declareIntStrip(r blockRun, o *matOperand) (rows, sums, scales string) {
	rows, scales = v.fresh(v.scope, o.name+"_strip"), v.fresh(v.scope, o.name+"_scale")
	v.line("int %s%s;", rows, arraySize(v.s.ThreadM*r.Quads))
	v.line("float %s%s;", scales, arraySize(v.s.ThreadM))
	if r.Form.NeedsSums() {
		sums = v.array("int", o.name+"_sum", v.s.ThreadM)
	}
	return rows, sums, scales
}

// startIntSum makes the sum of row i nothing, and addIntSum adds four bytes to
// it, where sums are needed.
func (v *matVec) startIntSum(sums string, i text) {
	if sums != "" {
		v.line("%s = 0;", elementOf(sums, v.s.ThreadM, i).s)
	}
}

func (v *matVec) addIntSum(sums string, i, bytes text) {
	if sums != "" {
		v.line("%s += dotPacked4x8EXT(%s, ones);", elementOf(sums, v.s.ThreadM, i).s, bytes.s)
	}
}

// readWords reads the words of a strip from a buffer of bytes, four at a time if
// there are as many.
func (v *matVec) readWords(r blockRun, b *buffer, first text, use func(t, word text)) {
	v.need(v.storageNeeds(b)...)
	if r.Quads%4 != 0 {
		b.units[4] = true
		v.repeat("t", r.Quads, func(t text) { use(t, primary(b.name+"_words["+plus(first, t).s+"]")) })
		return
	}
	b.units[16] = true
	v.repeat("w", r.Quads/4, func(w text) {
		four := v.variable("uvec4", "four", primary(b.name+"_quads["+plus(binary("/", first, uintLit(4)), w).s+"]"))
		v.repeat("n", 4, func(n text) { use(plus(times(w, 4), n), primary(four+"["+n.s+"]")) })
	})
}

// addIntScaled adds the dot product of a strip, in integers, to a sum:
//
//	sum(x * a * scale * (q - bias)) = a * scale * (sum(x * q) - bias * sum(x))
func (v *matVec) addIntScaled(r blockRun, sum text, scale string, dot, x, a text) {
	if r.Form.Halved {
		dot = binary("*", primary("2"), dot)
	}
	switch {
	case r.Form.Affine:
		v.line("%s += %s * (%s.x * float(%s) + %s.y * float(%s));", sum.s, a.s, scale, dot.s, scale, x.s)
	case r.Form.Bias != 0:
		dot = binary("-", dot, binary("*", intLit(int64(r.Form.Bias)), x))
		v.line("%s += %s * %s * float(%s);", sum.s, a.s, scale, dot.s)
	default:
		v.line("%s += %s * %s * float(%s);", sum.s, a.s, scale, dot.s)
	}
}
