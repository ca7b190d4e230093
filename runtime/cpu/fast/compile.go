package fast

import (
	"cmp"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// compiler is a compiler for chains in 32 bits.
type compiler = compilerOf[float32]

// compilerOf compiles the members of a chain. It refers to values (see value) by number, in the order of their
// creation. At the end, the method chain assigns an operand of the program to each value.
type compilerOf[T number] struct {
	of     map[*ir.Node]int // the number of the value of each compiled node, and of each argument
	values []value[T]
	words  []bool             // by value: whether it is a word, see wordops.go
	bits   map[uint64]int     // the number of each constant, by the constant's bits
	row    map[*ir.Scalar]int // the number of each row value
	kept   []int              // the numbers of values that an earlier chain of the fold computed
	code   []instruction[T]   // with numbers of values as operands
}

// value is what an operand may hold: an argument of the chain, a constant, a row value, a kept value or, if all fields
// are nil, the result of an instruction.
type value[T number] struct {
	arg      *ir.Node
	constant *T
	row      *ir.Scalar
	kept     *ir.Scalar
}

// newCompiler returns a compiler without values, for 32 bits.
func newCompiler() *compiler { return newCompilerOf[float32]() }

// newCompilerOf returns a compiler without values.
func newCompilerOf[T number]() *compilerOf[T] {
	return &compilerOf[T]{of: map[*ir.Node]int{}, bits: map[uint64]int{}, row: map[*ir.Scalar]int{}}
}

// compile compiles nodes to a chain for results, which rounds them when it stores them. The list has nodes after their
// arguments, and the last one is the result.
func compile[T number](c *chains, members []*ir.Node) *chainOf[T] {
	b, t := newCompilerOf[T](), members[len(members)-1].DType()
	v := b.members(c, members)
	if b.isWord(t) {
		return b.chain(b.asLast(b.asWord(v)))
	}
	if exact := b.unrounded(v, t); exact != v {
		return b.chain(b.result(exact))
	}
	return b.chain(b.asLast(v))
}

// unrounded returns v without its rounding: if the last instruction computes v by rounding another value to dtype t,
// unrounded removes that instruction and returns the other value. Otherwise it returns v. Storing a result rounds it.
func (b *compilerOf[T]) unrounded(v int, t ir.DType) int {
	name, ok := b.rounding(t)
	last := len(b.code) - 1
	if !ok || last < 0 || b.code[last].out != v || b.code[last].primitiveOf != b.primitive(name) {
		return v
	}
	v, b.code = b.code[last].in[0], b.code[:last]
	return v
}

// compile compiles nodes to a chain. The compiler may have the values of some nodes already.
func (b *compilerOf[T]) compile(c *chains, members []*ir.Node) *chainOf[T] {
	v := b.members(c, members)
	if b.isWord(members[len(members)-1].DType()) {
		v = b.asWord(v)
	}
	return b.chain(b.asLast(v))
}

// members compiles members of a chain, which are sorted so that arguments come first. It returns the value of the last.
func (b *compilerOf[T]) members(c *chains, members []*ir.Node) (result int) {
	for _, n := range members {
		args := make([]int, len(n.Args()))
		for i, a := range n.Args() {
			args[i] = b.read(c, a)
		}
		result = b.node(n, args)
		b.of[n] = result
	}
	return result
}

// result returns v as the result of a chain that need not store it: a fold reduces it, or method put of results rounds
// and stores it. If no instruction computes v, which is an argument, for example, the chain needs no code. Otherwise
// the last instruction must compute it, see asLast.
func (b *compilerOf[T]) result(v int) int {
	if b.values[v] != (value[T]{}) {
		b.code = nil
		return v
	}
	return b.asLast(v)
}

// asLast returns a value equal to v that the last instruction computes, because only that instruction stores the
// chain's result. If the last instruction does not compute v, asLast adds one that copies v.
func (b *compilerOf[T]) asLast(v int) int {
	if len(b.code) > 0 && b.code[len(b.code)-1].out == v {
		return v
	}
	out := b.instruction(b.primitive(unchanged), []int{v})
	b.words[out] = b.words[v]
	return out
}

// read returns the value of node n, which a member uses. If n is not a member, it becomes an argument of the chain. If
// it is a broadcast, the node that it broadcasts becomes the argument, because chains broadcast arguments themselves.
func (b *compilerOf[T]) read(c *chains, n *ir.Node) int {
	if _, ok := b.of[n]; !ok {
		for n.Op() == ir.OpBroadcast && !c.constant[n.ID()] {
			n = n.Arg(0)
		}
	}
	v, ok := b.of[n]
	if !ok {
		v = b.value(value[T]{arg: n})
		b.of[n] = v
	}
	return v
}

// value adds a value and returns its number.
func (b *compilerOf[T]) value(v value[T]) int {
	b.values = append(b.values, v)
	b.words = append(b.words, v.arg != nil && b.isWord(v.arg.DType()))
	return len(b.values) - 1
}

// constant returns the value of a constant.
func (b *compilerOf[T]) constant(x T) int {
	v, ok := b.bits[bitsOfNumber(x)]
	if !ok {
		v = b.value(value[T]{constant: &x})
		b.bits[bitsOfNumber(x)] = v
	}
	return v
}

// bitsOfNumber returns the bits of a number.
func bitsOfNumber[T number](x T) uint64 {
	if narrow, ok := any(x).(float32); ok {
		return uint64(math.Float32bits(narrow))
	}
	return math.Float64bits(float64(x))
}

// node compiles a node, and returns its value, rounded to the node's dtype. args are the values of its arguments. For
// floats it compiles the float formula of the op's row, or a call of the op's Go function if this package cannot
// compile the formula. Words (integers and bools) have their own formulas.
func (b *compilerOf[T]) node(n *ir.Node, args []int) int {
	info, attrs := n.Op().Info(), n.Attrs()
	switch {
	case n.Op() == ir.OpWhere:
		return b.compileWhere(n, args)
	case n.Op() == ir.OpCast && (b.isWord(n.DType()) || b.isWord(n.Arg(0).DType())):
		return b.compileCast(n, args[0])
	case !takesFloats(n):
		// A bool that a comparison of floats computes is a float, 0 or 1. If an argument is one, the op's formula for
		// bools is computed in floats too.
		if info.GLSL.Bool == "" || !slices.ContainsFunc(args, func(v int) bool { return !b.words[v] }) {
			return b.compileWords(n, args)
		}
	}
	for i, a := range n.Args() {
		args[i] = b.asFloat(args[i], a.DType())
	}
	known := func(arg int) (float64, bool) { return n.Arg(arg).Number() } // an argument that is one number
	form := info.Form(attrs, known).Float
	if !takesFloats(n) {
		form = info.GLSL.Bool
	}
	var v int
	if e := b.formula(form, len(args)); e != nil {
		v = b.expression(e, args, attrs)
	} else {
		v = b.instruction(byReference[T](n.Op(), len(args), attrs), args)
	}
	if name, ok := b.rounding(n.DType()); ok && (n.Op() == ir.OpCast || !info.IsExact(n.DType(), attrs)) {
		v = b.instruction(b.primitive(name), []int{v})
	}
	return v
}

// takesFloats reports whether an argument of a node has floats.
func takesFloats(n *ir.Node) bool {
	return slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return a.DType().IsFloat() })
}

