package ir

import "fmt"

// An elementwise op is expanded if its result has at least expandedTimes the elements of its largest operand. Smaller
// results than expandedElems cost too little time and memory to matter.
const (
	expandedTimes = 100
	expandedElems = 1 << 22
)

// Expansion returns a line about the largest elementwise result that is at least 100 times as large as its operands,
// because it broadcasts them. An example is the differences of all pairs of positions. It returns "" if there is
// none. Such a graph usually has a faster form: a matmul, or a loop over blocks. Masks do not count, nor values that
// depend on no input or weight.
func (g *Graph) Expansion() string {
	var worst *Node
	live := g.Live()
	for _, n := range g.nodes {
		if live[n.id] && n.expands() && (worst == nil || n.Shape().MaxElems() > worst.Shape().MaxElems()) {
			worst = n
		}
	}
	if worst == nil {
		return ""
	}
	where := ""
	if worst.pos != "" {
		where = " (" + worst.pos + ")"
	}
	return fmt.Sprintf("%s%s broadcasts to %s, %d times the size of its operands: a matmul or a loop over blocks "+
		"takes less time and memory", worst.op, where, worst.Type(), worst.Shape().MaxElems()/worst.operandElems())
}

// expands reports whether broadcasting makes the result of n much larger than its operands.
func (n *Node) expands() bool {
	elems := n.Shape().MaxElems()
	return n.op.Class() == ClassElementwise && n.DType() != Bool && elems >= expandedElems &&
		elems/max(n.operandElems(), 1) >= expandedTimes && n.computed(map[*Node]bool{})
}

// operandElems returns the number of elements of the largest operand, before it was broadcast.
func (n *Node) operandElems() int64 {
	largest := int64(1)
	for _, a := range n.args {
		for a.op.Class() == ClassView {
			if from := a.args[0]; from.Shape().MaxElems() > a.Shape().MaxElems() {
				break // a slice
			}
			a = a.args[0]
		}
		largest = max(largest, a.Shape().MaxElems())
	}
	return largest
}

// computed reports whether a value depends on an input, a weight or a state. seen has the nodes that do not, so far.
func (n *Node) computed(seen map[*Node]bool) bool {
	if seen[n] {
		return false
	}
	seen[n] = true
	switch n.op {
	case OpInput, OpWeight, OpState:
		return true
	}
	for _, a := range n.args {
		if a.computed(seen) {
			return true
		}
	}
	return false
}
