package target

import "github.com/vkc-go/vkc/codegen/kernel"

// nvidia: subgroups of 32 without exception, 48 KiB of shared memory per
// workgroup, up to 255 registers per invocation, and cores that hide latency
// with many resident subgroups.
var nvidia = class{
	name: "nvidia",
	owns: func(c Caps) bool { return c.VendorID == VendorNVIDIA },
	tune: func(caps Caps) tuning {
		// An H100 copies 2500 GB/s in kernels of 100 us. A norm of 4096 elements takes it
		// 4.3 us; joined, products by q4_0 of 12288 columns take 0.7 us more (768
		// workgroups), two of 11008 2.3 us (688), and one of 32000 by q6_K 14 us (4000).
		t := genericTuning(caps, machine{cores: 132, memoryRate: 2500, cacheRate: 7500, matrixRate: 250, launchTime: 2500, normTime: 4500})
		// Those of an H100, f16 4096^3, but for what follows. A convolution takes 280 us
		// with windows shifted, 159 without; 512 tokens by 8 of 128 experts of 768x2048 in
		// tiles of 64x128 and 64x64, microseconds: f16 292, 265; q4_K 339, 317.
		t.handicaps = handicaps{clamped: 1.5, besideDriver: 3.5, shifted: 1.76, unaligned: 3.5, computed: 2.2, computedRows: 77, seldomFull: 1.5}
		// 50 MB of 132 cores on an H100, 40 of 108 on an A100, and more for each core of
		// what is sold for graphics since 2022.
		t.cache = max(t.cache, int64(caps.Cores)*384<<10)
		// Memory-bound kernels reach copy speed with 256 invocations of 16-byte
		// loads; larger workgroups only make the tail coarser.
		t.mapWorkgroup = 256
		// 8192 rows of 4096, microseconds in 1, 2, 4 turns: f16 56.7, 51.8, 50.0; blocks
		// to f32: q8_0 67.2, 64.4, 64.4; q4_0 62.4, 57.9, 58.6; q4_K 63.0, 58.6, 58.3.
		// Workgroups of 128 or 512 in place of turns are 2 to 5 % slower than 256.
		t.gatherTurns = true
		// A 4096-wide row in 256 lanes is 16 elements each: four 16-byte loads in
		// flight, all kept in registers for the second pass.
		t.rowWorkgroup, t.rowLanes, t.rowPerLane, t.rowCache = 256, 1024, 16, 32
		// Rates on an H100 in f32, TFLOP/s, of all cores in full rounds; Alone of cores
		// with one workgroup. The first three are of 4096^3 and 1024^3, as are what they
		// beat there: 128x128x8 not paired 44.4 and 18.3 (of the whole), neither 38.6 and
		// 18.1; 16x8 for each invocation 41.0, 16.8; 64x256x8 43.9, 19.0; 128x256x8 43.7,
		// 11.2; 64x64x8 38.0, 29.7. Steps of 16 pay while a core has one workgroup. The
		// small ones are of 512 rows by 256 to 768 columns and as deep, f32 or q8_0.
		t.ratedTiles = []ratedTile{ // largest first
			{tile: tile{128, 128, 8, 8, 16}, Paired: true, Steps: true, Rate: 46.5, Alone: 38.5},
			{tile: tile{64, 128, 8, 8, 8}, Stages: 2, Paired: true, Steps: true, Rate: 41.5, Alone: 30},
			{tile: tile{64, 128, 16, 8, 8}, Stages: 2, Paired: true, Steps: true, Rate: 28, Alone: 35.5},
			{tile: tile{128, 128, 16, 8, 8}, Rate: 36, Alone: 28.5},
			{tile: tile{64, 64, 16, 4, 4}, Rate: 34, Alone: 21},
			{tile: tile{32, 64, 16, 4, 4}, Rate: 22, Alone: 11},
			{tile: tile{16, 64, 16, 2, 4}, Rate: 11, Alone: 6},
			{tile: tile{32, 32, 32, 2, 2}, Rate: 11.2, Alone: 8.5},
			{tile: tile{32, 32, 16, 2, 2}, Rate: 9.2, Alone: 6.2},
		}
		// Rates on an H100, TFLOP/s: for large tiles f16 4096^3; for those from
		// 64x64 down, where a core runs one workgroup at a time, 64 or 16 rows by
		// 4096x4096. The drivers' compiler gives other sizes of the same registers
		// a fraction of it: 128x256x32 293, 192x192x32 131, 160x256x32 37 in
		// coopmat2; 128x256x16 30, which spills, and 128x128x32 on 128
		// invocations 186 in coopmat.
		t.matrixTiles = []matrixTile{
			{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 256, N: 256, K: 64, PiecesM: 2, PiecesN: 2, Rate: 395}, // with f16 sums
			{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 256, N: 256, K: 32, Rate: 356},
			{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 256, N: 128, K: 64, PiecesM: 2, Rate: 328},
			{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 64, PiecesN: 2, Rate: 318},
			{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 64, Rate: 309},
			{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 32, Rate: 275}, // half as many steps to a multiple of 8
			{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 32, Unroll: 36, Rate: 310, Runs: true},
			{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 128, K: 64, Rate: 274},
			{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 64, N: 256, K: 64, Rate: 245},
			{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 64, N: 128, K: 64, Rate: 204},
			{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 64, N: 64, K: 64, Rate: 140},
			{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 32, N: 32, K: 128, Rate: 70},
			{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 128, N: 128, K: 16, Rate: 250, PerCore: 2, Alone: 140},
			{Variant: kernel.VarCoopMat, SubgroupsM: 4, SubgroupsN: 2, M: 256, N: 128, K: 16, Rate: 210}, // decodes B half as often
			// With f16 sums, 512x4096x14336 in four parts, of the time that the tile above takes
			// with any: q8_0 0.81, q4_0 0.84, q5_K 0.84, q4_K 0.86; in two 1.5. 4x2 subgroups spill: 3.6.
			{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 256, N: 256, K: 16, Rate: 250, Blocks: true},
			// silu(512x4096 by q4_0) * another, 11008 columns, us: 552; 256x64x16 of each 664, 64x64x32 971.
			{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 128, N: 256, K: 16, Rate: 307, Blocks: true, Products: 2},
			{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 128, N: 128, K: 32, Rate: 207},
			{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 128, K: 32, Rate: 175},
			{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 64, K: 32, Rate: 130},
			{Variant: kernel.VarCoopMat, SubgroupsM: 1, SubgroupsN: 4, M: 16, N: 64, K: 64, Rate: 61},
			{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 32, N: 32, K: 64, Rate: 60},
		}
		t.byteTiles = nvidiaByteTiles
		// One query over 8192 keys of 32 heads of 128, f16, us by invocations, lanes a
		// key, keys at a time and runs of keys: 256 16 4 in 16 runs 52.3, in 8 runs 55.2;
		// 128 16 4 in 32 52.9; 256 8 2 in 16 54.3; 128 8 4 in 32 55.4, in 8 75.1.
		t.flashWorkgroup, t.flashLanes, t.flashKeys, t.flashRun = 256, 16, 4, 512
		// 4096 queries and keys, us by subgroups, strips of rows, keys and stages: 32 heads
		// of 128: 8 1 32 2 935, 8 1 64 1 1010, 8 1 32 1 1121; of 64: 4 2 32 2 493, 8 1 64 2
		// 516, 4 2 32 1 517, 8 2 32 2 521, 4 2 16 2 583, 8 1 64 1 591, 8 1 32 2 624; 16 heads
		// of 256: 8 1 32 1 1615, 8 1 16 1 1733, 4 1 16 1 1912, 8 1 16 2 2502. Causal, of 64:
		// 8 1 64 2 299, 8 1 64 1 325, 4 2 32 2 429, 8 1 32 2 922: what is near the 255
		// registers of an invocation may spill where there is a mask.
		t.flashMatrices = []flashMatrixTile{{8, 1, 64, 2, 64}, {8, 1, 32, 2, 128}, {8, 1, 32, 1, 0}, {4, 1, 32, 1, 0}, {2, 1, 32, 1, 0}}
		t.flashTiles = []tile{
			{64, 64, 16, 4, 4}, // 38 KiB at 128 elements a head
			{32, 64, 16, 4, 4},
			{32, 32, 16, 4, 2},
			{16, 32, 16, 2, 2},
		}
		// One subgroup per column reads 512 contiguous bytes of f32 a step; four to
		// a workgroup keep columns of one workgroup close in memory.
		// By one column, 8 rows of f32 bring 32 bytes of A through the cache for each
		// element of B: 14336x14336 of f16 take 170 us with 4 rows and 484 with 8.
		t.vecWorkgroup, t.vecColumns, t.vecRows = 128, 1, nvidiaRows
		// Blocks: four columns share A, which takes more of the cache's bandwidth than
		// the few bytes of B do, and four subgroups share a column so that workgroups
		// stay many. 4096x14336 by one row, microseconds, with a subgroup and 2 columns,
		// four and 2, four and 4, in runs of 16: q4_0 25.4, 23.8, 19.7; q8_0 32.5, 32.1,
		// 28.8. Bytes as halves instead of integers converted: q4_0 18.4, q4_K 27.2 to
		// 21.9; as the last bits of floats from 2^23 on: 20.5, 28.1. Runs of 8, 16, 32
		// elements then: q4_0 21.0, 18.4, 25.2; q4_K 38.5, 26.6, 21.9; q8_0 27.7, 28.8,
		// 37.1; mxfp4 32.0, 35.8, 42.8; tq2_0 at 16 and 32 17.5, 16.2. Sixteen bytes of
		// quants a load: q4_K 21.9 to 20.8, q5_K 31.3 to 27.9.
		t.blockRun, t.blockRunK, t.blockLanes, t.blockColumns = 16, 32, 128, 4
		t.blocks, t.units, t.subnormals = nvidiaBlocks, nvidiaUnits, true
		return t
	},
}
