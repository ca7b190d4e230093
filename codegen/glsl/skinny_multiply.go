package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// perRow is the number of elements of a row that an invocation loads at a time: a vec4 of floats or 16 int8 elements.
func (r *skinny) perRow() int {
	if r.Parts > 1 {
		return 4
	}
	return 16
}

// declareRows declares the registers that hold an invocation's elements of the rows on their way to shared memory.
func (r *skinny) declareRows() rowArrays {
	typ := map[int]string{4: "vec4", 16: "uvec4"}[r.perRow()]
	a := rowArrays{elements: r.array(typ, "a_elements", r.rowRounds(r.perRow()))}
	if r.Parts == 1 {
		a.scales = r.array("float", "a_scale", r.rowRounds(r.Strip))
	}
	if r.Parts == 1 && r.Affine {
		a.sums = r.array("int", "a_sum", r.rowRounds(r.Strip))
	}
	return a
}

// fetchRows loads the rows at k0 of the contraction axis.
func (r *skinny) fetchRows(a rowArrays, k0 text) {
	n := r.rowRounds(r.perRow())
	if r.Parts > 1 {
		r.eachOfRows(4, true, func(i, row, at text) {
			r.assign(elementOf(a.elements, n, i), r.quad(r.a[0], plus(k0, at), true))
		})
		return
	}
	bytes, scale, _ := r.k.ByteRows(r.a[0].value)
	r.eachOfRows(16, true, func(i, row, at text) {
		r.assign(elementOf(a.elements, n, i), r.bytesAt(bytes, along{r.fold, r.k.Fold}, plus(k0, at), 16))
	})
	r.eachOfRows(r.Strip, true, func(i, row, at text) {
		r.bindAxis(r.fold, r.variable("uint", "k", plus(k0, at)))
		read := readOf(scale)
		r.plan([]*kernel.Expr{read}, nil)
		r.assign(elementOf(a.scales, r.rowRounds(r.Strip), i), r.value(read))
		if r.Affine {
			r.addBytes(elementOf(a.sums, r.rowRounds(r.Strip), i), bytes, plus(k0, at))
		}
	})
}

// readOf returns the part of a row scale that stays in registers until the scale goes to shared memory. If the scale is
// computed from one f32 load alone, that is the load, so that no invocation waits for it (fetchedStrips). Otherwise it
// is the scale.
func readOf(scale *kernel.Expr) *kernel.Expr {
	read, leaves := scale, 0
	kernel.Walk([]*kernel.Expr{scale}, func(e *kernel.Expr) {
		if e.Kind != kernel.ExprApply && e.Kind != kernel.ExprConst {
			read, leaves = e, leaves+1
		}
	})
	if leaves != 1 || read.Kind != kernel.ExprLoad || read.DType != ir.F32 {
		return scale
	}
	return read
}

// scaleOfRead prints the scale, computed from the kept part.
func (r *skinny) scaleOfRead(kept text) text {
	_, scale, _ := r.k.ByteRows(r.a[0].value)
	r.scope.values[readOf(scale)] = kept
	r.plan([]*kernel.Expr{scale}, nil)
	if value := r.value(scale); !isPlain(value) {
		return r.variable("float", "scale", value)
	}
	return kept
}

// addBytes sets sum to the sum of a strip of a row.
func (r *skinny) addBytes(sum text, bytes *kernel.Expr, k text) {
	r.need(NeedIntDot)
	r.assign(sum, intLit(0))
	for w := range r.Strip / 16 {
		four := r.variable("uvec4", "four", r.bytesAt(bytes, along{r.fold, r.k.Fold}, plus(k, uintLit(16*w)), 16))
		r.repeat("n", 4, func(n text) {
			r.line("%s += dotPacked4x8EXT(int(%s[%s]), ones);", sum, four, n)
		})
	}
}

