// Mlp builds a two-layer perceptron for images of 28x28 pixels, and runs it on
// the best device:
//
//	go run ./examples/mlp
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

func main() {
	if err := run(context.Background(), "auto", os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// mlp reads images u8[N, 28, 28] and returns the class of each, i32[N]. N is known only at each run.
func mlp(b *frontend.Builder) {
	n := b.Sym("N", 64)
	x := b.Input("images", ir.U8, n, 28, 28).Reshape(n, 28*28).Cast(ir.F32).DivScalar(255)
	x = linear(b, "hidden", x, 128).Relu()
	x = linear(b, "output", x, 10).Softmax(-1)
	b.Output("probabilities", x)
	b.Output("class", x.Argmax(-1))
}

// linear is x w^T + bias, with weights NAME.weight [out, in] and NAME.bias [out].
func linear(b *frontend.Builder, name string, x frontend.Tensor, out int) frontend.Tensor {
	w := b.Weight(name+".weight", ir.F32, out, x.Dim(-1))
	return x.MatMulT(w).Add(b.Weight(name+".bias", ir.F32, out))
}

// run classifies three images of noise, with noise as weights.
func run(ctx context.Context, device string, out io.Writer) error {
	g, err := frontend.Build("mlp", mlp)
	if err != nil {
		return err // it names the op, the shapes and the line above
	}
	weights, err := noiseWeights(g)
	if err != nil {
		return err
	}
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	exe, err := dev.LoadGraph(ctx, g, weights)
	if err != nil {
		return err
	}
	defer exe.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	pixels := make([]uint8, 3*28*28)
	for i := range pixels {
		pixels[i] = uint8(rng.UintN(256))
	}
	images, err := vkc.Of(pixels, 3, 28, 28)
	if err != nil {
		return err
	}
	res, err := exe.Run(ctx, vkc.Tensors{"images": images})
	if err != nil {
		return err
	}
	classes, err := vkc.Values[int32](res.Outputs["class"])
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\nimages of classes %v\n", exe.Why(), classes)
	return nil
}

// noiseWeights returns numbers from -1 to 1 for every weight of a graph, the same ones in every run. For a trained
// model, vkc.OpenWeights returns the weights.
func noiseWeights(g *ir.Graph) (vkc.WeightMap, error) {
	weights, rng := vkc.WeightMap{}, rand.New(rand.NewPCG(3, 4))
	for _, w := range g.Leaves(ir.OpWeight) {
		dims, err := w.Shape().Eval(nil)
		if err != nil {
			return nil, err
		}
		values := make([]float32, w.Shape().MaxElems())
		for i := range values {
			values[i] = 2*rng.Float32() - 1
		}
		if weights[w.Name()], err = vkc.Of(values, dims...); err != nil {
			return nil, err
		}
	}
	return weights, nil
}
