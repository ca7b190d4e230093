// Quantized shows what the formats of quantized weights cost: how many bits a weight takes, and how much a matmul with
// these weights differs from one with the original weights. It prints a table, and draws it:
//
//	go run ./examples/quantized -svg formats.svg
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"os"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/chart"
	"github.com/vkc-go/vkc/ir"
)

const rows, width = 64, 512 // of the matrix of weights

// formats are the most common formats in files.
var formats = []ir.DType{ir.F16, ir.BF16, ir.Q8_0, ir.Q6_K, ir.Q5_K, ir.Q5_0, ir.Q4_K, ir.Q4_0, ir.IQ4_NL, ir.Q3_K,
	ir.Q2_K}

func main() {
	device := flag.String("device", "auto", "auto, vulkan (the best device), cpu, or part of a name")
	svg := flag.String("svg", "", "draw the table to that `file`")
	flag.Parse()
	if _, err := run(context.Background(), *device, *svg, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// cost has the bits per weight of a format, and the RMS error of a matmul relative to the RMS of the exact result.
type cost struct{ bits, err float64 }

// run measures each format, prints the table and draws it.
func run(ctx context.Context, device, svg string, out io.Writer) (costs map[ir.DType]cost, err error) {
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	rng := rand.New(rand.NewPCG(1, 2))
	normal := func(n int) []float32 {
		list := make([]float32, n)
		for i := range list {
			list[i] = float32(rng.NormFloat64())
		}
		return list
	}
	weights := normal(rows * width)
	x, err := vkc.Of(normal(4*width), 4, width)
	if err != nil {
		return nil, err
	}
	exact, _, err := matmul(ctx, dev, ir.F32, weights, x)
	if err != nil {
		return nil, err
	}
	costs = map[ir.DType]cost{}
	line := chart.Line{Name: "normally distributed weights"}
	fmt.Fprintln(out, "format   bits a weight   error of a product")
	for _, t := range formats {
		y, bytes, err := matmul(ctx, dev, t, weights, x)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t, err)
		}
		c := cost{bits: 8 * float64(bytes) / float64(len(weights)), err: distance(y, exact)}
		costs[t] = c
		fmt.Fprintf(out, "%-8s %8.2f %18.3f %%\n", t, c.bits, 100*c.err)
		line.X, line.Y = append(line.X, c.bits), append(line.Y, math.Log10(c.err))
		line.Marks = append(line.Marks, t.String())
	}
	if svg == "" {
		return costs, nil
	}
	f, err := os.Create(svg)
	if err != nil {
		return nil, err
	}
	err = chart.Chart{Title: "What formats cost", X: "bits a weight", Y: "error of a product, as a power of ten",
		Lines: []chart.Line{line}}.Write(f)
	return costs, errors.Join(err, f.Close())
}

// matmul returns x w^T for weights in a format. Kernels decode the weights as they read them.
func matmul(ctx context.Context, dev *vkc.Device, t ir.DType, weights []float32, x *ir.Data) (y []float32, bytes int,
	err error) {
	w, err := vkc.OfType(t, weights, rows, width)
	if err != nil {
		return nil, 0, err
	}
	g, err := frontend.Build("product", func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, x.Dims[0], width).MatMulT(b.Weight("w", ir.F32, rows, width)))
	})
	if err != nil {
		return nil, 0, err
	}
	exe, err := dev.LoadGraph(ctx, g, vkc.WeightMap{"w": w})
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	res, err := exe.Run(ctx, vkc.Tensors{"x": x})
	if err != nil {
		return nil, 0, err
	}
	y, err = vkc.Values[float32](res.Outputs["y"])
	return y, len(w.Bytes), err
}

// distance returns the length of have-want divided by the length of want.
func distance(have, want []float32) float64 {
	var off, size float64
	for i := range want {
		d := float64(have[i] - want[i])
		off, size = off+d*d, size+float64(want[i])*float64(want[i])
	}
	return math.Sqrt(off / size)
}
