package onnx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// importer builds the graph of one model.
type importer struct {
	file    *File
	options Options
	b       *frontend.Builder
	scratch bool // the graph is only built to compute constants, and then discarded

	weights    map[string]*ir.Data
	taken      map[string]bool              // names of inputs and weights
	outputs    [][]string                   // see File.Outputs
	validParts map[string]ir.Found          // by output: its valid part
	found      map[string]foundExtent       // by symbol: see foundExtent
	loops      []string                     // outputs that report whether a loop would have run beyond its bound
	checks     []string                     // outputs that report whether a run found a number that an op does not take
	constants  map[*Graph]map[string]*value // initializers
	problems   []Unsupported
	needed     []string          // inputs with values that must be known when the graph is built
	symbols    []string          // symbolic extents of inputs, by the file's names
	least      map[string]int64  // their minimum values, by the same names
	longer     map[string]int64  // by extent: a larger minimum that a node needs; for the next build
	derived    map[string]ir.Dim // by extent: an expression that a node needs it to equal; for the next build
	same       map[string]string // by extent: the earlier extent that it must equal, as builds before found
	joined     map[string]string // like same, as this build found; for the next build (see agree)
	names      map[string]string // by the file's name of an extent: its symbol
	spellings  map[string]string // by symbol: the file's name
	calls      int               // number of nodes built, counting functions and unrolled loops each time
	trips      []tensor          // trip numbers of the loops being built, outermost first
	draws      int               // nodes that draw random numbers
	depth      int               // of functions and subgraphs
}

func newImporter(f *File, o Options) *importer {
	return &importer{file: f, options: o, weights: map[string]*ir.Data{}, taken: map[string]bool{},
		validParts: map[string]ir.Found{}, found: map[string]foundExtent{}, constants: map[*Graph]map[string]*value{},
		longer: map[string]int64{}, derived: map[string]ir.Dim{}, same: map[string]string{},
		joined: map[string]string{}}
}

// Limits of the expansion of functions and loops. Without them a small file could expand without end.
const (
	maxCalls = 1 << 16 // nodes built
	maxDepth = 64      // nesting of functions and subgraphs
)

// scope holds the names that a graph or function defines. Nodes can also refer to names in the enclosing scopes.
type scope struct {
	outer  *scope
	values map[string]*value
	opsets map[string]int64
	attrs  map[string]*Attribute // attributes of the function; nil for a graph
	uses   map[string]int        // by name: the number of nodes and outputs that read it
}

// find returns the value of a name in the scope or in those around it, or nil.
func (s *scope) find(name string) *value {
	for ; s != nil; s = s.outer {
		if v, ok := s.values[name]; ok {
			return v
		}
	}
	return nil
}

// nodeError is the value of the panic by which building a node fails. Function caught recovers it.
type nodeError struct{ err error }

// errMissing is the error of a node that fails only because an earlier node, which computes its input, failed. Only
// the earlier error is reported.
var errMissing = errors.New("an input is missing")

// fail stops building the current node.
func (im *importer) fail(format string, args ...any) {
	panic(nodeError{fmt.Errorf(format, args...)})
}

// main builds the main graph.
func (im *importer) main() {
	m := im.file.Model
	s := &scope{values: map[string]*value{}, opsets: m.Opsets, uses: m.Graph.uses()}
	im.initializers(m.Graph, s)
	for _, in := range m.Graph.Inputs {
		if s.values[in.Name] != nil && im.options.Inputs[in.Name] == nil {
			continue // an initializer: the input's default
		}
		s.values[in.Name] = im.input(in)
	}
	im.nodes(m.Graph.Nodes, s)
	if len(im.problems) > 0 {
		return
	}
	for _, out := range m.Graph.Outputs {
		im.output(out, s)
	}
}

// uses returns, for each name, how many nodes and outputs of the graph read it.
func (g *Graph) uses() map[string]int {
	uses := usesOf(g.Nodes)
	for _, out := range g.Outputs {
		uses[out.Name]++
	}
	return uses
}

// usesOf returns, for each name, how many of the nodes read it.
func usesOf(nodes []*Node) map[string]int {
	uses := map[string]int{}
	for _, n := range nodes {
		n.reads(func(name string) { uses[name]++ })
	}
	return uses
}

// initializers adds the constants of a graph to its scope s. It keeps them in im.constants, because the body of a loop
// may be built many times.
func (im *importer) initializers(g *Graph, s *scope) {
	if known, ok := im.constants[g]; ok {
		maps.Copy(s.values, known)
		return
	}
	problems := len(im.problems)
	for _, t := range g.Initializers {
		d, err := t.data(im.file.externals)
		v := &value{name: t.Name, data: d, unsigned: dataTypes[t.Type].unsigned}
		if err != nil {
			v = im.problem(t.Name, "initializer", err)
		}
		s.values[t.Name] = v
	}
	if len(im.problems) == problems { // a constant with a problem is not kept
		im.constants[g] = maps.Clone(s.values)
	}
}

