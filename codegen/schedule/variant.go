package schedule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// variant describes one variant of a kernel family for selection: a way to compute such kernels. Package codegen/glsl
// has a code generator with the same name for it.
type variant interface {
	of() kernel.Family
	onMatrixUnits() bool        // reports whether it needs cooperative matrices
	takes(kernel.Schedule) bool // reports whether the schedule has the variant's struct type
	// The other methods panic if takes returns false. refusal returns an error if the schedule cannot run the kernel.
	refusal(*kernel.Kernel, kernel.Schedule, device.Caps) error
	sharedBytes(*kernel.Kernel, kernel.Schedule) int // shared memory per workgroup
	// normalized returns the schedule with the default values of its zero fields.
	normalized(*kernel.Kernel, kernel.Schedule, device.Caps) kernel.Schedule
}

// variantOn implements variant with functions for schedules of type P.
type variantOn[P kernel.Schedule] struct {
	family kernel.Family
	units  bool // it runs on matrix units
	// check returns an error if a schedule cannot run a kernel. The family's conditions are checked separately.
	check func(*kernel.Kernel, P, device.Caps) error
	// shared is the variant's shared memory in bytes; nil for none.
	shared func(*kernel.Kernel, P) int
	// normalize normalizes a schedule; nil for no change.
	normalize func(*kernel.Kernel, P, device.Caps) P
}

func (v variantOn[P]) of() kernel.Family   { return v.family }
func (v variantOn[P]) onMatrixUnits() bool { return v.units }

func (v variantOn[P]) takes(s kernel.Schedule) bool {
	_, ok := s.(P)
	return ok
}

func (v variantOn[P]) refusal(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) error {
	return v.check(k, s.(P), caps)
}

func (v variantOn[P]) sharedBytes(k *kernel.Kernel, s kernel.Schedule) int {
	if v.shared == nil {
		return 0
	}
	return v.shared(k, s.(P))
}

func (v variantOn[P]) normalized(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) kernel.Schedule {
	if v.normalize == nil {
		return s
	}
	return v.normalize(k, s.(P), caps)
}

// variantOf returns the variant of a schedule. It returns nil for an unknown variant, or if the schedule has the struct
// of another variant.
func variantOf(s kernel.Schedule) variant {
	if s == nil {
		return nil
	}
	if v := variants[s.Config().Variant]; v != nil && v.takes(s) {
		return v
	}
	return nil
}

// family describes a kernel family for selection.
type family struct {
	// candidates lists the schedules that are worth trying, best first.
	candidates func(heuristics, *kernel.Kernel, device.Caps) []Candidate
	// check returns an error if no schedule, or not this one, can run a kernel; nil for no conditions.
	check func(*kernel.Kernel, kernel.Schedule) error
	// grid returns an error if the workgroups do not fit in the grid; nil if the family's workgroups loop.
	grid func(*kernel.Kernel, kernel.Schedule, device.Caps) error
}

var (
	variants map[kernel.Variant]variant
	families map[kernel.Family]family
)

// The tables are filled here because their functions refer to them.
func init() {
	variants = map[kernel.Variant]variant{
		kernel.VarMap: variantOn[kernel.Points]{family: kernel.FamilyMap, check: onAny(checkCoarsen),
			normalize: normalizePoints},
		kernel.VarMapTile: variantOn[kernel.MapTile]{family: kernel.FamilyMap, check: onAny(checkMapTile),
			shared: transposeShared, normalize: normalizeMapTile},
		kernel.VarRowSerial: variantOn[kernel.Row]{family: kernel.FamilyRow, check: onAny(checkRow),
			normalize: normalizeRow},
		kernel.VarRowGroup: variantOn[kernel.Row]{family: kernel.FamilyRow, check: onAny(checkRow),
			shared: rowGroupShared, normalize: normalizeRow},
		kernel.VarRowWindows: variantOn[kernel.Points]{family: kernel.FamilyRow, check: onAny(checkWindows)},
		kernel.VarScanSerial: variantOn[kernel.Lanes]{family: kernel.FamilyScan, check: onAny(checkScan),
			normalize: normalizeScan},
		kernel.VarScanGroup: variantOn[kernel.Lanes]{family: kernel.FamilyScan, check: onAny(checkScan),
			shared: rowSlots, normalize: normalizeScan},
		kernel.VarSort: variantOn[kernel.Lanes]{family: kernel.FamilySort, check: onAny(checkSort),
			shared: sortShared},
		kernel.VarSelect: variantOn[kernel.Row]{family: kernel.FamilySort, check: onAny(checkSelect),
			shared: selectShared},
		kernel.VarGroup: variantOn[kernel.Launch]{family: kernel.FamilyGroup, check: checkGroup, shared: groupShared},
		kernel.VarQuantize: variantOn[kernel.Lanes]{family: kernel.FamilyQuantize, check: onAny(checkQuantize),
			shared: quantizeShared},
		kernel.VarRecurrence: variantOn[kernel.Recurrent]{family: kernel.FamilyRecurrence,
			check: onAny(checkRecurrence)},
		kernel.VarCustom: variantOn[kernel.Launch]{family: kernel.FamilyCustom, check: checkCustom,
			shared: customShared},
		kernel.VarMatTile: variantOn[kernel.MatTile]{family: kernel.FamilyMatMul, check: onAny(checkTile),
			shared: tileShared},
		kernel.VarMatDirect: variantOn[kernel.MatDirect]{family: kernel.FamilyMatMul, check: onAny(checkDirect)},
		kernel.VarMatVec: variantOn[kernel.MatVec]{family: kernel.FamilyMatMul, check: checkMatVec,
			shared: matVecShared, normalize: normalizeMatVec},
		kernel.VarSkinny: variantOn[kernel.Skinny]{family: kernel.FamilyMatMul, units: true, check: checkSkinny,
			shared: skinnyShared},
		kernel.VarCoopMat: variantOn[kernel.CoopMat]{family: kernel.FamilyMatMul, units: true, check: checkCoopMat,
			shared: matrixShared[kernel.CoopMat]},
		kernel.VarCoopMat2: variantOn[kernel.CoopMat2]{family: kernel.FamilyMatMul, units: true, check: checkCoopMat2,
			shared: matrixShared[kernel.CoopMat2], normalize: normalizeCoopMat2},
		kernel.VarFlashTile: variantOn[kernel.FlashTile]{family: kernel.FamilyAttention, check: checkFlashTile,
			shared: flashTileShared},
		kernel.VarFlashVec: variantOn[kernel.FlashVec]{family: kernel.FamilyAttention, check: checkFlashVec,
			shared: flashVecShared},
		kernel.VarFlashMatrix: variantOn[kernel.FlashMatrix]{family: kernel.FamilyAttention, units: true,
			check: checkFlashMatrix, shared: flashMatrixShared},
		kernel.VarFlashMatrix2: variantOn[kernel.FlashMatrix]{family: kernel.FamilyAttention, units: true,
			check: checkFlashMatrix, shared: flashMatrixShared},
	}
	families = map[kernel.Family]family{
		kernel.FamilyMap:        {candidates: alike(heuristics.allMaps)},
		kernel.FamilyRow:        {candidates: alike(heuristics.rows)},
		kernel.FamilyScan:       {candidates: alike(heuristics.scans)},
		kernel.FamilySort:       {candidates: alike(heuristics.sorts)},
		kernel.FamilyGroup:      {candidates: alike(heuristics.groups)},
		kernel.FamilyQuantize:   {candidates: alike(heuristics.quantizers)},
		kernel.FamilyRecurrence: {candidates: alike(heuristics.recurrences)},
		kernel.FamilyCustom:     {candidates: alike(heuristics.customs)},
		kernel.FamilyMatMul: {candidates: heuristics.matMuls, check: checkMatMul,
			grid: checkMatMulGrid},
		kernel.FamilyAttention: {candidates: heuristics.attentions, check: checkAttention},
	}
}

