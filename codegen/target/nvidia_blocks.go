package target

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// nvidiaBlocks was measured on an H100: 14336x14336 by some rows, in planes, in
// microseconds of a kernel alone, which stand behind each way; "at most so many
// rows" has a time for each number of rows that was measured. What q4_0, q8_0 and
// q4_K take by other numbers of rows of bytes than one, four and eight, the others
// follow. M-matvec-blocks, M-codebooks and M-matrows in docs/measurements.md say what else was tried.
var nvidiaBlocks = map[ir.DType]blockTuning{
	ir.Q4_0: inPlanes(
		blockVec{rows: 1, depth: 4096, run: 16, lanes: 128, workgroup: 256, columns: 8, subnormals: true}, // 4096x4096 8.4
		blockVec{rows: 1, run: 16, lanes: 256, workgroup: 256, columns: 8, subnormals: true},              // 4096x11008 14.9, in 128 16.0
		blockVec{rows: 2, run: 32, lanes: 32, columns: 8, subnormals: true, staged: true},                 // 64.4
		blockVec{rows: 3, run: 16, lanes: 128, columns: 8, subnormals: true},                              // 76.8
		blockVec{rows: 7, run: 8, lanes: 256, columns: 4, subnormals: true},                               // 97.6, 125, 142, 177
		blockVec{rows: 8, run: 8, lanes: 64, columns: 4, subnormals: true},                                // 156
	).orBytes(
		blockVec{rows: 2, run: 32, lanes: 128, columns: 1}, // 40.9, 42.7
		blockVec{rows: 3, run: 32, lanes: 64, columns: 4},  // 45.3
		blockVec{rows: 5, run: 32, lanes: 64, columns: 2},  // 50.9, 54.7
		blockVec{rows: 8, run: 32, lanes: 64, columns: 4},  // 57.8, 67.5, 72.6
	).holding(
		heldVec{run: 32, columns: 8, resident: 896, subnormals: true, least: longRow}, // 46.9, 47.4 as read; by 4096 columns 17.6, 18.6
	).rounding(
		heldVec{run: 32, columns: 4, resident: 896, groups: 4, ahead: 1}, // 42.6, with nothing asked for 44.2; by 4096 columns 14.9, 16.0
	),
	ir.Q4_1: inPlanes(
		ahead(2, subnormal(16, 256, 4)), // 52.8
	).orBytes(
		blockVec{rows: 1, run: 32, lanes: 64, columns: 2}, // 45.8
		blockVec{rows: 4, run: 32, lanes: 64, columns: 2}, // 53.0 by 4
		manyRows(32), // 72.8
	).holding(
		heldVec{run: 32, columns: 8, resident: 896, subnormals: true, least: longRow},
	).rounding(
		heldVec{run: 32, columns: 4, resident: 896, ahead: 1, least: longRow}, // 46.0, 48.2; 16.0, 17.4
		heldVec{run: 32, columns: 4, resident: 896},
	),
	ir.Q5_0: inPlanes(
		subnormal(16, 128, 4), // 63.4
	).orBytes(
		blockVec{rows: 1, run: 16, lanes: 256, columns: 4}, // 51.4
		manyRows(32), // 58.7 by 4, 86.8
	).holding(
		heldVec{run: 32, columns: 8, resident: 896, subnormals: true, least: longRow},
	).rounding(
		heldVec{run: 32, columns: 4, resident: 896, prefetch: 1}, // 52.8, 54.1 with nothing asked for
	),
	ir.Q5_1: inPlanes(
		subnormal(16, 256, 4), // 65.5
	).orBytes(
		blockVec{rows: 1, run: 32, lanes: 256, columns: 4}, // 56.2
		manyRows(32),
	).holding(
		heldVec{run: 32, columns: 8, resident: 896, subnormals: true, least: longRow},
	).rounding(
		heldVec{run: 32, columns: 4, resident: 896, prefetch: 1}, // 56.7, 57.6
	),
	ir.Q8_0: inPlanes(
		blockVec{rows: 1, run: 8, lanes: 256, columns: 2, ahead: 2},                                       // 77.4
		blockVec{rows: 2, run: 16, lanes: 32, columns: 4, subnormals: true},                               // 82.5
		blockVec{rows: 4, run: 8, lanes: 64, columns: 4, subnormals: true},                                // 112 by 4
		blockVec{rows: 6, run: 8, lanes: 32, columns: 4, subnormals: true},                                // 146 by 6
		blockVec{rows: 8, run: 16, lanes: 32, workgroup: 256, columns: 4, subnormals: true, staged: true}, // 165
	).orBytesFrom(2, // one row is as fast in floats, and needs no kernel before
		blockVec{rows: 2, run: 32, lanes: 64, columns: 4}, // 78.6
		blockVec{rows: 4, run: 16, lanes: 32, columns: 4}, // 79.7 by 4
		blockVec{rows: 8, run: 16, lanes: 64, columns: 4}, // 86.7
	),

	ir.Q2_K: inPlanes(
		subnormal(64, 64, 4), // 48.3
	).orBytes(
		blockVec{rows: 1, run: 64, lanes: 64, columns: 4}, // 28.3
		blockVec{rows: 8, run: 64, lanes: 32, columns: 4}, // 49.1 by 4, 80.4
	).rounding(
		byFewColumns(twoBitFields(4, 2)), // 4096 11.2, nothing asked for 11.8
		twoBitFields(7, 2),               // 26.7, 28.3; four columns 27.3, 28.4; half as many workgroups 30.8; those of 896 invocations 27.5
	),
	ir.Q3_K: inPlanes(
		subnormal(64, 64, 4), // 63.2
	).orBytes(
		blockVec{rows: 1, run: 64, lanes: 64, columns: 2}, // 38.5
		blockVec{rows: 8, run: 64, lanes: 32, columns: 4}, // 56.8 by 4, 98.9
	).rounding(
		byFewColumns(twoBitFields(4, 2)), // 4096 14.0, 14.9
		twoBitFields(2, 0),               // 35.9, asked for 37.2; four columns 37.4
	),
	ir.Q4_K: inPlanes(
		blockVec{rows: 1, depth: 2048, run: 32, lanes: 64, columns: 8, subnormals: true},     // 6144x2048 7.5, 32 lanes 8.2
		blockVec{rows: 1, run: 32, lanes: 128, workgroup: 256, columns: 8, subnormals: true}, // 4096x4096 8.3, 64 9.4; 4096x11008 16.3, 17.5; held 19.2
		blockVec{rows: 2, run: 32, lanes: 64, columns: 8, subnormals: true},                  // 71.0
		blockVec{rows: 3, run: 32, lanes: 32, columns: 4, subnormals: true, staged: true},    // 101
		blockVec{rows: 4, run: 32, lanes: 64, columns: 4, subnormals: true},                  // 120
		blockVec{rows: 7, run: 8, lanes: 128, columns: 4, subnormals: true},                  // 187 by 6
		blockVec{rows: 8, run: 16, lanes: 64, columns: 4, subnormals: true},                  // 183
	).orBytes(
		blockVec{rows: 1, run: 64, lanes: 128, columns: 4}, // 42.6
		blockVec{rows: 7, run: 64, lanes: 64, columns: 4},  // 45.3 by 2, 52.2 by 4, 61.7, 66.4, 75.1
		blockVec{rows: 8, run: 32, lanes: 64, columns: 8},  // 82.0
	).holding(
		heldVec{run: 64, columns: 8, resident: 448, subnormals: true, least: longRow},
	).rounding(
		heldVec{run: 64, columns: 4, resident: 896, groups: 2, prefetch: 2, least: longRow}, // 42.9, 44.1 with nothing asked for, 45.5 in workgroups of 224
		heldVec{run: 64, columns: 4, resident: 512},
	),
	ir.Q5_K: inPlanes(
		subnormal(32, 64, 4), // 66.3
	).orBytes(
		blockVec{rows: 1, run: 64, lanes: 64, columns: 2}, // 52.0
		blockVec{rows: 4, run: 64, lanes: 64, columns: 4},
		manyRows(32),
	).holding(
		heldVec{run: 64, columns: 8, resident: 448, subnormals: true, least: longRow, most: 8192}, // by 4096 columns 23.0 for 25.1; by 14336 66.9 for 65.9
	).rounding(
		heldVec{run: 64, columns: 4, resident: 512},
	),
	ir.Q6_K: inPlanes(
		subnormal(32, 256, 4), // 67.3
	).orBytes(
		blockVec{rows: 8, run: 64, lanes: 64, columns: 4}, // 63.6, 71.4 by 4, 106
	).rounding(
		heldVec{run: 64, columns: 4, resident: 896, groups: 2, prefetch: 2, least: longRow}, // 61.0, 63.3, 62.7
		heldVec{run: 64, columns: 4, resident: 512},
	),
	ir.TQ1_0: inPlanes(
		subnormal(32, 64, 4), // 70.3
	).butTiles().orBytes(
		blockVec{rows: 1, run: 256, lanes: 64, columns: 4}, // 31.3
		manyRows(32),
	),
	ir.TQ2_0: inPlanes(
		subnormal(64, 64, 4), // 38.1
	).orBytes(
		blockVec{rows: 1, run: 64, lanes: 32, columns: 3}, // 22.0
		blockVec{rows: 4, run: 64, lanes: 64, columns: 8}, // 37.7 by 4
		blockVec{rows: 8, run: 64, lanes: 32, columns: 4}, // 71.8
	).rounding(twoBitFields(4, 2)), // 22.3, 23.3; seven columns 22.9; by 4096 9.7, 10.5

	// Codebooks are looked up in shared memory: quads by rows of floats, where larger
	// workgroups copy less often, and octets by one row of bytes, in many copies.
	// Where that was measured, tiles are as fast or faster with whole blocks:
	// 512x4096x14336 in TFLOP/s, iq1_m 155, iq2_xs 167, iq3_xxs 166, iq4_xs 161,
	// tq1_0 149; in planes iq1_s 131, iq2_xs 141, iq2_s 128, iq3_s 136, iq4_nl 162.
	// Behind octets: by a row of bytes, by one that the product rounds, which saves
	// 2.9 us before, and by floats; then both former by 4096 columns.
	ir.IQ1_S: inPlanes(
		looked(16, 128, 512, 4), // 65.9
	).orBytes(
		blockVec{rows: 1, run: 32, lanes: 64, workgroup: 512, columns: 8, tables: true}, // 31.7
		blockVec{rows: 8, run: 32, lanes: 64, workgroup: 256, columns: 8, tables: true}, // 47.9 by 4, 91.2
	).orOctets(4).orRounded(4, 256, 2), // 25.8, 26.9; by 4096 columns rounded 12.8
	ir.IQ1_M: inPlanes(
		looked(16, 64, 512, 8), // 73.1
	).butTiles().orBytes(
		blockVec{rows: 1, run: 16, lanes: 64, workgroup: 512, columns: 8, tables: true}, // 45.4
		blockVec{rows: 8, run: 16, lanes: 64, workgroup: 512, columns: 4, tables: true},
	).orOctets(4).orRounded(4, 256, 2), // 34.9, 35.3; rounded 15.0
	ir.IQ2_XXS: inPlanes(
		staged(looked(32, 64, 256, 4)), // 68.9
	).orBytes(
		blockVec{rows: 4, run: 32, lanes: 64, workgroup: 256, columns: 4, tables: true}, // 39.6, 57.6 by 4
		blockVec{rows: 8, run: 16, lanes: 64, workgroup: 256, columns: 4, tables: true}, // 90.9
	).orOctets(16).orRounded(8, 64, 4).orOctetFloats(16, 4), // 26.6, 31.2, 51.1; 11.8, 13.9
	ir.IQ2_XS: inPlanes(
		looked(16, 64, 256, 4), // 74.0
	).butTiles().orBytes(
		blockVec{rows: 8, run: 16, lanes: 64, workgroup: 256, columns: 4, tables: true}, // 52.5
	).orOctets(8).orRounded(4, 64, 4).orOctetFloats(8, 2), // 30.6, 35.5, 55.6; 14.6, 16.1
	ir.IQ2_S: inPlanes(
		looked(16, 64, 256, 4), // 79.0
	).orBytes(
		blockVec{rows: 8, run: 16, lanes: 64, workgroup: 256, columns: 4, tables: true}, // 52.2
	).orOctets(4).orRounded(2, 256, 4).orOctetFloats(4, 2), // 37.3, 39.1, 62.7; 16.0, 17.1
	ir.IQ3_XXS: inPlanes(
		looked(16, 64, 256, 4), // 78.3
	).butTiles().orBytes(
		blockVec{rows: 4, run: 32, lanes: 64, workgroup: 256, columns: 4, tables: true}, // 55.3, 62.6 by 4
		blockVec{rows: 8, run: 16, lanes: 64, workgroup: 256, columns: 4, tables: true}, // 98.0
	).orOctets(32).orRounded(16, 256, 2).orOctetFloats(32, 8), // 33.5, 35.3, 54.8; 13.6, 15.3
	ir.IQ3_S: inPlanes(
		staged(looked(32, 64, 256, 4)), // 88.0
	).orBytes(
		blockVec{rows: 1, run: 32, lanes: 64, columns: 8, tables: true}, // 58.2
		blockVec{rows: 8, run: 32, lanes: 64, columns: 4, tables: true},
	).orOctets(16).orRounded(8, 256, 4).orOctetFloats(16, 8), // 41.0, 42.6, 63.6; 16.8, 18.3
	ir.IQ4_NL: inPlanes(
		staged(looked(16, 128, 256, 4)), // 68.7
	).orOctets(32).orRounded(32, 256, 2), // 44.5, 45.0; 16.2, 16.9; by quads 72.6
	ir.IQ4_XS: inPlanes(
		looked(16, 128, 256, 8), // 69.6
	).butTiles().orOctets(32).orRounded(32, 256, 2), // 43.2, 43.5; 15.7, 16.5
	ir.MXFP4: inPlanes(
		staged(looked(16, 128, 256, 8)), // 65.8
	).orOctets(32).orRounded(32, 256, 2), // 42.1, 42.7; 15.6, 16.3; by quads 71.4
}

