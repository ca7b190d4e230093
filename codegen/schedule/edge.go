package schedule

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// Edge says how a matmul handles the last tile along an axis, which may be partial.
type Edge int

// The edges.
const (
	EdgeNone Edge = iota // tiles are always whole
	// The matmul reads beyond the end, up to the bound of a symbol or into padding. It stores only results that exist.
	EdgeOverread
	EdgeClamped // every read and store beyond the end is guarded
)

// EdgeOf returns how a variant handles the last tile along the rows, columns or contraction axis. Partial tiles are
// clamped, except in tiles that are loaded by tensor addressing: clamping would halve their speed.
func EdgeOf(k *kernel.Kernel, v kernel.Variant, t kernel.Tile, axis int) Edge {
	extent, tile := edgeOf(k, t, axis)
	switch {
	case DivisibleBy(extent, tile):
		return EdgeNone
	case v != kernel.VarCoopMat2 || axis == k.FoldAxis():
		return EdgeClamped
	case !extent.IsStatic() && extent.Max()%int64(tile) == 0, paddedToTiles(k, axis, tile):
		return EdgeOverread
	}
	return EdgeClamped
}

// WholeTiles returns the extent of an axis, with every symbol at its bound, rounded up to whole tiles.
func WholeTiles(k *kernel.Kernel, t kernel.Tile, axis int) int64 {
	extent, tile := edgeOf(k, t, axis)
	return ceil.Multiple(extent.Max(), int64(tile))
}

// edgeOf returns the extent of a matmul's rows, columns or contraction axis, and the size of a tile along it.
func edgeOf(k *kernel.Kernel, t kernel.Tile, axis int) (extent ir.Dim, tile int) {
	switch axis {
	case len(k.Parallel) - 2:
		return k.Parallel[axis], t.TileM
	case len(k.Parallel) - 1:
		return k.Parallel[axis], t.TileN
	}
	return k.Fold, t.TileK
}