// putRows stores the loaded rows in shared memory.
func (r *skinny) putRows(a rowArrays) {
	n := r.rowRounds(r.perRow())
	if r.Parts > 1 {
		r.eachOfRows(4, false, func(i, row, at text) { r.putFloats(elementOf(a.elements, n, i), row, at) })
		return
	}
	r.eachOfRows(16, false, func(i, row, at text) {
		four, unit := elementOf(a.elements, n, i), r.rowUnit(row, at, primary("0u"))
		if r.Element == ir.I8 {
			r.put(r.rows.elements, unit, 0, four)
			return
		}
		for w := range 2 {
			r.put(r.rows.elements, unit, w, r.halvesOf(four, w))
		}
	})
	r.eachOfRows(r.Strip, false, func(i, row, at text) {
		place, scale := r.rowScale(row, at), r.scaleOfRead(elementOf(a.scales, r.rowRounds(r.Strip), i))
		r.assign(elementAt(r.rows.scales, place), scale)
		if r.Affine {
			r.line("%s[%s] = %s * float(%s);", r.rows.others, place, scale,
				elementOf(a.sums, r.rowRounds(r.Strip), i))
		}
	})
}

// halvesOf prints eight int8 elements of a row, the w-th of two groups, as f16 values in the order of the quants.
func (r *skinny) halvesOf(four text, w int) text {
	pair := member(four, map[int]string{0: "xy", 1: "zw"}[w])
	if r.Levels {
		r.helper("pack_halves", "float")
		r.helper("bytes_signed", "float")
		return call("pack_halves", call("bytes_signed", member(pair, "x")), call("bytes_signed", member(pair, "y")))
	}
	r.helper("halves_of_bytes", "float")
	return call("halves_of_bytes", binary("^", pair, primary("0x80808080u")), primary("float16_t(1152)"))
}

// placesOfRows is the number of groups of n elements in the rows of a step. The subgroups at the same k share these
// groups, and rowRounds is how many an invocation loads. If there are fewer rows than lines, the last row is loaded
// again and its results are not stored: a branch around the loads is slower (M-block-rows).
func (r *skinny) placesOfRows(n int) int { return r.s.TileM * (r.s.TileK / n) }

func (r *skinny) rowRounds(n int) int {
	lanes := r.s.SubgroupsN * r.s.Subgroup
	return (r.placesOfRows(n) + lanes - 1) / lanes
}

// eachOfRows writes body for each group of n elements of a step's rows that an invocation loads. i is the number of the
// group among the invocation's own, row is the row of the tile, and at is the element of the step. The row axis is
// bound.
//
// An invocation without a group stores nothing. Of float rows it loads the last group again, which takes no branch. For
// int8 rows a branch around the loads of the scales is faster (M-skinny).
func (r *skinny) eachOfRows(n int, reads bool, body func(i, row, at text)) {
	total, lanes, per := r.placesOfRows(n), r.s.SubgroupsN*r.s.Subgroup, r.s.TileK/n
	r.repeat("i", r.rowRounds(n), func(i text) {
		slot := r.named("slot", plus(remainder(r.self, lanes, r.s.Workgroup), times(i, lanes)))
		guarded := total%lanes != 0 && (!reads || r.Parts == 1)
		switch {
		case guarded:
			r.openIf(binary("<", slot, uintLit(total)))
		case total%lanes != 0:
			slot = r.named("slot", call("min", slot, uintLit(total-1)))
		}
		row := r.named("line", quotient(slot, per, total))
		at := r.named("at", times(remainder(slot, per, total), n))
		r.bindAxis(r.row, r.named("row", r.clampTo(plus(r.row0, row), r.row, r.s.TileM)))
		body(i, row, at)
		if guarded {
			r.close()
		}
	})
}

// rowUnit is the shared-memory index of an element of a part of a row, and rowScale is the index of its strip's scale.
func (r *skinny) rowUnit(row, at, part text) text {
	line := plus(row, times(part, r.s.TileM))
	return r.named("unit", plus(plus(r.rows.first, times(line, r.Pitch(r.s))), binary("/", at, uintLit(r.Unit(r.s)))))
}

