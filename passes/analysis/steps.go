package analysis

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// IsStep reports whether n is an elementwise op of floats with a result that jumps: a rounding such as floor, a result
// that is an integer or a bool, or a float of at most 8 bits, since neighbouring values are then far apart. mod and rem
// jump at the multiples of the divisor.
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

// Stepped returns the float nodes that a step (see [IsStep]) reads, directly or through elementwise ops, views,
// indexing ops, and maxima or minima. The step turns the smallest error of such a node into a large one. Other ops,
// such as sums, end the search: their tolerances allow for small errors of their arguments.
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
