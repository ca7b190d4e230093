package passes

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/passes/plan"
)

const (
	// preparedGrowth bounds what a kernel may keep: so many times the bytes that
	// it reads. Operands in two or three parts of bf16 take up to 1.5.
	preparedGrowth = 2
	// preparedSmall is what any kernel may keep, if it reads nothing at all.
	preparedSmall = 64 << 10
)

// prepackWeights finds the kernels that read nothing but weights, constants and
// what others of them make, such as those that store weights as matrix units
// take them. They run once, before all others, and what these need of them is
// kept in buffers outside of the arena. In the body of a loop what the body is given counts as well: such kernels run
// once, before the trips. A kernel that makes much of little, as
// a broadcast does, stays with the run.
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

// canPrepare reports whether a kernel needs no run, given values that are ready
// before, and keeps little.
func (s *State) canPrepare(k *kernel.Kernel, ready map[plan.ValueID]bool) bool {
	if !k.CanPrepare(func(buffer int) bool { return ready[buffer] }) {
		return false
	}
	read, kept := int64(0), int64(0)
	for _, b := range k.Bindings {
		bytes, err := b.DType.BytesFor(b.Elems)
		switch {
		case err == nil && b.Fault:
		case err != nil, b.Write && (s.Plan.Value(b.Buffer).Origin != plan.Temp || len(s.Plan.Writers(b.Buffer)) > 1):
			return false
		case b.Write:
			kept += bytes
		default:
			read += bytes
		}
	}
	return kept <= max(preparedGrowth*read, preparedSmall)
}
