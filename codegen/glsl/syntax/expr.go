package syntax

import (
	"slices"
	"strings"
)

// Op is the kind of an expression.
type Op uint8

// The kinds of expressions. Text and Args have the details.
const (
	Name    Op = iota // a variable, constant or macro, Text
	Number            // a literal, Text, which may begin with a minus
	Hole              // {Text} in a template: a placeholder for the value with that name
	Unary             // operator Text before Args[0]
	Postfix           // operator Text after Args[0]
	Binary            // operator Text between Args[0] and Args[1]
	Ternary           // Args[0] ? Args[1] : Args[2]
	Call              // a call of function or constructor Text with Args
	Method            // method Text of Args[0], without arguments
	Index             // Args[0][Args[1]]
	Member            // Args[0].Text
	Paren             // Args[0] in parentheses that the source contains
)

// Expr is an expression. An Expr must not be changed, because trees share it.
type Expr struct {
	Op   Op
	Text string
	// Type is the type of the value if it is int64_t (see expr.Wide), and otherwise "".
	Type string
	// Precise says that a Binary operation on floats is rounded by itself: no compiler may fuse it with another
	// operation or reorder it.
	Precise bool
	// Break says that the second operand of a binary operator is on a new line, or that another expression, as an
	// argument of a call, begins a line.
	Break bool
	Args  []*Expr
	// From names the part of a kernel that the expression computes, such as an op, or is "". It does not change the
	// GLSL. See [Definition.Origins].
	From string
}

// The precedences of operators, weakest first, as in the GLSL specification's table of operators.
const (
	PrecTernary = iota + 1
	PrecOrOr
	PrecXorXor
	PrecAndAnd
	PrecOr
	PrecXor
	PrecAnd
	PrecEquality
	PrecRelation
	PrecShift
	PrecSum
	PrecProduct
	PrecUnary
	PrecPrimary
)

var binaryPrec = map[string]int{"||": PrecOrOr, "^^": PrecXorXor, "&&": PrecAndAnd, "|": PrecOr, "^": PrecXor,
	"&": PrecAnd, "==": PrecEquality, "!=": PrecEquality, "<": PrecRelation, ">": PrecRelation, "<=": PrecRelation,
	">=": PrecRelation, "<<": PrecShift, ">>": PrecShift, "+": PrecSum, "-": PrecSum, "*": PrecProduct,
	"/": PrecProduct, "%": PrecProduct}

// BinaryPrec returns the precedence of a binary operator, or 0 if op is not one.
func BinaryPrec(op string) int { return binaryPrec[op] }

// Prec returns the precedence of an expression's operator.
func (x *Expr) Prec() int {
	if x.Precise { // it is printed as a call
		return PrecPrimary
	}
	switch x.Op {
	case Binary:
		return BinaryPrec(x.Text)
	case Ternary:
		return PrecTernary
	case Unary:
		return PrecUnary
	case Number:
		if strings.HasPrefix(x.Text, "-") {
			return PrecUnary
		}
	}
	return PrecPrimary
}

// Is reports whether x is the name or literal text.
func (x *Expr) Is(text string) bool {
	return x != nil && (x.Op == Name || x.Op == Number) && x.Text == text
}

// Equal reports whether two expressions are equal: same operators, names and literals.
func Equal(a, b *Expr) bool {
	if a == b {
		return true
	}
	return a != nil && b != nil && a.Op == b.Op && a.Text == b.Text && a.Precise == b.Precise &&
		slices.EqualFunc(a.Args, b.Args, Equal)
}

// Tagged returns x with its From set. A name or a literal computes nothing, and stays untagged.
func (x *Expr) Tagged(from string) *Expr {
	if x == nil || x.Op == Name || x.Op == Number {
		return x
	}
	tagged := *x
	tagged.From = from
	return &tagged
}

// Ident returns a name.
func Ident(name string) *Expr { return &Expr{Op: Name, Text: name} }

