package glsl

import "github.com/vkc-go/vkc/codegen/glsl/syntax"

// stripReader reads the quants of a strip of a block, which share a scale. It sums up quant times row element and
// scales the sums.
type stripReader struct {
	v *matVec
	// addDots multiplies a strip of a block by the rows, and adds to dots.
	addDots func(b *buffer, block text, at place, dots, rows text)
}

func newStripReader(v *matVec) bReader {
	r := &stripReader{v: v}
	r.addDots = r.addQuads
	return r
}

func (r *stripReader) parts() int       { return r.v.run.Strips }
func (r *stripReader) addRun(run place) { r.v.addColumns(r, run) }

func (r *stripReader) prepare() {
	for _, o := range r.v.b {
		blockParts(r.v.emitter, r.v.blockBuffer(o))
	}
	r.v.prepareArithmetic()
}

func (r *stripReader) activations(at place) activations {
	return r.v.ofRows(func(o *matOperand) rowArrays { return r.v.rows.strip(o, at.k) })
}

// prepareArithmetic adds the functions that multiply quants and rows.
func (v *matVec) prepareArithmetic() {
	switch {
	case v.s.IntDot:
		v.need(NeedIntDot)
		switch {
		case v.s.Digits > 0:
			v.helper("digits_of", "float")
			v.helper("pack_bytes", "ivec4")
		case v.s.RoundRows:
			v.helper("round_bytes", "float")
			v.helper("byte_steps", "float")
		}
		if v.run.Form.NeedsSums() {
			v.declareOnes()
		}
	case !v.run.Form.Levels:
		v.helper(v.unpack(), "float")
	}
}

// subnormal reports whether quants are unpacked as subnormals, 2^-24 of their value. small reports whether sums stay
// that small, too.
func (v *matVec) subnormal() bool { return v.s.Subnormals && !v.s.IntDot }
func (v *matVec) small() bool     { return v.subnormal() && v.s.Chained }

// biasSubnormals adjusts the bias: signed quants are unpacked as subnormals with an offset of 128.
func (v *matVec) biasSubnormals() {
	if f := &v.run.Form; v.subnormal() && f.Signed {
		f.Bias += 128
		if f.Halved {
			f.Bias += 128
		}
	}
}

// liftSums scales small sums to their true size.
func (v *matVec) liftSums() {
	if !v.small() {
		return
	}
	v.repeat("i", v.s.ThreadM*v.s.ThreadN, func(i text) {
		for _, sum := range v.sumsAt(i) {
			v.line("%s *= 16777216.0;", sum)
		}
	})
}

// unpack is the function that unpacks four quants to a vec4.
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

func (r *stripReader) addColumn(at place, rows activations, j text) {
	typ, zero := "float", primary("0.0")
	if r.v.s.IntDot {
		typ, zero = "int", intLit(0)
	}
	for n, p := range r.v.products {
		row := rows[p.a]
		count := r.v.s.ThreadM * r.v.s.RowBytes()
		dots := r.v.array(typ, numberedName("dots", n, len(r.v.products)), count)
		r.v.repeat("i", count, func(i text) {
			first := zero
			if f := r.v.run.Form; r.v.small() && !f.Affine && f.NeedsSums() {
				first = elementOf(row.sums, r.v.s.ThreadM, i)
			}
			r.v.assign(elementOf(dots, count, i), first)
		})
		block := r.v.variable("uint", numberedName("at", n, len(r.v.products)), r.v.blockOf(p.b, at.block))
		r.addDots(r.v.blockBuffer(p.b), block, at, dots, row.elements)
		if digits := r.v.s.RowBytes(); digits > 1 {
			dots = r.v.sumDigits(dots, digits)
		}
		r.v.addScaled(at, n, j, block, dots, row)
	}
}

