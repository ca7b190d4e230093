package matvec

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/ceil"
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
	if r.Halves {
		return rowArrays{elements: r.Array("uvec4", "a_elements", r.Parts*r.rowRounds(schedule.OctetElems))}
	}
	typ := map[int]string{4: "vec4", 16: "uvec4"}[r.perRow()]
	a := rowArrays{elements: r.Array(typ, "a_elements", r.rowRounds(r.perRow()))}
	if r.Parts == 1 {
		a.scales = r.Array("float", "a_scale", r.rowRounds(r.Strip))
	}
	if r.Parts == 1 && r.Affine { // an offset is multiplied by the sum of the strip
		a.sums = r.Array("int", "a_sum", r.rowRounds(r.Strip))
	}
	return a
}

// fetchRows loads this invocation's elements of the rows into registers, for the step that begins at k0.
func (r *skinny) fetchRows(a rowArrays, k0 expr.Expr) {
	if r.Halves {
		high, low, _ := r.K.HalfRows(r.A[0].Value)
		r.eachLoad(schedule.OctetElems, func(i, row, at expr.Expr) {
			for part, v := range []*kernel.Expr{high, low} {
				b := r.Buffers[v.Bind]
				octet := expr.Binary("/", r.IndexAt(v.Index, r.Fold, expr.Plus(k0, at)), expr.Uint(schedule.OctetElems))
				r.Assign(a.elements.At(expr.Flat(i, r.Parts, expr.Uint(part))),
					expr.At(expr.Of(r.View(b, schedule.OctetElems)), b.Subscript(octet)))
			}
		})
		return
	}
	if r.Parts > 1 {
		r.eachLoad(4, func(i, row, at expr.Expr) {
			r.Assign(a.elements.At(i), r.Quad(r.A[0], expr.Plus(k0, at), emit.Inside))
		})
		return
	}
	bytes, scale, _ := r.K.ByteRows(r.A[0].Value) // int8 rows, with a scale per strip
	r.eachLoad(16, func(i, row, at expr.Expr) {
		r.Assign(a.elements.At(i), r.BytesAt(bytes, emit.Along{Axis: r.Fold, Extent: r.K.Fold}, expr.Plus(k0, at), 16))
	})
	r.eachLoad(r.Strip, func(i, row, at expr.Expr) {
		r.BindAxis(r.Fold, r.Variable("uint", "k", expr.Plus(k0, at)))
		read := loadOfScale(scale)
		r.Assign(a.scales.At(i), r.Eval(read))
		if r.Affine { // the offset is multiplied by the sum of the strip
			r.sumBytes(a.sums.At(i), bytes, expr.Plus(k0, at))
		}
	})
}

