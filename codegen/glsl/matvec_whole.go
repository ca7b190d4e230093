package glsl

import "fmt"

// wholeReader decodes elements of blocks, scale and all, for many rows: an operation an
// element then costs less than one an element of every row.
type wholeReader struct{ *stripReader }

func newWholeReader(v *matVec) bReader { return wholeReader{&stripReader{v: v}} }

// wholeStrip is what an invocation keeps of one B along a strip, each of its
// columns an element of the arrays.
type wholeStrip struct {
	at, scale, quants string // quants is empty where they are read as they are used
}

// addRun adds the products of a run strip by strip, in a loop that is not to be
// unrolled: the products of a strip with many rows are thousands of instructions.
func (r wholeReader) addRun(run place) {
	p := primary("0u")
	if r.v.run.Strips == 1 {
		r.v.openScope()
	} else {
		p = r.v.loop("p", p, uintLit(r.v.run.Strips), 1)
	}
	r.addStrip(r.v.partOf(run, p))
	r.v.close()
}

// addStrip adds the products of a strip: what columns have is read first and stays in
// registers, then four neighbours of all rows at a time meet all columns, so that rows
// take no more registers however long the strip.
func (r wholeReader) addStrip(at place) {
	blocks := map[*matOperand]wholeStrip{}
	for _, o := range r.v.b {
		blocks[o] = r.readColumns(o, at)
	}
	read := r.v.rows.(floatSource).quadsAt(at.k)
	r.v.repeat("t", r.v.run.Quads, func(t text) {
		rows := r.v.ofRows(func(o *matOperand) rowArrays {
			name := r.v.array("vec4", o.name+"_rows", r.v.s.ThreadM)
			r.v.repeat("i", r.v.s.ThreadM, func(i text) {
				r.v.line("%s = %s;", elementOf(name, r.v.s.ThreadM, i), read(o, i, t))
			})
			return rowArrays{elements: name}
		})
		r.v.repeat("j", r.v.s.ThreadN, func(j text) {
			cols := map[*matOperand]string{}
			for _, o := range r.v.b {
				cols[o] = r.decode(o, blocks[o], at, t, j)
			}
			r.v.eachSum(rows, j, func(p matProduct, a, sum string) {
				r.v.line("%s += %s;", sum, r.v.dot(a, cols[p.b]))
			})
		})
	})
}

// readColumns reads what every column of a B has along a strip: where its block
// is, the scale and offset of its quants, and those themselves where they are
// read sixteen bytes at a time.
func (r wholeReader) readColumns(o *matOperand, at place) wholeStrip {
	b, cols, perColumn := r.v.blockBuffer(o), r.v.s.ThreadN, r.v.run.Quads/4
	typ := "float"
	if r.v.run.Form.NeedsSums() {
		typ = "vec2"
	}
	w := wholeStrip{at: r.v.array("uint", o.name+"_at", cols), scale: r.v.array(typ, o.name+"_scale", cols)}
	if r.v.run.Wide(b.Binding) {
		w.quants = r.v.array("uvec4", o.name+"_quants", cols*perColumn)
	}
	r.v.repeat("j", cols, func(j text) {
		r.v.bindColumn(j)
		block := elementOf(w.at, cols, j)
		r.v.line("%s = %s;", block, r.v.blockOf(o, at.block))
		if w.quants != "" {
			r.v.repeat("w", perColumn, func(i text) {
				r.v.line("%s = %s;", elementOf(w.quants, cols*perColumn, plus(times(j, perColumn), i)),
					r.v.wideCall(b, block, at, i))
			})
		}
		scale := r.v.scaleOf(b, block, at)
		r.v.line("%s = %s;", elementOf(w.scale, cols, j), r.v.wholeScale(scale))
	})
	return w
}

// wholeScale prints by what quants, as they are unpacked, are multiplied, and
// what is added then.
func (v *matVec) wholeScale(scale string) string {
	f, x := v.run.Form, scale
	if f.Affine {
		x = scale + ".x"
	}
	if v.subnormal() {
		x = "16777216.0 * " + x
	}
	switch {
	case f.Affine:
		return "vec2(" + x + ", " + scale + ".y)"
	case f.Bias != 0:
		return "vec2(" + x + ", " + fmt.Sprintf("%d.0 * ", -f.Bias) + scale + ")"
	}
	return x
}

// decode decodes quad t of column j and returns the name of its vec4.
func (r wholeReader) decode(o *matOperand, w wholeStrip, at place, t, j text) string {
	b, cols, perColumn := r.v.blockBuffer(o), r.v.s.ThreadN, r.v.run.Quads/4
	block, scale := elementOf(w.at, cols, j), elementOf(w.scale, cols, j)
	var levels text
	switch {
	case r.v.run.Form.Levels:
		levels = call("levels_"+b.base, r.v.quadArgs(block, at, t)...)
	case w.quants != "":
		four := elementOf(w.quants, cols*perColumn, plus(times(j, perColumn), quotient(t, 4, r.v.run.Quads)))
		levels = call(r.v.unpack(), primary(four.String()+"["+remainder(t, 4, r.v.run.Quads).String()+"]"))
	default:
		levels = call(r.v.unpack(), call("quants_"+b.base, r.v.quadArgs(block, at, t)...))
	}
	if r.v.run.Form.NeedsSums() {
		return r.v.variable("vec4", o.quadName(),
			binary("+", binary("*", primary(scale.String()+".x"), levels), primary(scale.String()+".y")))
	}
	return r.v.variable("vec4", o.quadName(), binary("*", scale, levels))
}
