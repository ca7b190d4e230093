package matvec

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/glsl/blocks"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// skinny is a matmul of few rows by blocks (a skinny GEMM) on cooperative matrices. It computes the transposed result:
// a row of an accumulator fragment is a column of the result.
//
// A workgroup may divide the contraction axis among its subgroups (SubgroupsK), and adds up their sums at the end. A
// subgroup steps through its part of the axis, TileK elements at a time. It decodes the quants of its own columns to
// its own part of shared memory. The rows of A are in shared memory too: all subgroups with the same part of the axis
// load them together.
//
// A strip is the elements of a block that share a scale. Cooperative matrices sum up one strip at a time. The kernel
// multiplies these sums by the scales of the strip in B and in A, and adds the results to f32 sums. It loads the scales
// as accumulator fragments too. All columns of such a fragment have the scales of B, or all rows the scales of A.
type skinny struct {
	*matVec
	schedule.Skinny
	s       kernel.Skinny
	unit    string    // the element type of shared memory
	ownCol  expr.Expr // the subgroup's first column in the tile
	ownRow  expr.Expr // the subgroup's first row in the tile
	lane    expr.Expr // number of the invocation among the subgroups with these columns
	team    int       // number of these invocations
	share   expr.Expr // number of the subgroup's part of shared memory
	stage   expr.Expr // which of two stages of shared memory is used; nil if there is one
	weights map[*matmul.Operand]*stagedStrips
	rows    stagedStrips
	// The registers that hold a step's weights and rows on their way to shared memory.
	fetched     map[*matmul.Operand]fetchedStrips
	fetchedRows rowArrays
	perBlock    int // number of runs in a block; a run is the elements that an invocation decodes at once
}

// stagedStrips is one operand in shared memory. It has the elements and, for every strip, a scale. If the format is
// affine, others has an offset per strip of B, or a sum of the elements per strip of A.
type stagedStrips struct {
	elements, scales, others expr.Expr
	first                    expr.Expr // index of the subgroup's first element in elements
	firstScale               expr.Expr
}

// EmitSkinny writes a matmul of few rows on cooperative matrices.
func EmitSkinny(e *emit.Emitter) {
	s := e.Sched.(kernel.Skinny)
	self := e.SelfIndex()
	m := matmul.New(e, s.Tile, 0)
	if e.Err != nil {
		return
	}
	e.Need(emit.NeedCoopMat, emit.NeedMemoryModel)
	r := &skinny{s: s, matVec: &matVec{Base: m, S: kernel.MatVec{Launch: s.Launch, Tile: s.Tile}, self: self},
		weights: map[*matmul.Operand]*stagedStrips{}}
	r.Skinny, _ = schedule.SkinnyOf(e.K)
	e.NeedMatrix(r.Element)
	t := r.blockBuffer(r.B[0]).DType
	r.run = kernel.NewBlockRun(t, max(r.Span, kernel.RoundedGroup))
	r.perBlock = t.BlockElems() / r.run.Elems
	if n := 4 * r.run.Quads; n != r.Strip { // package schedule and this one must agree
		e.Fail("strips of %s are %d elements, not %d", t, n, r.Strip)
	}
	r.placeSubgroup()
	r.declare()
	r.accumulate()
	r.storeResults()
}

// Sizes of a subgroup's work: columns is the number of result columns. fragments is the number of fragments across
// these columns, and rowFragments the number of fragments across the subgroup's rows. strips is the number of strips
// in a step.
func (r *skinny) columns() int      { return r.s.TileN / r.s.SubgroupsN }
func (r *skinny) fragments() int    { return r.columns() / r.s.FragM }
func (r *skinny) rowFragments() int { return r.s.TileM / r.s.Down() / r.s.FragN }
func (r *skinny) strips() int       { return r.s.TileK / r.Strip }

// placeSubgroup sets the columns, rows and part of the contraction axis that this subgroup computes.
func (r *skinny) placeSubgroup() {
	id, count := expr.Of("gl_SubgroupID"), r.s.SubgroupsN*r.s.SubgroupsK
	r.share, r.lane, r.team, r.ownRow = id, expr.Of("gl_SubgroupInvocationID"), r.s.Subgroup, expr.Of("0u")
	if down := r.s.SubgroupsM; down > 0 {
		line := r.Named("line_of_subgroups", expr.Quotient(id, count, down*count))
		r.ownRow = r.Named("own_row", expr.Times(line, r.s.TileM/down))
		r.lane = r.Named("lane", expr.Flat(line, r.s.Subgroup, r.lane))
		r.team *= down
		id = r.Named("column_of_subgroups", expr.Remainder(id, count, down*count))
		r.share = id
	}
	r.ownCol = r.Named("own_col", expr.Times(expr.Remainder(id, r.s.SubgroupsN, count), r.columns()))
	r.part = r.Named("part", expr.Quotient(id, r.s.SubgroupsN, count))
}

