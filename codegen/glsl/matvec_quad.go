package glsl

// plainReader reads a B without blocks, or a B of blocks that are decoded element by element.
type plainReader struct{ v *matVec }

func (plainReader) prepare()   {}
func (plainReader) parts() int { return 1 }

// quadReader reads four neighbours of a column at a time, as floats or integers.
type quadReader struct{ plainReader }

func newQuadReader(v *matVec) bReader {
	v.run.Elems = 4
	return quadReader{plainReader{v}}
}

func (r quadReader) addRun(at place) { r.v.addColumns(r, at) }

func (r quadReader) activations(at place) activations {
	return r.v.ofRows(func(o *matOperand) rowArrays {
		if r.v.s.ThreadM > 1 {
			return rowArrays{elements: r.v.eachRow(o, r.v.quads.typ(), func() text { return r.v.quad(o, at.k, true) })}
		}
		r.v.bindRow(primary("0u"))
		return rowArrays{elements: r.v.namedQuad(o, at.k)}
	})
}

func (r quadReader) addColumn(at place, rows activations, j text) {
	cols := map[*matOperand]text{}
	for _, o := range r.v.b {
		cols[o] = r.v.namedQuad(o, at.k)
	}
	r.v.eachSum(rows, j, func(p matProduct, a, sum text) {
		if r.v.quads == floatQuads {
			r.v.update(sum, "+=", r.v.dot(a, cols[p.b]))
		} else {
			r.v.addQuads(sum, a, cols[p.b])
		}
	})
}

// namedQuad is quad with a name.
func (v *matVec) namedQuad(o *matOperand, k text) text {
	t := v.quad(o, k, true)
	if isPlain(t) {
		return t
	}
	return v.variable(v.quads.typ(), o.quadName(), t)
}

// wordReader reads int8 elements, four words of a column at a time, because a matmul of few rows is bound by memory.
type wordReader struct{ plainReader }

func newWordReader(v *matVec) bReader {
	v.run.Elems = 16
	return wordReader{plainReader{v}}
}

func (r wordReader) addRun(at place) { r.v.addColumns(r, at) }

func (r wordReader) activations(at place) activations {
	return r.v.ofRows(func(o *matOperand) rowArrays {
		return rowArrays{elements: r.v.eachRow(o, "uvec4", func() text { return r.words(o, at) })}
	})
}

// words prints sixteen int8 elements of an operand.
func (r wordReader) words(o *matOperand, at place) text {
	return r.v.bytesAt(o.value, along{r.v.fold, r.v.k.Fold}, at.k, 16)
}

func (r wordReader) addColumn(at place, rows activations, j text) {
	cols := map[*matOperand]text{}
	for _, o := range r.v.b {
		cols[o] = r.v.variable("uvec4", o.name+"_col", r.words(o, at))
	}
	r.v.eachSum(rows, j, func(p matProduct, a, sum text) {
		for _, c := range "xyzw" {
			word := func(vector text) text { return r.v.coerce("uint", r.v.quads.word, member(vector, string(c))) }
			r.v.addQuads(sum, word(a), word(cols[p.b]))
		}
	})
}

// eachRow reads a value of every row of an A, and returns the name of their array.
func (v *matVec) eachRow(o *matOperand, typ string, read func() text) text {
	rows := v.array(typ, o.name+"_rows", v.s.ThreadM)
	v.repeat("i", v.s.ThreadM, func(i text) {
		v.bindRow(i)
		v.assign(elementOf(rows, v.s.ThreadM, i), read())
	})
	return rows
}

// eachSum writes add for the sums of column j, with the row's loaded elements.
func (v *matVec) eachSum(rows activations, j text, add func(p matProduct, a, sum text)) {
	v.repeat("i", v.s.ThreadM, func(i text) {
		for n, p := range v.products {
			add(p, elementOf(rows[p.a].elements, v.s.ThreadM, i),
				v.sumsAt(plus(times(i, v.s.ThreadN), j))[n])
		}
	})
}
