package schedule

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// quantizers lists schedules with one invocation for each group of a block's elements that shares a scale.
func (h heuristics) quantizers(k *kernel.Kernel) []Candidate {
	if k.CheckQuantize() != nil {
		return nil
	}
	var all []Candidate
	for _, s := range slices.Backward(quantizeSchedules(k, max(min(h.rowWorkgroup, 64), smallest))) {
		all = append(all, Candidate{s,
			fmt.Sprintf("%d blocks, made by %d invocations each", points(k.Parallel), s.LanesPerRow)})
	}
	return all
}

// quantizeSchedules returns the schedules with workgroups of up to most invocations.
func quantizeSchedules(k *kernel.Kernel, most int) []kernel.Lanes {
	lanes := kernel.QuantizeLanes(k.Quantized())
	var all []kernel.Lanes
	for wg := range doublings(max(smallest, lanes), max(most, lanes)) {
		all = append(all, kernel.Lanes{Launch: launch(kernel.VarQuantize, wg, 1), LanesPerRow: lanes})
	}
	return all
}

// checkQuantize returns an error if a kernel that quantizes cannot run with a schedule.
func checkQuantize(k *kernel.Kernel, s kernel.Lanes) error {
	if err := k.CheckQuantize(); err != nil {
		return err
	}
	if s.Vec != 1 || s.Subgroup != 0 {
		return fmt.Errorf("blocks take neither vectors nor subgroups")
	}
	lanes := kernel.QuantizeLanes(k.Quantized())
	if s.LanesPerRow != lanes || s.Workgroup%lanes != 0 {
		return fmt.Errorf("%d invocations of %d make a block of %s, want %d, and whole blocks", s.LanesPerRow,
			s.Workgroup, k.Quantized(), lanes)
	}
	return nil
}

// quantizeShared is the shared memory of the invocations of a block, in bytes: they exchange the scales and codes of
// their groups and the quants, and search a codebook, if the format has one.
func quantizeShared(k *kernel.Kernel, s kernel.Lanes) int {
	if s.LanesPerRow < 2 {
		return 0
	}
	const fit, code = 8, 4 // bytes per group
	n := s.Workgroup*(fit+code) + s.Workgroup/s.LanesPerRow*k.Quantized().BlockElems()
	if b := k.SearchedCodebook(); b != nil {
		n += int(bindingBytes(*b))
	}
	return n
}