// wide reports whether the chain computes in 64 bits.
func (b *compilerOf[T]) wide() bool {
	_, narrow := any(b).(*compiler)
	return !narrow
}

// isWord reports whether the chain has the elements of a dtype as words.
func (b *compilerOf[T]) isWord(t ir.DType) bool { return isWord(t) || b.wide() && t == ir.I64 }

// rounding returns the name of the primitive that rounds to a dtype. ok is false if the chain's results need no
// rounding.
func (b *compilerOf[T]) rounding(t ir.DType) (name string, ok bool) {
	name, ok = roundings[t]
	if t == ir.F32 {
		ok = b.wide() // a narrow chain has float32 already
	}
	return name, ok
}

// primitive returns the primitive of a name.
func (b *compilerOf[T]) primitive(name string) *primitiveOf[T] {
	if b.wide() {
		return any(widePrimitives[name]).(*primitiveOf[T])
	}
	return any(primitives[name]).(*primitiveOf[T])
}

// formula returns the expression of a formula with the given number of arguments. It returns nil if this package lacks
// a function of the formula: the chain then calls the op's Go function.
func (b *compilerOf[T]) formula(form string, args int) *expression {
	if e, err := parse(cmp.Or(shorter[form], form)); err == nil && e.supported(args) {
		return e
	}
	return nil
}

