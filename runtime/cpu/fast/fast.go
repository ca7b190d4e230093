// Package fast has quicker kernels than the interpreter's for the ops that models spend their time in. They
// compute in float32, as devices do, on vectors where the processor has them, and must agree with the
// interpreter within an op's tolerance.
//
//	p, err := interp.New(g, interp.Options{Replace: fast.Kernel})
//
// Start from [Kernel]; the rows of its table are all there is.
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
	prepare func(n *ir.Node) func(c *interp.Call) error // makes compute for a node, where that is nil
}

// rows has one row for each op.
var rows = map[ir.Op]row{
	ir.OpMatMul:    {accepts: matrices, compute: matmul, stored: storedRows},
	ir.OpConv:      {accepts: narrow, compute: conv},
	ir.OpEmbedding: {accepts: tables, compute: embedding, stored: func(*ir.Node) int { return 0 }, rounds: true},
	ir.OpAttention: {accepts: plainHeads, compute: attention, apart: []int{1, 2}},
	ir.OpRope:      {accepts: narrowFirst, prepare: prepareRope},
	ir.OpSoftmax:   {accepts: innermost, compute: byRow(softmaxRow)},
	ir.OpRMSNorm:   {accepts: narrow, compute: rmsNorm},
	ir.OpLayerNorm: {accepts: narrow, compute: layerNorm},
	ir.OpAdd:       {accepts: sameShapes, compute: binary(sums)},
	ir.OpSub:       {accepts: sameShapes, compute: binary(differences)},
	ir.OpMul:       {accepts: sameShapes, compute: binary(products)},
	ir.OpDiv:       {accepts: sameShapes, compute: binary(quotients)},
	ir.OpSilu:      {accepts: sameShapes, compute: silu},
	ir.OpCast:      {accepts: becomesHalf, compute: toHalf, rounds: true},
}

// Kernel returns what computes a node faster than the interpreter does, or nil.
func Kernel(n *ir.Node) *interp.Kernel {
	r, ok := rows[n.Op()]
	if !ok || !r.accepts(n) {
		return nil
	}
	k := &interp.Kernel{Compute: r.compute, Stored: -1, Apart: r.apart, Rounds: r.rounds}
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

// becomesHalf accepts floats that are rounded to f16.
func becomesHalf(n *ir.Node) bool { return narrow(n) && n.DType() == ir.F16 }

// sameShapes accepts arguments of the result's shape.
func sameShapes(n *ir.Node) bool {
	return narrow(n) && !slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return !a.Shape().Equal(n.Shape()) })
}

// innermost accepts an op along the innermost axis.
func innermost(n *ir.Node) bool {
	axis, err := ir.ResolveAxis(int64(n.Attrs().Int("axis")), n.Rank())
	return err == nil && axis == n.Rank()-1 && narrow(n)
}
