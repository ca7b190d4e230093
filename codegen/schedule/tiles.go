package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
)

// ratedTile is a tile of a matmul with its measured speed, in its fastest layout in shared memory.
type ratedTile struct {
	tile
	Stages        int     // if not the usual number for tiles of its size
	Paired, Steps bool    // for float matmuls; see kernel.RegisterTile
	Efficiency    float64 // fraction of the peak rate; see matrixTile
	Alone         float64 // the same with one workgroup per core
}

// matTiles lists tiles for a matmul by increasing estimated time. Tiles that need too many registers (see spills) or
// would be mostly empty come last, smallest first. [New] rejects tiles that are too large for the device.
func (h heuristics) matTiles(k *kernel.Kernel) []Candidate {
	sh := matShapeOf(k)
	var fitting, rest []ratedTile
	for _, tl := range h.tiles {
		filled := 4*sh.M > int64(tl.M) && 4*sh.N > int64(tl.N) // more than a quarter of each axis
		if filled && !tl.spills(len(k.MatMuls)) {
			fitting = append(fitting, tl)
		} else {
			rest = append([]ratedTile{tl}, rest...)
		}
	}
	slices.SortStableFunc(fitting, func(a, b ratedTile) int {
		return cmp.Compare(h.tileTime(a, sh), h.tileTime(b, sh))
	})
	var all []Candidate
	for _, tl := range append(fitting, rest...) {
		all = append(all, Candidate{tl.scheduleOf(k), fmt.Sprintf("%dx%dx%d in tiles of %dx%d: %d workgroups",
			sh.M, sh.N, sh.K, tl.M, tl.N, sh.workgroups(tl.M, tl.N))})
	}
	for _, tl := range generic(device.Caps{}).tiles { // so that any device has a tile that fits
		all = append(all, Candidate{tl.scheduleOf(k), fmt.Sprintf("%dx%dx%d in small tiles", sh.M, sh.N, sh.K)})
	}
	return all
}

// tileTime estimates the time of a matmul in a tile, in nanoseconds.
func (h heuristics) tileTime(tl ratedTile, sh matShape) float64 {
	m := matrixTile{M: tl.M, N: tl.N, Efficiency: tl.Efficiency, Alone: tl.Alone}
	return h.matrixTime(m, sh.workgroups(tl.M, tl.N), ceil.Multiple(sh.K, int64(tl.K)), h.VectorF32)
}

// vectorTime estimates the time in nanoseconds of a matmul without cooperative matrices, in its fastest tile. Its
// contraction is split into the given number of parts, and the time includes the addition of the parts. vectorTime
// assumes the speed of f32. If int8 operands are gathered (read at indices from a tensor), it multiplies the time by a
// measured factor, gatheredTile.
func (h heuristics) vectorTime(k *kernel.Kernel, parts int) float64 {
	sh := matShapeOf(k)
	sh.Batch, sh.K = sh.Batch*int64(parts), sh.K/int64(parts) // each part is like a matmul of its own
	tiles := slices.DeleteFunc(slices.Clone(h.tiles), func(tl ratedTile) bool { return tl.spills(len(k.MatMuls)) })
	best := least(tiles, func(tl ratedTile) float64 { return h.tileTime(tl, sh) })
	_, bytes := ByteMatMuls(k)
	gathered := func(p kernel.MatMul) bool { return gathers(k, p.A) || gathers(k, p.B) }
	if bytes && slices.ContainsFunc(k.MatMuls, gathered) {
		best *= h.gatheredTile
	}
	return float64(best*float64(len(k.MatMuls))) + h.addingTime(k, parts)
}

// splitsFloats reports whether the heuristics can price a split of a matmul's contraction without cooperative matrices.
// They can for matmuls in float tiles, on devices with a measured speed of tiles at one workgroup per core (Alone).
func (h heuristics) splitsFloats(k *kernel.Kernel, caps device.Caps) bool {
	if !slices.ContainsFunc(h.tiles, func(tl ratedTile) bool { return tl.Alone > 0 }) {
		return false
	}
	_, bytes := ByteMatMuls(k)
	s, _, _ := Select(k, caps)
	_, tiles := s.(kernel.MatTile)
	_, vecs := s.(kernel.MatVec)
	return (tiles || vecs && matShapeOf(k).M > MaxMatVecRows) && !bytes && !readsBytes(k)
}

// least returns the smallest of the times of tiles, or 0 if there are no tiles.
func least[T any](tiles []T, time func(T) float64) (best float64) {
	for _, tl := range tiles {
		if t := time(tl); best == 0 || t < best {
			best = t
		}
	}
	return best
}

// spills reports whether an invocation's accumulators, for the given number of matmuls, leave too few registers for the
// operands. The limit is lower for several matmuls, because each has operands in registers.
func (t tile) spills(matmuls int) bool {
	sums := t.ThreadM * t.ThreadN * matmuls
	return sums > maxAccumulators/2 && matmuls > 1 || sums > maxAccumulators
}

// scheduleOf returns the tile as a schedule for a matmul, in its fastest layout for floats. For int8, TileK is four
// times as large, because each word of shared memory holds four elements.
func (t ratedTile) scheduleOf(k *kernel.Kernel) kernel.MatTile {
	if _, bytes := ByteMatMuls(k); bytes {
		t.K, t.Paired, t.Steps = 4*t.K, false, false
	}
	s := t.schedule()
	s.Stages, s.Paired, s.Steps = max(s.Stages, t.Stages), t.Paired, t.Steps
	return s
}

// schedule returns the tile as a schedule for a matmul of floats.
func (t tile) schedule() kernel.MatTile {
	s := kernel.MatTile{Launch: kernel.Launch{Variant: kernel.VarMatTile, Workgroup: t.workgroup(), Vec: 4},
		Tile: kernel.Tile{TileM: t.M, TileN: t.N, TileK: t.K}, ThreadM: t.ThreadM, ThreadN: t.ThreadN}
	if t.ThreadM*t.ThreadN > 64 {
		s.Stages = 2 // so many registers leave room for few subgroups per core, too few to hide the latency of loads
	}
	return s
}
