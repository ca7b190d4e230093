package ir

import (
	"errors"
	"fmt"
	"maps"
)

// Verify checks every invariant of the graph by inferring all types again. A graph made through Add, Output and Update
// always passes. Passes run it on their results so that a mistake is found where it was made.
func (g *Graph) Verify() error {
	if g == nil {
		return errors.New("the graph is nil")
	}
	for i, n := range g.nodes {
		if err := g.verifyNode(i, n); err != nil {
			return fmt.Errorf("node %%%d (%s): %w", i, n.op, err)
		}
	}
	if len(g.outputs) == 0 && len(g.updates) == 0 {
		return fmt.Errorf("%s has no outputs and no state updates, so it computes nothing", Titled("graph", g.Name))
	}
	return nil
}

// verifyNode checks node i: its place in the graph, its arguments, and that its op's rule infers its type.
func (g *Graph) verifyNode(i int, n *Node) error {
	if n.id != i || n.graph != g {
		return fmt.Errorf("belongs elsewhere")
	}
	for _, a := range n.args {
		if a.graph != g || a.id >= i || g.nodes[a.id] != a {
			return fmt.Errorf("argument %s does not come before it", a)
		}
	}
	call := &Call{Op: n.op, Args: n.args, Attrs: n.attrs, inBody: g.body}
	typ, err := call.infer(n.op.Info())
	if err != nil {
		return err
	}
	if !typ.Equal(n.typ) {
		return fmt.Errorf("it has type %s, but its rule gives %s", n.typ, typ)
	}
	for _, body := range n.Bodies() {
		if err := body.Verify(); err != nil {
			return fmt.Errorf("body %q: %w", body.Name, err)
		}
	}
	return nil
}

// NewLike returns a graph with the same name and symbols, without nodes. It is a body if g is one.
func NewLike(g *Graph) *Graph {
	return &Graph{Name: g.Name, body: g.body, info: g.info, symbols: maps.Clone(g.symbols)}
}

// Rewriter is the state of a call of Rewrite, which builds graph New from graph Old node by node.
type Rewriter struct {
	Old, New *Graph
	mapped   []*Node
}

// Mapped returns the replacement, in the new graph, of a node of the old one.
func (rw *Rewriter) Mapped(old *Node) *Node { return rw.mapped[old.id] }

// Copy adds a node to the new graph with the op and attributes of n, and the given arguments.
func (rw *Rewriter) Copy(n *Node, args []*Node) (*Node, error) {
	return rw.New.Add(n.op, args, n.attrs, n.pos)
}

// Rewrite returns a new graph. f makes the replacement of each live node, including inputs, weights and states, from
// its rewritten arguments; it may call rw.Copy. Unused inputs and states are kept, because they are part of the
// program's interface.
func Rewrite(g *Graph, f func(rw *Rewriter, n *Node, args []*Node) (*Node, error)) (*Graph, error) {
	rw := &Rewriter{Old: g, New: NewLike(g), mapped: make([]*Node, len(g.nodes))}
	live := g.Live()
	for i, n := range g.nodes {
		if !live[i] && n.op != OpInput && n.op != OpState {
			continue
		}
		args := make([]*Node, len(n.args))
		for j, a := range n.args {
			args[j] = rw.mapped[a.id]
		}
		m, err := f(rw, n, args)
		if err != nil {
			return nil, err
		}
		rw.mapped[i] = m
	}
	for _, o := range g.outputs {
		if err := rw.New.Output(o.Name, rw.mapped[o.Node.id]); err != nil {
			return nil, err
		}
	}
	for _, u := range g.updates {
		if err := rw.New.Update(rw.mapped[u.State.id], rw.mapped[u.Value.id]); err != nil {
			return nil, err
		}
	}
	return rw.New, nil
}

// CopyInto adds copies of g's nodes to an empty graph and returns them by node ID. It does not copy outputs and
// updates.
func CopyInto(to, g *Graph) ([]*Node, error) { return copyInto(to, g, g.nodes) }

// copyInto is CopyInto in a given order of nodes, arguments before users.
func copyInto(to, g *Graph, order []*Node) ([]*Node, error) {
	if err := to.DeclareSymbolsOf(g); err != nil {
		return nil, err
	}
	copies := make([]*Node, len(g.nodes))
	for _, n := range order {
		args := make([]*Node, len(n.args))
		for j, a := range n.args {
			args[j] = copies[a.id]
		}
		c, err := to.Add(n.op, args, n.attrs, n.pos)
		if err != nil {
			return nil, err
		}
		copies[n.id] = c
	}
	return copies, nil
}

// Reorder returns the graph with its nodes in the given order, which must contain each of them once, arguments before
// users.
func Reorder(g *Graph, order []*Node) (*Graph, error) {
	if len(order) != len(g.nodes) {
		return nil, fmt.Errorf("order of %d nodes for a graph of %d", len(order), len(g.nodes))
	}
	to := NewLike(g)
	copies, err := copyInto(to, g, order)
	if err != nil {
		return nil, err
	}
	for _, o := range g.outputs {
		if err := to.Output(o.Name, copies[o.Node.id]); err != nil {
			return nil, err
		}
	}
	for _, u := range g.updates {
		if err := to.Update(copies[u.State.id], copies[u.Value.id]); err != nil {
			return nil, err
		}
	}
	return to, nil
}
