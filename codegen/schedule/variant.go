package schedule

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// variant describes a variant of a kernel family for selection. Package codegen/glsl has its code generator, by the
// same name.
type variant struct {
	family kernel.Family
	// owns names the schedule fields that it uses, in addition to the common ones.
	owns []string
	// check returns the reason why a schedule cannot run a kernel, in addition to the family's conditions.
	check func(*kernel.Kernel, kernel.Schedule, device.Caps) error
	// shared is its shared memory in bytes; nil for none.
	shared func(*kernel.Kernel, kernel.Schedule) int
	// normalize normalizes a schedule; nil for no change.
	normalize func(*kernel.Kernel, kernel.Schedule, device.Caps) kernel.Schedule
}

// onMatrixUnits reports whether it uses schedule fields that are only for matrix units.
func (v variant) onMatrixUnits() bool {
	return slices.Contains(v.owns, "Fragments") || slices.Contains(v.owns, "CoopMat2")
}

// family describes all variants of a family for selection.
type family struct {
	candidates func(heuristics, *kernel.Kernel, device.Caps) []Candidate
	// space lists more schedules to measure, many of which [New] refuses; nil for none.
	space func(*kernel.Kernel, device.Caps) []kernel.Schedule
	// check returns the reason why no schedule, or not this one, runs a kernel; nil for no conditions.
	check func(*kernel.Kernel, kernel.Schedule) error
	// grid returns the reason why workgroups do not fit in the grid; nil if they loop.
	grid func(*kernel.Kernel, kernel.Schedule, device.Caps) error
}

var (
	variants map[kernel.Variant]variant
	families map[kernel.Family]family
)

// parts are the groups of schedule fields that only some variants use.
var parts = slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[kernel.Schedule]()),
	func(f reflect.StructField) bool { return !f.Anonymous })

// The tables are filled here because their functions refer to them.
func init() {
	variants = map[kernel.Variant]variant{
		kernel.VarMap:          {family: kernel.FamilyMap, check: onAny(checkCoarsen), normalize: normalizeMap},
		kernel.VarMapTile:      {family: kernel.FamilyMap, check: onAny(checkMapTile), shared: transposeShared, normalize: normalizeMap},
		kernel.VarRowSerial:    {family: kernel.FamilyRow, check: onAny(checkRowSerial), normalize: normalizeRow},
		kernel.VarRowGroup:     {family: kernel.FamilyRow, check: onAny(checkRowGroup), shared: rowGroupShared, normalize: normalizeRow},
		kernel.VarRowWindows:   {family: kernel.FamilyRow, check: onAny(checkWindows)},
		kernel.VarScanSerial:   {family: kernel.FamilyScan, check: onAny(checkScan), normalize: normalizeScan},
		kernel.VarScanGroup:    {family: kernel.FamilyScan, check: onAny(checkScan), shared: rowSlots, normalize: normalizeScan},
		kernel.VarSort:         {family: kernel.FamilySort, check: onAny(checkSort), shared: sortShared},
		kernel.VarSelect:       {family: kernel.FamilySort, check: onAny(checkSelect), shared: selectShared},
		kernel.VarGroup:        {family: kernel.FamilyGroup, check: checkGroup, shared: groupShared},
		kernel.VarQuantize:     {family: kernel.FamilyQuantize, check: onAny(checkQuantize), shared: quantizeShared},
		kernel.VarCustom:       {family: kernel.FamilyCustom, check: checkCustom, shared: customShared},
		kernel.VarMatTile:      {family: kernel.FamilyMatMul, owns: []string{"RegisterTile"}, check: onAny(checkTile), shared: tileShared},
		kernel.VarMatDirect:    {family: kernel.FamilyMatMul, check: onAny(checkDirect)},
		kernel.VarMatVec:       {family: kernel.FamilyMatMul, owns: []string{"MatVec"}, check: checkMatVec, shared: matVecShared, normalize: normalizeMatVec},
		kernel.VarSkinny:       {family: kernel.FamilyMatMul, owns: []string{"Fragments"}, check: checkSkinny, shared: skinnyShared},
		kernel.VarCoopMat:      {family: kernel.FamilyMatMul, owns: []string{"Fragments"}, check: checkCoopMat, shared: matrixShared},
		kernel.VarCoopMat2:     {family: kernel.FamilyMatMul, owns: []string{"CoopMat2"}, check: checkCoopMat2, shared: matrixShared, normalize: normalizeCoopMat2},
		kernel.VarFlashTile:    {family: kernel.FamilyAttention, owns: []string{"Flash", "RegisterTile"}, check: checkFlashTile, shared: flashTileShared},
		kernel.VarFlashVec:     {family: kernel.FamilyAttention, owns: []string{"Flash"}, check: checkFlashVec, shared: flashVecShared},
		kernel.VarFlashMatrix:  {family: kernel.FamilyAttention, owns: []string{"Flash", "Fragments"}, check: checkFlashMatrix, shared: flashMatrixShared},
		kernel.VarFlashMatrix2: {family: kernel.FamilyAttention, owns: []string{"Flash", "Fragments"}, check: checkFlashMatrix, shared: flashMatrixShared},
	}
	families = map[kernel.Family]family{
		kernel.FamilyMap:       {candidates: alike(heuristics.allMaps), space: mapSpace},
		kernel.FamilyRow:       {candidates: alike(heuristics.rows), space: foldSpace},
		kernel.FamilyScan:      {candidates: alike(heuristics.scans), space: rowSpace(kernel.VarScanSerial, kernel.VarScanGroup)},
		kernel.FamilySort:      {candidates: alike(heuristics.sorts), space: sortSpace},
		kernel.FamilyGroup:     {candidates: alike(heuristics.groups), space: workgroups(kernel.VarGroup, maxGroupLanes)},
		kernel.FamilyQuantize:  {candidates: alike(heuristics.quantizers), space: quantizeSpace},
		kernel.FamilyCustom:    {candidates: alike(heuristics.customs)},
		kernel.FamilyMatMul:    {candidates: heuristics.matMuls, space: matMulSpace, check: checkMatMul, grid: checkMatMulGrid},
		kernel.FamilyAttention: {candidates: heuristics.attentions, space: flashSpace, check: checkAttention},
	}
}

