package ir

import (
	"fmt"
	"strings"
)

// MaxBodyDepth is the maximum nesting depth of bodies of control ops.
const MaxBodyDepth = 8

// init adds the rows of branches and loops to the op table.
func init() {
	captured := ArgInfo{Name: "values", Variadic: true, Optional: true}
	rows(
		OpInfo{Op: OpIf, Name: "if", Class: ClassControl, Moves: true,
			Args: []ArgInfo{{Name: "condition"}, captured},
			Attrs: []AttrInfo{
				{Name: "then", Kind: AttrGraph, Doc: "the body for a true condition"},
				{Name: "else", Kind: AttrGraph, Doc: "the body for a false condition"},
			}, Infer: inferIf,
			Doc: "Runs one of two bodies, by a bool scalar, and returns its outputs. The values are the inputs of both bodies, in declared order. The bodies have no states, and outputs of the same types."},
		OpInfo{Op: OpLoop, Name: "loop", Class: ClassControl, Moves: true,
			Args: []ArgInfo{{Name: "first"}, captured},
			Attrs: []AttrInfo{
				{Name: "trips", Kind: AttrShape, Doc: "the number of trips, or its maximum, as a shape of one dim"},
				{Name: "while", Kind: AttrBool, Default: false, Doc: "whether the loop ends as soon as the first carried value, a bool scalar, is false"},
				{Name: "body", Kind: AttrGraph, Doc: "the computation of one trip"},
			}, Infer: inferLoop,
			Doc: "Runs a body repeatedly. The body's states carry values from one trip to the next. The first arguments are their initial values, in declared order, and their final values are the results. The remaining arguments are the body's inputs, the same in every trip. The body has no outputs."},
		OpInfo{Op: OpResult, Name: "result", Class: ClassControl, Moves: true, Args: []ArgInfo{{Name: "of"}},
			Attrs: []AttrInfo{{Name: "index", Kind: AttrInt, Doc: "which result, counted from 0"}}, Infer: inferResult,
			Doc: "Result number index of an if or a loop. The value of the op itself is result 0."},
	)
}

// checkBody rejects a graph that is not a body, or has weights.
func checkBody(name string, g *Graph) error {
	switch weights := g.Leaves(OpWeight); {
	case !g.body:
		return fmt.Errorf("%s: the graph was not made as a body: use NewBody", name)
	case len(weights) > 0:
		return fmt.Errorf("%s: it has weight %q: pass it to the body as a value", name, weights[0].Name())
	}
	return nil
}

// checkLeaves returns an error unless leaf i of a body has the type of argument from+i, for every i. name is the name
// of the body.
func (c *Call) checkLeaves(name string, leaves []*Node, from int) error {
	for i, leaf := range leaves {
		if from+i < len(c.Args) && !c.Args[from+i].typ.Equal(leaf.typ) {
			return fmt.Errorf("%s: %s %q is %s, and its value, %s, is %s: want equal types", name, leaf.op, leaf.Name(),
				leaf.typ, c.arg(from+i), c.Args[from+i].typ)
		}
	}
	return nil
}

// inferIf is the type rule of if. Both bodies must have the inputs and outputs that the op documents. The type is
// that of the first output; op result has the others.
func inferIf(c *Call) (Type, error) {
	if c.DType(0) != Bool || len(c.Shape(0)) != 0 {
		return Type{}, fmt.Errorf("%s is %s, want bool[]", c.arg(0), c.Args[0].typ)
	}
	var results [2][]Output
	for i, name := range []string{"then", "else"} {
		g := c.Attrs.Graph(name)
		if err := checkBody(name, g); err != nil {
			return Type{}, err
		}
		inputs := g.Leaves(OpInput)
		results[i] = g.Outputs()
		switch {
		case len(g.Leaves(OpState)) > 0:
			return Type{}, fmt.Errorf("%s: it has states, but only bodies of loops have states", name)
		case len(results[i]) == 0:
			return Type{}, fmt.Errorf("%s: it has no outputs, so the op has no result", name)
		case len(inputs) != len(c.Args)-1:
			return Type{}, fmt.Errorf("%s: it has %d inputs for %d values", name, len(inputs), len(c.Args)-1)
		}
		if err := c.checkLeaves(name, inputs, 1); err != nil {
			return Type{}, err
		}
	}
	if a, b := resultTypes(results[0]), resultTypes(results[1]); a != b {
		return Type{}, fmt.Errorf("then gives %s, and else %s", a, b)
	}
	return results[0][0].Node.typ, nil
}

