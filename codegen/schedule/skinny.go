package schedule

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// maxSkinnyRows is the maximum number of rows of a matmul that one subgroup computes whole, so that the kernel reads
// each block once. Each row is a column of the subgroup's accumulator fragments. If a tile has more rows, the
// workgroup's subgroups divide them (SubgroupsM).
const maxSkinnyRows = 32

// Skinny describes a matmul of few rows by blocks on cooperative matrices. A strip is a part of a row whose quants
// share a scale. Cooperative matrices multiply quants by row elements and sum up a strip. The kernel multiplies these
// sums by the scales of quants and rows in f32. So only the row elements are rounded.
type Skinny struct {
	SkinnyFormat
	// Element is the dtype of the operands: I8, or F16, which represents quants exactly.
	Element ir.DType
	// Parts is the number of values that represent a row element. An int8 row has one. A float is rounded to 2^-22 of
	// the strip's largest element. It becomes three base-256 digits, or the sum of two f16 values, where the second is
	// the remainder.
	Parts int
	// Halves says that the rows are stored as two f16 values an element, which need no scales.
	Halves bool
}

// SkinnyFormat is the part of a Skinny that depends only on the block format.
type SkinnyFormat struct {
	// Strip is the number of elements that share a scale, 16 or 32. Span is the number of elements that are stored
	// together; decoding works on multiples of Span.
	Strip, Span int
	Affine      bool // there is an offset in addition to the scale
	Levels      bool // quants are floats
}

// SkinnyFormatOf returns the skinny description of a block format. It returns false for formats of activations, which
// the skinny variant does not support.
func SkinnyFormatOf(t ir.DType) (SkinnyFormat, bool) {
	f, ok := ir.BlockFormatOf(t)
	if !ok || f.Activations {
		return SkinnyFormat{}, false
	}
	m := SkinnyFormat{Strip: min(f.Run, kernel.RoundedGroup), Span: kernel.RoundedGroup, Affine: f.Affine,
		Levels: f.Levels}
	if f.FieldsApart() {
		m.Span = f.Superblock()
	}
	return m, true
}

// SkinnyOf returns how cooperative matrices compute a matmul of few rows by blocks, and false if they cannot. The
// matmul must have a single A, of floats, of sums of two f16, or of int8 with scales, and blocks of one format in whole
// blocks along the contraction axis.
func SkinnyOf(k *kernel.Kernel) (Skinny, bool) {
	t := blocksOf(k)
	f, ok := SkinnyFormatOf(t)
	if !ok || !k.Fold.IsStatic() || !DivisibleBy(k.Fold, t.BlockElems()) {
		return Skinny{}, false
	}
	fold := k.FoldAxis()
	for _, p := range k.MatMuls {
		b := p.B
		if p.A != k.MatMuls[0].A || b.Kind != kernel.ExprLoad || !b.Index.Adjacent(fold, t.BlockElems()) {
			return Skinny{}, false
		}
		if bind := k.Bindings[b.Bind]; bind.DType != t || bind.Write {
			return Skinny{}, false
		}
	}
	if _, b := operands(k); b != len(k.MatMuls) { // matmuls with the same B
		return Skinny{}, false
	}
	// A row of floats becomes the sum of two 16-bit floats, or of three int8 digits.
	r := Skinny{SkinnyFormat: f, Parts: 2}
	r.Element = r.element()
	if r.Element == ir.I8 {
		r.Parts = 3
	}
	a := k.MatMuls[0].A
	if high, low, ok := k.HalfRows(a); ok {
		r.Element, r.Parts, r.Halves = ir.F16, 2, true
		return r, high.Index.Adjacent(fold, OctetElems) && low.Index.Adjacent(fold, OctetElems)
	}
	if bytes, scale, ok := k.ByteRows(a); ok {
		r.Parts = 1
		return r, bytes.Index.Adjacent(fold, unitBytes) && k.InGroups(scale)
	}
	return r, true
}