// declare declares shared memory and the accumulator fragments.
func (r *skinny) declare() {
	s := r.s
	r.unit = "uvec4"
	if r.Unit(s)*r.Element.BlockBytes() == 8 {
		r.unit = "uvec2"
	}
	// Each subgroup has a share of the weights and of their scales, from first and firstScale on.
	first := r.Named("first_unit", expr.Times(r.share, r.columns()*r.Pitch(s)))
	firstScale := r.Named("first_scale", expr.Times(r.share, r.columns()*r.strips()))
	for _, o := range r.B {
		st := r.shareStrips(o.Name, "_offsets", r.WeightUnits(s), r.WeightScales(s))
		st.first, st.firstScale = first, firstScale
		r.weights[o] = &st
	}
	r.rows = r.shareStrips("a", "_sums", r.Stages(s)*r.RowUnits(s), r.RowScales(s))
	r.rows.first = expr.Times(r.part, r.Parts*s.TileM*r.Pitch(s))
	r.rows.firstScale = expr.Times(r.part, s.TileM*r.strips())
	sums := emit.Fragment(r.s.Fragment, ir.F32, "Accumulator")
	r.DeclareZeros(sums, expr.Call(sums, expr.Of("0.0")), r.fragments()*r.rowFragments())
}

// shareStrips declares the shared arrays of an operand: units of elements, and in each stage a number of scales, if not
// 0. For an affine format, the array stagedStrips.others is called name+other.
func (r *skinny) shareStrips(name, other string, units, scales int) stagedStrips {
	st := stagedStrips{elements: r.Share(r.unit, name+"_strips", units)}
	if scales == 0 {
		return st
	}
	st.scales = r.Share("float", name+"_scales", r.Stages(r.s)*scales)
	if r.Affine {
		st.others = r.Share("float", name+other, r.Stages(r.s)*scales)
	}
	return st
}

// accumulate steps through the contraction axis. While subgroups multiply a step, they prefetch the next one into
// registers.
func (r *skinny) accumulate() {
	s := r.s
	for _, o := range r.B {
		blocks.Parts(r.Emitter, r.blockBuffer(o))
	}
	// For int8 rows, sums of elements are dot products with ones.
	if r.Parts == 1 && r.Affine {
		r.declareOnes()
	}
	r.fetched = map[*matmul.Operand]fetchedStrips{}
	for _, o := range r.B {
		r.fetched[o] = r.declareStrips(o)
	}
	r.fetchedRows = r.declareRows()
	r.OpenScope()
	r.fetch(expr.Times(r.part, s.TileK))
	r.Close()
	r.Blank()
	if r.Stages(s) > 1 {
		r.loopWithTwoStages()
	} else {
		r.loopWithOneStage()
	}
}

// step is the distance between two steps of a subgroup along the contraction axis.
func (r *skinny) step() int { return r.s.SubgroupsK * r.s.TileK }

// loopWithTwoStages writes the loop over the steps. While subgroups multiply one stage of shared memory, they fill the
// other.
func (r *skinny) loopWithTwoStages() {
	r.Comment("While one stage of shared memory is multiplied, the next step goes to the other.")
	r.stage = r.Variable("uint", "stage", expr.Uint(0))
	r.put()
	k0 := r.OpenRolled("k0", expr.Of("0u"), r.Dim(r.K.Fold), r.step())
	r.Barrier()
	r.fetchNext(k0)
	r.multiply()
	r.Assign(r.stage, expr.Binary("-", expr.Uint(1), r.stage))
	r.put()
	r.Close()
}

