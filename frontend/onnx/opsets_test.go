package onnx_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// writing is an op in the form before an opset and in the form since. Both forms compute the same result for x,
// f32[2,4,2,3].
type writing struct {
	op         string
	opset      int64
	before     []msg // nodes that compute y; they may use the constants
	since      []msg
	onlyBefore string // an attribute that the op no longer has
}

func writings() []writing {
	y, x := names("y"), names("x")
	one := func(op string, in []string, attributes ...msg) []msg { return []msg{node(op, in, y, attributes...)} }
	list := []writing{
		{"BatchNormalization", 9, one("BatchNormalization", names("x", "four", "four", "four", "four"),
			intAttr("spatial", 1)),
			one("BatchNormalization", names("x", "four", "four", "four", "four")), "spatial"},
		{"BatchNormalization", 14, []msg{node("BatchNormalization", names("x", "four", "four", "four", "four"),
			names("y", "m", "v"))},
			[]msg{node("BatchNormalization", names("x", "four", "four", "four", "four"), names("y", "m", "v"),
				intAttr("training_mode", 1))}, ""},
		{"BatchNormalization", 7, one("BatchNormalization", names("x", "four", "four", "four", "four"),
			intAttr("is_test", 1)),
			one("BatchNormalization", names("x", "four", "four", "four", "four")), "is_test"},
		{"Cast", 6, one("Cast", x, textAttr("to", "INT32")), one("Cast", x, intAttr("to", 6)), ""},
		{"Clip", 11, one("Clip", x, floatAttr("min", 0.5), floatAttr("max", 3)),
			one("Clip", names("x", "half", "three")), "min"},
		{"Concat", 4, one("Concat", names("x", "x")), one("Concat", names("x", "x"), intAttr("axis", 1)), ""},
		{"DFT", 20, one("DFT", names("x1")), one("DFT", names("x1", "", "axis1")), ""},
		{"Dropout", 7, one("Dropout", x, intAttr("is_test", 1)), one("Dropout", x), "is_test"},
		{"Dropout", 10, []msg{node("Dropout", x, names("z", "m")), node("Add", names("z", "m"), y)},
			[]msg{node("Dropout", x, names("z", "m")), node("Cast", names("m"), names("n"), intAttr("to", float)),
				node("Add", names("z", "n"), y)}, ""},
		{"Dropout", 12, one("Dropout", x, floatAttr("ratio", 0.5)), one("Dropout", names("x", "half")), "ratio"},
		{"GridSample", 20, one("GridSample", names("x", "grid"), textAttr("mode", "bicubic")),
			one("GridSample", names("x", "grid"), textAttr("mode", "cubic")), ""},
		{"GroupNormalization", 21, one("GroupNormalization", names("x", "two", "two"), intAttr("num_groups", 2)),
			one("GroupNormalization", names("x", "pairs", "pairs"), intAttr("num_groups", 2)), ""},
		{"MeanVarianceNormalization", 9, one("MeanVarianceNormalization", x, intAttr("across_channels", 1)),
			one("MeanVarianceNormalization", x, intsAttr("axes", 0, 1, 2, 3)), "across_channels"},
		{"Pad", 2, one("Pad", x, intsAttr("paddings", 0, 0, 1, 0, 0, 0, 0, 2)),
			one("Pad", x, intsAttr("pads", 0, 0, 1, 0, 0, 0, 0, 2)), "paddings"},
		{"Pad", 11, one("Pad", x, intsAttr("pads", 0, 0, 1, 0, 0, 0, 0, 2), floatAttr("value", 0.5)),
			one("Pad", names("x", "pads", "half")), "pads"},
		{"PRelu", 7, one("PRelu", names("x", "four")), one("PRelu", names("x", "column")), ""},
		{"Reshape", 5, one("Reshape", x, intsAttr("shape", 8, 6)), one("Reshape", names("x", "eight6")), "shape"},
		{"Resize", 11, one("Resize", names("x", "scales")), one("Resize", names("x", "", "scales"),
			textAttr("coordinate_transformation_mode", "asymmetric"), textAttr("nearest_mode", "floor")), ""},
		{"RoiAlign", 16, one("RoiAlign", names("x", "rois", "batch"), intAttr("sampling_ratio", 2)),
			one("RoiAlign", names("x", "rois", "batch"), intAttr("sampling_ratio", 2),
				textAttr("coordinate_transformation_mode", "output_half_pixel")), ""},
		{"Selu", 6, one("Selu", x), one("Selu", x, floatAttr("alpha", 1.6732), floatAttr("gamma", 1.0507)), ""},
		{"Slice", 10, one("Slice", x, intsAttr("starts", 1, 0), intsAttr("ends", 3, 2), intsAttr("axes", 1, 3)),
			one("Slice", names("x", "starts", "ends", "axes13")), "starts"},
		{"Split", 13, []msg{node("Split", x, names("a", "y"), intAttr("axis", 1), intsAttr("split", 1, 3))},
			[]msg{node("Split", names("x", "axes13"), names("a", "y"), intAttr("axis", 1))}, "split"},
		{"Squeeze", 13, one("Squeeze", names("x1"), intsAttr("axes", 4)), one("Squeeze", names("x1", "axis4")), "axes"},
		{"Unsqueeze", 13, one("Unsqueeze", x, intsAttr("axes", 4)), one("Unsqueeze", names("x", "axis4")), "axes"},
		{"Tile", 6, one("Tile", names("x", "three1", "axis1")), one("Tile", names("x", "tiles")), ""},
		{"TopK", 10, []msg{node("TopK", x, names("y", "i"), intAttr("k", 2))}, []msg{node("TopK", names("x",
			"axis2"), names("y", "i"))}, "k"},
		{"Upsample", 7, one("Upsample", x, floatAttr("height_scale", 2), floatAttr("width_scale", 3)),
			one("Upsample", x, floatsAttr("scales", 1, 1, 2, 3)), "height_scale"},
		{"Upsample", 9, one("Upsample", x, floatsAttr("scales", 1, 1, 2, 3)), one("Upsample", names("x", "scales")),
			"scales"},
	}
	shaped := func(to string, n msg) []msg { return []msg{node("Reshape", names("x", to), names("r")), n} }
	gemm := names("r", "six1", "half")
	list = append(list, writing{"Gemm", 7, shaped("eight6", node("Gemm", gemm, y, intAttr("broadcast", 1))),
		shaped("eight6", node("Gemm", gemm, y)), "broadcast"})
	for op, gates := range map[string]string{"LSTM": "4", "GRU": "3", "RNN": "1"} {
		in := names("r", "w"+gates, "r"+gates)
		list = append(list, writing{op, 7, shaped("flat", node(op, in, y, intAttr("output_sequence", 1))),
			shaped("flat", node(op, in, y)), "output_sequence"})
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Pow"} {
		list = append(list, writing{op, 7, one(op, names("x", "four"), intAttr("broadcast", 1), intAttr("axis", 1)),
			one(op, names("x", "column")), "axis"})
	}
	for _, op := range []string{"Equal", "Greater", "Less"} {
		list = append(list, writing{op, 7, one(op, names("x", "four"), intAttr("broadcast", 1), intAttr("axis", 1)),
			one(op, names("x", "column")), "axis"})
	}
	for _, op := range []string{"And", "Or", "Xor"} {
		list = append(list, writing{op, 7, []msg{node("Greater", names("x", "x4"), names("b")),
			node(op, names("b", "truths"), y, intAttr("broadcast", 1), intAttr("axis", 1))},
			[]msg{node("Greater", names("x", "x4"), names("b")), node(op, names("b", "truthcolumn"), y)}, "axis"})
	}
	for _, op := range []string{"Softmax", "LogSoftmax", "Hardmax"} {
		list = append(list, writing{op, 13, one(op, x, intAttr("axis", 2)),
			[]msg{node("Reshape", names("x", "flat"), names("f")), node(op, names("f"), names("g"), intAttr("axis", 2)),
				node("Reshape", names("g", "shape"), y)}, ""})
	}
	for op, opset := range map[string]int64{"ReduceSum": 13, "ReduceL1": 18, "ReduceL2": 18, "ReduceLogSum": 18,
		"ReduceLogSumExp": 18,
		"ReduceMax":       18, "ReduceMean": 18, "ReduceMin": 18, "ReduceProd": 18, "ReduceSumSquare": 18} {
		list = append(list, writing{op, opset, one(op, x, intsAttr("axes", 1, 3)), one(op, names("x",
			"axes13")), "axes"})
	}
	return list
}

