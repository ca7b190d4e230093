package schedule

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// nvidiaBlocks describes how kernels of few rows read each block format. Measurement M-block-ways in docs/measurements
// has the times of each entry, and M-matvec-blocks, M-codebooks and M-skinny list slower alternatives. Entries for int8
// rows that were not measured are copies of the entries of q4_0, q8_0 and q4_K.
var nvidiaBlocks = map[ir.DType]blockHeuristics{
	ir.Q4_0: inPlanes(
		blockVec{rows: 1, depth: 4096, run: 16, lanes: 128, workgroup: 256, columns: 8, subnormals: true},
		blockVec{rows: 1, run: 16, lanes: 256, workgroup: 256, columns: 8, subnormals: true},
		blockVec{rows: 2, run: 32, lanes: 32, columns: 8, subnormals: true, staged: true},
		blockVec{rows: 3, run: 16, lanes: 128, columns: 8, subnormals: true},
		blockVec{rows: 7, run: 8, lanes: 256, columns: 4, subnormals: true},
		blockVec{rows: 8, run: 8, lanes: 64, columns: 4, subnormals: true},
	).orBytes(
		blockVec{rows: 1, depth: 4096, run: 32, lanes: 128, columns: 4},
		blockVec{rows: 2, run: 32, lanes: 128, columns: 1},
		blockVec{rows: 3, run: 32, lanes: 64, columns: 4},
		blockVec{rows: 5, run: 32, lanes: 64, columns: 2},
		blockVec{rows: 8, run: 32, lanes: 64, columns: 4},
	).withResident(
		inDigits(residentVec{run: 32, columns: 4, occupancy: 768, groups: 2, prefetch: toRegisters, lengthBelow: 8192}),
		residentVec{run: 32, columns: 8, occupancy: 896, subnormals: true, minLength: longRow},
	).rounding(
		residentVec{products: 2, run: 32, columns: 4, occupancy: 768, groups: 2, prefetch: toRegisters,
			lengthBelow: 8192},
		residentVec{run: 32, columns: 4, occupancy: 896, groups: 4, prefetch: toRegisters, lengthBelow: 8192},
		residentVec{run: 32, columns: 4, occupancy: 896, groups: 4, prefetch: toCache},
	),
	ir.Q4_1: inPlanes(
		prefetching(2, subnormal(16, 256, 4)),
	).orBytes(
		blockVec{rows: 1, run: 32, lanes: 64, columns: 2},
		blockVec{rows: 4, run: 32, lanes: 64, columns: 2},
		manyRows(32),
	).withResident(
		residentVec{run: 32, columns: 8, occupancy: 896, subnormals: true, minLength: longRow},
	).rounding(
		residentVec{run: 32, columns: 4, occupancy: 896, prefetch: toCache, minLength: longRow},
		residentVec{run: 32, columns: 4, occupancy: 896},
	),
	ir.Q5_0: inPlanes(
		subnormal(16, 128, 4),
	).orBytes(
		blockVec{rows: 1, run: 16, lanes: 256, columns: 4},
		manyRows(32),
	).withResident(
		residentVec{run: 32, columns: 8, occupancy: 896, subnormals: true, minLength: longRow},
	).rounding(
		residentVec{run: 32, columns: 4, occupancy: 896, prefetch: sectors(1)},
	),
	ir.Q5_1: inPlanes(
		subnormal(16, 256, 4),
	).orBytes(
		blockVec{rows: 1, run: 32, lanes: 256, columns: 4},
		manyRows(32),
	).withResident(
		residentVec{run: 32, columns: 8, occupancy: 896, subnormals: true, minLength: longRow},
	).rounding(
		residentVec{run: 32, columns: 4, occupancy: 896, prefetch: sectors(1)},
	),
	ir.Q8_0: inPlanes(
		blockVec{rows: 1, run: 8, lanes: 256, columns: 2, prefetch: runs(2)},
		blockVec{rows: 2, run: 16, lanes: 32, columns: 4, subnormals: true},
		blockVec{rows: 4, run: 8, lanes: 64, columns: 4, subnormals: true},
		blockVec{rows: 6, run: 8, lanes: 32, columns: 4, subnormals: true},
		// From measurement M-batch.
		blockVec{rows: 8, depth: 256, run: 16, lanes: 16, partSubgroup: true, columns: 4, subnormals: true,
			staged: true},
		blockVec{rows: 8, run: 16, lanes: 32, workgroup: 256, columns: 4, subnormals: true, staged: true},
	).orBytesFrom(2, // one row is as fast in floats, and then needs no kernel that quantizes it
		blockVec{rows: 2, run: 32, lanes: 64, columns: 4},
		blockVec{rows: 4, run: 16, lanes: 32, columns: 4},
		blockVec{rows: 8, run: 16, lanes: 64, columns: 4},
	),

	ir.Q2_K: inPlanes(
		subnormal(64, 64, 4),
	).orBytes(
		blockVec{rows: 1, run: 64, lanes: 64, columns: 4},
		blockVec{rows: 8, run: 64, lanes: 32, columns: 4},
	).rounding(
		twoBitPacked(4, 2).upTo(64),
		twoBitPacked(7, 2),
	),
	ir.Q3_K: inPlanes(
		subnormal(64, 64, 4),
	).orBytes(
		blockVec{rows: 1, run: 64, lanes: 64, columns: 2},
		blockVec{rows: 8, run: 64, lanes: 32, columns: 4},
	).rounding(
		twoBitPacked(4, 2).upTo(64),
		twoBitPacked(2, 0),
	),
	ir.Q4_K: inPlanes(
		blockVec{rows: 1, depth: 2048, run: 32, lanes: 64, columns: 8, subnormals: true},
		blockVec{rows: 1, run: 32, lanes: 128, workgroup: 256, columns: 8, subnormals: true},
		blockVec{rows: 2, run: 32, lanes: 64, columns: 8, subnormals: true},
		blockVec{rows: 3, run: 32, lanes: 32, columns: 4, subnormals: true, staged: true},
		blockVec{rows: 4, run: 32, lanes: 64, columns: 4, subnormals: true},
		blockVec{rows: 7, run: 8, lanes: 128, columns: 4, subnormals: true},
		blockVec{rows: 8, run: 16, lanes: 64, columns: 4, subnormals: true},
	).orBytes(
		blockVec{rows: 1, run: 64, lanes: 128, columns: 4},
		blockVec{rows: 7, run: 64, lanes: 64, columns: 4},
		blockVec{rows: 8, run: 32, lanes: 64, columns: 8},
	).withResident(
		residentVec{run: 64, columns: 8, occupancy: 448, subnormals: true, minLength: longRow},
	).rounding(
		residentVec{run: 64, columns: 4, occupancy: 896, groups: 2, prefetch: sectors(2), minLength: longRow},
		residentVec{run: 64, columns: 4, occupancy: 512},
	),
	ir.Q5_K: inPlanes(
		subnormal(32, 64, 4),
	).orBytes(
		blockVec{rows: 1, run: 64, lanes: 64, columns: 2},
		blockVec{rows: 4, run: 64, lanes: 64, columns: 4},
		manyRows(32),
	).withResident(
		residentVec{run: 64, columns: 8, occupancy: 448, subnormals: true, minLength: longRow, maxColumns: 62},
	).rounding(
		residentVec{run: 64, columns: 4, occupancy: 512},
	),
	ir.Q6_K: inPlanes(
		subnormal(32, 256, 4),
	).orBytes(
		blockVec{rows: 8, run: 64, lanes: 64, columns: 4},
	).rounding(
		residentVec{run: 64, columns: 4, occupancy: 896, groups: 2, prefetch: sectors(2), minLength: longRow},
		residentVec{run: 64, columns: 4, occupancy: 512},
	),
	ir.TQ1_0: inPlanes(
		subnormal(32, 64, 4),
	).fileLayoutForTiles().orBytes(
		blockVec{rows: 1, run: 256, lanes: 64, columns: 4},
		manyRows(32),
	),
	ir.TQ2_0: inPlanes(
		subnormal(64, 64, 4),
	).orBytes(
		blockVec{rows: 1, run: 64, lanes: 32, columns: 3},
		blockVec{rows: 4, run: 64, lanes: 64, columns: 8},
		blockVec{rows: 8, run: 64, lanes: 32, columns: 4},
	).rounding(twoBitPacked(4, 2)),

	// Codebooks are looked up in shared memory. For float rows, invocations read quads, and larger workgroups copy the
	// codebook less often. A single int8 row is read by lookup, with many copies of the table. For tiles, blocks are
	// not stored in planes if whole blocks are as fast (M-block-ways).
	ir.IQ1_S: inPlanes(
		byCodebook(16, 128, 512, 4),
	).orBytes(
		blockVec{rows: 1, run: 32, lanes: 64, workgroup: 512, columns: 8, tables: true},
		blockVec{rows: 8, run: 32, lanes: 64, workgroup: 256, columns: 8, tables: true},
	).orLookup(4).orRounded(4, 256, 2),
	ir.IQ1_M: inPlanes(
		byCodebook(16, 64, 512, 8),
	).fileLayoutForTiles().orBytes(
		blockVec{rows: 1, run: 16, lanes: 64, workgroup: 512, columns: 8, tables: true},
		blockVec{rows: 8, run: 16, lanes: 64, workgroup: 512, columns: 4, tables: true},
	).orLookup(4).orRounded(4, 256, 2),
	ir.IQ2_XXS: inPlanes(
		staged(byCodebook(32, 64, 256, 4)),
	).orBytes(
		blockVec{rows: 4, run: 32, lanes: 64, workgroup: 256, columns: 4, tables: true},
		blockVec{rows: 8, run: 16, lanes: 64, workgroup: 256, columns: 4, tables: true},
	).orLookup(16).orRounded(8, 64, 4).orLookupFloats(16, 4),
	ir.IQ2_XS: inPlanes(
		byCodebook(16, 64, 256, 4),
	).fileLayoutForTiles().orBytes(
		blockVec{rows: 8, run: 16, lanes: 64, workgroup: 256, columns: 4, tables: true},
	).orLookup(8).orRounded(4, 64, 4).orLookupFloats(8, 2),
	ir.IQ2_S: inPlanes(
		byCodebook(16, 64, 256, 4),
	).orBytes(
		blockVec{rows: 8, run: 16, lanes: 64, workgroup: 256, columns: 4, tables: true},
	).orLookup(4).orRounded(2, 256, 4).orLookupFloats(4, 2),
	ir.IQ3_XXS: inPlanes(
		byCodebook(16, 64, 256, 4),
	).fileLayoutForTiles().orBytes(
		blockVec{rows: 4, run: 32, lanes: 64, workgroup: 256, columns: 4, tables: true},
		blockVec{rows: 8, run: 16, lanes: 64, workgroup: 256, columns: 4, tables: true},
	).orLookup(32).orRounded(16, 256, 2).orLookupFloats(32, 8),
	ir.IQ3_S: inPlanes(
		staged(byCodebook(32, 64, 256, 4)),
	).orBytes(
		blockVec{rows: 1, run: 32, lanes: 64, columns: 8, tables: true},
		blockVec{rows: 8, run: 32, lanes: 64, columns: 4, tables: true},
	).orLookup(16).orRounded(8, 256, 4).orLookupFloats(16, 8),
	ir.IQ4_NL: inPlanes(
		staged(byCodebook(16, 128, 256, 4)),
	).orLookup(32).orRounded(32, 256, 2),
	ir.IQ4_XS: inPlanes(
		byCodebook(16, 128, 256, 8),
	).fileLayoutForTiles().orLookup(32).orRounded(32, 256, 2),
	ir.MXFP4: inPlanes(
		staged(byCodebook(16, 128, 256, 8)),
	).orLookup(32).orRounded(32, 256, 2),
}