// resultTypes lists the types of a body's outputs, for errors.
func resultTypes(results []Output) string {
	types := make([]string, len(results))
	for i, r := range results {
		types[i] = r.Node.typ.String()
	}
	return strings.Join(types, ", ")
}

// inferLoop is the type rule of loop. The states of its body are the carried values. The type is that of the first
// one; op result has the others.
func inferLoop(c *Call) (Type, error) {
	g, trips := c.Attrs.Graph("body"), c.Attrs.Shape("trips")
	if err := checkBody("body", g); err != nil {
		return Type{}, err
	}
	states, inputs := g.Leaves(OpState), g.Leaves(OpInput)
	switch {
	case len(trips) != 1:
		return Type{}, fmt.Errorf("trips %s is not one dim", trips)
	case len(states) == 0:
		return Type{}, fmt.Errorf("body: it has no states, so the loop has no result")
	case len(g.Outputs()) > 0:
		return Type{}, fmt.Errorf("body: it has output %q, which nothing reads: carry it in a state",
			g.Outputs()[0].Name)
	case len(states)+len(inputs) != len(c.Args):
		return Type{}, fmt.Errorf("body: it has %d states and %d inputs, and the op %d arguments: want one argument "+
			"each", len(states), len(inputs),
			len(c.Args))
	}
	if err := c.checkLeaves("body", states, 0); err != nil {
		return Type{}, err
	}
	if err := c.checkLeaves("body", inputs, len(states)); err != nil {
		return Type{}, err
	}
	if first := states[0]; c.Attrs.Bool("while") && (first.typ.DType != Bool || len(first.typ.Shape) != 0) {
		return Type{}, fmt.Errorf("body: state %q is %s: the first state of a loop with a condition is bool[]",
			first.Name(), first.typ)
	}
	return states[0].typ, nil
}

// inferResult is the type rule of result: the type of another result of an if or loop.
func inferResult(c *Call) (Type, error) {
	of := c.Args[0]
	results := Results(of)
	switch i := c.Attrs.Int("index"); {
	case results == nil:
		return Type{}, fmt.Errorf("the argument is the result of %s: want an if or a loop", of.op)
	case i < 1 || i >= len(results):
		return Type{}, fmt.Errorf("index %d of %d results: want 1 to %d; 0 is the value of the %s itself", i,
			len(results), len(results)-1, of.op)
	default:
		return results[i], nil
	}
}

// Results returns the types of all results of an if or a loop, or nil for other ops. The first result is the node's own
// value; nodes of op result have the others.
func Results(n *Node) []Type {
	var types []Type
	switch n.op {
	case OpIf:
		for _, o := range n.attrs.Graph("then").Outputs() {
			types = append(types, o.Node.typ)
		}
	case OpLoop:
		for _, s := range n.attrs.Graph("body").Leaves(OpState) {
			types = append(types, s.typ)
		}
	}
	return types
}

// Bodies returns the graphs in a node's attributes.
func (n *Node) Bodies() []*Graph {
	var list []*Graph
	for _, a := range n.attrs {
		if g, ok := a.Value.(*Graph); ok {
			list = append(list, g)
		}
	}
	return list
}

// NewBody returns an empty graph that will be an attribute of a control op. Its states may have symbolic extents. Once
// a node has it as an attribute, it cannot change.
func NewBody(name string) *Graph { return &Graph{Name: name, body: true} }

// sealBodies seals the bodies of node n of g, and declares their symbols in g.
func (g *Graph) sealBodies(n *Node) error {
	for _, body := range n.Bodies() {
		switch {
		case body == g:
			return fmt.Errorf("a graph cannot be its own body")
		case body.depth+1 > MaxBodyDepth:
			return fmt.Errorf("bodies are nested more than %d deep", MaxBodyDepth)
		}
		if err := g.DeclareSymbolsOf(body); err != nil {
			return err
		}
		for _, s := range body.Derived() {
			if err := g.DeclareDim(Dim{Sym: s, Bound: body.derived[s], Mul: 1}); err != nil {
				return err
			}
		}
		g.depth = max(g.depth, body.depth+1)
		if !body.sealed { // avoid a write: several goroutines may rewrite graphs that share it
			body.sealed = true
		}
	}
	return nil
}

// checkUnsealed returns an error for a graph that is an attribute of an op.
func (g *Graph) checkUnsealed() error {
	if g.sealed {
		return fmt.Errorf("%s is the body of an op and can no longer change", Titled("graph", g.Name))
	}
	return nil
}
