package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// position is the position of a run (the elements of one block that an invocation reads at once) or of a part of it.
type position struct {
	block expr.Expr // the block's number in its column
	e     expr.Expr // the run's first element in the block, in bit field 0
	p, at expr.Expr // the number of the part, and its offset from e
	k     expr.Expr // the coordinate of the run or part along the contraction axis
	slot  expr.Expr // the run's index in the arrays of preloadedRuns (see preloadSlot)
}

// stream steps through the contraction axis, run by run. Of n = LanesPerRow invocations, invocation i takes runs i,
// i+n, i+2n, ... Depending on the schedule, it takes one run at a time, prefetches several, or reads the rows from
// shared memory.
func (v *matVec) stream() {
	v.reader.prepare()
	v.Blank()
	if v.S.TileK == 0 { // B has no blocks
		v.addRun(position{k: v.OpenLoop("k", expr.Times(v.part, v.run.Elems), v.Dim(v.K.Fold),
			v.run.Elems*v.S.LanesPerRow)})
		v.Close()
		return
	}
	steps, _ := v.K.Fold.Quo(int64(v.run.Elems))
	add := func(step expr.Expr) { v.addRun(v.placeOf(step, int(steps.Max())+1)) }
	switch {
	case v.S.StageRows:
		v.throughTiles(v.rows.(*stagedRows), steps.Max(), add)
	case v.S.Prefetch.Mode == kernel.PrefetchRuns:
		v.prefetchRuns(v.Dim(steps), add)
	default:
		add(v.OpenLoop("step", v.part, v.Dim(steps), v.S.LanesPerRow))
		v.Close()
	}
	v.scaleUpSums()
}

// addRun multiplies one run of B by all rows and columns, and adds the products to the sums. It does so part by part,
// unless the reader has an order of its own. The reader reads the rows of a part once, and then every column.
func (v *matVec) addRun(run position) {
	r := v.reader
	if own, ok := r.(runReader); ok {
		own.addRun(run)
		return
	}
	v.Repeat("p", r.parts(), func(p expr.Expr) {
		at := v.partOf(run, p)
		rows := r.activations(at)
		v.Repeat("j", v.S.ThreadN, func(j expr.Expr) {
			v.bindColumn(j)
			r.addColumn(at, rows, j)
		})
	})
}

// partOf returns the position of part p of a run.
func (v *matVec) partOf(run position, p expr.Expr) position {
	run.p, run.at = p, expr.Times(p, v.run.StripStride())
	run.k = expr.Plus(run.k, run.at)
	return run
}

// placeOf declares the position of the run with number step along the contraction axis. step is less than limit.
func (v *matVec) placeOf(step expr.Expr, limit int) position {
	elems := v.run.DType.BlockElems()
	block := v.Named("block", expr.Quotient(step, elems/v.run.Elems, limit))
	e := v.firstElement(expr.Remainder(step, elems/v.run.Elems, limit))
	return position{block: block, e: e, k: v.Named("k", expr.Flat(block, elems, e))}
}

// firstElement returns the first element, in bit field 0, of run number part of a block.
func (v *matVec) firstElement(part expr.Expr) expr.Expr {
	f := v.run.Form
	if !f.FieldsApart() {
		return v.Named("e", expr.Times(part, v.run.Elems))
	}
	e := expr.Times(part, v.run.Elems/f.Fields) // if there were only field 0
	if f.Superblock() == v.run.DType.BlockElems() {
		return v.Named("e", e)
	}
	e = v.Named("place", e)
	return v.Named("e", expr.Flat(expr.Binary("/", e, expr.Uint(f.Stride)), f.Superblock(),
		expr.Binary("%", e, expr.Uint(f.Stride))))
}

// plusOffset returns e + offset as e | offset: offset is less than the power of two that divides e. Compilers simplify
// divisions and remainders of an or.
func plusOffset(e, offset expr.Expr) expr.Expr {
	switch {
	case e.Is("0u"):
		return offset
	case offset.Is("0u"):
		return e
	}
	return expr.Binary("|", e, offset)
}

// blockOf returns the index in its buffer of a block of the bound column of a B. block is its number in the column.
func (v *matVec) blockOf(o *matmul.Operand, block expr.Expr) expr.Expr {
	x := kernel.Widened(o.Value).Index
	n := v.blockBuffer(o).DType.BlockElems()
	rest, _ := x.DropAxis(v.Fold).DivMod(ir.D(n))
	return expr.Plus(v.EvalCoordinate(rest), block)
}

// blockBuffer returns the buffer that holds an operand's blocks.
func (v *matVec) blockBuffer(o *matmul.Operand) *emit.Buffer {
	return v.Buffers[kernel.Widened(o.Value).Bind]
}

