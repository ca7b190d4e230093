package onnx_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/internal/pairs"
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
		for _, extent := range []any{c.n, "N"} {
			m := model(19, graph(inputs(port("x", float, extent)), weights(floats("scales", []float32{c.scale}, 1)),
				nodes(node("Resize", names("x", "", "scales"), names("y"),
					textAttr("coordinate_transformation_mode", c.coordinates), textAttr("nearest_mode", c.nearest))),
				outputs("y")))
			got := run(t, built(t, m, onnx.Options{}), map[string]*ir.Data{"x": f32(t, countUp(c.n), c.n)})["y"]
			if err := onnx.Compare(got, f32(t, c.want, len(c.want)), 0, 0); err != nil {
				t.Errorf("%v (%d) times %v, %s, %s: %v", extent, c.n, c.scale, c.coordinates, c.nearest, err)
			}
		}
	}
}

// TestPicturesOfAnySize compares ops on pictures with symbolic extents with the same ops on fixed ones.
func TestPicturesOfAnySize(t *testing.T) {
	type sizedCase struct {
		keys  []string // a device runs a case of each. TestFoundOnDevices runs other ops on it.
		nodes []msg
	}
	var cases []sizedCase
	on := func(op string, in []string, attributes ...msg) {
		cases = append(cases, sizedCase{nil, []msg{node(op, in, names("y"), attributes...)}})
	}
	toSize := []msg{node("Shape", names("x"), names("s"), intAttr("start", 2)),
		node("Div", names("s", "two"), names("h")), node("Add", names("h", "two"), names("t"))}
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		for _, coordinates := range []string{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
			"align_corners", "asymmetric"} {
			attributes := []msg{textAttr("mode", mode), textAttr("coordinate_transformation_mode", coordinates)}
			on("Resize", names("x", "", "scales"), attributes...)
			cases = append(cases, sizedCase{[]string{mode}, append(slices.Clone(toSize), // a fixed table
				node("Resize", names("table", "", "", "t"), names("y"), append(attributes, intsAttr("axes", 2, 3),
					intAttr("exclude_outside", 1))...))})
		}
	}
	on("Resize", names("x", "", "less"), textAttr("mode", "linear"), intAttr("antialias", 1))
	on("GridSample", names("x", "grid"), textAttr("padding_mode", "reflection"))
	on("GridSample", names("x", "grid"), textAttr("mode", "cubic"), intAttr("align_corners", 1))
	for _, mode := range []string{"avg", "max"} {
		on("RoiAlign", names("x", "regions", "images"), textAttr("mode", mode), intAttr("output_width", 2))
	}
	cases = append(cases, sizedCase{nil, []msg{node("Shape", names("x"), names("s")),
		node("AffineGrid", names("theta", "s"), names("y"))}})
	table := make([]float32, 9)
	for i := range table {
		table[i] = float32(i*i%7) - 2
	}
	constants := weights(floats("scales", []float32{1, 1, 1.5, 0.6}, 4), floats("less", []float32{1, 1, 0.5, 0.25}, 4),
		ints("two", []int64{2}, 1), floats("table", table, 1, 1, 3, 3),
		floats("grid", []float32{-1, 0.5, 0.2, -0.7, 1.1, 0.9, -1.8, 1}, 1, 2, 2, 2),
		floats("regions", []float32{-0.5, 0.2, 3, 2.5, 1, 1, 2, 7}, 2, 4), ints("images", []int64{0, 0}, 2),
		floats("theta", []float32{1, 0.5, 0, -0.5, 1, 0.25}, 1, 2, 3))
	in := map[string]*ir.Data{"x": f32(t, countUp(35), 1, 1, 5, 7)}
	model := func(cases []sizedCase, h, w any) (*onnx.File, map[string]string) {
		all := map[string][]part{}
		for i, c := range cases {
			all[fmt.Sprint(i)] = nodes(c.nodes...)
		}
		m, y := together(20, inputs(port("x", float, 1, 1, h, w)), constants, all)
		return built(t, m, onnx.Options{}), y
	}
	check := func(t *testing.T, cases []sizedCase, y map[string]string, out, want map[string]*ir.Data) {
		t.Helper()
		for i, c := range cases {
			if err := onnx.Compare(out[y[fmt.Sprint(i)]], want[y[fmt.Sprint(i)]], 1e-5, 1e-5); err != nil {
				t.Errorf("%q: %v", c.nodes, err)
			}
		}
	}
	fixed, y := model(cases, 5, 7)
	symbolic, _ := model(cases, "H", "W")
	check(t, cases, y, run(t, symbolic, in), run(t, fixed, in))
	some := pairs.Cover(cases, func(c sizedCase) []string { return c.keys })
	symbolic, y = model(some, "H", "W")
	want := run(t, symbolic, in)
	runOnEach(t, symbolic, in, func(t *testing.T, out map[string]*ir.Data) { check(t, some, y, out, want) })
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

// TestResizeVector takes the mean of all elements of a vector.
func TestResizeVector(t *testing.T) {
	f := built(t, model(19, graph(inputs(port("x", float, 6)), weights(ints("to", []int64{1}, 1)),
		nodes(node("Resize", names("x", "", "", "to"), names("y"), textAttr("mode", "linear"), intAttr("antialias", 1),
			intAttr("exclude_outside", 1))), outputs("y"))), onnx.Options{})
	out := run(t, f, map[string]*ir.Data{"x": f32(t, []float64{3, 5, 7, 7, 5, 3}, 6)})
	weight := []float64{3.5 / 6, 4.5 / 6, 5.5 / 6}
	want := (3*weight[0] + 5*weight[1] + 7*weight[2]) / (weight[0] + weight[1] + weight[2])
	is(t, out["y"], f32(t, []float64{want}, 1))
}

// TestResizeToOneElement takes the first element, as pytorch_half_pixel says, where a symbol has the extent 1.
func TestResizeToOneElement(t *testing.T) {
	f := built(t, model(19, graph(inputs(port("x", float, "N")), weights(floats("s", []float32{0.25}, 1)),
		nodes(node("Resize", names("x", "", "s"), names("y"), textAttr("mode", "linear"),
			textAttr("coordinate_transformation_mode", "pytorch_half_pixel"))), outputs("y"))), onnx.Options{})
	for _, c := range []struct{ in, want []float64 }{{[]float64{1, 2, 3, 5}, []float64{1}},
		{[]float64{1, 2, 3, 5, 0, 1, 2, 6}, []float64{2.5, 1.5}}} {
		out := run(t, f, map[string]*ir.Data{"x": f32(t, c.in, len(c.in))})
		is(t, out["y"], f32(t, c.want, len(c.want)))
	}
}
