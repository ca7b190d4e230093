package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// emitMatVec writes a matmul of few rows. Its time is the time to read B once. LanesPerRow invocations share the sums
// of ThreadN columns and all rows. Each of them takes every LanesPerRow-th quad along the contraction axis. If B is
// contiguous along the contraction axis, these invocations are neighbours. If B is contiguous along the columns,
// neighbours own neighbouring columns instead.
//
// The partial sums are added in a fixed order, so that results are the same in every run. If the schedule relies on the
// subgroup size, they are added across a subgroup by shuffles first, and then in shared memory.
//
// The schedule chooses a [bReader] to read B, an [aSource] for the rows, and stream or unrollColumns for the loop.
func emitMatVec(e *emitter) {
	s := e.sched
	self := e.selfIndex()
	m := newMatMul(e)
	if e.err != nil {
		return
	}
	v := &matVec{matMul: m, self: self, groups: s.TileN / s.ThreadN / max(s.Coarsen, 1)}
	if s.Coarsen == 0 {
		m.declareSums(s.ThreadM * s.ThreadN)
	}
	v.placeInvocation()
	if s.TileK > 0 {
		v.run = v.k.BlockRun(s)
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
	addColumn(at place, rows activations, j text)
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
	*matMul
	reader   bReader
	rows     aSource
	run      kernel.BlockRun // how the reader walks over B
	self     text            // number of the invocation in its workgroup
	part     text            // of the contraction: 0 … LanesPerRow-1
	group    text            // of columns
	groups   int
	along    bool         // B is contiguous along the contraction axis
	lookup   *lookupTable // in shared memory, or nil
	paired   bool         // strips interleave the int8 elements of both planes
	rowSums  []text       // by phase, in shared memory: the parts of each row's sum
	firstCol text         // the pass's first column, if rows are resident
	held     heldBlocks   // the preloaded blocks of the pass
}

func (v *matVec) placeInvocation() {
	s := v.s
	v.along = v.b[0].along || s.Subgroup > 0
	part, group := remainder(v.self, s.LanesPerRow, s.Workgroup), quotient(v.self, s.LanesPerRow, s.Workgroup)
	if !v.along {
		part, group = quotient(v.self, v.groups, s.Workgroup), remainder(v.self, v.groups, s.Workgroup)
	}
	v.part, v.group = v.named("part", part), v.named("group", group)
}

// column is column j of an invocation, counted from the workgroup's first column. If neighbours own neighbouring
// columns, an invocation's own columns are apart.
func (v *matVec) column(j text) text {
	at := plus(v.group, times(j, v.groups))
	if v.along {
		at = plus(times(v.group, v.s.ThreadN), j)
	}
	if v.firstCol != nil {
		at = plus(v.firstCol, at)
	}
	return at
}

// bindColumn binds the column axis to column j of an invocation, or to the last column.
func (v *matVec) bindColumn(j text) {
	v.bindAxis(v.col, v.variable("uint", "col", v.clampTo(plus(v.col0, v.column(j)), v.col, v.s.TileN)))
}

// storeOwn stores the results if no invocations share a sum.
func (v *matVec) storeOwn() {
	s := v.s
	if v.k.RowSums() {
		v.shareRowSums()
		v.barrier()
	}
	v.line("")
	v.repeat("i", s.ThreadM, func(i text) {
		v.bindRowSums(i)
		v.repeat("j", s.ThreadN, func(j text) {
			col := v.variable("uint", "col", plus(v.col0, v.column(j)))
			v.finish(plus(v.row0, i), col, v.sumsAt(plus(times(i, s.ThreadN), j)))
		})
	})
}

// shareTables copies the tables that decode blocks to shared memory: codebooks or lookup tables.
func (v *matVec) shareTables() {
	if v.s.Copies > 0 {
		v.shareLookup()
		return
	}
	if !v.s.Tables {
		return
	}
	v.sharedTables = map[int]string{}
	for i, b := range v.buffers {
		if b.Codebook == ir.Invalid {
			continue
		}
		typ, count := scalars[b.DType].carrier, int(b.Elems)
		table := v.share(typ, b.base+"_table", count)
		v.sharedTables[i] = table.Text
		v.line("")
		n := v.loop("n", v.self, uintLit(count), v.s.Workgroup)
		v.line("%s[%s] = %s[%s];", table, n, v.view(b, 1), n)
		v.close()
	}
	v.barrier()
}

// meet adds up the partial sums in shared memory and stores the results, one result per invocation.
func (v *matVec) meet(shared partials) {
	results, parts := v.partials()
	if !schedule.SumsRowsFirst(v.s) {
		v.shareRowSums()
	}
	v.barrier()
	v.finishParts(parts, func(n int, part, id text) text {
		return shared.load(n, plus(times(part, results+1), id))
	})
}

// finishParts adds up the parts of every sum in shared memory and stores the results. read prints a part of result id
// of matmul n.
func (v *matVec) finishParts(parts int, read func(n int, part, id text) text) {
	s := v.s
	results := s.TileM * s.TileN
	v.line("")
	id := v.eachResult(v.self, results)
	own := quotient(id, s.TileN, results)
	row := v.named("row", plus(v.row0, own))
	col := v.variable("uint", "col", plus(v.col0, remainder(id, s.TileN, results)))
	sums := make([]text, len(v.products))
	for n := range sums {
		sums[n] = v.variable(v.quads.scalar, numberedName("sum", n, len(sums)), read(n, primary("0u"), id))
	}
	v.addParts(parts, sums, func(n int, p text) text { return read(n, p, id) })
	if v.row0.Is("0u") {
		own = row
	}
	v.otherSum = func(n int, col text) text {
		id := v.named("other_id", plus(times(own, s.TileN), binary("-", col, v.col0)))
		sum := v.variable(v.quads.scalar, numberedName("other_sum", n, len(sums)), read(n, primary("0u"), id))
		v.addParts(parts, []text{sum}, func(_ int, p text) text { return read(n, p, id) })
		return sum
	}
	v.bindRowSums(own)
	v.finish(row, col, sums)
	v.close()
}

// addParts adds the second and later parts to sums.
func (v *matVec) addParts(parts int, sums []text, read func(n int, part text) text) {
	if parts < 2 {
		return
	}
	p := v.loop("p", uintLit(1), uintLit(parts), 1)
	for n, sum := range sums {
		v.update(sum, "+=", read(n, p))
	}
	v.close()
}

// partials returns the number of results of a workgroup, and the number of parts of each sum.
func (v *matVec) partials() (results, parts int) {
	return v.s.TileM * v.s.TileN, v.s.LanesPerRow / max(v.s.Subgroup, 1)
}

// shareParts writes the sums of every part to shared memory. Rows of results have one extra element, so that parts use
// different banks.
func (v *matVec) shareParts(shared partials) {
	s := v.s
	results, _ := v.partials()
	v.line("")
	part := quotient(v.part, max(s.Subgroup, 1), s.LanesPerRow)
	v.repeat("i", s.ThreadM, func(i text) {
		row := plus(times(part, results+1), times(i, s.TileN))
		if s.Subgroup > 0 {
			v.shareFolded(i, row, shared)
			return
		}
		v.repeat("j", s.ThreadN, func(j text) {
			for n, sum := range v.sumsAt(plus(times(i, s.ThreadN), j)) {
				v.assign(shared.at(n, plus(row, v.column(j))), shared.word(sum))
			}
		})
	})
}

// shareFolded adds the sums of row i over a subgroup and writes them to shared memory. While there are several sums,
// each half of the invocations continues with half of the sums: eight sums take 9 exchanges instead of 40.
func (v *matVec) shareFolded(i, row text, shared partials) {
	s := v.s
	lane := primary("gl_SubgroupInvocationID")
	at := func(j text) []text { return v.sumsAt(plus(times(i, s.ThreadN), j)) }
	count, mask := s.ThreadN, s.Subgroup/2
	for ; count > 1 && count%2 == 0 && mask > 0; count, mask = count/2, mask/2 {
		v.halveSums(at, count/2, mask)
	}
	share := max(2*mask, 1) // neighbours with the same sums
	v.repeat("j", count, func(j text) {
		for _, sum := range at(j) {
			for m := mask; m > 0; m /= 2 {
				v.line("%s += subgroupShuffleXor(%s, %du);", sum, sum, m)
			}
		}
	})
	var cond text
	if share > 1 {
		cond = binary("==", remainder(lane, share, s.Subgroup), primary("0u"))
	}
	v.openIf(cond)
	first := times(quotient(lane, share, s.Subgroup), count)
	v.repeat("j", count, func(j text) {
		for n, sum := range at(j) {
			v.assign(shared.at(n, plus(row, v.column(plus(first, j)))), shared.word(sum))
		}
	})
	v.close()
}

// halveSums halves the number of sums per lane. Lanes with (lane & mask) == 0 keep the first half, and the others keep
// the second half. Each lane adds its partner's partial sums. The results are in the first half's variables.
func (v *matVec) halveSums(at func(j text) []text, half, mask int) {
	upper := v.variable("bool", fmt.Sprintf("upper%d", mask),
		binary("!=", binary("&", primary("gl_SubgroupInvocationID"), uintLit(mask)), primary("0u")))
	v.repeat("j", half, func(j text) {
		low, high := at(j), at(plus(j, uintLit(half)))
		for n := range low {
			own, others := ternary(upper, high[n], low[n]), ternary(upper, low[n], high[n])
			v.line("%s = (%s) + subgroupShuffleXor(%s, %du);", low[n], own, others, mask)
		}
	})
}