// Calling returns a call of a function.
func Calling(function string, args ...*Expr) *Expr {
	return &Expr{Op: Call, Text: function, Args: args}
}

// Negative returns -x. The negative of a literal is a literal.
func Negative(x *Expr) *Expr {
	if x.Op == Number && !strings.HasPrefix(x.Text, "-") {
		return &Expr{Op: Number, Text: "-" + x.Text, Type: x.Type}
	}
	return &Expr{Op: Unary, Text: "-", Args: []*Expr{x}, Type: x.Type}
}

// preciseCalls has the library functions that compute precise operations in GLSL. A variable with the qualifier
// "precise" would not do: the qualifier also applies to the operations that compute the operands, such as long sums.
var preciseCalls = map[string]string{"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}

// Callee returns the name of the function that x calls in GLSL, or "".
func (x *Expr) Callee() string {
	switch {
	case x.Precise:
		return preciseCalls[x.Text]
	case x.Op == Call:
		return x.Text
	}
	return ""
}

// Walk calls visit for x and then for all its parts, at every depth.
func (x *Expr) Walk(visit func(*Expr)) {
	if x == nil {
		return
	}
	visit(x)
	for _, a := range x.Args {
		a.Walk(visit)
	}
}

// Map returns x with change applied to all its parts, innermost first, and then to x itself.
func (x *Expr) Map(change func(*Expr) *Expr) *Expr {
	if x == nil {
		return nil
	}
	var args []*Expr // the changed parts, or nil if no part has changed
	for i, a := range x.Args {
		b := a.Map(change)
		if b != a && args == nil {
			args = slices.Clone(x.Args)
		}
		if args != nil {
			args[i] = b
		}
	}
	if args != nil {
		y := *x
		y.Args, x = args, &y
	}
	return change(x)
}

// visitNames calls visit for each name in an expression: variables, functions and types.
func (x *Expr) visitNames(visit func(string)) {
	switch x.Op {
	case Name:
		visit(x.Text)
	default:
		EachName(x.Callee(), visit)
	}
	for _, a := range x.Args {
		a.visitNames(visit)
	}
}

// renaming returns the change, for Map, that replaces names.
func renaming(names map[string]string) func(*Expr) *Expr {
	return func(x *Expr) *Expr {
		if x.Op != Name && x.Op != Call {
			return x
		}
		text := renamed(x.Text, names)
		if text == x.Text {
			return x
		}
		y := *x
		y.Text = text
		return &y
	}
}

// EachName calls visit for each name in a source, such as those in a type. It skips comments, and words after a dot.
func EachName(s string, visit func(string)) {
	visitWords(s, func(from, to int) { visit(s[from:to]) })
}

// visitWords calls visit with the position of each name in a source: s[from:to]. It skips comments, and words after a
// dot.
func visitWords(s string, visit func(from, to int)) {
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "//"):
			end := strings.IndexByte(s[i:], '\n')
			if end < 0 {
				return
			}
			i += end
		case !isWord(s[i]):
			i++
		default:
			from := i
			for i < len(s) && isWord(s[i]) {
				i++
			}
			if isLetter(s[from]) && (from == 0 || s[from-1] != '.') {
				visit(from, i)
			}
		}
	}
}

// renamed returns a source with names replaced.
func renamed(s string, names map[string]string) string {
	// The usual case: the source is one name.
	if n, ok := names[s]; ok {
		return n
	}
	var b strings.Builder
	at := 0
	visitWords(s, func(from, to int) {
		if n, ok := names[s[from:to]]; ok {
			b.WriteString(s[at:from] + n)
			at = to
		}
	})
	// nothing was replaced
	if at == 0 {
		return s
	}
	return b.String() + s[at:]
}

// The bit 0x20 makes a letter lowercase.
func isLetter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWord reports whether a name may have c after its first letter.
func isWord(c byte) bool { return isLetter(c) || isDigit(c) }
