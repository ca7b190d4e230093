package ir

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// Node is one operation and the value it produces. Nodes are made by a Graph and are immutable.
type Node struct {
	id    int
	graph *Graph
	op    Op
	typ   Type
	args  []*Node
	attrs Attrs
	pos   string
}

// ID returns the node's index in its graph; arguments have smaller ones.
func (n *Node) ID() int { return n.id }

// Op returns the operation.
func (n *Node) Op() Op { return n.op }

// Type returns the type of the value.
func (n *Node) Type() Type { return n.typ }

// DType returns the element type of the value.
func (n *Node) DType() DType { return n.typ.DType }

// Shape returns the shape of the value.
func (n *Node) Shape() Shape { return n.typ.Shape }

// Rank returns the number of axes of the value.
func (n *Node) Rank() int { return len(n.typ.Shape) }

// Args returns the arguments; do not modify.
func (n *Node) Args() []*Node { return n.args }

// Arg returns argument i.
func (n *Node) Arg(i int) *Node { return n.args[i] }

// Attrs returns the attributes, complete and in declared order.
func (n *Node) Attrs() Attrs { return n.attrs }

// Pos returns where the user's program made the node (file:line), if known.
func (n *Node) Pos() string { return n.pos }

// Name returns the name of an input, weight or state, else "".
func (n *Node) Name() string { return n.attrs.String_("name") }

// Label is the node's op and name, such as input "x", or the op alone.
func (n *Node) Label() string {
	if name := n.Name(); name != "" {
		return fmt.Sprintf("%s %q", n.op, name)
	}
	return n.op.String()
}

// String is the node's number in text IR, such as %3.
func (n *Node) String() string { return fmt.Sprintf("%%%d", n.id) }

// Output is a named result of a graph.
type Output struct {
	Name string
	Node *Node
}

// Update sets a state to Value at the end of a run. Reads of the state during the run see its old value.
type Update struct {
	State *Node
	Value *Node
}

// Graph is a tensor program: nodes in dependency order, named outputs, and state updates. The zero value is an empty
// graph.
type Graph struct {
	Name    string
	nodes   []*Node
	inputs  []*Node // of nodes
	outputs []Output
	updates []Update
	symbols map[string]int64 // bound of each symbol
	derived map[string]int64 // bound of each sum, product or quotient of symbols
	named   map[string]*Node // inputs, weights and states
	results map[string]bool  // names of outputs
	updated map[*Node]bool   // states that have an update
	body    bool             // whether NewBody made it
	sealed  bool             // whether it is already an attribute of an op
	depth   int              // nesting depth of the bodies in it; 0 for none
	info    OutputInfo
}

// NewGraph returns an empty graph.
func NewGraph(name string) *Graph { return &Graph{Name: name} }

// OpError is the error of an invalid node.
type OpError struct {
	Op    Op
	Types []Type // of the arguments
	Pos   string // source position in the user's program, if known
	Err   error
}

// Error names the op, the argument types, and the source position.
func (e *OpError) Error() string {
	s := e.Op.String() + "("
	for i, t := range e.Types {
		if i > 0 {
			s += ", "
		}
		s += t.String()
	}
	s += "): " + e.Err.Error()
	if e.Pos != "" {
		s = e.Pos + ": " + s
	}
	return s
}

// Unwrap returns the reason.
func (e *OpError) Unwrap() error { return e.Err }

// Add makes a node: it checks arguments and attributes against the op's row and infers the type. pos is the source
// position in the user's program, or "".
func (g *Graph) Add(op Op, args []*Node, attrs []Attr, pos string) (*Node, error) {
	n, err := g.add(op, args, attrs, pos)
	if err != nil {
		types := make([]Type, 0, len(args))
		for _, a := range args {
			if a != nil {
				types = append(types, a.typ)
			}
		}
		return nil, &OpError{Op: op, Types: types, Pos: pos, Err: err}
	}
	return n, nil
}

