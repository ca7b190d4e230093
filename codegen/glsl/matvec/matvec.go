// Package matvec writes matmuls of few rows, whose time is the time to read the weights: on ordinary arithmetic, and
// skinny ones on cooperative matrices.
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

// Emit writes a matmul of few rows. Its time is the time to read B once. LanesPerRow invocations share the sums
// of ThreadN columns and all rows. Each of them takes every LanesPerRow-th quad along the contraction axis. If B is
// contiguous along the contraction axis, these invocations are neighbours. If B is contiguous along the columns,
// neighbours own neighbouring columns instead.
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
	v.reader, v.rows = readers[s.Decode](v), v.source()
	v.biasSubnormals()
	if s.Coarsen > 0 {
		if schedule.SumsRowsFirst(s) {
			v.shareRowSums()
		}
		v.unrollColumns()
		return
	}
	v.rows.ask()
	v.shareTables()
	v.rows.ready()
	v.stream()
	if s.LanesPerRow == 1 {
		v.storeOwn()
		return
	}
	shared := v.newPartials()
	v.shareParts(shared)
	v.meet(shared)
}

// bReader reads B and multiplies it by the rows.
type bReader interface {
	// prepare adds the functions that reading takes.
	prepare()
	// addRun multiplies a run by all rows and columns, and adds to the sums.
	addRun(run place)
}

// columnReader reads the rows of a part of a run first, and then column by column. So the rows may stay in registers.
type columnReader interface {
	bReader
	parts() int
	activations(at place) activations
	// addColumn multiplies a part by the bound column, the j-th, and adds to the sums.
	addColumn(at place, rows activations, j expr.Expr)
}

// readers has one reader for each Decode of a schedule.
var readers = map[kernel.Decode]func(*matVec) bReader{
	kernel.DecodeQuads:  newQuadReader,
	kernel.DecodeWords:  newWordReader,
	kernel.DecodeStrips: newStripReader,
	kernel.DecodeWhole:  newWholeReader,
	kernel.DecodeLookup: newLookupReader,
	kernel.DecodePacked: newPackedReader,
}

// matVec is a matmul of few rows.
type matVec struct {
	*matmul.Base
	S        kernel.MatVec
	reader   bReader
	rows     aSource
	run      kernel.BlockRun // how the reader walks over B
	self     expr.Expr       // number of the invocation in its workgroup
	part     expr.Expr       // of the contraction: 0 … LanesPerRow-1
	group    expr.Expr       // of columns
	groups   int
	along    bool         // B is contiguous along the contraction axis
	lookup   *lookupTable // in shared memory, or nil
	paired   bool         // strips interleave the int8 elements of both planes
	rowSums  []expr.Expr  // by phase, in shared memory: the parts of each row's sum
	firstCol expr.Expr    // the pass's first column, if rows are resident
	held     heldBlocks   // the preloaded blocks of the pass
}

func (v *matVec) placeInvocation() {
	s := v.S
	v.along = v.B[0].Along || s.Subgroup > 0
	part, group := expr.Remainder(v.self, s.LanesPerRow, s.Workgroup), expr.Quotient(v.self, s.LanesPerRow, s.Workgroup)
	if !v.along {
		part, group = expr.Quotient(v.self, v.groups, s.Workgroup), expr.Remainder(v.self, v.groups, s.Workgroup)
	}
	v.part, v.group = v.Named("part", part), v.Named("group", group)
}

// column is column j of an invocation, counted from the workgroup's first column. If neighbours own neighbouring
// columns, an invocation's own columns are apart.
func (v *matVec) column(j expr.Expr) expr.Expr {
	at := expr.Plus(v.group, expr.Times(j, v.groups))
	if v.along {
		at = expr.Plus(expr.Times(v.group, v.S.ThreadN), j)
	}
	if v.firstCol != nil {
		at = expr.Plus(v.firstCol, at)
	}
	return at
}

// bindColumn binds the column axis to column j of an invocation, or to the last column.
func (v *matVec) bindColumn(j expr.Expr) {
	v.BindAxis(v.Col, v.Variable("uint", "col", v.ClampTo(expr.Plus(v.Col0, v.column(j)), v.Col, v.S.TileN)))
}

