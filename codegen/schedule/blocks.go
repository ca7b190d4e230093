package schedule

import (
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// blockHeuristics are the measured parameters of a class of devices for reading one block format. Matmuls read blocks
// in planes, so that the parts of blocks can be loaded as whole words (M-planes).
type blockHeuristics struct {
	fileTiles bool      // whether weights that only matmuls of many rows read keep the layout of the file
	floats    blockVecs // for rows of floats
	bytes     blockVecs // for int8 rows; empty if int8 rows are not faster
	// resident and rounded are alternatives for a single row. resident is for rows of floats, rounded for rows of
	// floats that may be quantized to int8. The first entry that suits the matmul is used; none if the list is empty.
	resident []residentVec
	rounded  []residentVec
	// The lookup variants decode octets by tables in shared memory. lookup is an alternative for one int8 row,
	// lookupFloats for one float row, and lookupResident for one float row by many columns. They are unused if their
	// run is 0.
	lookup, lookupFloats, lookupResident lookupVec
	// bytesFrom is the number of rows from which int8 rows are faster.
	bytesFrom int64
}

// unmeasuredBlocks returns the parameters for classes of devices without measurements. Rows are quantized to int8 if
// the device has subgroups and integer dot products and the blocks hold small integers. The matvec itself quantizes a
// single row.
func unmeasuredBlocks(caps device.Caps) map[ir.DType]blockHeuristics {
	all := map[ir.DType]blockHeuristics{}
	for _, t := range ir.BlockFormats() {
		// The numbers are guesses from measured devices.
		if _, table := LookupTableOf(t); !table && caps.Features.IntegerDotProduct && subgroupOf(caps) > 0 {
			all[t] = blockHeuristics{
				bytes:   blockVecs{{rows: MaxMatVecRows, run: 32, lanes: 64, columns: 4}},
				rounded: []residentVec{{run: 32, columns: 4, occupancy: 512}},
			}
		}
	}
	return all
}

// blockVecs lists ways to read blocks, or elements of other dtypes, by increasing number of rows.
type blockVecs []blockVec

// blockVec describes how a matmul of few rows reads blocks. A run is the elements of a block that an invocation reads
// at once; see kernel.BlockRun.
type blockVec struct {
	rows         int  // maximum number of rows; 0 is for one row, and adapted derives the parameters for more
	depth        int  // maximum contraction length; 0 is any
	batched      bool // only for batched matmuls, such as experts
	run          int  // elements of a run
	lanes        int  // minimum number of invocations per sum
	partSubgroup bool // lanes may be a part of a subgroup, if the contraction axis has few runs
	workgroup    int  // minimum workgroup size
	columns      int  // columns per invocation, which share the loads of A
	prefetch     kernel.Prefetch
	subnormals   bool // quants are converted to float as subnormal halves
	tables       bool // codebooks are copied to shared memory
	staged       bool // rows pass through shared memory
	unchanged    bool // these parameters are also used unchanged for fewer rows
}

// suits reports whether v applies to a matmul's contraction length and batch.
func (v blockVec) suits(sh matShape) bool {
	return (v.depth == 0 || sh.K <= int64(v.depth)) && (sh.Batch > 1 || !v.batched)
}

// blockVecFor returns how a matmul of few rows should read the blocks of B, of dtype b. It returns the parameters that
// were measured for the format and the number of rows, or otherwise general ones.
func (h heuristics) blockVecFor(k *kernel.Kernel, b ir.DType, sh matShape) blockVec {
	measured := h.blocks[b].floats
	if readsBytes(k) {
		measured = h.blocks[b].bytes
	}
	v := blockVec{run: h.unmeasuredRun(b), lanes: h.blockLanes, columns: h.blockColumns}
	for _, m := range measured {
		if !m.suits(sh) {
			continue
		}
		// The entries are sorted by rows: this is the first one for at least as many rows as the matmul has.
		v = m
		if int64(m.rows) >= sh.M {
			return v
		}
	}
	return v.adapted(sh.M) // of the last entry, or of the general parameters
}

// adapted returns v for more rows than were measured. An invocation keeps state for each row, so v then has fewer
// columns and shorter runs.
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

// unmeasuredRun returns the number of elements of a run for formats without measurements.
func (h heuristics) unmeasuredRun(b ir.DType) int {
	if f, ok := ir.BlockFormatOf(b); ok && f.FieldsApart() && f.Stride >= kernel.RoundedGroup {
		return h.blockRunK // longer, because unpacking a scale is expensive
	}
	// A load takes at most 4 bytes, and an aligned one at most the largest power of two that divides the block's size.
	load := min(b.BlockBytes()&-b.BlockBytes(), 4)
	if elems := load * b.BlockElems() / b.BlockBytes(); elems < 2 {
		return h.blockRun / 2
	}
	return h.blockRun
}

// Layout returns the layout of a weight in block format t in device memory, given all kernels that read it. Every
// generated kernel can read both layouts, but custom kernels need the layout of the file. The matmuls decide, because
// they read all of the weight: a matmul of few rows gets planes. If only matmuls of many rows read the weight, they get
// planes too, unless blockHeuristics.fileTiles is set.
func Layout(t ir.DType, readers []*kernel.Kernel, caps device.Caps) kernel.Layout {
	matmuls, fewRows := false, false
	for _, k := range readers {
		if k.Family == kernel.FamilyCustom {
			return kernel.LayoutBlocks
		}
		if k.Family == kernel.FamilyMatMul && blocksOf(k) == t {
			matmuls, fewRows = true, fewRows || matShapeOf(k).M <= MaxMatVecRows
		}
	}
	if fewRows || matmuls && !heuristicsOf(caps).blocks[t].fileTiles {
		return kernel.LayoutPlanes
	}
	return kernel.LayoutBlocks
}

// WantsBytes reports whether a matmul with the given numbers of rows and columns, and a weight in block format t, is
// fastest if a separate kernel first quantizes the rows to int8. The alternatives are float rows, and quantization
// inside the matmul.
func WantsBytes(t ir.DType, rows, columns ir.Dim, caps device.Caps) bool {
	tuned := heuristicsOf(caps)
	b := tuned.blocks[t]
	switch oneRow := rows.Max() == 1; {
	// The matvec itself rounds the row.
	case oneRow && (len(b.rounded) > 0 || b.lookup.roundsRow(tuned.perCore(matShape{Batch: 1, N: columns.Max()}))):
		return false
	case oneRow && b.lookup.run > 0: // the matvec decodes by lookup
		return caps.Features.IntegerDotProduct
	}
	most := int64(MaxMatVecRows)
	if skinnyTakesMoreRows(t, caps) {
		most = maxSkinnyRows
	}
	return caps.Features.IntegerDotProduct && rows.Max() <= most && rows.Max() >= b.bytesFrom && b.bytes != nil
}
