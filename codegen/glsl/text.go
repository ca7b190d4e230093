package glsl

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// text is a piece of a GLSL expression and how tightly it binds, so that
// parentheses appear only where the grammar needs them. wide says that it is a
// position of 64 bits, an int64_t; GLSL never makes a uint of it by itself.
type text struct {
	s    string
	prec int
	wide bool
}

// Binding strengths, weakest first, as in the GLSL specification's table of
// operators.
const (
	precTernary = iota + 1
	precOrOr
	precAndAnd
	precOr
	precXor
	precAnd
	precEquality
	precRelation
	precShift
	precSum
	precProduct
	precUnary
	precPrimary
)

// binaryPrec gives the strength of each binary operator.
var binaryPrec = map[string]int{
	"||": precOrOr, "&&": precAndAnd, "|": precOr, "^": precXor, "&": precAnd,
	"==": precEquality, "!=": precEquality,
	"<": precRelation, ">": precRelation, "<=": precRelation, ">=": precRelation,
	"<<": precShift, ">>": precShift, "+": precSum, "-": precSum,
	"*": precProduct, "/": precProduct, "%": precProduct,
}

func primary(s string) text { return text{s: s, prec: precPrimary} }

// narrow returns the text as a uint, which holds it.
func (t text) narrow() text {
	if t.wide {
		return call("uint", t)
	}
	return t
}

// at returns the text for a place that needs at least the given strength.
func (t text) at(need int) string {
	if t.prec < need {
		return "(" + t.s + ")"
	}
	return t.s
}

// plain reports whether repeating the text costs nothing: a name, a literal.
func (t text) plain() bool {
	return t.prec >= precUnary && !strings.ContainsAny(t.s, "([. ") || isNumber(t.s)
}

func isNumber(s string) bool {
	s = strings.TrimRight(strings.TrimPrefix(s, "-"), "uLlf")
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// binary joins two operands, or does what it can of it; all binary operators group
// from the left.
func binary(op string, a, b text) text {
	wide := a.wide || b.wide
	if t, ok := folded(op, a, b); ok {
		t.wide = wide
		return t
	}
	p := binaryPrec[op]
	return text{a.at(p) + " " + op + " " + b.at(p+1), p, wide}
}

// unary applies -, ! or ~.
func unary(op string, a text) text {
	if n, ok := literalOf(a); ok && op == "~" && n.suffix == "u" {
		return primary(fmt.Sprintf("0x%xu", ^uint32(n.v)))
	}
	s := a.at(precUnary)
	if strings.HasPrefix(s, op) {
		s = "(" + s + ")"
	}
	return text{s: op + s, prec: precUnary}
}

// call applies a function or constructor.
func call(name string, args ...text) text {
	if t, ok := foldCall(name, args); ok {
		return t
	}
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = a.s
	}
	return primary(name + "(" + strings.Join(parts, ", ") + ")")
}

// ternary selects between two values.
func ternary(cond, a, b text) text {
	switch {
	case cond.s == "true" || a.s == b.s:
		return a
	case cond.s == "false":
		return b
	}
	return text{s: cond.at(precOrOr) + " ? " + a.at(precOrOr) + " : " + b.at(precTernary), prec: precTernary}
}

// and joins the conditions that there are; "" stands for one that always holds.
func and(conds ...text) text {
	var all text
	for _, c := range conds {
		if c.s != "" {
			all = joined("&&", all, c)
		}
	}
	return all
}

// joined is binary for an operand that may not be there yet.
func joined(op string, a, b text) text {
	if a.s == "" {
		return b
	}
	return binary(op, a, b)
}

// signed marks a text that begins with a minus as a unary expression.
func signed(s string) text {
	if strings.HasPrefix(s, "-") {
		return text{s: s, prec: precUnary}
	}
	return primary(s)
}

func uintLit[N int | int64 | uint32](n N) text { return primary(strconv.FormatInt(int64(n), 10) + "u") }

// intLit spells an int; the smallest has no literal of its own.
func intLit(n int64) text {
	if n == math.MinInt32 {
		return text{s: "-2147483647 - 1", prec: precSum}
	}
	return signed(strconv.FormatInt(n, 10))
}

func int64Lit(n int64) text {
	if n == math.MinInt64 {
		return text{s: "-9223372036854775807L - 1L", prec: precSum}
	}
	return signed(strconv.FormatInt(n, 10) + "L")
}

// finiteLit spells a finite float so that it reads back to the same bits of
// that size; suffix is "" or, for double, "lf".
func finiteLit(v float64, bits int, suffix string) text {
	s := strconv.FormatFloat(v, 'g', -1, bits)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return signed(s + suffix)
}
