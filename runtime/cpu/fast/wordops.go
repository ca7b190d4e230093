package fast

import (
	"cmp"
	"math"
	"slices"
	"unsafe"

	"github.com/vkc-go/vkc/ir"
)

// In a chain, integers and bools are words of the chain's width. Their bits are in the same lists as floats.
// Comparisons of floats give floats, 1 and 0, which are converted to words if an op needs words.
//
// An op on words is compiled from its formula for integers in package ir's table of ops. If it has none, the formula
// for floats is computed with words.

// word returns the word with the bits of x.
func word(x float32) int32 { return int32(math.Float32bits(x)) }

// bitsOfWord returns the float32 number that has the bits of x; word converts it back.
func bitsOfWord(x int32) float32 { return math.Float32frombits(uint32(x)) }

// integer is a type of words.
type integer interface{ int32 | int64 }

// listOf returns a list of words whose bits are in a list of numbers of the same size.
func listOf[W integer, T number](list []T) []W {
	return unsafe.Slice((*W)(unsafe.Pointer(unsafe.SliceData(list))), len(list))
}

// words1 returns the primitive of a function of one word.
func words1[T number, W integer](f func(x W) W) *primitiveOf[T] {
	return &primitiveOf[T]{work: 4, plain: func(out, x, _, _ []T) {
		to := listOf[W](out)
		for i, v := range listOf[W](x) {
			to[i] = f(v)
		}
	}}
}

// words2 returns the primitive of a function of two words.
func words2[T number, W integer](f func(x, y W) W) *primitiveOf[T] {
	return &primitiveOf[T]{work: 4, plain: func(out, x, y, _ []T) {
		to, b := listOf[W](out), listOf[W](y)
		for i, v := range listOf[W](x) {
			to[i] = f(v, b[i])
		}
	}}
}

// wordLists returns the primitive of a function of lists of words.
func wordLists[T number, W integer](f func(out, x, y []W)) *primitiveOf[T] {
	return &primitiveOf[T]{work: 4, plain: func(out, x, y, _ []T) {
		f(listOf[W](out), listOf[W](x)[:len(out)], listOf[W](y)[:len(out)])
	}}
}

// of returns 1 for true and 0 for false.
func of[W integer](is bool) W {
	if is {
		return 1
	}
	return 0
}

// floatOfWords is the name of the primitive that converts a signed word to a float, and floatOfUnsigned of the one for
// u32.
const floatOfWords, floatOfUnsigned = "float of words", "float of unsigned words"

// wordOf has the names of the primitives that convert a float to a bool or a word, by the dtype. wrapTo has the names
// of the primitives that wrap a word to a dtype.
var wordOf, wrapTo = map[ir.DType]string{}, map[ir.DType]string{}

// wordOfTruth is the name of the primitive that converts 1 and 0 to words of 64 bits.
const wordOfTruth = "word of truth"

// oddOfWords is the name of the primitive that converts a signed word to a float that is then rounded to fewer bits
// (see [ir.IntToFloat]). oddOfUnsigned is the one for u32.
const oddOfWords, oddOfUnsigned = "float of words, before rounding", "float of unsigned words, before rounding"