// storeOwn stores the results if no invocations share a sum.
func (v *matVec) storeOwn() {
	s := v.S
	if v.K.RowSums() {
		v.shareRowSums()
		v.Barrier()
	}
	v.Line("")
	v.Repeat("i", s.ThreadM, func(i expr.Expr) {
		v.bindRowSums(i)
		v.Repeat("j", s.ThreadN, func(j expr.Expr) {
			col := v.Variable("uint", "col", expr.Plus(v.Col0, v.column(j)))
			v.Finish(expr.Plus(v.Row0, i), col, v.SumsAt(expr.Plus(expr.Times(i, s.ThreadN), j)))
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
		if b.Codebook == ir.Invalid {
			continue
		}
		typ, count := emit.Scalars[b.DType].Carrier, int(b.Elems)
		table := v.Share(typ, b.Base+"_table", count)
		v.SharedTables[i] = table.Text
		v.Line("")
		n := v.Loop("n", v.self, expr.Uint(count), v.S.Workgroup)
		v.Line("%s[%s] = %s[%s];", table, n, v.View(b, 1), n)
		v.Close()
	}
	v.Barrier()
}

// meet adds up the partial sums in shared memory and stores the results, one result per invocation.
func (v *matVec) meet(shared partials) {
	results, parts := v.partials()
	if !schedule.SumsRowsFirst(v.S) {
		v.shareRowSums()
	}
	v.Barrier()
	v.finishParts(parts, func(n int, part, id expr.Expr) expr.Expr {
		return shared.load(n, expr.Plus(expr.Times(part, results+1), id))
	})
}

// finishParts adds up the parts of every sum in shared memory and stores the results. read prints a part of result id
// of matmul n.
func (v *matVec) finishParts(parts int, read func(n int, part, id expr.Expr) expr.Expr) {
	s := v.S
	results := s.TileM * s.TileN
	v.Line("")
	id := v.EachResult(v.self, results)
	own := expr.Quotient(id, s.TileN, results)
	row := v.Named("row", expr.Plus(v.Row0, own))
	col := v.Variable("uint", "col", expr.Plus(v.Col0, expr.Remainder(id, s.TileN, results)))
	sums := make([]expr.Expr, len(v.Products))
	for n := range sums {
		sums[n] = v.Variable(v.Quads.Scalar, matmul.Numbered("sum", n, len(sums)), read(n, expr.Of("0u"), id))
	}
	v.addParts(parts, sums, func(n int, p expr.Expr) expr.Expr { return read(n, p, id) })
	if v.Row0.Is("0u") {
		own = row
	}
	v.OtherSum = func(n int, col expr.Expr) expr.Expr {
		id := v.Named("other_id", expr.Plus(expr.Times(own, s.TileN), expr.Binary("-", col, v.Col0)))
		sum := v.Variable(v.Quads.Scalar, matmul.Numbered("other_sum", n, len(sums)), read(n, expr.Of("0u"), id))
		v.addParts(parts, []expr.Expr{sum}, func(_ int, p expr.Expr) expr.Expr { return read(n, p, id) })
		return sum
	}
	v.bindRowSums(own)
	v.Finish(row, col, sums)
	v.Close()
}

// addParts adds the second and later parts to sums.
func (v *matVec) addParts(parts int, sums []expr.Expr, read func(n int, part expr.Expr) expr.Expr) {
	if parts < 2 {
		return
	}
	p := v.Loop("p", expr.Uint(1), expr.Uint(parts), 1)
	for n, sum := range sums {
		v.Update(sum, "+=", read(n, p))
	}
	v.Close()
}

// partials returns the number of results of a workgroup, and the number of parts of each sum.
func (v *matVec) partials() (results, parts int) {
	return v.S.TileM * v.S.TileN, v.S.LanesPerRow / max(v.S.Subgroup, 1)
}

// shareParts writes the sums of every part to shared memory. Rows of results have one extra element, so that parts use
// different banks.
func (v *matVec) shareParts(shared partials) {
	s := v.S
	results, _ := v.partials()
	v.Line("")
	part := expr.Quotient(v.part, max(s.Subgroup, 1), s.LanesPerRow)
	v.Repeat("i", s.ThreadM, func(i expr.Expr) {
		row := expr.Plus(expr.Times(part, results+1), expr.Times(i, s.TileN))
		if s.Subgroup > 0 {
			v.shareFolded(i, row, shared)
			return
		}
		v.Repeat("j", s.ThreadN, func(j expr.Expr) {
			for n, sum := range v.SumsAt(expr.Plus(expr.Times(i, s.ThreadN), j)) {
				v.Assign(shared.at(n, expr.Plus(row, v.column(j))), shared.word(sum))
			}
		})
	})
}

// shareFolded adds the sums of row i over a subgroup and writes them to shared memory. While there are several sums,
// each half of the invocations continues with half of the sums: eight sums take 9 exchanges instead of 40.
func (v *matVec) shareFolded(i, row expr.Expr, shared partials) {
	s := v.S
	lane := expr.Of("gl_SubgroupInvocationID")
	at := func(j expr.Expr) []expr.Expr { return v.SumsAt(expr.Plus(expr.Times(i, s.ThreadN), j)) }
	count, mask := s.ThreadN, s.Subgroup/2
	for ; count > 1 && count%2 == 0 && mask > 0; count, mask = count/2, mask/2 {
		v.halveSums(at, count/2, mask)
	}
	share := max(2*mask, 1) // neighbours with the same sums
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

// halveSums halves the number of sums per lane. Lanes with (lane & mask) == 0 keep the first half, and the others keep
// the second half. Each lane adds its partner's partial sums. The results are in the first half's variables.
func (v *matVec) halveSums(at func(j expr.Expr) []expr.Expr, half, mask int) {
	upper := v.Variable("bool", fmt.Sprintf("upper%d", mask),
		expr.Binary("!=", expr.Binary("&", expr.Of("gl_SubgroupInvocationID"), expr.Uint(mask)), expr.Of("0u")))
	v.Repeat("j", half, func(j expr.Expr) {
		low, high := at(j), at(expr.Plus(j, expr.Uint(half)))
		for n := range low {
			own, others := expr.Choose(upper, high[n], low[n]), expr.Choose(upper, low[n], high[n])
			v.Line("%s = (%s) + subgroupShuffleXor(%s, %du);", low[n], own, others, mask)
		}
	})
}
