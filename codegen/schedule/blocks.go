package schedule

import (
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// blockHeuristics are the parameters of a class of devices for one block format.
type blockHeuristics struct {
	layout kernel.Layout
	tiles  kernel.Layout // layout for blocks that only matmuls of many rows read
	floats blockVecs     // for rows of floats
	bytes  blockVecs     // for int8 rows; empty if those are no faster
	// resident and rounded are alternatives for one row: of floats, and of floats that may be quantized to int8. They
	// are unused if their run is 0.
	resident []residentVec // the first one that suits the matmul is used
	rounded  []residentVec // likewise
	// lookup is an alternative for one int8 row, lookupFloats for one float row, and lookupResident for one float row
	// by many columns. They are unused if their run is 0.
	lookup, lookupFloats, lookupResident lookupVec
	// bytesFrom is how many rows must be bytes to be faster.
	bytesFrom int64
}

// unmeasuredBlocks are the parameters for classes without measurements. Blocks are in planes, so that parts can be
// loaded in whole words (M-planes). Rows are quantized to int8 if the device has subgroups and integer dot products and
// the blocks hold small integers. A single row is quantized by the matvec itself.
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

// blockVecs are ways to read blocks, or rows of other elements, ordered by number of rows.
type blockVecs []blockVec

// blockVec describes how matmuls of few rows read blocks.
type blockVec struct {
	rows       int  // maximum number of rows; 0 is for one row, and adapted to more
	depth      int  // maximum contraction length; 0 is any
	batched    bool // only for batched matmuls, such as experts
	run        int  // elements that an invocation reads at once
	lanes      int  // minimum number of invocations per sum
	apart      bool // lanes may be part of a subgroup, for contractions with few runs
	workgroup  int  // minimum workgroup size
	columns    int  // columns that share the loads of A
	ahead      int  // runs that are loaded before they are multiplied
	subnormals bool // quants are converted to float as subnormal halves
	tables     bool // codebooks are copied to shared memory
	staged     bool // rows pass through shared memory
	whole      bool // fewer rows are computed as if there were this many
}

// suits reports whether v applies to the contraction length and batch.
func (v blockVec) suits(sh matShape) bool {
	return (v.depth == 0 || sh.K <= int64(v.depth)) && (sh.Batch > 1 || !v.batched)
}

// lanesOf is the number of invocations that share a sum of depth products: the measured number, but at most one per
// run.
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

// blockVec returns how a matmul of few rows should read the blocks of B: the measured parameters for the format and
// number of rows, or else the general ones.
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

// adapted adapts v to more rows than were measured, since an invocation keeps state for each row.
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

// runOf is the number of elements of a block that an invocation reads at once, for formats without measurements.
func (h heuristics) runOf(b ir.DType) int {
	f, ok := ir.BlockFormatOf(b)
	switch unit := b.BlockBytes() & -b.BlockBytes(); {
	case ok && f.Interleaved() && f.Stride >= kernel.RoundedGroup: // long runs, so that scales are unpacked once
		return h.blockRunK
	case min(unit, 4)*b.BlockElems() < 2*b.BlockBytes(): // less than two elements to an aligned load
		return h.blockRun / 2
	}
	return h.blockRun
}

// Layout returns the layout of a weight's blocks in device memory, given all kernels that read it. Every generated
// kernel can read every layout, so matmuls, which read all of the weight, decide. Custom kernels always get the file's
// layout.
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

// WantsBytes reports whether the given numbers of rows and columns of blocks are multiplied fastest with a separate
// kernel that quantizes the rows to int8, rather than as floats or with quantization inside the matmul.
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