// loopWithOneStage writes the loop over the steps, with one stage of shared memory. Every subgroup passes the loop's
// barriers equally often, also if the last step has elements for only some of them.
func (r *skinny) loopWithOneStage() {
	var k0, exists expr.Expr // exists is the condition that the subgroup has elements in this step, or nil
	own := expr.Times(r.part, r.s.TileK)
	if schedule.DivisibleBy(r.K.Fold, r.step()) { // all subgroups have elements in every step
		k0 = r.OpenRolled("k0", own, r.Dim(r.K.Fold), r.step())
	} else {
		k0 = r.OpenRolled("step_start", expr.Of("0u"), r.Dim(r.K.Fold), r.step())
		k0 = r.Named("k0", expr.Plus(k0, own))
		exists = expr.Binary("<", k0, r.Dim(r.K.Fold))
	}
	r.Barrier("what is in shared memory has been multiplied")
	r.put()
	r.Barrier()
	r.Comment("The next step, or the last once more.")
	r.fetchNext(k0)
	r.OpenIf(exists)
	r.multiply()
	r.Close()
	r.Close()
}

// fetch loads the subgroup's weights and rows of the step that begins at k0 into registers.
func (r *skinny) fetch(k0 expr.Expr) {
	for _, o := range r.B {
		r.fetchWeights(o, r.fetched[o], k0)
	}
	r.fetchRows(r.fetchedRows, k0)
}

// fetchNext fetches the step after the one that begins at k0, or the last step once more.
func (r *skinny) fetchNext(k0 expr.Expr) {
	r.fetch(r.Variable("uint", "k1", expr.Call("min", expr.Plus(k0, expr.Uint(r.step())),
		expr.Uint(r.K.Fold.Add-int64(r.s.TileK)))))
}

// put stores the fetched weights and rows in shared memory.
func (r *skinny) put() {
	for _, o := range r.B {
		r.putWeights(o, r.fetched[o])
	}
	r.putRows(r.fetchedRows)
}

// fetchedStrips names the registers that hold an invocation's strips of a B on their way to shared memory. If one read
// returns all quants of a run, quants holds the raw words. If one word holds a scale, scales holds this word.
// putWeights decodes them later, because decoding at once would wait for the loads before the previous step is
// multiplied.
type fetchedStrips struct {
	quants, scales expr.Array
	words          bool   // quants holds raw words, one uvec4 a run
	unpack         string // the function that unpacks raw scales, or ""
}

// declareStrips declares the registers of a step's strips of a B.
func (r *skinny) declareStrips(o *matmul.Operand) fetchedStrips {
	b, n := r.blockBuffer(o), r.rounds()*r.run.Strips
	row, _ := ir.BlockFormatOf(r.run.DType)
	f := fetchedStrips{
		words: r.Element == ir.I8 && r.run.SharedScale && r.run.Wide(b.Binding) && row.Decode.ReadsOnce(),
	}
	if f.words {
		f.quants = r.Array("uvec4", o.Name+"_words", n)
	} else {
		f.quants = r.Array("uvec4", o.Name+"_quants", n*r.words())
	}
	scale := blocks.ScaleType(r.run.Form)
	if unpack, ok := blocks.UnpackScale(r.Emitter, b); ok {
		scale, f.unpack = "uint", unpack
	}
	f.scales = r.Array(scale, o.Name+"_scale", n)
	return f
}

// runs is the number of runs of a subgroup's columns in a step. The subgroups with the same columns share these runs.
// rounds is the largest number of runs that one lane decodes.
func (r *skinny) runs() int   { return r.columns() * r.s.TileK / r.run.Elems }
func (r *skinny) rounds() int { return ceil.Div(r.runs(), r.team) }

// eachRun calls body for each run that this lane decodes in a step. A run is the elements that an invocation decodes at
// once, and i counts those of this lane. column is the run's column, counted from the subgroup's first column. run is
// the run's number among the runs of that column in the step, which has TileK elements. Lanes 2n and 2n+1 decode the
// same run of two adjacent columns, so that their stores use different banks.
func (r *skinny) eachRun(body func(i, column, run expr.Expr)) {
	perColumn := r.s.TileK / r.run.Elems
	r.EachSlot(r.lane, r.runs(), r.team, func(i, slot expr.Expr) {
		pair := r.Named("pair", expr.Binary("/", slot, expr.Uint(2)))
		column := r.Named("column", expr.Flat(expr.Quotient(pair, perColumn, r.runs()/2), 2,
			expr.Binary("%", slot, expr.Uint(2))))
		body(i, column, r.Named("run", expr.Remainder(pair, perColumn, r.runs()/2)))
	})
}

// words is the number of uvec4 that a strip takes in shared memory.
func (r *skinny) words() int { return r.Strip * r.Element.BlockBytes() / 16 }