func (r *skinny) rowScale(row, at text) text {
	return r.named("place", plus(plus(r.rows.firstScale, times(binary("/", at, uintLit(r.Strip)), r.s.TileM)), row))
}

// putFloats splits four floats of a row into parts and stores them. It first multiplies them by a power of two that
// brings the strip's largest element to the top of the parts' range. If that element is infinite or NaN, so is the
// strip's scale: infinities then become 1 or -1, and all other elements become 0.
func (r *skinny) putFloats(four, row, at text) {
	x := r.variable("vec4", "x", four)
	tops := r.variable("uvec4", "tops", primary(fmt.Sprintf("floatBitsToUint(%s) & 0x7fffffffu", x)))
	top := r.variable("uint", "top", primary(fmt.Sprintf("max(max(%s.x, %[1]s.y), max(%[1]s.z, %[1]s.w))", tops)))
	var sum text
	if r.Affine {
		sum = r.variable("float", "sum", primary(fmt.Sprintf("dot(%s, vec4(1.0))", x)))
	}
	for mask := 1; mask < r.Strip/4; mask *= 2 {
		r.line("%s = max(%[1]s, subgroupShuffleXor(%[1]s, %du));", top, mask)
		if sum != nil {
			r.line("%s += subgroupShuffleXor(%[1]s, %du);", sum, mask)
		}
	}
	bits := 14
	if r.Element == ir.I8 {
		bits = 21
	}
	exponent := r.variable("uint", "exponent", primary(fmt.Sprintf("clamp(%s >> 23, %du, 254u)", top, bits+1)))
	r.line("bool special = %s >= 0x7f800000u;", top)
	r.line("%s = special ? mix(vec4(0.0), sign(%[1]s), isinf(%[1]s)) : %[1]s * uintBitsToFloat(%du - %s << 23);", x,
		254+bits, exponent)
	if r.Element == ir.I8 {
		r.putDigits(x, row, at)
	} else {
		r.putHalves(x, row, at)
	}
	r.openIf(binary("==", binary("%", at, uintLit(r.Strip)), uintLit(0)))
	place := r.rowScale(row, at)
	r.line("%s[%s] = special ? uintBitsToFloat(%s) : uintBitsToFloat(%s - %du << 23);", r.rows.scales, place,
		top, exponent, bits)
	if sum != nil {
		r.assign(elementAt(r.rows.others, place), sum)
	}
	r.close()
}

// putDigits stores floats below 2^22 as three signed base-256 digits, least significant first.
func (r *skinny) putDigits(x, row, at text) {
	digits := r.variable("uvec4", "digits", primary(fmt.Sprintf("uvec4(ivec4(roundEven(%s)) + 0x808080) ^ 0x808080u",
		x)))
	r.helper("pack_bytes", "ivec4")
	r.repeat("part", r.Parts, func(part text) {
		unit := r.rowUnit(row, at, part)
		r.line("%s[%s][%s] = pack_bytes(ivec4(%s >> 8u * %s));", r.rows.elements, unit,
			r.component(at, 4, 0), digits, part)
	})
}

// putHalves stores each float x below 2^15 as the sum of two f16 values. The first is x rounded to f16 precision. The
// second is the remainder. Integer operations round x, because a compiler could remove a conversion to f16 and back.
func (r *skinny) putHalves(x, row, at text) {
	rounded := fmt.Sprintf("uintBitsToFloat(floatBitsToUint(%s) + 0x1000u & 0xffffe000u)", x)
	high := r.variable("vec4", "high", primary(rounded))
	low := r.variable("vec4", "low", binary("-", x, high))
	for part, value := range []text{high, low} {
		halves, unit := r.variable("uvec2", "halves", r.halves(value)), r.rowUnit(row, at, uintLit(part))
		words := elementAt(r.rows.elements, unit)
		r.assign(elementAt(words, r.component(at, 2, 0)), member(halves, "x"))
		r.assign(elementAt(words, r.component(at, 2, 1)), member(halves, "y"))
	}
}