// addWordPrimitives adds the primitives on words to the others.
func addWordPrimitives() {
	for _, t := range ir.DTypes() {
		if !t.IsInteger() && t != ir.Bool {
			continue
		}
		wordOf[t], wrapTo[t] = t.String()+" of floats", "wrapped to "+t.String()
		widePrimitives[wordOf[t]] = of1(func(x float64) float64 { return bitsOfLong(ir.FloatToInt(x, t)) })
		widePrimitives[wrapTo[t]] = words1[float64](func(x int64) int64 { return ir.Wrap(x, t) })
		if t == ir.I64 {
			continue
		}
		primitives[wordOf[t]] = of1(func(x float32) float32 { return bitsOfWord(int32(ir.FloatToInt(float64(x), t))) })
		primitives[wrapTo[t]] = words1[float32](func(x int32) int32 { return int32(ir.Wrap(int64(x), t)) })
	}
	addPrimitives[float32, int32](primitives)
	addPrimitives[float64, int64](widePrimitives)
	for name, p := range map[string]*primitive{
		"min unsigned": words2[float32](func(x, y int32) int32 { return int32(min(uint32(x), uint32(y))) }),
		"max unsigned": words2[float32](func(x, y int32) int32 { return int32(max(uint32(x), uint32(y))) }),
		"> unsigned":   words2[float32](func(x, y int32) int32 { return of[int32](uint32(x) > uint32(y)) }),
		"div_uint words": words2[float32](func(x, y int32) int32 {
			if y == 0 {
				return 0
			}
			return int32(uint32(x) / uint32(y))
		}),
		"rem_uint words": words2[float32](func(x, y int32) int32 {
			if y == 0 {
				return 0
			}
			return int32(uint32(x) % uint32(y))
		}),
		floatOfWords:    of1(func(x float32) float32 { return float32(word(x)) }),
		floatOfUnsigned: of1(func(x float32) float32 { return float32(uint32(word(x))) }),
		oddOfWords: of1(func(x float32) float32 {
			return float32(roundedToOdd(word(x), 1<<24, 1<<9-1))
		}),
		oddOfUnsigned: of1(func(x float32) float32 {
			return float32(roundedToOdd(int64(uint32(word(x))), 1<<24, 1<<9-1))
		}),
	} {
		primitives[name] = p
	}
	widePrimitives[wordOf[ir.I64]] = &primitiveOf[float64]{work: 4, plain: func(out, x, _, _ []float64) {
		to := listOf[int64](out)
		for i, v := range x {
			switch {
			case v >= -1<<63 && v < 1<<63:
				to[i] = int64(v)
			case v != v:
				to[i] = 0
			case v < 0:
				to[i] = math.MinInt64
			default:
				to[i] = math.MaxInt64
			}
		}
	}}
	widePrimitives[floatOfWords] = &primitiveOf[float64]{work: 4, plain: func(out, x, _, _ []float64) {
		for i, v := range listOf[int64](x) {
			out[i] = float64(v)
		}
	}}
	widePrimitives[wordOfTruth] = &primitiveOf[float64]{work: 4, plain: func(out, x, _, _ []float64) {
		to := listOf[int64](out)
		for i, v := range x {
			to[i] = int64(v)
		}
	}}
	widePrimitives[oddOfWords] = of1(func(x float64) float64 {
		return float64(roundedToOdd(long(x), 1<<53, 1<<11-1))
	})
}

// roundedToOdd returns x with fewer bits, if it is beyond the integers that floats represent: `low` has the bits that
// become 0. If any of them was not, the bit above them becomes 1. Then floats represent the result, and a float with at
// least two bits less is rounded as for x.
func roundedToOdd[W integer](x, exact, low W) W {
	if x < -exact || x > exact {
		return (x | (x&low + low)) &^ low
	}
	return x
}

// addPrimitives adds the primitives on signed words.
func addPrimitives[T number, W integer](list map[string]*primitiveOf[T]) {
	bits := W(8 * unsafe.Sizeof(W(0)))
	for name, p := range map[string]*primitiveOf[T]{
		"+ words": wordLists[T](func(out, x, y []W) {
			for i, v := range x {
				out[i] = v + y[i]
			}
		}),
		"- words": wordLists[T](func(out, x, y []W) {
			for i, v := range x {
				out[i] = v - y[i]
			}
		}),
		"* words": wordLists[T](func(out, x, y []W) {
			for i, v := range x {
				out[i] = v * y[i]
			}
		}),
		"min words": wordLists[T](func(out, x, y []W) {
			for i, v := range x {
				out[i] = min(v, y[i])
			}
		}),
		"max words": wordLists[T](func(out, x, y []W) {
			for i, v := range x {
				out[i] = max(v, y[i])
			}
		}),
		"& words": wordLists[T](func(out, x, y []W) {
			for i, v := range x {
				out[i] = v & y[i]
			}
		}),
		"| words": wordLists[T](func(out, x, y []W) {
			for i, v := range x {
				out[i] = v | y[i]
			}
		}),
		"^ words": wordLists[T](func(out, x, y []W) {
			for i, v := range x {
				out[i] = v ^ y[i]
			}
		}),
		"== words": wordLists[T](func(out, x, y []W) {
			for i, v := range x {
				out[i] = of[W](v == y[i])
			}
		}),
		"> words": wordLists[T](func(out, x, y []W) {
			for i, v := range x {
				out[i] = of[W](v > y[i])
			}
		}),
		"?: words": {work: 4, plain: func(out, x, y, z []T) {
			for i, v := range listOf[W](x) {
				if v != 0 {
					out[i] = y[i]
				} else {
					out[i] = z[i]
				}
			}
		}},
		"shift_left words": words2[T](func(x, y W) W {
			if y < 0 || y >= bits {
				return 0
			}
			return x << y
		}),
		"shift_right words": words2[T](func(x, y W) W {
			if y < 0 {
				y = bits
			}
			return x >> min(y, bits-1)
		}),
		"div_int words": words2[T](func(x, y W) W {
			if y == 0 {
				return 0
			}
			return x / y
		}),
		"rem_int words": words2[T](func(x, y W) W {
			if y == 0 {
				return 0
			}
			return x % y
		}),
		"mod_int words": words2[T](func(x, y W) W {
			if y == 0 {
				return 0
			}
			if m := x % y; m == 0 || m < 0 == (y < 0) {
				return m
			} else {
				return m + y
			}
		}),
	} {
		list[name] = p
	}
}

