package frontend

import (
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Builder makes the nodes of one graph. Use it only in the function passed to Build, and not concurrently. A body of
// a loop or branch has a Builder of its own.
type Builder struct {
	graph   *ir.Graph
	done    bool
	opaques map[*ir.Node]opaqueValue // by node, also in bodies: a gradient rule that overrides the rule of the op

	// For the body of a control op: the enclosing builder, and the values that the body captures.
	outer      *Builder            // nil for the builder of Build
	activeBody *Builder            // the body to which new nodes belong now; nil for this graph
	captures   []Tensor            // the captured values, as tensors of outer
	captured   map[*ir.Node]Tensor // by outer's node: the body's input for it
}

// Build returns the graph that define builds. It must have at least one output or state update. If define calls a
// method wrongly, the error is an *Error.
func Build(name string, define func(b *Builder)) (g *ir.Graph, err error) {
	b := &Builder{graph: ir.NewGraph(name), opaques: map[*ir.Node]opaqueValue{}}
	defer func() {
		b.done = true
		// Methods of b report wrong calls by a panic with an *Error. Other panics are faults of define.
		switch e := recover().(type) {
		case nil:
		case *Error:
			g, err = nil, e
		default:
			panic(e)
		}
	}()
	if define == nil {
		return nil, fmt.Errorf("graph %q: the function that defines it is nil", name)
	}
	define(b)
	if err := b.graph.Verify(); err != nil {
		return nil, err
	}
	return b.graph, nil
}

// Fail stops the build: Build returns an *Error for op with the caller's line. Use it in functions that add to a graph
// for their caller, such as the functions of package nn.
func (b *Builder) Fail(op string, err error) { fail(op, err) }

// Sym declares a symbolic extent. Each run gives its value, 0 to bound, usually by the shape of an input. A name means
// the same value everywhere in the graph.
func (b *Builder) Sym(name string, bound int) ir.Dim {
	b.checkOpen("symbol")
	err := b.graph.DeclareSymbol(name, int64(bound))
	if name == "" {
		err = errors.New("a symbol needs a name")
	}
	if err != nil {
		fail("symbol", err)
	}
	return ir.Symbol(name, bound)
}

// Output makes t a result of the graph under that name.
func (b *Builder) Output(name string, t Tensor) {
	b.checkArgs("output", t)
	if err := b.graph.Output(name, t.node); err != nil {
		fail("output", err, t)
	}
}

// Update sets the state to value at the end of a run. During the run, reads of the state see its old value.
func (b *Builder) Update(state, value Tensor) {
	b.checkArgs("update", state, value)
	if err := b.graph.Update(state.node, value.node); err != nil {
		fail("update", err, state, value)
	}
}

// add makes a node for op and returns its handle. While the function of a loop or branch runs (see If), the node
// belongs to the body of that function, and otherwise to b's graph. No operand may be the zero Tensor: to omit an
// optional operand, end args before it.
func (b *Builder) add(op ir.Op, args []Tensor, attrs ...ir.Attr) Tensor {
	return b.current().addHere(op, args, attrs...)
}

// addHere is add, except that the node always belongs to b's own graph, even while a body is built.
func (b *Builder) addHere(op ir.Op, args []Tensor, attrs ...ir.Attr) Tensor {
	b.checkOpen(op.String())
	nodes := make([]*ir.Node, len(args))
	for i, a := range args {
		nodes[i] = b.ownTensor(op.String(), i, a, args).node
	}
	n, err := b.graph.Add(op, nodes, attrs, shortPos(caller()))
	if err != nil {
		var oe *ir.OpError
		if errors.As(err, &oe) {
			err = oe.Err // fail adds the other fields of an OpError
		}
		fail(op.String(), err, args...)
	}
	return Tensor{b: b, node: n}
}

// checkArgs fails unless all operands are tensors of b.
func (b *Builder) checkArgs(op string, args ...Tensor) {
	b.checkOpen(op)
	for i, a := range args {
		b.checkArg(op, i, a, args)
		if a.b != b {
			b.failOther(op, i, a, args)
		}
	}
}

// checkArg fails if operand i is the zero Tensor.
func (b *Builder) checkArg(op string, i int, a Tensor, args []Tensor) {
	if a.node == nil {
		fail(op, fmt.Errorf("operand %d is the zero Tensor: make tensors with a Builder or from other tensors", i),
			args...)
	}
}

// failOther fails because operand i belongs to another graph or body.
func (b *Builder) failOther(op string, i int, a Tensor, args []Tensor) {
	from, to := a.b.outermostGraph().Name, b.outermostGraph().Name
	why := fmt.Sprintf("belongs to graph %q, not to %q", from, to)
	switch {
	case a.b.outer != nil: // a's builder is the body of a loop or branch
		why = "was made in the body of a loop or branch, and cannot be used outside: return it from the body, and " +
			"use the result of the loop or branch"
	case from == to:
		why = fmt.Sprintf("belongs to another graph, which is named %q as well", from)
	}
	fail(op, fmt.Errorf("operand %d, %s, %s", i, a.node.Label(), why), args...)
}

// outermostGraph returns the graph of Build, which encloses all bodies.
func (b *Builder) outermostGraph() *ir.Graph {
	for b.outer != nil {
		b = b.outer
	}
	return b.graph
}

// checkOpen fails with an error of op if Build has returned already, or if there is no builder.
func (b *Builder) checkOpen(op string) {
	if b == nil || b.graph == nil {
		fail(op, errors.New("there is no builder: frontend.Build makes one and passes it to its function"))
	}
	if b.done {
		fail(op, fmt.Errorf("graph %q is already built: use its Builder and tensors only inside Build", b.graph.Name))
	}
}

// attr returns an attribute; it shortens calls of add.
func attr(name string, value any) ir.Attr { return ir.Attr{Name: name, Value: value} }