// partials is the shared memory for the partial sums of a matvec: either one array per matmul, or the memory of the
// lookup table, after its last read. The lookup table may fill all shared memory, so the two cannot be separate.
type partials struct {
	arrays []expr.Expr
	table  *lookupTable
	each   int // number of partial sums of a matmul, if they are in the table
}

// newPartials declares the shared memory for partial sums. A matvec with a lookup table reuses the memory of the table
// instead, after a barrier. It cannot if its workgroup goes on to further columns (Coarsen), because it then reads the
// table again.
func (v *matVec) newPartials() partials {
	size := v.partsPerResult() * v.partPitch()
	if v.lookup != nil && v.S.Coarsen == 0 {
		v.Barrier()
		return partials{table: v.lookup, each: size}
	}
	var p partials
	for n := range v.MatMuls {
		p.arrays = append(p.arrays, v.Share(v.Quads.Scalar, matmul.Numbered("partial", n, len(v.MatMuls)), size))
	}
	return p
}

// load returns partial sum number place of matmul n as a float.
func (p partials) load(n int, place expr.Expr) expr.Expr {
	if p.table == nil {
		return p.at(n, place)
	}
	return expr.Call("uintBitsToFloat", p.at(n, place))
}

// at returns the shared-memory word of partial sum number place of matmul n.
func (p partials) at(n int, place expr.Expr) expr.Expr {
	if p.table == nil {
		return expr.At(p.arrays[n], place)
	}
	return p.table.word(expr.Plus(place, expr.Uint(n*p.each)))
}

// word converts a float to the element type of the shared array: the words of the lookup table are of type uint.
func (p partials) word(sum expr.Expr) expr.Expr {
	if p.table == nil {
		return sum
	}
	return expr.Call("floatBitsToUint", sum)
}

// shareRowSums computes the sums over rows that a matvec also needs, such as for a normalization. All invocations of a
// workgroup share each row, and leave partial sums in shared memory, which may be read after the next barrier.
func (v *matVec) shareRowSums() {
	s := v.S
	for _, p := range v.K.Phases {
		array := v.Share("float", p.Name+"_parts", s.ThreadM*v.rowParts())
		v.rowSums = append(v.rowSums, array)
		v.Blank()
		v.Scope.Write(&syntax.Comment{Text: "// " + p.Name + ": sum over the row."})
		v.Repeat("i", s.ThreadM, func(i expr.Expr) { v.shareRowSum(p, array, i) })
	}
}

// shareRowSum computes the partial sums of phase p for row i and writes them to array.
func (v *matVec) shareRowSum(p kernel.Phase, array, i expr.Expr) {
	s := v.S
	v.BindRow(i)
	sum := v.Variable("float", p.Name, expr.Of("0.0"))
	v.eachQuad(int(v.K.Fold.Add)/4, func(_, n expr.Expr) {
		v.RunLanes(emit.Run{Axis: v.Fold, Width: 4, Base: expr.Times(n, 4)}, []*kernel.Expr{p.Value}, nil, func() {
			v.Update(sum, "+=", v.AsFloat(p.Value))
		})
	})
	v.SumLanes(sum, s.Subgroup/2)
	if s.Subgroup == 0 { // each invocation has a partial sum
		v.Assign(expr.At(array, expr.Flat(i, v.rowParts(), expr.Of("gl_LocalInvocationID.x"))), sum)
		return
	}
	v.OpenIf(expr.Of("gl_SubgroupInvocationID == 0u"))
	v.Assign(expr.At(array, expr.Flat(i, v.rowParts(), expr.Of("gl_SubgroupID"))), sum)
	v.Close()
}

// rowParts is the number of partial sums of a row: one per subgroup, or one per invocation if the schedule relies on no
// subgroup size.
func (v *matVec) rowParts() int { return v.S.Workgroup / max(v.S.Subgroup, 1) }

// bindRowSums adds up the partial sums of a row and binds the totals, so that stores can read them. It needs a barrier
// after shareRowSums.
func (v *matVec) bindRowSums(row expr.Expr) {
	parts := v.rowParts()
	for i, p := range v.K.Phases {
		first := expr.Times(row, parts)
		at := func(n expr.Expr) expr.Expr { return expr.At(v.rowSums[i], expr.Plus(first, n)) }
		sum := v.Variable("float", p.Name, at(expr.Of("0u")))
		if parts > 1 {
			n := v.OpenLoop("p", expr.Uint(1), expr.Uint(parts), 1)
			v.Update(sum, "+=", at(n))
			v.Close()
		}
		v.BindAcc(v.K.PhaseAcc(i), sum)
	}
}
