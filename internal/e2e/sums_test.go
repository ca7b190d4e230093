package e2e_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// TestLongSums: a sum of many equal numbers, which all round in the same direction, is as accurate as a sum of few.
// Each invocation keeps the rounding error of its sum. So only the sums over invocations and kernels round, about log2
// of their number times.
func TestLongSums(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev := devtest.OpenDevice(t)
	const bound = 32 * 0x1p-24
	x := float64(float32(0.1))
	for _, c := range []struct {
		op, shape string
		elems     float64 // of a row
	}{
		{"sum", "[134217728]", 1 << 27}, {"mean", "[134217728]", 1 << 27}, {"norm1", "[16777216]", 1 << 24}, {"norm2", "[16777216]", 1 << 24},
		{"sum", "[3000000,4]", 3e6}, {"sum", "[65536]", 1 << 16}, {"mean", "[100,20000]", 20000}, {"sum", "[5000,4096]", 5000},
	} {
		axes := "{axes=[-1]}"
		if c.shape == "[3000000,4]" || c.shape == "[5000,4096]" { // side by side
			axes = "{axes=[0]}"
		}
		g, err := ir.Parse(fmt.Sprintf(`graph "sums" {
			%%x = input {name="x", dtype=f32, shape=[1]}
			%%all = broadcast %%x {shape=%s}
			%%y = %s %%all %s
			output "y" %%y
		}`, c.shape, c.op, axes))
		if err != nil {
			t.Fatal(err)
		}
		p, err := dev.Compile(context.Background(), g, vkc.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		exe, err := dev.Load(context.Background(), p, vkc.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		in, err := ir.FromFloats(ir.F32, []float64{x}, 1)
		if err != nil {
			t.Fatal(err)
		}
		res, err := exe.Run(context.Background(), map[string]*ir.Data{"x": in}, runtime.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		have, err := res.Outputs["y"].Floats()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{"sum": c.elems * x, "mean": x, "norm1": c.elems * x,
			"norm2": math.Sqrt(c.elems) * x}[c.op]
		for _, v := range have {
			if off := math.Abs(v-want) / want; !(off <= bound) {
				t.Errorf("%s of %s: %v, want %v: off by %.2g, more than %.2g", c.op, c.shape, v, want, off, bound)
				break
			}
		}
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	}
}
