package fast_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime/cpu/fast"
)

// TestSeparable compares depthwise convolutions with the pointwise ones after them with the interpreter: with and
// without ops between and after them, in parts of few rows, and with weights that are not finite.
func TestSeparable(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 21))
	between := []string{"%z = relu %y", "%s = add %y, %b\n%z = clamp %s {min=0.0, max=6.0}",
		"%r = sqr %y0\n%z = add %r, %y"}
	for i := range 60 {
		if i == 30 {
			defer fast.SetConvRoom(1 << 10)()
		}
		if underRace && i%8 != 0 {
			continue
		}
		channels, out := 1+rng.IntN(20), 1+rng.IntN(12)
		k, stride, dilation, pad := 1+rng.IntN(4), 1+rng.IntN(2), 1+rng.IntN(2), rng.IntN(3)
		high, wide := dilation*(k-1)+1+rng.IntN(9), dilation*(k-1)+1+rng.IntN(40)
		attrs := fmt.Sprintf("{groups=%d, stride=[%d,%[2]d], dilation=[%d,%[3]d], padding_low=[%d,%[4]d], "+
			"padding_high=[%d,1]}", channels, stride, dilation, pad, rng.IntN(2))
		middle, after := between[i%3], "%out = neg %p"
		if i%4 == 0 {
			middle = "%z = conv %x, %w " + attrs
		}
		if i%2 == 0 {
			after = "%t = sqr %p0\n%u = add %p, %t\n%out = relu %u"
		}
		text := fmt.Sprintf(`graph "g" {
			%%x = input {name="x", dtype=f32, shape=[2,%[1]d,%[2]d,%[3]d]}
			%%w = weight {name="w", dtype=f32, shape=[%[1]d,1,%[4]d,%[4]d]}
			%%v = weight {name="v", dtype=f32, shape=[%[5]d,%[1]d,1,1]}
			%%b = weight {name="b", dtype=f32, shape=[%[1]d,1,1]}
			%%y0 = conv %%x, %%w %[6]s
			%%y = conv %%x, %%w %[6]s
			%[7]s
			%%p0 = conv %%y0, %%v
			%%p = conv %%z, %%v
			%[8]s
			output "out" %%out
		}`, channels, high, wide, k, out, attrs, middle, after)
		g, err := ir.Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		random := func(dims ...int) *ir.Data {
			list := make([]float64, volume(dims))
			for k := range list {
				list[k] = float64(rng.IntN(9)-4) / 4 // sums are exact in any order
			}
			switch {
			case i%10 == 8 && len(dims) == 4 && dims[2] == k: // of either convolution if k is 1
				list[rng.IntN(len(list))] = math.Inf(1)
			case i%10 == 9 && len(dims) == 4 && dims[2] == 1:
				list[rng.IntN(len(list))] = math.NaN()
			}
			d, err := ir.FromFloats(ir.F32, list, dims...)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		in := map[string]*ir.Data{"x": random(2, channels, high, wide)}
		weights := weightsOf{"w": random(channels, 1, k, k), "v": random(out, channels, 1, 1),
			"b": random(channels, 1, 1)}
		run := func(replace func(*ir.Graph) []*interp.Kernel, workers int) *ir.Data {
			p, err := interp.New(g, interp.Options{Weights: weights, Replace: replace, Poison: true, Workers: workers})
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			var results map[string]*ir.Data
			for range 2 { // the second in memory that the first has used
				if results, err = p.Run(t.Context(), in, nil); err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
			}
			return results["out"]
		}
		want := run(nil, 1)
		for _, workers := range []int{1, 3} {
			if err := interp.Compare(run(fast.Kernels, workers), want, ir.Tolerance{Eps: 8}).Err(); err != nil {
				t.Fatalf("case %d, %d workers: %v\n%s", i, workers, err, text)
			}
		}
	}
}
