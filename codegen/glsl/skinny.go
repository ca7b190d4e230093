package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// skinny is a matmul of few rows by blocks (a skinny GEMM), on cooperative matrices. They multiply it transposed: a row
// of an accumulator fragment is a column of the result.
//
// Each subgroup decodes the quants of its columns to its own part of shared memory, TileK of the contraction axis at a
// time. The rows lie next to them. All subgroups at the same k load the rows together. The elements of a strip share a
// scale. So the matrix units sum up a strip, and the kernel multiplies these sums by the scales of columns and rows and
// adds the result to the f32 sums. The scales are accumulator fragments that repeat one row or column.
type skinny struct {
	*matVec
	schedule.Skinny
	unit     string // the element type of shared memory
	ownCol   text   // the subgroup's first column in the tile
	weights  map[*matOperand]*stagedStrips
	rows     stagedStrips
	perBlock int // runs of a block
}

// stagedStrips is an operand in shared memory: the elements, and for every strip a scale, and an offset or a sum of its
// elements if the format needs one.
type stagedStrips struct {
	elements, scales, others text
	first                    text // of the subgroup's elements
	firstScale               text
}

// emitSkinny writes a matmul of few rows on cooperative matrices.
func emitSkinny(e *emitter) {
	self := e.selfIndex()
	m := newMatMul(e)
	if e.err != nil {
		return
	}
	e.need(NeedCoopMat, NeedMemoryModel)
	r := &skinny{matVec: &matVec{matMul: m, self: self}, weights: map[*matOperand]*stagedStrips{}}
	r.Skinny, _ = schedule.SkinnyOf(e.k)
	e.needMatrix(r.Element)
	t := r.blockBuffer(r.b[0]).DType
	r.run = kernel.NewBlockRun(t, max(r.Span, kernel.RoundedGroup))
	r.perBlock = t.BlockElems() / r.run.Elems
	if n := 4 * r.run.Quads; n != r.Strip {
		e.fail("strips of %s are %d elements, not %d", t, n, r.Strip)
	}
	r.place()
	r.declare()
	r.accumulate()
	r.pass()
}

// columns is the number of result columns of a subgroup, and fragments is the number of fragments that they take.
// rowFragments is the number of fragments that the rows take, and strips is the number of strips of a step.
func (r *skinny) columns() int      { return r.s.TileN / r.s.SubgroupsN }
func (r *skinny) fragments() int    { return r.columns() / r.s.FragM }
func (r *skinny) rowFragments() int { return r.s.TileM / r.s.FragN }
func (r *skinny) strips() int       { return r.s.TileK / r.Strip }

// place assigns columns and a part of the contraction axis to a subgroup.
func (r *skinny) place() {
	id, count := primary("gl_SubgroupID"), r.s.SubgroupsN*r.s.SubgroupsK
	r.ownCol = r.named("own_col", times(remainder(id, r.s.SubgroupsN, count), r.columns()))
	r.part = r.named("part", quotient(id, r.s.SubgroupsN, count))
}

// declare declares shared memory and the fragments of sums.
func (r *skinny) declare() {
	s := r.s
	if r.unit = "uvec4"; r.Unit(s)*r.Element.BlockBytes() == 8 {
		r.unit = "uvec2"
	}
	stage := func(name string, units, scales int, first, firstScale text) stagedStrips {
		st := stagedStrips{elements: r.share(r.unit, name+"_strips", units),
			scales: r.share("float", name+"_scales", scales),
			first:  first, firstScale: firstScale}
		if other := map[bool]string{true: "_sums", false: "_offsets"}[name == "a"]; r.Affine {
			st.others = r.share("float", name+other, scales)
		}
		return st
	}
	id := primary("gl_SubgroupID")
	first := r.named("first_unit", times(id, r.columns()*r.Pitch(s)))
	firstScale := r.named("first_scale", times(id, r.columns()*r.strips()))
	for _, o := range r.b {
		st := stage(o.name, r.WeightUnits(s), r.WeightScales(s), first, firstScale)
		r.weights[o] = &st
	}
	r.rows = stage("a", r.RowUnits(s), r.RowScales(s), times(r.part, r.Parts*s.TileM*r.Pitch(s)),
		times(r.part, s.TileM*r.strips()))
	sums := r.fragment(ir.F32, "Accumulator")
	r.declareZeros(sums, call(sums, primary("0.0")), r.fragments()*r.rowFragments())
}

