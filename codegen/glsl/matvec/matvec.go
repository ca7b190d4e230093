// Package matvec writes matmuls of few rows. Their time is the time to read the weights. [Emit] uses ordinary
// arithmetic, and [EmitSkinny] uses cooperative matrices.
//
// Operand A has the rows and operand B the weights, often in blocks of a quantized format. An invocation reads B in
// runs. A run is the elements of one block that it reads at once. A run consists of strips, and the elements of a strip
// share a scale. Four elements are a quad. See [kernel.BlockRun].
package matvec

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// Emit writes a matmul of few rows. It takes about as long as reading B once. A group of n = LanesPerRow invocations
// shares the sums of ThreadN columns and all rows: invocation i of the group takes runs i, i+n, i+2n, ... along the
// contraction axis. If B is contiguous along the contraction axis, the invocations of a group are neighbours. If B is
// contiguous along the columns, neighbours own neighbouring columns instead.
//
// The partial sums are added in a fixed order, so that results are the same in every run. If the schedule relies on the
// subgroup size, they are added across a subgroup by shuffles first, and then in shared memory.
//
// The schedule chooses a [bReader] to read B, an [aSource] for the rows, and stream or unrollColumns for the loop.
func Emit(e *emit.Emitter) {
	s := e.Sched.(kernel.MatVec)
	self := e.SelfIndex()
	m := matmul.New(e, s.Tile, 0)
	if e.Err != nil {
		return
	}
	v := &matVec{Base: m, S: s, self: self, groups: s.TileN / s.ThreadN / max(s.Coarsen, 1)}
	if s.Coarsen == 0 {
		m.DeclareSums(s.ThreadM * s.ThreadN)
	}
	v.placeInvocation()
	if s.TileK > 0 {
		v.run = v.K.BlockRun(s)
	}
	v.reader, v.rows = v.newReader(), v.source()
	v.biasSubnormals() // changes v.run.Form, so it comes after newReader, which sets it
	if s.Coarsen > 0 {
		if schedule.SumsRowsFirst(s) {
			v.shareRowSums()
		}
		v.unrollColumns()
		return
	}
	v.rows.startLoads()
	v.shareTables()
	v.rows.prepareRows()
	v.stream()
	if s.LanesPerRow == 1 {
		v.storeOwn()
		return
	}
	shared := v.newPartials()
	v.sharePartialSums(shared)
	v.storeShared(shared)
}

// bReader reads B and multiplies it by the rows of A. It divides a run into parts, which are strips for most formats.
// It loads the rows of A separately from a column of B, so that the caller may keep the rows in registers for several
// columns.
//
// Readers and sources have the matVec in a field that is not embedded: each type that embeds it would get its two
// hundred methods, and the package would take four times as long to compile.
type bReader interface {
	// prepare adds the GLSL functions that the reader calls.
	prepare()
	// parts returns the number of parts of a run.
	parts() int
	// activations loads the part of the rows at a position.
	activations(at position) activations
	// addColumn multiplies loaded rows by column j of B, and adds to the sums. The column axis is bound to j.
	addColumn(at position, rows activations, j expr.Expr)
}

// runReader is a bReader that multiplies a run of B by all rows and columns in an order of its own.
type runReader interface {
	// addRun adds the products of a run to the sums.
	addRun(run position)
}

// newReader returns the reader of B that the schedule names, or nil for an unknown name. It also sets fields of v that
// depend on the reader, such as the number of elements in a run.
func (v *matVec) newReader() bReader {
	strips := &stripReader{v: v}
	strips.addDots = strips.addQuads
	switch v.S.Decode {
	case kernel.DecodeQuads:
		v.run.Elems = 4
		return quadReader{plainReader{v}}
	case kernel.DecodeWords:
		v.run.Elems = 16
		return wordReader{plainReader{v}}
	case kernel.DecodeStrips:
		return strips
	case kernel.DecodeWhole:
		return wholeReader{strips}
	case kernel.DecodeLookup:
		return newLookupReader(v)
	case kernel.DecodePacked:
		return packedReader{v}
	}
	return nil
}

// matVec writes one kernel: a matmul of few rows.
type matVec struct {
	*matmul.Base
	S       kernel.MatVec
	reader  bReader
	rows    aSource
	run     kernel.BlockRun // how the reader walks over B
	self    expr.Expr       // number of the invocation in its workgroup
	part    expr.Expr       // the invocation's share of the contraction axis: 0 … LanesPerRow-1
	group   expr.Expr       // number of the group of invocations that share columns
	groups  int             // number of such groups
	along   bool            // the invocations of a group are neighbours
	lookup  *lookupTable    // in shared memory, or nil
	paired  bool            // strips interleave the int8 elements of both fields (pairStrip)
	rowSums []expr.Expr     // one array in shared memory per phase: the parts of each row's sum
	// A pass computes some of the workgroup's columns; see unrollColumns.
	firstCol expr.Expr // the first column of the current pass, or nil for column 0
	preload  preloaded // the preloaded blocks of the current pass, or nil
}

