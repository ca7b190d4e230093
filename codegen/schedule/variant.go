package schedule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// families maps each variant, a way to compute kernels of a family, to the family. Package codegen/glsl has a code
// generator for each variant.
var families = map[kernel.Variant]kernel.Family{
	kernel.VarMap: kernel.FamilyMap, kernel.VarMapTile: kernel.FamilyMap,
	kernel.VarRowSerial: kernel.FamilyRow, kernel.VarRowGroup: kernel.FamilyRow, kernel.VarRowWindows: kernel.FamilyRow,
	kernel.VarScanSerial: kernel.FamilyScan, kernel.VarScanGroup: kernel.FamilyScan,
	kernel.VarSort: kernel.FamilySort, kernel.VarSelect: kernel.FamilySort,
	kernel.VarGroup:      kernel.FamilyGroup,
	kernel.VarQuantize:   kernel.FamilyQuantize,
	kernel.VarRecurrence: kernel.FamilyRecurrence,
	kernel.VarCustom:     kernel.FamilyCustom,
	kernel.VarMatTile:    kernel.FamilyMatMul, kernel.VarMatDirect: kernel.FamilyMatMul,
	kernel.VarMatVec: kernel.FamilyMatMul, kernel.VarSkinny: kernel.FamilyMatMul,
	kernel.VarCoopMat: kernel.FamilyMatMul, kernel.VarCoopMat2: kernel.FamilyMatMul,
	kernel.VarFlashTile: kernel.FamilyAttention, kernel.VarFlashVec: kernel.FamilyAttention,
	kernel.VarFlashMatrix: kernel.FamilyAttention, kernel.VarFlashMatrix2: kernel.FamilyAttention,
}

// AllVariants lists all variants, sorted.
func AllVariants() []kernel.Variant { return slices.Sorted(maps.Keys(families)) }

// familyOf returns the family of kernels that a schedule is for. It returns "" for an unknown variant, or if the
// schedule has the struct of another variant.
func familyOf(s kernel.Schedule) kernel.Family {
	if !kernel.IsWhole(s) {
		return ""
	}
	return families[s.Config().Variant]
}

// onMatrixUnits reports whether a schedule needs cooperative matrices.
func onMatrixUnits(s kernel.Schedule) bool {
	switch s.(type) {
	case kernel.Skinny, kernel.CoopMat, kernel.CoopMat2, kernel.FlashMatrix:
		return true
	}
	return false
}

// candidates lists the schedules of a kernel that are worth trying, best first. It returns nil for an unknown family.
func (h heuristics) candidates(k *kernel.Kernel, caps device.Caps) []Candidate {
	switch k.Family {
	case kernel.FamilyMap:
		return h.allMaps(k)
	case kernel.FamilyRow:
		return h.rows(k)
	case kernel.FamilyScan:
		return h.scans(k)
	case kernel.FamilySort:
		return h.sorts(k)
	case kernel.FamilyGroup:
		return h.groups(k)
	case kernel.FamilyQuantize:
		return h.quantizers(k)
	case kernel.FamilyRecurrence:
		return h.recurrences(k)
	case kernel.FamilyCustom:
		return []Candidate{{customSchedule(k.Custom), "as the op says"}}
	case kernel.FamilyMatMul:
		return h.matMuls(k, caps)
	case kernel.FamilyAttention:
		return h.attentions(k, caps)
	default:
		return nil
	}
}

