package target

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// nvidiaBlocks was measured on an H100, 14336x14336 by one row, in microseconds;
// see "Block layouts" in docs/PERFORMANCE.md for what else was tried.
var nvidiaBlocks = map[ir.DType]blockTuning{
	// As blocks 55.0, in planes 54.8; a kernel by hand over planes and bytes 41.9.
	ir.Q4_0: {layout: kernel.LayoutPlanes, bytes: blockVec{run: 32, lanes: 128, columns: 1}},
	// As blocks 83.6; in planes 79.5, then with 8 subgroups and 2 columns 75.4.
	ir.Q8_0: {layout: kernel.LayoutPlanes, floats: blockVec{run: 8, lanes: 256, columns: 2, ahead: 2}},
}
