// Hello builds a graph, compiles it for the best device, and runs it:
//
//	go run ./examples/hello
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

func main() {
	g := must(frontend.Build("scale", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("N", 1024)) // N is known at run time, 1024 at most
		b.Output("y", x.MulScalar(2).AddScalar(1).Relu())
	}))
	dev := must(vkc.OpenDevice("auto")) // the best GPU, or else the processor
	exe := must(dev.LoadGraph(context.Background(), g, nil))
	x := must(vkc.Of([]float32{-2, 0, 3}, 3))
	res := must(exe.Run(context.Background(), vkc.Tensors{"x": x}))
	fmt.Println(must(vkc.Values[float32](res.Outputs["y"]))) // [0 1 7]
}

// must ends a small program at its first error. A larger one handles errors: see examples/basics.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
