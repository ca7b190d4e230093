package glsl

import "fmt"

// eachStrip writes body for one strip after another, in a loop that is not to be
// unrolled: the products of a strip with many rows are thousands of instructions.
func (v *matVec) eachStrip(r blockRun, body func(p, at text)) {
	if r.Strips == 1 {
		v.openScope()
		body(primary("0u"), primary("0u"))
	} else {
		p := v.loop("p", primary("0u"), uintLit(int64(r.Strips)), 1)
		body(p, times(p, r.StripStride()))
	}
	v.close()
}

// wholeBlock is what an invocation keeps of one B along a strip, each of its
// columns an element of the arrays.
type wholeBlock struct {
	at, scale, quants string // quants is empty where they are read as they are used
}

// addWhole adds the products of a strip at place k of the contraction: what
// columns have is read first and stays in registers, then four neighbours of all
// rows at a time meet all columns, so that rows take no more registers however
// long the strip.
func (v *matVec) addWhole(r blockRun, s strip, k text) {
	blocks := map[*matOperand]wholeBlock{}
	for _, o := range v.b {
		blocks[o] = v.readWhole(r, o, s)
	}
	read := v.rowReader(r, k)
	v.repeat("t", r.Quads, func(t text) {
		rows := map[*matOperand]string{}
		for _, o := range v.a {
			rows[o] = v.array("vec4", o.name+"_rows", v.s.ThreadM)
			v.repeat("i", v.s.ThreadM, func(i text) {
				v.line("%s = %s;", elementOf(rows[o], v.s.ThreadM, i).s, read(o, i, t).s)
			})
		}
		v.repeat("j", v.s.ThreadN, func(j text) {
			cols := map[*matOperand]string{}
			for _, o := range v.b {
				cols[o] = v.wholeQuad4(r, o, blocks[o], s, t, j)
			}
			v.repeat("i", v.s.ThreadM, func(i text) {
				for n, p := range v.products {
					sum := v.sumsAt(plus(times(i, v.s.ThreadN), j))[n]
					v.line("%s += dot(%s, %s);", sum.s, elementOf(rows[p.a], v.s.ThreadM, i).s, cols[p.b])
				}
			})
		})
	})
}

// readWhole reads what every column of a B has along a strip: where its block
// is, the scale and offset of its quants, and those themselves where they are
// read sixteen bytes at a time.
func (v *matVec) readWhole(r blockRun, o *matOperand, s strip) wholeBlock {
	b, cols := v.blockBuffer(o), v.s.ThreadN
	w := wholeBlock{at: v.fresh(v.scope, o.name+"_at"), scale: v.fresh(v.scope, o.name+"_scale")}
	v.line("uint %s%s;", w.at, arraySize(cols))
	v.line("%s %s%s;", r.wholeScaleType(), w.scale, arraySize(cols))
	perColumn := r.Quads / 4
	if r.Wide(b.Binding) {
		w.quants = v.array("uvec4", o.name+"_quants", cols*perColumn)
	}
	v.repeat("j", cols, func(j text) {
		v.bindColumn(j)
		at := elementOf(w.at, cols, j)
		v.line("%s = %s;", at.s, v.blockOf(o, s.block).s)
		if w.quants != "" {
			v.repeat("w", perColumn, func(i text) {
				v.line("%s = %s;", elementOf(w.quants, cols*perColumn, plus(times(j, perColumn), i)).s, v.wideCall(r, b, at, s, i).s)
			})
		}
		scale := v.variable(scaleType(r.Form), "scale", call("scale_"+b.base, at, within(s.e, s.at)))
		v.line("%s = %s;", elementOf(w.scale, cols, j).s, r.wholeScale(scale))
	})
	return w
}

// wholeScaleType is the type of a scale, or of a scale and an offset.
func (r blockRun) wholeScaleType() string {
	if r.Form.NeedsSums() {
		return "vec2"
	}
	return "float"
}

// wholeScale prints by what quants, as they are unpacked, are multiplied, and
// what is added then.
func (r blockRun) wholeScale(scale string) string {
	x := scale
	if r.Form.Affine {
		x = scale + ".x"
	}
	if r.subnormal {
		x = "16777216.0 * " + x
	}
	switch {
	case r.Form.Affine:
		return "vec2(" + x + ", " + scale + ".y)"
	case r.Form.Bias != 0:
		return "vec2(" + x + ", " + fmt.Sprintf("%d.0 * ", -r.Form.Bias) + scale + ")"
	}
	return x
}

// wholeQuad4 decodes quad t of column j and returns the name of its vec4.
func (v *matVec) wholeQuad4(r blockRun, o *matOperand, w wholeBlock, s strip, t, j text) string {
	b, cols := v.blockBuffer(o), v.s.ThreadN
	at := elementOf(w.at, cols, j)
	var levels text
	switch {
	case r.Form.Levels:
		levels = call("levels_"+b.base, v.quadArgs(r, at, s, t)...)
	case w.quants != "":
		perColumn := r.Quads / 4
		four := elementOf(w.quants, cols*perColumn, plus(times(j, perColumn), quotient(t, 4, r.Quads)))
		levels = call(r.unpack(), primary(four.s+"["+remainder(t, 4, r.Quads).s+"]"))
	default:
		levels = call(r.unpack(), call("quants_"+b.base, v.quadArgs(r, at, s, t)...))
	}
	scale := elementOf(w.scale, cols, j)
	if r.Form.NeedsSums() {
		return v.variable("vec4", o.quadName(), binary("+", binary("*", primary(scale.s+".x"), levels), primary(scale.s+".y")))
	}
	return v.variable("vec4", o.quadName(), binary("*", scale, levels))
}
