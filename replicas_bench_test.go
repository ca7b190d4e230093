package vkc_test

import (
	"flag"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk/vktest"
)

var replicasFlag = flag.String("replicas", "vulkan", "the devices that benchmarks of several run on, such as 0,1")

// BenchmarkReplicas runs a batch of 64 inputs, each of which takes milliseconds of products of f32 and little of
// copying, on the devices of -replicas: `go test . -bench Replicas -args -replicas 0,1`.
func BenchmarkReplicas(b *testing.B) {
	const size, depth, batch = 2048, 8, 64
	devices, err := vkc.OpenDevices(*replicasFlag)
	vktest.Need(b, err)
	defer devices.Close()
	g, err := frontend.Build("products", func(b *frontend.Builder) {
		seed := b.Scalar(ir.U32, 7)
		w := b.RandomUniform(seed, seed, ir.F32, ir.D(size), ir.D(size)).Sub(b.Scalar(ir.F32, 0.5))
		x := b.Input("x", ir.F32, size, 1).Mul(w)
		for range depth {
			x = x.MatMul(w)
		}
		b.Output("y", x.Mean(-1))
	})
	if err != nil {
		b.Fatal(err)
	}
	r, err := devices.LoadGraph(b.Context(), g, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	one, err := ir.NewData(ir.F32, size, 1)
	if err != nil {
		b.Fatal(err)
	}
	in := make([]vkc.Tensors, batch)
	for i := range in {
		in[i] = vkc.Tensors{"x": one}
	}
	for b.Loop() {
		if _, err := r.RunBatch(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(batch*float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}