// nvidiaRows was measured on an H100 with weights of f16, 14336x14336, in
// microseconds. What a number of rows needs is no regular thing: 64 sums of an
// invocation are faster than 32, which take 370 by eight rows.
var nvidiaRows = blockVecs{
	{rows: 1, depth: 2048, batched: true, lanes: 32, columns: 1}, // 8 experts of 768x2048 6.9, in 128 with two 7.4
	{rows: 1, depth: 2048, lanes: 64, columns: 2},                // 6144x2048 11.6, in 32 with one 12.4
	{rows: 1, depth: 8192, lanes: 256, columns: 2},               // 4096x4096 14.4, with one 14.8; 11008x4096 32.0, 32.4
	{rows: 1, lanes: 256, columns: 1},                            // 133.5, with two 134.4; in 32 lanes 140.4; by 4096 columns 41.1 and 47.2
	{rows: 3, lanes: 64, columns: 2},                             // 139.4 by 2, 141.2 by 3
	{rows: 4, lanes: 32, columns: 1},                             // 169.5; two columns 221 to 269
	{rows: 5, lanes: 64, columns: 4},                             // 195.7
	{rows: 8, lanes: 32, columns: 8, whole: true},                // 172.5 by 8; 6 and 7 otherwise take 234 and 250
}

