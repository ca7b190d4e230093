package fast

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// compiler compiles the members of a chain. A value is an argument of the chain, a constant or an instruction's result.
// Values are numbered in the order of their creation.
type compiler struct {
	of     map[*ir.Node]int // values of nodes
	values []value
	bits   map[uint32]int     // values of constants, by their bits
	row    map[*ir.Scalar]int // values of row values
	code   []instruction      // operands are values
}

// value is an argument, a constant or a row value; if all are nil, an instruction computes it.
type value struct {
	arg      *ir.Node
	constant *float32
	row      *ir.Scalar
}

func newCompiler() *compiler {
	return &compiler{of: map[*ir.Node]int{}, bits: map[uint32]int{}, row: map[*ir.Scalar]int{}}
}

// compile compiles nodes to a chain. Nodes come after their arguments, and the last one is the result.
func (c *chains) compile(members []*ir.Node) *chain {
	b := newCompiler()
	return b.chain(b.stored(c.members(b, members)))
}

// members compiles members of a chain, and returns the value of the last one.
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

// stored returns a value equal to v that the last instruction computes, so that it goes to the chain's result.
func (b *compiler) stored(v int) int {
	if len(b.code) > 0 && b.code[len(b.code)-1].out == v {
		return v
	}
	return b.instruction(primitives[unchanged], []int{v})
}

// read is the value of a node: a member or an argument of the chain. It looks through broadcasts.
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

func (b *compiler) value(v value) int {
	b.values = append(b.values, v)
	return len(b.values) - 1
}

func (b *compiler) constant(x float32) int {
	v, ok := b.bits[math.Float32bits(x)]
	if !ok {
		v = b.value(value{constant: &x})
		b.bits[math.Float32bits(x)] = v
	}
	return v
}

// node compiles a node with the given arguments, and returns its value, rounded to its dtype.
func (b *compiler) node(n *ir.Node, args []int) int {
	info, attrs := n.Op().Info(), n.Attrs()
	form := info.Form(attrs, func(arg int) (float64, bool) { return n.Arg(arg).Number() }).Float
	if !slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return isNarrow(a.DType()) }) {
		form = info.GLSL.Bool
	}
	var v int
	if e, err := parse(form); err == nil && e.known(len(args)) {
		v = b.expression(e, args, attrs)
	} else {
		v = b.instruction(byReference(n.Op(), len(args), attrs), args)
	}
	if name, ok := roundings[n.DType()]; ok && (n.Op() == ir.OpCast || !info.IsExact(n.DType(), attrs)) {
		v = b.instruction(primitives[name], []int{v})
	}
	return v
}

// known reports whether this package implements all functions in an expression over so many arguments.
func (e *expression) known(args int) bool {
	if e.function == "" {
		return e.attribute != "" || e.number != nil || e.argument < args
	}
	if primitives[e.function] == nil && definitions[e.function] == nil {
		return false
	}
	return !slices.ContainsFunc(e.operands, func(o *expression) bool { return !o.known(args) })
}

// expression computes an expression and returns its value.
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

// instruction applies a primitive. If all operands are constants it computes the result at once.
func (b *compiler) instruction(p *primitive, in []int) int {
	all := [3]int{in[0], in[0], in[0]} // unused operands may be any value
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

// chain returns the program for a result, with as little room as it needs.
func (b *compiler) chain(result int) *chain {
	p := &chain{code: b.code}
	last := make([]int, len(b.values)) // instruction that uses a value
	used := make([]bool, len(b.values))
	for i, c := range b.code {
		for _, v := range c.in {
			last[v], used[v] = i, true
		}
		p.work += c.work
	}
	at := make([]int, len(b.values)) // operand of the program
	for v, x := range b.values {
		if x.arg != nil {
			at[v] = len(p.args)
			p.args = append(p.args, x.arg)
		}
	}
	for v, x := range b.values {
		if x.row != nil {
			at[v] = len(p.args) + len(p.row)
			p.row = append(p.row, x.row)
		}
	}
	for v, x := range b.values {
		if x.constant != nil && (used[v] || v == result) {
			at[v] = len(p.args) + len(p.row) + len(p.constants)
			p.constants = append(p.constants, *x.constant)
		}
	}
	var free []int
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
			free = append(free, len(p.args)+len(p.row)+len(p.constants)+p.rooms)
			p.rooms++
		}
		at[c.out] = free[len(free)-1]
		c.out, free = at[c.out], free[:len(free)-1]
	}
	p.result = at[result]
	return p
}
