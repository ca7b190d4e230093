package onnx

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// call is a node of the model while it is built, with its inputs. Other types have a call in a field with a name: a
// type that embeds it would get its two hundred methods, which take long to compile.
type call struct {
	*importer
	node    *Node
	scope   *scope
	version int64    // of the op's domain
	in      []*value // nil for omitted inputs

	consumed *consumed // the attributes and inputs that the code that builds the node has read

	toUnsigned bool // an attribute asks for results of dtype uint64

	mask *mask // the valid part of input 0 along an axis that the op reduces; nil if all elements are valid
}

// has reports whether input i is given.
func (c *call) has(i int) bool {
	c.consumed.at(i)
	return i < len(c.in) && c.in[i] != nil
}

// input returns input i, which the op requires.
func (c *call) input(i int) *value {
	if !c.has(i) {
		c.fail("input %d is missing", i)
	}
	return c.in[i]
}

// x returns input i as a tensor.
func (c *call) x(i int) frontend.Tensor { return c.asTensor(c.input(i)) }

// all returns all inputs as tensors.
func (c *call) all() []frontend.Tensor {
	list := make([]frontend.Tensor, len(c.in))
	for i := range list {
		list[i] = c.x(i)
	}
	if len(list) == 0 {
		c.fail("it has no inputs")
	}
	return list
}

// constant returns the value of input i, and fails if it is not known when the graph is built.
func (c *call) constant(i int) *ir.Data {
	v := c.input(i)
	d := constant(v)
	if d == nil {
		c.needed = append(c.needed, v.from...)
		c.fail("input %d, %q, must be known when the graph is built, but it depends on %q", i, v.name, v.from)
	}
	return d
}

// dims returns the integers of input i, a vector or scalar. They may depend on symbols. dims fails if they depend on
// values that are known only in a run.
func (c *call) dims(i int) ir.Shape {
	s := c.extents(i)
	for _, d := range s {
		if c.isFound(d) {
			c.fail("the number of elements of input %d, %q, is known only in a run, and vkc does not support that for "+
				"this op", i, c.in[i].name)
		}
	}
	return s
}

// extents returns the integers of input i, as dims does, but accepts numbers of elements that are known only in a run
// (see foundExtent).
func (c *call) extents(i int) ir.Shape {
	s, _, ok := dimsOf(c.input(i))
	if !ok {
		d := c.constant(i)
		ints, err := d.Ints()
		if err != nil {
			c.fail("input %d: %v", i, err)
		}
		for _, n := range ints {
			s = append(s, ir.Dim{Add: n})
		}
	}
	return s
}

// ints returns input i as integers that depend on no symbol.
func (c *call) ints(i int) []int {
	s := c.dims(i)
	out := make([]int, len(s))
	for k, d := range s {
		if !d.IsStatic() {
			c.fail("input %d, %q, is %s: it must be a number, so fix the symbol's value", i, c.in[i].name, s)
		}
		out[k] = int(d.Add)
	}
	return out
}

// number returns the value of input i, a constant scalar.
func (c *call) number(i int) float64 {
	f, err := c.constant(i).Floats()
	if err != nil || len(f) != 1 {
		c.fail("input %d is not a number: %v", i, err)
	}
	return f[0]
}

// anyAttr returns an attribute of any type, or nil if the node has none of that name. An attribute in a function may
// refer to an attribute of the function (ref_attr_name). For such a reference anyAttr returns the attribute that the
// function's caller gave, or nil.
func (c *call) anyAttr(name string) *Attribute {
	c.consumed.atAttr(name)
	a := c.node.attr(name)
	if a != nil && a.Ref != "" {
		a = c.scope.attribute(a.Ref)
	}
	return a
}

// attr returns an attribute, or nil if the node has none of that name. It fails if the attribute's type is not t.
func (c *call) attr(name string, t AttributeType) *Attribute {
	a := c.anyAttr(name)
	if a != nil && a.Type != t {
		c.fail("attribute %s has type %d, want %d", name, a.Type, t)
	}
	return a
}

// must returns an attribute that the op requires. It fails if the node lacks the attribute or its type is not t.
func (c *call) must(name string, t AttributeType) *Attribute {
	a := c.attr(name, t)
	if a == nil {
		c.fail("attribute %s is missing, which the op must have", name)
	}
	return a
}

// attribute returns an attribute of the enclosing function, or nil.
func (s *scope) attribute(name string) *Attribute {
	for ; s != nil; s = s.outer {
		if s.attrs != nil {
			return s.attrs[name]
		}
	}
	return nil
}

func (c *call) hasAttr(name string) bool { return c.anyAttr(name) != nil }

// intAttr returns an integer attribute, or a default value.
func (c *call) intAttr(name string, otherwise int) int {
	if a := c.attr(name, AttrInt); a != nil {
		return int(a.Int)
	}
	return otherwise
}

// floatAttr returns a float attribute, or a default value.
func (c *call) floatAttr(name string, otherwise float64) float64 {
	if a := c.attr(name, AttrFloat); a != nil {
		return float64(a.Float)
	}
	return float64(float32(otherwise)) // rounded, as a value in a file is
}