// problem records an error, and returns the value that stands for the missing result.
func (im *importer) problem(node, op string, err error) *value {
	im.problems = append(im.problems, Unsupported{Node: node, Op: op, Err: err})
	return &value{name: node, missing: true}
}

// input declares an input of the model, or takes its constant value from the options. For an input that vkc does not
// support, it records a problem and returns a value that counts as missing.
func (im *importer) input(in Value) *value {
	if d, ok := im.options.Inputs[in.Name]; ok {
		unsigned := dataTypes[in.Type.Elem].unsigned && in.Type.Kind == KindTensor
		return &value{name: in.Name, data: d, unsigned: unsigned}
	}
	if types, ok := im.options.Lists[in.Name]; ok && in.Type.Kind != KindTensor {
		return im.listInput(in, types)
	}
	if in.Type.Kind != KindTensor {
		return im.problem(in.Name, "input", fmt.Errorf("it is %s: vkc supports only tensors here", in.Type))
	}
	t := in.Type.Elem.DType()
	if t == ir.Invalid {
		return im.problem(in.Name, "input", fmt.Errorf("it is of %s (type %d), which vkc does not support",
			in.Type.Elem, in.Type.Elem))
	}
	if !in.Type.HasShape {
		im.needed = append(im.needed, in.Name)
		return im.problem(in.Name, "input", errors.New("the model does not give its number of axes"))
	}
	im.taken[in.Name] = true
	v := &value{name: in.Name, from: []string{in.Name}, unsigned: dataTypes[in.Type.Elem].unsigned}
	im.try(in.Name, "input", func() {
		shape := make(ir.Shape, len(in.Type.Shape))
		for i, d := range in.Type.Shape {
			shape[i] = im.extent(d, extentName(in, i))
		}
		v.tensor = im.b.Input(in.Name, t, shape)
	})
	return v
}

// listInput declares each element of a sequence as an input NAME.0, NAME.1 and so on. types has the elements' types. An
// optional tensor becomes an input under its own name.
func (im *importer) listInput(in Value, types []ir.Type) *value {
	list := &value{name: in.Name, isList: true}
	single := in.Type.Kind == KindOptional && (in.Type.Of == nil || in.Type.Of.Kind == KindTensor)
	for i, t := range types {
		name := in.Name
		if !single {
			name = fmt.Sprintf("%s.%d", name, i)
		}
		im.taken[name] = true
		v := &value{name: name, from: []string{name}}
		im.try(name, "input", func() { v.tensor = im.b.Input(name, t.DType, t.Shape) })
		if single {
			return v
		}
		list.list = append(list.list, v)
	}
	return list
}

// extent returns extent d of an input: a number, the replacement in Options.Dims, an expression over symbols, or a
// symbol. name is the extent's name in Options.
func (im *importer) extent(d Dim, name string) ir.Dim {
	if d.Size >= 0 {
		return ir.D(int(d.Size))
	}
	// Options may say that an extent equals another one.
	for im.same[name] != "" {
		name = im.same[name]
	}
	if n, ok := im.options.Dims[name]; ok {
		return n
	}
	text := im.file.Model.expressionOf(name)
	if text == "" {
		return im.symbol(name)
	}
	n, err := ir.ParseDimOf(text, func(name string) (ir.Dim, error) { return im.symbol(name), nil })
	if err != nil {
		im.fail("extent %q: %v", name, err)
	}
	return n
}

// symbol returns the extent with the given name: the replacement in Options.Dims, or a symbol with the bound of
// Options.Bounds.
func (im *importer) symbol(name string) ir.Dim {
	for im.same[name] != "" {
		name = im.same[name]
	}
	if n, ok := im.options.Dims[name]; ok {
		return n
	}
	if !slices.Contains(im.symbols, name) {
		im.symbols = append(im.symbols, name)
	}
	bound, ok := im.options.Bounds[name]
	if !ok {
		bound = DefaultBound
	}
	// Symbols begin at 0, so an extent with a minimum is a symbol plus the minimum.
	least := im.least[name]
	return ir.Symbol(im.names[name], bound-int(least)).Plus(least)
}

