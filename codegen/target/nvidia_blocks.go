package target

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// nvidiaBlocks was measured on an H100: 14336x14336 by one row, in microseconds
// of a kernel as files have the blocks, in planes by floats, in planes by bytes.
// "Block layouts" in docs/PERFORMANCE.md says what else was tried. Rows of bytes
// are left out where they are no faster.
var nvidiaBlocks = map[ir.DType]blockTuning{
	ir.Q4_0: inPlanes(subnormal(16, 256, 8)).orBytes(blockVec{run: 32, lanes: 128, columns: 1}),           // 55.0, 48.3, 40.9
	ir.Q4_1: inPlanes(ahead(2, subnormal(16, 256, 4))).orBytes(blockVec{run: 32, lanes: 256, columns: 4}), // 53.4, 52.6, 45.8
	ir.Q5_0: inPlanes(subnormal(16, 128, 4)).orBytes(blockVec{run: 16, lanes: 256, columns: 4}),           // 80.5, 63.0, 51.4
	ir.Q5_1: inPlanes(subnormal(16, 256, 4)).orBytes(blockVec{run: 32, lanes: 256, columns: 4}),           // 71.0, 65.5, 56.2
	ir.Q8_0: inPlanes(ahead(2, blockVec{run: 8, lanes: 256, columns: 2})),                                 // 84.7, 75.4, 75.9

	ir.Q2_K:  inPlanes(subnormal(32, 128, 8)).orBytes(blockVec{run: 32, lanes: 128, columns: 8}), // 62.5, 53.4, 36.1
	ir.Q3_K:  inPlanes(subnormal(32, 128, 8)).orBytes(blockVec{run: 32, lanes: 128, columns: 8}), // 91.9, 71.3, 50.6
	ir.Q4_K:  inPlanes(subnormal(32, 128, 8)).orBytes(blockVec{run: 32, lanes: 128, columns: 4}), // 63.5, 56.6, 45.6
	ir.Q5_K:  inPlanes(subnormal(32, 128, 8)).orBytes(blockVec{run: 32, lanes: 128, columns: 4}), // 75.6, 67.0, 55.7
	ir.Q6_K:  inPlanes(subnormal(32, 256, 4)).orBytes(blockVec{run: 16, lanes: 256, columns: 4}), // 87.5, 68.0, 64.2
	ir.TQ2_0: inPlanes(subnormal(32, 128, 8)).orBytes(blockVec{run: 32, lanes: 128, columns: 8}), // 53, 37.7, 25.2

	ir.IQ1_S:   inPlanes(subnormal(16, 128, 8)).orBytes(blockVec{run: 16, lanes: 128, columns: 4}),                               // 92.6, 87.8, 81.1
	ir.IQ2_XXS: inPlanes(ahead(2, blockVec{run: 16, lanes: 128, columns: 4})).orBytes(blockVec{run: 32, lanes: 128, columns: 4}), // 90.6, 88.6, 54.0
	ir.IQ2_S:   inPlanes(ahead(2, blockVec{run: 16, lanes: 128, columns: 4})).orBytes(blockVec{run: 32, lanes: 256, columns: 4}), // 100.8, 102.2, 80.0
	ir.IQ3_S:   inPlanes(ahead(2, blockVec{run: 16, lanes: 128, columns: 4})).orBytes(blockVec{run: 32, lanes: 128, columns: 4}), // 107.8, 105.8, 66.6
	ir.IQ4_NL:  inPlanes(ahead(2, blockVec{run: 16, lanes: 128, columns: 4})),                                                    // 80, 76.0
	ir.MXFP4:   inPlanes(blockVec{run: 16, lanes: 256, columns: 8}),                                                              // 100, 69.5
}

func inPlanes(floats ...blockVec) blockTuning {
	return blockTuning{layout: kernel.LayoutPlanes, floats: floats}
}

func (t blockTuning) orBytes(bytes ...blockVec) blockTuning {
	t.bytes = bytes
	return t
}

func subnormal(run, lanes, columns int) blockVec {
	return blockVec{run: run, lanes: lanes, columns: columns, subnormals: true}
}

func ahead(n int, v blockVec) blockVec {
	v.ahead = n
	return v
}
