package schedule

import (
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// generic returns the heuristics of devices that no other class covers. It relies only on the caps. Each list of tiles
// for plain matmuls and attention has tiles for any Vulkan device: with 16 KiB of shared memory, and workgroups of 128
// invocations. Larger tiles are for devices with more.
func generic(caps device.Caps) heuristics {
	return heuristics{
		machine: machine{device.MachineOf(caps), device.CoresOf(caps)},
		handicaps: handicaps{clamped: 1.5, withDriver: 3, shifted: 1.75, unaligned: 3, computed: 2, computedRows: 64,
			gathered: 3, gatheredTile: 1.4, seldomFull: 1.5}, // guessed
		fill:           2 * device.CoresOf(caps),
		cache:          2 << 20,
		subgroup:       subgroupOf(caps),
		registers:      255, // most devices have more, or their class sets less
		byteWord:       1,
		mapWorkgroup:   128,
		mapTiles:       true,
		coarsenGathers: true, // several loads are in flight at once (M-gather-coarsening)
		rowWorkgroup:   128,
		rowLanes:       128,
		rowPerLane:     8,
		rowSerial:      16,
		rowCache:       16,
		// Extrapolated from measurements on one device: large tiles read less, small ones fill the device.
		tiles: []ratedTile{
			{tile: tile{64, 64, 16, 4, 4}, Efficiency: 0.55}, // 10 KiB; 256 invocations if the device has them
			{tile: tile{64, 32, 16, 4, 4}, Efficiency: 0.4},  // 128 invocations
			{tile: tile{32, 32, 16, 4, 2}, Efficiency: 0.2},  // 128
			{tile: tile{16, 64, 16, 2, 4}, Efficiency: 0.18}, // few rows
			{tile: tile{16, 16, 16, 2, 2}, Efficiency: 0.07}, // small results spread over more workgroups
			{tile: tile{8, 8, 8, 1, 1}, Efficiency: 0.02},    // for any device
		},
		// Not measured: large tiles read less, small ones fill the device.
		matrixTiles: []matrixTile{
			{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 128, N: 128, K: 32, Efficiency: 0.64},
			{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 64, K: 32, Efficiency: 0.48},
			{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 1, M: 32, N: 32, K: 32, Efficiency: 0.24},
			{Variant: kernel.VarCoopMat, SubgroupsM: 1, SubgroupsN: 1, M: 16, N: 16, K: 16, Efficiency: 0.08},
		},
		flashMatrices: []flashMatrixTile{
			{Subgroups: 4, Keys: 64},
			{Subgroups: 4, Keys: 32},
			{Subgroups: 2, Keys: 32},
			{Subgroups: 4, Keys: 16},
			{Subgroups: 2, Keys: 16},
			{Subgroups: 1, Keys: 16},
			{Subgroups: 4, Keys: 16, Parts: 2},
			{Subgroups: 2, Keys: 16, Parts: 2},
		},
		flashTiles: []ratedTile{
			{tile: tile{32, 32, 16, 4, 2}, Efficiency: 0.2}, // 128 invocations, 18 KiB at 128 elements a head
			{tile: tile{16, 32, 16, 2, 2}, Efficiency: 0.16},
			{tile: tile{16, 16, 8, 2, 2}, Efficiency: 0.1}, // 8 KiB
			{tile: tile{8, 8, 4, 1, 1}, Efficiency: 0.02},  // for any device
		},
		flashWorkgroup: 128, flashLanes: 8, flashKeys: 2,
		vecWorkgroup: 64,
		vecColumns:   1,
		vecLanes:     16,
		blockRun:     16,
		blockRunK:    32,
		blockColumns: 2,
		blocks:       unmeasuredBlocks(caps),

		coreInvocations: int(caps.SubgroupsPerCore * caps.SubgroupSize),
	}
}
