package emit

import (
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
)

// Dot returns the sum of the four products of two vec4. The sum of a matmul or an attention may be computed in any
// order and with fused multiply-adds, so Dot is dot of GLSL. On a device that fuses nothing, a helper fixes the order
// of the operations (see [device.FusesNothing]).
func (r *Requirements) Dot(a, b expr.Expr) expr.Expr {
	name := "dot"
	if device.FusesNothing(r.Caps) {
		name = "dot_in_order"
		r.Helper(name, "vec4")
	}
	return expr.Call(name, a, b)
}

// Shuffled returns the value of x in the subgroup's invocation with the number (own number XOR mask).
func Shuffled(x expr.Expr, mask int) expr.Expr {
	return expr.Call("subgroupShuffleXor", x, expr.Uint(mask))
}

// AtLeast writes x = max(x, other).
func (c *Code) AtLeast(x, other expr.Expr) { c.Assign(x, expr.Call("max", x, other)) }

// AddProduct writes sum += a * b, as fma or as a helper that fixes the order (see Dot). All operands have the given
// type.
func (e *Emitter) AddProduct(typ string, sum, a, b expr.Expr) {
	name := "fma"
	if device.FusesNothing(e.Caps) {
		name = "fma_in_order"
		e.Helper(name, typ)
	}
	e.Assign(sum, expr.Call(name, a, b, sum))
}
