package glsl

import (
	"slices"
	"sync"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/lib"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/ir"
)

// charsPerUnit is the number of characters of GLSL, without blanks, that become about 100 bytes of SPIR-V. In
// measurements of 22 ops it is 4 to 22, and 9 for most.
const charsPerUnit = 9

// weights caches the results of Weigh, by op and type of arithmetic.
var weights sync.Map

// weighed is the key of weights.
type weighed struct {
	op  ir.Op
	typ string
}

// Weigh estimates the size of an elementwise op of a dtype in optimized SPIR-V, in units of about 100 bytes. It counts
// the op's GLSL and every function that it calls, because the optimizer inlines them.
func Weigh(op ir.Op, t ir.DType) int {
	typ := emit.Scalars[t].Compute
	key := weighed{op, typ}
	if w, ok := weights.Load(key); ok {
		return w.(int)
	}
	form := op.Info().GLSL.Float
	switch {
	case op.Info().Custom != nil: // it has one of the two
		form = op.Info().Custom.Expr + op.Info().Custom.Body
	case t.Kind() == ir.KindInt:
		form = op.Info().GLSL.Int
	case t.Kind() == ir.KindUint:
		form = op.Info().GLSL.Uint
	case t.Kind() == ir.KindBool && op.Info().GLSL.Bool != "":
		form = op.Info().GLSL.Bool
	}
	w := 1 + textWeight(form, typ, nil)/charsPerUnit
	weights.Store(key, w)
	return w
}

// textWeight returns the length of a GLSL source without blanks and comments. For each call of a library function it
// adds textWeight of that function, for type typ. inside lists the functions that contain this source. They are
// not counted again: log_accurate calls log, for which shaders call log_accurate.
func textWeight(text, typ string, inside []string) int {
	called := 0
	size := syntax.Weight(text, func(name string) {
		name = emit.Spelled(name, typ)
		if h, _ := lib.Find(name, typ); h != nil && !slices.Contains(inside, name) {
			called += textWeight(h.Source, typ, append(inside, name))
		}
	})
	return size + called
}
