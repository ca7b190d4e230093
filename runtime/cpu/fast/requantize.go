package fast

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Quantization of a number ends with five primitives: they round it, add a zero point, convert the sum to an integer,
// and limit that from below and above to 8 bits. One primitive does the same.

// roundedTo has the names of the primitives that round x, add y, and saturate the sum to a dtype, as a word.
var roundedTo = map[ir.DType]string{ir.I8: "rounded to i8", ir.U8: "rounded to u8"}

// addRoundedTo adds the primitives of roundedTo to table primitives.
func addRoundedTo() {
	for t, name := range roundedTo {
		p := &primitive{work: 8}
		round := primitives["roundEven"].plain
		p.plain = func(out, x, y, _ []float32) {
			for i := range out {
				var one [1]float32
				round(one[:], x[i:i+1], nil, nil)
				out[i] = bitsOfWord(int32(ir.FloatToInt(float64(one[0]+y[i]), t)))
			}
		}
		primitives[name] = p
	}
}

// shorten replaces instructions of a chain that end a quantization by one instruction of a primitive of roundedTo. No
// other instruction may use their intermediate results. result is the value of the chain.
func shorten(b *compiler, result int) {
	uses := b.readers(result)
	for i := 0; i < len(b.code); i++ {
		at := i
		// next goes past instruction number `at` if it applies a primitive to value v and another one. It returns that
		// other value and the result. ok is false if there is no such instruction, or if others use its result.
		next := func(name string, v int) (other, out int, ok bool) {
			if at == len(b.code) || b.code[at].primitiveOf != primitives[name] {
				return 0, 0, false
			}
			c := b.code[at]
			switch v {
			case c.in[0]:
				other = c.in[1]
			case c.in[1]:
				other = c.in[0]
			default:
				return 0, 0, false
			}
			at++
			return other, c.out, at == len(b.code) || uses[c.out] == 1
		}
		x := b.code[i].in[0]
		_, v, ok := next("roundEven", x)
		if !ok {
			continue
		}
		zero, sum, ok := next("+", v)
		if !ok {
			at, zero, sum = i+1, b.constant(0), v // without a zero point
		}
		_, v, ok = next(wordOf[ir.I32], sum)
		lo, w, okLo := next("max words", v)
		hi, out, okHi := next("min words", w)
		if !ok || !okLo || !okHi {
			continue
		}
		for t, name := range roundedTo {
			least, most := ir.IntRange(t)
			if holds(b, lo, least) && holds(b, hi, most) {
				c := instruction[float32]{primitiveOf: primitives[name], out: out, in: [3]int{x, zero, x}}
				b.code = slices.Replace(b.code, i, at, c)
			}
		}
	}
}

// holds reports whether value v is a constant, and the word n.
func holds(b *compiler, v int, n int64) bool {
	c := b.values[v].constant
	return c != nil && word(*c) == int32(n)
}
