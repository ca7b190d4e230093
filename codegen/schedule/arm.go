package schedule

import "github.com/vkc-go/vkc/codegen/device"

// arm: Mali keeps shared memory in the ordinary cache, so reading a staged tile is no faster than reading the operand,
// and few invocations are resident to cover barriers. So workgroups and tiles are small, with more work in registers.
// More than 32 registers per invocation halve the resident threads.
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
