package target

// arm: Mali keeps shared memory in the ordinary cache, so a tile staged there is
// read no faster than the operand itself, and barriers stall few resident
// invocations: small workgroups, small tiles, more work in registers. More than
// 32 registers per invocation halve the resident threads.
var arm = class{
	name: "arm",
	owns: func(c Caps) bool { return c.VendorID == VendorARM },
	tune: func(caps Caps) tuning {
		// Phones of 2023 have four channels of LPDDR5X-8533, 68 GB/s, for a GPU of 7 to 11
		// cores and all else. Launches are guessed.
		t := genericTuning(caps, machine{Machine{CopyGBps: 40, VectorF32: 1.7, MatrixF16: 3.4, MatrixI8: 6.8, LaunchNs: 10000}, 8})
		t.mapWorkgroup = 64
		t.rowWorkgroup, t.rowLanes, t.rowPerLane, t.rowCache = 64, 64, 8, 8
		t.tiles = []tile{
			{32, 32, 16, 4, 4},
			{16, 64, 16, 4, 4},
			{16, 16, 16, 2, 2},
		}
		t.vecWorkgroup, t.vecColumns, t.vecLanes = 64, 1, 16
		return t
	},
}
