package matvec

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// roundedRows is the source of float rows that every workgroup quantizes to int8 in shared memory. Each group of
// kernel.RoundedGroup elements has a scale. An element becomes one byte (255 steps), or several base-256 digits.
type roundedRows struct {
	v *matVec
	// arrays names the shared arrays of each A. elements is a uvec4 array with the first digits of all rows, then the
	// second digits of all rows, and so on. scales has a scale per group.
	arrays map[*matmul.Operand]rowArrays
	own    map[*matmul.Operand]expr.Array // quads that startLoads loaded and prepareRows will quantize
}

// roundedQuads is the number of neighbouring quads that an invocation quantizes together. With two quads, four
// invocations share a group of 32 elements, and find its largest element in two exchanges. With one quad, there would
// be eight invocations and three exchanges, and each of the eight would compute the scale.
const roundedQuads = 2

// startLoads loads the elements of A that the invocation will quantize, in quads of four. The kernel then copies the
// codebooks of B's format to shared memory while the loads are in flight.
func (r *roundedRows) startLoads() {
	if r.v.S.ThreadM > 1 {
		return // prepareRows loads several rows one after the other, in the same registers
	}
	for _, o := range r.v.A {
		r.own[o] = r.v.readQuads(o, expr.Of("0u"), roundedQuads, 0)
	}
}

// shared declares an array of shared memory.
func (r *roundedRows) shared(typ, name string, size int) expr.Array {
	return expr.Array{Name: r.v.Share(typ, name, size)}
}

// digitUnits is the number of uvec4 that one digit of all rows takes.
func (r *roundedRows) digitUnits() int { return r.v.S.ThreadM * int(r.v.K.Fold.Add) / 16 }

// prepareRows quantizes all rows. Neighbouring invocations read neighbouring quads. Each reads all its quads before it
// quantizes the first, unless startLoads has read them.
func (r *roundedRows) prepareRows() {
	m, depth := r.v.S.ThreadM, int(r.v.K.Fold.Add)
	for _, o := range r.v.A {
		rows := rowArrays{elements: r.shared("uvec4", o.Name+"_bytes", r.digitUnits()*r.v.S.RowBytes()),
			scales: r.shared("float", o.Name+"_scales", m*depth/kernel.RoundedGroup)}
		r.arrays[o] = rows
		r.v.Repeat("i", m, func(i expr.Expr) {
			own := r.own[o]
			if own.Len == 0 { // startLoads has not read them
				own = r.v.readQuads(o, i, roundedQuads, 0)
			}
			all := depth / 4 / roundedQuads
			r.v.eachQuad(all, func(q, n expr.Expr) {
				x := func(h expr.Expr) expr.Expr {
					return own.At(expr.Flat(q, roundedQuads, h))
				}
				r.quantizeShare(rows, x, n, expr.Flat(i, all, n))
			})
		})
	}
	r.v.Barrier()
}

// quantizeShare quantizes a share of a row, which is roundedQuads quads: x(h) returns quad h. n is the number of the
// share in its row, and place its number among the shares of all rows. The lanes of a group find the group's largest
// magnitude together. They compare magnitudes as integers, by their bits: then NaN is the largest.
func (r *roundedRows) quantizeShare(rows rowArrays, x func(h expr.Expr) expr.Expr, n, place expr.Expr) {
	v := r.v
	perGroup := kernel.RoundedGroup / 4 / roundedQuads // shares, and so lanes, of a group
	size := v.Variable("uvec4", "size", expr.Of("uvec4(0u)"))
	v.Repeat("h", roundedQuads, func(h expr.Expr) {
		v.Assign(size, expr.Format("max(%s, floatBitsToUint(%s) & "+magnitudeBits+")", size, x(h)))
	})
	top := v.Variable("uint", "top", expr.Of(fmt.Sprintf("max(max(%s.x, %s.y), max(%s.z, %s.w))", size, size, size,
		size)))
	// Afterwards all lanes of the group have its largest magnitude.
	for mask := 1; mask < perGroup; mask *= 2 {
		v.AtLeast(top, emit.Shuffled(top, mask))
	}
	scale := r.declareSteps(top)
	v.Repeat("h", roundedQuads, func(h expr.Expr) {
		word := expr.Flat(place, roundedQuads, h)
		r.putWords(rows.elements.Name, expr.Binary("/", word, expr.Uint(4)), expr.Binary("%", word, expr.Uint(4)), x(h))
	})
	// One lane of each group stores the scale.
	v.OpenIf(expr.Binary("==", expr.Binary("%", n, expr.Uint(perGroup)), expr.Of("0u")))
	v.Assign(rows.scales.At(expr.Binary("/", place, expr.Uint(perGroup))), scale)
	v.Close()
}