// element returns the dtype of the operands: I8 if quants are integers and a scale covers the depth of a fragment.
func (r Skinny) element() ir.DType {
	if r.Strip == kernel.RoundedGroup && !r.Levels {
		return ir.I8
	}
	return ir.F16
}

// Sums is the dtype of the accumulators.
func (r Skinny) Sums() ir.DType {
	if r.Element == ir.I8 {
		return ir.I32
	}
	return ir.F32
}

// Unit is the number of elements in one element of a shared array (a unit): 16 bytes, or less if fragments are smaller.
func (r Skinny) Unit(s kernel.Skinny) int {
	if r.Element == ir.I8 && s.FragK%unitBytes != 0 {
		return OctetElems
	}
	return unitElems(r.Element)
}

// Pitch is the distance, in units, between lines of TileK elements in shared memory. It is odd, so that lines start in
// different banks.
func (r Skinny) Pitch(s kernel.Skinny) int { return s.TileK/r.Unit(s) | 1 }

// ResultColumns is the number of columns of results that pass through shared memory at a time: all of them, or with
// subgroups across the rows a fragment of each subgroup.
func (r Skinny) ResultColumns(s kernel.Skinny) int {
	if s.SubgroupsM > 0 {
		return s.SubgroupsN * s.FragM
	}
	return s.TileN
}

// WeightStage is the shared memory, in units, for the quants of one B for all subgroups in one step.
func (r Skinny) WeightStage(s kernel.Skinny) int { return s.SubgroupsK * s.TileN * r.Pitch(s) }

// WeightUnits is the shared memory, in units, for the quants of one B in all stages. The results of that B use the same
// memory at the end.
func (r Skinny) WeightUnits(s kernel.Skinny) int {
	results := s.SubgroupsK * r.ResultColumns(s) * s.TileM * 4 / (r.Unit(s) * r.Element.BlockBytes())
	return max(r.Stages(s)*r.WeightStage(s), results)
}

// WeightScales is the number of scales in shared memory for the quants of one B, for all subgroups in one step.
func (r Skinny) WeightScales(s kernel.Skinny) int {
	return s.TileN * s.SubgroupsK * (s.TileK / r.Strip)
}

// RowUnits is the shared memory, in units, for the elements of the rows in one step.
func (r Skinny) RowUnits(s kernel.Skinny) int {
	return s.SubgroupsK * r.Parts * s.TileM * r.Pitch(s)
}

// RowScales is the number of scales in shared memory for the elements of the rows, in one step.
func (r Skinny) RowScales(s kernel.Skinny) int {
	if r.Halves {
		return 0
	}
	return s.SubgroupsK * s.TileM * (s.TileK / r.Strip)
}

// skinnyShared is the shared memory in bytes: quants and rows, and their scales and offsets.
func skinnyShared(k *kernel.Kernel, s kernel.Skinny) int {
	r, ok := SkinnyOf(k)
	if !ok {
		return 0
	}
	_, b := operands(k)
	return r.shared(s, b)
}

// shared is the shared memory in bytes of a schedule with b operands B.
func (r Skinny) shared(s kernel.Skinny, b int) int {
	scales := b*r.WeightScales(s) + r.RowScales(s)
	if r.Affine {
		scales *= 2
	}
	units := b*r.WeightUnits(s) + r.Stages(s)*r.RowUnits(s)
	return units*r.Unit(s)*r.Element.BlockBytes() + r.Stages(s)*4*scales
}

// Stages is the number of steps that shared memory holds. While one is multiplied, the next is stored.
func (r Skinny) Stages(s kernel.Skinny) int { return max(s.Stages, 1) }

