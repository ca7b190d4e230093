package schedule

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// skinnyTile describes a workgroup of the skinny variant (matmuls of few rows on cooperative matrices): columns is the
// number of its subgroups across the columns, depths the number along the contraction axis, and step the number of
// contracted elements that each subgroup multiplies per step.
type skinnyTile struct{ columns, depths, step int }

// formatUnits has the numbers of rows for which a matmul by a block format is fastest on cooperative matrices: for
// float rows, and for int8 rows (bytes).
type formatUnits struct{ floats, bytes blockUnits }

// blockUnits is a range of numbers of rows in which cooperative matrices are fastest, and the tiles to use for it.
type blockUnits struct {
	minRows  int64        // 0 if cooperative matrices are never the fastest
	moreRows bool         // whether the range ends at maxSkinnyRows rows instead of MaxMatVecRows
	tile     skinnyTile   // for up to 16 rows
	tiles16  []skinnyTile // for 9 to 16 rows, widest first; nil to use tile
	// rate is the number of GB/s of blocks that a core reads with 9 to 16 rows, or 0 if it was not measured.
	rate float64
}

// tileAbove16 is the tile for more than 16 rows.
var tileAbove16 = skinnyTile{columns: 8, depths: 1, step: 128}

// skinny lists schedules that multiply few rows by blocks on cooperative matrices, for formats that were measured to be
// faster this way. For up to MaxMatVecRows rows the kernel must have one matmul, because several take four times as
// long (M-block-units). For more rows, it lists none if the operands may be rounded to f16: the tiles of matrixUnits
// are for those.
func (h heuristics) skinny(k *kernel.Kernel, caps device.Caps) []Candidate {
	how, ok := SkinnyOf(k)
	if !ok {
		return nil
	}
	if how.Halves {
		return h.halves(k, how, caps)
	}
	sh, u := matShapeOf(k), h.unitsOf(k)
	_, rounds := MatrixDType(k)
	few := sh.M <= MaxMatVecRows
	inRange := u.minRows > 0 && sh.M >= u.minRows && (few || u.moreRows && sh.M <= maxSkinnyRows)
	if !inRange || rounds && !few || len(k.MatMuls) > 1 && few {
		return nil
	}
	// The measured tile for few rows; wider ones for more.
	tl, cores := u.tile, h.onePerCore()
	switch {
	case sh.M > mostMatVecRows:
		tl = tileAbove16
	case !few && u.tiles16 != nil:
		tl = widest(u.tiles16, sh, cores)
	}
	// All matmuls share the shared memory of one, so each has shorter steps.
	tl.step = max(tl.step/len(k.MatMuls), shortestStep)
	var all []Candidate
	for _, variant := range tl.variants(sh, cores) {
		if s, ok := variant.schedule(how, sh, caps); ok {
			all = append(all, Candidate{s, fmt.Sprintf("%d rows on matrix units: B is read once", sh.M)})
		}
	}
	return all
}

// unitsOf returns the numbers of rows and the tiles for a matmul's block format and kind of rows.
func (h heuristics) unitsOf(k *kernel.Kernel) blockUnits {
	u := h.units[blocksOf(k)]
	if readsBytes(k) {
		return u.bytes
	}
	return u.floats
}

// skinnyTime estimates the time in nanoseconds of a matmul of 9 to 16 rows on cooperative matrices, from the measured
// rate of reading blocks per core (M-batch). If the rate is unknown, it returns 0 and a note that says so.
func (h heuristics) skinnyTime(k *kernel.Kernel, s kernel.Skinny) (float64, string) {
	if s.SubgroupsM > 0 { // rows of two f16 values an element (see halves.go)
		sh := matShapeOf(k)
		return h.halvesTime(sh) + h.storeTime(k), ""
	}
	sh, rate := matShapeOf(k), h.unitsOf(k).rate
	if rate == 0 || sh.M <= MaxMatVecRows || sh.M > mostMatVecRows {
		return 0, fmt.Sprintf("nothing is known of the time of %s by %d rows", s.Variant, sh.M)
	}
	busy := min(sh.Batch*ceil.Div(sh.N, int64(s.TileN)), h.cores)
	return float64(weightBytes(k))/(rate*float64(busy)) + h.storeTime(k), ""
}

// skinnyTakesMoreRows reports whether the skinny variant multiplies blocks of format t by more int8 rows than a matvec
// does.
func skinnyTakesMoreRows(t ir.DType, caps device.Caps) bool {
	f, _ := SkinnyFormatOf(t)
	how := Skinny{SkinnyFormat: f, Parts: 1}
	how.Element = how.element()
	_, fits := rowFragment(how, caps)
	return fits && heuristicsOf(caps).units[t].bytes.moreRows && how.checkSupported(caps) == nil &&
		subgroupOf(caps) > 0
}

// workgroups is the number of workgroups of a matmul with this tile.
func (tl skinnyTile) workgroups(sh matShape) int64 {
	return sh.Batch * ceil.Div(sh.N, int64(tl.columns*16))
}

// widest returns the first of tiles that gives every core a workgroup, or the last if none does. tiles is sorted widest
// first, because narrower tiles read the rows more often (M-skinny-tiles).
func widest(tiles []skinnyTile, sh matShape, cores int64) skinnyTile {
	for len(tiles) > 1 && tiles[0].workgroups(sh) < cores {
		tiles = tiles[1:]
	}
	return tiles[0]
}

// variants lists tiles to try, starting from tl. Fewer subgroups along the contraction axis and shorter steps need
// less shared memory, and divide more contraction lengths. Tiles with half the columns follow.
//
// If tl would leave more than a quarter of the cores idle, and one matvec does not take all rows, variants starts
// from narrower tiles: half the columns, down to four fragments, and twice as many subgroups along the contraction
// axis (M-block-units). If cores are idle even then, a matvec is as fast for the rows that it takes, and variants
// returns nil.
func (tl skinnyTile) variants(sh matShape, cores int64) []skinnyTile {
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

// schedule returns the schedule of a tile with the fragments (cooperative matrix shapes) that a device has, and false
// if none fits.
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

// rowFragment returns the device's fragment shape with the fewest rows (N of the transposed product), and false if it
// has none for these dtypes. Among several it returns the deepest that divides a strip, so that one scale covers it.
func rowFragment(how Skinny, caps device.Caps) (best device.MatrixShape, ok bool) {
	for _, m := range subgroupMatrices(caps, how.Element, how.Sums()) {
		better := !ok || m.N < best.N || m.N == best.N && m.K > best.K
		if better && how.Strip%int(m.K) == 0 {
			best, ok = m, true
		}
	}
	return best, ok
}
