package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// blockRun is a run and how its quants are multiplied.
type blockRun struct {
	kernel.BlockRun
	// subnormal says that quants come out 2^-24 times as large as they are.
	subnormal bool
	// octets says that eight neighbours, or four of either plane, are decoded at
	// once, by tables in shared memory.
	octets bool
	// paired says that octets have a quant of either plane next to each other.
	paired bool
	// less is how many times products with the masks of octets are taken off those
	// with the octets, in integers, or 0.
	less int
	// ints says that A is bytes with a scale for every 32, so that whole strips
	// are multiplied in integers.
	ints bool
	// rounds says that A is floats which become such bytes as they are read.
	rounds bool
	// fields says that the quants of all planes are multiplied as they stand in
	// their bytes, a whole run at once.
	fields bool
}

// blockRun returns how to walk over the B operands, where they are blocks.
func (v *matVec) blockRun() blockRun {
	if v.s.TileK == 0 {
		return blockRun{}
	}
	run := blockRun{BlockRun: v.k.BlockRun(v.s), ints: v.s.IntDot, rounds: v.s.RoundRows,
		octets: v.s.Decode == kernel.DecodeOctets, fields: v.s.Decode == kernel.DecodeFields}
	if run.octets {
		run = v.withOctets(run)
	}
	run.subnormal = v.s.Subnormals && !run.ints
	if run.subnormal && run.Form.Signed {
		run.Form.Bias += 128 // which bytes_above_subnormal adds
		if run.Form.Halved {
			run.Form.Bias += 128
		}
	}
	return run
}

// accumulateBlocks is accumulate over a B of blocks.
func (v *matVec) accumulateBlocks(r blockRun) {
	steps, _ := v.k.Fold.Quo(int64(r.Elems))
	v.prepareBlocks(r)
	v.line("")
	if v.s.StageRows {
		v.inTiles(r, steps.Max(), func(step text) { v.addRun(r, step, int(steps.Max())+1) })
	} else {
		v.inTurn(v.dim(steps), func(step text) { v.addRun(r, step, int(steps.Max())+1) })
	}
	v.liftSums(r)
}

// small reports whether sums are 2^-24 times as large as they are to be, for the
// quants' sake.
func (v *matVec) small(r blockRun) bool { return r.subnormal && v.s.Chained }

// liftSums brings small sums to their size.
func (v *matVec) liftSums(r blockRun) {
	if !v.small(r) {
		return
	}
	v.repeat("i", v.s.ThreadM*v.s.ThreadN, func(i text) {
		for _, sum := range v.sumsAt(i) {
			v.line("%s *= 16777216.0;", sum.s)
		}
	})
}

// prepareBlocks makes the text have what runs over blocks need.
func (v *matVec) prepareBlocks(r blockRun) {
	for _, o := range v.b {
		if r.octets {
			v.blockScale(v.blockBuffer(o))
		} else if r.fields {
			v.fieldFunctions(v.blockBuffer(o), v.s.Subnormals)
		} else {
			v.blockParts(v.blockBuffer(o))
		}
	}
	switch {
	case r.ints:
		v.need(NeedIntDot)
		if r.rounds {
			v.helper("round_bytes", "float")
		}
		if r.Form.NeedsSums() {
			v.declareOnes()
		}
	case !r.Form.Levels:
		v.helper(r.unpack(), "float")
	}
}

// inTurn writes body for every LanesPerRow-th step from this invocation's first
// on, Ahead of them at once as long as there are so many: what they read is then
// on its way before the first is multiplied.
func (v *matVec) inTurn(steps text, body func(step text)) {
	ahead, lanes := v.s.Ahead, v.s.LanesPerRow
	if ahead <= 1 {
		body(v.loop("step", v.part, steps, lanes))
		v.close()
		return
	}
	first := primary(v.variable("uint", "first", v.part))
	last := plus(first, uintLit(int64((ahead-1)*lanes)))
	v.open("for (; %s; %s += %du)", binary("<", last, steps).s, first.s, ahead*lanes)
	v.repeat("n", ahead, func(n text) {
		body(primary(v.variable("uint", "step", plus(first, times(n, lanes)))))
	})
	v.close()
	v.open("for (; %s; %s += %du)", binary("<", first, steps).s, first.s, lanes)
	body(first)
	v.close()
}

