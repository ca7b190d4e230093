package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/blocks"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// This file issues the early loads of a [kernel.Prefetch]. A compiler drops a load without a use, and moves another
// load down to its use. So the multiplication depends on every early load, through a number that is 0 on every device.

// prefetchRuns writes two loops over an invocation's runs. add writes the code that adds the run with number step,
// which is less than steps. An iteration of the first loop takes several runs (Prefetch.Runs), so that their loads are
// in flight before the first of them is multiplied. The second loop takes the remaining runs one at a time.
func (v *matVec) prefetchRuns(steps expr.Expr, add func(step expr.Expr)) {
	runs, lanes := v.S.Prefetch.Runs(), v.S.LanesPerRow
	first := v.Variable("uint", "first", v.part)
	last := expr.Plus(first, expr.Uint((runs-1)*lanes))
	v.Open(&syntax.For{Cond: expr.Binary("<", last, steps),
		Post: &syntax.Assign{To: first, Op: "+=", Value: expr.Uint(runs * lanes)}})
	v.Repeat("n", runs, func(n expr.Expr) {
		add(v.Variable("uint", "step", expr.Plus(first, expr.Times(n, lanes))))
	})
	v.Close()
	v.Open(&syntax.For{Cond: expr.Binary("<", first, steps),
		Post: &syntax.Assign{To: first, Op: "+=", Value: expr.Uint(lanes)}})
	add(first)
	v.Close()
}

// preloaded has the blocks of a workgroup's first pass over columns, by the buffer of each B.
type preloaded map[*emit.Buffer]preloadedRuns

// preloadedRuns are the two register arrays of one B: the raw words of the quants, and the scales. An element of each
// belongs to one run of one column.
type preloadedRuns struct {
	words, scales expr.Array
}

// preloadSlot returns the index, in the arrays of preloadedRuns, of run i of column j.
func preloadSlot(rows residentRows, i int, j expr.Expr) expr.Expr {
	return expr.Flat(j, len(rows), expr.Uint(i))
}

// prefetchBlocks loads the blocks of the first columns, into registers or into the cache.
func (v *matVec) prefetchBlocks(rows residentRows) {
	load := v.loadToCache
	if v.S.Prefetch.Mode == kernel.PrefetchRegisters {
		load = v.loadToRegisters
		v.preload = preloaded{} // makes the first pass use the registers
		for _, o := range v.B {
			count := v.S.ThreadN * len(rows)
			v.preload[v.blockBuffer(o)] = preloadedRuns{v.Array("uvec4", o.Name+"_words", count),
				v.Array(blocks.ScaleType(v.run.Form), o.Name+"_scale", count)}
		}
	}
	asked := v.Variable("uint", "asked", expr.Of("0u"))
	v.Repeat("j", v.S.ThreadN, func(j expr.Expr) {
		v.bindColumn(j)
		for i, run := range rows {
			for _, s := range run.parts {
				s.slot = preloadSlot(rows, i, j)
				for _, o := range v.B {
					load(asked, v.blockBuffer(o), v.Variable("uint", "at", v.blockOf(o, s.block)), s.position)
				}
			}
		}
	})
	// This adds 0, but the compiler does not know that. It would remove loads without a use.
	v.Update(expr.Of("ones"), "+=", expr.Format("int(gl_NumWorkGroups.x >> 31 & %s)", asked))
	v.Note("+ 0")
}

// loadToRegisters loads the words and the scale of a run of a block into the registers of the run's slot. It XORs all
// of them into the variable asked, so that the compiler issues the loads here.
func (v *matVec) loadToRegisters(asked expr.Expr, b *emit.Buffer, block expr.Expr, s position) {
	words, scale := v.preload[b].words.At(s.slot), v.preload[b].scales.At(s.slot)
	v.Assign(words, expr.Call(blocks.FieldWords(v.Emitter, b), block, s.e))
	v.Assign(scale, expr.Call("scale_"+b.Base, block, plusOffset(s.e, s.at)))
	all := expr.Member(words, "x")
	for _, component := range []string{"y", "z", "w"} {
		all = expr.Binary("^", all, expr.Member(words, component))
	}
	v.Update(asked, "^=", expr.Binary("^", all, v.scaleBits(scale)))
}

