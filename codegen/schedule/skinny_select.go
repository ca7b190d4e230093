package schedule

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// skinnyTile is a workgroup of the skinny variant: columns is the number of its subgroups across the columns, depths
// the number along the contraction axis, and step the number of elements that each takes per step.
type skinnyTile struct{ columns, depths, step int }

// formatUnits says when cooperative matrices multiply blocks of a format by few rows, for rows of floats and of int8.
type formatUnits struct{ floats, bytes blockUnits }

// blockUnits is a range of row counts, rows to most, and the tiles to use for it. In this range cooperative matrices
// are fastest. rows is 0 if they never are.
type blockUnits struct {
	rows, most int64
	tile       skinnyTile
	some       []skinnyTile // for 9 to 16 rows, widest first; nil to use tile
	many       skinnyTile   // for more than 16 rows
	// rate is the number of GB/s of blocks that a core reads with 9 to 16 rows, or 0 if it was not measured.
	rate float64
}

// unitsFrom returns blockUnits for row counts from rows to the maximum of a matvec. andMore extends the range to the
// maximum of the skinny variant.
func unitsFrom(rows int64, columns, depths, step int) blockUnits {
	return blockUnits{rows: rows, most: MaxMatVecRows, tile: skinnyTile{columns, depths, step}}
}

func (u blockUnits) andMore(columns, depths, step int) blockUnits {
	u.most, u.many = maxSkinnyRows, skinnyTile{columns, depths, step}
	return u
}

// someBy sets the tiles for 9 to 16 rows, widest first, and the GB/s of blocks that a core reads with them.
func (u blockUnits) someBy(rate float64, tiles ...skinnyTile) blockUnits {
	u.some, u.rate = tiles, rate
	return u
}

// skinny lists schedules that multiply few rows by blocks on cooperative matrices, for formats that were measured to be
// faster this way. For up to MaxMatVecRows rows the kernel must have one matmul, because several take four times as
// long (M-block-units). For more rows, operands that may be rounded to f16 have other tiles.
func (h heuristics) skinny(k *kernel.Kernel, caps device.Caps) []Candidate {
	how, ok := SkinnyOf(k)
	if !ok {
		return nil
	}
	if how.Halves {
		return h.halves(k, how, caps)
	}
	sh, u := matShapeOf(k), h.unitsOf(k)
	if _, rounds := MatrixDType(k); u.rows == 0 || sh.M < u.rows || sh.M > u.most || rounds && sh.M > MaxMatVecRows ||
		len(k.Products) > 1 && sh.M <= MaxMatVecRows {
		return nil
	}
	tl, cores := u.tile, h.fill/2
	switch {
	case sh.M > mostMatVecRows:
		tl = u.many
	case sh.M > MaxMatVecRows && u.some != nil:
		tl = widest(u.some, sh, cores)
	}
	// All matmuls share the shared memory of one, so each has shorter steps.
	tl.step = max(tl.step/len(k.Products), shortestStep)
	var all []Candidate
	for _, tl := range tl.spread(sh, cores) {
		if s, ok := tl.schedule(how, sh, caps); ok {
			all = append(all, Candidate{s, fmt.Sprintf("%d rows on matrix units: B is read once", sh.M)})
		}
	}
	return all
}

// unitsOf returns the row counts and tiles for a matmul's block format and kind of rows.
func (h heuristics) unitsOf(k *kernel.Kernel) blockUnits {
	u := h.units[blocksOf(k)]
	if readsBytes(k) {
		return u.bytes
	}
	return u.floats
}

// skinnyTime estimates the time in nanoseconds of a matmul of 9 to 16 rows on cooperative matrices, from the measured
// rate of reading blocks per core (M-batch). If that is unknown, it returns the reason.
func (h heuristics) skinnyTime(k *kernel.Kernel, s kernel.Skinny) (float64, string) {
	if s.SubgroupsM > 0 {
		sh := matShapeOf(k)
		return h.halvesTime(sh) + h.storeTime(k), ""
	}
	sh, rate := matShapeOf(k), h.unitsOf(k).rate
	if rate == 0 || sh.M <= MaxMatVecRows || sh.M > mostMatVecRows {
		return 0, fmt.Sprintf("nothing is known of the time of %s by %d rows", s.Variant, sh.M)
	}
	busy := min(sh.Batch*ceilDiv(sh.N, int64(s.TileN)), h.cores)
	return float64(weightBytes(k))/(rate*float64(busy)) + h.storeTime(k), ""
}

