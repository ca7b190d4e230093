// Package expr builds GLSL expressions. Its constructors compute with constants, so that shaders are easier to read.
package expr

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

// Expr is a GLSL expression. Its Type is set only for int64_t, the type of 64-bit positions, because GLSL does not
// convert int64_t to uint implicitly.
type Expr = *syntax.Expr

// Wide is the type of 64-bit positions.
const Wide = "int64_t"

// IsWide reports whether an expression has the type of 64-bit positions.
func IsWide(t Expr) bool { return t != nil && t.Type == Wide }

// OfType returns t with typ as its type. It copies t if the type changes, because other expressions may contain t.
func OfType(typ string, t Expr) Expr {
	if t.Type == typ {
		return t
	}
	x := *t
	x.Type = typ
	return &x
}

// Of parses an expression, such as a name. It returns nil for an empty string.
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

// Format parses a formula that is written as a format of package fmt. Expressions among args become parts of it.
func Format(format string, args ...any) Expr {
	x, err := syntax.FormatExpression(format, args...)
	if err != nil {
		return syntax.Ident(fmt.Sprintf(format, args...)) // the statement that uses it reports the error
	}
	return x
}

// At returns element i of an array or vector, or nil if array is nil.
func At(array, i Expr) Expr {
	if array == nil {
		return nil
	}
	return &syntax.Expr{Op: syntax.Index, Args: []Expr{array, i}}
}

// Member returns a component of a vector, such as t.x.
func Member(t Expr, name string) Expr {
	return &syntax.Expr{Op: syntax.Member, Text: name, Args: []Expr{t}}
}

// Narrow converts an expression of 64 bits to a uint. The value must fit. It returns other expressions unchanged.
func Narrow(t Expr) Expr {
	if IsWide(t) {
		return Call("uint", t)
	}
	return t
}

// IsPlain reports whether it costs nothing to repeat an expression: it is a name or a literal.
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

// Binary returns a op b, or the result if it is known. Binary operators of equal precedence group from the left.
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

// Unary applies -, ! or ~ to an expression.
func Unary(op string, a Expr) Expr {
	if n, ok := LiteralOf(a); ok && op == "~" && n.suffix == "u" {
		return Of(fmt.Sprintf("0x%xu", ^uint32(n.V)))
	}
	if op == "-" {
		return syntax.Negative(a)
	}
	return &syntax.Expr{Op: syntax.Unary, Text: op, Args: []Expr{a}}
}

// Call returns a call of a function or constructor.
func Call(name string, args ...Expr) Expr {
	if t, ok := foldCall(name, args); ok {
		return t
	}
	return syntax.Calling(name, args...)
}

// Choose returns cond ? a : b.
func Choose(cond, a, b Expr) Expr {
	switch {
	case cond.Is("true") || syntax.Equal(a, b):
		return a
	case cond.Is("false"):
		return b
	}
	return &syntax.Expr{Op: syntax.Ternary, Args: []Expr{cond, a, b}}
}

// And returns the conjunction of conditions. nil is a condition that always holds.
func And(conds ...Expr) Expr {
	var all Expr
	for _, c := range conds {
		if c != nil {
			all = Join("&&", all, c)
		}
	}
	return all
}

// Join returns a op b, or b if a is nil. So a loop that builds a sum can begin with nil.
func Join(op string, a, b Expr) Expr {
	if a == nil {
		return b
	}
	return Binary(op, a, b)
}

// Number returns a literal with this spelling.
func Number(s string) Expr { return &syntax.Expr{Op: syntax.Number, Text: s} }

// Uint returns an unsigned literal.
func Uint[N int | int64 | uint32](n N) Expr { return Number(strconv.FormatInt(int64(n), 10) + "u") }

// Int returns an int literal. The smallest int has no literal, so it is a difference.
func Int(n int64) Expr {
	if n == math.MinInt32 {
		return Of("-2147483647 - 1")
	}
	return Number(strconv.FormatInt(n, 10))
}

// Int64 returns a 64-bit literal.
func Int64(n int64) Expr {
	if n == math.MinInt64 {
		return Of("-9223372036854775807L - 1L")
	}
	return Number(strconv.FormatInt(n, 10) + "L")
}

// Float returns a literal of a finite float. Parsed as a float of the given bits, it has the same value. suffix is "",
// or "lf" for a double.
func Float(v float64, bits int, suffix string) Expr {
	s := strconv.FormatFloat(v, 'g', -1, bits)
	// GLSL would take it for an integer.
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return Number(s + suffix)
}

// Array is a GLSL array of Len elements. With one element it is a plain variable.
type Array struct {
	Name Expr
	Len  int
}

// Variable returns a variable as an Array of one element.
func Variable(name Expr) Array { return Array{name, 1} }

// At returns element i, or nil if there is no array.
func (a Array) At(i Expr) Expr {
	if a.Len == 1 {
		return a.Name
	}
	return At(a.Name, i)
}

// Plus returns a sum.
func Plus(first Expr, more ...Expr) Expr {
	for _, x := range more {
		first = Binary("+", first, x)
	}
	return first
}

// Flat returns i*n + j: the number of element j of row i if rows have n elements.
func Flat(i Expr, n int, j Expr) Expr { return Plus(Times(i, n), j) }

// Times returns a * n.
func Times(a Expr, n int) Expr { return Binary("*", a, Uint(n)) }

// Quotient returns x / n, given that x is less than limit.
func Quotient(x Expr, n, limit int) Expr {
	switch {
	case n == 1:
		return x
	case n >= limit:
		return Of("0u")
	}
	return Binary("/", x, Uint(n))
}

// Remainder returns x % n, given that x is less than limit.
func Remainder(x Expr, n, limit int) Expr {
	switch {
	case n == 1:
		return Of("0u")
	case n >= limit:
		return x
	}
	return Binary("%", x, Uint(n))
}