// definition returns the expression that defines a function, or nil if the function is a primitive.
func (b *compilerOf[T]) definition(function string) *expression {
	if d := wideDefinitions[function]; d != nil && b.wide() {
		return d
	}
	return definitions[function]
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
func (b *compilerOf[T]) expression(e *expression, args []int, attrs ir.Attrs) int {
	switch {
	case e.number != nil:
		return b.constant(T(*e.number))
	case e.attribute != "":
		return b.constant(T(attrs.Float(e.attribute)))
	case e.function == "": // an argument
		return args[e.argument]
	}
	in := make([]int, len(e.operands))
	for i, o := range e.operands {
		in[i] = b.expression(o, args, attrs)
	}
	if d := b.definition(e.function); d != nil {
		return b.expression(d, in, nil) // a function that is itself a formula
	}
	return b.instruction(b.primitive(e.function), in)
}

// instruction adds an instruction that applies a primitive, and returns its result. If all operands are constants, it
// computes the result instead, and adds no instruction.
func (b *compilerOf[T]) instruction(p *primitiveOf[T], in []int) int {
	all := [3]int{in[0], in[0], in[0]} // an operand that the primitive does not use may be any value
	copy(all[:], in)
	var x [3]T
	for i, v := range all {
		if b.values[v].constant == nil {
			out := b.value(value[T]{})
			b.code = append(b.code, instruction[T]{primitiveOf: p, out: out, in: all})
			return out
		}
		x[i] = *b.values[v].constant
	}
	var y [1]T
	p.plain(y[:], x[:1], x[1:2], x[2:])
	return b.constant(y[0])
}

// chain returns the program that computes the value result. It numbers the operands in the order of chainOf:
// arguments, kept values, row values, constants, temporaries.
func (b *compilerOf[T]) chain(result int) *chainOf[T] {
	if narrow, ok := any(b).(*compiler); ok {
		shorten(narrow, result)
	}
	p, uses := &chainOf[T]{code: b.code}, b.readers(result)
	programs, together := b.findPrograms(uses), b.findFused(uses)
	at := b.numberLists(p, uses) // by value: its operand in the program
	b.numberResults(p, at)
	p.result = at[result]
	p.setPrograms(programs, at)
	p.setFused(together, at)
	return p
}

// numberLists numbers the operands of p that are not results of instructions, and returns them by value. uses has, by
// value, how many instructions read it, and the chain's result. Unused kept values and constants get no operand.
func (b *compilerOf[T]) numberLists(p *chainOf[T], uses []int) (at []int) {
	at = make([]int, len(b.values))
	for v, x := range b.values {
		if x.arg != nil {
			at[v] = len(p.args)
			p.args = append(p.args, x.arg)
			p.reads = append(p.reads, uses[v] > 0)
		}
	}
	for v, x := range b.values {
		if x.kept != nil && uses[v] > 0 {
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
		if x.constant != nil && uses[v] > 0 {
			at[v] = lists + len(p.row) + len(p.constants)
			p.constants = append(p.constants, *x.constant)
		}
	}
	return at
}

// numberResults numbers the operands of p for results of instructions, the temporaries, and sets the operands of all
// instructions. `at` has the operands by value. Temporaries that are not needed at the same time share an operand.
func (b *compilerOf[T]) numberResults(p *chainOf[T], at []int) {
	last := make([]int, len(b.values)) // by value: the last instruction that uses it
	for i, c := range b.code {
		for _, v := range c.in {
			last[v] = i
		}
	}
	first := len(p.args) + len(p.kept) + len(p.row) + len(p.constants) // of the temporaries
	// The operands of temporaries that are not needed any more.
	var free []int
	for i := range b.code {
		c := &b.code[i]
		p.work += c.work
		in := c.in
		for k, v := range in {
			c.in[k] = at[v]
			isResult := b.values[v] == value[T]{}
			if isResult && last[v] == i && !slices.Contains(in[:k], v) {
				free = append(free, at[v])
			}
		}
		if len(free) == 0 {
			free = append(free, first+p.temporaries)
			p.temporaries++
		}
		operand := free[len(free)-1] // may be one that the instruction reads
		free = free[:len(free)-1]
		at[c.out], c.out = operand, operand
	}
}
