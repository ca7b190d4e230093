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
	// it reads on in memory, up to the bound of a symbol or in padding, and stores no more than there is
	EdgeOverread
	EdgeClamped // reads and stores beyond the end are held back one by one
)

// EdgeOf returns how a schedule deals with the end of the rows, the columns or
// the contraction. Only tiles that tensor addressing loads are better off in
// any other way than clamped: holding reads back halves their speed.
func EdgeOf(k *kernel.Kernel, s kernel.Schedule, axis int) Edge {
	extent, tile := tileOf(k, s, axis)
	switch {
	case DivisibleBy(extent, tile):
		return EdgeNone
	case s.Variant != kernel.VarCoopMat2 || axis == k.FoldAxis():
		return EdgeClamped
	case !extent.IsStatic() && extent.Max()%int64(tile) == 0, spare(k, axis, tile):
		return EdgeOverread
	}
	return EdgeClamped
}

// WholeTiles returns the extent of an axis at the bound of every symbol, rounded
// up to whole tiles.
func WholeTiles(k *kernel.Kernel, s kernel.Schedule, axis int) int64 {
	extent, tile := tileOf(k, s, axis)
	return ceilDiv(extent.Max(), int64(tile)) * int64(tile)
}

// tileOf returns the extent of the rows, columns or contraction, and how much of
// it a tile has.
func tileOf(k *kernel.Kernel, s kernel.Schedule, axis int) (extent ir.Dim, tile int) {
	switch axis {
	case len(k.Parallel) - 2:
		return k.Parallel[axis], s.TileM
	case len(k.Parallel) - 1:
		return k.Parallel[axis], s.TileN
	}
	return k.Fold, s.TileK
}