// addRun adds the products of step number step of fewer than limit.
func (v *matVec) addRun(r blockRun, step text, limit int) {
	block, e, k := v.placeStep(r, step, limit)
	if v.s.Decode == kernel.DecodeWhole {
		v.eachStrip(r, func(p, at text) { v.addWhole(r, strip{block: block, e: e, at: at, p: p}, plus(k, at)) })
		return
	}
	if r.fields {
		v.addFieldRun(r, block, e, k)
		return
	}
	v.repeat("p", r.Strips, func(p text) {
		at := times(p, r.StripStride())
		rows, sums, scales := v.readRowStrips(r, plus(k, at))
		v.repeat("j", v.s.ThreadN, func(j text) {
			v.bindColumn(j)
			v.addStrip(r, strip{block: block, e: e, at: at, p: p, j: j, rows: rows, sums: sums, scales: scales})
		})
	})
}

// placeStep names the block that step number step of fewer than limit is in, its
// first element there, and that element's place along the contraction.
func (v *matVec) placeStep(r blockRun, step text, limit int) (block, e, k text) {
	perBlock := r.DType.BlockElems() / r.Elems
	block = v.named("block", quotient(step, perBlock, limit))
	e = v.firstElement(r, remainder(step, perBlock, limit))
	return block, e, v.named("k", plus(times(block, r.DType.BlockElems()), e))
}

// firstElement prints the first element of the block, in plane 0, of step
// number part of a block.
func (v *matVec) firstElement(r blockRun, part text) text {
	if !r.Form.Interleaved() {
		return v.named("e", times(part, r.Elems))
	}
	super, n := r.Form.Superblock(), r.DType.BlockElems()
	e := times(part, r.Elems/r.Form.Planes) // were there plane 0 only
	if super == n {
		return v.named("e", e)
	}
	e = v.named("place", e)
	return v.named("e", plus(times(binary("/", e, uintLit(int64(r.Form.Stride))), super), binary("%", e, uintLit(int64(r.Form.Stride)))))
}

func (v *matVec) blockBuffer(o *matOperand) *buffer { return v.buffers[kernel.Widened(o.value).Bind] }

// readStrip reads every row of an A along a strip and, where the format needs
// them, sums it up. It returns the names of the vectors and of the sums.
func (v *matVec) readStrip(r blockRun, o *matOperand, k text) (rows, sums string) {
	s := v.s
	rows, sums = v.declareStrip(r, o)
	read := v.rowReader(r, k)
	v.repeat("i", s.ThreadM, func(i text) {
		v.repeat("t", r.Quads, func(t text) {
			x := elementOf(rows, s.ThreadM*r.Quads, plus(times(i, r.Quads), t))
			v.line("%s = %s;", x.s, read(o, i, t).s)
			if sums != "" {
				v.line("%s += dot(%s, vec4(1.0));", elementOf(sums, s.ThreadM, i).s, x.s)
			}
		})
		v.weighSum(r, sums, i)
	})
	return rows, sums
}

// weighSum makes of the sum of row i along a strip what small sums need of it:
// less the bias for every element, where that is the same for all columns.
func (v *matVec) weighSum(r blockRun, sums string, i text) {
	if sums == "" || !v.small(r) {
		return
	}
	weight := 1.0
	if !r.Form.Affine {
		weight = -float64(r.Form.Bias)
	}
	v.line("%s *= %s;", elementOf(sums, v.s.ThreadM, i).s, finiteLit(weight/(1<<24), 32, "").s)
}

// declareStrip declares the vectors of a strip and their sums, which are 0.
func (v *matVec) declareStrip(r blockRun, o *matOperand) (rows, sums string) {
	rows = v.array("vec4", o.name+"_strip", v.s.ThreadM*r.Quads)
	if !r.Form.NeedsSums() {
		return rows, ""
	}
	sums = v.array("float", o.name+"_sum", v.s.ThreadM)
	v.repeat("i", v.s.ThreadM, func(i text) { v.line("%s = 0.0;", elementOf(sums, v.s.ThreadM, i).s) })
	return rows, sums
}

// unpack is the function that makes a vec4 of four quants.
func (r blockRun) unpack() string {
	switch {
	case r.subnormal && r.Form.Signed:
		return "bytes_above_subnormal"
	case r.Form.Signed:
		return "bytes_signed"
	case r.subnormal:
		return "bytes_subnormal"
	}
	return "bytes_unsigned"
}

