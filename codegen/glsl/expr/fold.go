package expr

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

// Constructors of expressions fold operations on integer literals, and operands that change nothing, such as + 0. Of
// floats they fold only multiplication by 1 and operations on two literals, because anything else may round or change
// the sign of a zero.

// Literal is an integer literal: a number with its suffix, "", "u" or "L".
type Literal struct {
	V      int64
	suffix string
}

// LiteralOf returns the value of an integer literal of at most 32 bits, and false for other expressions.
func LiteralOf(t Expr) (n Literal, ok bool) {
	if t == nil || t.Op != syntax.Number {
		return n, false
	}
	s := t.Text
	last := s[len(s)-1]
	if last > '9' && last != 'u' && last != 'L' && !strings.HasPrefix(s, "0x") { // a float with another suffix
		return n, false
	}
	digits := strings.TrimRight(s, "uL")
	n.suffix = s[len(digits):]
	v, err := strconv.ParseInt(digits, 0, 64)
	largest := int64(math.MaxInt32)
	if n.suffix == "u" {
		largest = math.MaxUint32
	}
	if err != nil || v < math.MinInt32 || v > largest {
		return n, false
	}
	n.V = v
	return n, true
}

// expr returns the literal as an expression. ok is false if its type cannot hold the number.
func (n Literal) expr() (t Expr, ok bool) {
	switch n.suffix {
	case "u":
		return Uint(uint32(n.V)), true
	case "L":
		return Int64(n.V), true
	}
	return Int(n.V), n.V > math.MinInt32 && n.V <= math.MaxInt32
}

// Folded returns a simpler form of a op b, such as a literal or one of the operands, and false if there is none.
func Folded(op string, a, b Expr) (t Expr, ok bool) {
	x, left := LiteralOf(a)
	y, right := LiteralOf(b)
	switch {
	case left && right:
		return foldLiterals(op, x, y)
	case right && neutralRight(op, y.V) || b.Is("1.0") && (op == "*" || op == "/"): // such as a + 0
		return a, true
	case left && neutralLeft(op, x.V) || a.Is("1.0") && op == "*": // such as 1 * b
		return b, true
	// x * 0, x & 0 and x % 1
	case right && y.V == 0 && (op == "*" || op == "&"), right && y.V == 1 && op == "%" && y.suffix == "u":
		return Literal{0, y.suffix}.expr()
	// 0 * y, 0 & y, 0 / y and 0 % y
	case left && x.V == 0 && (op == "*" || op == "&" || op == "/" || op == "%"):
		return Literal{0, x.suffix}.expr()
	case right && y.suffix == "u":
		return foldTwice(op, a, y)
	}
	if t, ok := foldFloats(op, a, b); ok {
		return t, true
	}
	return foldTruth(op, a, b)
}

// foldFloats computes with two float literals, rounding as a device does. It returns false if a device may flush the
// result to zero.
func foldFloats(op string, a, b Expr) (t Expr, ok bool) {
	x, left := FloatOf(a)
	y, right := FloatOf(b)
	if !left || !right {
		return t, false
	}
	var v float32
	switch op {
	case "+":
		v = x + y
	case "-":
		v = x - y
	case "*":
		v = x * y
	default:
		return t, false
	}
	size := math.Abs(float64(v))
	finite := size <= math.MaxFloat32
	subnormal := size < 0x1p-126 && v != 0 // devices may flush these
	underflow := v == 0 && op == "*" && x != 0 && y != 0
	return Float(float64(v), 32, ""), finite && !subnormal && !underflow
}

// FloatOf returns the value of a float literal, and false for other expressions.
func FloatOf(t Expr) (float32, bool) {
	if t.Op != syntax.Number || !strings.ContainsAny(t.Text, ".e") || strings.HasSuffix(t.Text, "f") ||
		strings.HasPrefix(t.Text, "0x") {
		return 0, false
	}
	v, err := strconv.ParseFloat(t.Text, 32)
	return float32(v), err == nil
}

// neutralRight reports whether x op v is x.
func neutralRight(op string, v int64) bool {
	switch op {
	case "+", "|", "^", "-", "<<", ">>":
		return v == 0
	case "*", "/":
		return v == 1
	}
	return false
}

// neutralLeft reports whether v op x is x.
func neutralLeft(op string, v int64) bool {
	return slices.Contains([]string{"+", "|", "^", "*"}, op) && neutralRight(op, v)
}

// foldLiterals computes with two integer literals. uint literals wrap around.
func foldLiterals(op string, x, y Literal) (t Expr, ok bool) {
	if x.suffix != y.suffix {
		return t, false
	}
	if holds, ok := compare(op, x.V, y.V); ok {
		return Of(strconv.FormatBool(holds)), true
	}
	n := Literal{suffix: x.suffix}
	switch {
	case op == "+":
		n.V = x.V + y.V
	case op == "-":
		n.V = x.V - y.V
	case op == "*":
		n.V = x.V * y.V
	case op == "/" && y.V != 0:
		n.V = x.V / y.V
	// GLSL does not define % for negative operands.
	case op == "%" && y.V != 0 && x.V >= 0 && y.V > 0:
		n.V = x.V % y.V
	case op == "&":
		n.V = x.V & y.V
	case op == "|":
		n.V = x.V | y.V
	case op == "^":
		n.V = x.V ^ y.V
	// Shifts by 32 or more are undefined.
	case op == "<<" && x.suffix == "u" && y.V < 32:
		n.V = x.V << y.V
	case op == ">>" && x.suffix == "u" && y.V < 32:
		n.V = x.V >> y.V
	default:
		return t, false
	}
	return n.expr()
}

