package optim_test

import (
	"context"
	"fmt"
	"log"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/optim"
	"github.com/vkc-go/vkc/ir"
)

// A training step is a graph whose states are the parameters. This one fits y = w*x.
func ExampleMinimize() {
	g, err := frontend.Build("fit", func(b *frontend.Builder) {
		x, y := b.Input("x", ir.F32, 4), b.Input("y", ir.F32, 4)
		w := b.State("w", ir.F32)
		loss := x.Mul(w).Sub(y).Sqr().Mean()
		b.Output("loss", loss)
		optim.Minimize(loss, optim.NewAdamW(0.1), w)
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
	points := vkc.Tensors{"x": vkc.Must(vkc.Of([]float32{1, 2, 3, 4}, 4)),
		"y": vkc.Must(vkc.Of([]float32{3, 6, 9, 12}, 4))}
	for range 200 {
		if _, err := exe.Run(context.Background(), points); err != nil {
			log.Fatal(err)
		}
	}
	w, err := exe.ReadState("w")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f\n", vkc.Must(vkc.Values[float32](w)))
	// Output: [3.0]
}
