package plan

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// New returns a graph without kernels for an op graph. Every node has a value with the same number; fixed reports
// whether a node's value is loaded with the program, such as a weight.
func New(ops *ir.Graph, fixed func(*ir.Node) bool) *Graph {
	g := &Graph{Ops: ops}
	origins := map[*ir.Node]Origin{}
	for _, o := range ops.Outputs() {
		origins[o.Node] = Output
	}
	for _, u := range ops.Updates() {
		origins[u.Value] = State
	}
	for _, n := range ops.Nodes() {
		origin := origins[n]
		switch {
		case n.Op() == ir.OpInput:
			origin = Input
		case n.Op() == ir.OpState:
			origin = State
		case n.Op() == ir.OpConst:
			origin = Const
		case fixed(n):
			origin = Weight
		}
		g.AddValue(Value{Type: n.Type(), Origin: origin, Node: n})
	}
	symbols := len(ops.Symbols()) + len(ops.Derived())
	g.Params = g.AddValue(Value{Type: ir.Type{DType: ir.U32, Shape: ir.ShapeOf(symbols)}, Origin: Params})
	return g
}

// Codebook returns the value that is the codebook of a block format.
func (g *Graph) Codebook(t ir.DType) ValueID {
	id, ok := g.codebooks[t]
	if !ok {
		if g.codebooks == nil {
			g.codebooks = map[ir.DType]ValueID{}
		}
		id = g.AddValue(Value{Type: ir.Type{DType: t}, Origin: Codebook})
		g.codebooks[t] = id
	}
	return id
}

// Source returns the kernel that computes a value as a whole, if it can store another value instead, or also several
// others. It leaves states alone, because kernels store parts of them and others read their old values.
func (g *Graph) Source(v ValueID, several bool) (KernelID, bool) {
	writers := g.Writers(v)
	if len(writers) != 1 || g.Value(v).Origin == State {
		return 0, false
	}
	k := g.Kernel(writers[0])
	stores := k.Family == kernel.FamilyMap || k.Family == kernel.FamilyRow || k.Family == kernel.FamilyMatMul ||
		k.Family == kernel.FamilyAttention && !several
	return writers[0], stores && k.Custom == nil && k.Guard == nil && !k.ReadsBuffer(v)
}

// ReadByOthers reports whether a value is an output, a state's new value, or read by a kernel other than the given one.
func (g *Graph) ReadByOthers(v ValueID, than KernelID) bool {
	return g.Outlives(v) || slices.ContainsFunc(g.Readers(v), func(id KernelID) bool { return id != than })
}
