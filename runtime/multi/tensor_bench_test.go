package multi_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

var devicesFlag = flag.String("devices", "", "several devices that tests run on, such as 0,1; software otherwise")

// BenchmarkAllReduce measures all-reduces over the devices of -devices, many in each run, with every available
// transport: `go test ./runtime/multi -bench AllReduce -args -devices 0,1`. Each all-reduce includes a small kernel,
// which writes the values.
func BenchmarkAllReduce(b *testing.B) {
	for _, c := range []struct{ rows, times int }{{1, 256}, {4, 256}, {32, 256}, {128, 128}, {1024, 32}, {4096, 8}} {
		const width = 4096
		for _, transport := range []string{"shared", "relayed", "copied", "staged"} {
			b.Run(fmt.Sprintf("%dkB/%s", 4*c.rows*width/1024, transport), func(b *testing.B) {
				allReduce(b, transport, c.rows, width, c.times)
			})
		}
	}
}

func allReduce(b *testing.B, transport string, rows, width, times int) {
	d, err := vkc.OpenTensorParallel(tensorDevices()[0])
	vktest.Need(b, err)
	defer d.Close()
	if transport == "shared" && d.Parts()[0].Caps().Type != device.DeviceCPU {
		b.Skip("such devices do not see one another's words")
	}
	transports[transport](d)
	g := allReduces(b, rows, width, times)
	weights := vkc.WeightMap{"terms": filled(b, 1, rows, 4), "columns": filled(b, 0.25, 4, width)}
	exe, err := d.LoadGraph(b.Context(), g, weights)
	if err != nil {
		b.Fatal(err)
	}
	defer exe.Close()
	b.Log(exe.Why())
	in := vkc.Tensors{"x": filled(b, 3, 1, 1)}
	run := func() {
		r, err := exe.Run(b.Context(), in)
		if err != nil {
			b.Fatal(err)
		}
		if y, err := vkc.Values[float32](r.Outputs["y"]); err != nil || y[0] != 3 {
			b.Fatalf("y is %v, want 3 (%v)", y, err)
		}
	}
	for range 3 {
		run()
	}
	b.ResetTimer()
	for b.Loop() {
		run()
	}
	each := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / float64(times)
	b.ReportMetric(each/1e3, "us/exchange")
	b.ReportMetric(4*float64(rows*width)/each, "GB/s")
}

// allReduces returns a graph with repeated all-reduces of rows of a width over two or four devices. Each iteration sums
// the terms of a matmul, and passes one value on.
func allReduces(tb testing.TB, rows, width, times int) *ir.Graph {
	tb.Helper()
	g, err := frontend.Build("all reduce", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 1, 1)
		terms := b.ShardedWeight(1, "terms", ir.F32, rows, 4)
		columns := b.ShardedWeight(0, "columns", ir.F32, 4, width)
		for range times {
			x = x.Mul(terms).MatMul(columns).Slice(0, 0, ir.D(1)).Slice(1, 0, ir.D(1))
		}
		b.Output("y", x)
	})
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// filled is a tensor of equal values.
func filled(b *testing.B, value float32, dims ...int) *ir.Data {
	b.Helper()
	n := 1
	for _, d := range dims {
		n *= d
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = value
	}
	d, err := vkc.Of(values, dims...)
	if err != nil {
		b.Fatal(err)
	}
	return d
}
