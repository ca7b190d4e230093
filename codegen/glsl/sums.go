package glsl

import (
	"github.com/vkc-go/vkc/codegen/device"
)

// Sums of products, which matmuls and attention make in an order of their own and may round once a product: what takes
// a product in is fma, or dot. A device that has no instruction for it is told to keep the products as they are, which
// costs nothing there.

// dot is the product of two vec4.
func (e *emitter) dot(a, b string) text {
	name := "dot"
	if device.FusesNothing(e.caps) {
		name = "dot_in_order"
		e.helper(name, "vec4")
	}
	return call(name, primary(a), primary(b))
}

// addProduct writes a statement that adds the product of a and b to a sum, all of one type.
func (e *emitter) addProduct(typ, sum, a, b string) {
	name := "fma"
	if device.FusesNothing(e.caps) {
		name = "fma_in_order"
		e.helper(name, typ)
	}
	e.line("%s = %s(%s, %s, %[1]s);", sum, name, a, b)
}
