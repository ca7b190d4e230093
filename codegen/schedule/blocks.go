package schedule

import (
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// blockHeuristics is what a class of devices does with one block format.
type blockHeuristics struct {
	layout kernel.Layout
	tiles  kernel.Layout // where only products of many rows read the blocks
	floats blockVecs     // by rows of floats
	bytes  blockVecs     // by rows of bytes; none says that those are no faster
	// resident and rounded are other ways for one row: of floats, and of floats that
	// may be rounded to bytes; none if their run is 0.
	resident []residentVec // of which the first that a product suits
	rounded  []residentVec // likewise
	// lookup is another for one row of bytes, lookupFloats for one of floats, and
	// lookupResident for that by many columns; none if their run is 0.
	lookup, lookupFloats, lookupResident lookupVec
	// bytesFrom is how many rows must be bytes to be faster.
	bytesFrom int64
}

// unmeasuredBlocks is what goes where no format was measured: blocks lie in planes,
// from where their parts are loaded by whole words (M-planes). Rows become bytes where
// subgroups and dot products of bytes can be relied on and blocks hold small integers,
// one row by the product itself.
func unmeasuredBlocks(caps device.Caps) map[ir.DType]blockHeuristics {
	all := map[ir.DType]blockHeuristics{}
	for _, t := range ir.BlockFormats() {
		all[t] = inPlanes()
		if _, table := LookupTableOf(t); !table && caps.Features.IntegerDotProduct && subgroupOf(caps) > 0 {
			all[t] = inPlanes().orBytes(manyRows(32)).rounding(residentVec{run: 32, columns: 4, occupancy: 512})
		}
	}
	return all
}

// blockVecs are ways to read blocks, or rows of other elements, by more and more
// rows.
type blockVecs []blockVec

// blockVec is how products of few rows read blocks.
type blockVec struct {
	rows       int  // for at most so many; 0 is for one row, and adapted to more
	depth      int  // for contractions no longer than this; 0 is any
	batched    bool // for products of a batch, such as those of experts, only
	run        int  // elements that an invocation takes at once
	lanes      int  // invocations per sum, at least
	apart      bool // lanes is a part of a subgroup, for contractions that have no more runs
	workgroup  int  // invocations of a workgroup, if more
	columns    int  // that share the reading of A
	ahead      int  // runs that are read before they are multiplied
	subnormals bool // quants become floats as subnormal halves
	tables     bool // codebooks are copied to shared memory
	staged     bool // rows pass through shared memory
	whole      bool // fewer rows are computed as if they were so many
}

// suits reports whether v is for contractions so long, and such batches.
func (v blockVec) suits(sh matShape) bool {
	return (v.depth == 0 || sh.K <= int64(v.depth)) && (sh.Batch > 1 || !v.batched)
}

// lanesOf is how many invocations share a sum of depth products, at least: as
// many as were measured, as long as there is something for each.
func (v blockVec) lanesOf(depth int64, subgroup int) int {
	if v.apart {
		return v.lanes
	}
	lanes := max(subgroup, 1)
	for lanes < v.lanes && int64(lanes*max(v.run, shortestRun)) < depth {
		lanes *= 2
	}
	return lanes
}

// blockVec returns how a product of few rows is to read the blocks of its B:
// what was measured for the format and so many rows, or else what goes for all.
func (h heuristics) blockVec(k *kernel.Kernel, b ir.DType, sh matShape) blockVec {
	measured := h.blocks[b].floats
	if readsBytes(k) {
		measured = h.blocks[b].bytes
	}
	v := blockVec{run: h.runOf(b), lanes: h.blockLanes, columns: h.blockColumns}
	for _, m := range measured {
		if !m.suits(sh) {
			continue
		}
		if v = m; int64(m.rows) >= sh.M {
			return v
		}
	}
	return v.adapted(sh.M)
}

// adapted is how more rows than were measured read blocks: an invocation keeps
// something of each.
func (v blockVec) adapted(rows int64) blockVec {
	if rows > 1 {
		v.columns = min(v.columns, 4)
	}
	for ; rows > 2 && v.run > 8; rows = (rows + 1) / 2 {
		v.run /= 2
	}
	v.staged = v.staged && rows == 1
	return v
}

// runOf is how many elements of a block an invocation takes at once where the
// format was not measured.
func (h heuristics) runOf(b ir.DType) int {
	f, ok := ir.BlockFormatOf(b)
	switch unit := b.BlockBytes() & -b.BlockBytes(); {
	case ok && f.Interleaved() && f.Stride >= kernel.RoundedGroup: // long runs, whose scales are unpacked once
		return h.blockRunK
	case min(unit, 4)*b.BlockElems() < 2*b.BlockBytes(): // less than two elements to an aligned load
		return h.blockRun / 2
	}
	return h.blockRun
}

// Layout returns how the blocks of a weight are to lie in the memory of a
// device. readers are all kernels that read it. Every kernel can read every
// layout, so the choice is for those that read all of it, the products; only
// custom kernels get blocks as they come.
func Layout(t ir.DType, readers []*kernel.Kernel, caps device.Caps) kernel.Layout {
	products, few := false, false
	for _, k := range readers {
		if k.Family == kernel.FamilyCustom {
			return kernel.LayoutBlocks
		}
		if k.Family == kernel.FamilyMatMul && blocksOf(k) == t {
			products, few = true, few || matShapeOf(k).M <= MaxMatVecRows
		}
	}
	b := heuristicsOf(caps).blocks[t]
	switch {
	case few:
		return b.layout
	case products:
		return b.tiles
	}
	return kernel.LayoutBlocks
}

// WantsBytes reports whether so many rows multiply so many columns of blocks
// faster as bytes than as floats, and not as floats that the product itself
// rounds to bytes.
func WantsBytes(t ir.DType, rows, columns ir.Dim, caps device.Caps) bool {
	tuned := heuristicsOf(caps)
	b := tuned.blocks[t]
	switch one := rows.Max() == 1; {
	case one && (len(b.rounded) > 0 || tuned.roundsBesideTables(b.lookup, columns.Max())):
		return false
	case one && b.lookup.run > 0:
		return caps.Features.IntegerDotProduct
	}
	most := int64(MaxMatVecRows)
	if unitsTakeBytes(t, caps) {
		most = maxSkinnyRows
	}
	return caps.Features.IntegerDotProduct && rows.Max() <= most && rows.Max() >= b.bytesFrom && b.bytes != nil
}