// AllVariants lists the variants that selection knows.
func AllVariants() []kernel.Variant { return slices.Sorted(maps.Keys(variants)) }

// onAny adapts a check that does not depend on the device.
func onAny(check func(*kernel.Kernel, kernel.Schedule) error) func(*kernel.Kernel, kernel.Schedule, device.Caps) error {
	return func(k *kernel.Kernel, s kernel.Schedule, _ device.Caps) error { return check(k, s) }
}

func alike(list func(heuristics, *kernel.Kernel) []Candidate) func(heuristics, *kernel.Kernel,
	device.Caps) []Candidate {
	return func(h heuristics, k *kernel.Kernel, _ device.Caps) []Candidate { return list(h, k) }
}

// SharedBytes returns the shared memory of the kernel with a schedule.
func SharedBytes(k *kernel.Kernel, s kernel.Schedule) int {
	if shared := variants[s.Variant].shared; shared != nil {
		return shared(k, s)
	}
	return 0
}

func checkFamily(k *kernel.Kernel, s kernel.Schedule, _ device.Caps) error {
	v, ok := variants[s.Variant]
	if !ok {
		return fmt.Errorf("unknown variant")
	}
	if v.family != k.Family {
		return fmt.Errorf("the variant is for %s kernels, this is a %s", v.family, k.Family)
	}
	for _, part := range parts {
		if !slices.Contains(v.owns, part.Name) && !reflect.ValueOf(s).FieldByIndex(part.Index).IsZero() {
			return fmt.Errorf("it has parameters of %s, which are of other variants", part.Name)
		}
	}
	if check := families[v.family].check; check != nil {
		return check(k, s)
	}
	return nil
}

func checkVariant(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) error {
	v := variants[s.Variant]
	if err := v.check(k, s, caps); err != nil {
		return err
	}
	if grid := families[v.family].grid; grid != nil {
		return grid(k, s, caps)
	}
	return nil
}

func checkMatMulShape(k *kernel.Kernel) error {
	if len(k.Parallel) < 2 || len(k.Products) == 0 {
		return fmt.Errorf("a matrix product needs two parallel axes and a product, this has %d and %d",
			len(k.Parallel), len(k.Products))
	}
	return nil
}

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
	_, err := MatMulGrid(k, s, caps)
	return err
}

func checkAttention(k *kernel.Kernel, _ kernel.Schedule) error { return k.CheckAttention() }

// matMuls lists the candidates of all variants of a matmul, the most specialized first.
func (h heuristics) matMuls(k *kernel.Kernel, caps device.Caps) []Candidate {
	if len(k.Parallel) < 2 {
		return nil
	}
	vecs, tiles := h.matVecs(k), append(h.matrixUnits(k, caps), h.matTiles(k)...)
	if len(vecs) > 0 && !h.readsOftenFaster(k, vecs[0].Schedule, caps) {
		vecs, tiles = tiles, vecs
	}
	return slices.Concat(h.directs(k), h.skinny(k, caps), vecs, tiles)
}

func matMulSpace(k *kernel.Kernel, caps device.Caps) []kernel.Schedule {
	if len(k.Parallel) < 2 {
		return nil
	}
	return slices.Concat(matVecSpace(k, caps), skinnySpace(k, caps), matTileSpace(), directSpace(k),
		matrixSpace(k, caps))
}