// placeInvocation sets part and group: it divides the workgroup's invocations among the contraction axis and the
// columns.
func (v *matVec) placeInvocation() {
	s := v.S
	v.along = v.B[0].Along || s.Subgroup > 0
	part, group := expr.Remainder(v.self, s.LanesPerRow, s.Workgroup), expr.Quotient(v.self, s.LanesPerRow, s.Workgroup)
	if !v.along {
		part, group = expr.Quotient(v.self, v.groups, s.Workgroup), expr.Remainder(v.self, v.groups, s.Workgroup)
	}
	v.part, v.group = v.Named("part", part), v.Named("group", group)
}

// column returns the number of the invocation's j-th column within the workgroup's columns. If neighbours own
// neighbouring columns, the columns of one invocation are groups apart.
func (v *matVec) column(j expr.Expr) expr.Expr {
	at := expr.Plus(v.group, expr.Times(j, v.groups))
	if v.along {
		at = expr.Flat(v.group, v.S.ThreadN, j)
	}
	if v.firstCol != nil {
		at = expr.Plus(v.firstCol, at)
	}
	return at
}

// bindColumn binds the column axis to the invocation's j-th column. If that is past the last column of B, it binds the
// last column.
func (v *matVec) bindColumn(j expr.Expr) {
	v.BindAxis(v.Col, v.Variable("uint", "col", v.ClampTo(expr.Plus(v.Col0, v.column(j)), v.Col, v.S.TileN)))
}

// storeOwn stores an invocation's results without shared memory, if no invocations share a sum.
func (v *matVec) storeOwn() {
	s := v.S
	if v.K.RowSums() {
		v.shareRowSums()
		v.Barrier()
	}
	v.Blank()
	v.Repeat("i", s.ThreadM, func(i expr.Expr) {
		v.bindRowSums(i)
		v.Repeat("j", s.ThreadN, func(j expr.Expr) {
			col := v.Variable("uint", "col", expr.Plus(v.Col0, v.column(j)))
			v.Finish(expr.Plus(v.Row0, i), col, v.SumsAt(expr.Flat(i, s.ThreadN, j)))
		})
	})
}

// shareTables copies the tables that decode blocks to shared memory: codebooks or lookup tables.
func (v *matVec) shareTables() {
	if v.S.Copies > 0 {
		v.shareLookup()
		return
	}
	if !v.S.Tables {
		return
	}
	v.SharedTables = map[int]string{}
	for i, b := range v.Buffers {
		if b.Codebook == ir.Invalid { // not a codebook
			continue
		}
		typ, count := emit.Scalars[b.DType].Carrier, int(b.Elems)
		table := v.Share(typ, b.Base+"_table", count)
		v.SharedTables[i] = table.Text
		v.Blank()
		n := v.OpenLoop("n", v.self, expr.Uint(count), v.S.Workgroup)
		v.Assign(expr.At(table, n), expr.At(expr.Of(v.View(b, 1)), n))
		v.Close()
	}
	v.Barrier()
}

// storeShared adds up the partial sums of all invocations in shared memory and stores the results, one result per
// invocation.
func (v *matVec) storeShared(shared partials) {
	if !schedule.SumsRowsFirst(v.S) {
		v.shareRowSums()
	}
	v.Barrier()
	v.finishParts(partialResults{parts: v.partsPerResult(), columns: v.S.TileN,
		column: func(own expr.Expr) expr.Expr { return own }, // the results are for all columns of the tile
		read: func(n int, part, id expr.Expr) expr.Expr {
			return shared.load(n, expr.Flat(part, v.partPitch(), id))
		}})
}

// partialResults describes partial sums in shared memory. There are results for all rows of a tile and some of its
// columns, and every result is the sum of several parts.
type partialResults struct {
	parts   int // number of parts of a result
	columns int // number of columns with results
	// column returns the number in the tile of column own of these columns.
	column func(own expr.Expr) expr.Expr
	// read returns a part of a result of matmul n. The result for row i and column own has the id i*columns + own.
	read func(n int, part, id expr.Expr) expr.Expr
}

// finishParts adds up the partial sums of every result and stores the results. An invocation computes the result with
// number id, as partialResults.read counts results.
func (v *matVec) finishParts(f partialResults) {
	parts, read, results := f.parts, f.read, v.S.TileM*f.columns
	v.Blank()
	id := v.OpenResults(v.self, results)
	own := expr.Quotient(id, f.columns, results) // the row in the tile
	row := v.Named("row", expr.Plus(v.Row0, own))
	col := v.Variable("uint", "col", expr.Plus(v.Col0, f.column(expr.Remainder(id, f.columns, results))))
	sums := make([]expr.Expr, len(v.MatMuls))
	for n := range sums {
		sums[n] = v.Variable(v.Quads.Scalar, matmul.Numbered("sum", n, len(sums)), read(n, expr.Of("0u"), id))
	}
	v.addParts(parts, sums, func(n int, p expr.Expr) expr.Expr { return read(n, p, id) })
	if v.Row0.Is("0u") {
		own = row // a variable with the same value
	}
	// The store of a gated activation also reads the sum of another column of the same row.
	v.OtherSum = func(n int, col expr.Expr) expr.Expr {
		id := v.Named("other_id", expr.Flat(own, f.columns, expr.Binary("-", col, v.Col0)))
		sum := v.Variable(v.Quads.Scalar, matmul.Numbered("other_sum", n, len(sums)), read(n, expr.Of("0u"), id))
		v.addParts(parts, []expr.Expr{sum}, func(_ int, p expr.Expr) expr.Expr { return read(n, p, id) })
		return sum
	}
	v.bindRowSums(own)
	v.Finish(row, col, sums)
	v.Close()
}

