package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/blocks"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

// stripReader reads the quants of a strip, the elements of a block that share a scale. It sums up quant times row
// element over the strip, and then scales the sums.
type stripReader struct {
	v *matVec
	// addDots multiplies a strip of a block by all rows, and adds the unscaled results to dots.
	addDots func(b *emit.Buffer, block expr.Expr, at position, dots, rows expr.Array)
}

func (r *stripReader) parts() int { return r.v.run.Strips }

// prepare defines the functions that read the parts of a block.
func (r *stripReader) prepare() {
	for _, o := range r.v.B {
		blocks.Parts(r.v.Emitter, r.v.blockBuffer(o))
	}
	r.v.prepareArithmetic()
}

func (r *stripReader) activations(at position) activations {
	return r.v.ofRows(func(o *matmul.Operand) rowArrays { return r.v.rows.strip(o, at.k) })
}

// prepareArithmetic adds the GLSL functions that multiply quants by rows.
func (v *matVec) prepareArithmetic() {
	switch {
	case v.S.IntDot:
		v.Need(emit.NeedIntDot)
		switch {
		case v.S.Digits > 0:
			v.Helper("digits_of", "float")
			v.Helper("pack_bytes", "ivec4")
		case v.S.RoundRows:
			v.Helper("round_bytes", "float")
			v.Helper("byte_steps", "float")
		}
		if v.run.Form.NeedsSums() {
			v.declareOnes()
		}
	case !v.run.Form.Levels:
		v.Helper(v.unpack(), "float")
	}
}

// Numbers in GLSL.
const (
	twoTo24       = "16777216.0"  // the factor between a quant and the quant unpacked as a subnormal f16 number
	infinityBits  = "0x7f800000u" // of an f32; the bits of NaN are larger
	nanBits       = "0x7fc00000u"
	magnitudeBits = "0x7fffffffu" // masks all bits of an f32 except the sign
	topOfEachByte = "0x80808080u" // flipping them adds 128 to four signed bytes
)

// subnormal reports whether quants are unpacked as subnormal f16 numbers, which are 2^-24 times their value.
func (v *matVec) subnormal() bool { return v.S.Subnormals && !v.S.IntDot }

// smallSums reports whether the sums have this factor of 2^-24 too, until scaleUpSums removes it.
func (v *matVec) smallSums() bool { return v.subnormal() && v.S.Chained }

// biasSubnormals adjusts the bias, because unpacking to subnormals adds 128 to signed quants.
func (v *matVec) biasSubnormals() {
	if f := &v.run.Form; v.subnormal() && f.Signed {
		f.Bias += 128
		if f.Halved {
			f.Bias += 128
		}
	}
}

// scaleUpSums multiplies the sums by 2^24 if smallSums scaled them down.
func (v *matVec) scaleUpSums() {
	if !v.smallSums() {
		return
	}
	v.Repeat("i", v.S.ThreadM*v.S.ThreadN, func(i expr.Expr) {
		for _, sum := range v.SumsAt(i) {
			v.Update(sum, "*=", expr.Of(twoTo24))
		}
	})
}

// unpack is the GLSL function that unpacks four quants in a word to a vec4.
func (v *matVec) unpack() string {
	switch {
	case v.subnormal() && v.run.Form.Signed:
		return "bytes_above_subnormal"
	case v.run.Form.Signed:
		return "bytes_signed"
	case v.subnormal():
		return "bytes_subnormal"
	}
	return "bytes_unsigned"
}

// addColumn implements bReader: it multiplies the rows by the quants of a strip of column j, and the sums by the
// strip's scale.
func (r *stripReader) addColumn(at position, rows activations, j expr.Expr) {
	typ, zero := "float", expr.Of("0.0")
	if r.v.S.IntDot {
		typ, zero = "int", expr.Int(0)
	}
	for n, p := range r.v.MatMuls {
		row := rows[p.A]
		count := r.v.S.ThreadM * r.v.S.RowBytes()
		name := matmul.Numbered("dots", n, len(r.v.MatMuls))
		dots := r.v.Filled(typ, name, count, "i", func(i expr.Expr) expr.Expr {
			// With smallSums the row sums are multiplied by -bias already, so dots can begin with them.
			if f := r.v.run.Form; r.v.smallSums() && !f.Affine && f.NeedsSums() {
				return row.sums.At(i)
			}
			return zero
		})
		block := r.v.Variable("uint", matmul.Numbered("at", n, len(r.v.MatMuls)), r.v.blockOf(p.B, at.block))
		r.addDots(r.v.blockBuffer(p.B), block, at, dots, row.elements)
		if digits := r.v.S.RowBytes(); digits > 1 {
			dots = r.v.sumDigits(dots, digits)
		}
		r.v.addScaled(at, n, j, block, dots, row)
	}
}

