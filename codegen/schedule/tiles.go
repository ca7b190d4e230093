package schedule

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
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

// AxisTiles is one factor of a grid dimension: the number of tiles of Tile points along a parallel axis.
type AxisTiles struct {
	Axis int
	Tile int
}

// MatGrid maps the workgroups of a matmul to the grid. It has the factors of each grid dimension, fastest first.
type MatGrid [3][]AxisTiles

// Grid returns the workgroup counts of a kernel with this MatGrid.
func (g MatGrid) Grid(k *kernel.Kernel) kernel.Grid {
	var out kernel.Grid
	for d, factors := range g {
		out[d] = []kernel.GridFactor{}
		for _, f := range factors {
			out[d] = append(out[d], kernel.GridFactor{Extent: k.Parallel[f.Axis], Tile: int64(f.Tile)})
		}
	}
	return out
}

// MatMulGrid returns the grid of a matmul in tiles: the tiles along the columns are in x, the tiles along the rows in
// y, and the batch in z. If y or z exceeds the device's limit (65535 on most), the rows or the batch move to x, which
// allows 2^31-1 on NVIDIA and AMD. If nothing fits, the error names the matmul and the limits.
func MatMulGrid(k *kernel.Kernel, s kernel.Tile, caps device.Caps) (MatGrid, error) {
	r := len(k.Parallel)
	cols := []AxisTiles{{r - 1, max(s.TileN, 1)}}
	rows := []AxisTiles{{r - 2, max(s.TileM, 1)}}
	var batch []AxisTiles
	for i := r - 3; i >= 0; i-- {
		batch = append(batch, AxisTiles{i, 1})
	}
	// Take the first layout that the device allows.
	layouts := []MatGrid{
		{cols, rows, batch},
		{slices.Concat(cols, rows), nil, batch},
		{slices.Concat(cols, batch), rows, nil},
		{slices.Concat(cols, rows, batch), nil, nil},
	}
	for _, g := range layouts {
		if g.fits(k, caps) {
			return g, nil
		}
	}
	return MatGrid{}, fmt.Errorf("schedule: kernel %s: a product of batch %d, %d rows and %d columns in tiles of "+
		"%dx%d has more workgroups than %s allows (%d x %d x %d); split the batch or the rows",
		k.Name, matShapeOf(k).Batch, matShapeOf(k).M, matShapeOf(k).N, s.TileM, s.TileN, caps.Name,
		caps.MaxWorkgroupCount[0], caps.MaxWorkgroupCount[1], caps.MaxWorkgroupCount[2])
}

// tileOf returns the tile of a matmul's schedule.
func tileOf(s kernel.Schedule) kernel.Tile { return s.(interface{ Tiles() kernel.Tile }).Tiles() }

// fits reports whether a device allows the workgroup counts.
func (g MatGrid) fits(k *kernel.Kernel, caps device.Caps) bool {
	return checkGrid(g.Grid(k), caps) == nil
}

// checkGrid returns an error if a device does not allow a grid's workgroup counts, with every symbol at its bound.
func checkGrid(g kernel.Grid, caps device.Caps) error {
	for dim, factors := range g {
		// kernel.Grid counts in int32, even if the device allows more.
		n, most := int64(1), int64(min(caps.MaxWorkgroupCount[dim], math.MaxInt32))
		for _, f := range factors {
			n *= max(ceil.Div(f.Extent.Max(), f.Tile), 1)
			if n > most {
				return fmt.Errorf("grid dimension %d has up to %d workgroups or more, the device allows %d", dim, n,
					most)
			}
		}
	}
	return nil
}

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

// tails lists the cuts of a matmul on cooperative matrices along its rows or columns. A separate kernel computes the
// tail, which fills no tile, or no wave of workgroups, of the main kernel. The tail has tiles of its own.
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
