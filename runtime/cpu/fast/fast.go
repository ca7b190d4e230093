// Package fast has kernels for the ops that take most of a model's time. They are faster than the interpreter. They
// compute in float32, as devices do, with vector instructions if the processor has them. Their results must agree with
// the interpreter's within an op's tolerance.
//
//	p, err := interp.New(g, interp.Options{Replace: fast.Kernels})
//
// [Kernels] returns the kernels for a graph. Elementwise ops become chains, and ops that fold rows become folds. Both
// are compiled from the ops' rows in package ir. For other ops, table rows has hand-written kernels.
package fast

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// elementWork is the estimated cost of a simple operation on an element, such as a comparison or a copy, in
// multiply-adds.
const elementWork = 4

// kernelRow describes the hand-written kernel of an op: the nodes that it can compute, and the function that computes
// them. It computes only nodes with results that float32 can represent, unless ints is true.
type kernelRow struct {
	accepts  func(n *ir.Node) bool // whether the kernel can compute a node
	compute  func(c *interp.Call) error
	together func(calls []*interp.Call) error                 // see [interp.Kernel.Together]; in place of compute
	stored   func(n *ir.Node) int                             // see [interp.Kernel.Stored]; nil means -1
	apart    []int                                            // see [interp.Kernel.Apart]
	rounds   bool                                             // see [interp.Kernel.Rounds]
	fills    bool                                             // see [interp.Kernel.Fills]
	words    bool                                             // see [interp.Kernel.Words]
	formats  bool                                             // see [interp.Kernel.Formats]
	ints     bool                                             // whether the node's results may be integers or bools
	prepare  func(n *ir.Node) func(c *interp.Call) error      // if set, returns the compute function for a node
	packs    int                                              // see [interp.Kernel.Packs]
	pack     func(n *ir.Node) func(t interp.Tensor) []float32 // if set, returns [interp.Kernel.Pack] for a node
	form     func(n *ir.Node) string                          // if set, returns [interp.Kernel.Form] for a node
}

// rows has the hand-written kernels.
var rows = map[ir.Op]kernelRow{
	ir.OpMatMul: {accepts: takesMatmul, together: matmuls, stored: storedRows, fills: true, packs: 1, pack: packRows,
		form: packedForm},
	ir.OpEmbedding: {accepts: takesEmbedding, compute: embedding, stored: func(*ir.Node) int { return 0 }, rounds: true,
		fills: true},
	ir.OpCausalConv1D:  {accepts: narrow, compute: causalConv1D, fills: true},
	ir.OpSSMScan:       {accepts: narrow, compute: scanHeads, fills: true},
	ir.OpDeltaRule:     {accepts: narrow, compute: scanHeads, fills: true},
	ir.OpAttention:     {accepts: takesAttention, compute: attention, apart: []int{1, 2}, fills: true},
	ir.OpAttentionLSE:  {accepts: takesAttention, compute: attentionLSE, apart: []int{1}, fills: true},
	ir.OpAttentionGrad: {accepts: takesAttention, compute: attentionGrad, apart: []int{1, 2}, fills: true},

	ir.OpSort: {accepts: unblocked, prepare: prepareSort, ints: true, words: true, formats: true, rounds: true,
		fills: true},
	ir.OpArgsort: {accepts: unblocked, prepare: prepareSort, ints: true, words: true, formats: true, rounds: true,
		fills: true},
	ir.OpTopKIndices: {accepts: unblocked, prepare: prepareSort, ints: true, words: true, formats: true, rounds: true,
		fills: true},
	ir.OpGroupNorm: {accepts: unblocked, prepare: prepareGroupNorm, ints: true, words: true, formats: true,
		rounds: true, fills: true},
	ir.OpRope:    {accepts: narrowFirst, prepare: prepareRope, fills: true},
	ir.OpMaxPool: {accepts: narrow, prepare: preparePool, fills: true},
	ir.OpAvgPool: {accepts: narrow, prepare: preparePool, fills: true},
}

func init() {
	moves := func(accepts func(n *ir.Node) bool, compute func(c *interp.Call) error) kernelRow {
		return kernelRow{accepts: accepts, compute: compute, ints: true, words: true, formats: true, rounds: true,
			fills: true}
	}
	for op := range copies {
		rows[op] = moves(takesCopies, copyBoxes)
	}
	rows[ir.OpCast] = moves(sameInput, copyAll)
	rows[ir.OpTril], rows[ir.OpTriu] = moves(unblocked, triangle), moves(unblocked, triangle)
	rows[ir.OpTranspose] = moves(takesTranspose, transpose)
	rows[ir.OpResizeNearest] = moves(unblocked, resizeNearest)
	for _, op := range []ir.Op{ir.OpCumSum, ir.OpCumProd, ir.OpCumMax, ir.OpCumMin} {
		rows[op] = moves(takesInts, scanInts)
	}
	for _, op := range []ir.Op{ir.OpScatter, ir.OpScatterAdd, ir.OpIndexAdd, ir.OpScatterND, ir.OpScatterNDAdd} {
		rows[op] = moves(takesScatter, scatter)
	}
	for _, op := range []ir.Op{ir.OpGather, ir.OpIndexSelect, ir.OpGatherND} {
		rows[op] = moves(unblocked, gather)
	}
}

// Kernels returns the kernels for the nodes of a graph, by node ID. An entry is nil if the node has no kernel of its
// own: the interpreter computes it, or the kernel of a later node does.
func Kernels(g *ir.Graph) []*interp.Kernel {
	list := make([]*interp.Kernel, len(g.Nodes()))
	absorbed := make([]bool, len(g.Nodes())) // nodes that the kernel of a later node computes
	c := newChains(g)
	for i, n := range slices.Backward(g.Nodes()) { // a node before the earlier nodes that its kernel may compute
		if absorbed[i] {
			continue
		}
		if k := c.contraction(n, nil, nil, absorbed); k != nil {
			list[i] = k
		} else if r, ok := rows[n.Op()]; ok && (isNarrow(n.DType()) || r.ints) && r.accepts(n) {
			list[i] = r.kernel(n)
		} else if k := c.withEpilogue(n, absorbed); k != nil {
			list[i] = k
		} else if k := c.folding(n, absorbed); k != nil {
			list[i] = k
		} else {
			list[i] = c.chainFor(n, absorbed)
		}
	}
	return list
}

// kernel returns the kernel for a node.
func (r kernelRow) kernel(n *ir.Node) *interp.Kernel {
	k := &interp.Kernel{Compute: r.compute, Together: r.together, Stored: -1, Apart: r.apart, Rounds: r.rounds,
		Fills: r.fills, Words: r.words, Formats: r.formats}
	if r.prepare != nil {
		k.Compute = r.prepare(n)
	}
	if r.stored != nil {
		k.Stored = r.stored(n)
	}
	if r.pack != nil {
		k.Packs, k.Pack, k.Form = r.packs, r.pack(n), r.form(n)
	}
	return k
}

// isNarrow reports whether a dtype is a type of floats that float32 can represent. It returns false for block formats.
func isNarrow(t ir.DType) bool { return t.IsFloat() && !t.IsBlock() && t != ir.F64 }

// narrow reports whether float32 can represent the elements of all of a node's arguments.
func narrow(n *ir.Node) bool {
	return !slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return !isNarrow(a.DType()) })
}

// unblocked reports whether no argument of a node has blocks.
func unblocked(n *ir.Node) bool {
	return !slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return a.DType().IsBlock() })
}
