package glsl

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

// text is an expression. Its type is known where that is int64_t, as that of a position of 64 bits: GLSL never makes a
// uint of it by itself.
type text = *syntax.Expr

// wide is the type of positions of 64 bits.
const wide = "int64_t"

func isWide(t text) bool { return t != nil && t.Type == wide }

// ofType is an expression of that type.
func ofType(typ string, t text) text {
	if t.Type == typ {
		return t
	}
	x := *t
	x.Type = typ
	return &x
}

// primary reads an expression, such as a name; nil if there is none.
func primary(s string) text {
	if s == "" {
		return nil
	}
	x, err := syntax.Expression(s)
	if err != nil {
		return syntax.Ident(s) // the statement that it gets into cannot be read
	}
	return x
}

// elementAt is an element of an array or vector, if there is one.
func elementAt(array string, i text) text {
	if array == "" {
		return nil
	}
	return &syntax.Expr{Op: syntax.Index, Args: []text{primary(array), i}}
}

// member is a part of a vector.
func member(t text, name string) text {
	return &syntax.Expr{Op: syntax.Member, Text: name, Args: []text{t}}
}

// narrow returns an expression as a uint, which holds it.
func narrow(t text) text {
	if isWide(t) {
		return call("uint", t)
	}
	return t
}

// isPlain reports whether repeating an expression costs nothing: a name, a literal.
func isPlain(t text) bool {
	if t == nil {
		return false
	}
	switch t.Op {
	case syntax.Name, syntax.Number:
		return true
	case syntax.Unary:
		return t.Args[0].Op == syntax.Name
	}
	return false
}

// isNumber reports whether an expression is a literal, infinity or NaN.
func isNumber(t text) bool {
	if t.Op == syntax.Unary && t.Text == "-" {
		t = t.Args[0]
	}
	return t.Op == syntax.Number || t.Is("INF") || t.Is("NAN")
}

// binary joins two operands, or does what it can of it; all binary operators group
// from the left.
func binary(op string, a, b text) text {
	typ := ""
	if isWide(a) || isWide(b) {
		typ = wide
	}
	if t, ok := folded(op, a, b); ok {
		return ofType(typ, t)
	}
	return &syntax.Expr{Op: syntax.Binary, Text: op, Type: typ, Args: []text{a, b}}
}

// unary applies -, ! or ~.
func unary(op string, a text) text {
	if n, ok := literalOf(a); ok && op == "~" && n.suffix == "u" {
		return primary(fmt.Sprintf("0x%xu", ^uint32(n.v)))
	}
	if op == "-" {
		return syntax.Negative(a)
	}
	return &syntax.Expr{Op: syntax.Unary, Text: op, Args: []text{a}}
}

// call applies a function or constructor.
func call(name string, args ...text) text {
	if t, ok := foldCall(name, args); ok {
		return t
	}
	return syntax.Calling(name, args...)
}

// ternary selects between two values.
func ternary(cond, a, b text) text {
	switch {
	case cond.Is("true") || syntax.Equal(a, b):
		return a
	case cond.Is("false"):
		return b
	}
	return &syntax.Expr{Op: syntax.Ternary, Args: []text{cond, a, b}}
}

// and joins the conditions that there are; nil stands for one that always holds.
func and(conds ...text) text {
	var all text
	for _, c := range conds {
		if c != nil {
			all = joined("&&", all, c)
		}
	}
	return all
}

// joined is binary for an operand that may not be there yet.
func joined(op string, a, b text) text {
	if a == nil {
		return b
	}
	return binary(op, a, b)
}

// numberLit is a literal.
func numberLit(s string) text { return &syntax.Expr{Op: syntax.Number, Text: s} }

func uintLit[N int | int64 | uint32](n N) text {
	return numberLit(strconv.FormatInt(int64(n), 10) + "u")
}

// intLit spells an int; the smallest has no literal of its own.
func intLit(n int64) text {
	if n == math.MinInt32 {
		return primary("-2147483647 - 1")
	}
	return numberLit(strconv.FormatInt(n, 10))
}

func int64Lit(n int64) text {
	if n == math.MinInt64 {
		return primary("-9223372036854775807L - 1L")
	}
	return numberLit(strconv.FormatInt(n, 10) + "L")
}

// finiteLit spells a finite float so that it reads back to the same bits of
// that size; suffix is "" or, for double, "lf".
func finiteLit(v float64, bits int, suffix string) text {
	s := strconv.FormatFloat(v, 'g', -1, bits)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return numberLit(s + suffix)
}
