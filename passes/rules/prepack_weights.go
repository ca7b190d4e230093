package rules

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// PrepackWeights finds the kernels that depend only on weights and constants, such as kernels that repack weights for
// tensor cores, and marks them to run once, when the program is loaded. Their results are kept outside of the arena. In
// a loop body, values from outside of the loop count as constants: such kernels run once before the trips.
func (o *Optimizer) PrepackWeights() {
	ready := map[plan.ValueID]bool{}
	if o.Plan.InLoop {
		for _, n := range o.Plan.Ops.Leaves(ir.OpInput) {
			ready[n.ID()] = true
		}
	}
	var once []plan.KernelID
	for _, id := range o.Plan.IDs() {
		k := o.Plan.Kernel(id)
		if !o.canPrepare(k, ready) {
			continue
		}
		once = append(once, id)
		for _, b := range k.Bindings {
			ready[b.Buffer] = ready[b.Buffer] || b.Write
		}
	}
	o.Plan.RunOnce(once)
}

// canPrepare reports whether a kernel can run once, when the values in ready exist. It must be the only kernel that
// writes its results.
func (o *Optimizer) canPrepare(k *kernel.Kernel, ready map[plan.ValueID]bool) bool {
	return k.CanPrepare(func(buffer int) bool { return ready[buffer] }) &&
		!slices.ContainsFunc(k.Bindings, func(b kernel.Binding) bool {
			return b.Write && !b.Fault &&
				(o.Plan.Value(b.Buffer).Origin != plan.Temp || len(o.Plan.Writers(b.Buffer)) > 1)
		})
}
