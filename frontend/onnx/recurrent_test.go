package onnx_test

import (
	"math"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// TestRecurrentLayersAreLoops: a layer with a symbolic number of steps is a loop. It gives the results of unrolled
// steps.
func TestRecurrentLayersAreLoops(t *testing.T) {
	const int32s = 6
	for op, gates := range map[string]int64{"LSTM": 4, "GRU": 3, "RNN": 1} {
		layer := func(steps any) []byte {
			wave := func(name string, dims ...int64) msg {
				n := int64(1)
				for _, d := range dims {
					n *= d
				}
				list := make([]float32, n)
				for i := range list {
					list[i] = float32(math.Sin(float64(i*i + len(name))))
				}
				return floats(name, list, dims...)
			}
			in := []string{"x", "w", "r", "b", "lengths", "h"}
			if op == "LSTM" {
				in = append(in, "c", "peepholes")
			}
			return model(14, graph(inputs(port("x", float, steps, 2, 3), port("lengths", int32s, 2)),
				weights(wave("w", 2, gates*5, 3), wave("r", 2, gates*5, 5), wave("b", 2, 2*gates*5),
					wave("h", 2, 2, 5), wave("c", 2, 2, 5), wave("peepholes", 2, 15)),
				nodes(node(op, in, names("all", "last"), intAttr("hidden_size", 5),
					textAttr("direction", "bidirectional"))),
				outputs("all", "last")))
		}
		loops := func(f *onnx.File) (n int) {
			for _, node := range f.Graph.Nodes() {
				if node.Op() == ir.OpLoop {
					n++
				}
			}
			return n
		}
		written, looped := built(t, layer(4), onnx.Options{}), built(t, layer("T"), onnx.Options{})
		if loops(written) != 0 || loops(looped) != 2 {
			t.Errorf("%s: %d loops where steps are written out, %d where they are not", op, loops(written),
				loops(looped))
		}
		x := countUp(24)
		for i := range x {
			x[i] = math.Cos(x[i])
		}
		lengths := &ir.Data{DType: ir.I32, Dims: []int{2}, Bytes: []byte{4, 0, 0, 0, 2, 0, 0, 0}}
		given := map[string]*ir.Data{"x": f32(t, x, 4, 2, 3), "lengths": lengths}
		want, have := run(t, written, given), run(t, looped, given)
		for _, name := range []string{"all", "last"} {
			is(t, have[name], want[name])
		}
	}
}
