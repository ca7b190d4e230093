package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/passes/plan"
)

// prepackWeights finds the kernels that read nothing but weights, constants and
// what others of them make, such as those that store weights as matrix units
// take them. They run once, before all others, and what these need of them is
// kept in buffers outside of the arena. In the body of a loop what the body is given counts as well: such kernels run
// once, before the trips.
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

// canPrepare reports whether a kernel is to run once, given values that are ready before: what it stores is then
// read by others only, and made by it alone.
func (s *State) canPrepare(k *kernel.Kernel, ready map[plan.ValueID]bool) bool {
	return k.CanPrepare(func(buffer int) bool { return ready[buffer] }) &&
		!slices.ContainsFunc(k.Bindings, func(b kernel.Binding) bool {
			return b.Write && !b.Fault &&
				(s.Plan.Value(b.Buffer).Origin != plan.Temp || len(s.Plan.Writers(b.Buffer)) > 1)
		})
}
