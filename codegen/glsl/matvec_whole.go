package glsl

// wholeReader decodes elements of blocks completely, scale included. With many rows, one operation per decoded element
// costs less than one per element of every row.
type wholeReader struct{ *stripReader }

func newWholeReader(v *matVec) bReader { return wholeReader{&stripReader{v: v}} }

// wholeStrip holds an invocation's part of one B along a strip. Each column is an element of the arrays.
type wholeStrip struct {
	at, scale, quants text // quants is nil if quants are read when they are used
}

// addRun adds a run strip by strip, in a rolled loop: a strip with many rows takes thousands of instructions.
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

// addStrip multiplies a strip. It first reads the columns, which stay in registers. Then it multiplies four neighbours
// of all rows at a time by all columns. So the rows take no more registers for a longer strip.
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
				r.v.assign(elementOf(name, r.v.s.ThreadM, i), read(o, i, t))
			})
			return rowArrays{elements: name}
		})
		r.v.repeat("j", r.v.s.ThreadN, func(j text) {
			cols := map[*matOperand]text{}
			for _, o := range r.v.b {
				cols[o] = r.decode(o, blocks[o], at, t, j)
			}
			r.v.eachSum(rows, j, func(p matProduct, a, sum text) {
				r.v.update(sum, "+=", r.v.dot(a, cols[p.b]))
			})
		})
	})
}

// readColumns reads each column of a B along a strip: its block's position, the scale and offset of its quants, and the
// quants if they are read 16 bytes at a time.
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
		r.v.assign(block, r.v.blockOf(o, at.block))
		if w.quants != nil {
			r.v.repeat("w", perColumn, func(i text) {
				r.v.assign(elementOf(w.quants, cols*perColumn, plus(times(j, perColumn), i)),
					r.v.wideCall(b, block, at, i))
			})
		}
		scale := r.v.scaleOf(b, block, at)
		r.v.assign(elementOf(w.scale, cols, j), r.v.wholeScale(scale))
	})
	return w
}

// wholeScale prints the factor of unpacked quants, and the offset that is added after it.
func (v *matVec) wholeScale(scale text) text {
	f, x := v.run.Form, scale
	if f.Affine {
		x = member(scale, "x")
	}
	if v.subnormal() {
		x = binary("*", primary("16777216.0"), x)
	}
	switch {
	case f.Affine:
		return call("vec2", x, member(scale, "y"))
	case f.Bias != 0:
		return call("vec2", x, binary("*", v.floatLit(float64(-f.Bias)), scale))
	}
	return x
}

// decode decodes quad t of column j and returns the name of its vec4.
func (r wholeReader) decode(o *matOperand, w wholeStrip, at place, t, j text) text {
	b, cols, perColumn := r.v.blockBuffer(o), r.v.s.ThreadN, r.v.run.Quads/4
	block, scale := elementOf(w.at, cols, j), elementOf(w.scale, cols, j)
	var levels text
	switch {
	case r.v.run.Form.Levels:
		levels = call("levels_"+b.base, r.v.quadArgs(block, at, t)...)
	case w.quants != nil:
		four := elementOf(w.quants, cols*perColumn, plus(times(j, perColumn), quotient(t, 4, r.v.run.Quads)))
		levels = call(r.v.unpack(), elementAt(four, remainder(t, 4, r.v.run.Quads)))
	default:
		levels = call(r.v.unpack(), call("quants_"+b.base, r.v.quadArgs(block, at, t)...))
	}
	if r.v.run.Form.NeedsSums() {
		return r.v.variable("vec4", o.quadName(),
			binary("+", binary("*", member(scale, "x"), levels), member(scale, "y")))
	}
	return r.v.variable("vec4", o.quadName(), binary("*", scale, levels))
}
