package passes

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/passes/plan"
)

// lowerAll orders the clusters by level and makes their kernels.
func lowerAll(s *State) error {
	f := s.Fusion
	if cycles := f.sortClusters(); cycles != nil {
		for c := range cycles {
			return fmt.Errorf("kernel of %s waits for itself", c.name())
		}
	}
	clusters := slices.Clone(f.Clusters)
	slices.SortStableFunc(clusters, func(a, b *Cluster) int { return a.level - b.level })
	s.Plan = f.values.Graph
	for _, c := range clusters {
		kernels, err := f.lowerRuns(c)
		if err != nil {
			return fmt.Errorf("kernel of %s (%s): %w", c.name(), c.Kind, err)
		}
		for _, k := range kernels {
			s.Plan.Append(k)
		}
	}
	for v, n := range s.Graph.Nodes() {
		if s.pricer != nil && isFixed(n) && n.DType().IsBlock() {
			s.layOutWeight(v)
		}
	}
	return nil
}

// layOutWeight chooses the layout of a weight's blocks, before any pass asks for the cost of a kernel that reads them.
// A weight that some kernel copies keeps the file's layout.
func (s *State) layOutWeight(v plan.ValueID) {
	weight, ids := s.Plan.Value(v), s.Plan.Readers(v)
	readers := make([]*kernel.Kernel, len(ids))
	for i, id := range ids {
		readers[i] = s.Plan.Kernel(id)
		if slices.ContainsFunc(readers[i].Bindings, func(b kernel.Binding) bool {
			return b.Buffer == v && b.DType != weight.Type.DType
		}) {
			return
		}
	}
	weight.Layout = s.pricer.Layout(weight.Type.DType, readers)
	for _, k := range readers {
		for i := range k.Bindings {
			if k.Bindings[i].Buffer == v {
				k.Bindings[i].Layout = weight.Layout
			}
		}
	}
}

// canonicalize brings every kernel into the form that is emitted.
func canonicalize(s *State) error {
	for _, id := range s.Plan.IDs() {
		s.Plan.Replace(id, kernel.Canonical(s.Plan.Kernel(id)))
	}
	return nil
}
