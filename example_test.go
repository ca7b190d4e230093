package vkc_test

import (
	"context"
	"fmt"
	"log"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Compile a graph for a device and run it. This example uses the CPU reference, which is always available; "auto"
// selects the fastest device.
func Example() {
	g, err := frontend.Build("scale", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("N", 1024))
		b.Output("y", x.MulScalar(2).AddScalar(1).Relu())
	})
	if err != nil {
		log.Fatal(err)
	}
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	exe, err := dev.LoadGraph(context.Background(), g, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer exe.Close()

	x, err := vkc.Of([]float32{-2, 0, 3}, 3)
	if err != nil {
		log.Fatal(err)
	}
	res, err := exe.Run(context.Background(), vkc.Tensors{"x": x})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(vkc.Values[float32](res.Outputs["y"]))
	// Output:
	// [0 1 7] <nil>
}

// States outlive a run: this program counts its runs.
func ExampleDevice_Load() {
	g, err := frontend.Build("count", func(b *frontend.Builder) {
		count := b.State("count", ir.F32)
		b.Update(count, count.AddScalar(1))
		b.Output("runs", count.AddScalar(1))
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	program, err := dev.Compile(ctx, g, vkc.CompileOptions{})
	if err != nil {
		log.Fatal(err)
	}
	exe, err := dev.Load(ctx, program, vkc.LoadOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer exe.Close()
	for range 3 {
		res, err := exe.Run(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(vkc.Values[float32](res.Outputs["runs"]))
	}
	// Output:
	// [1] <nil>
	// [2] <nil>
	// [3] <nil>
}

// A checker runs the reference on the inputs of a run, and says how far the
// outputs are from it.
func ExampleChecker() {
	g, err := frontend.Build("double", func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 2).MulScalar(2))
	})
	if err != nil {
		log.Fatal(err)
	}
	checker, err := check.New(g, nil)
	if err != nil {
		log.Fatal(err)
	}
	x, err := vkc.Of([]float32{1, 2}, 2)
	if err != nil {
		log.Fatal(err)
	}
	wrong, err := vkc.Of([]float32{2, 5}, 2)
	if err != nil {
		log.Fatal(err)
	}
	report, err := checker.Check(context.Background(), nil, vkc.Tensors{"x": x}, nil, vkc.Tensors{"y": wrong})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.OK(), report.Values[0].Bad, "of", report.Values[0].Elems)
	// Output:
	// false 1 of 2
}
