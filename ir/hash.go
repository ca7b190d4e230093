package ir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Interface lists the names that a compiled program is bound to, in the order in which the graph's hash numbers them.
// Two graphs with the same hash have interfaces of the same lengths, and corresponding entries have the same meaning;
// only the names differ. So a program cached under the hash can be rebound to another graph's names.
type Interface struct {
	Inputs  []*Node  // in declaration order, used or not
	States  []*Node  // in declaration order, used or not
	Weights []*Node  // weights that the results depend on, in the order of first use
	Symbols []string // in the order of first use
	Outputs []string // in declaration order
}

// Hash returns the SHA-256 of the graph's canonical form. That form is text with one line per input, state and live
// node, numbered in the order of this walk:
//
//  1. the inputs, then the states, in declaration order;
//  2. the dependencies of each output, in depth-first order, left to right, in the order of the outputs;
//  3. likewise the dependencies of each state update's value, in the order of the states.
//
// A line has the op (a custom op with the digest of its GLSL), the numbers of the arguments, all attributes except
// "name" (also defaults), and the type. Symbols are numbered in the order of appearance, including bodies; weights by
// their line. A body appears as the digest of its own lines. After the nodes come the bounds of the symbols, the
// numbers of the outputs, and the updates.
//
// So the hash depends only on the computation: ops, attributes, types, sharing of values, the identity of weights,
// states, inputs and symbols, the order of inputs, states and outputs, and the value that each state gets. It does not
// depend on the names of the graph, inputs, weights, states, outputs or symbols, on node ids and source positions, on
// dead nodes or unused symbols, nor on the order in which independent nodes were added.
func (g *Graph) Hash() [32]byte {
	h := sha256.New()
	newCanon(g, newCanonSymbols()).write(h)
	return [32]byte(h.Sum(nil))
}

// HashString returns Hash in hex digits.
func (g *Graph) HashString() string {
	h := g.Hash()
	return hex.EncodeToString(h[:])
}

// Interface returns the graph's inputs, states, weights, symbols and outputs in the order in which its hash numbers
// them.
func (g *Graph) Interface() Interface {
	c := newCanon(g, newCanonSymbols())
	c.write(io.Discard)
	in := Interface{Inputs: g.Leaves(OpInput), States: g.Leaves(OpState), Symbols: c.symbols}
	for _, n := range c.order {
		if n.op == OpWeight {
			in.Weights = append(in.Weights, n)
		}
	}
	for _, o := range g.outputs {
		in.Outputs = append(in.Outputs, o.Name)
	}
	return in
}

// canon numbers the nodes and symbols of a graph as Hash documents.
type canon struct {
	g       *Graph
	order   []*Node
	number  []int // by node ID; -1 if not reached
	updates []Update
	*canonSymbols
}

// canonSymbols numbers the symbols of a graph and its bodies in the order of first use.
type canonSymbols struct {
	symbols []string
	symbol  map[string]string // canonical name of each symbol
}

func newCanonSymbols() *canonSymbols { return &canonSymbols{symbol: map[string]string{}} }

// newCanon numbers the nodes of a graph. symbols has the symbols of the enclosing graphs.
func newCanon(g *Graph, symbols *canonSymbols) *canon {
	c := &canon{g: g, number: make([]int, len(g.nodes)), canonSymbols: symbols}
	for i := range c.number {
		c.number[i] = -1
	}
	for _, n := range slices.Concat(g.Leaves(OpInput), g.Leaves(OpState)) {
		c.walk(n)
	}
	for _, o := range g.outputs {
		c.walk(o.Node)
	}
	c.updates = slices.SortedFunc(slices.Values(g.updates), func(a, b Update) int {
		return a.State.id - b.State.id
	})
	for _, u := range c.updates {
		c.walk(u.Value)
	}
	return c
}

// walk numbers n after all its dependencies. It has an explicit stack, since graphs can be too deep for recursion.
func (c *canon) walk(n *Node) {
	type frame struct {
		n    *Node
		next int // argument to visit
	}
	stack := []frame{{n, 0}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		switch {
		case c.number[top.n.id] >= 0:
			stack = stack[:len(stack)-1]
		case top.next < len(top.n.args):
			top.next++
			stack = append(stack, frame{top.n.args[top.next-1], 0})
		default:
			c.number[top.n.id] = len(c.order)
			c.order = append(c.order, top.n)
		}
	}
}

// write writes the canonical form. Writes to hashes and io.Discard cannot
// fail.
func (c *canon) write(w io.Writer) {
	fmt.Fprintln(w, "vkc graph 1")
	c.lines(w)
	for i, s := range c.symbols {
		if !IsIdent(s) {
			continue // a sum or quotient: its bound follows from its symbols
		}
		fmt.Fprintf(w, "symbol s%d <= %d\n", i, c.g.symbols[s])
	}
	c.ends(w)
}

// lines writes a line for each node.
func (c *canon) lines(w io.Writer) {
	for _, n := range c.order {
		fmt.Fprintln(w, c.line(n))
	}
}

// ends writes the numbers of the outputs and updates.
func (c *canon) ends(w io.Writer) {
	for _, o := range c.g.outputs {
		fmt.Fprintf(w, "output %d\n", c.number[o.Node.id])
	}
	for _, u := range c.updates {
		fmt.Fprintf(w, "update %d = %d\n", c.number[u.State.id], c.number[u.Value.id])
	}
}

// line returns the line of a node in the canonical form.
func (c *canon) line(n *Node) string {
	var b strings.Builder
	b.WriteString(n.op.String())
	if op := n.op.Info().Custom; op != nil {
		fmt.Fprintf(&b, " %s", op.Definition())
	}
	for _, a := range n.args {
		fmt.Fprintf(&b, " %d", c.number[a.id])
	}
	for _, a := range n.attrs {
		if !computesNothing(n.op, a.Name) {
			fmt.Fprintf(&b, " %s=%s", a.Name, c.attr(a.Value))
		}
	}
	fmt.Fprintf(&b, " : %s%s", n.typ.DType, c.shape(n.typ.Shape))
	return b.String()
}

// computesNothing reports whether an attribute does not affect the result: the name of an input, weight or state, or
// the axis along which devices may split it.
func computesNothing(op Op, attr string) bool {
	return op.Class() == ClassLeaf && (attr == nameAttr.Name || attr == shardAttr.Name)
}

// attr formats an attribute's value in the canonical form.
func (c *canon) attr(v any) string {
	switch x := v.(type) {
	case Shape:
		return c.shape(x).String()
	case *Data:
		return fmt.Sprintf("%s%s sha256 %x", x.DType, ShapeOf(x.Dims...), sha256.Sum256(x.Bytes))
	case *Graph:
		h := sha256.New()
		body := newCanon(x, c.canonSymbols)
		body.lines(h)
		body.ends(h)
		return fmt.Sprintf("sha256 %x", h.Sum(nil))
	}
	return FormatAttr(v)
}

// shape returns s with its symbols renamed.
func (c *canon) shape(s Shape) Shape {
	out := slices.Clone(s)
	for i := range out {
		if sym := out[i].Sym; sym != "" {
			out[i].Sym = c.rename(sym)
		}
	}
	return out
}

// rename returns the canonical name of a symbol, or of a sum or quotient of symbols.
func (c *canon) rename(sym string) string {
	if name := c.symbol[sym]; name != "" {
		return name
	}
	name := fmt.Sprintf("s%d", len(c.symbols))
	if !IsIdent(sym) {
		name = renameExtent(sym, c.rename)
	}
	c.symbol[sym] = name
	c.symbols = append(c.symbols, sym)
	return name
}
