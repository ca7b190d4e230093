package target

// intel: a hardware thread runs 8, 16 or 32 invocations and owns 4 KiB of
// registers, 128 bytes per invocation at 32: thread tiles of 8x8 would spill.
var intel = class{
	name: "intel",
	owns: func(c Caps) bool { return c.VendorID == VendorIntel },
	tune: func(caps Caps) tuning {
		// An Arc A770 has 560 GB/s of memory, of which a copy reaches a part; the rest is of its
		// maker's data sheet. Launches are guessed.
		t := genericTuning(caps, machine{Machine{CopyGBps: 450, VectorF32: 19, MatrixF16: 138, MatrixI8: 275, LaunchNs: 5000}, 32})
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