// addQuads multiplies the quads of a strip by all rows, and adds to dots.
func (r *stripReader) addQuads(b *emit.Buffer, block expr.Expr, at position, dots, rows expr.Array) {
	var loaded expr.Array // all quants of the strip, if one load or function call gets several quads
	switch {
	case r.v.run.Wide(b.Binding):
		loaded = r.v.readWide(b, block, at)
	case r.v.run.Pairs(b.Binding):
		loaded = expr.Variable(r.v.Variable("uvec2", "quants", expr.Call(blocks.PairQuants(r.v.Emitter, b),
			r.v.quadArgs(block, at, expr.Of("0u"))...)))
	}
	r.v.Repeat("t", r.v.run.Quads, func(t expr.Expr) {
		var quad dotFactor
		switch {
		case r.v.run.Form.Levels:
			quad = r.v.floatFactor(expr.Call("levels_"+b.Base, r.v.quadArgs(block, at, t)...))
		case loaded.Len > 0:
			four := loaded.At(expr.Quotient(t, 4, r.v.run.Quads))
			quad = r.v.bytesFactor(expr.At(four, expr.Remainder(t, 4, r.v.run.Quads)))
		default:
			quad = r.v.bytesFactor(expr.Call("quants_"+b.Base, r.v.quadArgs(block, at, t)...))
		}
		r.v.eachDot(t, dots, rows, quad)
	})
}

// eachDot multiplies quad t of a strip by every row, or by every digit of the only row, and adds the products to dots.
func (v *matVec) eachDot(t expr.Expr, dots, rows expr.Array, quad dotFactor) {
	count, each := v.S.ThreadM, "i"
	if v.S.RowBytes() > 1 {
		count, each = v.S.RowBytes(), "digit"
	}
	v.Repeat(each, count, func(i expr.Expr) {
		x, sum := rows.At(expr.Flat(i, v.run.Quads, t)), dots.At(i)
		v.Assign(sum, quad.dotOnto(sum, x))
	})
}

// sumDigits adds up the sums of a row's digits, each times its weight, and returns the total.
func (v *matVec) sumDigits(dots expr.Array, digits int) expr.Array {
	sum := dots.At(expr.Of("0u"))
	for n := 1; n < digits; n++ {
		digit := expr.Uint(n)
		sum = expr.Binary("+", sum, v.atDigit(dots.At(digit), digit))
	}
	return expr.Variable(v.Variable("int", "whole", sum))
}

// quadOfStrip returns quad t of row i of a strip: a vec4, or an int with four int8 elements.
func (v *matVec) quadOfStrip(rows expr.Array, i, t expr.Expr) expr.Expr {
	return rows.At(expr.Flat(i, v.rowWords(), t))
}

// dotFactor is a quad of B, as a factor of dot products with quads of rows.
type dotFactor struct {
	function string    // the GLSL function that multiplies two quads; dot_onto also adds the sum
	quad     expr.Expr // a vec4, or four int8 in a word
}

// dotOnto returns sum plus the dot product with x, a quad of a row.
func (f dotFactor) dotOnto(sum, x expr.Expr) expr.Expr {
	if f.function == "dot_onto" {
		return expr.Call(f.function, sum, f.quad, x)
	}
	return expr.Binary("+", sum, expr.Call(f.function, f.quad, x))
}

// bytesFactor returns the factor for four quants in the bytes of a word. It unpacks them if rows are floats.
func (v *matVec) bytesFactor(quants expr.Expr) dotFactor {
	if !v.S.IntDot {
		return v.floatFactor(expr.Call(v.unpack(), quants))
	}
	return dotFactor{"dotPacked4x8EXT", v.Variable("int", "bytes", expr.Call("int", quants))}
}

// floatFactor returns the factor for a vec4 of decoded quants.
func (v *matVec) floatFactor(floats expr.Expr) dotFactor {
	levels := v.Variable("vec4", "levels", floats)
	if !v.S.Chained {
		return dotFactor{"dot", levels}
	}
	v.Helper("dot_onto", "float")
	return dotFactor{"dot_onto", levels}
}

// readWide reads the quants of a strip 16 bytes at a time, from memory or from the preloaded words. It returns a uvec4
// variable, or an array of uvec4 for more than four quads.
func (v *matVec) readWide(b *emit.Buffer, block expr.Expr, at position) expr.Array {
	if early, ok := v.preload[b]; ok {
		return v.Filled("uvec4", "quants", v.run.Quads/4, "w", func(w expr.Expr) expr.Expr {
			return expr.Call(blocks.FieldQuants(v.Emitter, b), early.words.At(at.slot), w)
		})
	}
	if v.run.Quads == 4 {
		return expr.Variable(v.Variable("uvec4", "quants", v.wideCall(b, block, at, expr.Of("0u"))))
	}
	return v.Filled("uvec4", "quants", v.run.Quads/4, "w", func(w expr.Expr) expr.Expr {
		return v.wideCall(b, block, at, w)
	})
}

