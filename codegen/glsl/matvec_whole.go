package glsl

import "fmt"

// wholeReader decodes elements of blocks, scale and all, for many rows: an operation an
// element then costs less than one an element of every row.
type wholeReader struct{ *stripReader }

func newWholeReader(v *matVec) bReader { return wholeReader{&stripReader{matVec: v}} }

// wholeStrip is what an invocation keeps of one B along a strip, each of its
// columns an element of the arrays.
type wholeStrip struct {
	at, scale, quants string // quants is empty where they are read as they are used
}

// addRun adds the products of a run strip by strip, in a loop that is not to be
// unrolled: the products of a strip with many rows are thousands of instructions.
func (r wholeReader) addRun(run place) {
	p := primary("0u")
	if r.run.Strips == 1 {
		r.openScope()
	} else {
		p = r.loop("p", p, uintLit(r.run.Strips), 1)
	}
	r.addStrip(r.partOf(run, p))
	r.close()
}

// addStrip adds the products of a strip: what columns have is read first and stays in
// registers, then four neighbours of all rows at a time meet all columns, so that rows
// take no more registers however long the strip.
func (r wholeReader) addStrip(at place) {
	blocks := map[*matOperand]wholeStrip{}
	for _, o := range r.b {
		blocks[o] = r.readColumns(o, at)
	}
	read := r.rows.(floatSource).quadsAt(at.k)
	r.repeat("t", r.run.Quads, func(t text) {
		rows := r.ofRows(func(o *matOperand) rowArrays {
			name := r.array("vec4", o.name+"_rows", r.s.ThreadM)
			r.repeat("i", r.s.ThreadM, func(i text) {
				r.line("%s = %s;", elementOf(name, r.s.ThreadM, i).s, read(o, i, t).s)
			})
			return rowArrays{elements: name}
		})
		r.repeat("j", r.s.ThreadN, func(j text) {
			cols := map[*matOperand]string{}
			for _, o := range r.b {
				cols[o] = r.decode(o, blocks[o], at, t, j)
			}
			r.eachSum(rows, j, func(p matProduct, a, sum string) { r.line("%s += dot(%s, %s);", sum, a, cols[p.b]) })
		})
	})
}

// readColumns reads what every column of a B has along a strip: where its block
// is, the scale and offset of its quants, and those themselves where they are
// read sixteen bytes at a time.
func (r wholeReader) readColumns(o *matOperand, at place) wholeStrip {
	b, cols, perColumn := r.blockBuffer(o), r.s.ThreadN, r.run.Quads/4
	typ := "float"
	if r.run.Form.NeedsSums() {
		typ = "vec2"
	}
	w := wholeStrip{at: r.array("uint", o.name+"_at", cols), scale: r.array(typ, o.name+"_scale", cols)}
	if r.run.Wide(b.Binding) {
		w.quants = r.array("uvec4", o.name+"_quants", cols*perColumn)
	}
	r.repeat("j", cols, func(j text) {
		r.bindColumn(j)
		block := elementOf(w.at, cols, j)
		r.line("%s = %s;", block.s, r.blockOf(o, at.block).s)
		if w.quants != "" {
			r.repeat("w", perColumn, func(i text) {
				r.line("%s = %s;", elementOf(w.quants, cols*perColumn, plus(times(j, perColumn), i)).s,
					r.wideCall(b, block, at, i).s)
			})
		}
		scale := r.scaleOf(b, block, at)
		r.line("%s = %s;", elementOf(w.scale, cols, j).s, r.wholeScale(scale))
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
	b, cols, perColumn := r.blockBuffer(o), r.s.ThreadN, r.run.Quads/4
	block, scale := elementOf(w.at, cols, j), elementOf(w.scale, cols, j)
	var levels text
	switch {
	case r.run.Form.Levels:
		levels = call("levels_"+b.base, r.quadArgs(block, at, t)...)
	case w.quants != "":
		four := elementOf(w.quants, cols*perColumn, plus(times(j, perColumn), quotient(t, 4, r.run.Quads)))
		levels = call(r.unpack(), primary(four.s+"["+remainder(t, 4, r.run.Quads).s+"]"))
	default:
		levels = call(r.unpack(), call("quants_"+b.base, r.quadArgs(block, at, t)...))
	}
	if r.run.Form.NeedsSums() {
		return r.variable("vec4", o.quadName(),
			binary("+", binary("*", primary(scale.s+".x"), levels), primary(scale.s+".y")))
	}
	return r.variable("vec4", o.quadName(), binary("*", scale, levels))
}
