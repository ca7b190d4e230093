package fast

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// compiler compiles the members of a chain. It refers to values (see value) by number, in the order of their creation.
// At the end, the method chain assigns an operand of the program to each value.
type compiler struct {
	of     map[*ir.Node]int // the number of the value of each compiled node, and of each argument
	values []value
	words  []bool             // by value: whether it is a word, see wordops.go
	bits   map[uint32]int     // the number of each constant, by the constant's bits
	row    map[*ir.Scalar]int // the number of each row value
	kept   []int              // the numbers of values that an earlier chain of the fold computed
	code   []instruction      // with numbers of values as operands
}

// value is what an operand may hold: an argument of the chain, a constant, a row value, a kept value or, if all fields
// are nil, the result of an instruction.
type value struct {
	arg      *ir.Node
	constant *float32
	row      *ir.Scalar
	kept     *ir.Scalar
}

// newCompiler returns a compiler without values.
func newCompiler() *compiler {
	return &compiler{of: map[*ir.Node]int{}, bits: map[uint32]int{}, row: map[*ir.Scalar]int{}}
}

// compile compiles nodes to a chain. The list has nodes after their arguments, and the last one is the result.
func (c *chains) compile(members []*ir.Node) *chain {
	b := newCompiler()
	v := c.members(b, members)
	if isWord(members[len(members)-1].DType()) {
		v = b.asWord(v)
	}
	return b.chain(b.asLast(v))
}

// members compiles members of a chain, which are sorted so that arguments come first. It returns the value of the last.
func (c *chains) members(b *compiler, members []*ir.Node) (result int) {
	for _, n := range members {
		args := make([]int, len(n.Args()))
		for i, a := range n.Args() {
			args[i] = c.read(b, a)
		}
		result = b.node(n, args)
		b.of[n] = result
	}
	return result
}

// result returns v, or a value equal to it, as the result of a chain of a fold, whose results are folded and not
// stored. Such a chain needs no code if v is not computed.
func (b *compiler) result(v int) int {
	if b.values[v] != (value{}) {
		b.code = nil
		return v
	}
	return b.asLast(v)
}

// asLast returns a value equal to v that the last instruction computes: only the last instruction stores the chain's
// result. If another one computes v, it adds a copy.
func (b *compiler) asLast(v int) int {
	if len(b.code) > 0 && b.code[len(b.code)-1].out == v {
		return v
	}
	out := b.instruction(primitives[unchanged], []int{v})
	b.words[out] = b.words[v]
	return out
}

// read returns the value of node n, which a member uses. If n is not a member, it becomes an argument of the chain. If
// it is a broadcast, the node that it broadcasts becomes the argument, because chains broadcast arguments themselves.
func (c *chains) read(b *compiler, n *ir.Node) int {
	if _, ok := b.of[n]; !ok {
		for n.Op() == ir.OpBroadcast && !c.constant[n.ID()] {
			n = n.Arg(0)
		}
	}
	v, ok := b.of[n]
	if !ok {
		v = b.value(value{arg: n})
		b.of[n] = v
	}
	return v
}

// value adds a value and returns its number.
func (b *compiler) value(v value) int {
	b.values = append(b.values, v)
	b.words = append(b.words, v.arg != nil && isWord(v.arg.DType()))
	return len(b.values) - 1
}

// constant returns the value of a constant.
func (b *compiler) constant(x float32) int {
	v, ok := b.bits[math.Float32bits(x)]
	if !ok {
		v = b.value(value{constant: &x})
		b.bits[math.Float32bits(x)] = v
	}
	return v
}

// node compiles a node, and returns its value, rounded to the node's dtype. args are the values of its arguments.
func (b *compiler) node(n *ir.Node, args []int) int {
	info, attrs := n.Op().Info(), n.Attrs()
	switch {
	case n.Op() == ir.OpWhere:
		return b.compileWhere(n, args)
	case n.Op() == ir.OpCast && (isWord(n.DType()) || isWord(n.Arg(0).DType())):
		return b.compileCast(n, args[0])
	case !slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return isNarrow(a.DType()) }):
		if info.GLSL.Bool == "" || !slices.ContainsFunc(args, func(v int) bool { return !b.words[v] }) {
			return b.compileWords(n, args)
		}
	}
	for i, a := range n.Args() {
		args[i] = b.asFloat(args[i], a.DType())
	}
	form := info.Form(attrs, func(arg int) (float64, bool) { return n.Arg(arg).Number() }).Float
	if !slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return isNarrow(a.DType()) }) {
		form = info.GLSL.Bool
	}
	var v int
	if e, err := parse(form); err == nil && e.supported(len(args)) {
		v = b.expression(e, args, attrs)
	} else {
		v = b.instruction(byReference(n.Op(), len(args), attrs), args)
	}
	if name, ok := roundings[n.DType()]; ok && (n.Op() == ir.OpCast || !info.IsExact(n.DType(), attrs)) {
		v = b.instruction(primitives[name], []int{v})
	}
	return v
}