// checkSkinny returns an error if a matmul cannot run with a skinny schedule.
func checkSkinny(k *kernel.Kernel, s kernel.Skinny, caps device.Caps) error {
	r, ok := SkinnyOf(k)
	e, sums := component(r.Element), component(r.Sums())
	switch {
	case !ok:
		return fmt.Errorf("matrix units take few rows by blocks of one format, whole ones along the contraction, " +
			"and this is none")
	case r.checkSupported(caps) != nil:
		return r.checkSupported(caps)
	case s.Subgroup < 8:
		return fmt.Errorf("fragments belong to subgroups, of 8 invocations at least, whose size must be relied on")
	case s.SubgroupsM < 0 || s.SubgroupsN < 1 || s.SubgroupsK < 1 ||
		s.Workgroup != s.Down()*s.SubgroupsN*s.SubgroupsK*s.Subgroup:
		return fmt.Errorf("%dx%dx%d subgroups of %d are not a workgroup of %d", s.Down(), s.SubgroupsN, s.SubgroupsK,
			s.Subgroup, s.Workgroup)
	case (s.SubgroupsM > 0) != r.Halves:
		return fmt.Errorf("subgroups across the rows go with rows that are stored as two f16")
	case s.Stages < 0 || s.Stages > 2 || s.Stages > 0 && !r.Halves:
		return fmt.Errorf("%d stages: want one, or two with rows that are stored as two f16", s.Stages)
	case r.Halves && (s.SubgroupsK > 1 || k.RowSums() || k.CutsCols()):
		return fmt.Errorf("subgroups across the rows go with one subgroup along the contraction, no sums of rows and " +
			"no parts of columns")
	case s.FragM < 2 || s.FragN < 1 || s.FragK < 1 || !caps.HasMatrix(s.FragM, s.FragN, s.FragK, e, sums):
		return fmt.Errorf("the device has no %s fragments of %dx%dx%d with %s sums", r.Element, s.FragM, s.FragN,
			s.FragK, r.Sums())
	case s.FragK%OctetElems != 0 || r.Strip%s.FragK != 0:
		return fmt.Errorf("%d elements that share a scale are not a whole number of fragments of %d", r.Strip, s.FragK)
	case s.TileM < 1 || s.SubgroupsM == 0 && s.TileM > maxSkinnyRows || s.TileM%(s.Down()*s.FragN) != 0 ||
		s.TileN < 1 || s.TileN%(s.SubgroupsN*s.FragM) != 0:
		return fmt.Errorf("%d rows and %d columns are not a whole number of fragments for each subgroup, of at most "+
			"%d rows", s.TileM, s.TileN, maxSkinnyRows)
	case s.TileK < 1 || s.TileK%max(r.Span, kernel.RoundedGroup) != 0:
		return fmt.Errorf("steps of %d are not a multiple of the %d elements that are decoded together", s.TileK,
			max(r.Span, kernel.RoundedGroup))
	case !DivisibleBy(k.Fold, s.TileK):
		return fmt.Errorf("steps of %d do not divide a contraction of %s", s.TileK, k.Fold)
	case int64(s.SubgroupsK)*int64(s.TileK) > k.Fold.Add:
		return fmt.Errorf("a contraction of %s has no %d steps of %d", k.Fold, s.SubgroupsK, s.TileK)
	}
	if n := s.TileM / s.Down() * s.TileN / s.SubgroupsN / s.Subgroup * len(k.MatMuls); n > maxLaneSums {
		return fmt.Errorf("%d sums per invocation, more than %d spill", n, maxLaneSums)
	}
	return nil
}

// checkSupported returns an error for a feature that the device lacks.
func (r Skinny) checkSupported(caps device.Caps) error {
	switch f := caps.Features; {
	case !f.CooperativeMatrix || !f.MemoryModel:
		return fmt.Errorf("the device has no cooperative matrices")
	case r.Element == ir.F16 && !f.Float16:
		return fmt.Errorf("the device has no f16 arithmetic")
	case r.Element == ir.I8 && !f.Int8:
		return fmt.Errorf("the device has no 8-bit integers")
	case r.Parts == 1 && r.Affine && !f.IntegerDotProduct:
		return fmt.Errorf("the device has no dot products of bytes, which add rows up")
	}
	return nil
}

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
// faster this way. For up to MaxMatVecRows rows the kernel must have one matmul, because several are slow. For more
// rows, it lists none if the operands may be rounded to f16: the tiles of matrixUnits are for those.
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
