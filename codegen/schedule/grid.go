package schedule

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
)

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
