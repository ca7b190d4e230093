package target

// cpu: drivers such as lavapipe run a workgroup on one thread, its invocations
// as SIMD lanes (8 with 256-bit vectors), and every barrier as a return to a
// loop over them with all live values in memory. So: few workgroups suffice,
// few barriers matter most, and a reduction is best left to one invocation.
var cpu = class{
	name: "cpu",
	owns: func(c Caps) bool { return c.Type == DeviceCPU || c.VendorID == VendorMesa },
	tune: func(caps Caps) tuning {
		t := genericTuning(caps, machine{cores: 8, memoryRate: 14, cacheRate: 14, matrixRate: 0.05, launchTime: 20000, normTime: 36000})
		t.fill = 16
		t.mapWorkgroup = 64
		t.mapTiles = false // its caches hold lines across, and a barrier costs more
		t.rowWorkgroup, t.rowLanes, t.rowPerLane, t.rowCache, t.rowSerial = 32, 32, 32, 0, 64
		// Large thread tiles pay, since SIMD lanes have no shared registers to
		// run out of. 512^3 in lavapipe of Mesa 26.1 on 4 cores, GFLOP/s: 55-60 with
		// 64 invocations of 8x8, 43 with 128 of 8x4, 34 with 256 of 4x4; 128x128
		// tiles of 8x8 reach 43.
		t.tiles = []tile{
			{64, 64, 16, 8, 8},
			{32, 32, 16, 8, 8},
			{16, 32, 16, 4, 8},
			{16, 16, 16, 4, 4},
		}
		// Yet tiles straight from memory are two to three times faster: a load at
		// one place for all lanes costs one instruction, any other one for each lane,
		// and shared memory makes all of them such. 512x768x256 in Mesa 26.1,
		// GFLOP/s of a core by its own time, as f32, f16, q8_0, q4_K:
		//
		//	tile 64x64, 8x8 an invocation     14 14 14 13
		//	direct, 8x1 an invocation         16 16 16
		//	        16x1                      20 19 18
		//	        8x4                       27 26 30
		//	        16x2                      26 28 27
		//	        16x4                      38 37 41 30
		//	        16x8, 4 of K              31 28 29
		//
		// Two products in one kernel: 18 in the tile, 20 with 16x4 each, 32-37 with
		// 16x2 each. 4 or 8 of K at a time are alike; 16 are slower, as are 32 rows of 8.
		// Workgroups of 8 to 256 are alike: small ones share few rows evenly.
		t.direct = tile{16, 64, 8, 16, 4}
		// Its matrix units are emulated: f16 512^3 takes lavapipe 38 ms on them in
		// the best of six tiles, 20 ms in the tile above.
		t.matrixTiles = nil
		t.flashMatrices = nil
		t.flashWorkgroup, t.flashLanes, t.flashKeys = 32, 8, 4
		t.flashTiles = []tile{
			{32, 32, 16, 8, 8},
			{16, 32, 16, 4, 8},
			{8, 16, 16, 2, 4},
		}
		// Columns per invocation share the loop and the reading of A. 4096x4096 by
		// one row, GB/s of B read with 1, 2, 4 columns: f32 5, 12, 14; f16 4, 12,
		// 17; q4_0 1.7, 3.8, 3.9.
		t.vecWorkgroup, t.vecColumns, t.vecLanes = 32, 4, 8
		t.blockRun, t.blockRunK = 16, 16 // unrolled further, the driver compiles for a second
		return t
	},
}
