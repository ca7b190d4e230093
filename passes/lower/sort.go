package lower

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// isOrder reports whether n returns the sorted order of rows: argsort or top_k_indices.
func isOrder(n *ir.Node) bool { return n.Op() == ir.OpArgsort || n.Op() == ir.OpTopKIndices }

// lowerSort makes the kernel of an argsort or top-k. Keys are loaded along a fold axis over the row's elements. Results
// are stored along the same axis, where it counts ranks in the sorted order.
func (l *lowerer) lowerSort() {
	n := l.c.Cores[0]
	x := n.Arg(0)
	axis := analysis.Axis(n)
	l.k.Family = kernel.FamilySort
	l.space = n.Shape()
	l.k.Fold, l.k.Take = x.Shape()[axis], l.space[axis]
	shape := append(ir.Shape{}, l.space...)
	shape[axis] = ir.D(1)
	l.at = l.parallel(shape)
	// Keys are loaded at positions along the axis.
	l.at[axis] = kernel.Axis(l.k.FoldAxis(), l.k.Fold)
	key := l.value(x, l.at)
	combine := kernel.CombineOrder
	if analysis.Descending(n) {
		combine = kernel.CombineOrderDown
	}
	l.k.Phases = []kernel.Phase{{Combine: combine, Value: key, Name: "order"}}
	l.accs[n] = []*kernel.Expr{l.b.Acc(0, ir.I32, "order")}
	// Results are stored at ranks along the same axis.
	l.at[axis] = kernel.Axis(l.k.FoldAxis(), l.k.Take)
	l.storeResults(perElement)
}
