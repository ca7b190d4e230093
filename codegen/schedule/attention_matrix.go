package schedule

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// flashMatrixTile is a tile of an attention on cooperative matrices. Subgroups is the number of subgroups, and each
// computes a fragment of rows. Parts is the number of subgroups that compute the same rows together. A step covers Keys
// keys, and shared memory has room for the keys of Stages steps. Parts and Stages of 0 mean 1. The tile is for queries
// and values of up to Width elements, or of any length if Width is 0.
type flashMatrixTile struct{ Subgroups, Keys, Stages, Width, Parts int }

// flashMatrixCandidates lists tiles on cooperative matrices: first the tiles that fill the device, with the most rows
// first. It prefers the variant that keeps scores in registers.
func (h heuristics) flashMatrixCandidates(k *kernel.Kernel, caps device.Caps) []Candidate {
	frag := flashFragment(caps)
	if frag == 0 || h.subgroup == 0 || !flashHalf(k) {
		return nil
	}
	sh := flashShapeOf(k)
	var filling, rest []Candidate // tiles that give nearly every core a workgroup, and the others
	for _, variant := range []kernel.Variant{kernel.VarFlashMatrix2, kernel.VarFlashMatrix} {
		var partial []Candidate // tiles that do not, the smallest first
		for _, tl := range h.flashMatrices {
			rows := tl.Subgroups / max(tl.Parts, 1) * frag
			heads, groups := flashHeads(sh, rows), sh.workgroups(rows)
			halfEmpty := 2*sh.Queries*int64(heads) <= int64(rows)
			tooWide := tl.Width > 0 && max(sh.Dot, sh.Value) > tl.Width
			if halfEmpty || tooWide || variant == kernel.VarFlashMatrix2 && tl.Parts > 1 {
				continue
			}
			c := Candidate{kernel.FlashMatrix{Launch: kernel.Launch{Variant: variant,
				Workgroup: tl.Subgroups * h.subgroup, Vec: 4, Subgroup: h.subgroup},
				TileM: rows, TileN: tl.Keys, Stages: tl.Stages, SubgroupsN: tl.Parts,
				Fragment: kernel.Fragment{FragM: frag, FragN: frag, FragK: frag}, Flash: kernel.Flash{Heads: heads}},
				fmt.Sprintf("%d queries of %d heads a tile, %d keys, on matrix units: %d workgroups", rows/heads,
					heads, tl.Keys, groups)}
			if 10*groups >= 9*h.onePerCore() { // one workgroup for nearly every core is enough (M-flash-shapes)
				filling = append(filling, c)
			} else {
				partial = append([]Candidate{c}, partial...)
			}
		}
		rest = append(rest, partial...)
	}
	return append(filling, rest...)
}

// flashFragment is the extent of the device's square f16 fragments with f32 sums, such as 16 for 16x16x16, or 0 for
// none.
func flashFragment(caps device.Caps) int {
	for _, n := range []int{16, 8} {
		if caps.HasMatrix(n, n, n, component(ir.F16), component(ir.F32)) {
			return n
		}
	}
	return 0
}

// flashHalf reports whether an attention's operands are f16, as its cooperative matrices require.
func flashHalf(k *kernel.Kernel) bool {
	a := k.Attention
	return a.Q.DType == ir.F16 && a.K.DType == ir.F16 && a.V.DType == ir.F16
}

// maxFlashWidth is the length in elements of the longest row of a result that fits in registers as fragments.
const maxFlashWidth = 256

