package fast

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// In a chain, integers and bools are 32-bit words. Their bits are in the same lists as floats. Comparisons of floats
// give floats, 1 and 0, which are converted to words if an op needs words.

// word returns the word with the bits of x.
func word(x float32) int32 { return int32(math.Float32bits(x)) }

// bitsOfWord is the inverse of word.
func bitsOfWord(x int32) float32 { return math.Float32frombits(uint32(x)) }

// words1 returns the primitive of a function of one word.
func words1(f func(x int32) int32) *primitive {
	return of1(func(x float32) float32 { return bitsOfWord(f(word(x))) })
}

// words2 returns the primitive of a function of two words.
func words2(f func(x, y int32) int32) *primitive {
	return of2(func(x, y float32) float32 { return bitsOfWord(f(word(x), word(y))) })
}

// wordTruth returns 1 for true and 0 for false.
func wordTruth(is bool) int32 {
	if is {
		return 1
	}
	return 0
}

// floatOfWords is the name of the primitive that converts a signed word to a float.
const floatOfWords = "float of words"

// wordOf has the names of the primitives that convert a float to a bool or a word, by the dtype. wrapTo has the names
// of the primitives that wrap a word to a dtype.
var wordOf, wrapTo = map[ir.DType]string{}, map[ir.DType]string{}

// addWordPrimitives adds the primitives on words to the others.
func addWordPrimitives() {
	for _, t := range []ir.DType{ir.Bool, ir.I32, ir.U32} {
		wordOf[t] = t.String() + " of floats"
		primitives[wordOf[t]] = of1(func(x float32) float32 { return bitsOfWord(int32(ir.FloatToInt(float64(x), t))) })
	}
	for _, t := range []ir.DType{ir.Bool, ir.I8, ir.U8, ir.I16, ir.U16, ir.I32, ir.U32} {
		wrapTo[t] = "wrapped to " + t.String()
		primitives[wrapTo[t]] = words1(func(x int32) int32 { return int32(ir.Wrap(int64(x), t)) })
	}
	for name, p := range map[string]*primitive{
		"+ words":      words2(func(x, y int32) int32 { return x + y }),
		"- words":      words2(func(x, y int32) int32 { return x - y }),
		"* words":      words2(func(x, y int32) int32 { return x * y }),
		"min words":    words2(func(x, y int32) int32 { return min(x, y) }),
		"max words":    words2(func(x, y int32) int32 { return max(x, y) }),
		"min unsigned": words2(func(x, y int32) int32 { return int32(min(uint32(x), uint32(y))) }),
		"max unsigned": words2(func(x, y int32) int32 { return int32(max(uint32(x), uint32(y))) }),
		"& words":      words2(func(x, y int32) int32 { return x & y }),
		"| words":      words2(func(x, y int32) int32 { return x | y }),
		"^ words":      words2(func(x, y int32) int32 { return x ^ y }),
		"== words":     words2(func(x, y int32) int32 { return wordTruth(x == y) }),
		"> words":      words2(func(x, y int32) int32 { return wordTruth(x > y) }),
		floatOfWords:   of1(func(x float32) float32 { return float32(word(x)) }),
		"?: words": {work: 4, plain: func(out, x, y, z []float32) {
			for i, v := range x {
				if word(v) != 0 {
					out[i] = y[i]
				} else {
					out[i] = z[i]
				}
			}
		}},
		"float of unsigned words": of1(func(x float32) float32 { return float32(uint32(word(x))) }),
	} {
		primitives[name] = p
	}
}

// wordForm says how an op on words is computed by a primitive.
type wordForm struct {
	name, unsigned string // the primitive, and that for u32; "" means the same, and "-" that there is none
	wraps          bool   // whether the result must be wrapped to the op's dtype
	swapped        bool   // whether the operands are exchanged
	not            bool   // whether the result is negated, as a bool
}

// wordForms has the ops that have primitives on words. Others use their scalar reference.
var wordForms = map[ir.Op]wordForm{
	ir.OpAdd: {name: "+ words", wraps: true},
	ir.OpSub: {name: "- words", wraps: true},
	ir.OpMul: {name: "* words", wraps: true},
	ir.OpMin: {name: "min words", unsigned: "min unsigned"},
	ir.OpMax: {name: "max words", unsigned: "max unsigned"},
	ir.OpAnd: {name: "& words"},
	ir.OpOr:  {name: "| words"},
	ir.OpXor: {name: "^ words"},
	ir.OpEq:  {name: "== words"},
	ir.OpNe:  {name: "== words", not: true},
	ir.OpGt:  {name: "> words", unsigned: "-"},
	ir.OpLt:  {name: "> words", unsigned: "-", swapped: true},
	ir.OpLe:  {name: "> words", unsigned: "-", not: true},
	ir.OpGe:  {name: "> words", unsigned: "-", swapped: true, not: true},
}

