package schedule

import "github.com/vkc-go/vkc/codegen/device"

// cpu: drivers such as lavapipe run a workgroup on one thread, with its invocations as SIMD lanes (8 with 256-bit
// vectors). Every barrier returns to a loop over them with all live values in memory. So few workgroups suffice,
// barriers are expensive, and one invocation should do a whole reduction.
func cpu(caps device.Caps) heuristics {
	t := generic(caps)
	t.fill = 16
	t.registers = 1 << 16 // all are in memory, and the cache holds them
	t.mapWorkgroup = 64
	t.mapTiles = false       // its caches hold the strided lines, and a barrier costs more
	t.coarsenGathers = false // nothing else runs meanwhile
	t.rowWorkgroup, t.rowLanes, t.rowPerLane, t.rowCache, t.rowSerial = 32, 32, 32, 0, 64
	// Large thread tiles pay off, since SIMD lanes have no shared register file to exhaust (M-lavapipe-tiles).
	t.tiles = []ratedTile{
		{tile: tile{64, 64, 16, 8, 8}, Efficiency: 0.37},
		{tile: tile{32, 32, 16, 8, 8}, Efficiency: 0.3},
		{tile: tile{16, 32, 16, 4, 8}, Efficiency: 0.25},
		{tile: tile{16, 16, 16, 4, 4}, Efficiency: 0.2},
	}
	// But tiles read directly from memory are two to three times faster. A load from one address for all lanes is one
	// instruction; any other load is one per lane, and shared memory makes all loads of that kind (M-lavapipe-tiles).
	t.direct = tile{16, 64, 8, 16, 4}
	// Its matrix units are emulated, and half as fast as the tile above (M-lavapipe-tiles).
	t.matrixTiles = nil
	t.flashMatrices = nil
	t.flashWorkgroup, t.flashLanes, t.flashKeys = 32, 8, 4
	t.flashTiles = []ratedTile{
		{tile: tile{32, 32, 16, 8, 8}, Efficiency: 0.3},
		{tile: tile{16, 32, 16, 4, 8}, Efficiency: 0.25},
		{tile: tile{8, 16, 16, 2, 4}, Efficiency: 0.1},
	}
	// Columns of one invocation share the loop and the reading of A (M-lavapipe-tiles).
	t.vecWorkgroup, t.vecColumns, t.vecLanes = 32, 4, 8
	t.blockRun, t.blockRunK = 16, 16        // with more unrolling, the driver compiles for a second
	caps.Features.IntegerDotProduct = false // the driver emulates it with one multiplication after the other (M-planes)
	t.blocks = unmeasuredBlocks(caps)
	return t
}
