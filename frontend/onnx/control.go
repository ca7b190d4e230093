package onnx

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

var controlOps = table{
	"If":   controlOp(ifNode),
	"Loop": controlOp(loop),
	"Scan": controlOp(scan),

	"SequenceConstruct": passOp(func(c *call) []*value { return list(c.from(0)) }),
	"SequenceEmpty": controlOp(func(c *call) []*value { return list(nil) }).
		leaves("dtype", "it is that of elements, and there are none"),
	"SequenceAt":     controlOp(func(c *call) []*value { return []*value{c.elements()[c.sequenceIndex(1, 0)]} }),
	"SequenceInsert": passOp(sequenceInsert),
	"SequenceErase":  controlOp(sequenceErase),
	"SequenceLength": controlOp(sequenceLength),
	"SequenceMap":    controlOp(sequenceMap),
	"ConcatFromSequence": controlOp(func(c *call) []*value {
		return one(c.joined(c.elements(), c.mustInt("axis"), c.flag("new_axis", false)))
	}),
	"SplitToSequence":    controlOp(splitToSequence),
	"Optional":           passOp(optional).leaves("type", "it is that of the input, or of nothing"),
	"OptionalHasElement": passOp(optionalHasElement),
	"OptionalGetElement": passOp(optionalGetElement),
}

// list returns the single result of a node, a sequence of values.
func list(values []*value) []*value { return []*value{{list: values, isList: true}} }

// subgraph builds the nodes of a graph that is an attribute of the node, and returns the values of the graph's outputs.
// inputs has a value for each input of the graph; the graph ignores further values. subgraph fails if an output has no
// value.
func (c *call) subgraph(g *Graph, inputs []*value) []*value {
	if len(inputs) > len(g.Inputs) {
		inputs = inputs[:len(g.Inputs)]
	}
	s := &scope{outer: c.scope, values: map[string]*value{}, opsets: c.scope.opsets, uses: g.uses()}
	c.initializers(g, s)
	for i, v := range inputs {
		s.values[g.Inputs[i].Name] = v
	}
	c.run(g.Nodes, s)
	out := make([]*value, len(g.Outputs))
	for i, o := range g.Outputs {
		v := s.find(o.Name)
		if v == nil {
			c.fail("its graph has no value %q, the name of an output", o.Name)
		}
		if v.missing {
			panic(nodeError{errMissing}) // its node has failed and been reported
		}
		out[i] = v
	}
	return out
}

// run builds the nodes of a function or subgraph. It fails if they are nested too deeply.
func (c *call) run(nodes []*Node, s *scope) {
	c.depth++
	if c.depth > maxDepth {
		c.fail("functions and graphs in nodes are nested more than %d deep", maxDepth)
	}
	defer func() { c.depth-- }()
	c.nodes(nodes, s)
}

// function returns the function of the model that the node calls, or nil.
func (m *Model) function(n *Node) *Function {
	for _, fn := range m.Functions {
		if fn.Name == n.Op && fn.Domain == n.Domain && fn.Overload == n.Overload {
			return fn
		}
	}
	return nil
}

// inline builds a function's nodes in place of the node that calls it.
func (c *call) inline(fn *Function) []*value {
	s := &scope{values: map[string]*value{}, opsets: fn.Opsets, attrs: map[string]*Attribute{}, uses: usesOf(fn.Nodes)}
	if len(fn.Opsets) == 0 {
		s.opsets = c.file.Model.Opsets
	}
	// As in a graph, an output is a use.
	for _, name := range fn.Outputs {
		s.uses[name]++
	}
	if len(c.in) > len(fn.Inputs) {
		c.fail("it has %d inputs, but the model's function of this name takes %d", len(c.in), len(fn.Inputs))
	}
	c.passAttributes(fn, s)
	for i, v := range c.in {
		if v != nil {
			s.values[fn.Inputs[i]] = v
		}
	}
	c.run(fn.Nodes, s)
	out := make([]*value, len(fn.Outputs))
	for i, name := range fn.Outputs {
		v := s.find(name)
		if v != nil && v.missing {
			panic(nodeError{errMissing})
		}
		if v != nil {
			copied := *v // the caller names it
			out[i] = &copied
		}
	}
	return out
}

