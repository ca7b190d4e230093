package plan

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// New returns a graph without kernels for an op graph. Every node has a value, with the node's ID as its ID. fixed
// reports whether a node's value is loaded with the program, such as a weight.
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

// Codebook returns the value with the codebook of block format t, and adds it at the first call.
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

// How many values a kernel should be able to store, see Source: one, or any number.
const (
	OneValue      = false
	SeveralValues = true
)

// Source returns the only kernel that writes a value, if that kernel can be changed to store another value in its place
// or, if several is true, any number of values. It returns false for states: a kernel may store only a part of a state,
// and other kernels read the old value.
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

// ReadByOthers reports whether anything other than kernel `than` needs a value: it is an output or a state, or another
// kernel reads it.
func (g *Graph) ReadByOthers(v ValueID, than KernelID) bool {
	return g.Outlives(v) || slices.ContainsFunc(g.Readers(v), func(id KernelID) bool { return id != than })
}
