package target

// intel: a hardware thread runs 8, 16 or 32 invocations and owns 4 KiB of
// registers, 128 bytes per invocation at 32: thread tiles of 8x8 would spill.
var intel = class{
	name: "intel",
	owns: func(c Caps) bool { return c.VendorID == VendorIntel },
	tune: func(caps Caps) tuning {
		// An Arc A770 has 560 GB/s of memory and 138 TFLOP/s in f16 by its maker's data
		// sheet, of which kernels reach a part. Caches and launches are guessed.
		t := genericTuning(caps, machine{cores: 32, memoryRate: 450, cacheRate: 1350, matrixRate: 80, launchTime: 5000, normTime: 9000})
		t.mapWorkgroup = 128
		t.rowWorkgroup, t.rowLanes, t.rowPerLane, t.rowCache = 128, 512, 8, 8
		t.tiles = []tile{
			{64, 64, 16, 4, 4},
			{32, 64, 16, 4, 4},
			{16, 64, 16, 2, 4},
			{32, 32, 16, 2, 2},
		}
		t.vecWorkgroup, t.vecColumns = 64, 1
		return t
	},
}
