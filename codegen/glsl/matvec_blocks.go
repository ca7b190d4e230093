package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// blockRun is how an invocation walks over blocks that lie along the
// contraction: elems elements of one block at a time, in strips of quads that
// share a scale, so that a scale is unpacked once and applied to a whole sum:
//
//	sum(x * scale * (q - bias)) = scale * (sum(x * q) - bias * sum(x))
type blockRun struct {
	dtype  ir.DType
	f      blockFormat
	elems  int // of a block, that an invocation takes at once
	strips int // of them, a scale each
	quads  int // of a strip
}

// newBlockRun returns the run for about want elements at once.
func newBlockRun(t ir.DType, want int) blockRun {
	f := blockFormats[t]
	r := blockRun{dtype: t, f: f, strips: 1}
	perPlane, most := max(want/4/f.planes, 1), f.run/4
	if f.interleaved() {
		r.strips, most = f.planes, min(most, f.stride/4)
	} else {
		most /= f.planes
	}
	for most%perPlane != 0 {
		perPlane--
	}
	r.quads = perPlane * f.planes / r.strips
	r.elems = 4 * perPlane * f.planes
	return r
}

// interleaved reports whether the planes of a quad lie apart and have scales of
// their own; else they follow each other.
func (f blockFormat) interleaved() bool { return f.stride > 4 }

// blockRun returns how to walk over the B operands: they must be blocks of one
// format, rows of whole blocks along the contraction, as they stand in memory.
func (v *matVec) blockRun() (run blockRun, ok bool) {
	if v.s.TileK == 0 {
		return run, false
	}
	var t ir.DType
	for _, o := range v.b {
		x := widened(o.value)
		if x.Kind != kernel.ExprLoad {
			return run, false
		}
		b := v.k.Bindings[x.Bind]
		n := b.DType.BlockElems()
		if !b.DType.IsBlock() || b.Write || t != ir.Invalid && b.DType != t || !adjacent(x.Index, v.fold, n) {
			return run, false
		}
		t = b.DType
	}
	_, whole := v.k.Fold.Quo(int64(t.BlockElems()))
	return newBlockRun(t, v.s.TileK), whole
}

// accumulateBlocks is accumulate over a B of blocks.
func (v *matVec) accumulateBlocks(r blockRun) {
	steps, _ := v.k.Fold.Quo(int64(r.elems))
	for _, o := range v.b {
		v.blockLevels(v.blockBuffer(o))
	}
	v.line("")
	step := v.loop("step", v.part, v.dim(steps), v.s.LanesPerRow)
	perBlock := r.dtype.BlockElems() / r.elems
	block := v.named("block", quotient(step, perBlock, int(steps.Max())+1))
	e := v.firstElement(r, remainder(step, perBlock, int(steps.Max())+1))
	k := v.named("k", plus(times(block, r.dtype.BlockElems()), e))
	v.repeat("p", r.strips, func(p text) {
		at := times(p, r.f.stride)
		rows, sums := map[*matOperand]string{}, map[*matOperand]string{}
		for _, o := range v.a {
			rows[o], sums[o] = v.readStrip(r, o, plus(k, at))
		}
		v.repeat("j", v.s.ThreadN, func(j text) {
			col := primary(v.variable("uint", "col", v.clampTo(plus(v.col0, v.column(j)), v.col, v.s.TileN)))
			v.bindAxis(v.col, col)
			v.addStrip(r, strip{block: block, e: e, at: at, p: p, j: j, rows: rows, sums: sums})
		})
	})
	v.close()
}

// firstElement prints the first element of the block, in plane 0, of step
// number part of a block.
func (v *matVec) firstElement(r blockRun, part text) text {
	if !r.f.interleaved() {
		return v.named("e", times(part, r.elems))
	}
	super, n := r.f.superblock(), r.dtype.BlockElems()
	e := times(part, r.elems/r.f.planes) // were there plane 0 only
	if super == n {
		return v.named("e", e)
	}
	e = v.named("place", e)
	return v.named("e", plus(times(binary("/", e, uintLit(int64(r.f.stride))), super), binary("%", e, uintLit(int64(r.f.stride)))))
}

func (v *matVec) blockBuffer(o *matOperand) *buffer { return v.buffers[widened(o.value).Bind] }