// nvidiaRows describes how kernels of few rows read f16 weights (M-block-ways). The fastest parameters follow no rule:
// for example, 64 sums per invocation are faster than 32.
var nvidiaRows = blockVecs{
	{rows: 1, depth: 2048, batched: true, lanes: 32, columns: 1},
	{rows: 1, depth: 2048, lanes: 64, columns: 2},
	{rows: 1, depth: 8192, lanes: 256, columns: 2},
	{rows: 1, lanes: 256, columns: 1},
	{rows: 3, lanes: 64, columns: 2},
	{rows: 4, lanes: 32, columns: 1},
	{rows: 5, lanes: 64, columns: 4},
	{rows: 8, lanes: 32, columns: 8, unchanged: true},
}

// longRow is the minimum length of a float row that is worth keeping in registers (M-block-ways).
const longRow = 12 << 10

// twoBitPacked keeps one row resident, for formats with four 2-bit quants in each byte. columns is the number
// of columns of a pass. depth is the number of sectors of blocks that each invocation prefetches before the row is
// quantized.
func twoBitPacked(columns, depth int) residentVec {
	v := residentVec{run: 64, columns: columns, occupancy: 896, groups: 2, subnormals: true}
	if depth > 0 {
		v.prefetch = sectors(depth)
	}
	return v
}