// addQuads multiplies the quads of a strip by the rows, and adds to dots.
func (r *stripReader) addQuads(b *buffer, block text, at place, dots, rows text) {
	var wide text
	switch {
	case r.v.run.Wide(b.Binding):
		wide = r.v.readWide(b, block, at)
	case r.v.run.Pairs(b.Binding):
		wide = r.v.variable("uvec2", "quants", call(pairQuants(r.v.emitter, b), r.v.quadArgs(block, at, primary("0u"))...))
	}
	r.v.repeat("t", r.v.run.Quads, func(t text) {
		var product func(sum, x text) text
		switch {
		case r.v.run.Form.Levels:
			product = r.v.floatProduct(call("levels_"+b.base, r.v.quadArgs(block, at, t)...))
		case wide != nil:
			product = r.v.bytesProduct(wideElement(wide, r.v.run.Quads, t))
		default:
			product = r.v.bytesProduct(call("quants_"+b.base, r.v.quadArgs(block, at, t)...))
		}
		r.v.eachDot(t, dots, rows, product)
	})
}

// eachDot multiplies quad t by every row, or by every digit of the only row, and adds to dots.
func (v *matVec) eachDot(t, dots, rows text, product func(sum, x text) text) {
	count, each := v.s.ThreadM, "i"
	if v.s.RowBytes() > 1 {
		count, each = v.s.RowBytes(), "digit"
	}
	v.repeat(each, count, func(i text) {
		x, sum := elementOf(rows, count*v.run.Quads, plus(times(i, v.run.Quads), t)), elementOf(dots, count, i)
		v.assign(sum, product(sum, x))
	})
}

// sumDigits adds up the sums of a row's digits, each with its weight, and returns the name of the total.
func (v *matVec) sumDigits(dots text, digits int) text {
	sum := elementOf(dots, digits, primary("0u"))
	for n := 1; n < digits; n++ {
		digit := uintLit(n)
		sum = binary("+", sum, v.atDigit(elementOf(dots, digits, digit), digit))
	}
	return v.variable("int", "whole", sum)
}

// quadOfStrip prints word t of row i of a strip: a quad of floats or of int8 elements.
func (v *matVec) quadOfStrip(rows, i, t text) text {
	return elementOf(rows, v.s.ThreadM*v.rowWords(), plus(times(i, v.rowWords()), t))
}

// bytesProduct unpacks four quants. It returns a function that multiplies them by four row elements and adds to a sum.
func (v *matVec) bytesProduct(quants text) func(sum, x text) text {
	if !v.s.IntDot {
		return v.floatProduct(call(v.unpack(), quants))
	}
	bytes := v.variable("int", "bytes", call("int", quants))
	return func(sum, x text) text { return binary("+", sum, call("dotPacked4x8EXT", bytes, x)) }
}

// floatProduct is bytesProduct for four floats.
func (v *matVec) floatProduct(floats text) func(sum, x text) text {
	levels := v.variable("vec4", "levels", floats)
	if !v.s.Chained {
		return func(sum, x text) text { return binary("+", sum, call("dot", levels, x)) }
	}
	v.helper("dot_onto", "float")
	return func(sum, x text) text { return call("dot_onto", sum, levels, x) }
}

// readWide reads the quants of a strip and returns the variable's name: a uvec4, or an array of uvec4 for more than
// four quads.
func (v *matVec) readWide(b *buffer, block text, at place) text {
	if held, ok := v.held[b]; ok {
		return v.decodeHeld(b, held, at)
	}
	if v.run.Quads == 4 {
		return v.variable("uvec4", "quants", v.wideCall(b, block, at, primary("0u")))
	}
	name := v.array("uvec4", "quants", v.run.Quads/4)
	v.repeat("w", v.run.Quads/4, func(w text) { v.assign(elementAt(name, w), v.wideCall(b, block, at, w)) })
	return name
}