// readStrip reads every row of an A along a strip and, where the format needs
// them, sums it up. It returns the names of the vectors and of the sums.
func (v *matVec) readStrip(r blockRun, o *matOperand, k text) (rows, sums string) {
	s := v.s
	rows = v.fresh(v.scope, o.name+"_strip")
	v.line("vec4 %s%s;", rows, arraySize(s.ThreadM*r.quads))
	if r.needsSums() {
		sums = v.fresh(v.scope, o.name+"_sum")
		v.line("float %s%s;", sums, arraySize(s.ThreadM))
	}
	v.repeat("i", s.ThreadM, func(i text) {
		row := v.clampTo(i, v.row, s.TileM)
		if !row.plain() {
			row = primary(v.variable("uint", "row", row))
		}
		v.bindAxis(v.row, row)
		if sums != "" {
			v.line("%s = 0.0;", elementOf(sums, s.ThreadM, i).s)
		}
		v.repeat("t", r.quads, func(t text) {
			x := elementOf(rows, s.ThreadM*r.quads, plus(times(i, r.quads), t))
			v.line("%s = %s;", x.s, v.quad(o, plus(k, times(t, 4)), true).s)
			if sums != "" {
				v.line("%s += dot(%s, vec4(1.0));", elementOf(sums, s.ThreadM, i).s, x.s)
			}
		})
	})
	return rows, sums
}

func (r blockRun) needsSums() bool { return r.f.affine || r.f.bias != 0 }

// strip is the quads that share a scale, and what they are multiplied by.
type strip struct {
	block, e, at, p, j text
	rows, sums         map[*matOperand]string
}

// addStrip adds the products of a strip of one column with every row.
func (v *matVec) addStrip(r blockRun, s strip) {
	dots := make([]string, len(v.products))
	for n, p := range v.products {
		b := v.blockBuffer(p.b)
		dots[n] = v.fresh(v.scope, numberedName("dots", n, len(v.products)))
		v.line("float %s%s;", dots[n], arraySize(v.s.ThreadM))
		v.repeat("i", v.s.ThreadM, func(i text) { v.line("%s = 0.0;", elementOf(dots[n], v.s.ThreadM, i).s) })
		at := primary(v.variable("uint", numberedName("at", n, len(v.products)), v.blockOf(p.b, s.block)))
		wide := ""
		if r.f.wide && r.quads == 4 {
			wide = v.variable("uvec4", "quants", call(v.wideQuants(b), at, s.e, s.p))
		}
		v.repeat("t", r.quads, func(t text) {
			raw := call("bytes_unsigned", primary(wide+"["+t.s+"]"))
			if wide == "" {
				raw = v.rawLevels(r, b, at, s, t)
			}
			levels := v.variable("vec4", "levels", raw)
			v.repeat("i", v.s.ThreadM, func(i text) {
				x := elementOf(s.rows[p.a], v.s.ThreadM*r.quads, plus(times(i, r.quads), t))
				v.line("%s += dot(%s, %s);", elementOf(dots[n], v.s.ThreadM, i).s, levels, x.s)
			})
		})
		v.addScaled(r, s, n, at, dots[n])
	}
}

// blockOf prints the number of a block of a B, from its number in the row.
func (v *matVec) blockOf(o *matOperand, block text) text {
	x := widened(o.value).Index
	n := int64(v.k.Bindings[widened(o.value).Bind].DType.BlockElems())
	rest, _ := x.DropAxis(v.fold).DivMod(ir.D(int(n)))
	v.plan(nil, []kernel.Index{rest})
	return plus(v.indexText(rest), block)
}

// rawLevels prints four levels before the bias is taken off.
func (v *matVec) rawLevels(r blockRun, b *buffer, block text, s strip, t text) text {
	e, p := plus(s.e, times(t, 4)), s.p
	if !r.f.interleaved() && r.f.planes > 1 {
		e = plus(s.e, times(quotient(t, r.f.planes, r.quads), r.f.superblock()))
		p = remainder(t, r.f.planes, r.quads)
	}
	args := []text{block, e}
	if r.f.planes > 1 {
		args = append(args, p)
	}
	if r.f.levels != "" {
		return call("levels_"+b.base, args...)
	}
	unpack := "bytes_unsigned"
	if r.f.signed {
		unpack = "bytes_signed"
	}
	return call(unpack, call("quants_"+b.base, args...))
}

// addScaled adds the scaled dot products of a strip to the sums.
func (v *matVec) addScaled(r blockRun, s strip, n int, block text, dots string) {
	p := v.products[n]
	b := v.blockBuffer(p.b)
	scale := v.variable(r.f.scaleType(), "scale", call("scale_"+b.base, block, plus(s.e, s.at)))
	v.repeat("i", v.s.ThreadM, func(i text) {
		sum := v.sumsAt(plus(times(i, v.s.ThreadN), s.j))[n]
		dot, x := elementOf(dots, v.s.ThreadM, i), elementOf(s.sums[p.a], v.s.ThreadM, i)
		switch {
		case r.f.affine:
			v.line("%s += %s.x * %s + %s.y * %s;", sum.s, scale, dot.s, scale, x.s)
		case r.f.bias != 0:
			v.line("%s += %s * (%s - %d.0 * %s);", sum.s, scale, dot.s, r.f.bias, x.s)
		default:
			v.line("%s += %s * %s;", sum.s, scale, dot.s)
		}
	})
}