// constants are the operands of the nodes of writings besides x.
func constants() []part {
	truths := func(name string, dims ...int64) msg {
		return tensorOf(name, boolean, dims).bytes(9, []byte{1, 0, 0, 1})
	}
	some := func(name string, dims ...int64) msg {
		var values []float32
		for i := range dims[1] * dims[2] {
			values = append(values, float32(i%5)/8-0.25)
		}
		return floats(name, values, dims...)
	}
	return weights(some("w4", 1, 4, 6), some("r4", 1, 4, 1), some("w3", 1, 3, 6), some("r3", 1, 3, 1),
		some("w1", 1, 1, 6), some("r1", 1, 1, 1), floats("six1", []float32{1, 2, 3, 4, 5, 6}, 6, 1),
		floats("four", []float32{1, 2, 0.5, 3}, 4), floats("column", []float32{1, 2, 0.5, 3}, 4, 1, 1),
		floats("half", []float32{0.5}), floats("three", []float32{3}), floats("two", []float32{2, 3}, 2),
		floats("pairs", []float32{2, 2, 3, 3}, 4), floats("grid", []float32{0.1, -0.4, 0.7, 0.2}, 2, 1, 1, 2),
		floats("rois", []float32{0, 0, 2, 1}, 1, 4), ints("batch", []int64{0}, 1), floats("scales", []float32{1, 1,
			2, 3}, 4),
		floats("x4", []float32{9, 3, 20, 5, 7, 12}, 2, 3), truths("truths", 4), truths("truthcolumn", 4, 1, 1),
		ints("axis1", []int64{1}), ints("axis2", []int64{2}, 1), ints("axis4", []int64{4}, 1), ints("axes13",
			[]int64{1, 3}, 2),
		ints("starts", []int64{1, 0}, 2), ints("ends", []int64{3, 2}, 2), ints("three1", []int64{3}),
		ints("tiles", []int64{1, 3, 1, 1}, 4), ints("eight6", []int64{8, 6}, 2), ints("flat", []int64{2, 4, 6}, 3),
		ints("shape", []int64{2, 4, 2, 3}, 4), ints("pads", []int64{0, 0, 1, 0, 0, 0, 0, 2}, 8))
}