// textAttr returns a string attribute, or a default value.
func (c *call) textAttr(name, otherwise string) string {
	if a := c.attr(name, AttrString); a != nil {
		return a.String
	}
	return otherwise
}

// flag returns a boolean attribute: any number except 0 is true.
func (c *call) flag(name string, otherwise bool) bool {
	if a := c.attr(name, AttrInt); a != nil {
		return a.Int != 0
	}
	return otherwise
}

// choice returns an attribute that must be one of several strings. The first is the default.
func (c *call) choice(name string, texts ...string) string {
	text := c.textAttr(name, texts[0])
	if !slices.Contains(texts, text) {
		c.fail("attribute %s is %q: want one of %q", name, text, texts)
	}
	return text
}

// only requires that integer attribute name has the given value, which is also the default; vkc supports no other.
// Otherwise the node fails, with the reason why.
func (c *call) only(name string, value int, why string) {
	if n := c.intAttr(name, value); n != value {
		c.fail("attribute %s is %d, and vkc supports only %d: %s", name, n, value, why)
	}
}

// intsAttr returns an attribute with a list of integers, or nil.
func (c *call) intsAttr(name string) []int {
	a := c.attr(name, AttrInts)
	if a == nil {
		return nil
	}
	return widths(a.Ints)
}

// mustInt returns the integer attribute with that name, and fails if the node lacks it.
func (c *call) mustInt(name string) int { return int(c.must(name, AttrInt).Int) }

// mustInts returns the attribute with that name, a list of integers, and fails if the node lacks it.
func (c *call) mustInts(name string) []int { return widths(c.must(name, AttrInts).Ints) }

// widths converts integers from int64 to int.
func widths(list []int64) []int {
	out := make([]int, len(list))
	for i, n := range list {
		out[i] = int(n)
	}
	return out
}

// axes returns input i, an optional list of integers, and whether it is given.
func (c *call) axes(i int) (axes []int, given bool) {
	if c.has(i) {
		return c.ints(i), true
	}
	return nil, false
}

// axis returns an axis of a tensor as 0 … rank-1. A negative axis counts from the end: -1 becomes rank-1.
func (c *call) axis(axis, rank int) int {
	a, err := ir.ResolveAxis(int64(axis), rank)
	if err != nil {
		c.fail("axis %d: %v", axis, err)
	}
	return a
}

// axesFrom lists the axes from number first to rank-1.
func axesFrom(first, rank int) []int {
	var axes []int
	for a := first; a < rank; a++ {
		axes = append(axes, a)
	}
	return axes
}

// resolved converts a list of axes to 0 … rank-1, as method axis does, and sorts the list.
func (c *call) resolved(axes []int, rank int) []int {
	out := make([]int, len(axes))
	for i, a := range axes {
		out[i] = c.axis(a, rank)
	}
	slices.Sort(out)
	return out
}

// numel returns the number of elements of a tensor with shape s.
func (c *call) numel(s ir.Shape) ir.Dim {
	n, err := s.Numel()
	if err != nil {
		c.fail("%v", err)
	}
	return n
}

// openDType is dtypeAttr for an attribute in which 0 also means the dtype `otherwise`.
func (c *call) openDType(name string, otherwise ir.DType) ir.DType {
	if c.intAttr(name, 0) == 0 {
		return otherwise
	}
	return c.dtypeAttr(name, otherwise)
}

// dtypeAttr returns the dtype that an attribute names by ONNX's number, or `otherwise` if the node lacks the attribute.
// It fails for a dtype that vkc does not compute in.
func (c *call) dtypeAttr(name string, otherwise ir.DType) ir.DType {
	a := c.attr(name, AttrInt)
	if a == nil {
		return otherwise
	}
	t := DataType(a.Int).DType()
	switch {
	case t == ir.Invalid:
		c.fail("%s is %s (type %d), which vkc does not support", name, DataType(a.Int), a.Int)
	case t.StorageOnly():
		c.fail("%s is %s, which only casts and quantization make", name, DataType(a.Int))
	}
	// vkc has no uint64: its values are in i64, and the results are marked.
	c.toUnsigned = c.toUnsigned || dataTypes[DataType(a.Int)].unsigned
	return t
}

// wide applies f, a sequence of ops, to x in f32 if x has 16-bit floats, and rounds only the result. Otherwise each
// op would round.
func wide(x frontend.Tensor, f func(frontend.Tensor) frontend.Tensor) frontend.Tensor {
	if t := x.DType(); t == ir.F16 || t == ir.BF16 {
		return f(x.Cast(ir.F32)).Cast(t)
	}
	return f(x)
}

// one returns the result of a node with a single result.
func one(t frontend.Tensor) []*value { return []*value{{tensor: t}} }

// several returns the results of a node. The zero Tensor stands for a result that is not computed.
func several(list ...frontend.Tensor) []*value {
	out := make([]*value, len(list))
	for i, t := range list {
		if !t.IsZero() {
			out[i] = &value{tensor: t}
		}
	}
	return out
}

// wants reports whether the node names result i. Only then can something read it.
func (c *call) wants(i int) bool { return i < len(c.node.Outputs) && c.node.Outputs[i] != "" }
