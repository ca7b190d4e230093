package schedule

import "github.com/vkc-go/vkc/codegen/device"

// arm returns the heuristics of Mali GPUs. Shared memory is in the ordinary cache, so reading a staged tile is no
// faster than reading the operand, and few invocations are resident to hide barriers. So workgroups and tiles are
// small, and more values stay in registers. With more than 32 registers per invocation, only half as many threads are
// resident.
func arm(caps device.Caps) heuristics {
	t := generic(caps)
	t.mapWorkgroup = 64
	t.rowWorkgroup, t.rowLanes, t.rowPerLane, t.rowCache = 64, 64, 8, 8
	t.tiles = []ratedTile{
		{tile: tile{32, 32, 16, 4, 4}, Efficiency: 0.5},
		{tile: tile{16, 64, 16, 4, 4}, Efficiency: 0.45},
		{tile: tile{16, 16, 16, 2, 2}, Efficiency: 0.2},
	}
	t.vecWorkgroup, t.vecColumns, t.vecLanes = 64, 1, 16
	return t
}