// add is Add with errors that do not name the op and its arguments.
func (g *Graph) add(op Op, args []*Node, attrs []Attr, pos string) (*Node, error) {
	info := op.Info()
	if info.Infer == nil {
		return nil, fmt.Errorf("no such op")
	}
	if err := g.checkUnsealed(); err != nil {
		return nil, err
	}
	if len(g.nodes) >= MaxNodes {
		return nil, fmt.Errorf("graph has more than %d nodes", MaxNodes)
	}
	if len(args) < info.MinArgs() || len(args) > info.MaxArgs() {
		return nil, fmt.Errorf("takes %s, have %d", argCount(info), len(args))
	}
	for i, a := range args {
		if a == nil || a.graph != g {
			return nil, fmt.Errorf("argument %d is not a node of this graph", i)
		}
	}
	full, err := resolveAttrs(info, attrs)
	if err != nil {
		return nil, err
	}
	call := &Call{Op: op, Args: args, Attrs: full, inBody: g.body}
	typ, err := call.infer(info)
	if err != nil {
		return nil, err
	}
	n := &Node{id: len(g.nodes), graph: g, op: op, typ: typ, args: slices.Clone(args), attrs: full, pos: pos}
	if err := g.declare(n); err != nil {
		return nil, err
	}
	g.nodes = append(g.nodes, n)
	if op == OpInput {
		g.inputs = append(g.inputs, n)
	}
	return n, nil
}

// declare records the symbols in a new node's type and attributes, and its name.
func (g *Graph) declare(n *Node) error {
	for _, d := range n.typ.Shape {
		if err := g.DeclareDim(d); err != nil {
			return err
		}
	}
	// These ops have a dim in an attribute.
	if n.op == OpDimValue {
		if err := g.DeclareDim(n.attrs.Shape("dim")[0]); err != nil {
			return err
		}
	}
	if n.op == OpLoop {
		if err := g.DeclareDim(n.attrs.Shape("trips")[0]); err != nil {
			return err
		}
	}
	if err := g.sealBodies(n); err != nil {
		return err
	}
	name := n.Name()
	if name == "" {
		return nil
	}
	if _, ok := g.named[name]; ok {
		return fmt.Errorf("another input, weight or state has the name %q: choose another name", name)
	}
	if g.named == nil {
		g.named = map[string]*Node{}
	}
	g.named[name] = n
	return nil
}

// DeclareSymbol records a symbol and its bound, which must be the same in every declaration. An empty name is ignored.
func (g *Graph) DeclareSymbol(name string, bound int64) error {
	if name == "" {
		return nil
	}
	if !IsIdent(name) {
		return fmt.Errorf("symbol %q: want letters, digits and underscores", name)
	}
	if have, ok := g.symbols[name]; ok && have != bound {
		return fmt.Errorf("symbol %s has bound %d here and %d elsewhere", name, bound, have)
	}
	if _, err := checkDim(Dim{Sym: name, Bound: bound, Mul: 1}); err != nil {
		return err
	}
	if g.symbols == nil {
		g.symbols = map[string]int64{}
	}
	g.symbols[name] = bound
	return nil
}

// DeclareSymbolsOf declares the symbols of a graph before its nodes are copied into this one, because extents may be
// derived from them.
func (g *Graph) DeclareSymbolsOf(from *Graph) error {
	for _, s := range from.Symbols() {
		if err := g.DeclareSymbol(s, from.symbols[s]); err != nil {
			return err
		}
	}
	return nil
}

