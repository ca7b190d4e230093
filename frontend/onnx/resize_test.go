package onnx_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// TestNearestPlaces selects nearest elements of 0, 1, 2 and so on, where an f32 quotient is an integer or a half and
// the exact one is not, or the reverse. The expected elements come from ONNX Runtime 1.30.
func TestNearestPlaces(t *testing.T) {
	for _, c := range []struct {
		n                    int
		scale                float32
		coordinates, nearest string
		want                 []float64
	}{
		{12, 1.1, "asymmetric", "floor", []float64{0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10}},
		{10, 1.7, "asymmetric", "ceil", []float64{0, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6, 7, 8, 8, 9, 9, 9}},
		{31, 0.3, "half_pixel", "round_prefer_ceil", []float64{1, 5, 8, 11, 15, 18, 21, 24, 28}},
		{31, 1.3, "half_pixel", "round_prefer_floor", []float64{0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11, 11, 12,
			13, 14, 14, 15, 16, 17, 18, 18, 19, 20, 21, 21, 22, 23, 24, 24, 25, 26, 27, 28, 28, 29, 30}},
		{31, 1.3, "half_pixel_symmetric", "floor", []float64{0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 10, 10, 11, 12, 13,
			13, 14, 15, 16, 16, 17, 18, 19, 20, 20, 21, 22, 23, 23, 24, 25, 26, 26, 27, 28, 29, 30}},
		{10, 0.7, "half_pixel", "floor", []float64{0, 1, 3, 4, 5, 7, 8}}, // 10*0.7 is 7 in f32, and less in f64
	} {
		m := model(19, graph(inputs(port("x", float, c.n)), weights(floats("scales", []float32{c.scale}, 1)),
			nodes(node("Resize", names("x", "", "scales"), names("y"),
				textAttr("coordinate_transformation_mode", c.coordinates), textAttr("nearest_mode", c.nearest))),
			outputs("y")))
		got := run(t, built(t, m, onnx.Options{}), map[string]*ir.Data{"x": f32(t, countUp(c.n), c.n)})["y"]
		if err := onnx.Compare(got, f32(t, c.want, len(c.want)), 0, 0); err != nil {
			t.Errorf("%d times %v, %s, %s: %v", c.n, c.scale, c.coordinates, c.nearest, err)
		}
	}
}

// TestSameElementsByOp resizes by constant sizes. A vkc op is used exactly if it selects the same elements as ONNX: by
// floors of exact quotients, and where f32 floors differ.
func TestSameElementsByOp(t *testing.T) {
	for _, c := range []struct{ from, to int64 }{{10, 20}, {10, 25}, {6, 4}, {10, 11}, {14, 2}, {14, 78}} {
		m := model(19, graph(inputs(port("x", float, int(c.from))), weights(ints("sizes", []int64{c.to}, 1)),
			nodes(node("Resize", names("x", "", "", "sizes"), names("y"),
				textAttr("coordinate_transformation_mode", "asymmetric"), textAttr("nearest_mode", "floor"))),
			outputs("y")))
		f := built(t, m, onnx.Options{})
		scale := float32(c.to) / float32(c.from)
		want, exact := make([]float64, c.to), true
		for i := range want {
			want[i] = min(float64(int(float32(i)/scale)), float64(c.from-1))
			exact = exact && want[i] == float64(int64(i)*c.from/c.to)
		}
		got := run(t, f, map[string]*ir.Data{"x": f32(t, countUp(int(c.from)), int(c.from))})["y"]
		if err := onnx.Compare(got, f32(t, want, int(c.to)), 0, 0); err != nil {
			t.Errorf("%d to %d: %v", c.from, c.to, err)
		}
		byOp := slices.ContainsFunc(f.Graph.Nodes(), func(n *ir.Node) bool { return n.Op() == ir.OpResizeNearest })
		if byOp != exact {
			t.Errorf("%d to %d by an op: %v, and it takes the same elements: %v", c.from, c.to, byOp, exact)
		}
	}
}

// TestResizesSayOneThing rejects contradictory and unsupported resizes.
func TestResizesSayOneThing(t *testing.T) {
	for want, n := range map[string]msg{
		"it has both scales and sizes": node("Resize", names("x", "", "scales", "sizes"), names("y")),
		`keep_aspect_ratio_policy is "not_larger", but it is for sizes`: node("Resize", names("x", "", "scales"),
			names("y"), textAttr("keep_aspect_ratio_policy", "not_larger")),
		`attribute nearest_mode is "up": want one of`: node("Resize", names("x", "", "scales"), names("y"),
			textAttr("nearest_mode", "up")),
		`attribute mode is "lanczos": want one of`: node("Resize", names("x", "", "scales"), names("y"),
			textAttr("mode", "lanczos")),
	} {
		m := model(19, graph(inputs(port("x", float, 4)), weights(floats("scales", []float32{2}, 1),
			ints("sizes", []int64{8}, 1)), nodes(n), outputs("y")))
		if _, err := onnx.NewReader(m, onnx.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