// inDigits returns v for rows with three base-256 digits per element. Its minimum row length is 4096, because shorter
// rows were not measured in a model.
func inDigits(v residentVec) residentVec {
	v.digits, v.minLength = 3, 4096
	return v
}

// upTo restricts v to matmuls with at most the given number of columns per core.
func (v residentVec) upTo(columns int64) residentVec {
	v.maxColumns = columns
	return v
}

// inPlanes describes a format with blocks in planes, and how float rows are multiplied by them.
func inPlanes(floats ...blockVec) blockHeuristics {
	return blockHeuristics{layout: kernel.LayoutPlanes, tiles: kernel.LayoutPlanes, floats: floats}
}

// fileLayoutForTiles keeps the layout of the file for weights that only matmuls of many rows, in tiles, read.
func (h blockHeuristics) fileLayoutForTiles() blockHeuristics {
	h.tiles = kernel.LayoutBlocks
	return h
}

// orBytes adds parameters for int8 rows.
func (h blockHeuristics) orBytes(bytes ...blockVec) blockHeuristics {
	h.bytes = bytes
	return h
}

// orLookup adds parameters for one int8 row by lookup, with the given number of copies of the codebook.
func (h blockHeuristics) orLookup(copies int) blockHeuristics {
	h.lookup = lookupVec{run: 32, lanes: 64, columns: 8, copies: copies}
	return h
}