// atLeast fails the current node if d may be less than n. If d depends on a single extent of an input, atLeast records
// a larger minimum of that extent in im.longer, and the graph is built again.
func (im *importer) atLeast(d ir.Dim, n int64) {
	if d.Add >= n {
		return
	}
	if names := d.Symbols(); len(names) == 1 && im.spellings[names[0]] != "" {
		name := im.spellings[names[0]]
		bound := int(im.symbol(name).Bound)
		more := sort.Search(bound+1, func(value int) bool { // the smallest value of the symbol that is large enough
			got, err := d.Eval(map[string]int64{names[0]: int64(value)})
			return err == nil && got >= n
		})
		if more <= bound {
			im.longer[name] = max(im.longer[name], im.least[name]+int64(more))
		}
	}
	im.fail("%s must be at least %d", d, n)
}

// agree states that the current op requires equal extents. If an extent of an input differs from another of the
// extents, agree records in im.joined or im.derived that they are equal, and fails. The graph is then built again with
// one extent in place of the other, and a run checks that the extents of its inputs are equal.
func (im *importer) agree(extents ...ir.Dim) {
	failed, first := false, extents[0]
	for _, d := range extents[1:] {
		a, b := im.ownExtent(first), im.ownExtent(d)
		if slices.Index(im.symbols, a) > slices.Index(im.symbols, b) && b != "" {
			a, b, first, d = b, a, d, first // the earlier symbol stays
		}
		switch {
		case first == d:
			continue
		case a != "" && b != "": // two extents of inputs
			im.joined[b] = a
		// d is an extent of an input, and first follows from other extents.
		case b != "" && !slices.Contains(first.Symbols(), d.Sym):
			im.derived[b] = first
		case a != "" && !slices.Contains(d.Symbols(), first.Sym):
			im.derived[a] = d
		default:
			continue // the builder says what is wrong
		}
		failed = true
	}
	if failed {
		im.fail("the extents %s must be equal", ir.Shape(extents))
	}
}

// ownExtent returns the name of d if d is just an extent of an input, and no expression. Otherwise it returns "".
func (im *importer) ownExtent(d ir.Dim) string {
	if name := im.spellings[d.Sym]; name != "" && d == im.symbol(name) {
		return name
	}
	return ""
}

// output makes the value of an output of the model an output of the graph, under the same name. Elements of a sequence
// become outputs NAME.0, NAME.1 and so on. If a value is valid in part (value.valid), output NAME.count has the number
// of valid elements.
func (im *importer) output(out Value, s *scope) {
	var names []string
	one := func(name string, v *value) {
		names = append(names, name)
		im.b.Output(name, im.asTensor(v))
		if v.valid != nil {
			count := name + ".count"
			im.b.Output(count, v.valid.count)
			im.validParts[name] = ir.Found{Axis: v.valid.axis, Count: count}
		}
	}
	im.try(out.Name, "output", func() {
		v := s.find(out.Name)
		switch {
		case v == nil:
			im.fail("no node makes it")
		case v.isList:
			for i, e := range v.list {
				one(fmt.Sprintf("%s.%d", out.Name, i), e)
			}
		default:
			one(out.Name, v)
		}
	})
	im.outputs = append(im.outputs, names)
}

// try calls do, which builds a node, and records its error as a problem. ok reports whether do succeeded.
func (im *importer) try(node, op string, do func()) (ok bool) {
	err := caught(do)
	if err != nil && !errors.Is(err, errMissing) {
		im.problem(node, op, err)
	}
	return err == nil
}

// caught calls do, and returns the error of a panic of this package or of package frontend.
func caught(do func()) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case nodeError:
			err = e.err
		case *frontend.Error:
			e.File = "" // the line is this package's
			err = e
		default:
			panic(e)
		}
	}()
	do()
	return nil
}

// nodes builds nodes in order and adds their results to scope s. After a failure it goes on with the next node, so that
// all errors are found. The results of the failed node are marked as missing.
func (im *importer) nodes(nodes []*Node, s *scope) {
	for _, n := range nodes {
		results, ok := im.node(n, s)
		for i, name := range n.Outputs {
			if name == "" {
				continue
			}
			v := &value{missing: true}
			if ok && i < len(results) && results[i] != nil {
				v = results[i]
			}
			if v.name == "" {
				v.name = name
			}
			s.values[name] = v
		}
	}
}

// title names a node for errors.
func (n *Node) title() string {
	if n.Name == "" && len(n.Outputs) > 0 {
		return "node of " + n.Outputs[0]
	}
	return n.Name
}

// op names a node's op for errors, with its domain.
func (n *Node) op() string {
	if n.Domain != "" {
		return n.Domain + "." + n.Op
	}
	return n.Op
}

