package e2e

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// TestNumericOnDevice: methods that consist of several ops give the reference's results on a device.
func TestNumericOnDevice(t *testing.T) {
	dev := openDevice(t)
	g, err := frontend.Build("numeric", func(b *frontend.Builder) {
		x, seed, offset := b.Input("x", ir.F32, 6, 40), b.Input("seed", ir.U32), b.Scalar(ir.U32, 7)
		b.Output("histogram", x.Histogram(7, -1, 0.9))
		b.Output("categorical", x.Categorical(seed, offset))
		b.Output("permutation", b.RandomPermutation(seed, offset, 100))
		s := frontend.CSR{Starts: b.Input("starts", ir.I32, 5), Columns: b.Input("columns", ir.I32, 9),
			Values: x.Slice(1, 0, ir.D(9)).Index(0, 0)}
		b.Output("sparse", s.MatMul(x))
	})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 240)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	in := map[string]*ir.Data{}
	for name, of := range map[string]struct {
		t      ir.DType
		values []float64
		dims   []int
	}{"x": {ir.F32, x, []int{6, 40}}, "seed": {ir.U32, []float64{12}, nil},
		"starts": {ir.I32, []float64{0, 4, 4, 8, 9}, []int{5}}, "columns": {ir.I32, []float64{5, 1, 0, 5, 2, 2, 3, 1, 4}, []int{9}}} {
		d, err := ir.NewData(of.t, of.dims...)
		if err == nil && of.t.IsFloat() {
			d, err = ir.FromFloats(of.t, of.values, of.dims...)
		} else if err == nil {
			list := make([]int64, len(of.values))
			for i, v := range of.values {
				list[i] = int64(v)
			}
			d, err = ir.FromInts(of.t, list, of.dims...)
		}
		if err != nil {
			t.Fatal(err)
		}
		in[name] = d
	}
	ctx := context.Background()
	exe, err := dev.LoadGraph(ctx, g, vkc.WeightMap(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	r, err := exe.Vulkan().Run(ctx, in, runtime.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reference, err := check.New(g, vkc.WeightMap(nil))
	if err != nil {
		t.Fatal(err)
	}
	report, err := reference.Check(ctx, exe.Vulkan(), in, nil, r.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
}