// wideCall prints the call that reads quads 4w to 4w+3 of a strip.
func (v *matVec) wideCall(b *buffer, block text, at place, w text) text {
	switch {
	case v.run.Joined: // 16 elements of each plane
		return call(wideQuants(v.emitter, b), block, at.e, w)
	case v.run.Form.Planes > 1:
		return call(wideQuants(v.emitter, b), block, within(at.e, times(w, 16)), at.p)
	}
	return call(wideQuants(v.emitter, b), block, within(within(at.e, at.at), times(w, 16)))
}

// wideElement prints quad t of the variable of readWide.
func wideElement(name text, quads int, t text) text {
	if quads <= 4 {
		return elementAt(name, t)
	}
	return elementAt(elementAt(name, quotient(t, 4, quads)), remainder(t, 4, quads))
}

// quadArgs prints the arguments of a decoder for quad t of a strip.
func (v *matVec) quadArgs(block text, at place, t text) []text {
	f := v.run.Form
	first, p := at.e, at.p
	if !f.Interleaved() {
		first = within(first, at.at)
	}
	e := within(first, times(t, 4))
	switch perPlane := f.Stride / 4; {
	case v.run.Joined:
		e, p = within(at.e, times(remainder(t, perPlane, v.run.Quads), 4)), quotient(t, perPlane, v.run.Quads)
	case !f.Interleaved() && f.Planes > 1:
		e = within(first, times(quotient(t, f.Planes, v.run.Quads), f.Superblock()))
		p = remainder(t, f.Planes, v.run.Quads)
	}
	if f.Planes > 1 {
		return []text{block, e, p}
	}
	return []text{block, e}
}

// scaleOf declares the scale of a block's strip.
func (v *matVec) scaleOf(b *buffer, block text, at place) text {
	if held, ok := v.held[b]; ok {
		return v.variable(scaleType(v.run.Form), "scale", elementOf(held.scales, held.count, at.slot))
	}
	return v.variable(scaleType(v.run.Form), "scale", call("scale_"+b.base, block, within(at.e, at.at)))
}

// addScaled adds the scaled results of a strip to the sums:
//
//	sum(x * scale * (q - bias)) = scale * (sum(x * q) - bias * sum(x))
//
// Sums over int8 rows are integers, and each row has a scale too. Small sums have the bias subtracted already.
func (v *matVec) addScaled(at place, n int, j, block, dots text, row rowArrays) {
	f, ints := v.run.Form, v.s.IntDot
	number := func(n int) text {
		if ints {
			return intLit(int64(n))
		}
		return v.floatLit(float64(n))
	}
	scale := v.scaleOf(v.blockBuffer(v.products[n].b), block, at)
	v.repeat("i", v.s.ThreadM, func(i text) {
		sum := v.sumsAt(plus(times(i, v.s.ThreadN), j))[n]
		dot, x, a := elementOf(dots, v.s.ThreadM, i), elementOf(row.sums, v.s.ThreadM, i),
			elementOf(row.scales, v.s.ThreadM, i)
		if v.subnormal() && !v.small() {
			dot = binary("*", primary("16777216.0"), dot)
		}
		if f.Halved {
			dot = binary("*", number(2), dot)
		}
		if f.Bias != 0 && !f.Affine && !v.small() {
			dot = binary("-", dot, binary("*", number(f.Bias), x))
		}
		switch {
		case f.Affine && ints:
			v.line("%s += %s * (%s.x * float(%s) + %s.y * float(%s));", sum, a, scale, dot, scale, x)
		case f.Affine:
			v.line("%s += %s.x * %s + %s.y * %s;", sum, scale, factorsOf(dot), scale, x)
		case ints:
			v.line("%s += %s * %s * float(%s);", sum, a, scale, dot)
		default:
			v.line("%s += %s * %s;", sum, scale, factorsOf(dot))
		}
	})
}

// factorsOf returns a product without parentheses, as the left factors of a longer product, and any other expression
// unchanged.
func factorsOf(t text) any {
	if t.Op == syntax.Binary && t.Prec() == syntax.PrecProduct {
		return t.String()
	}
	return t
}
