package rules

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// MergeMaps makes one kernel of elementwise kernels over the same points that read the same value. For example, one
// kernel rotates queries, and two store keys and values in a cache, all three computed by one matmul. The merged kernel
// needs one launch, and reads what they share once. Fusion merges elementwise ops of the graph in the same way. This
// rule also merges kernels that do not exist before lowering, such as writes into states.
func MergeMaps(o *Optimizer, id plan.KernelID) []Proposal {
	k := o.Plan.Kernel(id)
	if !isPlainMap(k) || o.Plan.RunsOnce(id) {
		return nil
	}
	merged, p := k, propose("one kernel for readers of the same value", id)
	for _, b := range k.Bindings {
		if !b.Read || b.Params || b.Fixed {
			continue
		}
		// A kernel can move if none of the kernels that it passes, k included, writes what it binds or reads what it
		// writes. So kernels that are merged never conflict.
		for _, r := range o.readersAfter(b.Buffer, id) {
			other := o.Plan.Kernel(r)
			if p.changes(r) || !o.canMerge(merged, other) || o.Plan.RunsOnce(r) ||
				!o.Plan.CanMove(r, id, plan.NoValue) {
				continue
			}
			if both := mergeMaps(merged, other); o.fusion.Limits.SizeOf(both) <= o.fusion.Limits.Size {
				merged = both
				p.replace(r)
			}
		}
	}
	if merged == k {
		return nil
	}
	p.replace(id, merged)
	return []Proposal{p}
}

// maxReaders limits the readers of one value that MergeMaps looks at for each kernel.
const maxReaders = 64

// readersAfter lists kernels that read value v and run after kernel id, which also reads it.
func (o *Optimizer) readersAfter(v plan.ValueID, id plan.KernelID) []plan.KernelID {
	readers := o.Plan.Readers(v)
	readers = readers[slices.Index(readers, id)+1:]
	return readers[:min(len(readers), maxReaders)]
}

// isPlainMap reports whether a kernel computes each of its points alone, without conditions.
func isPlainMap(k *kernel.Kernel) bool {
	return k.Family == kernel.FamilyMap && k.Custom == nil && k.Guard == nil && k.Fault == nil
}

// canMerge reports whether map k and another kernel can become one kernel: the other kernel must be a map over the same
// points, and both together must not bind too many buffers.
func (o *Optimizer) canMerge(k, other *kernel.Kernel) bool {
	if !isPlainMap(other) || !slices.Equal(k.Parallel, other.Parallel) {
		return false
	}
	buffers := len(k.Bindings)
	for _, b := range other.Bindings {
		if !slices.ContainsFunc(k.Bindings, func(a kernel.Binding) bool { return a.Buffer == b.Buffer }) {
			buffers++
		}
	}
	return buffers <= o.fusion.Limits.Bindings
}

// mergeMaps returns one kernel with the stores of two maps over the same points.
func mergeMaps(k, other *kernel.Kernel) *kernel.Kernel {
	return kernel.Map(k, kernel.Edit{Ops: slices.Concat(k.Ops, other.Ops),
		Stores: func(m *kernel.Mapping) []kernel.Store {
			part := m.Part(other, func(axis int, extent ir.Dim) kernel.Index { return kernel.Axis(axis, extent) })
			return append(m.Stores(), part.Stores()...)
		}})
}
