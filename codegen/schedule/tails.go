package schedule

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
)

// This file proposes where to cut a matmul along its rows or columns, so that a separate kernel computes the tail. A
// tail fills no tile, or no wave of workgroups, of the main kernel. It has tiles of its own that suit it better.

// tails lists the cuts of a matmul on cooperative matrices.
func (h heuristics) tails(k *kernel.Kernel, caps device.Caps) (list []kernel.Tail) {
	row, col := len(k.Parallel)-2, len(k.Parallel)-1
	for _, axis := range []int{row, col} {
		if !k.Parallel[axis].IsStatic() {
			continue
		}
		var cuts []kernel.Tail
		for _, tl := range h.matrixTilesOf(k) {
			cuts = append(cuts, edgeTail(k, axis, tl))
		}
		if tl, ok := h.fastestTile(k, caps); ok && h.coreRegisters > 0 { // else the size of a wave is a guess
			cuts = append(cuts, h.waveTail(k, axis, tl))
		}
		for _, cut := range cuts {
			if cut.From > 0 && cut.From < k.Parallel[axis].Add && !slices.Contains(list, cut) {
				list = append(list, cut)
			}
		}
	}
	return list
}

// edgeTail cuts a matmul before the last tile along an axis, if that tile is partial.
func edgeTail(k *kernel.Kernel, axis int, tl matrixTile) kernel.Tail {
	extent, tile, col := k.Parallel[axis].Add, tileAlong(k, axis, tl), len(k.Parallel)-1
	from, p := extent/tile*tile, k.MatMuls[0]
	// A few columns are the few rows of the transposed matmul. Tiles would be mostly padding.
	few := axis == col && extent-from <= MaxMatVecRows && len(k.MatMuls) == 1 && !p.ByteRows && !k.ReadsBlocks(p.B)
	return kernel.Tail{Axis: axis, From: from, Swap: few}
}

// waveTail cuts a matmul after the tiles along an axis that fill whole waves of workgroups. The last wave would leave
// cores idle (M-wave-tails).
func (h heuristics) waveTail(k *kernel.Kernel, axis int, tl matrixTile) kernel.Tail {
	tile, groups := tileAlong(k, axis, tl), matShapeOf(k).workgroups(tl.M, tl.N)
	across := groups / ceil.Div(k.Parallel[axis].Add, tile) // workgroups for each tile along the axis
	wave := h.cores * int64(max(tl.PerCore, 1))
	inWaves := groups / wave * wave // workgroups in whole waves
	return kernel.Tail{Axis: axis, From: inWaves / across * tile, Only: true}
}

// tileAlong is the extent of a tile along one of the last two axes of a matmul.
func tileAlong(k *kernel.Kernel, axis int, tl matrixTile) int64 {
	if axis == len(k.Parallel)-2 {
		return int64(tl.M)
	}
	return int64(tl.N)
}

// fastestTile returns the tile with the highest rate for a matmul that fills all waves of workgroups. It returns false
// if no tile can run the matmul.
func (h heuristics) fastestTile(k *kernel.Kernel, caps device.Caps) (fastest matrixTile, ok bool) {
	least := 0.0
	for tl, s := range h.pricedTiles(k, caps) {
		if slow := h.slowdown(k, s).factor / tl.Efficiency; !ok || slow < least {
			fastest, least, ok = tl, slow, true
		}
	}
	return fastest, ok
}