// accumulate steps through the contraction axis. While subgroups multiply a step, they prefetch the next one into
// registers.
func (r *skinny) accumulate() {
	s := r.s
	for _, o := range r.b {
		blockParts(r.emitter, r.blockBuffer(o))
	}
	if r.Parts == 1 && r.Affine {
		r.declareOnes()
	}
	var fetched []fetchedStrips
	for _, o := range r.b {
		fetched = append(fetched, r.declareStrips(o))
	}
	rows := r.declareRows()
	fetch := func(k0 text) {
		for i, o := range r.b {
			r.fetchWeights(o, fetched[i], k0)
		}
		r.fetchRows(rows, k0)
	}
	step := s.SubgroupsK * s.TileK
	r.openScope()
	fetch(times(r.part, s.TileK))
	r.close()
	r.line("")
	even := schedule.DivisibleBy(r.k.Fold, step) // all subgroups have equally many steps
	var k0 text
	if even {
		k0 = r.rolled("k0", times(r.part, s.TileK), r.dim(r.k.Fold), step)
	} else {
		k0 = r.rolled("step_start", primary("0u"), r.dim(r.k.Fold), step)
		k0 = r.named("k0", plus(k0, times(r.part, s.TileK)))
	}
	r.line("barrier(); // what is in shared memory has been multiplied")
	for i, o := range r.b {
		r.putWeights(o, fetched[i])
	}
	r.putRows(rows)
	r.barrier()
	r.comment("The next step, or the last once more.")
	fetch(r.variable("uint", "k1", call("min", plus(k0, uintLit(step)), uintLit(r.k.Fold.Add-int64(s.TileK)))))
	if even {
		r.multiply()
	} else {
		r.openIf(binary("<", k0, r.dim(r.k.Fold)))
		r.multiply()
		r.close()
	}
	r.close()
}

// fetchedStrips are the registers that hold an invocation's weights of a B on their way to shared memory. If one read
// returns all quants of a run, or one word holds a scale, the raw words stay in these registers and are decoded when
// they go to shared memory. Decoding them at once would wait for the loads before the previous step is multiplied.
type fetchedStrips struct {
	quants, scales text
	words          bool   // quants holds raw words, one uvec4 a run
	unpack         string // the function that unpacks raw scales, or ""
}

func (r *skinny) declareStrips(o *matOperand) fetchedStrips {
	b, n := r.blockBuffer(o), r.rounds()*r.run.Strips
	row, _ := ir.BlockFormatOf(r.run.DType)
	f := fetchedStrips{words: r.Element == ir.I8 && r.run.Joined && r.run.Wide(b.Binding) && row.Decode.ReadsOnce()}
	if f.words {
		f.quants = r.array("uvec4", o.name+"_words", n)
	} else {
		f.quants = r.array("uvec4", o.name+"_quants", n*r.words())
	}
	scale := scaleType(r.run.Form)
	if unpack, ok := unpackScale(r.emitter, b); ok {
		scale, f.unpack = "uint", unpack
	}
	f.scales = r.array(scale, o.name+"_scale", n)
	return f
}

// runs is the number of runs that a subgroup decodes, and rounds is the number that each invocation decodes.
func (r *skinny) runs() int   { return r.columns() * r.s.TileK / r.run.Elems }
func (r *skinny) rounds() int { return (r.runs() + r.s.Subgroup - 1) / r.s.Subgroup }

// eachRun writes body for each run that this lane decodes. i counts them; column and run locate one among the
// subgroup's. Lanes 2n and 2n+1 decode the same run in adjacent columns, so that their stores use different banks.
func (r *skinny) eachRun(body func(i, column, run text)) {
	perColumn := r.s.TileK / r.run.Elems
	r.eachSlot(primary("gl_SubgroupInvocationID"), r.runs(), r.s.Subgroup, func(i, slot text) {
		pair := r.named("pair", binary("/", slot, uintLit(2)))
		column := r.named("column", plus(times(quotient(pair, perColumn, r.runs()/2), 2),
			binary("%", slot, uintLit(2))))
		body(i, column, r.named("run", remainder(pair, perColumn, r.runs()/2)))
	})
}

// words is the number of uvec4 that a strip takes.
func (r *skinny) words() int { return r.Strip * r.Element.BlockBytes() / 16 }

// fetchWeights loads the runs of a B at k0 of the contraction axis.
func (r *skinny) fetchWeights(o *matOperand, f fetchedStrips, k0 text) {
	b, n := r.blockBuffer(o), r.rounds()*r.run.Strips
	r.eachRun(func(i, column, run text) {
		col := r.variable("uint", "col", r.clampTo(plus(plus(r.col0, r.ownCol), column), r.col, r.s.TileN))
		r.bindAxis(r.col, col)
		step := r.named("step", plus(binary("/", k0, uintLit(r.run.Elems)), run))
		limit := int(r.k.Fold.Add) / r.run.Elems
		block := r.named("block", quotient(step, r.perBlock, limit))
		e := r.firstElement(remainder(step, r.perBlock, limit))
		at := r.variable("uint", "at", r.blockOf(o, block))
		r.repeat("p", r.run.Strips, func(p text) {
			s := place{block: block, e: e, at: times(p, r.run.StripStride()), p: p}
			number := plus(times(i, r.run.Strips), p)
			if f.words {
				r.assign(elementOf(f.quants, n, number), call(heldWords(r.emitter, b), at, s.e))
			} else {
				for w := range r.words() {
					r.assign(r.fetchedWord(f, number, w), r.quantsOf(b, at, s, w))
				}
			}
			scale := call("scale_"+b.base, at, within(e, s.at))
			if f.unpack != "" {
				scale = call(scaleWord(r.emitter, b), at)
			}
			r.assign(elementOf(f.scales, n, number), scale)
		})
	})
}

