package glsl

import (
	"github.com/vkc-go/vkc/codegen/device"
)

// Matmuls and attention add up multiplications in an order of their own, and may round once per multiplication. So they
// use fma or dot. Some devices have no instruction for these; there a helper keeps the order of the operations, which
// costs nothing.

// dot multiplies two vec4 and adds up the results.
func (e *emitter) dot(a, b string) text {
	name := "dot"
	if device.FusesNothing(e.caps) {
		name = "dot_in_order"
		e.helper(name, "vec4")
	}
	return call(name, primary(a), primary(b))
}

// addProduct writes a statement that adds a * b to a sum. All are of one type.
func (e *emitter) addProduct(typ, sum, a, b string) {
	name := "fma"
	if device.FusesNothing(e.caps) {
		name = "fma_in_order"
		e.helper(name, typ)
	}
	e.line("%s = %s(%s, %s, %[1]s);", sum, name, a, b)
}