// wordDefinitions has functions of words that are expressions of primitives.
var wordDefinitions = parsed(map[string]string{
	"neg":     "0 - {0}",
	"abs":     "max({0}, 0 - {0})",
	"sign":    "({0} > 0) - (0 > {0})",
	"~":       "{0} ^ (0 - 1)",
	"!":       "{0} == 0",
	"&&":      "{0} & {1}",
	"||":      "{0} | {1}",
	"!=":      "({0} == {1}) == 0",
	"<":       "{1} > {0}",
	"<=":      "({0} > {1}) == 0",
	">=":      "({1} > {0}) == 0",
	"nan_min": "min({0}, {1})",
	"nan_max": "max({0}, {1})",
})

// wordPrimitive returns the name of the primitive that computes a function of words of dtype t, or "" if there is none.
func (b *compilerOf[T]) wordPrimitive(function string, t ir.DType) string {
	if name := function + " unsigned"; t == ir.U32 && !b.wide() && primitives[name] != nil {
		return name
	}
	if name := function + " words"; b.primitive(name) != nil {
		return name
	}
	return ""
}

// takesWords reports whether there are primitives for all functions of an expression.
func (b *compilerOf[T]) takesWords(e *expression, t ir.DType) bool {
	if e.function == "" {
		return true
	}
	if wordDefinitions[e.function] == nil && b.wordPrimitive(e.function, t) == "" {
		return false
	}
	return !slices.ContainsFunc(e.operands, func(o *expression) bool { return !b.takesWords(o, t) })
}

// asFloat returns value v, of dtype t, as a float.
func (b *compilerOf[T]) asFloat(v int, t ir.DType) int {
	switch {
	case !b.words[v]:
		return v
	case t == ir.U32 && !b.wide():
		return b.instruction(b.primitive(floatOfUnsigned), []int{v})
	}
	return b.instruction(b.primitive(floatOfWords), []int{v})
}

// asWord returns value v as a word. A float must be a bool: 1 or 0.
func (b *compilerOf[T]) asWord(v int) int {
	if b.words[v] {
		return v
	}
	if b.wide() {
		return b.wordInstruction(wordOfTruth, v)
	}
	return b.wordInstruction(wordOf[ir.I32], v)
}

// wordInstruction adds an instruction of the primitive with that name on values `in`, which returns a word, and returns
// the number of the result's value.
func (b *compilerOf[T]) wordInstruction(name string, in ...int) int {
	return b.word(b.instruction(b.primitive(name), in))
}

// word marks a value as a word, and returns it. The value is never a constant, because at least one operand of its
// instruction is not.
func (b *compilerOf[T]) word(v int) int {
	b.words[v] = true
	return v
}

// compileWhere compiles op where, of words or floats.
func (b *compilerOf[T]) compileWhere(n *ir.Node, args []int) int {
	form := "?:"
	if b.words[args[0]] {
		form = "?: words"
	}
	if !b.isWord(n.DType()) {
		return b.instruction(b.primitive(form), args)
	}
	return b.wordInstruction(form, args[0], b.asWord(args[1]), b.asWord(args[2]))
}

// compileCast compiles a cast of value v, of node n, to or from words, and returns the result's value.
func (b *compilerOf[T]) compileCast(n *ir.Node, v int) int {
	from, to := n.Arg(0).DType(), n.DType()
	switch {
	case !b.words[v] && from != ir.Bool: // a float, or an i64 read as a float
		return b.saturated(v, to)
	case !b.isWord(to):
		switch twice := b.wide() && to != ir.F64 || !b.wide() && roundsTwice(to); {
		case !twice || from.BlockBytes() < b.wordBytes(): // the float is the result, or it is exact
			v = b.asFloat(v, from)
		case from == ir.U32 && !b.wide():
			v = b.instruction(b.primitive(oddOfUnsigned), []int{v})
		default: // rounding to odd keeps the next rounding, to fewer bits, exact
			v = b.instruction(b.primitive(oddOfWords), []int{v})
		}
		if name, ok := b.rounding(to); ok {
			v = b.instruction(b.primitive(name), []int{v})
		}
		return v
	}
	v = b.asWord(v)
	switch {
	case from == ir.Bool || to.BlockBytes() == b.wordBytes():
		return v
	case to == ir.Bool:
		return b.not(b.not(v)) // 0 or 1
	}
	return b.wordInstruction(wrapTo[to], v)
}