// orRounded lets matvecs by lookup quantize the row themselves; see lookupRounding.
func (h blockHeuristics) orRounded(copies, most, fewest int) blockHeuristics {
	h.lookup.rounds = lookupRounding{copies, most, fewest}
	return h
}

// orLookupFloats adds parameters for one float row by lookup, with the given number of copies of the codebook. With a
// resident row, which also needs shared memory, there are resident copies.
func (h blockHeuristics) orLookupFloats(copies, resident int) blockHeuristics {
	h.lookupFloats = lookupVec{run: 16, lanes: 128, columns: 4, copies: copies}
	h.lookupResident = lookupVec{run: 32, columns: 7, copies: resident}
	return h
}

// withResident adds parameters for one float row that stays in registers over several passes over columns.
func (h blockHeuristics) withResident(ways ...residentVec) blockHeuristics {
	h.resident = ways
	return h
}

// rounding is like withResident, for a row that the kernel quantizes to int8.
func (h blockHeuristics) rounding(ways ...residentVec) blockHeuristics {
	h.rounded = ways
	return h
}

// orBytesFrom is like orBytes, for formats that are faster with int8 only from the given number of rows on.
func (h blockHeuristics) orBytesFrom(rows int64, bytes ...blockVec) blockHeuristics {
	h.bytes, h.bytesFrom = bytes, rows
	return h
}

// manyRows describes how up to eight int8 rows read blocks, in runs of the given length.
func manyRows(run int) blockVec {
	return blockVec{rows: MaxMatVecRows, run: run, lanes: 64, columns: 4}
}

// byCodebook describes how float rows read blocks with a codebook in shared memory.
func byCodebook(run, lanes, workgroup, columns int) blockVec {
	return blockVec{run: run, lanes: lanes, workgroup: workgroup, columns: columns, subnormals: true, tables: true}
}

// staged lets rows pass through shared memory.
func staged(v blockVec) blockVec {
	v.staged = true
	return v
}

// subnormal describes how float rows read blocks if quants are converted to float as subnormal halves.
func subnormal(run, lanes, columns int) blockVec {
	return blockVec{run: run, lanes: lanes, columns: columns, subnormals: true}
}

// prefetching loads n runs before the first of them is multiplied.
func prefetching(n int, v blockVec) blockVec {
	v.prefetch = runs(n)
	return v
}