// SharedBytes returns the shared memory of a kernel with a schedule, in bytes.
func SharedBytes(k *kernel.Kernel, schedule kernel.Schedule) int {
	if !kernel.IsWhole(schedule) {
		return 0
	}
	switch s := schedule.(type) {
	case kernel.MapTile:
		return transposeShared(k, s)
	case kernel.Row:
		switch s.Variant {
		case kernel.VarRowGroup:
			return rowGroupShared(k, s)
		case kernel.VarSelect: // the search, and a key and a coordinate per result
			return 4*(SelectBins+SelectState+s.Workgroup) + 8*SelectSlots(k)
		default:
			return 0
		}
	case kernel.Lanes:
		switch s.Variant {
		case kernel.VarScanGroup: // a partial result per invocation
			return s.Workgroup * rowSlotBytes(k)
		case kernel.VarSort: // a key and a coordinate for each slot of the workgroup's rows
			return 8 * SortSlots(k) * (s.Workgroup / max(s.LanesPerRow, 1))
		case kernel.VarQuantize:
			return quantizeShared(k, s)
		default:
			return 0
		}
	case kernel.Launch:
		if s.Variant == kernel.VarCustom {
			return k.Custom.Kernel().SharedBytes
		}
		return 4 * (int(k.Parallel[0].Max()) + s.Workgroup) // a count per group number, and one per invocation
	case kernel.MatTile:
		return tileShared(k, s)
	case kernel.MatVec:
		return matVecShared(k, s)
	case kernel.Skinny:
		return skinnyShared(k, s)
	case kernel.CoopMat, kernel.CoopMat2:
		return MatrixUnits(k, s) * unitBytes / UnitsOf16(k, s)
	case kernel.FlashTile:
		return flashTileShared(k, s)
	case kernel.FlashVec:
		return flashVecShared(k, s)
	case kernel.FlashMatrix:
		return flashMatrixShared(k, s)
	}
	return 0
}

// checkFamily returns an error if the schedule's variant is not for the kernel's family, or the family rejects it.
func checkFamily(k *kernel.Kernel, s kernel.Schedule, _ device.Caps) error {
	switch family := familyOf(s); {
	case family == "":
		return fmt.Errorf("unknown variant, or parameters that are not the variant's")
	case family != k.Family:
		return fmt.Errorf("the variant is for %s kernels, this is a %s", family, k.Family)
	case family == kernel.FamilyMatMul:
		return checkMatMul(k, s)
	case family == kernel.FamilyAttention:
		return k.CheckAttention()
	}
	return nil
}

// checkVariant returns an error if the variant rejects the schedule, or the workgroups do not fit in the grid.
func checkVariant(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) error {
	if err := checkParameters(k, s, caps); err != nil || k.Family != kernel.FamilyMatMul {
		return err
	}
	_, err := MatMulGrid(k, tileOf(s), caps)
	return err
}

// checkParameters returns an error if a schedule cannot run a kernel. checkFamily has accepted the schedule.
func checkParameters(k *kernel.Kernel, schedule kernel.Schedule, caps device.Caps) error {
	switch s := schedule.(type) {
	case kernel.Points:
		if s.Variant == kernel.VarRowWindows {
			return checkWindows(k, s)
		}
		return checkCoarsen(k, s)
	case kernel.MapTile:
		return checkMapTile(k, s)
	case kernel.Row:
		if s.Variant == kernel.VarSelect {
			return checkSelect(k, s)
		}
		return checkRow(k, s)
	case kernel.Lanes:
		switch s.Variant {
		case kernel.VarSort:
			return checkSort(k, s)
		case kernel.VarQuantize:
			return checkQuantize(k, s)
		default:
			return checkScan(k, s)
		}
	case kernel.Launch:
		if s.Variant == kernel.VarCustom {
			return checkCustom(k, caps)
		}
		return checkGroup(k, s, caps)
	case kernel.Recurrent:
		return checkRecurrence(k, s)
	case kernel.MatTile:
		return checkTile(k, s)
	case kernel.MatDirect:
		return checkDirect(k, s)
	case kernel.MatVec:
		return checkMatVec(k, s, caps)
	case kernel.Skinny:
		return checkSkinny(k, s, caps)
	case kernel.CoopMat:
		return checkCoopMat(k, s, caps)
	case kernel.CoopMat2:
		return checkCoopMat2(k, s, caps)
	case kernel.FlashTile:
		return checkFlashTile(k, s, caps)
	case kernel.FlashVec:
		return checkFlashVec(k, s, caps)
	case kernel.FlashMatrix:
		return checkFlashMatrix(k, s, caps)
	}
	return fmt.Errorf("schedules of %T are not checked", schedule)
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