// declareSteps declares the GLSL variable steps, the factor that quantizes a group, and returns the group's scale,
// about 1/steps. top has the bits of the group's largest magnitude.
func (r *roundedRows) declareSteps(top expr.Expr) (scale expr.Expr) {
	v := r.v
	if v.S.Digits == 0 {
		// If an element is not finite, the scale is NaN; its int8 value does not matter.
		v.Exactly("float", "steps", expr.Call("byte_steps", top))
		largest := expr.Of(fmt.Sprintf("uintBitsToFloat(%s < "+infinityBits+" ? %[1]s : "+nanBits+")", top))
		scale = v.Variable("float", "scale", expr.Binary("*", largest, expr.Float(float64(float32(1.0/127)), 32, "")))
		return scale
	}
	// Steps is a power of two that brings the largest element below 2^22. If that element is infinite or NaN, the scale
	// is that element, and steps makes all other elements tiny. A number 2^n has the f32 bits n+127 << 23: with e for
	// the stored exponent of the largest element, steps is 2^(148-e), and the scale 2^(e-148).
	v.Exactly("uint", "exponent", expr.Format("clamp(%s >> 23, 22u, 254u)", top))
	v.Exactly("bool", "special", expr.Binary(">=", top, expr.Of(infinityBits)))
	v.Exactly("float", "steps", expr.Format("uintBitsToFloat((special ? 1u : 275u - exponent) << 23)"))
	return v.Variable("float", "scale",
		expr.Of(fmt.Sprintf("special ? uintBitsToFloat(%s) : uintBitsToFloat(exponent - 21u << 23)", top)))
}

// putWords quantizes the quad x and stores it in array, as component word of uvec4 number unit. With Digits it stores
// each base-256 digit in that digit's part of the array.
func (r *roundedRows) putWords(array, unit, word, x expr.Expr) {
	v := r.v
	if v.S.Digits == 0 {
		v.Assign(expr.At(expr.At(array, unit), word), expr.Call("round_bytes", x, expr.Of("steps")))
		return
	}
	digits := v.Variable("uvec4", "digits", expr.Of(fmt.Sprintf("digits_of(%s * steps)", x)))
	v.Repeat("digit", v.S.Digits, func(digit expr.Expr) {
		v.Assign(expr.At(expr.At(array, expr.Flat(digit, r.digitUnits(), unit)), word),
			expr.Format("pack_bytes(ivec4(%s >> 8u * %s))", digits, digit))
	})
}

// strip implements aSource. It reads the rows along a strip (the elements of a block that share a scale) from shared
// memory: quantized elements, and their scales.
func (r *roundedRows) strip(o *matmul.Operand, k expr.Expr) rowArrays {
	depth, from := int(r.v.K.Fold.Add), r.arrays[o]
	scaleOf := func(i expr.Expr) expr.Expr {
		group := expr.Flat(i, depth/kernel.RoundedGroup, expr.Binary("/", k, expr.Uint(kernel.RoundedGroup)))
		return from.scales.At(group)
	}
	words := func(i, digit expr.Expr, use func(t, word expr.Expr)) {
		own := expr.Flat(i, depth/4, expr.Binary("/", k, expr.Uint(4)))
		first := expr.Flat(digit, 4*r.digitUnits(), own)
		if r.v.run.Quads%4 != 0 { // words are read one by one, otherwise four at a time
			first = r.v.Named("word", first)
		} else {
			first = r.v.Named("quad", expr.Flat(digit, r.digitUnits(), expr.Binary("/", own, expr.Uint(4))))
		}
		r.v.eachWord(func(t expr.Expr) expr.Expr {
			word := r.v.Variable("uint", "word", expr.Plus(first, t))
			return expr.At(from.elements.At(expr.Binary("/", word, expr.Uint(4))), expr.Binary("%", word, expr.Uint(4)))
		}, func(w expr.Expr) expr.Expr { return from.elements.At(expr.Plus(first, w)) }, use)
	}
	return r.v.byteStrip(o, scaleOf, words)
}
