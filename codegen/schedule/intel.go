package schedule

import "github.com/vkc-go/vkc/codegen/device"

// intel returns the heuristics of Intel GPUs. A hardware thread runs 8, 16 or 32 invocations and has 4 KiB of
// registers. That is 128 bytes per invocation at 32 invocations, so thread tiles of 8x8 would spill.
func intel(caps device.Caps) heuristics {
	t := generic(caps)
	t.mapWorkgroup = 128
	t.rowWorkgroup, t.rowLanes, t.rowPerLane, t.rowCache = 128, 512, 8, 8
	t.tiles = []ratedTile{
		{tile: tile{64, 64, 16, 4, 4}, Efficiency: 0.55},
		{tile: tile{32, 64, 16, 4, 4}, Efficiency: 0.37},
		{tile: tile{16, 64, 16, 2, 4}, Efficiency: 0.18},
		{tile: tile{32, 32, 16, 2, 2}, Efficiency: 0.2},
	}
	t.vecWorkgroup, t.vecColumns = 64, 1
	return t
}
