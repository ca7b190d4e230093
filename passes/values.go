package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// values is the graph of kernels, where every node has a value with the same number, plus the other values that kernels
// read.
type values struct {
	*plan.Graph
	params    plan.ValueID
	codebooks map[ir.DType]plan.ValueID
}

func newValues(g *ir.Graph) *values {
	v := &values{Graph: &plan.Graph{}, codebooks: map[ir.DType]plan.ValueID{}}
	origins := map[*ir.Node]plan.Origin{}
	for _, o := range g.Outputs() {
		origins[o.Node] = plan.Output
	}
	for _, u := range g.Updates() {
		origins[u.Value] = plan.State
	}
	for _, n := range g.Nodes() {
		origin := origins[n]
		switch {
		case n.Op() == ir.OpInput:
			origin = plan.Input
		case n.Op() == ir.OpState:
			origin = plan.State
		case n.Op() == ir.OpConst:
			origin = plan.Const
		case isFixed(n):
			origin = plan.Weight
		}
		v.AddValue(plan.Value{Type: n.Type(), Origin: origin, Node: n})
	}
	symbols := len(g.Symbols()) + len(g.Derived())
	v.params = v.AddValue(plan.Value{Type: ir.Type{DType: ir.U32, Shape: ir.ShapeOf(symbols)}, Origin: plan.Params})
	return v
}

// codebook returns the value that is the codebook of a block format.
func (v *values) codebook(t ir.DType) plan.ValueID {
	id, ok := v.codebooks[t]
	if !ok {
		id = v.AddValue(plan.Value{Type: ir.Type{DType: t}, Origin: plan.Codebook})
		v.codebooks[t] = id
	}
	return id
}

// sourceOf returns the kernel that computes a value as a whole, if it can store another value instead, or several. It
// leaves states alone, because kernels store parts of them and others read their old values.
func (s *State) sourceOf(v plan.ValueID, several bool) (plan.KernelID, bool) {
	writers := s.Plan.Writers(v)
	if len(writers) != 1 || s.Plan.Value(v).Origin == plan.State {
		return 0, false
	}
	k := s.Plan.Kernel(writers[0])
	stores := k.Family == kernel.FamilyMap || k.Family == kernel.FamilyRow || k.Family == kernel.FamilyMatMul ||
		k.Family == kernel.FamilyAttention && !several
	return writers[0], stores && k.Custom == nil && k.Guard == nil && !readsBuffer(k, v)
}

// readByOthers reports whether a value is an output, a state's new value, or read by a kernel other than the given one.
func (s *State) readByOthers(v plan.ValueID, than plan.KernelID) bool {
	return s.Plan.Outlives(v) ||
		slices.ContainsFunc(s.Plan.Readers(v), func(id plan.KernelID) bool { return id != than })
}

// readsBuffer reports whether a kernel reads a buffer or must run after a store to it.
func readsBuffer(k *kernel.Kernel, buffer int) bool {
	return slices.Contains(k.After, buffer) ||
		slices.ContainsFunc(k.Bindings, func(b kernel.Binding) bool { return b.Read && b.Buffer == buffer })
}

// storedFirst is the value of a kernel's first store, or -1.
func storedFirst(k *kernel.Kernel) plan.ValueID {
	if len(k.Stores) == 0 {
		return -1
	}
	return k.Bindings[k.Stores[0].Bind].Buffer
}
