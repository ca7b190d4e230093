package onnx_test

import (
	"math"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// TestNormsFarFromZero: adding a constant to all values does not change ops that subtract the mean, up to the precision
// of the differences.
func TestNormsFarFromZero(t *testing.T) {
	one := func(op string, in []string, attrs ...msg) msg { return node(op, in, names("y"), attrs...) }
	near, far := countUp(48), countUp(48)
	for i := range near { // all sums are exact
		near[i] = float64(i*37%101-50) / 512
		far[i] = near[i] + 8192
	}
	for name, n := range map[string]msg{
		"InstanceNormalization": one("InstanceNormalization", names("x", "four", "four")),
		"GroupNormalization":    one("GroupNormalization", names("x", "four", "four"), intAttr("num_groups", 2)),
		"LayerNormalization":    one("LayerNormalization", names("x", "all"), intAttr("axis", 1)),
		"MeanVarianceNormalization of channels": one("MeanVarianceNormalization", names("x"),
			intsAttr("axes", 0, 2, 3)),
		"BatchNormalization of the batch": node("BatchNormalization", names("x", "four", "four", "four", "four"),
			names("y", "m", "v"), intAttr("training_mode", 1)),
	} {
		t.Run(name, func(t *testing.T) {
			ones := make([]float32, 24)
			for i := range ones {
				ones[i] = 1
			}
			f := built(t, model(21, graph(inputs(port("x", float, 2, 4, 2, 3)),
				weights(floats("four", ones[:4], 4), floats("all", ones, 4, 2, 3)), nodes(n),
				outputs("y"))), onnx.Options{})
			want := run(t, f, map[string]*ir.Data{"x": f32(t, near, 2, 4, 2, 3)})["y"]
			got := run(t, f, map[string]*ir.Data{"x": f32(t, far, 2, 4, 2, 3)})["y"]
			if err := onnx.Compare(got, want, 1e-5, 1e-5); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLayerNormBroadcasts has a scale for each element, and one bias for all.
func TestLayerNormBroadcasts(t *testing.T) {
	f := built(t, model(17, graph(inputs(port("x", float, 2, 3)),
		weights(floats("scale", []float32{1, 2, 4}, 3), floats("bias", []float32{8}, 1)),
		nodes(node("LayerNormalization", names("x", "scale", "bias"), names("y"))), outputs("y"))), onnx.Options{})
	out := run(t, f, map[string]*ir.Data{"x": f32(t, []float64{-1, 0, 1, 5, 5, 5}, 2, 3)})
	d := math.Sqrt(1 / (2./3 + 1e-5))
	is(t, out["y"], f32(t, []float64{8 - d, 8, 8 + 4*d, 8, 8, 8}, 2, 3))
}

// TestReduceL1OfIntegers adds magnitudes of integers.
func TestReduceL1OfIntegers(t *testing.T) {
	f := built(t, model(18, graph(inputs(port("x", int64s, 2, 2)), weights(ints("axes", []int64{1}, 1)),
		nodes(node("ReduceL1", names("x", "axes"), names("y"))), outputs("y"))), onnx.Options{})
	x, err := ir.FromInts(ir.I64, []int64{-3, 4, 1 << 40, -2}, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	got, err := run(t, f, map[string]*ir.Data{"x": x})["y"].Ints()
	if want := []int64{7, 1<<40 + 2}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, error %v, want %v", got, err, want)
	}
}