// passAttributes sets the attributes in the scope of a function that the node calls: the node's values or, without
// them, the function's defaults.
func (c *call) passAttributes(fn *Function, s *scope) {
	for _, a := range fn.Defaults {
		s.attrs[a.Name] = a
	}
	for _, a := range c.node.Attributes {
		name := a.Name
		if s.attrs[name] == nil && !slices.Contains(fn.Attributes, name) {
			c.fail("it has attribute %s, which is %s, but the model's function of this name has no such attribute",
				ir.Printable(name), a.text())
		}
		if a.Ref != "" {
			a = c.scope.attribute(a.Ref)
		}
		if a != nil { // otherwise the caller gave no value, and the default stays
			s.attrs[name] = a
		}
	}
}

// graphAttr returns a required attribute that is a graph.
func (c *call) graphAttr(name string) *Graph {
	a := c.attr(name, AttrGraph)
	if a == nil || a.Graph == nil {
		c.fail("attribute %s, a graph, is missing", name)
	}
	return a.Graph
}

// truth returns the value of a condition if it is known when the graph is built.
func truth(v *value) (is, known bool) {
	d := constant(v)
	if d == nil || d.Elems() != 1 {
		return false, false
	}
	f, err := d.Floats()
	if err != nil {
		return false, false
	}
	return f[0] != 0, true
}

// ifNode builds the branch that the condition selects. If the condition is only known in a run, both branches become
// bodies of an if, and their results must have equal types.
func ifNode(c *call) []*value {
	yes, no := c.graphAttr("then_branch"), c.graphAttr("else_branch")
	if is, known := truth(c.input(0)); known {
		if is {
			return copies(c.subgraph(yes, nil))
		}
		return copies(c.subgraph(no, nil))
	}
	problems, built := len(c.problems), false
	defer func() {
		if !built || len(c.problems) > problems { // with a known condition, only one of the branches would be built
			c.needed = append(c.needed, c.in[0].from...)
		}
	}()
	from := slices.Clip(c.in[0].from) // the model's inputs that the results depend on; branch adds those of its graph
	var made [][]*value               // the results of each branch
	branch := func(g *Graph) func() []tensor {
		return func() []tensor {
			results := c.subgraph(g, nil)
			made = append(made, results)
			from = merged([]*value{{from: from}, {from: merged(results)}})
			return c.whole(results)
		}
	}
	results := valuesOf(c.b.If(c.x(0).Reshape(), branch(yes), branch(no)), from)
	built = true
	for _, list := range made {
		markLike(results, list)
	}
	return results
}

// whole returns values as tensors. It fails for a value with only a valid part (validPart).
func (c *call) whole(values []*value) []tensor {
	out := make([]tensor, len(values))
	for i, v := range values {
		if v.valid != nil {
			c.failPartlyValid(v)
		}
		out[i] = c.asTensor(v)
	}
	return out
}

// valuesOf returns tensors as values. from lists the model's inputs on which the tensors depend.
func valuesOf(list []tensor, from []string) []*value {
	out := make([]*value, len(list))
	for i, t := range list {
		out[i] = &value{tensor: t, from: from}
	}
	return out
}

// copies returns copies of values. A copy may get another name without effect on the original.
func copies(values []*value) []*value {
	out := make([]*value, len(values))
	for i, v := range values {
		copied := *v
		out[i] = &copied
	}
	return out
}

// joined concatenates parts along an axis. With stack, it stacks them along a new axis.
func (c *call) joined(parts []*value, axis int, stack bool) tensor {
	if len(parts) == 0 {
		c.fail("it joins no tensors, so the shape of the result is unknown")
	}
	list := c.whole(parts)
	if stack {
		for i, x := range list {
			list[i] = x.Unsqueeze(c.axis(axis, x.Rank()+1))
		}
	}
	if len(list) == 1 {
		return list[0]
	}
	return list[0].Concat(c.axis(axis, list[0].Rank()), list[1:]...)
}

// elements returns the elements of input 0, a sequence.
func (c *call) elements() []*value {
	v := c.input(0)
	if !v.isList {
		c.fail("input 0, %q, is not a sequence", v.name)
	}
	return v.list
}

