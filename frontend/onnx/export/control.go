package export

import "github.com/vkc-go/vkc/ir"

// inside writes the nodes of body into a new scope with the given name, and returns the scope. bind returns the value's
// name for an input or state of the body; it may be a value of an outer scope. inside calls results last, which
// declares the body's results.
func (c *call) inside(name string, body *ir.Graph, bind func(leaf *ir.Node) string, results func()) *scope {
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
	results()
	w.scope = made.outer
	return made
}

// takes declares an input of the body that is being written.
func (c *call) takes(name string, t ir.Type) { c.scope.inputs = append(c.scope.inputs, port(name, t)) }

// gives makes a value a result of the body that is being written.
func (c *call) gives(value string, t ir.Type) {
	name := c.emitNew("Identity", []string{value})
	c.scope.outputs = append(c.scope.outputs, port(name, t))
}

// branch writes op if as ONNX's If. The only input is the condition, because its bodies read values around them
// directly.
func branch(c *call) string {
	attrs := c.node.Attrs()
	var bodies []attribute
	for _, name := range []string{"then", "else"} {
		body, next := attrs.Graph(name), 0
		bind := func(*ir.Node) string { // the arguments after the condition are the body's inputs, in order
			next++
			return c.arg(next)
		}
		s := c.inside(name, body, bind, func() {
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

// loop writes op loop as ONNX's Loop. The inputs of Loop are the number of trips, the first condition or "", and the
// first values of the states. A loop with a condition (attribute while) has it as its first state.
func loop(c *call) string {
	attrs := c.node.Attrs()
	body, while := attrs.Graph("body"), attrs.Bool("while")
	states := body.Leaves(ir.OpState)
	in := []string{c.number(attrs.Shape("trips")[0]), ""}
	if while {
		in[1] = c.arg(0)
	}
	for i := range states {
		in = append(in, c.arg(i))
	}
	next := len(states) // the arguments after the states are the values of the body's inputs, in order
	bind := func(leaf *ir.Node) string {
		if leaf.Op() == ir.OpState {
			return c.fresh(leaf.Name())
		}
		next++
		return c.arg(next - 1)
	}
	s := c.inside("body", body, bind, func() { c.loopPorts(body, states, while) })
	out := c.emitAll("Loop", len(states), in, attribute{"body", s})
	c.results[c.node] = out
	return out[0]
}

// loopPorts declares the inputs and results of the body that is being written. The inputs are the number of the trip,
// the condition and the states. The results are the next condition and the next states. If `while` is set, the
// condition is the first state. Otherwise it passes through unchanged.
func (c *call) loopPorts(body *ir.Graph, states []*ir.Node, while bool) {
	next := map[*ir.Node]string{} // by state
	for _, state := range states {
		next[state] = c.names[state]
	}
	for _, u := range body.Updates() {
		next[u.State] = c.names[u.Value]
	}
	trip, condition := c.fresh("trip"), c.fresh("going")
	c.takes(trip, ir.Type{DType: ir.I64})
	c.takes(condition, ir.Type{DType: ir.Bool})
	if while {
		condition = next[states[0]]
	}
	c.gives(condition, ir.Type{DType: ir.Bool})
	for _, state := range states {
		c.takes(c.names[state], state.Type())
		c.gives(next[state], state.Type())
	}
}
