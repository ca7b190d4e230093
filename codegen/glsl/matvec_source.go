package glsl

import "github.com/vkc-go/vkc/codegen/kernel"

// rowArrays are the arrays in which an invocation has rows of an A along a part of a run:
// elements, and where there are such their scales and sums.
type rowArrays struct{ elements, scales, sums string }

// activations are what an invocation has of every A.
type activations map[*matOperand]rowArrays

// ofRows reads what a reader takes of every A.
func (v *matVec) ofRows(read func(o *matOperand) rowArrays) activations {
	all := activations{}
	for _, o := range v.a {
		all[o] = read(o)
	}
	return all
}

// aSource is where rows come from.
type aSource interface {
	// ask reads what it can ahead of what else a workgroup makes ready, and ready
	// makes rows ready for strips to be read.
	ask()
	ready()
	// strip reads every row of an A along the strip at place k of the contraction.
	strip(o *matOperand, k text) rowArrays
}

// floatSource is a source of floats.
type floatSource interface {
	aSource
	// quadsAt returns what prints quad t of row i of an A, of the strip at place k.
	quadsAt(k text) func(o *matOperand, i, t text) text
}

// source returns where the schedule has rows come from.
func (v *matVec) source() aSource {
	switch {
	case v.s.RoundRows:
		return &roundedRows{v: v, arrays: map[*matOperand]rowArrays{}, own: map[*matOperand]string{}}
	case v.s.IntDot:
		return byteRows{memoryRows{v}}
	case v.s.StageRows:
		return &stagedRows{memoryRows: memoryRows{v}, arrays: map[*matOperand]string{}}
	}
	return memoryRows{v}
}

// memoryRows are floats in memory, or what is computed of them.
type memoryRows struct{ v *matVec }

func (memoryRows) ask()   {}
func (memoryRows) ready() {}

func (r memoryRows) quadsAt(k text) func(o *matOperand, i, t text) text {
	return func(o *matOperand, i, t text) text {
		r.v.bindRow(i)
		return r.v.quad(o, plus(k, times(t, 4)), true)
	}
}

func (r memoryRows) strip(o *matOperand, k text) rowArrays { return r.v.floatStrip(o, k, r.quadsAt) }

// floatStrip reads every row of an A along a strip and, where the format needs
// them, sums it up.
func (v *matVec) floatStrip(o *matOperand, k text, quadsAt func(k text) func(o *matOperand, i, t text) text) rowArrays {
	row := v.declareFloats(o)
	read := quadsAt(k)
	v.repeat("i", v.s.ThreadM, func(i text) {
		v.fillStrip(row, i, func(t text) text { return read(o, i, t) })
	})
	return row
}

// declareFloats declares the vectors of a strip and their sums, which are 0.
func (v *matVec) declareFloats(o *matOperand) rowArrays {
	row := rowArrays{elements: v.array("vec4", o.name+"_strip", v.s.ThreadM*v.run.Quads)}
	if v.run.Form.NeedsSums() {
		row.sums = v.array("float", o.name+"_sum", v.s.ThreadM)
		v.repeat("i", v.s.ThreadM, func(i text) { v.line("%s = 0.0;", elementOf(row.sums, v.s.ThreadM, i)) })
	}
	return row
}

// fillStrip sets row i of a strip. Of its sum small sums need as much as is the same for
// all columns: less the bias for every element.
func (v *matVec) fillStrip(row rowArrays, i text, read func(t text) text) {
	v.repeat("t", v.run.Quads, func(t text) {
		x := v.quadOfStrip(row.elements, i, t)
		v.line("%s = %s;", x, read(t))
		if row.sums != "" {
			v.line("%s += dot(%s, vec4(1.0));", elementOf(row.sums, v.s.ThreadM, i), x)
		}
	})
	if row.sums == "" || !v.small() {
		return
	}
	weight := 1.0
	if !v.run.Form.Affine {
		weight = -float64(v.run.Form.Bias)
	}
	v.line("%s *= %s;", elementOf(row.sums, v.s.ThreadM, i), finiteLit(weight/(1<<24), 32, ""))
}

