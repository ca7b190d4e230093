package onnx_test

import (
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// TestCumProd is an op of opset 26, from both ends, with each element and without.
func TestCumProd(t *testing.T) {
	x := map[string]*ir.Data{"x": f32(t, []float64{2, -3, 0, 5, 1, 4}, 2, 3)}
	for _, c := range []struct {
		exclusive, reverse int64
		want               []float64
	}{
		{0, 0, []float64{2, -6, 0, 5, 5, 20}},
		{1, 0, []float64{1, 2, -6, 1, 5, 5}},
		{0, 1, []float64{0, 0, 0, 20, 4, 4}},
		{1, 1, []float64{0, 0, 1, 4, 4, 1}},
	} {
		f := built(t, model(26, graph(inputs(port("x", float, 2, 3)), weights(ints("axis", []int64{-1})),
			nodes(node("CumProd", names("x", "axis"), names("y"), intAttr("exclusive", c.exclusive),
				intAttr("reverse", c.reverse))), outputs("y"))), onnx.Options{})
		is(t, run(t, f, x)["y"], f32(t, c.want, 2, 3))
	}
}
