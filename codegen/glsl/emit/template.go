package emit

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/ir"
)

// An op's template, such as "{0} / (1.0 + exp(-{0}))", is parsed to a tree with holes. So it can be filled with any
// arguments with only the parentheses that it needs.

// templates caches the trees of templates, by their source.
var templates sync.Map

// parseTemplate parses a template, and removes redundant parentheses.
func parseTemplate(source string) (*syntax.Expr, error) {
	if x, ok := templates.Load(source); ok {
		return x.(*syntax.Expr), nil
	}
	x, err := syntax.Expression(source)
	if err != nil {
		return nil, err
	}
	x = x.Map(func(y *syntax.Expr) *syntax.Expr { // the printer adds the parentheses that are needed
		if y.Op == syntax.Paren {
			return y.Args[0]
		}
		return y
	})
	templates.Store(source, x)
	return x, nil
}

// dropNoOps removes operations that attributes make an exact no-op: multiplication by 1, and addition of -0. Adding 0
// is not a no-op: it turns -0 into 0.
func dropNoOps(x *syntax.Expr, attrs ir.Attrs) *syntax.Expr {
	if x.Op != syntax.Binary || x.Text != "*" && x.Text != "+" {
		return x
	}
	neutral := 1.0
	if x.Text == "+" {
		neutral = math.Copysign(0, -1)
	}
	isNeutral := func(k *syntax.Expr) bool { // k is a hole for an attribute with the value neutral
		return k.Op == syntax.Hole && slices.ContainsFunc(attrs, func(a ir.Attr) bool {
			v, ok := a.Value.(float64)
			return ok && a.Name == k.Text && v == neutral && math.Signbit(v) == math.Signbit(neutral)
		})
	}
	left, right := dropNoOps(x.Args[0], attrs), dropNoOps(x.Args[1], attrs)
	switch {
	case isNeutral(right):
		return left
	case isNeutral(left):
		return right
	}
	y := *x
	y.Args = []*syntax.Expr{left, right}
	return &y
}

// spelling translates the parts of a template to expressions.
type spelling interface {
	value(name string) expr.Expr                     // the value for the hole {name}
	function(name string) string                     // the function to call for a name
	literal(text string) expr.Expr                   // a number
	operator(op string, args ...expr.Expr) expr.Expr // an operator with one or two operands
}

// operator returns an operator of GLSL with one or two operands.
func operator(op string, args ...expr.Expr) expr.Expr {
	if len(args) == 1 {
		return expr.Unary(op, args[0])
	}
	return expr.Binary(op, args[0], args[1])
}

// fill returns the template x with values in its holes.
func fill(x *syntax.Expr, s spelling) expr.Expr {
	kid := func(i int) expr.Expr { return fill(x.Args[i], s) }
	switch x.Op {
	case syntax.Hole:
		return s.value(x.Text)
	case syntax.Unary:
		return s.operator(x.Text, kid(0))
	case syntax.Binary:
		return s.operator(x.Text, kid(0), kid(1))
	case syntax.Ternary:
		return expr.Choose(kid(0), kid(1), kid(2))
	case syntax.Call:
		args := make([]expr.Expr, len(x.Args))
		for i := range x.Args {
			args[i] = kid(i)
		}
		return expr.Call(s.function(x.Text), args...)
	}
	if digits, negative := strings.CutPrefix(x.Text, "-"); negative { // GLSL has no negative literals
		return s.operator("-", s.literal(digits))
	}
	return s.literal(x.Text)
}
