package schedule

import (
	"maps"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// nvidia returns the heuristics of NVIDIA GPUs, with the rates of tiles that the fit found.
func nvidia(caps device.Caps) heuristics {
	t, fitted := nvidiaMeasured(caps), nvidiaTiles()
	t.tiles, t.matrixTiles, t.byteTiles = fitted.tiles, fitted.matrixTiles, fitted.byteTiles
	t.halvesTiles, t.flashTiles = fitted.halvesTiles, fitted.flashTiles
	if caps.DriverID == device.DriverNVK {
		t.matrixTiles = slices.DeleteFunc(slices.Clone(t.matrixTiles), func(tl matrixTile) bool {
			return tl.OneStage && tl.M*tl.N == 128*128 // 128 sums and 64 loaded words an invocation: 10 registers spill
		})
	}
	return t
}

// nvidiaTiles returns heuristics with the fitted rates of tiles, which do not depend on the device.
var nvidiaTiles = sync.OnceValue(func() heuristics {
	t := nvidiaMeasured(device.Caps{})
	t.setRates(nvidiaRates)
	return t
})

// NVIDIARates lists the tiles of NVIDIA GPUs with the rates of single measurements, from which the fit starts, and with
// the fitted rates that the heuristics use.
func NVIDIARates() (measured, fitted []TileRate) {
	before, after := nvidiaMeasured(device.Caps{}), nvidiaTiles()
	return before.tileRates(), after.tileRates()
}

// nvidiaVectorTiles are tiles of f32 matmuls, largest first. Efficiency is with all cores in full waves, Alone with one
// workgroup per core (M-f32-tiles, M-tile-rates).
var nvidiaVectorTiles = []ratedTile{
	{tile: tile{128, 128, 8, 8, 16}, Paired: true, Steps: true, Efficiency: 0.765, Alone: 0.642},
	{tile: tile{128, 128, 16, 8, 8}, Stages: 2, Paired: true, Steps: true, Efficiency: 0.72, Alone: 0.73},
	{tile: tile{64, 128, 8, 8, 8}, Stages: 2, Paired: true, Steps: true, Efficiency: 0.7, Alone: 0.5},
	{tile: tile{64, 128, 16, 8, 8}, Stages: 2, Paired: true, Steps: true, Efficiency: 0.76, Alone: 0.592},
	{tile: tile{96, 96, 16, 4, 12}, Stages: 2, Paired: true, Steps: true, Efficiency: 0.67, Alone: 0.53},
	{tile: tile{96, 64, 16, 12, 4}, Stages: 2, Paired: true, Steps: true, Efficiency: 0.69, Alone: 0.42},
	{tile: tile{64, 64, 16, 8, 4}, Stages: 2, Paired: true, Steps: true, Efficiency: 0.66, Alone: 0.35},
	{tile: tile{64, 64, 16, 4, 4}, Efficiency: 0.567, Alone: 0.35},
	{tile: tile{32, 64, 16, 4, 4}, Stages: 2, Paired: true, Steps: true, Efficiency: 0.56, Alone: 0.183},
	{tile: tile{16, 64, 16, 2, 4}, Efficiency: 0.183, Alone: 0.1},
	{tile: tile{32, 32, 32, 2, 2}, Efficiency: 0.187, Alone: 0.142},
	{tile: tile{32, 32, 16, 2, 2}, Efficiency: 0.153, Alone: 0.103},
}

// nvidiaMatrixTiles are tiles of matmuls on tensor cores. The large tiles were measured for f16 4096^3. The tiles from
// 64x64 down, and one workgroup per core, were measured for 16 to 1500 rows by 768x768 to 22016x4096 (M-small-tiles).
// Other shapes with the same registers reach a fraction of these rates (M-tile-rates).
var nvidiaMatrixTiles = []matrixTile{
	// With f16 sums.
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 256, N: 256, K: 64, PiecesM: 2, PiecesN: 2, Efficiency: 0.658, MatMuls: 1, NoRuns: true},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 256, N: 256, K: 32, Efficiency: 0.593},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 256, N: 128, K: 64, PiecesM: 2, Efficiency: 0.547, MatMuls: 1, NoRuns: true},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 64, PiecesN: 2, Efficiency: 0.53, MatMuls: 1, NoRuns: true},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 64, Efficiency: 0.515, MatMuls: 1},
	// With a K of 32, twice as many matmuls have a number of steps that is a multiple of 8.
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 32, Efficiency: 0.458, MatMuls: 1},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 32, UnrollFrom: 12, Unroll: 36, Efficiency: 0.517, Runs: true},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 128, K: 64, Efficiency: 0.457, Alone: 0.43},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 128, K: 64, UnrollFrom: 10, Unroll: 36, Efficiency: 0.48, Alone: 0.45, Stored: true, MatMuls: 1, NoRuns: true},
	// Two workgroups of 128 invocations to a core hide each other's latency (M-two-to-a-core).
	{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 128, N: 128, K: 64, Efficiency: 0.56, PerCore: 2, Alone: 0.33, MatMuls: 1, NoRuns: true},
	{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 128, N: 128, K: 64, UnrollFrom: 2, Unroll: 18, Efficiency: 0.55, PerCore: 2, Alone: 0.31, Stored: true, MatMuls: 1, NoRuns: true},
	{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 128, N: 128, K: 64, Efficiency: 0.49, PerCore: 2, Alone: 0.3, MatMuls: 2, NoRuns: true},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 64, N: 256, K: 64, Efficiency: 0.408, Alone: 0.31},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 64, N: 128, K: 64, Efficiency: 0.26, Alone: 0.23},
	{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 64, N: 64, K: 64, Efficiency: 0.234, Alone: 0.15},
	{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 32, N: 32, K: 128, Efficiency: 0.117, Alone: 0.065},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 128, N: 128, K: 16, Efficiency: 0.417, PerCore: 2, Alone: 0.233},
	// A tall tile decodes B half as often.
	{Variant: kernel.VarCoopMat, SubgroupsM: 4, SubgroupsN: 2, M: 256, N: 128, K: 16, Efficiency: 0.35},
	// Only for f16 accumulation, in four parts (M-tile-rates).
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 256, N: 256, K: 16, Efficiency: 0.417, Blocks: true},
	// Gate and up projections of a feed-forward layer together (M-tile-rates).
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 128, N: 256, K: 16, Efficiency: 0.512, Blocks: true, MatMuls: 2},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 128, N: 128, K: 32, Efficiency: 0.566, Blocks: true, Few: true, MatMuls: 2},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 128, N: 128, K: 32, Efficiency: 0.345},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 128, K: 32, Efficiency: 0.275, Alone: 0.19},
	// For one row of tiles (M-block-few).
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 64, N: 128, K: 32, Efficiency: 0.4, Alone: 0.25, Blocks: true, Few: true},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 64, K: 64, Efficiency: 0.24, Alone: 0.13, Blocks: true, Few: true, MatMuls: 1},
	{Variant: kernel.VarCoopMat, SubgroupsM: 1, SubgroupsN: 4, M: 16, N: 64, K: 64, Efficiency: 0.134, Blocks: true, Few: true},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 128, N: 128, K: 64, OneStage: true, Stored: true, Efficiency: 0.447, Alone: 0.3, MatMuls: 1, NoRuns: true},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 128, N: 128, K: 64, OneStage: true, Stored: true, Efficiency: 0.52, Alone: 0.3, MatMuls: 2, NoRuns: true},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 64, K: 64, OneStage: true, Stored: true, Efficiency: 0.265, Alone: 0.15},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 64, K: 32, Efficiency: 0.217, Alone: 0.12},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 32, N: 64, K: 64, Efficiency: 0.165, Alone: 0.095},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 32, N: 32, K: 64, Efficiency: 0.125, Alone: 0.056},
	{Variant: kernel.VarCoopMat, SubgroupsM: 1, SubgroupsN: 4, M: 16, N: 64, K: 64, Efficiency: 0.115, Alone: 0.055},
}

