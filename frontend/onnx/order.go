package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// reads calls visit for each name that a node reads: its inputs, and the names that its subgraphs read from enclosing
// graphs.
func (n *Node) reads(visit func(name string)) {
	for _, name := range n.Inputs {
		visit(name)
	}
	for _, a := range n.Attributes {
		for _, g := range append(slices.Clip(a.Graphs), a.Graph) {
			if g != nil {
				for _, name := range g.outer {
					visit(name)
				}
			}
		}
	}
}

// ordered sorts nodes topologically, so that each comes after the nodes that compute its inputs. A node after a reader
// of its result moves to just before its first reader. Other nodes keep their order. ordered returns an error if two
// nodes make the same result, or if there is a cycle.
func ordered(nodes []*Node) ([]*Node, error) {
	maker := map[string]int{} // by result: the index of the node
	for i, n := range nodes {
		for _, name := range n.Outputs {
			if other, ok := maker[name]; ok && name != "" {
				return nil, fmt.Errorf("%s and %s both make %s: rename one of the results",
					nodes[other].titleAndOp(), n.titleAndOp(), ir.Printable(name))
			}
			maker[name] = i
		}
	}
	delete(maker, "")                  // outputs that a node leaves out have an empty name
	needs := make([][]int, len(nodes)) // by node: the nodes that make what it reads
	inOrder := true
	for i, n := range nodes {
		n.reads(func(name string) {
			if from, ok := maker[name]; ok {
				needs[i] = append(needs[i], from)
				inOrder = inOrder && from < i
			}
		})
	}
	if inOrder {
		return nodes, nil
	}
	return depthFirst(nodes, needs)
}

// depthFirst returns the nodes in the order in which a depth-first search finishes them. needs lists, for each node,
// the nodes that must come before it. The search keeps its own stack, because chains of nodes can be long.
func depthFirst(nodes []*Node, needs [][]int) ([]*Node, error) {
	out, done := make([]*Node, 0, len(nodes)), make([]bool, len(nodes))
	seen := make([]bool, len(nodes))
	var stack []int // each node on it reads a result of the next one
	visit := func(i int) {
		seen[i] = true
		stack = append(stack, i)
	}
	for i := range nodes {
		if !seen[i] {
			visit(i)
		}
		for len(stack) > 0 {
			top := stack[len(stack)-1]
			if len(needs[top]) == 0 {
				out = append(out, nodes[top])
				done[top] = true
				stack = stack[:len(stack)-1]
				continue
			}
			next := needs[top][0]
			needs[top] = needs[top][1:]
			switch {
			case !seen[next]:
				visit(next)
			case !done[next]: // it is on the stack, so it needs itself
				var circle []*Node
				for _, k := range stack[slices.Index(stack, next):] {
					circle = append(circle, nodes[k])
				}
				return nil, circleError(circle)
			}
		}
	}
	return out, nil
}

// namedNodes is the largest number of nodes of a cycle that an error names.
const namedNodes = 10

// circleError returns the error for a cycle of nodes. Each node reads a result of the next one, and the last of the
// first.
func circleError(circle []*Node) error {
	if len(circle) == 1 {
		return fmt.Errorf("%s reads its own result, so no order can compute it", circle[0].titleAndOp())
	}
	var names []string
	for i, n := range circle {
		if i == namedNodes {
			names = append(names, fmt.Sprintf("%d more", len(circle)-i))
			break
		}
		names = append(names, n.titleAndOp())
	}
	return fmt.Errorf("%d nodes read each other's results in a cycle, so no order can compute them: %s, and again "+
		"%s", len(circle), strings.Join(names, ", "), names[0])
}

// titleAndOp names a node and its op for errors.
func (n *Node) titleAndOp() string {
	return fmt.Sprintf("%s (%s)", ir.Printable(n.title()), ir.Printable(n.op()))
}

// readsFromAround lists the names that a graph reads but does not define.
func (g *Graph) readsFromAround() []string {
	own := map[string]bool{"": true}
	for _, in := range g.Inputs {
		own[in.Name] = true
	}
	for _, t := range g.Initializers {
		own[t.Name] = true
	}
	for _, n := range g.Nodes {
		for _, name := range n.Outputs {
			own[name] = true
		}
	}
	var outer []string
	note := func(name string) {
		if !own[name] {
			own[name] = true // list it once
			outer = append(outer, name)
		}
	}
	for _, n := range g.Nodes {
		n.reads(note)
	}
	for _, out := range g.Outputs {
		note(out.Name)
	}
	return outer
}
