package schedule

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
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