// strip is the quads that share a scale, and what they are multiplied by.
type strip struct {
	block, e, at, p, j text
	k                  text // its first place along the contraction, where it is held
	rows, sums, scales map[*matOperand]string
}

// addStrip adds the products of a strip of one column with every row.
func (v *matVec) addStrip(r blockRun, s strip) {
	typ, zero := "float", "0.0"
	if r.ints {
		typ, zero = "int", "0"
	}
	dots := make([]string, len(v.products))
	for n, p := range v.products {
		b := v.blockBuffer(p.b)
		dots[n] = v.array(typ, numberedName("dots", n, len(v.products)), v.s.ThreadM)
		v.repeat("i", v.s.ThreadM, func(i text) {
			first := primary(zero)
			if v.small(r) && !r.Form.Affine && r.Form.NeedsSums() {
				first = elementOf(s.sums[p.a], v.s.ThreadM, i)
			}
			v.line("%s = %s;", elementOf(dots[n], v.s.ThreadM, i).s, first.s)
		})
		at := primary(v.variable("uint", numberedName("at", n, len(v.products)), v.blockOf(p.b, s.block)))
		if r.octets {
			v.addOctets(r, b, at, s, dots[n], s.rows[p.a])
		} else {
			v.addStripQuads(r, b, at, s, dots[n], s.rows[p.a])
		}
		v.addScaled(r, s, n, at, dots[n])
	}
}

// addStripQuads adds the products of a strip's quads of a block to dots.
func (v *matVec) addStripQuads(r blockRun, b *buffer, block text, s strip, dots, rows string) {
	wide := ""
	switch {
	case r.Wide(b.Binding):
		wide = v.readWide(r, b, block, s)
	case r.Pairs(b.Binding):
		wide = v.variable("uvec2", "quants", call(v.pairQuants(b), v.quadArgs(r, block, s, primary("0u"))...))
	}
	v.repeat("t", r.Quads, func(t text) {
		product := v.quadProduct(r, b, block, s, t, wide)
		v.repeat("i", v.s.ThreadM, func(i text) {
			x, sum := elementOf(rows, v.s.ThreadM*r.Quads, plus(times(i, r.Quads), t)), elementOf(dots, v.s.ThreadM, i)
			v.line("%s = %s;", sum.s, product(sum, x).s)
		})
	})
}

// quadProduct decodes quad t of a strip, and returns what prints its product
// with four neighbours x of a row, added to a sum.
func (v *matVec) quadProduct(r blockRun, b *buffer, block text, s strip, t text, wide string) func(sum, x text) text {
	switch {
	case r.Form.Levels:
		return v.floatProduct(r, call("levels_"+b.base, v.quadArgs(r, block, s, t)...))
	case wide != "":
		return v.bytesProduct(r, primary(wideElement(wide, r.Quads, t)))
	}
	return v.bytesProduct(r, call("quants_"+b.base, v.quadArgs(r, block, s, t)...))
}

// bytesProduct unpacks four quants, and returns what prints their product with
// four neighbours of a row, added to a sum.
func (v *matVec) bytesProduct(r blockRun, quants text) func(sum, x text) text {
	if !r.ints {
		return v.floatProduct(r, call(r.unpack(), quants))
	}
	bytes := v.variable("int", "bytes", call("int", quants))
	return func(sum, x text) text { return binary("+", sum, call("dotPacked4x8EXT", primary(bytes), x)) }
}

// floatProduct is bytesProduct of four floats.
func (v *matVec) floatProduct(r blockRun, floats text) func(sum, x text) text {
	levels := v.variable("vec4", "levels", floats)
	if !v.s.Chained {
		return func(sum, x text) text { return binary("+", sum, call("dot", primary(levels), x)) }
	}
	v.helper("dot_onto", "float")
	return func(sum, x text) text { return call("dot_onto", sum, primary(levels), x) }
}

// readWide reads the quants of a strip and returns the name of them: a uvec4, or
// where there are more than four quads an array of it.
func (v *matVec) readWide(r blockRun, b *buffer, block text, s strip) string {
	if r.Quads == 4 {
		return v.variable("uvec4", "quants", v.wideCall(r, b, block, s, primary("0u")))
	}
	name := v.fresh(v.scope, "quants")
	v.line("uvec4 %s[%d];", name, r.Quads/4)
	v.repeat("w", r.Quads/4, func(w text) { v.line("%s[%s] = %s;", name, w.s, v.wideCall(r, b, block, s, w).s) })
	return name
}

