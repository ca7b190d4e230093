package glsl

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

// text is an expression. Its type is known if it is int64_t, the type of 64-bit positions: GLSL never converts it to a
// uint implicitly.
type text = *syntax.Expr

// wide is the type of 64-bit positions.
const wide = "int64_t"

func isWide(t text) bool { return t != nil && t.Type == wide }

// ofType returns the expression with that type.
func ofType(typ string, t text) text {
	if t.Type == typ {
		return t
	}
	x := *t
	x.Type = typ
	return &x
}

// primary parses an expression such as a name. It returns nil for an empty string.
func primary(s string) text {
	if s == "" {
		return nil
	}
	x, err := syntax.Expression(s)
	if err != nil {
		return syntax.Ident(s) // the statement that uses it reports the error
	}
	return x
}

// elementAt is an element of an array or vector, or nil if there is no array.
func elementAt(array, i text) text {
	if array == nil {
		return nil
	}
	return &syntax.Expr{Op: syntax.Index, Args: []text{array, i}}
}

// member is a component of a vector.
func member(t text, name string) text {
	return &syntax.Expr{Op: syntax.Member, Text: name, Args: []text{t}}
}

// narrow converts an expression that fits to a uint.
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

// binary joins two operands, or folds them. All binary operators group from the left.
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

// and joins conditions. nil stands for a condition that always holds.
func and(conds ...text) text {
	var all text
	for _, c := range conds {
		if c != nil {
			all = joined("&&", all, c)
		}
	}
	return all
}

// joined is binary for a left operand that may be nil.
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

// intLit prints an int. The smallest int has no literal of its own.
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

// finiteLit prints a finite float that parses to the same bits at that size. suffix is "" or, for double, "lf".
func finiteLit(v float64, bits int, suffix string) text {
	s := strconv.FormatFloat(v, 'g', -1, bits)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return numberLit(s + suffix)
}

// elementOf prints element i of an array of count elements. An array of one element is a plain variable.
func elementOf(array text, count int, i text) text {
	if count == 1 {
		return array
	}
	return elementAt(array, i)
}

func plus(a, b text) text { return binary("+", a, b) }

func times(a text, n int) text { return binary("*", a, uintLit(n)) }

// quotient and remainder print x/n and x%n. x is less than limit.
func quotient(x text, n, limit int) text {
	switch {
	case n == 1:
		return x
	case n >= limit:
		return primary("0u")
	}
	return binary("/", x, uintLit(n))
}

func remainder(x text, n, limit int) text {
	switch {
	case n == 1:
		return primary("0u")
	case n >= limit:
		return x
	}
	return binary("%", x, uintLit(n))
}