// fetchedWord prints word w of the decoded quants of the invocation's strip with the given number.
func (r *skinny) fetchedWord(f fetchedStrips, number text, w int) text {
	return elementOf(f.quants, r.rounds()*r.run.Strips*r.words(), plus(times(number, r.words()), uintLit(w)))
}

// quantsOf prints word w of a strip's quants in the element type of the cooperative matrices.
func (r *skinny) quantsOf(b *buffer, block text, s place, w int) text {
	if r.Element == ir.I8 {
		return r.signedBytes(r.bytesOf(b, block, s, w))
	}
	if r.Levels {
		first := r.variable("vec4", "levels", call("levels_"+b.base, r.quadArgs(block, s, uintLit(2*w))...))
		second := r.variable("vec4", "levels", call("levels_"+b.base, r.quadArgs(block, s, uintLit(2*w+1))...))
		r.helper("pack_halves", "float")
		return call("pack_halves", first, second)
	}
	bytes := r.bytesOf(b, block, s, w/2)
	pair := member(r.variable("uvec4", "bytes", bytes), map[int]string{0: "xy", 1: "zw"}[w%2])
	above := 1024 + r.run.Form.Bias
	if r.run.Form.Signed {
		pair, above = binary("^", pair, primary("0x80808080u")), above+128
	}
	r.helper("halves_of_bytes", "float")
	return call("halves_of_bytes", pair, primary(fmt.Sprintf("float16_t(%d)", above)))
}

// bytesOf prints sixteen quants of a strip as bytes, from quant 16w on.
func (r *skinny) bytesOf(b *buffer, block text, s place, w int) text {
	if r.run.Wide(b.Binding) {
		return r.wideCall(b, block, s, uintLit(w))
	}
	quads := make([]text, 4)
	for t := range quads {
		quads[t] = call("quants_"+b.base, r.quadArgs(block, s, uintLit(4*w+t))...)
	}
	return call("uvec4", quads...)
}

// signedBytes prints quants, as bytes, minus the format's bias. No byte carries into the next, because quants are below
// the bias plus 128.
func (r *skinny) signedBytes(bytes text) text {
	f := r.run.Form
	if f.Bias == 0 {
		return bytes
	}
	return binary("^", binary("+", bytes, primary(fmt.Sprintf("0x%08xu", uint32(128-f.Bias)*0x01010101))),
		primary("0x80808080u"))
}

// putWeights decodes the loaded weights and stores them in shared memory.
func (r *skinny) putWeights(o *matOperand, f fetchedStrips) {
	st, n := r.weights[o], r.rounds()*r.run.Strips
	r.eachRun(func(i, column, run text) {
		perTile := r.s.TileK / r.run.Elems
		place := plus(times(quotient(run, r.perBlock, perTile), r.run.DType.BlockElems()),
			r.firstElement(remainder(run, r.perBlock, perTile)))
		r.repeat("p", r.run.Strips, func(p text) {
			number := plus(times(i, r.run.Strips), p)
			at := r.named("at", plus(place, times(p, r.run.StripStride())))
			unit := r.named("unit", plus(plus(st.first, times(column, r.Pitch(r.s))),
				binary("/", at, uintLit(r.Unit(r.s)))))
			for w := range r.words() {
				word := r.fetchedWord(f, number, w)
				if f.words {
					quants := call(heldQuants(r.emitter, r.blockBuffer(o)), elementOf(f.quants, n, number), uintLit(w))
					word = r.signedBytes(quants)
				}
				r.put(st.elements, unit, w, word)
			}
			scale := elementOf(f.scales, n, number)
			if f.unpack != "" {
				scale = call(f.unpack, scale)
			}
			slot := plus(plus(st.firstScale, times(binary("/", at, uintLit(r.Strip)), r.columns())), column)
			if !r.Affine {
				r.assign(elementAt(st.scales, slot), scale)
				return
			}
			if f.unpack != "" {
				scale = r.variable("vec2", "scale", scale)
			}
			r.assign(elementAt(st.scales, slot), member(scale, "x"))
			r.assign(elementAt(st.others, slot), member(scale, "y"))
		})
	})
}

// put stores uvec4 number w, counted from a unit on.
func (r *skinny) put(array, unit text, w int, word text) {
	if r.unit == "uvec4" {
		r.assign(elementAt(array, plus(unit, uintLit(w))), word)
		return
	}
	if !isPlain(word) {
		word = r.variable("uvec4", "quants", word)
	}
	r.assign(elementAt(array, plus(unit, uintLit(2*w))), member(word, "xy"))
	r.assign(elementAt(array, plus(unit, uintLit(2*w+1))), member(word, "zw"))
}
