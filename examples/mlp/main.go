// Mlp builds a two-layer perceptron for images of 28x28 pixels, compiles it,
// and runs it on the best device:
//
//	go run ./examples/mlp
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

const (
	maxBatch = 64
	pixels   = 28 * 28
	hidden   = 128
	classes  = 10
)

func main() {
	if err := run(context.Background(), "auto"); err != nil {
		log.Fatal(err)
	}
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

// run classifies two images of noise with weights that are noise too.
func run(ctx context.Context, device string) error {
	g, err := frontend.Build("mlp", mlp)
	if err != nil {
		return err
	}
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	program, err := dev.Compile(ctx, g, vkc.CompileOptions{})
	if err != nil {
		return err
	}
	exe, err := dev.Load(ctx, program, vkc.LoadOptions{Weights: vkc.WeightMap{
		"hidden.weight": noise(ir.F32, 0.05, hidden, pixels), "hidden.bias": noise(ir.F32, 0.05, hidden),
		"output.weight": noise(ir.F32, 0.05, classes, hidden), "output.bias": noise(ir.F32, 0.05, classes),
	}})
	if err != nil {
		return err
	}
	defer exe.Close()
	res, err := exe.Run(ctx, map[string]*ir.Data{"images": noise(ir.U8, 255, 2, 28, 28)}, runtime.RunOptions{})
	if err != nil {
		return err
	}
	class, err := res.Outputs["class"].Ints()
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d kernels: the images are of classes %v\n", dev.Why(), program.Stats.Kernels, class)
	return nil
}

// noise is a tensor of numbers from 0 to limit, the same ones in every run.
func noise(t ir.DType, limit float64, dims ...int) *ir.Data {
	d, err := ir.NewData(t, dims...)
	if err != nil {
		panic(err) // the dims are constants of this file
	}
	rng, values := rand.New(rand.NewPCG(1, 2)), make([]float64, d.Elems())
	for i := range values {
		values[i] = limit * rng.Float64()
	}
	ir.EncodeFloats(d.Bytes, t, values)
	return d
}