// byteRows are bytes in memory with a scale for every group, so that whole strips are
// multiplied in integers.
type byteRows struct{ memoryRows }

func (r byteRows) strip(o *matOperand, k text) rowArrays {
	bytes, scale, _ := r.v.k.ByteRows(o.value)
	b := r.v.buffers[bytes.Bind]
	r.v.need(r.v.storageNeeds(b)...)
	array := func(unit int, at text) text {
		b.units[unit] = true
		return primary(b.name + "_" + planeUnits[unit].view + "[" + b.subscript(at) + "]")
	}
	return r.v.byteStrip(o, func(i text) text {
		r.v.bindRow(i)
		r.v.bindAxis(r.v.fold, k)
		r.v.plan([]*kernel.Expr{scale}, []kernel.Index{bytes.Index})
		return r.v.value(scale)
	}, func(_, _ text, use func(t, word text)) {
		first := r.v.named("word", binary("/", r.v.indexText(bytes.Index), uintLit(4)))
		r.v.eachWord(func(t text) text { return array(4, plus(first, t)) },
			func(w text) text { return array(16, plus(binary("/", first, uintLit(4)), w)) }, use)
	})
}

// rowWords is how many words an invocation has of a row along a strip: those of each digit after one another.
func (v *matVec) rowWords() int { return v.run.Quads * v.s.RowBytes() }

// byteStrip reads every row of an A along a strip: the bytes, four to an int, their
// scale, and their sum where the format needs it. Where elements are several digits, words writes use for those of
// each.
func (v *matVec) byteStrip(o *matOperand, scale func(i text) text,
	words func(i, digit text, use func(t, word text))) rowArrays {
	row := rowArrays{elements: v.array("int", o.name+"_strip", v.s.ThreadM*v.rowWords()),
		scales: v.array("float", o.name+"_scale", v.s.ThreadM)}
	if v.run.Form.NeedsSums() {
		row.sums = v.array("int", o.name+"_sum", v.s.ThreadM)
	}
	v.repeat("i", v.s.ThreadM, func(i text) {
		v.line("%s = %s;", elementOf(row.scales, v.s.ThreadM, i), scale(i))
		sum := elementOf(row.sums, v.s.ThreadM, i).String()
		if row.sums != "" {
			v.line("%s = 0;", sum)
		}
		v.repeat("digit", v.s.RowBytes(), func(digit text) {
			words(i, digit, func(t, word text) {
				x := v.quadOfStrip(row.elements, i, plus(times(digit, v.run.Quads), t)).String()
				v.line("%s = int(%s);", x, word)
				if row.sums != "" {
					v.line("%s += %s;", sum, v.atDigit(primary("dotPacked4x8EXT("+x+", ones)"), digit))
				}
			})
		})
		v.pairStrip(row.elements, i)
	})
	return row
}

// atDigit is what a number counts as that is of a digit.
func (v *matVec) atDigit(x, digit text) text {
	if v.s.RowBytes() == 1 {
		return x
	}
	return binary("<<", x, times(digit, 8))
}

// eachWord writes use for the words of a strip: word prints the t-th, and four the w-th
// four of them, by which they are read if there are as many.
func (v *matVec) eachWord(word, four func(n text) text, use func(t, word text)) {
	if v.run.Quads%4 != 0 {
		v.repeat("t", v.run.Quads, func(t text) { use(t, word(t)) })
		return
	}
	v.repeat("w", v.run.Quads/4, func(w text) {
		name := v.variable("uvec4", "four", four(w))
		v.repeat("n", 4, func(n text) { use(plus(times(w, 4), n), primary(name+"["+n.String()+"]")) })
	})
}

// declareOnes declares the bytes that a dot product with adds up others. They are no constant: drivers make bytewise
// sums of dot products with one, which is slow (M-matvec-blocks).
func (v *matVec) declareOnes() {
	v.line("int ones = 0x01010101 + int(gl_NumWorkGroups.x >> 31); // + 0")
}
