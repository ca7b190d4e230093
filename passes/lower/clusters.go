package lower

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/passes/analysis"
	"github.com/vkc-go/vkc/passes/plan"
)

// Lower makes the kernels of all clusters, in the order of their levels, and adds them to Plan. A pricer, if not nil,
// chooses the layouts of quantized weights.
func (f *Fusion) Lower(pricer kernel.Pricer) error {
	if cycles := f.sortClusters(); cycles != nil {
		for c := range cycles { // names any one of them
			return fmt.Errorf("internal error: the kernel of %s waits for itself", c.name())
		}
	}
	clusters := slices.Clone(f.Clusters)
	slices.SortStableFunc(clusters, func(a, b *Cluster) int { return a.level - b.level })
	for _, c := range clusters {
		kernels, err := f.lowerCluster(c)
		if err != nil {
			return fmt.Errorf("kernel of %s (%s): %w", c.name(), c.Kind, err)
		}
		for _, k := range kernels {
			f.Plan.Append(k)
		}
	}
	for v, n := range f.Graph.Nodes() {
		if pricer != nil && analysis.IsFixed(n) && n.DType().IsBlock() {
			f.layOutWeight(v, pricer)
		}
	}
	return nil
}

// layOutWeight chooses the layout of a quantized weight, before any pass asks for the price of a kernel that reads it:
// blocks as in the file, or planes if the pricer expects its readers to be faster then. A weight that some kernel
// copies unchanged keeps the file's layout.
func (f *Fusion) layOutWeight(v plan.ValueID, pricer kernel.Pricer) {
	weight, ids := f.Plan.Value(v), f.Plan.Readers(v)
	readers := make([]*kernel.Kernel, len(ids))
	for i, id := range ids {
		readers[i] = f.Plan.Kernel(id)
		// A kernel that copies the blocks unchanged binds the weight with another dtype.
		if slices.ContainsFunc(readers[i].Bindings, func(b kernel.Binding) bool {
			return b.Buffer == v && b.DType != weight.Type.DType
		}) {
			return
		}
	}
	w := kernel.Work{Form: kernel.FormPlanes, Format: weight.Type.DType}
	if !kernel.Suits(pricer, w, readers...) {
		return
	}
	weight.Layout = kernel.LayoutPlanes
	for _, k := range readers {
		for i := range k.Bindings {
			if k.Bindings[i].Buffer == v {
				k.Bindings[i].Layout = weight.Layout
			}
		}
	}
}
