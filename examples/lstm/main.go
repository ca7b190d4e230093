// Lstm runs a recurrent layer over sequences of 1 and of 1000 steps, and prints the run times:
//
//	go run ./examples/lstm
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

func main() {
	device := flag.String("device", "auto", "the device to run on")
	flag.Parse()
	if err := run(context.Background(), *device, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// The sizes of the layer.
const (
	steps   = 1000
	batch   = 8
	inputs  = 32
	outputs = 64
)

// types has the dtypes and shapes of the layer's weights. There are no biases.
var types = map[string]ir.Type{
	"ih.weight": {DType: ir.F32, Shape: ir.ShapeOf(4*outputs, inputs)},
	"hh.weight": {DType: ir.F32, Shape: ir.ShapeOf(4*outputs, outputs)},
}

// lstm builds the graph of the layer.
func lstm(b *frontend.Builder) {
	x := b.Input("x", ir.F32, b.Sym("T", steps), batch, inputs) // T steps of 8 sequences
	all, h, c := nn.LSTM(x, frontend.Tensor{}, frontend.Tensor{}, nn.NewWeights(b, types))
	b.Output("all", all) // [T, 8, 64]
	b.Output("h", h)
	b.Output("c", c)
}

// noise has random tensors by name: the weights and the input.
type noise map[string]*ir.Data

// Weight returns a weight.
func (n noise) Weight(name string) (*ir.Data, error) {
	d, ok := n[name]
	if !ok {
		return nil, fmt.Errorf("there is no weight %q", name)
	}
	return d, nil
}

// add adds normally distributed numbers.
func (n noise) add(name string, scale float64, dims ...int) error {
	count := 1
	for _, d := range dims {
		count *= d
	}
	values, rng := make([]float64, count), rand.New(rand.NewPCG(uint64(len(n)), 1))
	for i := range values {
		values[i] = scale * rng.NormFloat64()
	}
	d, err := ir.FromFloats(ir.F32, values, dims...)
	n[name] = d
	return err
}

// run runs the layer on both lengths, and prints the times.
func run(ctx context.Context, device string, out io.Writer) error {
	g, err := frontend.Build("lstm", lstm)
	if err != nil {
		return err
	}
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	weights := noise{}
	for name, t := range types {
		dims, err := t.Shape.Eval(nil)
		if err != nil {
			return err
		}
		if err := weights.add(name, 0.1, dims...); err != nil {
			return err
		}
	}
	start := time.Now()
	exe, err := dev.LoadGraph(ctx, g, weights)
	if err != nil {
		return err
	}
	defer exe.Close()
	fmt.Fprintf(out, "compiled and loaded on %s in %v\n", dev.Name(), time.Since(start).Round(time.Millisecond))
	for _, n := range []int{1, 10, 100, steps} {
		if err := weights.add("x", 1, n, batch, inputs); err != nil {
			return err
		}
		in := map[string]*ir.Data{"x": weights["x"]}
		if _, err := exe.Run(ctx, in); err != nil { // the first run of a length records the steps
			return err
		}
		start := time.Now()
		result, err := exe.Run(ctx, in)
		if err != nil {
			return err
		}
		took := time.Since(start)
		fmt.Fprintf(out, "%4d steps: %v, %v a step; all is %s\n", n, took.Round(time.Microsecond),
			(took / time.Duration(n)).Round(time.Microsecond/10), result.Outputs["all"])
	}
	return nil
}
