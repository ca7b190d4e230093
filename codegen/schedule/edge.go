package schedule

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Edge says how to handle the last tile along an axis of a matmul.
type Edge int

// The edges.
const (
	EdgeNone Edge = iota // tiles are always whole
	// it reads beyond the end, up to the bound of a symbol or into padding, and stores only what exists
	EdgeOverread
	EdgeClamped // reads and stores beyond the end are guarded individually
)

// EdgeOf returns how a variant handles the end of the rows, the columns or the contraction. Everything is clamped
// except tiles loaded by tensor addressing, where clamping would halve the speed.
func EdgeOf(k *kernel.Kernel, v kernel.Variant, t kernel.Tile, axis int) Edge {
	extent, tile := edgeOf(k, t, axis)
	switch {
	case DivisibleBy(extent, tile):
		return EdgeNone
	case v != kernel.VarCoopMat2 || axis == k.FoldAxis():
		return EdgeClamped
	case !extent.IsStatic() && extent.Max()%int64(tile) == 0, spare(k, axis, tile):
		return EdgeOverread
	}
	return EdgeClamped
}

// WholeTiles returns the extent of an axis with every symbol at its bound, rounded up to whole tiles.
func WholeTiles(k *kernel.Kernel, t kernel.Tile, axis int) int64 {
	extent, tile := edgeOf(k, t, axis)
	return ceilDiv(extent.Max(), int64(tile)) * int64(tile)
}

// edgeOf returns the extent of the rows, columns or contraction, and the size of a tile along it.
func edgeOf(k *kernel.Kernel, t kernel.Tile, axis int) (extent ir.Dim, tile int) {
	switch axis {
	case len(k.Parallel) - 2:
		return k.Parallel[axis], t.TileM
	case len(k.Parallel) - 1:
		return k.Parallel[axis], t.TileN
	}
	return k.Fold, t.TileK
}