// fetchWeights loads this lane's runs of a B into registers, for the step that begins at k0.
func (r *skinny) fetchWeights(o *matmul.Operand, f fetchedStrips, k0 expr.Expr) {
	b := r.blockBuffer(o)
	r.eachRun(func(i, column, run expr.Expr) {
		col := r.Variable("uint", "col", r.ClampTo(expr.Plus(r.Col0, r.ownCol, column), r.Col, r.s.TileN))
		r.BindAxis(r.Col, col)
		// The run's number along the contraction axis.
		step := r.Named("step", expr.Plus(expr.Binary("/", k0, expr.Uint(r.run.Elems)), run))
		limit := int(r.K.Fold.Add) / r.run.Elems // runs along the contraction axis
		block := r.Named("block", expr.Quotient(step, r.perBlock, limit))
		e := r.firstElement(expr.Remainder(step, r.perBlock, limit))
		at := r.Variable("uint", "at", r.blockOf(o, block))
		r.Repeat("p", r.run.Strips, func(p expr.Expr) {
			s := position{block: block, e: e, at: expr.Times(p, r.run.StripStride()), p: p}
			r.fetchStrip(b, f, expr.Flat(i, r.run.Strips, p), at, s)
		})
	})
}

// fetchStrip loads the quants and the scale of a strip at position s of the block with index `at` in its buffer. strip
// is the number of the strip among those of the lane.
func (r *skinny) fetchStrip(b *emit.Buffer, f fetchedStrips, strip, at expr.Expr, s position) {
	if f.words {
		r.Assign(f.quants.At(strip), expr.Call(blocks.FieldWords(r.Emitter, b), at, s.e))
	} else {
		for w := range r.words() {
			r.Assign(r.fetchedWord(f, strip, w), r.quantsOf(b, at, s, w))
		}
	}
	scale := expr.Call("scale_"+b.Base, at, plusOffset(s.e, s.at))
	if f.unpack != "" {
		scale = expr.Call(blocks.ScaleWord(r.Emitter, b), at)
	}
	r.Assign(f.scales.At(strip), scale)
}

// fetchedWord returns the register with the w-th uvec4 of a strip's decoded quants. strip is the number of the strip
// among those of the lane.
func (r *skinny) fetchedWord(f fetchedStrips, strip expr.Expr, w int) expr.Expr {
	return f.quants.At(expr.Flat(strip, r.words(), expr.Uint(w)))
}

// quantsOf returns the w-th uvec4 of a strip's quants, converted to the element type of the cooperative matrices.
func (r *skinny) quantsOf(b *emit.Buffer, block expr.Expr, s position, w int) expr.Expr {
	if r.Element == ir.I8 {
		return r.signedBytes(r.bytesOf(b, block, s, w))
	}
	if r.Levels {
		first := r.Variable("vec4", "levels", expr.Call("levels_"+b.Base, r.quadArgs(block, s, expr.Uint(2*w))...))
		second := r.Variable("vec4", "levels", expr.Call("levels_"+b.Base, r.quadArgs(block, s, expr.Uint(2*w+1))...))
		r.Helper("pack_halves", "float")
		return expr.Call("pack_halves", first, second)
	}
	bytes := r.bytesOf(b, block, s, w/2)
	pair := expr.Member(r.Variable("uvec4", "bytes", bytes), [2]string{"xy", "zw"}[w%2]) // eight of the 16 bytes
	// A byte in the mantissa of a half is the byte plus 1024. halves_of_bytes subtracts above.
	above := 1024 + r.run.Form.Bias
	if r.run.Form.Signed {
		pair, above = expr.Binary("^", pair, expr.Of(topOfEachByte)), above+128
	}
	r.Helper("halves_of_bytes", "float")
	return expr.Call("halves_of_bytes", pair, expr.Of(fmt.Sprintf("float16_t(%d)", above)))
}

// bytesOf returns quants 16w to 16w+15 of a strip as the bytes of a uvec4.
func (r *skinny) bytesOf(b *emit.Buffer, block expr.Expr, s position, w int) expr.Expr {
	if r.run.Wide(b.Binding) {
		return r.wideCall(b, block, s, expr.Uint(w))
	}
	quads := make([]expr.Expr, 4)
	for t := range quads {
		quads[t] = expr.Call("quants_"+b.Base, r.quadArgs(block, s, expr.Uint(4*w+t))...)
	}
	return expr.Call("uvec4", quads...)
}

