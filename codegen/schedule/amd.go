package schedule

import (
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/ir"
)

// amd returns the heuristics of AMD GPUs. RDNA runs waves of 32 or 64 invocations, GCN and CDNA waves of 64. The
// driver's default is the size that its compiler prefers for compute. Shared memory is 64 KiB with 32 banks.
func amd(caps device.Caps) heuristics {
	t := generic(caps)
	t.cache = max(t.cache, int64(caps.Cores)*64<<10) // 6 MB for 96 cores on Navi 31, without the last-level cache
	t.mapWorkgroup = 256
	t.rowWorkgroup, t.rowLanes, t.rowPerLane, t.rowCache = 256, 1024, 16, 16
	t.tiles = []ratedTile{
		{tile: tile{128, 128, 16, 8, 8}, Efficiency: 0.6},
		{tile: tile{64, 64, 16, 4, 4}, Efficiency: 0.55},
		{tile: tile{32, 64, 16, 4, 4}, Efficiency: 0.37},
		{tile: tile{16, 64, 16, 2, 4}, Efficiency: 0.18},
		{tile: tile{32, 32, 16, 2, 2}, Efficiency: 0.2},
	}
	if f8, f32 := component(ir.F8E4M3), component(ir.F32); !caps.HasMatrix(16, 16, 16, f8, f32) {
		t.operandLanes = 16 // RDNA 3, which has no f8, holds each element twice; RDNA 4 does not
	}
	t.unrolledRow = 128 // Mesa's radv unrolls rows of up to 128 elements (golden/drivers)
	// A workgroup of two waves of 64: one column each.
	t.vecWorkgroup, t.vecColumns = 128, 1
	return t
}