// longRow is how many elements a row of floats has for holding it to pay: of 4096
// and 11008 it took 0 to 30 % longer.
const longRow = 12 << 10

// twoBitFields holds one row for formats whose bytes are of four planes, by so many
// columns in a turn, the blocks of some sectors asked for before it is rounded.
func twoBitFields(columns, prefetch int) heldVec {
	return heldVec{run: 64, columns: columns, resident: 896, groups: 2, prefetch: prefetch, subnormals: true}
}

// byFewColumns limits a way to 64 columns for each of an H100's cores.
func byFewColumns(v heldVec) heldVec {
	v.most = 64 * 132
	return v
}

func inPlanes(floats ...blockVec) blockTuning {
	return blockTuning{layout: kernel.LayoutPlanes, tiles: kernel.LayoutPlanes, floats: floats}
}

// butTiles leaves blocks as they are where only products of many rows read them.
func (t blockTuning) butTiles() blockTuning {
	t.tiles = kernel.LayoutBlocks
	return t
}

func (t blockTuning) orBytes(bytes ...blockVec) blockTuning {
	t.bytes = bytes
	return t
}

// orOctets is for formats with codebooks, by one row of bytes; copies are those of
// the codebook.
func (t blockTuning) orOctets(copies int) blockTuning {
	t.octets = octetVec{run: 32, lanes: 64, columns: 8, copies: copies}
	return t
}

