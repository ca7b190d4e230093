package schedule

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/ceil"
)

// rate is the speed of a tile; see [matrixTile].
type rate struct{ Efficiency, Alone float64 }

// TileRate is a tile of a table of heuristics, with its rates and the kernels that it suits.
type TileRate struct {
	Table RateTable
	Tile  string // as in [Rated]
	For   string // the kernels that it suits, "" for all
	// Efficiency is a fraction of the device's peak rate, Alone the same with one workgroup per core, or 0.
	Efficiency, Alone float64

	tile matrixTile
}

// Key identifies the tile among all tiles.
func (r TileRate) Key() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Table, r.Tile, r.For))
}

// Suits reports whether the tile is for a kernel with these traits, in the given measured tile.
func (r TileRate) Suits(t Traits, m Rated) bool {
	return r.Table == m.Table && r.Tile == m.Tile && r.tile.suits(t)
}

// Time estimates the nanoseconds of a kernel in the tile, without its launch and without regard to memory.
func (r TileRate) Time(m Rated, machine device.Machine, cores int64) float64 {
	tl := r.tile
	tl.Efficiency, tl.Alone = r.Efficiency, r.Alone
	return tl.time(m.Groups, cores, m.Flops, r.Table.peak(machine)) * m.Slow
}

// Square returns the facts of a square matmul of this size in the tile, or of an attention of as many queries and keys
// with 32 heads of 64 elements.
func (r TileRate) Square(size int64) Rated {
	sh, n := matShape{Batch: 1, M: size, N: size, K: size}, max(r.tile.MatMuls, 1)
	m := Rated{Table: r.Table, Tile: r.Tile, Slow: 1}
	if r.Table == RatesFlash {
		m.Groups, m.Flops = 32*ceil.Div(size, int64(r.tile.M)), tileFlops(r.tile.M, 1, 2*64*(size+flashStart), 1)
		return m
	}
	m.Groups, m.Flops = sh.workgroups(r.tile.M, r.tile.N/n), tileFlops(r.tile.M, r.tile.N/n, size, n)
	return m
}

// peak is the peak rate of a device for the tiles of a table, in thousands of operations per nanosecond.
func (t RateTable) peak(m device.Machine) float64 {
	switch t {
	case RatesMatrix:
		return m.MatrixF16
	case RatesBytes:
		return m.MatrixI8
	case RatesHalves:
		return m.MatrixF16 / 2
	}
	return m.VectorF32
}

// tileRates lists the tiles of all tables.
func (h *heuristics) tileRates() (all []TileRate) {
	h.eachRate(func(r TileRate, _, _ *float64) { all = append(all, r) })
	return all
}

// setRates sets the rates of each tile to the fitted rates for its key. Tiles without fitted rates keep their own.
func (h *heuristics) setRates(fitted map[string]rate) {
	h.eachRate(func(r TileRate, efficiency, alone *float64) {
		if f, ok := fitted[r.Key()]; ok {
			*efficiency, *alone = f.Efficiency, f.Alone
		}
	})
}

// eachRate calls f for each tile of each table, with pointers to its rates.
func (h *heuristics) eachRate(f func(r TileRate, efficiency, alone *float64)) {
	for _, t := range []struct {
		table RateTable
		tiles []matrixTile
	}{{RatesMatrix, h.matrixTiles}, {RatesBytes, h.byteTiles}, {RatesHalves, h.halvesTiles}} {
		for i := range t.tiles {
			tl := &t.tiles[i]
			named := *tl
			if t.table == RatesHalves {
				named.K = 0 // steps are as long as the format wants
			}
			r := TileRate{Table: t.table, Tile: named.name(), For: tl.restrictions(), Efficiency: tl.Efficiency,
				Alone: tl.Alone, tile: *tl}
			f(r, &tl.Efficiency, &tl.Alone)
		}
	}
	for _, t := range []struct {
		table RateTable
		tiles []ratedTile
	}{{RatesFloat, h.tiles}, {RatesFlash, h.flashTiles}} {
		for i := range t.tiles {
			tl := &t.tiles[i]
			r := TileRate{Table: t.table, Tile: tl.name(), Efficiency: tl.Efficiency, Alone: tl.Alone,
				tile: matrixTile{M: tl.M, N: tl.N}}
			f(r, &tl.Efficiency, &tl.Alone)
		}
	}
}

// restrictions describes the kernels that a tile is for, "" for all.
func (tl matrixTile) restrictions() string {
	var parts []string
	for _, p := range []struct {
		holds bool
		text  string
	}{{tl.Blocks, "blocks"}, {tl.Stored, "stored"}, {tl.Runs, "runs"}, {tl.NoRuns, "no-runs"}, {tl.Few, "few-rows"},
		{tl.MatMuls > 0, fmt.Sprint("matmuls=", tl.MatMuls)}} {
		if p.holds {
			parts = append(parts, p.text)
		}
	}
	return strings.Join(parts, " ")
}