// nvidiaFlashTiles are tiles of attention in f32 with heads of 64 elements (M-flash-f32).
var nvidiaFlashTiles = []ratedTile{
	{tile: tile{64, 64, 16, 4, 8}, Paired: true, Steps: true, Efficiency: 0.475, Alone: 0.53},
	{tile: tile{32, 128, 16, 4, 8}, Paired: true, Steps: true, Efficiency: 0.45, Alone: 0.42},
	{tile: tile{32, 64, 16, 4, 4}, Paired: true, Steps: true, Efficiency: 0.4, Alone: 0.39},
	{tile: tile{16, 64, 16, 4, 4}, Paired: true, Steps: true, Efficiency: 0.335, Alone: 0.19},
	{tile: tile{64, 64, 16, 4, 4}, Efficiency: 0.29, Alone: 0.32}, // 38 KiB for heads of 128 elements
	{tile: tile{32, 64, 16, 4, 4}, Efficiency: 0.29, Alone: 0.23},
	{tile: tile{32, 32, 16, 4, 2}, Efficiency: 0.325, Alone: 0.21},
	{tile: tile{16, 32, 16, 2, 2}, Efficiency: 0.23, Alone: 0.115},
}

// nvidiaMeasured returns the heuristics of NVIDIA GPUs with the rates of tiles that single measurements gave. The fit
// starts from these rates. Subgroups always have 32 invocations. A workgroup has 48 KiB of shared memory, and an
// invocation has up to 255 registers. Cores hide latency with many resident subgroups.
func nvidiaMeasured(caps device.Caps) heuristics {
	t := generic(caps)
	// The slowdowns are from measurements M-handicaps and M-conv-bytes.
	t.handicaps = handicaps{clamped: 1.5, withDriver: 3.5, shifted: 1.76, unaligned: 3.5, computed: 2.2,
		computedRows: 77, gathered: 3.2, gatheredTile: 1.4, seldomFull: 1.5}
	// 50 MB for 132 cores on an H100, 40 for 108 on an A100, and more per core on graphics cards since 2022.
	t.cache = max(t.cache, int64(caps.Cores)*384<<10)
	t.storesScores = true
	t.coreRegisters, t.coreShared = 64<<10, 48<<10
	// Memory-bound kernels reach copy speed with 256 invocations of 16-byte loads; larger workgroups only lengthen the
	// tail.
	t.mapWorkgroup = 256
	// With 256 lanes, a row of 4096 elements has 16 elements per lane. That is four 16-byte loads in flight, and all
	// elements stay in registers for the second pass.
	t.rowWorkgroup, t.rowLanes, t.rowPerLane, t.rowCache = 256, 1024, 16, 32
	t.tiles = slices.Clone(nvidiaVectorTiles)
	t.matrixTiles = slices.Clone(nvidiaMatrixTiles)
	t.byteTiles = slices.Clone(nvidiaByteTiles)
	// For 512 rows by q4_0 of 12288x4096 (M-halves).
	t.halvesTiles = []matrixTile{
		{Variant: kernel.VarSkinny, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 128, K: 32, Stages: 2, Efficiency: 0.4},
		{Variant: kernel.VarSkinny, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 128, K: 32, Efficiency: 0.34},
	}
	// The fastest parameters measured for one query over 8192 keys (M-flash-shapes).
	t.flashWorkgroup, t.flashLanes, t.flashKeys, t.flashMaxKeys = 256, 16, 4, 512
	t.flashMaxWorkgroup, t.flashGBps = 1024, 45 // M-short-texts
	// These are the fastest measured tiles that also suit causal attention. In shapes with nearly 255 registers, its
	// mask makes the compiler spill (M-flash-shapes).
	t.flashMatrices = []flashMatrixTile{
		{Subgroups: 8, Keys: 64, Stages: 2, Width: 64},
		{Subgroups: 8, Keys: 32, Stages: 2, Width: 128},
		{Subgroups: 8, Keys: 32},
		{Subgroups: 4, Keys: 32},
		{Subgroups: 8, Keys: 16},
		{Subgroups: 2, Keys: 32},
		{Subgroups: 8, Keys: 16, Parts: 2},
		{Subgroups: 4, Keys: 16, Parts: 2},
	}
	t.flashTiles = slices.Clone(nvidiaFlashTiles)
	// One subgroup per column reads 512 contiguous bytes of f32 per step. Four subgroups in a workgroup keep its
	// columns close in memory. With one column, 8 rows of f32 move 32 bytes of A through the cache for each element of
	// B, so several columns share A if there are many rows (M-block-ways).
	t.vecWorkgroup, t.vecColumns, t.vecRows = 128, 1, nvidiaRows
	// For blocks, four columns share A, because A then needs more of the cache's bandwidth than the few bytes of B.
	// Four subgroups share a column, which keeps the number of workgroups high (M-block-defaults).
	t.blockRun, t.blockRunK, t.blockLanes, t.blockColumns = 16, 32, 128, 4
	maps.Copy(t.blocks, nvidiaBlocks)
	t.units, t.subnormals = nvidiaUnits, true
	if caps.DriverID == device.DriverNVK {
		t.registerFile = 64 << 10 // not for NVIDIA's own compiler: such workgroups were measured with it
	} else {
		t.registers = 264 // more than 255: a little spilling is faster than smaller tiles (M-flash-shared)
	}
	return t
}