// TestOpsets builds each op in the form before a change and in the form since; both must give the same result. The
// older form in the newer opset is an error if a part of it would be ignored.
func TestOpsets(t *testing.T) {
	tried := map[string][]int64{"Scan": {9}} // TestScanOfSequences
	values := countUp(48)
	for i := range values {
		values[i] = float64(i*7%11) - 3
	}
	in := map[string]*ir.Data{"x": f32(t, values, 2, 4, 2, 3), "x1": f32(t, values, 2, 4, 2, 3, 1)}
	for _, w := range writings() {
		tried[w.op] = append(tried[w.op], w.opset)
		t.Run(fmt.Sprint(w.op, w.opset), func(t *testing.T) {
			of := func(opset int64, list []msg) []byte {
				return model(opset, graph(inputs(port("x", float, 2, 4, 2, 3), port("x1", float, 2, 4, 2, 3,
					1)), constants(),
					nodes(list...), outputs("y")))
			}
			got := run(t, built(t, of(w.opset-1, w.before), onnx.Options{}), in)["y"]
			is(t, got, run(t, built(t, of(w.opset, w.since), onnx.Options{}), in)["y"])
			if w.onlyBefore == "" {
				return
			}
			_, err := onnx.NewReader(of(w.opset, w.before), onnx.Options{})
			want := fmt.Sprintf("attribute %s, which the op does not have from opset %d on", w.onlyBefore, w.opset)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the older form in opset %d: %v, want %q", w.opset, err, want)
			}
		})
	}
	for op, opsets := range onnx.Changes() {
		if !slices.IsSorted(opsets) {
			t.Errorf("the changes of %s are not in order: %v", op, opsets)
		}
		if _, ok := onnx.Ops()[op]; !ok {
			t.Errorf("there are changes of %s, and no such op", op)
		}
		slices.Sort(tried[op])
		if !slices.Equal(tried[op], opsets) {
			t.Errorf("%s changes in opsets %v, and was tried in %v", op, opsets, tried[op])
		}
	}
}