// AllVariants lists all variants, sorted.
func AllVariants() []kernel.Variant { return slices.Sorted(maps.Keys(variants)) }

// onAny adapts a check that does not depend on the device.
func onAny[P kernel.Schedule](check func(*kernel.Kernel, P) error) func(*kernel.Kernel, P, device.Caps) error {
	return func(k *kernel.Kernel, s P, _ device.Caps) error { return check(k, s) }
}

// alike adapts a list of candidates that does not depend on the device's caps.
func alike(list func(heuristics, *kernel.Kernel) []Candidate) func(heuristics, *kernel.Kernel,
	device.Caps) []Candidate {
	return func(h heuristics, k *kernel.Kernel, _ device.Caps) []Candidate { return list(h, k) }
}

// SharedBytes returns the shared memory of a kernel with a schedule, in bytes.
func SharedBytes(k *kernel.Kernel, s kernel.Schedule) int {
	if v := variantOf(s); v != nil {
		return v.sharedBytes(k, s)
	}
	return 0
}

// checkFamily returns an error if the schedule's variant is not for the kernel's family, or the family rejects it.
func checkFamily(k *kernel.Kernel, s kernel.Schedule, _ device.Caps) error {
	v := variantOf(s)
	if v == nil {
		return fmt.Errorf("unknown variant, or parameters that are not the variant's")
	}
	if v.of() != k.Family {
		return fmt.Errorf("the variant is for %s kernels, this is a %s", v.of(), k.Family)
	}
	if check := families[v.of()].check; check != nil {
		return check(k, s)
	}
	return nil
}

// checkVariant returns an error if the variant rejects the schedule, or the workgroups do not fit in the grid.
func checkVariant(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) error {
	v := variantOf(s)
	if err := v.refusal(k, s, caps); err != nil {
		return err
	}
	if grid := families[v.of()].grid; grid != nil {
		return grid(k, s, caps)
	}
	return nil
}

// checkMatMulShape returns an error for a matmul kernel without rows, columns or products.
func checkMatMulShape(k *kernel.Kernel) error {
	if len(k.Parallel) < 2 || len(k.MatMuls) == 0 {
		return fmt.Errorf("a matmul needs two parallel axes and a product, this has %d and %d",
			len(k.Parallel), len(k.MatMuls))
	}
	return nil
}

// checkMatMul returns an error if no schedule, or not this one, can run a matmul.
func checkMatMul(k *kernel.Kernel, s kernel.Schedule) error {
	if err := checkMatMulShape(k); err != nil {
		return err
	}
	if k.RowSums() {
		if err := checkRowSums(k, s); err != nil {
			return err
		}
	}
	if k.CutsCols() {
		return checkCols(k, s)
	}
	return nil
}

func checkMatMulGrid(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) error {
	_, err := MatMulGrid(k, tileOf(s), caps)
	return err
}

func checkAttention(k *kernel.Kernel, _ kernel.Schedule) error { return k.CheckAttention() }

// matMuls lists the candidates of all matmul variants, the most specialized first.
func (h heuristics) matMuls(k *kernel.Kernel, caps device.Caps) []Candidate {
	if len(k.Parallel) < 2 {
		return nil
	}
	vecs, tiles := h.matVecs(k), append(h.matrixUnits(k, caps), h.matTiles(k)...)
	if len(vecs) > 0 && !h.rereadingFaster(k, vecs[0].Schedule.(kernel.MatVec), caps) {
		vecs, tiles = tiles, vecs
	}
	return slices.Concat(h.directs(k), h.skinny(k, caps), vecs, tiles)
}
