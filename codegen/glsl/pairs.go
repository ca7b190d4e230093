package glsl

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// On devices without 64-bit integers, i64 is a pair of words, low word first, as in memory. Functions of pairs replace
// the integer operators and functions of an op's row.

// pair is the compute type of i64 on such devices.
const pair = "uvec2"

// pairScalar is the row of i64 on such devices. Pairs have no vectors.
var pairScalar = scalar{compute: pair, storage: pair, carrier: pair, vec: pair, storageVec: pair}

// pairs reports whether i64 is computed in pairs. Custom kernels bring their own shader and needs.
func (e *emitter) pairs() bool { return !e.caps.Features.Int64 && e.k.Custom == nil }

func (e *emitter) inPairs(b *buffer) bool { return b.DType == ir.I64 && e.pairs() }

// wordwise are the operators that also work on vectors of words.
var wordwise = []string{"&", "|", "^", "~", "==", "!="}

// pairOperators are the functions that replace operators.
var pairOperators = map[string]string{"+": "pair_add", "-": "pair_subtract", "*": "pair_multiply", "<": "pair_less"}

// pairBuiltins are the functions that replace GLSL's, which would treat the words one by one.
var pairBuiltins = map[string]string{"min": "pair_min", "max": "pair_max", "abs": "pair_abs", "sign": "pair_sign"}

// pairOperator applies an operator to pairs.
func (e *emitter) pairOperator(op string, args ...text) text {
	name := pairOperators[op]
	switch {
	case op == "-" && len(args) == 1:
		name = "pair_negate"
	case op == ">":
		return e.pairOperator("<", args[1], args[0])
	case op == ">=":
		return unary("!", e.pairOperator("<", args...))
	case op == "<=":
		return unary("!", e.pairOperator(">", args...))
	case slices.Contains(wordwise, op):
		return operator(op, args...)
	case name == "":
		e.fail("pairs of words have no operator %s", op)
		return args[0]
	}
	e.helper(name, pair)
	return call(name, args...)
}

// operate applies an operator to two values of a compute type.
func (e *emitter) operate(typ, op string, a, b text) text {
	if typ == pair {
		return e.pairOperator(op, a, b)
	}
	return binary(op, a, b)
}

// pairNumber prints a number of a form.
func pairNumber(s string) text {
	n, _ := literalOf(primary(s))
	return pairLit(n.v)
}

// pairLit prints a constant.
func pairLit(n int64) text {
	return call(pair, uintLit(n&0xffffffff), uintLit(n>>32&0xffffffff))
}

// coercePair converts to or from a pair, like a constructor between other types.
func (e *emitter) coercePair(from, to string, v text) text {
	low := member(v, "x")
	switch {
	case to == "uint":
		return low
	case to == "int":
		return call("int", low)
	case to == "float" || to == "double":
		e.helper("pair_to_"+to, pair)
		return call("pair_to_"+to, v)
	case from == "int":
		e.helper("int_to_pair", pair)
		return call("int_to_pair", v)
	case from == "uint":
		return call(pair, v, uintLit(0))
	case from == "bool":
		return call(pair, call("uint", v), uintLit(0))
	}
	e.fail("no conversion of %s to %s", from, to)
	return v
}
