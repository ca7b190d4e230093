package train_test

import (
	"context"
	"fmt"
	"iter"
	"log"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/optim"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/train"
)

// Run repeats a training step over batches from an iterator. With Options.Checkpoint it resumes after an interruption.
func ExampleRun() {
	g, err := frontend.Build("fit", func(b *frontend.Builder) {
		x, y := b.Input("x", ir.F32, 2), b.Input("y", ir.F32, 2)
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
	batches := func(after int) iter.Seq2[vkc.Tensors, error] {
		return func(yield func(vkc.Tensors, error) bool) {
			for step := after; ; step++ {
				x := []float32{float32(step % 5), 1}
				y := []float32{3 * x[0], 3}
				if !yield(vkc.Tensors{"x": vkc.Must(vkc.Of(x, 2)), "y": vkc.Must(vkc.Of(y, 2))}, nil) {
					return
				}
			}
		}
	}
	report, err := train.Run(context.Background(), exe, batches, train.Options{Steps: 200})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d steps, last loss %.1f\n", len(report.Losses), report.Losses[199])
	// Output: 200 steps, last loss 0.0
}