// wideCall prints the call that reads quads 4w to 4w+3 of a strip.
func (v *matVec) wideCall(r blockRun, b *buffer, block text, s strip, w text) text {
	switch {
	case r.Joined: // of 16 elements a plane
		return call(v.wideQuants(b), block, s.e, w)
	case r.Form.Planes > 1:
		return call(v.wideQuants(b), block, within(s.e, times(w, 16)), s.p)
	}
	return call(v.wideQuants(b), block, within(within(s.e, s.at), times(w, 16)))
}

// wideElement prints quad t of what readWide has read.
func wideElement(name string, quads int, t text) string {
	if quads <= 4 {
		return name + "[" + t.s + "]"
	}
	return name + "[" + quotient(t, 4, quads).s + "][" + remainder(t, 4, quads).s + "]"
}

// blockOf prints the number of a block of a B, from its number in the row.
func (v *matVec) blockOf(o *matOperand, block text) text {
	x := kernel.Widened(o.value).Index
	n := int64(v.k.Bindings[kernel.Widened(o.value).Bind].DType.BlockElems())
	rest, _ := x.DropAxis(v.fold).DivMod(ir.D(int(n)))
	v.plan(nil, []kernel.Index{rest})
	return plus(v.indexText(rest), block)
}

// within is e plus an offset of fewer elements than e is a multiple of: compilers
// see through divisions and remainders of that where it is an or.
func within(e, offset text) text {
	switch {
	case e.s == "0u":
		return offset
	case offset.s == "0u":
		return e
	}
	return binary("|", e, offset)
}

// quadArgs are the arguments of a decoder of quad t of a strip.
func (v *matVec) quadArgs(r blockRun, block text, s strip, t text) []text {
	first := s.e
	if !r.Form.Interleaved() {
		first = within(first, s.at)
	}
	e, p := within(first, times(t, 4)), s.p
	if perPlane := r.Form.Stride / 4; r.Joined {
		e, p = within(s.e, times(remainder(t, perPlane, r.Quads), 4)), quotient(t, perPlane, r.Quads)
	}
	if !r.Form.Interleaved() && r.Form.Planes > 1 {
		e = within(first, times(quotient(t, r.Form.Planes, r.Quads), r.Form.Superblock()))
		p = remainder(t, r.Form.Planes, r.Quads)
	}
	args := []text{block, e}
	if r.Form.Planes > 1 {
		args = append(args, p)
	}
	return args
}

// addScaled adds the scaled dot products of a strip to the sums.
func (v *matVec) addScaled(r blockRun, s strip, n int, block text, dots string) {
	p := v.products[n]
	b := v.blockBuffer(p.b)
	scale := v.variable(scaleType(r.Form), "scale", call("scale_"+b.base, block, within(s.e, s.at)))
	v.repeat("i", v.s.ThreadM, func(i text) {
		sum := v.sumsAt(plus(times(i, v.s.ThreadN), s.j))[n]
		if r.ints {
			v.addIntScaled(r, sum, scale, elementOf(dots, v.s.ThreadM, i), elementOf(s.sums[p.a], v.s.ThreadM, i), elementOf(s.scales[p.a], v.s.ThreadM, i))
			return
		}
		dot, x := elementOf(dots, v.s.ThreadM, i), elementOf(s.sums[p.a], v.s.ThreadM, i)
		if r.subnormal && !v.small(r) {
			dot = binary("*", primary("16777216.0"), dot)
		}
		if r.Form.Halved {
			dot = binary("*", primary("2.0"), dot)
		}
		switch {
		case v.small(r) && !r.Form.Affine:
			v.line("%s += %s * %s;", sum.s, scale, dot.s)
		case r.Form.Affine:
			v.line("%s += %s.x * %s + %s.y * %s;", sum.s, scale, dot.s, scale, x.s)
		case r.Form.Bias != 0:
			dot = binary("-", dot, binary("*", v.floatLit(float64(r.Form.Bias)), x))
			v.line("%s += %s * %s;", sum.s, scale, dot.at(precProduct+1))
		default:
			v.line("%s += %s * %s;", sum.s, scale, dot.s)
		}
	})
}