// saturated returns the integer part of float v as a word, limited to the range of dtype t.
func (b *compilerOf[T]) saturated(v int, t ir.DType) int {
	if t == ir.Bool || t.BlockBytes() >= 4 {
		return b.wordInstruction(wordOf[t], v)
	}
	lo, hi := ir.IntRange(t)
	v = b.wordInstruction("max words", b.wordInstruction(wordOf[ir.I32], v), b.wordConstant(lo))
	return b.wordInstruction("min words", v, b.wordConstant(hi))
}

// not returns the negation of a bool that is a word.
func (b *compilerOf[T]) not(v int) int { return b.wordInstruction("== words", v, b.constant(0)) }

// compileWords compiles a node whose arguments are integers or bools. args are their values.
func (b *compilerOf[T]) compileWords(n *ir.Node, args []int) int {
	t := n.Arg(0).DType()
	for i, v := range args {
		args[i] = b.asWord(v)
	}
	forms := n.Op().Info().Form(n.Attrs(), func(arg int) (float64, bool) { return n.Arg(arg).Number() })
	form := cmp.Or(forms.Int, forms.Float)
	switch {
	case t == ir.Bool:
		form = cmp.Or(forms.Bool, form)
	case t == ir.U32 && !b.wide():
		form = cmp.Or(forms.Uint, form)
	}
	e, err := parse(form)
	if err != nil || !b.takesWords(e, t) {
		return b.word(b.instruction(wordReference[T](n), args))
	}
	v := b.wordExpression(e, args, n)
	if t != ir.Bool && n.DType() != ir.Bool && t.BlockBytes() < b.wordBytes() { // results wrap at the bits of t
		v = b.wordInstruction(wrapTo[t], v)
	}
	return v
}

// wordBytes returns the size of a word.
func (b *compilerOf[T]) wordBytes() int { return int(unsafe.Sizeof(T(0))) }

// wordExpression compiles an expression of words. args are the values of the arguments of node n.
func (b *compilerOf[T]) wordExpression(e *expression, args []int, n *ir.Node) int {
	switch {
	case e.number != nil:
		return b.wordConstant(int64(*e.number))
	case e.attribute != "":
		return b.wordConstant(ir.FloatToInt(n.Attrs().Float(e.attribute), n.DType()))
	case e.function == "":
		return args[e.argument]
	}
	in := make([]int, len(e.operands))
	for i, o := range e.operands {
		in[i] = b.wordExpression(o, args, n)
	}
	if d := wordDefinitions[e.function]; d != nil {
		return b.wordExpression(d, in, n)
	}
	return b.wordInstruction(b.wordPrimitive(e.function, n.Arg(0).DType()), in...)
}

// wordConstant compiles the constant word x, and returns the number of its value.
func (b *compilerOf[T]) wordConstant(x int64) int { return b.constant(bitsAs[T](x)) }

// wordReference returns a primitive that calls the scalar reference of a node's op on words.
func wordReference[T number](n *ir.Node) *primitiveOf[T] {
	f, t, attrs, args := n.Op().Info().Int, n.DType(), n.Attrs(), len(n.Args())
	unsigned := make([]bool, args)
	for i, a := range n.Args() {
		unsigned[i] = a.DType() == ir.U32
	}
	return &primitiveOf[T]{work: 64, plain: func(out, x, y, z []T) {
		list := [...][]T{x, y, z}
		values := make([]int64, args)
		for i := range out {
			for k := range values {
				switch list := any(list[k]).(type) {
				case []float64:
					values[k] = long(list[i])
				case []float32:
					if values[k] = int64(word(list[i])); unsigned[k] {
						values[k] &= math.MaxUint32
					}
				}
			}
			result := ir.Wrap(f(values, attrs), t)
			switch out := any(out).(type) {
			case []float64:
				out[i] = bitsOfLong(result)
			case []float32:
				out[i] = bitsOfWord(int32(result))
			}
		}
	}}
}