// unitsTakeBytes reports whether the skinny variant takes more int8 rows than a matvec does, for blocks of format t.
func unitsTakeBytes(t ir.DType, caps device.Caps) bool {
	f, _ := SkinnyFormatOf(t)
	how := Skinny{SkinnyFormat: f, Parts: 1}
	how.Element = how.element()
	_, ok := rowFragment(how, caps)
	return ok && heuristicsOf(caps).units[t].bytes.most > MaxMatVecRows && how.missing(caps) == nil &&
		subgroupOf(caps) > 0
}

// workgroups is the number of workgroups of a matmul with this tile.
func (tl skinnyTile) workgroups(sh matShape) int64 {
	return sh.Batch * ceilDiv(sh.N, int64(tl.columns*16))
}

// widest returns the first tile, widest first, that gives every core a workgroup, or otherwise the last. Narrower tiles
// read the rows more often (M-skinny-tiles).
func widest(tiles []skinnyTile, sh matShape, cores int64) skinnyTile {
	for len(tiles) > 1 && tiles[0].workgroups(sh) < cores {
		tiles = tiles[1:]
	}
	return tiles[0]
}

// spread lists variants of the tile to try. Fewer subgroups along the contraction axis and shorter steps need less
// shared memory, and divide more contraction lengths. Tiles with half the columns follow.
//
// If more than a quarter of the cores would be idle, and there are more rows than one matvec takes, tiles have half the
// columns, down to four fragments, and twice as many subgroups along the contraction axis (M-block-units). If cores are
// idle even then, a matvec is as fast for the rows that it takes, and spread returns nil.
func (tl skinnyTile) spread(sh matShape, cores int64) []skinnyTile {
	idle := func() bool { return 4*tl.workgroups(sh) < 3*cores }
	if idle() && sh.M > MaxMatVecRows && tl.columns > fewestColumns {
		tl.columns, tl.depths = max(tl.columns/2, fewestColumns), tl.depths*2
	}
	if idle() && sh.M <= mostMatVecRows {
		return nil
	}
	var list []skinnyTile
	for columns := tl.columns; columns >= min(tl.columns, fewestColumns); columns /= 2 {
		for depths := tl.depths; depths > 0; depths /= 2 {
			for step := tl.step; step >= shortestStep; step /= 2 {
				list = append(list, skinnyTile{columns, depths, step})
			}
		}
		if sh.M <= MaxMatVecRows {
			break
		}
	}
	return list
}

// fewestColumns is the minimum number of column fragments in a tile, unless the tile of its format has fewer.
const fewestColumns = 4

// shortestStep is the shortest step, in elements, along the contraction axis for the skinny variant.
const shortestStep = 128

// schedule returns the schedule of a tile with the fragments that a device has.
func (tl skinnyTile) schedule(how Skinny, sh matShape, caps device.Caps) (kernel.Schedule, bool) {
	f, ok := rowFragment(how, caps)
	sub, rows := subgroupOf(caps), max(int(f.N), 1)
	for int64(rows) < sh.M && rows < maxSkinnyRows {
		rows *= 2
	}
	return kernel.Skinny{Launch: kernel.Launch{Variant: kernel.VarSkinny, Workgroup: sub * tl.columns * tl.depths,
		Vec: 4, Subgroup: sub}, Tile: kernel.Tile{TileM: rows, TileN: tl.columns * int(f.M), TileK: tl.step},
		Fragment:   kernel.Fragment{FragM: int(f.M), FragN: int(f.N), FragK: int(f.K)},
		SubgroupsN: tl.columns, SubgroupsK: tl.depths}, ok
}

// rowFragment returns the fragment shape with the fewest rows. Among several it returns the deepest that fits in a
// strip.
func rowFragment(how Skinny, caps device.Caps) (best device.MatrixShape, ok bool) {
	e, sums := component(how.Element), component(how.Sums())
	for _, m := range caps.Matrices {
		if m.Scope != device.ScopeSubgroup || m.A != e || m.B != e || m.C != sums || m.R != sums ||
			how.Strip%int(m.K) != 0 {
			continue
		}
		if !ok || m.N < best.N || m.N == best.N && m.K > best.K {
			best, ok = m, true
		}
	}
	return best, ok
}

// skinnySpace lists schedules of the skinny variant for measurements.
func skinnySpace(k *kernel.Kernel, caps device.Caps) []kernel.Schedule {
	how, ok := SkinnyOf(k)
	sh := matShapeOf(k)
	if ok && how.Halves {
		return halvesSpace(how, caps)
	}
	if !ok || sh.M > maxSkinnyRows || len(k.Products) > 1 && sh.M <= MaxMatVecRows {
		return nil
	}
	var all []kernel.Schedule
	for columns := range doublings(1, 8) {
		for depths := range doublings(1, 8) {
			for step := range doublings(128, 256) {
				if s, ok := (skinnyTile{columns, depths, step}).schedule(how, sh, caps); ok {
					all = append(all, s)
				}
			}
		}
	}
	return all
}
