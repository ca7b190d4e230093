package emit

import (
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
)

// Matmuls and attention add up multiplications in an order of their own, and may round once per multiplication. So they
// use fma or dot. Some devices have no instruction for these; there a helper keeps the order of the operations, which
// costs nothing.

// Dot multiplies two vec4 and adds up the results.
func (e *Emitter) Dot(a, b expr.Expr) expr.Expr {
	name := "dot"
	if device.FusesNothing(e.Caps) {
		name = "dot_in_order"
		e.Helper(name, "vec4")
	}
	return expr.Call(name, a, b)
}

// Shuffled is the value of the invocation in the subgroup whose number differs in these bits.
func Shuffled(x expr.Expr, mask int) expr.Expr {
	return expr.Call("subgroupShuffleXor", x, expr.Uint(mask))
}

// AtLeast sets a variable to the larger one of its value and another.
func (e *Emitter) AtLeast(x, other expr.Expr) { e.Assign(x, expr.Call("max", x, other)) }

// AddProduct writes a statement that adds a * b to a sum. All are of one type.
func (e *Emitter) AddProduct(typ string, sum, a, b expr.Expr) {
	name := "fma"
	if device.FusesNothing(e.Caps) {
		name = "fma_in_order"
		e.Helper(name, typ)
	}
	e.Assign(sum, expr.Call(name, a, b, sum))
}