// nvidiaByteTiles are tiles for int8 matmuls on cooperative matrices. Efficiencies were measured with B contiguous
// along the contraction axis: for i8 4096^3, and from 64x64 down for 512x4096x14336. Alone is estimated as twice the
// f16 value. M-i8 and M-tile-rates list slower tiles.
var nvidiaByteTiles = []matrixTile{
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 256, N: 128, K: 128, PiecesM: 2, Efficiency: 0.491, MatMuls: 1, NoRuns: true},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 128, Efficiency: 0.451},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 64, Efficiency: 0.388},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 128, K: 128, Efficiency: 0.43},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 64, N: 256, K: 128, Efficiency: 0.393},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 64, N: 128, K: 128, Efficiency: 0.316},
	{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 64, N: 64, K: 128, Efficiency: 0.272, Alone: 0.224},
	{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 32, N: 32, K: 256, Efficiency: 0.14, Alone: 0.112},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 128, N: 128, K: 64, Efficiency: 0.33},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 128, N: 128, K: 32, Efficiency: 0.328, Alone: 0.224},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 128, N: 256, K: 32, Efficiency: 0.322},
	{Variant: kernel.VarCoopMat, SubgroupsM: 4, SubgroupsN: 2, M: 256, N: 128, K: 32, Efficiency: 0.303},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 128, K: 64, Efficiency: 0.253},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 64, K: 128, Efficiency: 0.193},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 64, K: 64, Efficiency: 0.221, Alone: 0.208},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 32, N: 32, K: 128, Efficiency: 0.124, Alone: 0.096},
	{Variant: kernel.VarCoopMat, SubgroupsM: 1, SubgroupsN: 4, M: 16, N: 64, K: 128, Efficiency: 0.116, Alone: 0.098},
}
