package target

// cpu: drivers such as lavapipe run a workgroup on one thread, its invocations
// as SIMD lanes (8 with 256-bit vectors), and every barrier as a return to a
// loop over them with all live values in memory. So: few workgroups suffice,
// few barriers matter most, and a reduction is best left to one invocation.
var cpu = class{
	name: "cpu",
	owns: func(c Caps) bool { return c.Type == DeviceCPU || c.VendorID == VendorMesa },
	tune: func(caps Caps) tuning {
		t := genericTuning(caps)
		t.fill = 16
		t.mapWorkgroup = 64
		t.rowWorkgroup, t.rowLanes, t.rowPerLane, t.rowCache, t.rowSerial = 32, 32, 32, 0, 64
		t.tiles = []tile{
			{64, 64, 16, 4, 4},
			{32, 32, 16, 4, 4},
			{16, 64, 16, 4, 4},
			{16, 16, 16, 2, 2},
		}
		t.vecWorkgroup, t.vecColumns, t.vecLanes = 32, 1, 8
		return t
	},
}
