package fast

import (
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestStrips: tasks compute both convolutions of a separable one if there are many rows, but not if the weights of the
// second, which each of these tasks reads, take longer.
func TestStrips(t *testing.T) {
	for _, c := range []struct {
		channels, side int
		strips         bool
	}{{24, 128, true}, {32, 112, true}, {96, 16, true}, {1024, 7, false}} {
		g, err := ir.Parse(fmt.Sprintf(`graph "g" {
			%%x = input {name="x", dtype=f32, shape=[1,%[1]d,%[2]d,%[2]d]}
			%%w = weight {name="w", dtype=f32, shape=[%[1]d,1,3,3]}
			%%v = weight {name="v", dtype=f32, shape=[%[1]d,%[1]d,1,1]}
			%%y = conv %%x, %%w {groups=%[1]d, padding_low=[1,1], padding_high=[1,1]}
			%%z = relu %%y
			%%out = conv %%z, %%v
			output "out" %%out
		}`, c.channels, c.side))
		if err != nil {
			t.Fatal(err)
		}
		kernels := 0
		for _, k := range Kernels(g) {
			if k != nil {
				kernels++
			}
		}
		if kernels != 1 {
			t.Errorf("%d channels: %d kernels, want 1", c.channels, kernels)
		}
		second, dims := g.Outputs()[0].Node, []int{1, c.channels, c.side, c.side}
		first := second.Arg(0).Arg(0)
		r := convRun{convolution: &convolution{node: second, phases: phasesOf(second)}, outDims: dims}
		d := convRun{convolution: &convolution{node: first, phases: phasesOf(first)}, dims: dims, outDims: dims}
		if have := r.separableShapeOf(&d, 2).strip != nil; have != c.strips {
			t.Errorf("%d channels of %d rows: strips are used: %v, want %v", c.channels, c.side, have, c.strips)
		}
	}
}
