package analysis

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// IsStep reports whether n is an elementwise op that is constant in steps: its result is an integer, a bool, or a float
// with so few digits that neighbours are far apart. mod and rem have a step where a multiple of the divisor begins.
func IsStep(n *ir.Node) bool {
	if n.Op().Class() != ir.ClassElementwise || !n.Arg(len(n.Args())-1).DType().IsFloat() {
		return false
	}
	switch n.Op() {
	case ir.OpFloor, ir.OpCeil, ir.OpRound, ir.OpTrunc, ir.OpMod, ir.OpRem:
		return true
	}
	return !n.DType().IsFloat() || n.DType().Bits() <= 8
}

// Stepped returns the nodes from which a step follows: elementwise ops, views, moves of elements, and the least or
// greatest of them lead from the node to the step. A step turns the smallest difference of a value into a large one.
// Other ops, such as sums, have tolerances that allow for small differences of their arguments.
func Stepped(g *ir.Graph) map[*ir.Node]bool {
	stepped := map[*ir.Node]bool{}
	for _, n := range slices.Backward(g.Nodes()) {
		if !IsStep(n) && !(stepped[n] && passesOn(n)) {
			continue
		}
		for _, a := range n.Args() {
			if a.DType().IsFloat() {
				stepped[a] = true
			}
		}
	}
	return stepped
}

// passesOn reports whether a small difference of an argument stays about as small in the result of n.
func passesOn(n *ir.Node) bool {
	switch n.Op().Class() {
	case ir.ClassElementwise, ir.ClassView, ir.ClassIndexing:
		return true
	}
	return n.Op() == ir.OpReduceMax || n.Op() == ir.OpReduceMin
}