// wideCall returns the call that reads quads 4w to 4w+3 of a strip.
func (v *matVec) wideCall(b *emit.Buffer, block expr.Expr, at position, w expr.Expr) expr.Expr {
	switch {
	case v.run.SharedScale: // the strip has 16 elements of each field
		return expr.Call(blocks.WideQuants(v.Emitter, b), block, at.e, w)
	case v.run.Form.Fields > 1:
		return expr.Call(blocks.WideQuants(v.Emitter, b), block, plusOffset(at.e, expr.Times(w, 16)), at.p)
	}
	return expr.Call(blocks.WideQuants(v.Emitter, b), block, plusOffset(plusOffset(at.e, at.at), expr.Times(w, 16)))
}

// quadArgs returns the arguments of a decoding function that returns quad t of a strip: the block, the quad's first
// element in bit field 0 and, if bytes have several bit fields, the number of the quad's field (see [ir.BlockForm]).
func (v *matVec) quadArgs(block expr.Expr, at position, t expr.Expr) []expr.Expr {
	f := v.run.Form
	first, p := at.e, at.p
	if !f.FieldsApart() {
		first = plusOffset(first, at.at)
	}
	e := plusOffset(first, expr.Times(t, 4))
	switch {
	case v.run.SharedScale: // the strip has all quads of field 0, then all quads of field 1, and so on
		perField := f.Stride / 4
		e = plusOffset(at.e, expr.Times(expr.Remainder(t, perField, v.run.Quads), 4))
		p = expr.Quotient(t, perField, v.run.Quads)
	case !f.FieldsApart() && f.Fields > 1: // neighbouring quads are fields of the same bytes
		e = plusOffset(first, expr.Times(expr.Quotient(t, f.Fields, v.run.Quads), f.Superblock()))
		p = expr.Remainder(t, f.Fields, v.run.Quads)
	}
	if f.Fields > 1 {
		return []expr.Expr{block, e, p}
	}
	return []expr.Expr{block, e}
}

// scaleOf declares a variable with the scale of a block's strip.
func (v *matVec) scaleOf(b *emit.Buffer, block expr.Expr, at position) expr.Expr {
	if early, ok := v.preload[b]; ok {
		return v.Variable(blocks.ScaleType(v.run.Form), "scale", early.scales.At(at.slot))
	}
	return v.Variable(blocks.ScaleType(v.run.Form), "scale", expr.Call("scale_"+b.Base, block, plusOffset(at.e, at.at)))
}

// addScaled adds the scaled results of a strip of column j to the sums of matmul n:
//
//	sum(x * scale * (q - bias)) = scale * (sum(x * q) - bias * sum(x))
//
// Here q are the quants, and x the elements of a row of A. dots has sum(x * q) for each row, and row has sum(x). If
// rows are int8, these sums are integers, and each row has a scale too. With smallSums, dots already includes the bias.
func (v *matVec) addScaled(at position, n int, j, block expr.Expr, dots expr.Array, row rowArrays) {
	form, ints := v.run.Form, v.S.IntDot
	number := func(x int) expr.Expr {
		if ints {
			return expr.Int(int64(x))
		}
		return v.FloatLit(float64(x))
	}
	scale := v.scaleOf(v.blockBuffer(v.MatMuls[n].B), block, at)
	v.Repeat("i", v.S.ThreadM, func(i expr.Expr) {
		sum := v.SumsAt(expr.Flat(i, v.S.ThreadN, j))[n]
		dot, rowSum, rowScale := dots.At(i), row.sums.At(i), row.scales.At(i)
		// Quants that became subnormal halves are 2^24 times too small.
		if v.subnormal() && !v.smallSums() {
			dot = expr.Binary("*", expr.Of(twoTo24), dot)
		}
		if form.Halved { // the decoder returns half of each quant
			dot = expr.Binary("*", number(2), dot)
		}
		if form.Bias != 0 && !form.Affine && !v.smallSums() {
			dot = expr.Binary("-", dot, expr.Binary("*", number(form.Bias), rowSum))
		}
		switch {
		case form.Affine && ints:
			v.Update(sum, "+=", expr.Format("%s * (%s.x * float(%s) + %s.y * float(%s))", rowScale, scale, dot, scale,
				rowSum))
		case form.Affine:
			v.Update(sum, "+=", expr.Format("%s.x * %s + %s.y * %s", scale, factorsOf(dot), scale, rowSum))
		case ints:
			v.Update(sum, "+=", expr.Format("%s * %s * float(%s)", rowScale, scale, dot))
		default:
			v.Update(sum, "+=", expr.Format("%s * %s", scale, factorsOf(dot)))
		}
	})
}

// factorsOf returns a multiplication as text without parentheses, so that more factors can follow it. It returns any
// other expression unchanged.
func factorsOf(t expr.Expr) any {
	if t.Op == syntax.Binary && t.Prec() == syntax.PrecProduct {
		return t.String()
	}
	return t
}
