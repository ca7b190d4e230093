package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Random numbers are counted, not drawn: each word depends only on seed, offset and element. A block of four words
// costs as much as one word. So four neighbours from a multiple of four on share a block.

// random prints a word of a random stream.
func (e *emitter) random(v *kernel.Expr, home *scope) text {
	if words := e.vector(v); words != nil {
		return elementAt(words, pairWord(v.Word, lane))
	}
	e.helper("random_word", "uint")
	element := pairWord(v.Word, narrow(e.indexValue(v.Index)))
	return call("random_word", e.key(v.Args[0], home), e.key(v.Args[1], home), element)
}

// pairWord is the element with the wanted word.
func pairWord(w kernel.Word, element text) text {
	switch w {
	case kernel.WordFirst:
		return binary("&", element, primary("0xfffffffeu"))
	case kernel.WordSecond:
		return binary("|", element, uintLit(1))
	}
	return element
}

// key prints a seed or offset as its two halves.
func (e *emitter) key(v *kernel.Expr, home *scope) text {
	t := e.valueFor(v, home)
	if v.DType == ir.I64 && e.pairs() {
		return t
	}
	if v.DType == ir.I64 {
		e.helper("halves_of_i64", "int64_t")
		return call("halves_of_i64", t)
	}
	return call("uvec2", t, uintLit(0))
}

// loadWords computes the words of four neighbours, once for all expressions that pick from them, and returns their
// variable.
func (e *emitter) loadWords(r run, v *kernel.Expr, have map[*kernel.Expr]text) text {
	for o, name := range have {
		if o.Kind == kernel.ExprRandom && o.Args[0] == v.Args[0] && o.Args[1] == v.Args[1] && o.Index.Equal(v.Index) {
			return name
		}
	}
	e.helper("random_block", "uint")
	seed, offset := e.key(v.Args[0], e.scope), e.key(v.Args[1], e.scope)
	return e.variable("uvec4", fmt.Sprintf("words%d", r.width),
		call("random_block", seed, offset, narrow(e.vectorIndex(r, v.Index))))
}

// randomLibrary computes the words of random streams.
var randomLibrary = []helper{
	{"halves_of_i64", []string{"int64_t"}, `
// The low and the high half of a number.
uvec2 halves_of_i64(int64_t x) {
    return uvec2(uint(x), uint(x >> 32));
}`},
	{"random_block", uintOnly, `
// Four random words: block offset + block of the stream of a seed, by
// Philox-4x32 with 10 rounds (Salmon et al. 2011).
uvec4 random_block(uvec2 seed, uvec2 offset, uint block) {
    uint carry, high, low, high2, low2;
    uvec4 words = uvec4(uaddCarry(offset.x, block, carry), 0u, 0u, 0u);
    words.y = offset.y + carry;
    for (int i = 0; i < 10; ++i) {
        umulExtended(0xd2511f53u, words.x, high, low);
        umulExtended(0xcd9e8d57u, words.z, high2, low2);
        words = uvec4(high2 ^ words.y ^ seed.x, low2, high ^ words.w ^ seed.y, low);
        seed += uvec2(0x9e3779b9u, 0xbb67ae85u);
    }
    return words;
}`},
	{"random_word", uintOnly, `
// The random word of one element.
uint random_word(uvec2 seed, uvec2 offset, uint element) {
    return random_block(seed, offset, element / 4u)[element % 4u];
}`},
}