// component prints the word of a unit that holds the n-th word of a quad. A word holds perWord elements.
func (r *skinny) component(at text, perWord int, n int64) text {
	words := r.Unit(r.s) / perWord
	return plus(binary("%", binary("/", at, uintLit(perWord)), uintLit(words)), uintLit(n))
}

// halves prints a vec4 as f16 values, in the order of the quants.
func (r *skinny) halves(x text) text {
	if r.Levels {
		return primary(fmt.Sprintf("uvec2(packHalf2x16(%s.xy), packHalf2x16(%[1]s.zw))", x))
	}
	return primary(fmt.Sprintf("uvec2(packHalf2x16(%s.xz), packHalf2x16(%[1]s.yw))", x))
}

// multiply multiplies the step in shared memory, and adds to the sums.
func (r *skinny) multiply() {
	s := r.s
	r.comment("Multiply.")
	n := r.rolled("strip", primary("0u"), uintLit(r.strips()), 1)
	rowScales := r.repeated("row_scale", r.rows.scales, plus(r.rows.firstScale, times(n, s.TileM)),
		"Row", s.FragN, r.rowFragments())
	var rowSums text
	if r.Affine {
		rowSums = r.repeated("row_sum", r.rows.others, plus(r.rows.firstScale, times(n, s.TileM)),
			"Row", s.FragN, r.rowFragments())
	}
	rows := r.rowElements(n)
	for _, o := range r.b {
		r.repeat("j", r.fragments(), func(j text) { r.multiplyColumns(o, n, j, rows, rowScales, rowSums) })
	}
	r.close()
}

// steps is the number of fragments along a strip.
func (r *skinny) steps() int { return r.Strip / r.s.FragK }

// rowElements loads the fragments of all rows along strip n.
func (r *skinny) rowElements(n text) text {
	s := r.s
	count := r.rowFragments() * r.Parts * r.steps()
	name := r.array(r.fragment(r.Element, "B"), "rows", count)
	r.repeat("f", r.rowFragments()*r.Parts, func(f text) {
		part, frag := quotient(f, r.rowFragments(), r.rowFragments()*r.Parts), remainder(f, r.rowFragments(),
			r.rowFragments()*r.Parts)
		line := plus(times(part, s.TileM), times(frag, s.FragN))
		r.repeat("step", r.steps(), func(step text) {
			at := plus(plus(r.rows.first, times(line, r.Pitch(s))),
				plus(times(n, r.Strip/r.Unit(s)), times(step, s.FragK/r.Unit(s))))
			r.loadMatrix(elementOf(name, count, plus(times(f, r.steps()), step)), r.rows.elements, at, r.Pitch(s),
				"Column")
		})
	})
	return name
}

// repeated loads accumulator fragments from a line of floats. Every line or every column of a fragment repeats the same
// floats. extent is the number of floats for each fragment.
func (r *skinny) repeated(base string, array, at text, major string, extent, count int) text {
	name := r.array(r.fragment(ir.F32, "Accumulator"), base, count)
	r.repeat("f", count, func(f text) {
		r.loadMatrix(elementOf(name, count, f), array, plus(at, times(f, extent)), 0, major)
	})
	return name
}