// supported reports whether this package has all functions of an expression, and the expression uses only the first
// args arguments.
func (e *expression) supported(args int) bool {
	if e.function == "" {
		return e.attribute != "" || e.number != nil || e.argument < args
	}
	if primitives[e.function] == nil && definitions[e.function] == nil {
		return false
	}
	return !slices.ContainsFunc(e.operands, func(o *expression) bool { return !o.supported(args) })
}

// expression compiles an expression and returns its value. args are the values of its arguments, and attrs has its
// attributes.
func (b *compiler) expression(e *expression, args []int, attrs ir.Attrs) int {
	switch {
	case e.number != nil:
		return b.constant(*e.number)
	case e.attribute != "":
		return b.constant(float32(attrs.Float(e.attribute)))
	case e.function == "":
		return args[e.argument]
	}
	in := make([]int, len(e.operands))
	for i, o := range e.operands {
		in[i] = b.expression(o, args, attrs)
	}
	if d := definitions[e.function]; d != nil {
		return b.expression(d, in, nil)
	}
	return b.instruction(primitives[e.function], in)
}

// instruction adds an instruction that applies a primitive, and returns its result. If all operands are constants, it
// computes the result instead, and adds no instruction.
func (b *compiler) instruction(p *primitive, in []int) int {
	all := [3]int{in[0], in[0], in[0]} // an operand that the primitive does not use may be any value
	copy(all[:], in)
	var x [3]float32
	for i, v := range all {
		if b.values[v].constant == nil {
			out := b.value(value{})
			b.code = append(b.code, instruction{primitive: p, out: out, in: all})
			return out
		}
		x[i] = *b.values[v].constant
	}
	var y [1]float32
	p.plain(y[:], x[:1], x[1:2], x[2:])
	return b.constant(y[0])
}

// chain returns the program that computes the value result. It assigns operands to the values; temporaries that are not
// needed at the same time share one.
func (b *compiler) chain(result int) *chain {
	p := &chain{code: b.code}
	last := make([]int, len(b.values)) // by value: the last instruction that uses it
	used := make([]bool, len(b.values))
	for i, c := range b.code {
		for _, v := range c.in {
			last[v], used[v] = i, true
		}
		p.work += c.work
	}
	at := make([]int, len(b.values)) // by value: its operand in the program
	for v, x := range b.values {
		if x.arg != nil {
			at[v] = len(p.args)
			p.args = append(p.args, x.arg)
			p.reads = append(p.reads, used[v] || v == result)
		}
	}
	for v, x := range b.values {
		if x.kept != nil && (used[v] || v == result) {
			at[v] = len(p.args) + len(p.kept)
			p.kept = append(p.kept, x.kept)
		}
	}
	lists := len(p.args) + len(p.kept)
	for v, x := range b.values {
		if x.row != nil {
			at[v] = lists + len(p.row)
			p.row = append(p.row, x.row)
		}
	}
	for v, x := range b.values {
		if x.constant != nil && (used[v] || v == result) {
			at[v] = lists + len(p.row) + len(p.constants)
			p.constants = append(p.constants, *x.constant)
		}
	}
	var free []int // operands of temporaries that are not needed any more
	for i := range b.code {
		c := &b.code[i]
		in := c.in
		for k, v := range in {
			c.in[k] = at[v]
			if x := b.values[v]; x == (value{}) && last[v] == i && !slices.Contains(in[:k], v) {
				free = append(free, at[v])
			}
		}
		if len(free) == 0 {
			free = append(free, lists+len(p.row)+len(p.constants)+p.temporaries)
			p.temporaries++
		}
		at[c.out] = free[len(free)-1]
		c.out, free = at[c.out], free[:len(free)-1]
	}
	p.result = at[result]
	return p
}