// compare reports whether a comparison of x and y holds. ok is false if op is no comparison.
func compare(op string, x, y int64) (holds, ok bool) {
	switch op {
	case "<":
		return x < y, true
	case "<=":
		return x <= y, true
	case ">":
		return x > y, true
	case ">=":
		return x >= y, true
	case "==":
		return x == y, true
	case "!=":
		return x != y, true
	}
	return false, false
}

// foldTwice simplifies a op y if a ends with a constant, by joining the constants: x / 4u / 8u becomes x / 32u.
func foldTwice(op string, a Expr, y Literal) (t Expr, ok bool) {
	// Only operators of the same precedence group with op.
	if a.Op != syntax.Binary || a.Prec() != syntax.BinaryPrec(op) {
		return t, false
	}
	x, isLiteral := LiteralOf(a.Args[1])
	if !isLiteral || x.suffix != "u" {
		return t, false
	}
	rest, last := a.Args[0], a.Text
	switch {
	case op == last && (op == "*" || op == "/") && x.V*y.V <= math.MaxUint32:
		return Binary(op, rest, Uint(x.V*y.V)), true
	case op == last && (op == "+" || op == "-") && x.V+y.V <= math.MaxUint32:
		return Binary(op, rest, Uint(x.V+y.V)), true
	// rest + x - y or rest - x + y: combine the constants so that the literal is not negative.
	case op == "-" && last == "+" && x.V >= y.V, op == "+" && last == "-" && x.V < y.V:
		return Binary("+", rest, Uint(max(x.V-y.V, y.V-x.V))), true
	case op == "-" && last == "+", op == "+" && last == "-":
		return Binary("-", rest, Uint(max(x.V-y.V, y.V-x.V))), true
	}
	return t, false
}

// foldTruth simplifies && and || with a constant operand.
func foldTruth(op string, a, b Expr) (t Expr, ok bool) {
	var decides string
	switch op {
	case "&&":
		decides = "false"
	case "||":
		decides = "true"
	default:
		return t, false
	}
	for _, p := range [][2]Expr{{a, b}, {b, a}} {
		switch {
		case p[0].Is(decides):
			return p[0], true
		case p[0].Is("true"), p[0].Is("false"):
			return p[1], true
		}
	}
	return t, false
}

// foldCall folds a call of a constructor, min, max or clamp, if its arguments decide the result.
func foldCall(name string, args []Expr) (t Expr, ok bool) {
	if len(args) == 2 {
		if t, ok = foldLimit(name, args[0], args[1]); ok {
			return t, true
		}
	}
	var n []Literal
	for _, a := range args {
		x, ok := LiteralOf(a)
		switch {
		case a.Is("false"):
			x, ok = Literal{V: 0}, true
		case a.Is("true"):
			x, ok = Literal{V: 1}, true
		}
		if !ok || len(n) > 0 && x.suffix != n[0].suffix {
			return t, false
		}
		n = append(n, x)
	}
	switch {
	case name == "uint" && len(n) == 1 && n[0].suffix != "L":
		return Literal{n[0].V, "u"}.expr()
	case name == "int" && len(n) == 1 && n[0].suffix != "L":
		return Literal{n[0].V, ""}.expr()
	case name == "int64_t" && len(n) == 1:
		return Literal{n[0].V, "L"}.expr()
	// Larger integers may round.
	case name == "float" && len(n) == 1 && n[0].V > -1<<24 && n[0].V < 1<<24:
		return Float(float64(n[0].V), 32, ""), true
	case name == "min" && len(n) == 2:
		return Literal{min(n[0].V, n[1].V), n[0].suffix}.expr()
	case name == "max" && len(n) == 2:
		return Literal{max(n[0].V, n[1].V), n[0].suffix}.expr()
	case name == "clamp" && len(n) == 3 && n[1].V <= n[2].V:
		return Literal{min(max(n[0].V, n[1].V), n[2].V), n[0].suffix}.expr()
	}
	return t, false
}

// foldLimit folds min(x, limit) or max(x, limit) if the result is always x, or always limit.
func foldLimit(name string, x, limit Expr) (t Expr, ok bool) {
	_, isLiteral := LiteralOf(limit)
	switch {
	case name == "min" && limit.Is("0u"): // no unsigned number is below 0
		return limit, true
	case name == "max" && limit.Is("0u"):
		return x, true
	// max(min(a, limit), limit) is the limit.
	case name == "max" && isLiteral && x.Op == syntax.Call && x.Text == "min" && syntax.Equal(x.Args[1], limit):
		return limit, true
	}
	return t, false
}
