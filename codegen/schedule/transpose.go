package schedule

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// minTileExtent is the minimum extent of both axes for transposing through tiles in shared memory. Shorter axes span
// only a few cache lines.
const minTileExtent = 32

// Transposition describes a map that reads tensors along a different axis than it stores: if its stores are adjacent,
// its loads are far apart, or the other way round.
type Transposition struct {
	Inner int            // the innermost parallel axis, along which stores are contiguous
	Other int            // the axis along which Loads are contiguous
	Loads []*kernel.Expr // in the order of kernel.Walk
}

// TranspositionOf finds the transposition in a map, and returns false if there is none. The map's axes must be
// collapsed as far as possible. If there are several other axes, it takes the one with the most loads.
func TranspositionOf(k *kernel.Kernel) (t Transposition, ok bool) {
	inner := len(k.Parallel) - 1
	storesAlong := func(s kernel.Store) bool { return s.Index.Adjacent(inner, 1) } // contiguous elements
	if k.Family != kernel.FamilyMap || k.Guard != nil || inner < 1 || !slices.ContainsFunc(k.Stores, storesAlong) {
		return t, false
	}
	along := make([][]*kernel.Expr, inner)
	kernel.Walk(k.Roots(), func(e *kernel.Expr) {
		if e.Kind != kernel.ExprLoad || k.Bindings[e.Bind].Write || k.Bindings[e.Bind].DType.IsBlock() {
			return
		}
		across, linear := e.Index.Stride(inner)
		if !e.Index.Uses(inner) || linear && across.Equal(kernel.Const(1)) {
			return
		}
		for a := range along {
			if e.Index.Unclamped(a, OctetElems).Adjacent(a, 1) { // clamps matter only at the ends
				along[a] = append(along[a], e)
				return
			}
		}
	})
	t.Inner = inner
	for a, loads := range along {
		if len(loads) > len(t.Loads) {
			t.Other, t.Loads = a, loads
		}
	}
	return t, len(t.Loads) > 0
}

// allMaps lists the schedules of a map. Tiles come first if transposed operands make them worthwhile, and schedules
// with several points per invocation if these share expensive values.
func (h heuristics) allMaps(k *kernel.Kernel) []Candidate {
	tr, ok := TranspositionOf(k)
	if !ok {
		return append(h.repeatedMaps(k), h.maps(k)...)
	}
	tiles := h.tileMaps(k, tr)
	if h.mapTiles && k.Parallel[tr.Inner].Max() >= minTileExtent && k.Parallel[tr.Other].Max() >= minTileExtent {
		return append(tiles, h.maps(k)...)
	}
	return append(h.maps(k), tiles...)
}

// tileMaps returns schedules that transpose through square tiles in shared memory. Tiles and workgroups are smaller for
// elements of less than 4 bytes: fewer invocations then wait at a barrier for the last few bytes (M-transpose).
func (h heuristics) tileMaps(k *kernel.Kernel, tr Transposition) []Candidate {
	narrow := slices.ContainsFunc(tr.Loads, func(v *kernel.Expr) bool {
		return k.Bindings[v.Bind].DType.BlockBytes() < 4
	})
	sides, most := []int{64, 32}, h.mapWorkgroup
	if narrow {
		sides, most = []int{32}, min(most, 128)
	}
	var all []Candidate
	for _, side := range sides {
		all = append(all, shrinking(most, func(wg int) Candidate {
			return Candidate{kernel.MapTile{Launch: launch(kernel.VarMapTile, wg, 4), TileM: side, TileN: side},
				fmt.Sprintf("%d operands lie across: tiles of %dx%d", len(tr.Loads), side, side)}
		})...)
	}
	return all
}

// TransposePitch is the distance, in elements, between lines of a tile in shared memory that is written along one axis
// and read along the other. It is odd, so that neighbours are in different memory banks in both directions.
func TransposePitch(tile int) int { return tile + 1 }

// transposeShared is the shared memory of a transposing map, in bytes: a tile per load.
func transposeShared(k *kernel.Kernel, s kernel.MapTile) int {
	tr, _ := TranspositionOf(k)
	bytes := 0
	for _, v := range tr.Loads {
		bytes += s.TileN * TransposePitch(s.TileM) * max(4, k.Bindings[v.Bind].DType.BlockBytes())
	}
	return bytes
}

// checkMapTile returns an error if a map cannot use the tiles of a schedule.
func checkMapTile(k *kernel.Kernel, s kernel.MapTile) error {
	if _, ok := TranspositionOf(k); !ok {
		return fmt.Errorf("nothing to read through tiles")
	}
	if s.TileM < 4 || s.TileN < 4 || s.TileM%4 != 0 || s.TileN%4 != 0 {
		return fmt.Errorf("tiles of %dx%d are not multiples of 4, the longest vectors", s.TileM, s.TileN)
	}
	if s.TileM*s.TileN%(4*s.Workgroup) != 0 {
		return fmt.Errorf("%d invocations do not divide the %d vectors of a tile", s.Workgroup, s.TileM*s.TileN/4)
	}
	if each := s.TileM * s.TileN / s.Workgroup; each > maxTileElems {
		return fmt.Errorf("each invocation has %d elements of a tile, want at most %d, because its loops are unrolled",
			each, maxTileElems)
	}
	return nil
}

// maxTileElems is the largest number of elements of a tile for each invocation of a map. spirv-opt takes gigabytes for
// an unrolled loop of 512.
const maxTileElems = 128
