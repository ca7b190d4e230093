package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/passes/plan"
)

// prepackWeights finds the kernels that depend only on weights and constants, such as kernels that repack weights for
// matrix units. They run once, when the program is loaded, and their results are kept in buffers outside of the arena.
// In a loop body the captured values count as constants: such kernels run once, before the trips.
func prepackWeights(s *State) error {
	ready := s.captured()
	var once []plan.KernelID
	for _, id := range s.Plan.IDs() {
		k := s.Plan.Kernel(id)
		if !s.canPrepare(k, ready) {
			continue
		}
		once = append(once, id)
		for _, b := range k.Bindings {
			ready[b.Buffer] = ready[b.Buffer] || b.Write
		}
	}
	s.Plan.RunOnce(once)
	return nil
}

// canPrepare reports whether a kernel can run once, given the values that are ready before. It must be the only kernel
// that writes its results.
func (s *State) canPrepare(k *kernel.Kernel, ready map[plan.ValueID]bool) bool {
	return k.CanPrepare(func(buffer int) bool { return ready[buffer] }) &&
		!slices.ContainsFunc(k.Bindings, func(b kernel.Binding) bool {
			return b.Write && !b.Fault &&
				(s.Plan.Value(b.Buffer).Origin != plan.Temp || len(s.Plan.Writers(b.Buffer)) > 1)
		})
}
