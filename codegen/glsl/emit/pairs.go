package emit

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
)

// On devices without 64-bit integers, an i64 is a pair of 32-bit words, low word first, as in memory. Functions of
// pairs replace the integer operators and functions in the templates of ops.

// Pair is the compute type of i64 on such devices.
const Pair = "uvec2"

// pairScalar is the row of i64 in Scalars on such devices. There are no vectors of pairs.
var pairScalar = scalar{Compute: Pair, Storage: Pair, Carrier: Pair, vec: Pair, storageVec: Pair}

// wordwise are the operators that work on pairs word by word.
var wordwise = []string{"&", "|", "^", "~", "==", "!="}

// pairOperators has the functions that replace operators on pairs.
var pairOperators = map[string]string{"+": "pair_add", "-": "pair_subtract", "*": "pair_multiply", "<": "pair_less"}

// pairBuiltins has the functions that replace GLSL's functions, which would treat the words separately.
var pairBuiltins = map[string]string{"min": "pair_min", "max": "pair_max", "abs": "pair_abs", "sign": "pair_sign"}

// pairOperator applies an operator to pairs.
func (ts *Types) pairOperator(op string, args ...expr.Expr) expr.Expr {
	name := pairOperators[op]
	switch {
	case op == "-" && len(args) == 1:
		name = "pair_negate"
	case op == ">":
		return ts.pairOperator("<", args[1], args[0])
	case op == ">=":
		return expr.Unary("!", ts.pairOperator("<", args...))
	case op == "<=":
		return expr.Unary("!", ts.pairOperator(">", args...))
	case slices.Contains(wordwise, op):
		return operator(op, args...)
	case name == "":
		ts.Fail("pairs of words have no operator %s", op)
		return args[0]
	}
	ts.Helper(name, Pair)
	return expr.Call(name, args...)
}

// Operate applies an operator to two values of a compute type.
func (ts *Types) Operate(typ, op string, a, b expr.Expr) expr.Expr {
	if typ == Pair {
		return ts.pairOperator(op, a, b)
	}
	return expr.Binary(op, a, b)
}

// pairLit returns a constant as a pair.
func pairLit(n int64) expr.Expr {
	return expr.Call(Pair, expr.Uint(n&0xffffffff), expr.Uint(n>>32&0xffffffff))
}

// fromPair converts a pair to another compute type. Integers get the low word.
func (ts *Types) fromPair(to string, v expr.Expr) expr.Expr {
	low := expr.Member(v, "x")
	switch to {
	case "uint":
		return low
	case "int":
		return expr.Call("int", low)
	case "float", "double":
		ts.Helper("pair_to_"+to, Pair)
		return expr.Call("pair_to_"+to, v)
	}
	ts.Fail("no conversion of %s to %s", Pair, to)
	return v
}

// toPair converts a value of another compute type to a pair.
func (ts *Types) toPair(from string, v expr.Expr) expr.Expr {
	switch from {
	case "int":
		ts.Helper("int_to_pair", Pair)
		return expr.Call("int_to_pair", v)
	case "uint":
		return expr.Call(Pair, v, expr.Uint(0))
	case "bool":
		return expr.Call(Pair, expr.Call("uint", v), expr.Uint(0))
	}
	ts.Fail("no conversion of %s to %s", from, Pair)
	return v
}