// sequenceIndex returns input i, an index into the sequence of input 0. An index below 0 counts from the end. more is
// 1 if the index may also be the end of the sequence, where an element can be inserted, and otherwise 0.
func (c *call) sequenceIndex(i, more int) int {
	n := len(c.elements())
	list := c.ints(i)
	if len(list) != 1 {
		c.fail("the position is %v, want one number", list)
	}
	k := list[0]
	if k < 0 {
		k += n
	}
	if k < 0 || k >= n+more {
		c.fail("place %d of a sequence of %d", list[0], n)
	}
	return k
}

// sequenceInsert builds SequenceInsert. Without a position it appends the element.
func sequenceInsert(c *call) []*value {
	k := len(c.elements())
	if c.has(2) {
		k = c.sequenceIndex(2, 1)
	}
	return list(slices.Insert(slices.Clone(c.elements()), k, c.input(1)))
}

// sequenceErase builds SequenceErase: the sequence without one element, by default the last one.
func sequenceErase(c *call) []*value {
	k := len(c.elements()) - 1
	if c.has(1) {
		k = c.sequenceIndex(1, 0)
	}
	if k < 0 {
		c.fail("the sequence has no elements")
	}
	return list(slices.Delete(slices.Clone(c.elements()), k, k+1))
}

func sequenceLength(c *call) []*value {
	return []*value{dimsValue(ir.Shape{ir.D(len(c.elements()))}, true)}
}

// sequenceMap builds SequenceMap: it builds the body for each element and collects the results in sequences.
func sequenceMap(c *call) []*value {
	body := c.graphAttr("body")
	results := make([]*value, len(body.Outputs))
	for i := range results {
		results[i] = &value{isList: true}
	}
	for i := range c.elements() {
		inputs := make([]*value, len(c.in))
		for k, v := range c.from(0) {
			inputs[k] = v
			if !v.isList {
				continue
			}
			if i >= len(v.list) {
				c.fail("its sequences have different lengths")
			}
			inputs[k] = v.list[i]
		}
		for k, v := range c.subgraph(body, inputs) {
			results[k].list = append(results[k].list, v)
		}
	}
	return results
}

// splitToSequence builds SplitToSequence: a sequence of slices along an axis, of equal or given sizes.
func splitToSequence(c *call) []*value {
	x := c.x(0)
	axis := c.axis(c.intAttr("axis", 0), x.Rank())
	d := x.Shape()[axis]
	if !d.IsStatic() {
		c.fail("it splits an axis of extent %s: want a fixed extent", d)
	}
	// Without sizes, parts have one element along the axis, and lose it with keepdims=0.
	drop := !c.flag("keepdims", true) && !c.has(1)
	size, sizes := 1, []int(nil) // the size of every part, or a list of sizes
	if c.has(1) {
		sizes = c.ints(1)
		if scalar := len(c.shapeOf(c.in[1])) == 0; scalar {
			size, sizes = sizes[0], nil
		}
	}
	if size < 1 {
		c.fail("parts of %d", size)
	}
	if sizes == nil {
		for left := d.Static(); left > 0; left -= size { // the last part may be smaller
			sizes = append(sizes, min(size, left))
		}
	}
	var parts []*value
	for _, t := range x.Split(axis, sizes...) {
		if drop {
			t = t.Squeeze(axis)
		}
		parts = append(parts, &value{tensor: t, from: c.in[0].from})
	}
	return list(parts)
}

// optional builds Optional: its input, or an optional without a value.
func optional(c *call) []*value {
	if !c.has(0) {
		return list(nil)
	}
	return []*value{c.copied(0)}
}

// empty reports whether input 0 is an optional without a value.
func (c *call) empty() bool { return !c.has(0) || c.in[0].isList && c.in[0].list == nil }

// optionalHasElement builds OptionalHasElement. The answer is known while the graph is built.
func optionalHasElement(c *call) []*value {
	d := &ir.Data{DType: ir.Bool, Bytes: []byte{1}}
	if c.empty() {
		d.Bytes[0] = 0
	}
	return []*value{{data: d, from: []string{}}}
}

// optionalGetElement builds OptionalGetElement.
func optionalGetElement(c *call) []*value {
	if c.empty() {
		c.fail("the optional has no value")
	}
	return []*value{c.copied(0)}
}
