package schedule

import "github.com/vkc-go/vkc/codegen/device"

// cpu returns the heuristics of drivers that run on the processor. Drivers such as lavapipe run a workgroup on one
// thread, with its invocations as SIMD lanes (8 with 256-bit vectors). At every barrier the driver stores all live
// values to memory and starts a new loop over the invocations. So few workgroups suffice, barriers are expensive, and
// one invocation should do a whole reduction.
func cpu(caps device.Caps) heuristics {
	t := generic(caps)
	t.fill = 16
	t.registers = 1 << 16 // registers are in memory, which the cache holds
	t.mapWorkgroup = 64
	t.mapTiles = false       // the processor's caches hold the strided lines, and a barrier costs more
	t.coarsenGathers = false // the processor hides the latency of loads itself
	t.rowWorkgroup, t.rowLanes, t.rowPerLane, t.rowCache, t.rowSerial = 32, 32, 32, 0, 64
	// Large thread tiles pay off, since SIMD lanes have no shared register file to exhaust (M-lavapipe-tiles).
	t.tiles = []ratedTile{
		{tile: tile{64, 64, 16, 8, 8}, Efficiency: 0.37},
		{tile: tile{32, 32, 16, 8, 8}, Efficiency: 0.3},
		{tile: tile{16, 32, 16, 4, 8}, Efficiency: 0.25},
		{tile: tile{16, 16, 16, 4, 4}, Efficiency: 0.2},
	}
	// Tiles that are read directly from memory are two to three times faster. If all lanes load from one address, that
	// is one instruction. Any other load is one instruction per lane, and loads from shared memory are of that kind
	// (M-lavapipe-tiles).
	t.direct = directTile{tile: tile{16, 64, 8, 16, 4}, Efficiency: 1, Loads: 10}
	// lavapipe emulates cooperative matrices. They are half as fast as the tile above (M-lavapipe-tiles).
	t.matrixTiles = nil
	t.flashMatrices = nil
	t.flashWorkgroup, t.flashLanes, t.flashKeys = 32, 8, 4
	t.flashTiles = []ratedTile{
		{tile: tile{32, 32, 16, 8, 8}, Efficiency: 0.3},
		{tile: tile{16, 32, 16, 4, 8}, Efficiency: 0.25},
		{tile: tile{8, 16, 16, 2, 4}, Efficiency: 0.1},
	}
	// The columns of one invocation share the loop and the loads of A (M-lavapipe-tiles).
	t.vecWorkgroup, t.vecColumns, t.vecLanes = 32, 4, 8
	t.blockRun, t.blockRunK = 16, 16        // with longer runs, the driver takes a second to compile
	caps.Features.IntegerDotProduct = false // the driver emulates it with one multiplication after another (M-planes)
	t.blocks = unmeasuredBlocks(caps)
	return t
}