// asFloat returns value v, of dtype t, as a float.
func (b *compiler) asFloat(v int, t ir.DType) int {
	switch {
	case !b.words[v]:
		return v
	case t == ir.U32:
		return b.instruction(primitives["float of unsigned words"], []int{v})
	}
	return b.instruction(primitives[floatOfWords], []int{v})
}

// asWord returns value v as a word. A float must be a bool: 1 or 0.
func (b *compiler) asWord(v int) int {
	if b.words[v] {
		return v
	}
	return b.wordInstruction(wordOf[ir.I32], v)
}

// wordInstruction adds an instruction with a word as its result.
func (b *compiler) wordInstruction(name string, in ...int) int {
	return b.word(b.instruction(primitives[name], in))
}

// word marks a value as a word, and returns it. The value is never a constant, because at least one operand of its
// instruction is not.
func (b *compiler) word(v int) int {
	b.words[v] = true
	return v
}

// compileWhere compiles op where, of words or floats.
func (b *compiler) compileWhere(n *ir.Node, args []int) int {
	form := "?:"
	if b.words[args[0]] {
		form = "?: words"
	}
	if !isWord(n.DType()) {
		return b.instruction(primitives[form], args)
	}
	return b.wordInstruction(form, args[0], b.asWord(args[1]), b.asWord(args[2]))
}

// compileCast compiles a cast of value v to or from words.
func (b *compiler) compileCast(n *ir.Node, v int) int {
	from, to := n.Arg(0).DType(), n.DType()
	switch {
	case !b.words[v] && from != ir.Bool: // a float, or an i64 read as a float
		return b.saturated(v, to)
	case !isWord(to):
		v = b.asFloat(v, from)
		if name, ok := roundings[to]; ok {
			v = b.instruction(primitives[name], []int{v})
		}
		return v
	}
	v = b.asWord(v)
	switch {
	case from == ir.Bool || to.BlockBytes() == 4:
		return v
	case to == ir.Bool:
		return b.not(b.not(v))
	}
	return b.wordInstruction(wrapTo[to], v)
}

// saturated returns the integer part of float v as a word, limited to the range of dtype t.
func (b *compiler) saturated(v int, t ir.DType) int {
	if t == ir.Bool || t.BlockBytes() == 4 {
		return b.wordInstruction(wordOf[t], v)
	}
	lo, hi := ir.IntRange(t)
	v = b.wordInstruction("max words", b.wordInstruction(wordOf[ir.I32], v), b.constant(bitsOfWord(int32(lo))))
	return b.wordInstruction("min words", v, b.constant(bitsOfWord(int32(hi))))
}

// not returns the negation of a bool that is a word.
func (b *compiler) not(v int) int { return b.wordInstruction("== words", v, b.constant(0)) }

// compileWords compiles a node whose arguments are integers or bools. args are their values.
func (b *compiler) compileWords(n *ir.Node, args []int) int {
	t := n.Arg(0).DType()
	for i, v := range args {
		args[i] = b.asWord(v)
	}
	form, ok := wordForms[n.Op()]
	name := form.name
	if t == ir.U32 && form.unsigned != "" {
		name = form.unsigned
	}
	switch {
	case n.Op() == ir.OpNot && t == ir.Bool:
		return b.not(args[0])
	case !ok || name == "-":
		return b.word(b.instruction(wordReference(n), args))
	case form.swapped:
		args = []int{args[1], args[0]}
	}
	v := b.wordInstruction(name, args...)
	if form.not {
		v = b.not(v)
	}
	if form.wraps && t.BlockBytes() < 4 {
		v = b.wordInstruction(wrapTo[t], v)
	}
	return v
}

// wordReference returns a primitive that calls the scalar reference of a node's op on words.
func wordReference(n *ir.Node) *primitive {
	f, t, attrs, args := n.Op().Info().Int, n.DType(), n.Attrs(), len(n.Args())
	unsigned := make([]bool, args)
	for i, a := range n.Args() {
		unsigned[i] = a.DType() == ir.U32
	}
	return &primitive{work: 64, plain: func(out, x, y, z []float32) {
		list := [...][]float32{x, y, z}
		values := make([]int64, args)
		for i := range out {
			for k := range values {
				if values[k] = int64(word(list[k][i])); unsigned[k] {
					values[k] &= math.MaxUint32
				}
			}
			out[i] = bitsOfWord(int32(ir.Wrap(f(values, attrs), t)))
		}
	}}
}