// node builds a node: by a function of the model, or by its op's row. ok is false if it fails. The error is then
// recorded.
func (im *importer) node(n *Node, s *scope) (results []*value, ok bool) {
	c := &call{importer: im, node: n, scope: s, consumed: &consumed{}}
	ok = im.try(n.title(), n.op(), func() {
		if im.calls++; im.calls > maxCalls {
			im.fail("more than %d nodes, counting the nodes of functions and loops for each use", maxCalls)
		}
		c.version = max(s.opsets[n.Domain], 1)
		fn := im.file.Model.function(n)
		row, err := findRow(n.Domain, n.Op)
		if fn == nil && err != nil { // reported even if an input is missing
			panic(nodeError{err})
		}
		for _, name := range n.Inputs {
			var v *value
			if name != "" {
				if v = s.find(name); v == nil {
					im.fail("its input %q is neither an input of the graph, nor an initializer, nor a result of a "+
						"node", name)
				}
				if v.missing {
					panic(nodeError{errMissing}) // the node that makes it has failed
				}
			}
			c.in = append(c.in, v)
		}
		switch {
		case fn != nil:
			results = c.inline(fn)
		case n.Domain != "":
			results = c.byRow(row)
		default:
			results = c.ofOpset(changes[n.Op], func() []*value { return c.byRow(row) })
		}
		if fn == nil {
			c.checkConsumed(row)
			c.inspector().markUnsigned(results)
		}
		c.checkResults(results)
		from := merged(c.in) // the inputs of the graph that the results depend on
		for _, v := range results {
			if v != nil && v.from == nil {
				v.from = from
			}
		}
	})
	return results, ok
}

// byRow builds the node, which is in the form of the newest opset, by its op's row. The result is computed on dims (see
// row.fold), as a constant, or by ops.
func (c *call) byRow(row *row) []*value {
	if row.fold != nil {
		if v := row.fold(c); v != nil {
			// Integers keep the dtype of the integers from which they were computed.
			for _, x := range c.in {
				if v.as == ir.Invalid && x != nil && x.isDims {
					v.as = x.as
				}
			}
			if v.fitsDims() {
				return []*value{v}
			}
		}
	}
	build := c.forUnsigned(row.build)
	if !row.buildsConstants {
		if folded := c.folded(build); folded != nil {
			return folded
		}
	}
	if row.takesPartlyValid || !slices.ContainsFunc(c.in, func(v *value) bool { return v != nil && v.valid != nil }) {
		return build(c)
	}
	return c.ofPartlyValid(build)
}

// evaluated builds tensors in a separate graph, by f, and returns their values.
func evaluated(f func(b *frontend.Builder) []tensor) []*ir.Data {
	var nodes []*ir.Node
	g, err := frontend.Build("constant", func(b *frontend.Builder) {
		if err := caught(func() {
			for _, t := range f(b) {
				nodes = append(nodes, t.Node())
			}
		}); err != nil {
			panic(nodeError{err})
		}
		b.Output("some", b.Const(0)) // a graph must have an output
	})
	if err != nil {
		panic(nodeError{err})
	}
	data, err := interp.Eval(context.Background(), g, nodes, interp.Options{})
	if err != nil {
		panic(nodeError{err})
	}
	return data
}

// folded computes a node with constant inputs at once, in a separate graph. It returns nil if an input is not constant,
// or if inputs or results are too large.
func (c *call) folded(build func(c *call) []*value) []*value {
	// The node is built again with constants, by an importer of its own, so that it leaves no nodes in the graph.
	scratch := newImporter(c.file, Options{})
	scratch.scratch, scratch.depth = true, c.depth
	again := &call{importer: scratch, node: c.node, scope: c.scope, version: c.version, consumed: c.consumed}
	elems := 0
	for _, v := range c.in {
		if v != nil {
			d := constant(v)
			if d == nil {
				return nil
			}
			elems += d.Elems()
			v = &value{name: v.name, data: d, unsigned: v.unsigned}
		}
		again.in = append(again.in, v)
	}
	if elems > maxFolded {
		return nil
	}
	var results []*value
	large := false
	data := evaluated(func(b *frontend.Builder) (list []tensor) { // the tensors, each with the count of its valid part
		scratch.b = b
		results = build(again)
		c.toUnsigned = again.toUnsigned
		for _, v := range results {
			if v == nil || v.data != nil || v.isDims {
				continue
			}
			if v.isList || v.tensor.Shape().MaxElems() > maxFolded {
				large = true
				return nil
			}
			list = append(list, v.tensor)
			if v.valid != nil {
				list = append(list, v.valid.count)
			}
		}
		return list
	})
	if large {
		return nil
	}
	// Replace the tensors by their data.
	for _, v := range results {
		if v == nil || v.data != nil || v.isDims {
			continue
		}
		v.data, data = data[0], data[1:]
		if v.valid != nil {
			var err error
			if v.data, err = v.valid.cut(v.data, data[0]); err != nil {
				panic(nodeError{err})
			}
			data = data[1:]
		}
		v.tensor, v.conv, v.valid = frontend.Tensor{}, nil, nil
	}
	return results
}