// checkFlashMatrix returns an error if an attention cannot run with a schedule on cooperative matrices.
func checkFlashMatrix(k *kernel.Kernel, s kernel.FlashMatrix, caps device.Caps) error {
	sh := flashShapeOf(k)
	f, parts := s.FragM, FlashParts(s)
	switch {
	case !flashHalf(k):
		return fmt.Errorf("matrix units take f16, not queries, keys and values of %s, %s and %s", k.Attention.Q.DType,
			k.Attention.K.DType, k.Attention.V.DType)
	case f < OctetElems || s.FragN != f || s.FragK != f || f != flashFragment(caps):
		return fmt.Errorf("fragments of %dx%dx%d, want the square ones of f16 with f32 sums that the device has: %d", f,
			s.FragN, s.FragK, flashFragment(caps))
	case s.Subgroup < f || s.Subgroup%f != 0:
		return fmt.Errorf("subgroups of %d are not a multiple of the %d rows that they hold", s.Subgroup, f)
	case parts > 1 && (s.Variant != kernel.VarFlashMatrix || s.Workgroup/s.Subgroup%parts != 0):
		return fmt.Errorf("%d subgroups share rows: want a multiple of them in a workgroup, not %d, and scores that "+
			"pass through shared memory", parts, s.Workgroup/s.Subgroup)
	case s.TileM < 1 || s.TileM != s.Workgroup/s.Subgroup/parts*f:
		return fmt.Errorf("%d rows for %d subgroups that hold %d each", s.TileM, s.Workgroup/s.Subgroup/parts, f)
	case s.Stages < 0 || s.Stages > 2:
		return fmt.Errorf("%d tiles of keys in shared memory, want 1 or 2", s.Stages)
	case s.TileN < f || s.TileN%f != 0 || s.TileN%(2*s.Subgroup/f) != 0:
		return fmt.Errorf("tiles of %d rows and %d keys do not go together with fragments of %d", s.TileM, s.TileN, f)
	case FlashQueryLines(k, s) < 1:
		return fmt.Errorf("tiles of %d keys have no room for the %d queries of a subgroup", s.TileN, f)
	case sh.Dot%(parts*f) != 0 || sh.Value%(parts*f) != 0:
		return fmt.Errorf("vectors of %d and %d are not a multiple of %d", sh.Dot, sh.Value, parts*f)
	case sh.Dot > maxFlashWidth || sh.Value > maxFlashWidth:
		return fmt.Errorf("vectors of %d and %d, longer than %d spill", sh.Dot, sh.Value, maxFlashWidth)
	}
	if s.Variant == kernel.VarFlashMatrix2 {
		m2 := caps.Matrix2
		switch {
		case !caps.Features.CooperativeMatrix2 || m2 == nil || !m2.Reductions || !m2.Conversions || !m2.PerElement:
			return fmt.Errorf("the device has no VK_NV_cooperative_matrix2 with reductions, conversions and " +
				"per-element operations")
		case !caps.Features.Maintenance4:
			return fmt.Errorf("the device has no maintenance4, which the SPIR-V version needs")
		}
	}
	return checkFlash(k, s, caps)
}

// FlashParts is the number of subgroups that share the same rows, in an attention on cooperative matrices.
func FlashParts(s kernel.FlashMatrix) int { return max(s.SubgroupsN, 1) }

// FlashQueryLines is the number of queries that pass at once through the shared memory of the key and value tiles. It
// is a multiple of a subgroup's queries.
func FlashQueryLines(k *kernel.Kernel, s kernel.FlashMatrix) int {
	sh := flashShapeOf(k)
	keys, values := StagedPitch(sh.Dot, OctetElems), StagedPitch(sh.Value, OctetElems)
	return min(s.TileM, max(s.Stages, 1)*s.TileN*(keys+values)/keys/s.FragM*s.FragM)
}

// ScorePitch is the distance between rows of scores in shared memory, in floats.
func ScorePitch(s kernel.FlashMatrix) int { return s.TileN + 4 }

// WeightPitch is the distance between rows of weights in shared memory, in pairs of f16.
func WeightPitch(s kernel.FlashMatrix) int { return s.TileN/2 + 4 }

// flashMatrixShared is the shared memory in bytes: tiles of keys and of values for each stage, a fragment per subgroup,
// and scores and weights if the variant converts one to the other in shared memory.
func flashMatrixShared(k *kernel.Kernel, s kernel.FlashMatrix) int {
	sh := flashShapeOf(k)
	rows := s.Workgroup / max(s.Subgroup, 1) * s.FragM
	n := max(s.Stages, 1)*s.TileN*(StagedPitch(sh.Dot, OctetElems)+StagedPitch(sh.Value, OctetElems))*16 +
		rows*s.FragM*4
	if s.Variant == kernel.VarFlashMatrix {
		n += rows * (ScorePitch(s) + WeightPitch(s)) * 4
	}
	return n
}
