package schedule

import "github.com/vkc-go/vkc/ir"

// nvidiaBlocks describes how kernels of few rows read each block format. Measurement M-block-ways in docs/measurements
// has the times of each entry, and M-matvec-blocks, M-codebooks and M-skinny list slower alternatives. Entries for int8
// rows that were not measured are copies of the entries of q4_0, q8_0 and q4_K.
var nvidiaBlocks = map[ir.DType]blockHeuristics{
	ir.Q4_0: {
		floats: blockVecs{
			{rows: 1, depth: 4096, run: 16, lanes: 128, workgroup: 256, columns: 8, subnormals: true},
			{rows: 1, run: 16, lanes: 256, workgroup: 256, columns: 8, subnormals: true},
			{rows: 2, run: 32, lanes: 32, columns: 8, subnormals: true, staged: true},
			{rows: 3, run: 16, lanes: 128, columns: 8, subnormals: true},
			{rows: 7, run: 8, lanes: 256, columns: 4, subnormals: true},
			{rows: 8, run: 8, lanes: 64, columns: 4, subnormals: true},
		},
		bytes: blockVecs{
			{rows: 1, depth: 4096, run: 32, lanes: 128, columns: 4},
			{rows: 2, run: 32, lanes: 128, columns: 1},
			{rows: 3, run: 32, lanes: 64, columns: 4},
			{rows: 5, run: 32, lanes: 64, columns: 2},
			{rows: 8, run: 32, lanes: 64, columns: 4},
		},
		resident: []residentVec{
			// Three base-256 digits per element. Shorter rows were not measured in a model.
			{digits: maxDigits, minLength: 4096, lengthBelow: 8192, run: 32, columns: 4, occupancy: 768, groups: 2,
				prefetch: toRegisters},
			{run: 32, columns: 8, occupancy: 896, subnormals: true, minLength: longRow},
		},
		rounded: []residentVec{
			{matmuls: 2, run: 32, columns: 4, occupancy: 768, groups: 2, prefetch: toRegisters, lengthBelow: 8192},
			{run: 32, columns: 4, occupancy: 896, groups: 4, prefetch: toRegisters, lengthBelow: 8192},
			{run: 32, columns: 4, occupancy: 896, groups: 4, prefetch: toCache},
		},
	},
	ir.Q4_1: {
		floats: blockVecs{{run: 16, lanes: 256, columns: 4, subnormals: true, prefetch: runs(2)}},
		bytes: blockVecs{
			{rows: 1, run: 32, lanes: 64, columns: 2},
			{rows: 4, run: 32, lanes: 64, columns: 2},
			{rows: 8, run: 32, lanes: 64, columns: 4},
		},
		resident: []residentVec{{run: 32, columns: 8, occupancy: 896, subnormals: true, minLength: longRow}},
		rounded: []residentVec{
			{run: 32, columns: 4, occupancy: 896, prefetch: toCache, minLength: longRow},
			{run: 32, columns: 4, occupancy: 896},
		},
	},
	ir.Q5_0: {
		floats: blockVecs{{run: 16, lanes: 128, columns: 4, subnormals: true}},
		bytes: blockVecs{
			{rows: 1, run: 16, lanes: 256, columns: 4},
			{rows: 8, run: 32, lanes: 64, columns: 4},
		},
		resident: []residentVec{{run: 32, columns: 8, occupancy: 896, subnormals: true, minLength: longRow}},
		rounded:  []residentVec{{run: 32, columns: 4, occupancy: 896, prefetch: sectors(1)}},
	},
	ir.Q5_1: {
		floats: blockVecs{{run: 16, lanes: 256, columns: 4, subnormals: true}},
		bytes: blockVecs{
			{rows: 1, run: 32, lanes: 256, columns: 4},
			{rows: 8, run: 32, lanes: 64, columns: 4},
		},
		resident: []residentVec{{run: 32, columns: 8, occupancy: 896, subnormals: true, minLength: longRow}},
		rounded:  []residentVec{{run: 32, columns: 4, occupancy: 896, prefetch: sectors(1)}},
	},
	ir.Q8_0: {
		floats: blockVecs{
			{rows: 1, run: 8, lanes: 256, columns: 2, prefetch: runs(2)},
			{rows: 2, run: 16, lanes: 32, columns: 4, subnormals: true},
			{rows: 4, run: 8, lanes: 64, columns: 4, subnormals: true},
			{rows: 6, run: 8, lanes: 32, columns: 4, subnormals: true},
			// From measurement M-batch.
			{rows: 8, depth: 256, run: 16, lanes: 16, partSubgroup: true, columns: 4, subnormals: true, staged: true},
			{rows: 8, run: 16, lanes: 32, workgroup: 256, columns: 4, subnormals: true, staged: true},
		},
		bytesFrom: 2, // one row is as fast in floats, and then needs no kernel that quantizes it
		bytes: blockVecs{
			{rows: 2, run: 32, lanes: 64, columns: 4},
			{rows: 4, run: 16, lanes: 32, columns: 4},
			{rows: 8, run: 16, lanes: 64, columns: 4},
		},
	},

	ir.Q2_K: {
		floats: blockVecs{{run: 64, lanes: 64, columns: 4, subnormals: true}},
		bytes: blockVecs{
			{rows: 1, run: 64, lanes: 64, columns: 4},
			{rows: 8, run: 64, lanes: 32, columns: 4},
		},
		rounded: []residentVec{
			{run: 64, columns: 4, occupancy: 896, groups: 2, subnormals: true, prefetch: sectors(2), maxColumns: 64},
			{run: 64, columns: 7, occupancy: 896, groups: 2, subnormals: true, prefetch: sectors(2)},
		},
	},
	ir.Q3_K: {
		floats: blockVecs{{run: 64, lanes: 64, columns: 4, subnormals: true}},
		bytes: blockVecs{
			{rows: 1, run: 64, lanes: 64, columns: 2},
			{rows: 8, run: 64, lanes: 32, columns: 4},
		},
		rounded: []residentVec{
			{run: 64, columns: 4, occupancy: 896, groups: 2, subnormals: true, prefetch: sectors(2), maxColumns: 64},
			{run: 64, columns: 2, occupancy: 896, groups: 2, subnormals: true},
		},
	},
	ir.Q4_K: {
		floats: blockVecs{
			{rows: 1, depth: 2048, run: 32, lanes: 64, columns: 8, subnormals: true},
			{rows: 1, run: 32, lanes: 128, workgroup: 256, columns: 8, subnormals: true},
			{rows: 2, run: 32, lanes: 64, columns: 8, subnormals: true},
			{rows: 3, run: 32, lanes: 32, columns: 4, subnormals: true, staged: true},
			{rows: 4, run: 32, lanes: 64, columns: 4, subnormals: true},
			{rows: 7, run: 8, lanes: 128, columns: 4, subnormals: true},
			{rows: 8, run: 16, lanes: 64, columns: 4, subnormals: true},
		},
		bytes: blockVecs{
			{rows: 1, run: 64, lanes: 128, columns: 4},
			{rows: 7, run: 64, lanes: 64, columns: 4},
			{rows: 8, run: 32, lanes: 64, columns: 8},
		},
		resident: []residentVec{{run: 64, columns: 8, occupancy: 448, subnormals: true, minLength: longRow}},
		rounded: []residentVec{
			{run: 64, columns: 4, occupancy: 896, groups: 2, prefetch: sectors(2), minLength: longRow},
			{run: 64, columns: 4, occupancy: 512},
		},
	},
	ir.Q5_K: {
		floats: blockVecs{{run: 32, lanes: 64, columns: 4, subnormals: true}},
		bytes: blockVecs{
			{rows: 1, run: 64, lanes: 64, columns: 2},
			{rows: 4, run: 64, lanes: 64, columns: 4},
			{rows: 8, run: 32, lanes: 64, columns: 4},
		},
		resident: []residentVec{
			{run: 64, columns: 8, occupancy: 448, subnormals: true, minLength: longRow, maxColumns: 62},
		},
		rounded: []residentVec{{run: 64, columns: 4, occupancy: 512}},
	},
	ir.Q6_K: {
		floats: blockVecs{{run: 32, lanes: 256, columns: 4, subnormals: true}},
		bytes:  blockVecs{{rows: 8, run: 64, lanes: 64, columns: 4}},
		rounded: []residentVec{
			{run: 64, columns: 4, occupancy: 896, groups: 2, prefetch: sectors(2), minLength: longRow},
			{run: 64, columns: 4, occupancy: 512},
		},
	},
	ir.TQ1_0: {
		floats:    blockVecs{{run: 32, lanes: 64, columns: 4, subnormals: true}},
		fileTiles: true,
		bytes: blockVecs{
			{rows: 1, run: 256, lanes: 64, columns: 4},
			{rows: 8, run: 32, lanes: 64, columns: 4},
		},
	},
	ir.TQ2_0: {
		floats: blockVecs{{run: 64, lanes: 64, columns: 4, subnormals: true}},
		bytes: blockVecs{
			{rows: 1, run: 64, lanes: 32, columns: 3},
			{rows: 4, run: 64, lanes: 64, columns: 8},
			{rows: 8, run: 64, lanes: 32, columns: 4},
		},
		rounded: []residentVec{
			{run: 64, columns: 4, occupancy: 896, groups: 2, subnormals: true, prefetch: sectors(2)},
		},
	},

	// Codebooks are looked up in shared memory. For float rows, invocations read quads, and larger workgroups copy the
	// codebook less often. A single int8 row is read by lookup, with many copies of the table. For tiles, blocks are
	// not stored in planes if whole blocks are as fast (M-block-ways).
	ir.IQ1_S: {
		floats: blockVecs{{run: 16, lanes: 128, workgroup: 512, columns: 4, subnormals: true, tables: true}},
		bytes: blockVecs{
			{rows: 1, run: 32, lanes: 64, workgroup: 512, columns: 8, tables: true},
			{rows: 8, run: 32, lanes: 64, workgroup: 256, columns: 8, tables: true},
		},
		lookup: byteLookup(4, lookupRounding{copies: 4, most: 256, fewest: 2}),
	},
	ir.IQ1_M: {
		floats:    blockVecs{{run: 16, lanes: 64, workgroup: 512, columns: 8, subnormals: true, tables: true}},
		fileTiles: true,
		bytes: blockVecs{
			{rows: 1, run: 16, lanes: 64, workgroup: 512, columns: 8, tables: true},
			{rows: 8, run: 16, lanes: 64, workgroup: 512, columns: 4, tables: true},
		},
		lookup: byteLookup(4, lookupRounding{copies: 4, most: 256, fewest: 2}),
	},
	ir.IQ2_XXS: {
		floats: blockVecs{
			{run: 32, lanes: 64, workgroup: 256, columns: 4, subnormals: true, tables: true, staged: true},
		},
		bytes: blockVecs{
			{rows: 4, run: 32, lanes: 64, workgroup: 256, columns: 4, tables: true},
			{rows: 8, run: 16, lanes: 64, workgroup: 256, columns: 4, tables: true},
		},
		lookup:         byteLookup(16, lookupRounding{copies: 8, most: 64, fewest: 4}),
		lookupFloats:   lookupVec{run: 16, lanes: 128, columns: 4, copies: 16},
		lookupResident: lookupVec{run: 32, columns: 7, copies: 4},
	},
	ir.IQ2_XS: {
		floats:         blockVecs{{run: 16, lanes: 64, workgroup: 256, columns: 4, subnormals: true, tables: true}},
		fileTiles:      true,
		bytes:          blockVecs{{rows: 8, run: 16, lanes: 64, workgroup: 256, columns: 4, tables: true}},
		lookup:         byteLookup(8, lookupRounding{copies: 4, most: 64, fewest: 4}),
		lookupFloats:   lookupVec{run: 16, lanes: 128, columns: 4, copies: 8},
		lookupResident: lookupVec{run: 32, columns: 7, copies: 2},
	},
	ir.IQ2_S: {
		floats:         blockVecs{{run: 16, lanes: 64, workgroup: 256, columns: 4, subnormals: true, tables: true}},
		bytes:          blockVecs{{rows: 8, run: 16, lanes: 64, workgroup: 256, columns: 4, tables: true}},
		lookup:         byteLookup(4, lookupRounding{copies: 2, most: 256, fewest: 4}),
		lookupFloats:   lookupVec{run: 16, lanes: 128, columns: 4, copies: 4},
		lookupResident: lookupVec{run: 32, columns: 7, copies: 2},
	},
	ir.IQ3_XXS: {
		floats:    blockVecs{{run: 16, lanes: 64, workgroup: 256, columns: 4, subnormals: true, tables: true}},
		fileTiles: true,
		bytes: blockVecs{
			{rows: 4, run: 32, lanes: 64, workgroup: 256, columns: 4, tables: true},
			{rows: 8, run: 16, lanes: 64, workgroup: 256, columns: 4, tables: true},
		},
		lookup:         byteLookup(32, lookupRounding{copies: 16, most: 256, fewest: 2}),
		lookupFloats:   lookupVec{run: 16, lanes: 128, columns: 4, copies: 32},
		lookupResident: lookupVec{run: 32, columns: 7, copies: 8},
	},
	ir.IQ3_S: {
		floats: blockVecs{
			{run: 32, lanes: 64, workgroup: 256, columns: 4, subnormals: true, tables: true, staged: true},
		},
		bytes: blockVecs{
			{rows: 1, run: 32, lanes: 64, columns: 8, tables: true},
			{rows: 8, run: 32, lanes: 64, columns: 4, tables: true},
		},
		lookup:         byteLookup(16, lookupRounding{copies: 8, most: 256, fewest: 4}),
		lookupFloats:   lookupVec{run: 16, lanes: 128, columns: 4, copies: 16},
		lookupResident: lookupVec{run: 32, columns: 7, copies: 8},
	},
	ir.IQ4_NL: {
		floats: blockVecs{
			{run: 16, lanes: 128, workgroup: 256, columns: 4, subnormals: true, tables: true, staged: true},
		},
		lookup: byteLookup(32, lookupRounding{copies: 32, most: 256, fewest: 2}),
	},
	ir.IQ4_XS: {
		floats:    blockVecs{{run: 16, lanes: 128, workgroup: 256, columns: 8, subnormals: true, tables: true}},
		fileTiles: true,
		lookup:    byteLookup(32, lookupRounding{copies: 32, most: 256, fewest: 2}),
	},
	ir.MXFP4: {
		floats: blockVecs{
			{run: 16, lanes: 128, workgroup: 256, columns: 8, subnormals: true, tables: true, staged: true},
		},
		lookup: byteLookup(32, lookupRounding{copies: 32, most: 256, fewest: 2}),
	},
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

// byteLookup describes how a matvec of one int8 row reads blocks by lookup, with the given number of copies of the
// codebook in shared memory. If the row consists of floats, rounds says when the matvec itself quantizes it to int8,
// and with which parameters.
func byteLookup(copies int, rounds lookupRounding) lookupVec {
	return lookupVec{run: 32, lanes: 64, columns: 8, copies: copies, rounds: rounds}
}

// nvidiaUnits lists the formats for which matmuls of few rows are faster on cooperative matrices (M-block-units, and
// M-skinny-tiles for 9 to 16 rows).
var nvidiaUnits = map[ir.DType]formatUnits{
	ir.Q4_0: {
		floats: blockUnits{minRows: 4, tile: skinnyTile{8, 2, 128}, moreRows: true, rate: 4.3},
		bytes: blockUnits{minRows: 7, tile: skinnyTile{4, 1, 256}, moreRows: true, rate: 10,
			tiles16: []skinnyTile{{2, 2, 256}, {1, 4, 256}}},
	},
	ir.Q4_1: {floats: blockUnits{minRows: 5, tile: skinnyTile{8, 1, 128}}},
	ir.Q5_0: {floats: blockUnits{minRows: 5, tile: skinnyTile{8, 1, 256}}},
	ir.Q5_1: {floats: blockUnits{minRows: 6, tile: skinnyTile{8, 1, 128}}},
	ir.Q8_0: {floats: blockUnits{minRows: 3, tile: skinnyTile{8, 2, 128}}},

	ir.Q2_K: {floats: blockUnits{minRows: 8, tile: skinnyTile{8, 1, 128}}},
	ir.Q3_K: {floats: blockUnits{minRows: 6, tile: skinnyTile{8, 1, 128}}},
	ir.Q4_K: {
		floats: blockUnits{minRows: 5, tile: skinnyTile{8, 1, 128}, moreRows: true},
		bytes: blockUnits{minRows: 9, tile: skinnyTile{8, 1, 256}, moreRows: true, rate: 7,
			tiles16: []skinnyTile{{2, 2, 256}, {1, 4, 256}}},
	},
	ir.Q5_K:  {floats: blockUnits{minRows: 5, tile: skinnyTile{8, 1, 128}}},
	ir.Q6_K:  {floats: blockUnits{minRows: 6, tile: skinnyTile{4, 1, 128}, moreRows: true}},
	ir.TQ1_0: {floats: blockUnits{minRows: 4, tile: skinnyTile{8, 2, 128}}},
	ir.TQ2_0: {
		floats: blockUnits{minRows: 4, tile: skinnyTile{8, 1, 256}},
		bytes:  blockUnits{minRows: 7, tile: skinnyTile{4, 1, 256}},
	},

	ir.IQ1_S:   {floats: blockUnits{minRows: 7, tile: skinnyTile{8, 2, 128}}},
	ir.IQ1_M:   {floats: blockUnits{minRows: 8, tile: skinnyTile{8, 1, 128}}},
	ir.IQ2_XXS: {floats: blockUnits{minRows: 6, tile: skinnyTile{8, 1, 256}}},
	ir.IQ2_S:   {floats: blockUnits{minRows: 7, tile: skinnyTile{8, 1, 128}}},
	ir.IQ3_XXS: {floats: blockUnits{minRows: 6, tile: skinnyTile{8, 1, 256}}},
	ir.IQ3_S:   {floats: blockUnits{minRows: 6, tile: skinnyTile{8, 1, 256}}},
	ir.IQ4_XS:  {floats: blockUnits{minRows: 8, tile: skinnyTile{4, 1, 128}}},
}