// orRounded is where products that read octets round the row themselves: by up to
// so many columns of a core.
func (t blockTuning) orRounded(copies, most, fewest int) blockTuning {
	t.octets.rounds = octetRounding{copies, most, fewest}
	return t
}

// orOctetFloats is for formats with codebooks, by one row of floats; held are the
// copies where that is held, which takes shared memory, too.
func (t blockTuning) orOctetFloats(copies, held int) blockTuning {
	t.octetFloats = octetVec{run: 16, lanes: 128, columns: 4, copies: copies}
	t.octetsHeld = octetVec{run: 32, columns: 7, copies: held}
	return t
}

// holding and rounding add the ways that hold one row.
func (t blockTuning) holding(v heldVec) blockTuning {
	t.held = v
	return t
}

func (t blockTuning) rounding(ways ...heldVec) blockTuning {
	t.rounded = ways
	return t
}

// orBytesFrom is orBytes where only so many rows are faster as bytes.
func (t blockTuning) orBytesFrom(rows int64, bytes ...blockVec) blockTuning {
	t.bytes, t.bytesFrom = bytes, rows
	return t
}

// manyRows is how up to eight rows of bytes read blocks in runs of so many.
func manyRows(run int) blockVec {
	return blockVec{rows: MaxMatVecRows, run: run, lanes: 64, columns: 4}
}

// looked is for formats with codebooks.
func looked(run, lanes, workgroup, columns int) blockVec {
	return blockVec{run: run, lanes: lanes, workgroup: workgroup, columns: columns, subnormals: true, tables: true}
}

func staged(v blockVec) blockVec {
	v.staged = true
	return v
}

func subnormal(run, lanes, columns int) blockVec {
	return blockVec{run: run, lanes: lanes, columns: columns, subnormals: true}
}

func ahead(n int, v blockVec) blockVec {
	v.ahead = n
	return v
}
