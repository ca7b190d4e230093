package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// place is the position of a part of a run: the block of the column, the first element e in plane 0, the part p of the
// run and its offset at from e, and the position k along the contraction axis.
type place struct {
	block, e, p, at, k text
	slot               text // its number among the preloaded blocks
}

// stream steps through the contraction axis, run by run. An invocation takes every LanesPerRow-th run. It takes them
// one after another, several at once, or with rows in shared memory.
func (v *matVec) stream() {
	v.reader.prepare()
	v.line("")
	if v.s.TileK == 0 {
		v.reader.addRun(place{k: v.loop("k", times(v.part, v.run.Elems), v.dim(v.k.Fold), v.run.Elems*v.s.LanesPerRow)})
		v.close()
		return
	}
	steps, _ := v.k.Fold.Quo(int64(v.run.Elems))
	add := func(step text) { v.reader.addRun(v.placeOf(step, int(steps.Max())+1)) }
	switch {
	case v.s.StageRows:
		v.throughTiles(v.rows.(*stagedRows), steps.Max(), add)
	case v.s.Ahead > 1:
		v.prefetching(v.dim(steps), add)
	default:
		add(v.loop("step", v.part, v.dim(steps), v.s.LanesPerRow))
		v.close()
	}
	v.liftSums()
}

// prefetching writes add for Ahead steps at once while there are that many. So all their loads are in flight before the
// first step is multiplied.
func (v *matVec) prefetching(steps text, add func(step text)) {
	ahead, lanes := v.s.Ahead, v.s.LanesPerRow
	first := v.variable("uint", "first", v.part)
	last := plus(first, uintLit((ahead-1)*lanes))
	v.open("for (; %s; %s += %du)", binary("<", last, steps), first, ahead*lanes)
	v.repeat("n", ahead, func(n text) {
		add(v.variable("uint", "step", plus(first, times(n, lanes))))
	})
	v.close()
	v.open("for (; %s; %s += %du)", binary("<", first, steps), first, lanes)
	add(first)
	v.close()
}

// addColumns multiplies a run part by part. The reader reads the rows of a part once, and then every column.
func (v *matVec) addColumns(r columnReader, run place) {
	v.repeat("p", r.parts(), func(p text) {
		at := v.partOf(run, p)
		rows := r.activations(at)
		v.repeat("j", v.s.ThreadN, func(j text) {
			v.bindColumn(j)
			r.addColumn(at, rows, j)
		})
	})
}

// partOf is part p of a run.
func (v *matVec) partOf(run place, p text) place {
	run.p, run.at = p, times(p, v.run.StripStride())
	run.k = plus(run.k, run.at)
	return run
}

// placeOf declares the position of a step. There are fewer than limit steps.
func (v *matVec) placeOf(step text, limit int) place {
	elems := v.run.DType.BlockElems()
	block := v.named("block", quotient(step, elems/v.run.Elems, limit))
	e := v.firstElement(remainder(step, elems/v.run.Elems, limit))
	return place{block: block, e: e, k: v.named("k", plus(times(block, elems), e))}
}

// firstElement prints the first element, in plane 0, of step part of a block.
func (v *matVec) firstElement(part text) text {
	f := v.run.Form
	if !f.Interleaved() {
		return v.named("e", times(part, v.run.Elems))
	}
	e := times(part, v.run.Elems/f.Planes) // if there were only plane 0
	if f.Superblock() == v.run.DType.BlockElems() {
		return v.named("e", e)
	}
	e = v.named("place", e)
	return v.named("e", plus(times(binary("/", e, uintLit(f.Stride)), f.Superblock()),
		binary("%", e, uintLit(f.Stride))))
}

// within adds an offset to e. The offset is smaller than the power of two that divides e, so an or does it: compilers
// simplify divisions and remainders of an or.
func within(e, offset text) text {
	switch {
	case e.Is("0u"):
		return offset
	case offset.Is("0u"):
		return e
	}
	return binary("|", e, offset)
}

// blockOf prints the number of a block of a B, given its number in the row.
func (v *matVec) blockOf(o *matOperand, block text) text {
	x := kernel.Widened(o.value).Index
	n := v.blockBuffer(o).DType.BlockElems()
	rest, _ := x.DropAxis(v.fold).DivMod(ir.D(n))
	v.plan(nil, []kernel.Index{rest})
	return plus(v.coordinate(rest), block)
}

func (v *matVec) blockBuffer(o *matOperand) *buffer { return v.buffers[kernel.Widened(o.value).Bind] }
