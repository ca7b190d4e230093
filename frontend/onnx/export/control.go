package export

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// inside writes the nodes of a body into a scope of its own, which it returns. bind returns the name of the value of an
// input or state of the body; it may be a value of the scopes around. then declares the body's results.
func (c *call) inside(name string, body *ir.Graph, bind func(leaf *ir.Node) string, then func()) *scope {
	w := c.writer
	w.scope = newScope(w.scope, name)
	made := w.scope
	live := body.Live()
	for _, n := range body.Nodes() {
		switch {
		case n.Op() == ir.OpInput || n.Op() == ir.OpState:
			w.names[n] = bind(n)
		case live[n.ID()]:
			w.node(n)
		}
	}
	then()
	w.scope = made.outer
	return made
}

// gives makes a value a result of the body that is being written.
func (c *call) gives(value string, t ir.Type) {
	name := c.emitNew("Identity", []string{value})
	c.scope.outputs = append(c.scope.outputs, port(name, t))
}

// branch writes op if. Its bodies use the values around them directly, so ONNX's If has no inputs but the condition.
func branch(c *call) string {
	attrs := c.node.Attrs()
	var bodies []attribute
	for _, name := range []string{"then", "else"} {
		body, next := attrs.Graph(name), 0
		s := c.inside(name, body, func(*ir.Node) string { next++; return c.arg(next) }, func() {
			for _, o := range body.Outputs() {
				c.gives(c.names[o.Node], o.Node.Type())
			}
		})
		bodies = append(bodies, attribute{name + "_branch", s})
	}
	out := c.emitAll("If", len(attrs.Graph("then").Outputs()), []string{c.arg(0)}, bodies...)
	c.results[c.node] = out
	return out[0]
}

// loop writes op loop. ONNX's Loop has as inputs the number of trips, the first condition or "", and the first values
// of the states. Its body has as inputs the number of the trip, the condition and the states, and as outputs the next
// condition and states.
func loop(c *call) string {
	attrs := c.node.Attrs()
	body, until := attrs.Graph("body"), attrs.Bool("while")
	states := body.Leaves(ir.OpState)
	next := map[*ir.Node]*ir.Node{}
	for _, u := range body.Updates() {
		next[u.State] = u.Value
	}
	in := []string{c.number(attrs.Shape("trips")[0]), ""}
	if until {
		in[1] = c.arg(0)
	}
	for i := range states {
		in = append(in, c.arg(i))
	}
	given := len(states)
	var carried []string
	s := c.inside("body", body, func(n *ir.Node) string {
		if n.Op() == ir.OpInput {
			given++
			return c.arg(given - 1)
		}
		c.count++
		name := c.unique(fmt.Sprintf("%s_%d", n.Name(), c.count))
		carried = append(carried, name)
		return name
	}, func() {
		c.count++
		trip, going := c.unique(fmt.Sprintf("trip_%d", c.count)), c.unique(fmt.Sprintf("going_%d", c.count))
		c.scope.inputs = append(c.scope.inputs, port(trip, ir.Type{DType: ir.I64}),
			port(going, ir.Type{DType: ir.Bool}))
		value := func(state *ir.Node) string {
			if v := next[state]; v != nil {
				return c.names[v]
			}
			return c.names[state]
		}
		if until {
			going = value(states[0])
		}
		c.gives(going, ir.Type{DType: ir.Bool})
		for i, state := range states {
			c.scope.inputs = append(c.scope.inputs, port(carried[i], state.Type()))
			c.gives(value(state), state.Type())
		}
	})
	out := c.emitAll("Loop", len(states), in, attribute{"body", s})
	c.results[c.node] = out
	return out[0]
}
