package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// roundedRows are float rows that every workgroup quantizes to int8 in shared memory. A group of kernel.RoundedGroup
// elements is rounded to 255 steps of its largest element, or to several base-256 digits.
type roundedRows struct {
	v *matVec
	// arrays name uvec4 arrays, row after row and digit after digit, and the arrays of the groups' scales.
	arrays map[*matOperand]rowArrays
	own    map[*matOperand]text // quads that an invocation preloaded and did not yet quantize
	each   int                  // of a row
}

// roundedQuads is the number of neighbouring quads that an invocation quantizes together. With one quad, eight
// invocations find the largest element of a group in three exchanges, and each of them divides by it. With two quads,
// four invocations do it in two exchanges.
const roundedQuads = 2

// ask preloads the quads of a row that an invocation quantizes.
func (r *roundedRows) ask() {
	if r.v.s.ThreadM > 1 {
		return
	}
	for _, o := range r.v.a {
		r.own[o], r.each = r.v.readQuads(o, primary("0u"), roundedQuads, 0)
	}
}

// digitUnits is the number of 16-byte units of each digit.
func (r *roundedRows) digitUnits() int { return r.v.s.ThreadM * int(r.v.k.Fold.Add) / 16 }

// ready quantizes all rows. Neighbouring invocations read neighbouring quads. Each reads all its quads before it
// quantizes the first, unless ask preloaded them.
func (r *roundedRows) ready() {
	m, depth := r.v.s.ThreadM, int(r.v.k.Fold.Add)
	for _, o := range r.v.a {
		rows := rowArrays{elements: r.v.share("uvec4", o.name+"_bytes", r.digitUnits()*r.v.s.RowBytes()),
			scales: r.v.share("float", o.name+"_scales", m*depth/kernel.RoundedGroup)}
		r.arrays[o] = rows
		r.v.repeat("i", m, func(i text) {
			own := r.own[o]
			if own == nil {
				own, r.each = r.v.readQuads(o, i, roundedQuads, 0)
			}
			all := depth / 4 / roundedQuads
			r.v.eachQuad(all, func(q, n text) {
				x := func(h text) text { return elementOf(own, r.each, plus(times(q, roundedQuads), h)) }
				r.roundShare(rows, x, n, plus(times(i, all), n))
			})
		})
	}
	r.v.barrier()
}

// roundShare quantizes share n of a row and stores it as words, from place on. x prints the quads of the share. The
// lanes of a group find its largest element together. They compare bits, and the bits of NaN are the largest.
func (r *roundedRows) roundShare(rows rowArrays, x func(h text) text, n, place text) {
	v := r.v
	perGroup := kernel.RoundedGroup / 4 / roundedQuads
	size := v.variable("uvec4", "size", primary("uvec4(0u)"))
	v.repeat("h", roundedQuads, func(h text) {
		v.line("%s = max(%s, floatBitsToUint(%s) & 0x7fffffffu);", size, size, x(h))
	})
	top := v.variable("uint", "top", primary(fmt.Sprintf("max(max(%s.x, %s.y), max(%s.z, %s.w))", size, size, size,
		size)))
	for mask := 1; mask < perGroup; mask *= 2 {
		v.line("%s = max(%s, subgroupShuffleXor(%s, %du));", top, top, top, mask)
	}
	scale := r.roundTo(top)
	v.repeat("h", roundedQuads, func(h text) {
		word := plus(times(place, roundedQuads), h)
		r.putWords(rows.elements, binary("/", word, uintLit(4)), binary("%", word, uintLit(4)), x(h))
	})
	v.openIf(binary("==", binary("%", n, uintLit(perGroup)), primary("0u")))
	v.assign(elementAt(rows.scales, binary("/", place, uintLit(perGroup))), scale)
	v.close()
}

// roundTo declares steps, the factor that quantizes a group, and returns the group's scale. top names the bits of the
// group's largest element.
func (r *roundedRows) roundTo(top text) (scale text) {
	v := r.v
	if v.s.Digits == 0 {
		// If an element is not finite, the scale is NaN; its int8 value does not matter.
		v.line("float steps = byte_steps(%s);", top)
		largest := primary(fmt.Sprintf("uintBitsToFloat(%s < 0x7f800000u ? %[1]s : 0x7fc00000u)", top))
		scale = v.variable("float", "scale",
			binary("*", largest, finiteLit(float64(float32(1.0/127)), 32, "")))
		return scale
	}
	// A power of two brings the largest element below 2^22. If that element is infinite or NaN, so is the scale, and
	// the power makes all others tiny.
	v.line("uint exponent = clamp(%s >> 23, 22u, 254u);", top)
	v.line("bool special = %s >= 0x7f800000u;", top)
	v.line("float steps = uintBitsToFloat((special ? 1u : 275u - exponent) << 23);")
	return v.variable("float", "scale",
		primary(fmt.Sprintf("special ? uintBitsToFloat(%s) : uintBitsToFloat(exponent - 21u << 23)", top)))
}

// putWords quantizes a quad and stores its words.
func (r *roundedRows) putWords(array, unit, word, x text) {
	v := r.v
	if v.s.Digits == 0 {
		v.line("%s[%s][%s] = round_bytes(%s, steps);", array, unit, word, x)
		return
	}
	digits := v.variable("uvec4", "digits", primary(fmt.Sprintf("digits_of(%s * steps)", x)))
	v.repeat("digit", v.s.Digits, func(digit text) {
		v.line("%s[%s][%s] = pack_bytes(ivec4(%s >> 8u * %s));", array, plus(times(digit, r.digitUnits()), unit),
			word, digits, digit)
	})
}

func (r *roundedRows) strip(o *matOperand, k text) rowArrays {
	depth, from := int(r.v.k.Fold.Add), r.arrays[o]
	return r.v.byteStrip(o, func(i text) text {
		group := plus(times(i, depth/kernel.RoundedGroup), binary("/", k, uintLit(kernel.RoundedGroup)))
		return elementAt(from.scales, group)
	}, func(i, digit text, use func(t, word text)) {
		own := plus(times(i, depth/4), binary("/", k, uintLit(4)))
		first := plus(times(digit, 4*r.digitUnits()), own)
		if r.v.run.Quads%4 != 0 {
			first = r.v.named("word", first)
		} else {
			first = r.v.named("quad", plus(times(digit, r.digitUnits()), binary("/", own, uintLit(4))))
		}
		r.v.eachWord(func(t text) text {
			word := r.v.variable("uint", "word", plus(first, t))
			return elementAt(elementAt(from.elements, binary("/", word, uintLit(4))), binary("%", word, uintLit(4)))
		}, func(w text) text { return elementAt(from.elements, plus(first, w)) }, use)
	})
}
