package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// emitMatVec writes a product of few rows, where reading B once is all that
// matters: LanesPerRow invocations share the sums of ThreadN columns and all
// rows, each taking every LanesPerRow-th run of four along the contraction.
// Which invocations those are depends on B: where it lies along the
// contraction they are neighbours; where it lies along the columns,
// neighbours own neighbouring columns instead.
//
// The partial sums meet in a fixed order, so that results are the same from
// run to run: across a subgroup by shuffles, where the schedule relies on its
// size, then in shared memory.
//
// How B is read, where rows come from, and in which loop they meet is the schedule's:
// a [bReader], an [aSource], and stream or unrollColumns.
func (e *emitter) emitMatVec() {
	s := e.sched
	self := e.selfIndex()
	m := e.newMatMul()
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

// bReader is a way to read B and multiply it with rows.
type bReader interface {
	// prepare makes the text have what reading takes.
	prepare()
	// addRun adds the products of a run with all rows and columns.
	addRun(run place)
}

// columnReader is one that reads rows first, part by part of a run, and then column by
// column. So rows may stay in registers.
type columnReader interface {
	bReader
	parts() int
	activations(at place) activations
	// addColumn adds the products of a part with the bound column, the j-th.
	addColumn(at place, rows activations, j text)
}

// readers has one for every way of the schedule.
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
	along    bool         // B lies along the contraction
	lookup   *lookupTable // in shared memory, or nil
	paired   bool         // strips have a byte of either plane next to each other
	rowSums  []string     // by phase, in shared memory: by row, its parts
	firstCol text         // of the pass, where rows are resident
	held     heldBlocks   // what has been read of the blocks of the pass
}

// selfIndex numbers the invocations of a workgroup so that subgroups are runs.
func (e *emitter) selfIndex() text {
	if e.sched.Subgroup == 0 {
		return primary(e.variable("uint", "self", primary("gl_LocalInvocationIndex")))
	}
	e.need(NeedSubgroupBasic, NeedSubgroupShuffle)
	e.subgroupSize = e.sched.Subgroup
	return primary(
		e.variable("uint",
			"self", plus(times(primary("gl_SubgroupID"), e.sched.Subgroup), primary("gl_SubgroupInvocationID"))))
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

// column is column j of an invocation, counted from the workgroup's first.
// Where neighbours own neighbouring columns, an invocation's own are apart.
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

// bindColumn binds the column axis to column j of an invocation, or the last one.
func (v *matVec) bindColumn(j text) {
	v.bindAxis(v.col, primary(v.variable("uint", "col", v.clampTo(plus(v.col0, v.column(j)), v.col, v.s.TileN))))
}

// storeOwn stores the results where no invocations share a sum.
func (v *matVec) storeOwn() {
	s := v.s
	if v.k.RowSums() {
		v.shareRowSums()
		v.line("barrier();")
	}
	v.line("")
	v.repeat("i", s.ThreadM, func(i text) {
		v.bindRowSums(i)
		v.repeat("j", s.ThreadN, func(j text) {
			col := primary(v.variable("uint", "col", plus(v.col0, v.column(j))))
			v.finish(plus(v.row0, i), col, v.sumsAt(plus(times(i, s.ThreadN), j)))
		})
	})
}

// shareTables copies to shared memory what blocks are decoded by: codebooks, or the
// lookup tables.
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
		v.sharedTables[i] = table
		v.line("")
		n := v.loop("n", v.self, uintLit(count), v.s.Workgroup)
		v.line("%s[%s] = %s[%s];", table, n, v.view(b, 1), n)
		v.close()
	}
	v.line("barrier();")
}

// meet adds up the parts of every sum, which are in shared memory, and stores
// the results, an invocation each.
func (v *matVec) meet(shared partials) {
	results, parts := v.partials()
	if !schedule.SumsRowsFirst(v.s) {
		v.shareRowSums()
	}
	v.line("barrier();")
	v.finishParts(parts, func(n int, part, id text) text {
		return shared.load(n, plus(times(part, results+1), id))
	})
}

