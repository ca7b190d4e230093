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
	"github.com/vkc-go/vkc/runtime"
)

func main() {
	if err := run(context.Background(), "auto", os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// mlp reads images u8[N, 28, 28] and gives the class of each, i32[N]. N is
// known only at each run.
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

// run classifies three images of noise, with noise for weights too.
func run(ctx context.Context, device string, out io.Writer) error {
	g, err := frontend.Build("mlp", mlp)
	if err != nil {
		return err
	}
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	exe, err := dev.LoadGraph(ctx, g, vkc.WeightMap{
		"hidden.weight": noise(ir.F32, -1, 1, 128, 28*28), "hidden.bias": noise(ir.F32, -1, 1, 128),
		"output.weight": noise(ir.F32, -1, 1, 10, 128), "output.bias": noise(ir.F32, -1, 1, 10),
	})
	if err != nil {
		return err
	}
	defer exe.Close()
	images := noise(ir.U8, 0, 255, 3, 28, 28)
	res, err := exe.Run(ctx, map[string]*ir.Data{"images": images}, runtime.RunOptions{})
	if err != nil {
		return err
	}
	classes, err := res.Outputs["class"].Ints()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\nimages of classes %v\n", dev.Why(), classes)
	return nil
}

// noise is a tensor of numbers from low to high, the same ones in every run.
func noise(t ir.DType, low, high float64, dims ...int) *ir.Data {
	d, err := ir.NewData(t, dims...)
	if err != nil {
		panic(err) // the dims are constants of this file
	}
	rng, values := rand.New(rand.NewPCG(1, 2)), make([]float64, d.Elems())
	for i := range values {
		values[i] = low + (high-low)*rng.Float64()
	}
	ir.EncodeFloats(d.Bytes, t, values)
	return d
}
