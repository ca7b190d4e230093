// Basics builds a graph, runs it, asks for a gradient, and keeps a state from run to run:
//
//	go run ./examples/basics
package main

import (
	"context"
	"fmt"
	"io"
	"log"
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

// graph computes y = |x|^2 of rows x f32[N, 3], the gradient of their sum, and counts its runs.
func graph(b *frontend.Builder) {
	x := b.Input("x", ir.F32, b.Sym("N", 8), 3)
	y := x.Sqr().Sum(-1)
	b.Output("y", y)
	b.Output("gradient", frontend.Grad(y.Sum(), x)[0])
	runs := b.State("runs", ir.I32)
	b.Update(runs, runs.AddScalar(1))
}

// run builds the graph, runs it several times, and prints the results.
func run(ctx context.Context, device string, out io.Writer) error {
	g, err := frontend.Build("basics", graph)
	if err != nil {
		return err // it names the op, the shapes and the line above
	}
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	exe, err := dev.LoadGraph(ctx, g, nil)
	if err != nil {
		return err
	}
	defer exe.Close()
	for _, rows := range []int{1, 2} { // N is known only now
		values := []float32{1, 2, 3, 4, 5, 6}
		x, err := vkc.Of(values[:3*rows], rows, 3)
		if err != nil {
			return err
		}
		res, err := exe.Run(ctx, vkc.Tensors{"x": x})
		if err != nil {
			return err
		}
		for _, name := range []string{"y", "gradient"} {
			list, err := vkc.Values[float32](res.Outputs[name])
			if err != nil {
				return err
			}
			fmt.Fprintln(out, name, list)
		}
	}
	runs, err := exe.ReadState("runs")
	if err != nil {
		return err
	}
	n, err := vkc.Values[int32](runs)
	fmt.Fprintln(out, "runs", n)
	return err
}