// finishParts adds up the parts of every sum in shared memory and stores the
// results; read prints part of result id of the n-th product.
func (v *matVec) finishParts(parts int, read func(n int, part, id text) text) {
	s := v.s
	results := s.TileM * s.TileN
	v.line("")
	id := v.eachResult(v.self, results)
	own := quotient(id, s.TileN, results)
	row := v.named("row", plus(v.row0, own))
	col := primary(v.variable("uint", "col", plus(v.col0, remainder(id, s.TileN, results))))
	sums := make([]text, len(v.products))
	for n := range sums {
		sums[n] = primary(v.variable(v.quads.scalar, numberedName("sum", n, len(sums)), read(n, primary("0u"), id)))
	}
	v.addParts(parts, sums, func(n int, p text) text { return read(n, p, id) })
	if v.row0.Is("0u") {
		own = row
	}
	v.otherSum = func(n int, col text) text {
		id := v.named("other_id", plus(times(own, s.TileN), binary("-", col, v.col0)))
		sum := primary(v.variable(v.quads.scalar, numberedName("other_sum", n, len(sums)), read(n, primary("0u"), id)))
		v.addParts(parts, []text{sum}, func(_ int, p text) text { return read(n, p, id) })
		return sum
	}
	v.bindRowSums(own)
	v.finish(row, col, sums)
	v.close()
}

// addParts adds to sums their parts from the second on.
func (v *matVec) addParts(parts int, sums []text, read func(n int, part text) text) {
	if parts < 2 {
		return
	}
	p := v.loop("p", uintLit(1), uintLit(parts), 1)
	for n, sum := range sums {
		v.line("%s += %s;", sum, read(n, p))
	}
	v.close()
}

// partials returns how many results a workgroup has, and in how many parts the
// sum of each is.
func (v *matVec) partials() (results, parts int) {
	return v.s.TileM * v.s.TileN, v.s.LanesPerRow / max(v.s.Subgroup, 1)
}

// shareParts leaves the sums of every part in shared memory: rows of results,
// one longer than they need be, so that parts hit different banks.
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
				v.line("%s", shared.store(n, plus(row, v.column(j)), sum))
			}
		})
	})
}

// shareFolded adds the sums of row i over a subgroup, and leaves them in shared
// memory. As long as there are several, each half of the invocations goes on
// with half of them: eight sums take 9 exchanges, not 40.
func (v *matVec) shareFolded(i, row text, shared partials) {
	s := v.s
	lane := primary("gl_SubgroupInvocationID")
	at := func(j text) []text { return v.sumsAt(plus(times(i, s.ThreadN), j)) }
	count, mask := s.ThreadN, s.Subgroup/2
	for ; count > 1 && count%2 == 0 && mask > 0; count, mask = count/2, mask/2 {
		v.halveSums(at, count/2, mask)
	}
	share := max(2*mask, 1) // neighbours that have the same sums
	v.repeat("j", count, func(j text) {
		for _, sum := range at(j) {
			for m := mask; m > 0; m /= 2 {
				v.line("%s += subgroupShuffleXor(%s, %du);", sum, sum, m)
			}
		}
	})
	cond := ""
	if share > 1 {
		cond = binary("==", remainder(lane, share, s.Subgroup), primary("0u")).String()
	}
	v.openIf(cond)
	first := times(quotient(lane, share, s.Subgroup), count)
	v.repeat("j", count, func(j text) {
		for n, sum := range at(j) {
			v.line("%s", shared.store(n, plus(row, v.column(plus(first, j))), sum))
		}
	})
	v.close()
}

// halveSums adds each of the first half sums, in the invocations without the bit
// of mask, and each of the second half, in those with it, to what the others
// have of it; all go on with the first half.
func (v *matVec) halveSums(at func(j text) []text, half, mask int) {
	upper := primary(v.variable("bool", fmt.Sprintf("upper%d", mask),
		binary("!=", binary("&", primary("gl_SubgroupInvocationID"), uintLit(mask)), primary("0u"))))
	v.repeat("j", half, func(j text) {
		low, high := at(j), at(plus(j, uintLit(half)))
		for n := range low {
			own, others := ternary(upper, high[n], low[n]), ternary(upper, low[n], high[n])
			v.line("%s = (%s) + subgroupShuffleXor(%s, %du);", low[n], own, others, mask)
		}
	})
}
