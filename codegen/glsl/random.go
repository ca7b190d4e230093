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
