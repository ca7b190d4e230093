package target

// qualcomm: Adreno runs waves of 64 or 128 and has its shared memory, 32 KiB, in
// the shader processor. Many registers leave few waves resident, so that invocations
// compute tiles of 4x4 at most.
var qualcomm = class{
	name: "qualcomm",
	owns: func(c Caps) bool { return c.VendorID == VendorQCOM },
	heuristics: func(caps Caps) heuristics {
		t := genericHeuristics(caps, "qualcomm-adreno740")
		t.rowLanes = 256
		t.vecWorkgroup = 128
		return t
	},
}
