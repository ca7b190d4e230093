package graphgen

import (
	"errors"

	"github.com/vkc-go/vkc/ir"
)

// Shrink returns a smaller graph for which fails still holds. It takes each of these steps as long as fails then still
// holds: it drops an output or an update, turns an update into an output, replaces an output by an argument of its
// node, or replaces a node by an argument of the same type or by a new input.
func Shrink(g *ir.Graph, fails func(*ir.Graph) bool) *ir.Graph {
	for {
		smaller := shrinkOnce(g, fails)
		if smaller == nil {
			return g
		}
		g = smaller
	}
}

// shrinkOnce returns a smaller graph that still fails, or nil if it finds none. It tries one step of Shrink after the
// other.
func shrinkOnce(g *ir.Graph, fails func(*ir.Graph) bool) *ir.Graph {
	// try returns h if it is a valid and different graph that still fails, and nil otherwise.
	try := func(h *ir.Graph, err error) *ir.Graph {
		if err != nil || h.Verify() != nil || h.String() == g.String() || !fails(h) {
			return nil
		}
		return h
	}
	for i := range g.Outputs() { // drop it
		if h := try(rebuild(g, nil, outputsWith(g, i, nil), nil)); h != nil {
			return h
		}
	}
	for i := range g.Updates() { // drop it, or make it an output
		if h := try(rebuild(g, nil, nil, func(j int) bool { return j != i })); h != nil {
			return h
		}
		if h := try(showUpdate(g, i)); h != nil {
			return h
		}
	}
	if h := shrinkNodes(g, try); h != nil {
		return h
	}
	for i, o := range g.Outputs() { // return an argument of its node
		for _, a := range o.Node.Args() {
			if a.DType().IsBlock() { // an output cannot have blocks
				continue
			}
			if h := try(rebuild(g, nil, outputsWith(g, i, a), nil)); h != nil {
				return h
			}
		}
	}
	return nil
}

// shrinkNodes returns a graph without one of g's nodes that still fails according to try, or nil.
func shrinkNodes(g *ir.Graph, try func(*ir.Graph, error) *ir.Graph) *ir.Graph {
	live := g.Live()
	for i := len(g.Nodes()) - 1; i >= 0; i-- {
		n := g.Nodes()[i]
		// copyGraph keeps unused inputs and states, unless it is told to leave them out.
		if n.Op() == ir.OpInput && !live[i] || n.Op() == ir.OpState && len(g.Users()[i]) == 0 {
			if h := try(without(g, n)); h != nil {
				return h
			}
		}
		if !live[i] || n.Op().Class() == ir.ClassLeaf {
			continue
		}
		// Replace n by an argument.
		for _, a := range n.Args() {
			if a.Type().Equal(n.Type()) {
				if h := try(rebuild(g, map[*ir.Node]*ir.Node{n: a}, nil, nil)); h != nil {
					return h
				}
			}
		}
		// Replace n by a new input.
		if h := try(rebuild(g, map[*ir.Node]*ir.Node{n: nil}, nil, nil)); h != nil {
			return h
		}
	}
	return nil
}

// rebuild copies the live part of a graph. A node n in replace becomes replace[n], or a new input if that is nil. The
// node of output i becomes outputs[i]; the output is left out if that is nil. If outputs itself is nil, all stay.
// Update i stays if keepUpdate is nil or keepUpdate(i) is true.
func rebuild(g *ir.Graph, replace map[*ir.Node]*ir.Node, outputs []*ir.Node,
	keepUpdate func(i int) bool) (*ir.Graph, error) {
	return copyGraph(g, replace, func(h *ir.Graph, made []*ir.Node) error {
		for i, u := range g.Updates() {
			if keepUpdate == nil || keepUpdate(i) {
				if err := h.Update(made[u.State.ID()], made[u.Value.ID()]); err != nil {
					return err
				}
			}
		}
		for i, o := range g.Outputs() {
			n := o.Node
			if outputs != nil {
				n = outputs[i]
			}
			if n != nil {
				if err := h.Output(o.Name, made[n.ID()]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// outputsWith returns the nodes of a graph's outputs, with another node for output i.
func outputsWith(g *ir.Graph, i int, n *ir.Node) []*ir.Node {
	var nodes []*ir.Node
	for _, o := range g.Outputs() {
		nodes = append(nodes, o.Node)
	}
	nodes[i] = n
	return nodes
}

// showUpdate replaces a state's update by an output.
func showUpdate(g *ir.Graph, update int) (*ir.Graph, error) {
	return copyGraph(g, nil, func(h *ir.Graph, made []*ir.Node) error {
		for _, o := range g.Outputs() {
			if err := h.Output(o.Name, made[o.Node.ID()]); err != nil {
				return err
			}
		}
		for i, u := range g.Updates() {
			if i == update {
				if err := h.Output("new "+u.State.Name(), made[u.Value.ID()]); err != nil {
					return err
				}
				continue
			}
			if err := h.Update(made[u.State.ID()], made[u.Value.ID()]); err != nil {
				return err
			}
		}
		return nil
	})
}

// without returns a copy of g without gone, an input or state, or an error if an update or an output needs it.
func without(g *ir.Graph, gone *ir.Node) (*ir.Graph, error) {
	for _, u := range g.Updates() {
		if u.State == gone {
			return nil, errInUse
		}
	}
	for _, o := range g.Outputs() {
		if o.Node == gone {
			return nil, errInUse
		}
	}
	// copyGraph leaves out a node that is replaced by itself.
	return rebuild(g, map[*ir.Node]*ir.Node{gone: gone}, nil, nil)
}

var errInUse = errors.New("the node is in use")

// copyGraph returns a copy of g's live nodes, inputs and states, without nodes that nothing uses in the end. It
// replaces nodes as in rebuild, and leaves out the nodes that replace maps to themselves. ends adds outputs and updates
// to the copy h; made has the copy of each node, by ID.
func copyGraph(g *ir.Graph, replace map[*ir.Node]*ir.Node,
	ends func(h *ir.Graph, made []*ir.Node) error) (*ir.Graph, error) {
	h := ir.NewLike(g)
	made := make([]*ir.Node, len(g.Nodes()))
	live := g.Live()
	for i, n := range g.Nodes() {
		by, ok := replace[n]
		switch {
		case ok && by == n:
			continue
		case ok && by != nil:
			made[i] = made[by.ID()]
			continue
		case !live[i] && n.Op() != ir.OpInput && n.Op() != ir.OpState:
			continue
		}
		args := make([]*ir.Node, len(n.Args()))
		for j, a := range n.Args() {
			args[j] = made[a.ID()]
		}
		op, attrs := n.Op(), []ir.Attr(n.Attrs())
		if ok { // replace has nil for n: cut the graph here
			op, args = ir.OpInput, nil
			attrs = []ir.Attr{attr("name", "cut "+n.String()), attr("dtype", n.DType()), attr("shape", n.Shape())}
		}
		m, err := h.Add(op, args, attrs, "")
		if err != nil {
			return nil, err
		}
		made[i] = m
	}
	if err := ends(h, made); err != nil {
		return nil, err
	}
	// Copying drops the nodes that nothing in h uses.
	return ir.Rewrite(h, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		return rw.Copy(n, args)
	})
}
