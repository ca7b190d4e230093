// Package fast has quicker kernels than the interpreter's for the ops that models spend their time in. They
// compute in float32, as devices do, on vectors where the processor has them, and must agree with the
// interpreter within an op's tolerance.
//
//	p, err := interp.New(g, interp.Options{Replace: fast.Kernels})
//
// Start from [Kernels]: elementwise ops become chains by what their rows in package ir say, other ops have a row here.
package fast

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// row says which nodes of an op are computed here, and by what. A node whose values float32 cannot hold
// never comes this far.
type row struct {
	accepts func(n *ir.Node) bool
	compute func(c *interp.Call) error
	stored  func(n *ir.Node) int                        // as [interp.Kernel.Stored]; nil for -1
	apart   []int                                       // as [interp.Kernel.Apart]
	rounds  bool                                        // as [interp.Kernel.Rounds]
	fills   bool                                        // as [interp.Kernel.Fills]
	prepare func(n *ir.Node) func(c *interp.Call) error // makes compute for a node, where that is nil
}

// rows has one row for each op.
var rows = map[ir.Op]row{
	ir.OpMatMul: {accepts: matrices, compute: matmul, stored: storedRows, fills: true},
	ir.OpConv:   {accepts: narrow, compute: conv, fills: true},
	ir.OpEmbedding: {accepts: tables, compute: embedding, stored: func(*ir.Node) int { return 0 }, rounds: true,
		fills: true},
	ir.OpAttention: {accepts: heads, compute: attention, apart: []int{1, 2}, fills: true},
	ir.OpRope:      {accepts: narrowFirst, prepare: prepareRope, fills: true},
	ir.OpSoftmax:   {accepts: innermost, compute: byRow(softmaxRow), fills: true},
	ir.OpRMSNorm:   {accepts: narrow, compute: rmsNorm, fills: true},
	ir.OpLayerNorm: {accepts: narrow, compute: layerNorm, fills: true},
}

// Kernels returns, by node ID, what computes nodes of a graph faster than the interpreter does; nil where nothing does.
func Kernels(g *ir.Graph) []*interp.Kernel {
	list, within := make([]*interp.Kernel, len(g.Nodes())), make([]bool, len(g.Nodes()))
	c := newChains(g)
	for i, n := range slices.Backward(g.Nodes()) {
		if within[i] {
			continue
		}
		if r, ok := rows[n.Op()]; ok && isNarrow(n.DType()) && r.accepts(n) {
			list[i] = r.kernel(n)
		} else if p := c.ending(n, within); p != nil {
			list[i] = &interp.Kernel{Compute: p.compute, Args: p.args, Stored: -1, Fills: true, Rounds: true}
		}
	}
	return list
}

func (r row) kernel(n *ir.Node) *interp.Kernel {
	k := &interp.Kernel{Compute: r.compute, Stored: -1, Apart: r.apart, Rounds: r.rounds, Fills: r.fills}
	if r.prepare != nil {
		k.Compute = r.prepare(n)
	}
	if r.stored != nil {
		k.Stored = r.stored(n)
	}
	return k
}

// isNarrow reports whether a dtype is one of floats that float32 holds, blocks aside.
func isNarrow(t ir.DType) bool { return t.IsFloat() && !t.IsBlock() && t != ir.F64 }

// narrow accepts floats that float32 holds.
func narrow(n *ir.Node) bool {
	return !slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return !isNarrow(a.DType()) })
}

// innermost accepts an op along the innermost axis.
func innermost(n *ir.Node) bool {
	axis, err := ir.ResolveAxis(int64(n.Attrs().Int("axis")), n.Rank())
	return err == nil && axis == n.Rank()-1 && narrow(n)
}
