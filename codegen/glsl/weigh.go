package glsl

import (
	"slices"
	"sync"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/ir"
)

// weighPerUnit is how many characters, blanks left out, become 100 bytes of SPIR-V.
// Measured for 22 ops it is 4 to 22, and 9 for most.
const weighPerUnit = 9

// weights holds what Weigh has found, by op and kind of arithmetic.
var weights sync.Map

type weighed struct {
	op   ir.Op
	kind ir.Kind
}

// Weigh says what an elementwise op of a dtype takes in optimized SPIR-V, in
// units of about 100 bytes: the text of its scalar form and of all functions
// that this calls, which the optimizer writes out wherever they are called.
func Weigh(op ir.Op, t ir.DType) int {
	key := weighed{op, t.Kind()}
	if w, ok := weights.Load(key); ok {
		return w.(int)
	}
	form := op.Info().GLSL.Float
	switch {
	case op.Info().Custom != nil:
		form = op.Info().Custom.Expr + op.Info().Custom.Body
	case t.Kind() == ir.KindInt:
		form = op.Info().GLSL.Int
	case t.Kind() == ir.KindUint:
		form = op.Info().GLSL.Uint
	case t.Kind() == ir.KindBool && op.Info().GLSL.Bool != "":
		form = op.Info().GLSL.Bool
	}
	w := 1 + textWeight(form, nil)/weighPerUnit
	weights.Store(key, w)
	return w
}

// textWeight is the length of a text without blanks and comments, each library
// function that it calls counted as often as it calls it. inside are the names of
// the functions that it is part of.
func textWeight(text string, inside []string) int {
	called := 0
	size := syntax.Weight(text, func(name string) {
		if other, ok := instead[name]; ok {
			name = other
		}
		for _, h := range library {
			if h.name == name && !slices.Contains(inside, name) {
				called += textWeight(h.source, append(inside, name))
				break
			}
		}
	})
	return size + called
}