// signedBytes returns quants minus the format's bias, as signed bytes. The quants are unsigned bytes. It adds 128-bias
// to each byte, and subtracts 128 by flipping the top bit. No byte overflows into the next one, because quants are
// below the bias plus 128.
func (r *skinny) signedBytes(bytes expr.Expr) expr.Expr {
	f := r.run.Form
	if f.Bias == 0 {
		return bytes
	}
	return expr.Binary("^", expr.Binary("+", bytes, expr.Of(fmt.Sprintf("0x%08xu", uint32(128-f.Bias)*0x01010101))),
		expr.Of(topOfEachByte))
}

// putWeights stores the loaded weights in shared memory: quants as signed bytes, and scales. It decodes quants that
// fetchWeights has loaded as raw words (f.words).
func (r *skinny) putWeights(o *matmul.Operand, f fetchedStrips) {
	st := r.weights[o]
	r.eachRun(func(i, column, run expr.Expr) {
		perTile := r.s.TileK / r.run.Elems
		place := expr.Flat(expr.Quotient(run, r.perBlock, perTile), r.run.DType.BlockElems(),
			r.firstElement(expr.Remainder(run, r.perBlock, perTile)))
		r.Repeat("p", r.run.Strips, func(p expr.Expr) {
			strip := expr.Flat(i, r.run.Strips, p)
			at := r.Named("at", expr.Plus(place, expr.Times(p, r.run.StripStride())))
			unit := r.Named("unit", expr.Plus(r.inStage(st.first, r.WeightStage(r.s)), expr.Times(column, r.Pitch(r.s)),
				expr.Binary("/", at, expr.Uint(r.Unit(r.s)))))
			for w := range r.words() {
				r.putUnit(st.elements, unit, w, r.decodedWord(o, f, strip, w))
			}
			slot := expr.Plus(r.inStage(st.firstScale, r.WeightScales(r.s)),
				expr.Times(expr.Binary("/", at, expr.Uint(r.Strip)), r.columns()), column)
			r.putScale(o, f, strip, slot)
		})
	})
}

// decodedWord returns the w-th uvec4 of a fetched strip's quants. It decodes the quants if they are still raw words.
func (r *skinny) decodedWord(o *matmul.Operand, f fetchedStrips, strip expr.Expr, w int) expr.Expr {
	if !f.words {
		return r.fetchedWord(f, strip, w)
	}
	return r.signedBytes(expr.Call(blocks.FieldQuants(r.Emitter, r.blockBuffer(o)), f.quants.At(strip), expr.Uint(w)))
}

// putScale stores the scale of a loaded strip in shared memory, and in an affine format also the number to be added.
func (r *skinny) putScale(o *matmul.Operand, f fetchedStrips, strip, slot expr.Expr) {
	st, scale := r.weights[o], f.scales.At(strip)
	if f.unpack != "" {
		scale = expr.Call(f.unpack, scale)
	}
	if !r.Affine {
		r.Assign(expr.At(st.scales, slot), scale)
		return
	}
	if f.unpack != "" {
		scale = r.Variable("vec2", "scale", scale)
	}
	r.Assign(expr.At(st.scales, slot), expr.Member(scale, "x"))
	r.Assign(expr.At(st.others, slot), expr.Member(scale, "y"))
}

// inStage returns the index in the current stage, given the same index in the first stage. A stage has size elements.
func (r *skinny) inStage(first expr.Expr, size int) expr.Expr {
	if r.stage == nil {
		return first
	}
	return expr.Plus(first, expr.Times(r.stage, size))
}

// putUnit stores the w-th uvec4 of a strip in shared memory. unit is the index of the strip's first element, in
// units of the array. The array has elements of type uvec4, or uvec2; putUnit then stores two halves.
func (r *skinny) putUnit(array, unit expr.Expr, w int, word expr.Expr) {
	if r.unit == "uvec4" {
		r.Assign(expr.At(array, expr.Plus(unit, expr.Uint(w))), word)
		return
	}
	if !expr.IsPlain(word) {
		word = r.Variable("uvec4", "quants", word)
	}
	r.Assign(expr.At(array, expr.Plus(unit, expr.Uint(2*w))), expr.Member(word, "xy"))
	r.Assign(expr.At(array, expr.Plus(unit, expr.Uint(2*w+1))), expr.Member(word, "zw"))
}
