package target

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// quantizers: an invocation per block.
func (h heuristics) quantizers(k *kernel.Kernel) []Candidate {
	var all []Candidate
	for wg := max(min(h.rowWorkgroup, 64), smallest); wg >= smallest; wg /= 2 {
		all = append(all, Candidate{
			kernel.Schedule{Variant: kernel.VarQuantize, Workgroup: wg, Vec: 1},
			fmt.Sprintf("%d blocks, one to an invocation", points(k.Parallel)),
		})
	}
	return all
}

func checkQuantize(k *kernel.Kernel, s kernel.Schedule) error {
	if s.Vec != 1 || s.Subgroup != 0 {
		return fmt.Errorf("blocks take neither vectors nor subgroups")
	}
	return k.CheckQuantize()
}
