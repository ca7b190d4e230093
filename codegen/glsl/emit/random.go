package emit

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Random numbers have no state: each word depends only on seed, offset and element. A block of four words takes as long
// as one word. So four neighbours that begin at a multiple of four share one block.

// random returns a word of a random stream. The arguments of v are the stream's seed and offset, and its index is the
// element.
func (e *Emitter) random(v *kernel.Expr, target *scope) expr.Expr {
	if words := e.vector(v); words != nil {
		return expr.At(words, pairWord(v.Word, Lane))
	}
	e.Helper("random_word", "uint")
	element := pairWord(v.Word, expr.Narrow(e.IndexValue(v.Index)))
	return expr.Call("random_word", e.key(v.Args[0], target), e.key(v.Args[1], target), element)
}

// pairWord returns the number of the element with word w. This is the given element or, for WordFirst and WordSecond,
// the even or the odd element of its pair: elements 2i and 2i+1 are a pair.
func pairWord(w kernel.Word, element expr.Expr) expr.Expr {
	switch w {
	case kernel.WordFirst:
		return expr.Binary("&", element, expr.Of("0xfffffffeu"))
	case kernel.WordSecond:
		return expr.Binary("|", element, expr.Uint(1))
	}
	return element
}

// key returns a seed or offset as a uvec2 with its two halves.
func (e *Emitter) key(v *kernel.Expr, target *scope) expr.Expr {
	t := e.valueFor(v, target)
	if v.DType == ir.I64 && e.pairs() {
		return t
	}
	if v.DType == ir.I64 {
		e.Helper("halves_of_i64", "int64_t")
		return expr.Call("halves_of_i64", t)
	}
	return expr.Call("uvec2", t, expr.Uint(0))
}

// sharesRandomBlock reports whether four neighbouring elements along an axis are the four words of one block of random
// numbers, if the coordinate of the first one is a multiple of four. v is the random value.
func sharesRandomBlock(v *kernel.Expr, axis int) bool {
	seed, offset := v.Args[0], v.Args[1]
	return v.Index.Adjacent(axis, 4) && !seed.Uses(axis) && !offset.Uses(axis)
}

// loadWords returns a uvec4 variable with the random words of the four neighbouring elements that an invocation
// computes at once. have has the variables that are declared already, by expression. If one has the same seed, offset
// and elements, loadWords returns it instead of declaring another.
func (e *Emitter) loadWords(r Run, v *kernel.Expr, have map[*kernel.Expr]expr.Expr) expr.Expr {
	for o, name := range have {
		if o.Kind == kernel.ExprRandom && o.Args[0] == v.Args[0] && o.Args[1] == v.Args[1] && o.Index.Equal(v.Index) {
			return name
		}
	}
	e.Helper("random_block", "uint")
	seed, offset := e.key(v.Args[0], e.Scope), e.key(v.Args[1], e.Scope)
	return e.Variable("uvec4", fmt.Sprintf("words%d", r.Width),
		expr.Call("random_block", seed, offset, expr.Narrow(e.VectorIndex(r, v.Index))))
}