// loadOfScale returns the expression that fetchRows keeps in registers for a row scale. If the scale depends on a
// single f32 load and nothing else, it returns the load, so that the kernel need not wait for it before it computes the
// scale (see fetchedStrips). Otherwise it returns the scale itself.
func loadOfScale(scale *kernel.Expr) *kernel.Expr {
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

// scaleFromLoad returns the scale, given the value that fetchRows kept for it (loadOfScale).
func (r *skinny) scaleFromLoad(kept expr.Expr) expr.Expr {
	_, scale, _ := r.K.ByteRows(r.A[0].Value)
	r.Scope.Values[loadOfScale(scale)] = kept
	if value := r.Eval(scale); !expr.IsPlain(value) {
		return r.Variable("float", "scale", value)
	}
	return kept
}

// sumBytes sets sum to the sum of the int8 elements of a row's strip at k.
func (r *skinny) sumBytes(sum expr.Expr, bytes *kernel.Expr, k expr.Expr) {
	r.Need(emit.NeedIntDot)
	r.Assign(sum, expr.Int(0))
	for w := range r.Strip / 16 {
		four := r.Variable("uvec4", "four", r.BytesAt(bytes, emit.Along{Axis: r.Fold, Extent: r.K.Fold},
			expr.Plus(k, expr.Uint(16*w)), 16))
		r.Repeat("n", 4, func(n expr.Expr) {
			r.Update(sum, "+=", expr.Call("dotPacked4x8EXT", expr.Call("int", expr.At(four, n)), expr.Of("ones")))
		})
	}
}

// putRows stores the loaded rows in shared memory, in the form that matrix instructions take: sums of two f16 that
// are stored as such (Halves), floats to be split into parts, or int8 rows with their scales.
func (r *skinny) putRows(a rowArrays) {
	if r.Halves {
		r.eachStore(schedule.OctetElems, func(i, row, at expr.Expr) {
			for part := range r.Parts {
				octet := a.elements.At(expr.Flat(i, r.Parts, expr.Uint(part)))
				r.putUnit(r.rows.elements, r.rowUnit(row, at, expr.Uint(part)), 0, r.inOrder(octet))
			}
		})
		return
	}
	if r.Parts > 1 {
		r.eachStore(4, func(i, row, at expr.Expr) { r.putFloats(a.elements.At(i), row, at) })
		return
	}
	r.eachStore(16, func(i, row, at expr.Expr) {
		four, unit := a.elements.At(i), r.rowUnit(row, at, expr.Of("0u"))
		if r.Element == ir.I8 {
			r.putUnit(r.rows.elements, unit, 0, four)
			return
		}
		for w := range 2 {
			r.putUnit(r.rows.elements, unit, w, r.halvesOf(four, w))
		}
	})
	r.eachStore(r.Strip, func(i, row, at expr.Expr) {
		place, scale := r.rowScale(row, at), r.scaleFromLoad(a.scales.At(i))
		r.Assign(expr.At(r.rows.scales, place), scale)
		if r.Affine {
			r.Assign(expr.At(r.rows.others, place), expr.Binary("*", scale, expr.Call("float", a.sums.At(i))))
		}
	})
}

// inOrder returns eight neighbouring f16 values of a row of A in the order of the quants of B, as products need. The
// GLSL function halves_of_bytes returns quants in the order 0, 2, 1, 3, 4, 6, 5, 7. Formats with float quants (Levels)
// do not use that function, and their quants are in order.
func (r *skinny) inOrder(octet expr.Expr) expr.Expr {
	if r.Levels {
		return octet
	}
	even := r.Variable("uvec2", "even", expr.Format("%s.xz & 0xffffu | %[1]s.yw << 16", octet))
	odd := r.Variable("uvec2", "odd", expr.Format("%s.xz >> 16 | %[1]s.yw & 0xffff0000u", octet))
	return expr.Format("uvec4(%s.x, %s.x, %[1]s.y, %[2]s.y)", even, odd)
}

// halvesOf returns int8 elements 8w to 8w+7 of four (16 elements of a row) as f16 values, in the order of inOrder.
func (r *skinny) halvesOf(four expr.Expr, w int) expr.Expr {
	pair := expr.Member(four, [2]string{"xy", "zw"}[w])
	if r.Levels {
		r.Helper("pack_halves", "float")
		r.Helper("bytes_signed", "float")
		return expr.Call("pack_halves", expr.Call("bytes_signed", expr.Member(pair, "x")),
			expr.Call("bytes_signed", expr.Member(pair, "y")))
	}
	r.Helper("halves_of_bytes", "float")
	// A byte in the mantissa of a half is the byte plus 1024, and flipping its top bit has added 128.
	return expr.Call("halves_of_bytes", expr.Binary("^", pair, expr.Of(topOfEachByte)), expr.Of("float16_t(1152)"))
}

// rowGroups is the number of groups of n elements in the rows of a step. If there are fewer rows than TileM, the last
// row is loaded again and its results are not stored: a branch around the loads is slower (M-block-rows).
func (r *skinny) rowGroups(n int) int { return r.s.TileM * (r.s.TileK / n) }

// rowLanes is the number of invocations that load these groups together: all invocations of the subgroups with the same
// part of the contraction axis.
func (r *skinny) rowLanes() int { return r.s.Down() * r.s.SubgroupsN * r.s.Subgroup }

// rowRounds is the number of groups that each invocation loads.
func (r *skinny) rowRounds(n int) int { return ceil.Div(r.rowGroups(n), r.rowLanes()) }

// eachLoad calls body for each group of n elements of a step's rows that this invocation loads (see eachOfRows). An
// invocation without a group loads the last group of float rows again, which takes no branch. For int8 rows a branch
// around the loads of the scales is faster (M-skinny).
func (r *skinny) eachLoad(n int, body func(i, row, at expr.Expr)) {
	r.eachOfRows(n, r.Parts == 1, body)
}

// eachStore calls body for each group of n elements of a step's rows that this invocation stores (see eachOfRows). An
// invocation without a group stores nothing.
func (r *skinny) eachStore(n int, body func(i, row, at expr.Expr)) { r.eachOfRows(n, true, body) }

// eachOfRows calls body for each group of n elements of a step's rows that this invocation handles. i counts the
// invocation's groups, row is the row of the tile, and at is the group's first element in the step. The row axis is
// bound. skip says that an invocation without a group skips body, instead of handling the last group again.
func (r *skinny) eachOfRows(n int, skip bool, body func(i, row, at expr.Expr)) {
	total, lanes, perRow := r.rowGroups(n), r.rowLanes(), r.s.TileK/n
	uneven := total%lanes != 0 // some invocations have no group in the last round
	r.Repeat("i", r.rowRounds(n), func(i expr.Expr) {
		slot := r.Named("slot", expr.Plus(expr.Remainder(r.self, lanes, r.s.Workgroup), expr.Times(i, lanes)))
		guarded := uneven && skip
		switch {
		case guarded:
			r.OpenIf(expr.Binary("<", slot, expr.Uint(total)))
		case uneven:
			slot = r.Named("slot", expr.Call("min", slot, expr.Uint(total-1)))
		}
		row := r.Named("line", expr.Quotient(slot, perRow, total))
		at := r.Named("at", expr.Times(expr.Remainder(slot, perRow, total), n))
		r.BindAxis(r.Row, r.Named("row", r.ClampTo(expr.Plus(r.Row0, row), r.Row, r.s.TileM)))
		body(i, row, at)
		if guarded {
			r.Close()
		}
	})
}

// rowUnit is the shared-memory index of element at of a row. Floats may be split into several parts; part selects one.
func (r *skinny) rowUnit(row, at, part expr.Expr) expr.Expr {
	line := expr.Plus(row, expr.Times(part, r.s.TileM))
	return r.Named("unit", expr.Plus(r.inStage(r.rows.first, r.RowUnits(r.s)), expr.Times(line, r.Pitch(r.s)),
		expr.Binary("/", at, expr.Uint(r.Unit(r.s)))))
}

// rowScale is the shared-memory index of the scale for the strip with element at of a row.
func (r *skinny) rowScale(row, at expr.Expr) expr.Expr {
	return r.Named("place", expr.Plus(r.rows.firstScale,
		expr.Times(expr.Binary("/", at, expr.Uint(r.Strip)), r.s.TileM), row))
}

// putFloats stores four floats of a row in the form that matrix instructions take: as base-256 digits (int8) or as sums
// of two f16. It first multiplies the floats by a power of two, so that the largest element of their strip is at the
// top of the form's range. The scale of the strip is the inverse of this power. If the largest element is infinite or
// NaN, it is the scale: infinities become 1 or -1, and all other elements 0.
func (r *skinny) putFloats(four, row, at expr.Expr) {
	x := r.Variable("vec4", "x", four)
	tops := r.Variable("uvec4", "tops", expr.Of(fmt.Sprintf("floatBitsToUint(%s) & "+magnitudeBits, x)))
	top := r.Variable("uint", "top", expr.Of(fmt.Sprintf("max(max(%s.x, %[1]s.y), max(%[1]s.z, %[1]s.w))", tops)))
	var sum expr.Expr
	if r.Affine {
		sum = r.Variable("float", "sum", expr.Of(fmt.Sprintf("dot(%s, vec4(1.0))", x)))
	}
	for mask := 1; mask < r.Strip/4; mask *= 2 {
		r.AtLeast(top, emit.Shuffled(top, mask))
		if sum != nil {
			r.Update(sum, "+=", emit.Shuffled(sum, mask))
		}
	}
	bits := 14 // elements are scaled to below 2^(bits+1), as putHalves needs
	if r.Element == ir.I8 {
		bits = 21 // as putDigits needs
	}
	exponent := r.Variable("uint", "exponent", expr.Of(fmt.Sprintf("clamp(%s >> 23, %du, 254u)", top, bits+1)))
	r.Exactly("bool", "special", expr.Binary(">=", top, expr.Of(infinityBits)))
	r.Assign(x, expr.Choose(expr.Of("special"), expr.Format("mix(vec4(0.0), sign(%s), isinf(%[1]s))", x),
		expr.Format("%s * uintBitsToFloat(%du - %s << 23)", x, 254+bits, exponent)))
	if r.Element == ir.I8 {
		r.putDigits(x, row, at)
	} else {
		r.putHalves(x, row, at)
	}
	r.OpenIf(expr.Binary("==", expr.Binary("%", at, expr.Uint(r.Strip)), expr.Uint(0)))
	place := r.rowScale(row, at)
	r.Assign(expr.At(r.rows.scales, place),
		expr.Format("special ? uintBitsToFloat(%s) : uintBitsToFloat(%s - %du << 23)", top, exponent, bits))
	if sum != nil {
		r.Assign(expr.At(r.rows.others, place), sum)
	}
	r.Close()
}

// putDigits stores floats below 2^22 as three signed base-256 digits, least significant first. Adding 128 at each digit
// makes the digits unsigned, so that they are the bytes of the sum. Flipping their top bits subtracts the 128 again.
func (r *skinny) putDigits(x, row, at expr.Expr) {
	digits := r.Variable("uvec4", "digits", expr.Of(fmt.Sprintf("uvec4(ivec4(roundEven(%s)) + 0x808080) ^ 0x808080u",
		x)))
	r.Helper("pack_bytes", "ivec4")
	r.Repeat("part", r.Parts, func(part expr.Expr) {
		unit := r.rowUnit(row, at, part)
		r.Assign(expr.At(expr.At(r.rows.elements, unit), r.component(at, 4, 0)),
			expr.Format("pack_bytes(ivec4(%s >> 8u * %s))", digits, part))
	})
}

// putHalves stores each float x below 2^15 as the sum of two f16 values. The first is x rounded to f16 precision. The
// second is the remainder. Integer operations round x, because a compiler could remove a conversion to f16 and back.
func (r *skinny) putHalves(x, row, at expr.Expr) {
	// An f16 lacks the low 13 bits of an f32. To round, add half of their range and clear them.
	rounded := fmt.Sprintf("uintBitsToFloat(floatBitsToUint(%s) + 0x1000u & 0xffffe000u)", x)
	high := r.Variable("vec4", "high", expr.Of(rounded))
	low := r.Variable("vec4", "low", expr.Binary("-", x, high))
	for part, value := range []expr.Expr{high, low} {
		halves, unit := r.Variable("uvec2", "halves", r.halves(value)), r.rowUnit(row, at, expr.Uint(part))
		words := expr.At(r.rows.elements, unit)
		r.Assign(expr.At(words, r.component(at, 2, 0)), expr.Member(halves, "x"))
		r.Assign(expr.At(words, r.component(at, 2, 1)), expr.Member(halves, "y"))
	}
}

// component returns the index of the component that holds word n of a quad in a unit of shared memory, which is a
// vector of words. at is the number of the quad's first element, and a word holds perWord elements.
func (r *skinny) component(at expr.Expr, perWord int, n int64) expr.Expr {
	words := r.Unit(r.s) / perWord
	return expr.Plus(expr.Binary("%", expr.Binary("/", at, expr.Uint(perWord)), expr.Uint(words)), expr.Uint(n))
}

// halves returns a vec4 as f16 values, in the order of the quants.
func (r *skinny) halves(x expr.Expr) expr.Expr {
	if r.Levels {
		return expr.Of(fmt.Sprintf("uvec2(packHalf2x16(%s.xy), packHalf2x16(%[1]s.zw))", x))
	}
	return expr.Of(fmt.Sprintf("uvec2(packHalf2x16(%s.xz), packHalf2x16(%[1]s.yw))", x))
}

// multiply multiplies the operands of one step, which are in shared memory, and adds to the sums.
func (r *skinny) multiply() {
	s := r.s
	r.Comment("Multiply.")
	n := r.OpenRolled("strip", expr.Of("0u"), expr.Uint(r.strips()), 1)
	// Rows that are two f16 in memory (Halves) have no scales, and their sums are computed here.
	at := expr.Plus(r.rows.firstScale, expr.Times(n, s.TileM), r.ownRow)
	var rowScales, rowSums expr.Array
	if !r.Halves {
		rowScales = r.loadRepeated("row_scale", r.rows.scales, at, "Row", s.FragN, r.rowFragments())
	}
	if r.Affine && !r.Halves {
		rowSums = r.loadRepeated("row_sum", r.rows.others, at, "Row", s.FragN, r.rowFragments())
	}
	rows := r.rowElements(n)
	if r.Affine && r.Halves {
		rowSums = r.sumRows(rows)
	}
	for _, o := range r.B {
		r.Repeat("j", r.fragments(), func(j expr.Expr) { r.multiplyColumns(o, n, j, rows, rowScales, rowSums) })
	}
	r.Close()
}

// sumRows returns the sum of each operand row over a strip: affine formats multiply their offset by it. It multiplies a
// fragment of ones by the fragments of the rows. So each column of a result fragment holds the sum of one row, and all
// lines of the fragment are equal.
func (r *skinny) sumRows(rows expr.Array) expr.Array {
	typ := emit.Fragment(r.s.Fragment, r.Element, "A")
	ones := r.Variable(typ, "ones", expr.Call(typ, expr.Of("float16_t(1.0)")))
	acc, total := emit.Fragment(r.s.Fragment, ir.F32, "Accumulator"), r.Parts*r.steps()
	sums := r.Array(acc, "row_sum", r.rowFragments())
	r.Repeat("f", r.rowFragments(), func(f expr.Expr) {
		r.Assign(sums.At(f), expr.Call(acc, expr.Of("0.0")))
		r.Repeat("step", total, func(i expr.Expr) { // the steps of every part
			part, step := expr.Quotient(i, r.steps(), total), expr.Remainder(i, r.steps(), total)
			fragment := expr.Flat(expr.Plus(f, expr.Times(part, r.rowFragments())), r.steps(), step)
			r.MultiplyAdd(sums.At(f), ones, rows.At(fragment))
		})
	})
	return sums
}

// steps is the number of fragments along a strip.
func (r *skinny) steps() int { return r.Strip / r.s.FragK }

// rowElements loads the fragments of all rows along strip n.
func (r *skinny) rowElements(n expr.Expr) expr.Array {
	s := r.s
	fragments := r.rowFragments() * r.Parts // of all parts of the row elements
	name := r.Array(emit.Fragment(r.s.Fragment, r.Element, "B"), "rows", fragments*r.steps())
	r.Repeat("f", fragments, func(f expr.Expr) {
		part := expr.Quotient(f, r.rowFragments(), fragments)
		frag := expr.Remainder(f, r.rowFragments(), fragments)
		line := expr.Flat(part, s.TileM, expr.Plus(r.ownRow, expr.Times(frag, s.FragN)))
		r.Repeat("step", r.steps(), func(step expr.Expr) {
			at := expr.Plus(r.inStage(r.rows.first, r.RowUnits(s)), expr.Times(line, r.Pitch(s)),
				expr.Flat(n, r.Strip/r.Unit(s), expr.Times(step, s.FragK/r.Unit(s))))
			r.LoadMatrix(name.At(expr.Flat(f, r.steps(), step)), r.rows.elements, at, r.Pitch(s), "Column")
		})
	})
	return name
}

// loadRepeated loads `count` accumulator fragments from an array of floats, beginning at index at, into a new array
// named base. Each fragment repeats its floats in every row ("Row") or column ("Column"), as major says. Consecutive
// fragments begin `extent` floats apart.
func (r *skinny) loadRepeated(base string, array, at expr.Expr, major string, extent, count int) expr.Array {
	name := r.Array(emit.Fragment(r.s.Fragment, ir.F32, "Accumulator"), base, count)
	r.Repeat("f", count, func(f expr.Expr) {
		r.LoadMatrix(name.At(f), array, expr.Plus(at, expr.Times(f, extent)), 0, major)
	})
	return name
}

// multiplyColumns multiplies strip n (the elements along the contraction that share a scale) of column fragment j of B
// by every fragment of rows. It scales the results and adds them to the f32 sums. Columns lie along FragM, because B is
// the first operand of the matrix instruction.
func (r *skinny) multiplyColumns(o *matmul.Operand, n, j expr.Expr, rows, rowScales, rowSums expr.Array) {
	s, st := r.s, r.weights[o]
	// The strip's quants, one fragment for each FragK elements.
	columns := r.Array(emit.Fragment(r.s.Fragment, r.Element, "A"), "columns", r.steps())
	first := expr.Plus(r.inStage(st.first, r.WeightStage(s)), expr.Times(j, s.FragM*r.Pitch(s)),
		expr.Times(n, r.Strip/r.Unit(s)))
	r.Repeat("step", r.steps(), func(step expr.Expr) {
		r.LoadMatrix(columns.At(step), st.elements, expr.Plus(first, expr.Times(step, s.FragK/r.Unit(s))),
			r.Pitch(s), "Row")
	})
	at := expr.Plus(r.inStage(st.firstScale, r.WeightScales(s)), expr.Times(n, r.columns()), expr.Times(j, s.FragM))
	scale := r.loadRepeated("scale", st.scales, at, "Column", 0, 1)
	var offset expr.Array
	if r.Affine {
		offset = r.loadRepeated("offset", st.others, at, "Column", 0, 1)
	}
	r.Repeat("f", r.rowFragments(), func(f expr.Expr) {
		value := r.sumOfStrip(columns, rows, f)
		if !r.Halves {
			value = expr.Binary("*", rowScales.At(f), value)
		}
		value = expr.Binary("*", scale.Name, value)
		if r.Affine {
			value = expr.Plus(value, expr.Binary("*", offset.Name, rowSums.At(f)))
		}
		for _, p := range r.MatMuls {
			if p.B == o {
				r.Update(p.Sums.At(expr.Flat(j, r.rowFragments(), f)), "+=", value)
			}
		}
	})
}

// sumOfStrip multiplies a strip of the columns by row fragment f, and returns the sums as a fragment of floats. The
// rows have 1 to 3 parts. It adds the products of less significant parts first. Of three digits it sums up the upper
// two as integers: 32 products of two int8, times 257, fit in 32 bits.
func (r *skinny) sumOfStrip(columns, rows expr.Array, f expr.Expr) expr.Expr {
	typ := emit.Fragment(r.s.Fragment, r.Sums(), "Accumulator")
	floats := emit.Fragment(r.s.Fragment, ir.F32, "Accumulator")
	zero := expr.Of(map[ir.DType]string{ir.I32: "0", ir.F32: "0.0"}[r.Sums()])
	add := func(sum expr.Expr, part int) {
		r.Repeat("step", r.steps(), func(step expr.Expr) {
			row := expr.Flat(expr.Plus(f, expr.Uint(part*r.rowFragments())), r.steps(), step)
			r.MultiplyAdd(sum, columns.At(step), rows.At(row))
		})
	}
	sum := r.Variable(typ, "sum", expr.Call(typ, zero))
	switch r.Parts {
	case 1:
		add(sum, 0)
	case 2: // part 0 is the rounded element, and part 1 the remainder
		add(sum, 1)
		add(sum, 0)
	case 3: // digits, of which 0 is the least significant
		least := r.Variable(typ, "least", expr.Call(typ, zero))
		add(least, 0)
		add(sum, 2)
		r.Assign(sum, expr.Binary("*", sum, expr.Int(256)))
		add(sum, 1)
		return expr.Plus(expr.Binary("*", expr.Call(floats, sum), expr.Of("256.0")), expr.Call(floats, least))
	}
	if r.Sums() == ir.I32 {
		return expr.Call(floats, sum)
	}
	return sum
}

// storeResults adds up the sums of the subgroups that share columns and rows, and stores the results. It reuses the
// shared memory of the quants to exchange the sums. With subgroups across the rows, it takes one column fragment of
// each subgroup at a time. The code repeats the statements for each fragment instead of looping, because a driver may
// keep a loop, and then keeps the sums in memory.
func (r *skinny) storeResults() {
	if r.s.SubgroupsM == 0 {
		r.storeColumns(0, r.fragments())
		return
	}
	for j := range r.fragments() {
		r.storeColumns(j, 1)
	}
}

// storeColumns adds up and stores `count` column fragments of each subgroup, from fragment first on. They pass
// through shared memory.
func (r *skinny) storeColumns(first, count int) {
	s, width := r.s, r.ResultColumns(r.s)
	results := s.TileM * width
	perUnit := r.Unit(s) * r.Element.BlockBytes() / 4 // sums in a unit of shared memory
	r.shareColumns(first, count)
	column := func(own expr.Expr) expr.Expr { // a column of the tile, given its number among those that pass
		if s.SubgroupsM == 0 {
			return own
		}
		inSubgroup := expr.Plus(expr.Uint(first*s.FragM), expr.Remainder(own, s.FragM, width))
		return expr.Plus(expr.Times(expr.Quotient(own, s.FragM, width), r.columns()), inSubgroup)
	}
	if perUnit == 4 && s.SubgroupsK == 1 && len(r.K.Phases) == 0 && !r.K.CutsCols() {
		r.finishQuads(width, column)
		return
	}
	r.finishParts(partialResults{parts: s.SubgroupsK, columns: width, column: column,
		read: func(n int, part, id expr.Expr) expr.Expr {
			at := id
			if !part.Is("0u") {
				at = r.Named("at", expr.Flat(part, results, id))
			}
			unit := expr.Binary("/", at, expr.Uint(perUnit))
			words := expr.At(r.weights[r.MatMuls[n].B].elements, unit)
			return expr.Call("uintBitsToFloat", expr.At(words, expr.Binary("%", at, expr.Uint(perUnit))))
		}})
}

// shareColumns stores the sums of `count` column fragments of each subgroup, from fragment `first` on, in the shared
// memory of the weights.
func (r *skinny) shareColumns(first, count int) {
	s, width := r.s, r.ResultColumns(r.s)
	perUnit := r.Unit(s) * r.Element.BlockBytes() / 4 // sums in a unit of shared memory
	own := r.ownCol                                   // the index of the subgroup's first sum
	if s.SubgroupsM > 0 {
		own = r.Named("own_result", expr.Plus(expr.Times(r.ownRow, width),
			expr.Times(expr.Binary("/", r.ownCol, expr.Uint(r.columns())), s.FragM)))
	}
	r.Barrier()
	r.Repeat("j", count, func(j expr.Expr) {
		r.Repeat("f", r.rowFragments(), func(f expr.Expr) {
			for _, p := range r.MatMuls {
				at := expr.Plus(expr.Flat(r.part, s.TileM*width, expr.Times(f, s.FragN*width)),
					expr.Plus(own, expr.Times(j, s.FragM)))
				if !at.Is("0u") {
					at = expr.Binary("/", at, expr.Uint(perUnit))
				}
				r.StoreMatrix(p.Sums.At(expr.Flat(expr.Plus(j, expr.Uint(first)), r.rowFragments(), f)),
					r.weights[p.B].elements, at, width/perUnit, "Column")
			}
		})
	})
	r.Barrier()
}

// finishQuads stores results that are in shared memory, in lines of `width` columns. It takes four neighbours of a row
// at a time, so that an invocation waits a quarter as often for the loads that the stored values need (M-halves).
func (r *skinny) finishQuads(width int, column func(own expr.Expr) expr.Expr) {
	quads := r.s.TileM * width / 4
	r.Blank()
	r.EachSlot(r.self, quads, r.s.Workgroup, func(_, id expr.Expr) {
		row := r.Named("row", expr.Plus(r.Row0, expr.Quotient(id, width/4, quads)))
		col := r.Named("col4", expr.Plus(r.Col0, column(expr.Times(expr.Remainder(id, width/4, quads), 4))))
		sums := make([]expr.Expr, len(r.MatMuls))
		for n, p := range r.MatMuls {
			sums[n] = r.Variable(r.Quads.Vector, matmul.Numbered("sums", n, len(sums)),
				expr.Call("uintBitsToFloat", expr.At(r.weights[p.B].elements, id)))
		}
		r.FinishQuad(row, col, sums)
	})
}