// addParts adds parts 1 … parts-1 to sums, one sum per matmul. Each sum already has part 0.
func (v *matVec) addParts(parts int, sums []expr.Expr, read func(n int, part expr.Expr) expr.Expr) {
	if parts < 2 {
		return
	}
	p := v.OpenLoop("p", expr.Uint(1), expr.Uint(parts), 1)
	for n, sum := range sums {
		v.Update(sum, "+=", read(n, p))
	}
	v.Close()
}

// partsPerResult is the number of partial sums of each result: one per invocation that shares it, or one per subgroup.
func (v *matVec) partsPerResult() int { return v.S.LanesPerRow / max(v.S.Subgroup, 1) }

// partPitch is the distance in shared memory between two parts of the same result. Shared memory has part 0 of all
// results of the workgroup (at row*TileN + column), then part 1 of all results, and so on. One unused element after
// each makes parts use different banks.
func (v *matVec) partPitch() int { return v.S.TileM*v.S.TileN + 1 }

// sharePartialSums writes every invocation's partial sums to shared memory.
func (v *matVec) sharePartialSums(shared partials) {
	s := v.S
	v.Blank()
	part := expr.Quotient(v.part, max(s.Subgroup, 1), s.LanesPerRow)
	v.Repeat("i", s.ThreadM, func(i expr.Expr) {
		row := expr.Flat(part, v.partPitch(), expr.Times(i, s.TileN))
		if s.Subgroup > 0 {
			v.shareSubgroupSums(i, row, shared)
			return
		}
		v.Repeat("j", s.ThreadN, func(j expr.Expr) {
			for n, sum := range v.SumsAt(expr.Flat(i, s.ThreadN, j)) {
				v.Assign(shared.at(n, expr.Plus(row, v.column(j))), shared.word(sum))
			}
		})
	})
}

// shareSubgroupSums adds the sums of row i over a subgroup and writes them to shared memory, from index row on. While
// an invocation has an even number of sums, it gives half of them to a partner and adds the partner's sums to the other
// half. So adding up eight sums over 32 invocations takes 4+2+1+1+1 = 9 exchanges instead of 8*5.
func (v *matVec) shareSubgroupSums(i, row expr.Expr, shared partials) {
	s := v.S
	lane := expr.Of("gl_SubgroupInvocationID")
	at := func(j expr.Expr) []expr.Expr { return v.SumsAt(expr.Flat(i, s.ThreadN, j)) }
	count, mask := s.ThreadN, s.Subgroup/2 // an invocation's sums, and its distance to the next partner
	for count > 1 && count%2 == 0 && mask > 0 {
		v.halveSums(at, count/2, mask)
		count, mask = count/2, mask/2
	}
	share := max(2*mask, 1) // number of invocations that still have parts of the same sums
	v.Repeat("j", count, func(j expr.Expr) {
		for _, sum := range at(j) {
			v.SumLanes(sum, mask)
		}
	})
	var cond expr.Expr
	if share > 1 {
		cond = expr.Binary("==", expr.Remainder(lane, share, s.Subgroup), expr.Of("0u"))
	}
	v.OpenIf(cond)
	first := expr.Times(expr.Quotient(lane, share, s.Subgroup), count)
	v.Repeat("j", count, func(j expr.Expr) {
		for n, sum := range at(j) {
			v.Assign(shared.at(n, expr.Plus(row, v.column(expr.Plus(first, j)))), shared.word(sum))
		}
	})
	v.Close()
}

// halveSums halves the number of sums per lane, which is 2*half. at returns sum j of every matmul. A lane with lane &
// mask == 0 keeps the first half, and another lane the second half. Each lane adds the partial sums of its partner,
// lane ^ mask. The results are in the variables of the first half.
func (v *matVec) halveSums(at func(j expr.Expr) []expr.Expr, half, mask int) {
	upper := v.Variable("bool", fmt.Sprintf("upper%d", mask),
		expr.Binary("!=", expr.Binary("&", expr.Of("gl_SubgroupInvocationID"), expr.Uint(mask)), expr.Of("0u")))
	v.Repeat("j", half, func(j expr.Expr) {
		low, high := at(j), at(expr.Plus(j, expr.Uint(half)))
		for n := range low {
			own, others := expr.Choose(upper, high[n], low[n]), expr.Choose(upper, low[n], high[n])
			v.Assign(low[n], expr.Format("(%s) + subgroupShuffleXor(%s, %du)", own, others, mask))
		}
	})
}
