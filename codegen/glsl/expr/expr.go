// Package expr builds GLSL expressions. Its constructors fold constants, so that no shader leaves the arithmetic to its
// reader.
package expr

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

// Expr is an expression. Its type is known if it is int64_t, the type of 64-bit positions: GLSL never converts it to a
// uint implicitly.
type Expr = *syntax.Expr

// Wide is the type of 64-bit positions.
const Wide = "int64_t"

// IsWide reports whether an expression has the type of 64-bit positions.
func IsWide(t Expr) bool { return t != nil && t.Type == Wide }

// OfType returns the expression with that type.
func OfType(typ string, t Expr) Expr {
	if t.Type == typ {
		return t
	}
	x := *t
	x.Type = typ
	return &x
}

// Of parses an expression such as a name. It returns nil for an empty string.
func Of(s string) Expr {
	if s == "" {
		return nil
	}
	x, err := syntax.Expression(s)
	if err != nil {
		return syntax.Ident(s) // the statement that uses it reports the error
	}
	return x
}

// At is an element of an array or vector, or nil if there is no array.
func At(array, i Expr) Expr {
	if array == nil {
		return nil
	}
	return &syntax.Expr{Op: syntax.Index, Args: []Expr{array, i}}
}

// Member is a component of a vector.
func Member(t Expr, name string) Expr {
	return &syntax.Expr{Op: syntax.Member, Text: name, Args: []Expr{t}}
}

// Narrow converts an expression that fits to a uint.
func Narrow(t Expr) Expr {
	if IsWide(t) {
		return Call("uint", t)
	}
	return t
}

// IsPlain reports whether repeating an expression costs nothing: a name, a literal.
func IsPlain(t Expr) bool {
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

// IsNumber reports whether an expression is a literal, infinity or NaN.
func IsNumber(t Expr) bool {
	if t.Op == syntax.Unary && t.Text == "-" {
		t = t.Args[0]
	}
	return t.Op == syntax.Number || t.Is("INF") || t.Is("NAN")
}

// Binary joins two operands, or folds them. All binary operators group from the left.
func Binary(op string, a, b Expr) Expr {
	typ := ""
	if IsWide(a) || IsWide(b) {
		typ = Wide
	}
	if t, ok := Folded(op, a, b); ok {
		return OfType(typ, t)
	}
	return &syntax.Expr{Op: syntax.Binary, Text: op, Type: typ, Args: []Expr{a, b}}
}

// Unary applies -, ! or ~.
func Unary(op string, a Expr) Expr {
	if n, ok := LiteralOf(a); ok && op == "~" && n.suffix == "u" {
		return Of(fmt.Sprintf("0x%xu", ^uint32(n.V)))
	}
	if op == "-" {
		return syntax.Negative(a)
	}
	return &syntax.Expr{Op: syntax.Unary, Text: op, Args: []Expr{a}}
}

// Call applies a function or constructor.
func Call(name string, args ...Expr) Expr {
	if t, ok := foldCall(name, args); ok {
		return t
	}
	return syntax.Calling(name, args...)
}

// Choose selects between two values.
func Choose(cond, a, b Expr) Expr {
	switch {
	case cond.Is("true") || syntax.Equal(a, b):
		return a
	case cond.Is("false"):
		return b
	}
	return &syntax.Expr{Op: syntax.Ternary, Args: []Expr{cond, a, b}}
}

// And joins conditions. nil stands for a condition that always holds.
func And(conds ...Expr) Expr {
	var all Expr
	for _, c := range conds {
		if c != nil {
			all = Join("&&", all, c)
		}
	}
	return all
}

// Join is binary for a left operand that may be nil.
func Join(op string, a, b Expr) Expr {
	if a == nil {
		return b
	}
	return Binary(op, a, b)
}

// Number is a literal.
func Number(s string) Expr { return &syntax.Expr{Op: syntax.Number, Text: s} }

// Uint is an unsigned literal.
func Uint[N int | int64 | uint32](n N) Expr {
	return Number(strconv.FormatInt(int64(n), 10) + "u")
}

// Int prints an int. The smallest int has no literal of its own.
func Int(n int64) Expr {
	if n == math.MinInt32 {
		return Of("-2147483647 - 1")
	}
	return Number(strconv.FormatInt(n, 10))
}

// Int64 is a 64-bit literal.
func Int64(n int64) Expr {
	if n == math.MinInt64 {
		return Of("-9223372036854775807L - 1L")
	}
	return Number(strconv.FormatInt(n, 10) + "L")
}

// Float prints a finite float that parses to the same bits at that size. suffix is "" or, for double, "lf".
func Float(v float64, bits int, suffix string) Expr {
	s := strconv.FormatFloat(v, 'g', -1, bits)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return Number(s + suffix)
}

// Array is a variable of Len elements. An array of one element is a plain variable.
type Array struct {
	Name Expr
	Len  int
}

// Variable is the array that has only a variable.
func Variable(name Expr) Array { return Array{name, 1} }

// At is element i, or nil if there is no array.
func (a Array) At(i Expr) Expr {
	if a.Len == 1 {
		return a.Name
	}
	return At(a.Name, i)
}

// Plus is a + b.
func Plus(a, b Expr) Expr { return Binary("+", a, b) }

// Times is a * n.
func Times(a Expr, n int) Expr { return Binary("*", a, Uint(n)) }

// Quotient and remainder print x/n and x%n. x is less than limit.
func Quotient(x Expr, n, limit int) Expr {
	switch {
	case n == 1:
		return x
	case n >= limit:
		return Of("0u")
	}
	return Binary("/", x, Uint(n))
}

// Remainder prints x % n. x is less than limit.
func Remainder(x Expr, n, limit int) Expr {
	switch {
	case n == 1:
		return Of("0u")
	case n >= limit:
		return x
	}
	return Binary("%", x, Uint(n))
}
