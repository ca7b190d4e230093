package glsl

import (
	"github.com/vkc-go/vkc/codegen/device"
)

// Matmuls and attention add up multiplications in an order of their own, and may round once per multiplication. So they
// use fma or dot. Some devices have no instruction for these; there a helper keeps the order of the operations, which
// costs nothing.

// dot multiplies two vec4 and adds up the results.
func (e *emitter) dot(a, b text) text {
	name := "dot"
	if device.FusesNothing(e.caps) {
		name = "dot_in_order"
		e.helper(name, "vec4")
	}
	return call(name, a, b)
}

// shuffled is the value of the invocation in the subgroup whose number differs in these bits.
func shuffled(x text, mask int) text { return call("subgroupShuffleXor", x, uintLit(mask)) }

// atLeast sets a variable to the larger one of its value and another.
func (e *emitter) atLeast(x, other text) { e.assign(x, call("max", x, other)) }

// addProduct writes a statement that adds a * b to a sum. All are of one type.
func (e *emitter) addProduct(typ string, sum, a, b text) {
	name := "fma"
	if device.FusesNothing(e.caps) {
		name = "fma_in_order"
		e.helper(name, typ)
	}
	e.assign(sum, call(name, a, b, sum))
}