// DeclareDim records the symbol or expression of a dim, and for a product also the sums and quotients among its
// factors; see [Graph.Derived]. The symbols in the expression must be declared.
func (g *Graph) DeclareDim(d Dim) error {
	if d.IsStatic() || IsIdent(d.Sym) {
		return g.DeclareSymbol(d.Sym, d.Bound)
	}
	if have, ok := g.derived[d.Sym]; ok && have == d.Bound {
		return nil
	}
	same, err := ParseDim(d.Sym, g.symbols)
	if err != nil {
		return err
	}
	if same != (Dim{Sym: d.Sym, Bound: d.Bound, Mul: 1}) {
		return fmt.Errorf("dim %s with a bound of %d does not have the form and bound of its symbols: want %s, at "+
			"most %d", d.Sym,
			d.Bound, same, same.Max())
	}
	if g.derived == nil {
		g.derived = map[string]int64{}
	}
	g.derived[d.Sym] = d.Bound
	if !isProduct(d.Sym) {
		return nil
	}
	// The sums and quotients among the factors.
	for _, factor := range same.Factors() {
		if factor.IsStatic() {
			continue
		}
		sym, err := ParseDim(factor.Sym, g.symbols)
		if err == nil {
			err = g.DeclareDim(sym)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Output makes n a result of the graph under that name.
func (g *Graph) Output(name string, n *Node) error {
	if err := g.checkUnsealed(); err != nil {
		return err
	}
	switch {
	case n == nil || n.graph != g:
		return fmt.Errorf("output %q is not a node of this graph", name)
	case name == "":
		return fmt.Errorf("an output needs a name")
	case !utf8.ValidString(name):
		return fmt.Errorf("output name %q is not UTF-8, so graph.json could not hold it", name)
	case n.typ.DType.IsBlock():
		return fmt.Errorf("output %q is %s: dequantize it first", name, n.typ)
	case g.results[name]:
		return fmt.Errorf("output %q is declared twice", name)
	}
	if g.results == nil {
		g.results = map[string]bool{}
	}
	g.results[name] = true
	g.outputs = append(g.outputs, Output{name, n})
	return nil
}

// Update makes each run set the state to value at its end.
func (g *Graph) Update(state, value *Node) error {
	if err := g.checkUnsealed(); err != nil {
		return err
	}
	switch {
	case state == nil || state.graph != g || value == nil || value.graph != g:
		return fmt.Errorf("update: the node is not of this graph")
	case state.op != OpState:
		return fmt.Errorf("update of %s, which is %s: only states can be updated", state, state.op)
	case !state.typ.Equal(value.typ):
		return fmt.Errorf("update of state %q: the state is %s, and the value is %s: want equal "+
			"types", state.Name(), state.typ, value.typ)
	case g.updated[state]:
		return fmt.Errorf("state %q is updated twice", state.Name())
	}
	if g.updated == nil {
		g.updated = map[*Node]bool{}
	}
	g.updated[state] = true
	g.updates = append(g.updates, Update{state, value})
	return nil
}

// Nodes returns all nodes, arguments before users; do not modify.
func (g *Graph) Nodes() []*Node { return g.nodes }

// Outputs returns the named results; do not modify.
func (g *Graph) Outputs() []Output { return g.outputs }

// Updates returns the state updates; do not modify.
func (g *Graph) Updates() []Update { return g.updates }

// Named returns the input, weight or state of that name.
func (g *Graph) Named(name string) (*Node, bool) { n, ok := g.named[name]; return n, ok }

// UnusedName returns a name that no node of the graph has: the given one or, if that is taken, a longer one.
func (g *Graph) UnusedName(name string) string {
	for g.named[name] != nil {
		name += "'"
	}
	return name
}

// Symbols returns the names of all symbols, sorted.
func (g *Graph) Symbols() []string { return slices.Sorted(maps.Keys(g.symbols)) }

// Derived returns the sums and quotients of symbols in the graph's extents, such as S+T, in alphabetical order. A run
// computes their values from the values of Symbols. Derived leaves out products: code that needs one multiplies its
// factors.
func (g *Graph) Derived() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(g.derived)), isProduct)
}

// SymbolBound returns the bound of a symbol, declared or derived.
func (g *Graph) SymbolBound(name string) (int64, bool) {
	b, ok := g.symbols[name]
	if !ok {
		b, ok = g.derived[name]
	}
	return b, ok
}

// Leaves returns the nodes of that op (OpInput, OpWeight, OpState…) in order.
func (g *Graph) Leaves(op Op) []*Node {
	var list []*Node
	for _, n := range g.nodes {
		if n.op == op {
			list = append(list, n)
		}
	}
	return list
}

// Live returns, by node ID, whether an output or update depends on the node.
func (g *Graph) Live() []bool {
	live := make([]bool, len(g.nodes))
	for _, o := range g.outputs {
		live[o.Node.id] = true
	}
	for _, u := range g.updates {
		live[u.State.id] = true
		live[u.Value.id] = true
	}
	for i := len(g.nodes) - 1; i >= 0; i-- {
		if live[i] {
			for _, a := range g.nodes[i].args {
				live[a.id] = true
			}
		}
	}
	return live
}

// Users returns, by node ID, the nodes that have it as an argument.
func (g *Graph) Users() [][]*Node {
	users := make([][]*Node, len(g.nodes))
	for _, n := range g.nodes {
		for i, a := range n.args {
			if !slices.Contains(n.args[:i], a) {
				users[a.id] = append(users[a.id], n)
			}
		}
	}
	return users
}

// argCount formats the number of arguments that an op takes.
func argCount(info *OpInfo) string {
	lo, hi := info.MinArgs(), info.MaxArgs()
	switch {
	case lo == hi && lo == 1:
		return "1 argument"
	case lo == hi:
		return fmt.Sprintf("%d arguments", lo)
	case hi > 100:
		return fmt.Sprintf("%d or more arguments", lo)
	}
	return fmt.Sprintf("%d to %d arguments", lo, hi)
}
