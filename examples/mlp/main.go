// Mlp builds a two-layer perceptron for images of 28x28 pixels and prints its
// graph.
//
//	go run ./examples/mlp
package main

import (
	"fmt"
	"log"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

const (
	maxBatch = 64
	pixels   = 28 * 28
	hidden   = 128
	classes  = 10
)

func main() {
	g, err := frontend.Build("mlp", mlp)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(g)
}

// mlp reads images u8[N, 28, 28] and gives probabilities f32[N, 10]. N is known
// only at each run.
func mlp(b *frontend.Builder) {
	n := b.Sym("N", maxBatch)
	images := b.Input("images", ir.U8, n, 28, 28)

	x := images.Reshape(n, pixels).Cast(ir.F32).DivScalar(255)
	x = linear(b, "hidden", x, hidden).Relu()
	x = linear(b, "output", x, classes)

	b.Output("probabilities", x.Softmax(-1))
	b.Output("class", x.Argmax(-1))
}

// linear is x w^T + bias, with weights NAME.weight [out, in] and NAME.bias [out].
func linear(b *frontend.Builder, name string, x frontend.Tensor, out int) frontend.Tensor {
	w := b.Weight(name+".weight", ir.F32, out, x.Dim(-1))
	return x.MatMulT(w).Add(b.Weight(name+".bias", ir.F32, out))
}
