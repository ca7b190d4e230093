package glsl

import "github.com/vkc-go/vkc/codegen/kernel"

// rowArrays names the arrays that hold an invocation's rows of an A along a part of a run: the elements, and if the
// format needs them, the scales and sums.
type rowArrays struct{ elements, scales, sums text }

// activations holds the rowArrays of every A.
type activations map[*matOperand]rowArrays

// ofRows calls read for every A.
func (v *matVec) ofRows(read func(o *matOperand) rowArrays) activations {
	all := activations{}
	for _, o := range v.a {
		all[o] = read(o)
	}
	return all
}

// aSource is a source of rows.
type aSource interface {
	// ask prefetches rows while the workgroup prepares its tables. ready makes the rows ready for strip.
	ask()
	ready()
	// strip reads every row of an A along the strip at k of the contraction axis.
	strip(o *matOperand, k text) rowArrays
}

// floatSource is a source of floats.
type floatSource interface {
	aSource
	// quadsAt returns a function that prints quad t of row i of an A, in the strip at k.
	quadsAt(k text) func(o *matOperand, i, t text) text
}

// source returns the row source of the schedule.
func (v *matVec) source() aSource {
	switch {
	case v.s.RoundRows:
		return &roundedRows{v: v, arrays: map[*matOperand]rowArrays{}, own: map[*matOperand]text{}}
	case v.s.IntDot:
		return byteRows{memoryRows{v}}
	case v.s.StageRows:
		return &stagedRows{memoryRows: memoryRows{v}, arrays: map[*matOperand]text{}}
	}
	return memoryRows{v}
}

// memoryRows reads floats from memory, or computes them from memory.
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

// floatStrip reads every row of an A along a strip. It sums up each row if the format needs the sum.
func (v *matVec) floatStrip(o *matOperand, k text, quadsAt func(k text) func(o *matOperand, i, t text) text) rowArrays {
	row := v.declareFloats(o)
	read := quadsAt(k)
	v.repeat("i", v.s.ThreadM, func(i text) {
		v.fillStrip(row, i, func(t text) text { return read(o, i, t) })
	})
	return row
}

// declareFloats declares the vectors of a strip, and their sums with the value 0.
func (v *matVec) declareFloats(o *matOperand) rowArrays {
	row := rowArrays{elements: v.array("vec4", o.name+"_strip", v.s.ThreadM*v.run.Quads)}
	if v.run.Form.NeedsSums() {
		row.sums = v.array("float", o.name+"_sum", v.s.ThreadM)
		v.repeat("i", v.s.ThreadM, func(i text) { v.line("%s = 0.0;", elementOf(row.sums, v.s.ThreadM, i)) })
	}
	return row
}

// fillStrip sets row i of a strip. If sums are small, it multiplies the row's sum by the factor that all columns share:
// minus the bias, or 1 if the format is affine.
func (v *matVec) fillStrip(row rowArrays, i text, read func(t text) text) {
	v.repeat("t", v.run.Quads, func(t text) {
		x := v.quadOfStrip(row.elements, i, t)
		v.assign(x, read(t))
		if row.sums != nil {
			v.line("%s += dot(%s, vec4(1.0));", elementOf(row.sums, v.s.ThreadM, i), x)
		}
	})
	if row.sums == nil || !v.small() {
		return
	}
	weight := 1.0
	if !v.run.Form.Affine {
		weight = -float64(v.run.Form.Bias)
	}
	v.update(elementOf(row.sums, v.s.ThreadM, i), "*=", finiteLit(weight/(1<<24), 32, ""))
}

// byteRows reads int8 rows from memory. Every group has a scale, so whole strips are multiplied in integers.
type byteRows struct{ memoryRows }

func (r byteRows) strip(o *matOperand, k text) rowArrays {
	bytes, scale, _ := r.v.k.ByteRows(o.value)
	b := r.v.buffers[bytes.Bind]
	r.v.need(r.v.storageNeeds(b)...)
	array := func(unit int, at text) text {
		b.units[unit] = true
		return elementAt(primary(b.name+"_"+planeUnits[unit].view), b.subscript(at))
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

// rowWords is the number of words that an invocation holds of a row along a strip, digit after digit.
func (v *matVec) rowWords() int { return v.run.Quads * v.s.RowBytes() }

// byteStrip reads every row of an A along a strip: the int8 elements, four to an int, their scale, and their sum if the
// format needs it. If elements have several digits, words calls use for the words of each digit.
func (v *matVec) byteStrip(o *matOperand, scale func(i text) text,
	words func(i, digit text, use func(t, word text))) rowArrays {
	row := rowArrays{elements: v.array("int", o.name+"_strip", v.s.ThreadM*v.rowWords()),
		scales: v.array("float", o.name+"_scale", v.s.ThreadM)}
	if v.run.Form.NeedsSums() {
		row.sums = v.array("int", o.name+"_sum", v.s.ThreadM)
	}
	v.repeat("i", v.s.ThreadM, func(i text) {
		v.assign(elementOf(row.scales, v.s.ThreadM, i), scale(i))
		sum := elementOf(row.sums, v.s.ThreadM, i)
		if row.sums != nil {
			v.assign(sum, intLit(0))
		}
		v.repeat("digit", v.s.RowBytes(), func(digit text) {
			words(i, digit, func(t, word text) {
				x := v.quadOfStrip(row.elements, i, plus(times(digit, v.run.Quads), t))
				v.line("%s = int(%s);", x, word)
				if row.sums != nil {
					v.update(sum, "+=", v.atDigit(call("dotPacked4x8EXT", x, primary("ones")), digit))
				}
			})
		})
		v.pairStrip(row.elements, i)
	})
	return row
}

// atDigit scales a number by the weight of a digit.
func (v *matVec) atDigit(x, digit text) text {
	if v.s.RowBytes() == 1 {
		return x
	}
	return binary("<<", x, times(digit, 8))
}

// eachWord calls use for each word of a strip. word prints the t-th word, and four prints the w-th group of four words.
// Strips of whole groups are read four words at a time.
func (v *matVec) eachWord(word, four func(n text) text, use func(t, word text)) {
	if v.run.Quads%4 != 0 {
		v.repeat("t", v.run.Quads, func(t text) { use(t, word(t)) })
		return
	}
	v.repeat("w", v.run.Quads/4, func(w text) {
		name := v.variable("uvec4", "four", four(w))
		v.repeat("n", 4, func(n text) { use(plus(times(w, 4), n), elementAt(name, n)) })
	})
}

// declareOnes declares int8 ones: a dot product with them is a sum. They are not a constant, because drivers turn a dot
// product with a constant into a sum byte by byte, which is slow (M-matvec-blocks).
func (v *matVec) declareOnes() {
	v.line("int ones = 0x01010101 + int(gl_NumWorkGroups.x >> 31); // + 0")
}