// multiplyColumns multiplies strip n of fragment j of the columns of a B by all rows.
func (r *skinny) multiplyColumns(o *matOperand, n, j text, rows, rowScales, rowSums text) {
	s, st := r.s, r.weights[o]
	columns := r.array(r.fragment(r.Element, "A"), "columns", r.steps())
	first := plus(plus(st.first, times(j, s.FragM*r.Pitch(s))), times(n, r.Strip/r.Unit(s)))
	r.repeat("step", r.steps(), func(step text) {
		r.loadMatrix(elementOf(columns, r.steps(), step), st.elements, plus(first, times(step, s.FragK/r.Unit(s))),
			r.Pitch(s), "Row")
	})
	at := plus(plus(st.firstScale, times(n, r.columns())), times(j, s.FragM))
	scale := r.repeated("scale", st.scales, at, "Column", 0, 1)
	var offset text
	if r.Affine {
		offset = r.repeated("offset", st.others, at, "Column", 0, 1)
	}
	r.repeat("f", r.rowFragments(), func(f text) {
		value := binary("*", scale, binary("*", elementOf(rowScales, r.rowFragments(), f),
			r.sumOfStrip(columns, rows, f)))
		if r.Affine {
			value = plus(value, binary("*", offset, elementOf(rowSums, r.rowFragments(), f)))
		}
		for _, p := range r.products {
			if p.b == o {
				r.update(elementOf(p.sums, r.fragments()*r.rowFragments(), plus(times(j, r.rowFragments()), f)), "+=",
					value)
			}
		}
	})
}

// sumOfStrip declares the sum along a strip, and prints it as floats. It adds the less significant parts of rows first.
// Of three digits it sums up the upper two in integers, which hold them: 32 times two int8 factors, times 257.
func (r *skinny) sumOfStrip(columns, rows, f text) text {
	typ, floats := r.fragment(r.Sums(), "Accumulator"), r.fragment(ir.F32, "Accumulator")
	zero := primary(map[ir.DType]string{ir.I32: "0", ir.F32: "0.0"}[r.Sums()])
	add := func(sum text, part int) {
		r.repeat("step", r.steps(), func(step text) {
			row := plus(times(plus(f, uintLit(part*r.rowFragments())), r.steps()), step)
			r.multiplyAdd(sum, elementOf(columns, r.steps(), step),
				elementOf(rows, r.rowFragments()*r.Parts*r.steps(), row))
		})
	}
	sum := r.variable(typ, "sum", call(typ, zero))
	switch r.Parts {
	case 1:
		add(sum, 0)
	case 2:
		add(sum, 1)
		add(sum, 0)
	case 3:
		least := r.variable(typ, "least", call(typ, zero))
		add(least, 0)
		add(sum, 2)
		r.assign(sum, binary("*", sum, intLit(256)))
		add(sum, 1)
		return plus(binary("*", call(floats, sum), primary("256.0")), call(floats, least))
	}
	if r.Sums() == ir.I32 {
		return call(floats, sum)
	}
	return sum
}

// pass adds up the sums of the subgroups that share columns, and stores the results. The sums pass through the shared
// memory of the quants.
func (r *skinny) pass() {
	s, results := r.s, r.s.TileM*r.s.TileN
	perUnit := r.Unit(s) * r.Element.BlockBytes() / 4
	r.barrier()
	r.repeat("j", r.fragments(), func(j text) {
		r.repeat("f", r.rowFragments(), func(f text) {
			for _, p := range r.products {
				at := plus(plus(times(r.part, results), times(f, s.FragN*s.TileN)), plus(r.ownCol, times(j, s.FragM)))
				if !at.Is("0u") {
					at = binary("/", at, uintLit(perUnit))
				}
				r.storeMatrix(elementOf(p.sums, r.fragments()*r.rowFragments(), plus(times(j, r.rowFragments()), f)),
					r.weights[p.b].elements, at, s.TileN/perUnit, "Column")
			}
		})
	})
	r.barrier()
	r.finishParts(s.SubgroupsK, func(n int, part, id text) text {
		at := id
		if !part.Is("0u") {
			at = r.named("at", plus(times(part, results), id))
		}
		unit := binary("/", at, uintLit(perUnit))
		words := elementAt(r.weights[r.products[n].b].elements, unit)
		return call("uintBitsToFloat", elementAt(words, binary("%", at, uintLit(perUnit))))
	})
}
