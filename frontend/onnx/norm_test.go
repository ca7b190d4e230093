package onnx_test

import (
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
