package target

// generic covers every device that no other class owns. It takes only what the
// caps say: middling tiles that fit 16 KiB of shared memory, which is the least
// Vulkan allows, and workgroups of 128, likewise.
var generic = class{
	name: "generic",
	owns: func(Caps) bool { return true },
	tune: genericTuning,
}

func genericTuning(caps Caps) tuning {
	return tuning{
		fill:         fillOf(caps),
		subgroup:     subgroupOf(caps),
		mapWorkgroup: 128,
		rowWorkgroup: 128,
		rowLanes:     128,
		rowPerLane:   8,
		rowSerial:    16,
		rowCache:     16,
		tiles: []tile{
			{64, 64, 16, 4, 4}, // 10 KiB; 256 invocations where the device has them
			{64, 32, 16, 4, 4}, // 128 invocations
			{32, 32, 16, 4, 2}, // 128
			{16, 64, 16, 2, 4}, // few rows
			{16, 16, 16, 2, 2}, // small results spread over more workgroups
			{8, 8, 8, 1, 1},    // fits anything
		},
		vecWorkgroup: 64,
		vecColumns:   1,
		vecLanes:     16,
	}
}
