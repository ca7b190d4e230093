package emit

import (
	"math"
	"testing"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/ir"
)

// TestWithout: a form loses exactly the operations that change no value, zeros of both signs included.
func TestWithout(t *testing.T) {
	const form = "{0} * {mul} + {add}"
	for _, tt := range []struct {
		mul, add float64
		want     string
	}{
		{2, 3, "x * [2] + [3]"},
		{1, 3, "x + [3]"},
		{2, math.Copysign(0, -1), "x * [2]"},
		{1, math.Copysign(0, -1), "x"},
		{2, 0, "x * [2] + [0]"}, // -0 becomes 0
		{0, 3, "x * [0] + [3]"}, // infinity becomes NaN
		{-1, 0, "x * [-1] + [0]"},
	} {
		n, err := parseTemplate(form)
		if err != nil {
			t.Fatal(err)
		}
		attrs := ir.Attrs{{Name: "mul", Value: tt.mul}, {Name: "add", Value: tt.add}}
		have := fill(dropNoOps(n, attrs), plainSpelling(func(name string) expr.Expr {
			if name == "0" {
				return expr.Of("x")
			}
			return expr.Of("[" + ir.FormatAttr(int64(attrs.Float(name))) + "]")
		}))
		if have.String() != tt.want {
			t.Errorf("mul=%v add=%v: %q, want %q", tt.mul, tt.add, have, tt.want)
		}
	}
}

// plainSpelling returns the value for a hole. It has GLSL's own literals, operators and functions.
type plainSpelling func(name string) expr.Expr

func (s plainSpelling) value(name string) expr.Expr                     { return s(name) }
func (s plainSpelling) function(name string) string                     { return name }
func (s plainSpelling) literal(text string) expr.Expr                   { return expr.Of(text) }
func (s plainSpelling) operator(op string, args ...expr.Expr) expr.Expr { return operator(op, args...) }