// loadToCache loads a word of every 16 bytes of a part of a run, and its scale. It keeps only the XOR of all words.
func (v *matVec) loadToCache(asked expr.Expr, b *emit.Buffer, block expr.Expr, s position) {
	for t := 0; t < v.run.Quads; t += 4 {
		v.Update(asked, "^=", expr.Call("quants_"+b.Base, v.quadArgs(block, s, expr.Uint(t))...))
	}
	if b.DType.BlockElems() <= kernel.RoundedGroup { // the scales of larger blocks take longer than the wait
		v.Update(asked, "^=", v.scaleBits(expr.Call("scale_"+b.Base, block, plusOffset(s.e, s.at))))
	}
}

// scaleBits returns the bits of a scale, without the offset of an affine format.
func (v *matVec) scaleBits(scale expr.Expr) expr.Expr {
	if v.run.Form.Affine {
		scale = expr.Member(scale, "x")
	}
	return expr.Call("floatBitsToUint", scale)
}

// prefetchSectors loads a word of each sector of the first columns' blocks, so that the sectors are in the cache when
// the kernel decodes them. It returns the array of words, for zeroFrom, or an empty array if the schedule prefetches no
// sectors.
func (v *matVec) prefetchSectors() expr.Array {
	if v.S.Prefetch.Mode != kernel.PrefetchSectors {
		return expr.Array{}
	}
	count := v.S.Prefetch.Depth // sectors per invocation
	o := v.B[0]
	b := v.blockBuffer(o)
	plane := schedule.LargestPlane(b.DType)
	blocks := int(v.K.Fold.Add) / b.DType.BlockElems()
	bytes := kernel.PlanesOf(b.DType)[plane].Bytes
	perColumn := blocks * bytes / schedule.SectorBytes // sectors of a column
	wanted := schedule.PrefetchSectors(v.K, v.S)
	b.Prefetched = true
	planeStart := kernel.PlaneBase(b.DType, plane, b.Elems/int64(b.DType.BlockElems())) // in bytes
	early := v.Array("uint", "early", count)
	v.Note("blocks, asked for while the row is made ready")
	v.Repeat("n", count, func(n expr.Expr) {
		sector := expr.Plus(v.self, expr.Times(n, v.S.Workgroup))
		if count*v.S.Workgroup > wanted { // the last invocations load the last sector again
			sector = expr.Call("min", sector, expr.Uint(wanted-1))
		}
		sector = v.Variable("uint", "sector", sector)
		col := v.Variable("uint", "col", v.ClampTo(expr.Plus(v.Col0, expr.Binary("/", sector, expr.Uint(perColumn))),
			v.Col, v.S.TileN)) // the last columns of a tile may not exist
		v.BindAxis(v.Col, col)
		// Positions are in words of 4 bytes.
		column := expr.Times(v.blockOf(o, expr.Of("0u")), bytes/4)
		inColumn := expr.Times(expr.Binary("%", sector, expr.Uint(perColumn)), schedule.SectorBytes/4)
		word := expr.Plus(expr.Uint(planeStart/4), column, inColumn)
		v.Assign(early.At(n), expr.At(expr.Of(b.Name+"_early"), word))
	})
	return early
}

// zeroFrom declares a variable of value 0. The variable depends on all words of prefetchSectors, so the compiler must
// keep their loads.
func (v *matVec) zeroFrom(early expr.Array) expr.Expr {
	all := v.Variable("uint", "all", expr.Of("0u"))
	v.Repeat("n", early.Len, func(n expr.Expr) { v.Update(all, "|=", early.At(n)) })
	return v.Variable("float", "nothing", expr.Of("float("+all.Text+" & gl_NumWorkGroups.x >> 31)"))
}
