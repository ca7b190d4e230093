package onnx_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/ir"
)

// TestFound tracks the data-dependent extents of a run through the following ops. An op that does not support this is
// an error with its name.
func TestFound(t *testing.T) {
	through := func(list ...msg) []byte {
		return model(13, graph(inputs(port("x", float, 2, 2)),
			weights(ints("at", []int64{1}), ints("table", []int64{10, 20}, 2), ints("axes", []int64{1}, 1),
				ints("outer", []int64{0}, 1), ints("two", []int64{1, 2}, 2), floats("w", []float32{1, 10}, 1, 2),
				floats("hundred", []float32{100})),
			nodes(append([]msg{node("NonZero", names("x"), names("n"))}, list...)...), outputs("y")))
	}
	x := f32(t, []float64{0, 5, 6, 0}, 2, 2)
	for name, c := range map[string]struct {
		content []byte
		want    []int64
		dims    []int
	}{
		"gather along another axis": {through(node("Gather", names("n", "at"), names("y"))), []int64{1, 0}, []int{2}},
		"gather at what is found": {through(node("Gather", names("n", "at"), names("c")),
			node("Gather", names("table", "c"), names("y"), intAttr("axis", 0))), []int64{20, 10}, []int{2}},
		"cast and concat": {through(node("Cast", names("n"), names("c"), intAttr("to", int64s)),
			node("Concat", names("c", "n"), names("y"), intAttr("axis", 0))), []int64{0, 1, 1, 0, 0, 1, 1, 0}, []int{4, 2}},
		"unsqueeze": {through(node("Unsqueeze", names("n", "axes"), names("y"))), []int64{0, 1, 1, 0}, []int{2, 1, 2}},
		"max":       {through(node("ReduceMax", names("n"), names("y"))), []int64{1}, []int{1, 1}},
		"product": {through(node("Add", names("n", "at"), names("s")),
			node("ReduceProd", names("s", "axes"), names("y"))),
			[]int64{2, 2}, []int{2, 1}},
		"sum along": {through(node("Add", names("n", "at"), names("s")),
			node("ReduceSum", names("s", "axes"), names("y"))),
			[]int64{3, 3}, []int{2, 1}},
		"sum of each": {through(node("ReduceSum", names("n", "outer"), names("y"), intAttr("keepdims", 0))),
			[]int64{1, 1}, []int{2}},
		"largest": {through(node("ArgMax", names("n"), names("y"), intAttr("axis", 1))), []int64{1, 0}, []int{2, 1}},
		"cumsum":  {through(node("CumSum", names("n", "at"), names("y"))), []int64{0, 1, 1, 1}, []int{2, 2}},
		"matmul": {through(node("Cast", names("n"), names("f"), intAttr("to", float)),
			node("MatMul", names("w", "f"), names("p")), node("Cast", names("p"), names("y"), intAttr("to", int64s))),
			[]int64{10, 1}, []int{1, 2}},
		"contraction along what is found": {through(node("Cast", names("n"), names("f"), intAttr("to", float)),
			node("Transpose", names("f"), names("t")), node("MatMul", names("f", "t"), names("p")),
			node("Cast", names("p"), names("y"), intAttr("to", int64s))), []int64{1, 0, 0, 1}, []int{2, 2}},
		"softmax along what is found": {through(node("Add", names("n", "at"), names("s")),
			node("Cast", names("s"), names("f"), intAttr("to", float)), node("Softmax", names("f"), names("p")),
			node("Mul", names("p", "hundred"), names("m")),
			node("Cast", names("m"), names("y"), intAttr("to", int64s))),
			[]int64{26, 73, 73, 26}, []int{2, 2}},
		"softmax of each": {through(node("Cast", names("n"), names("f"), intAttr("to", float)),
			node("Softmax", names("f"), names("p"), intAttr("axis", 0)), node("Ceil", names("p"), names("c")),
			node("Cast", names("c"), names("y"), intAttr("to", int64s))), []int64{1, 1, 1, 1}, []int{2, 2}},
		"shape":                    {through(node("Shape", names("n"), names("y"))), []int64{2, 2}, []int{2}},
		"size":                     {through(node("Size", names("n"), names("y"))), []int64{4}, []int{}},
		"nonzero of what is found": {through(node("NonZero", names("n"), names("y"))), []int64{0, 1, 1, 0}, []int{2, 2}},
		"unique of the other axis": {through(node("Unique", names("n"), names("y"), intAttr("axis", 0))), nil, nil},
		"space to depth": {through(node("Unsqueeze", names("n", "outer"), names("b")),
			node("Unsqueeze", names("b", "outer"), names("c")),
			node("SpaceToDepth", names("c"), names("y"), intAttr("blocksize", 2))), []int64{0, 1, 1, 0},
			[]int{1, 4, 1, 1}},
		"split to a sequence": {through(node("SplitToSequence", names("n"), names("s"), intAttr("axis", 1)),
			node("SequenceAt", names("s", "at"), names("y"))), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := onnx.NewReader(c.content, onnx.Options{})
			if c.want == nil {
				if err == nil || !strings.Contains(err.Error(), "known only in a run") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			out := run(t, f, map[string]*ir.Data{"x": x})
			if err := f.Graph.OutputInfo().Trim(out); err != nil {
				t.Fatal(err)
			}
			got, err := out["y"].Ints()
			if err != nil || !slices.Equal(got, c.want) || !slices.Equal(out["y"].Dims, c.dims) {
				t.Errorf("%v %v, %v, want %v %v", out["y"].Dims, got, err, c.dims, c.want)
			}
		})
	}
}

// foundCases are nodes that take a value of which a run finds a part.
func foundCases() []foundCase {
	relu := func(op string, axis int, attributes ...msg) foundCase {
		return foundCase{axis, []msg{node(op, names("v"), names("y"), attributes...)}}
	}
	on := func(axis int, list ...msg) foundCase { return foundCase{axis, list} }
	keep, drop := intAttr("keepdims", 1), intAttr("keepdims", 0)
	along := intAttr("axis", 1)
	first := node("Gather", names("v", "zero"), names("m"))
	cases := []foundCase{
		relu("Softmax", 1, along), relu("LogSoftmax", 1, along), relu("Hardmax", 1, along), relu("Hardmax", 2, along),
		relu("LpNormalization", 1, along), relu("LpNormalization", 2, along, intAttr("p", 1)),
		relu("MeanVarianceNormalization", 1, intsAttr("axes", 0, 1)),
		relu("MeanVarianceNormalization", 1, intsAttr("axes", 2)),
		relu("Transpose", 1), relu("Transpose", 2, intsAttr("perm", 2, 0, 1)),
		relu("GlobalAveragePool", 2), relu("GlobalMaxPool", 2), relu("GlobalLpPool", 0),
		relu("ArgMax", 1, along, intAttr("select_last_index", 1)), relu("ArgMin", 1, along, drop),
		relu("Shape", 1), relu("Size", 2), relu("Shape", 1, intAttr("start", 2)),
		relu("Flatten", 0), relu("Flatten", 1), relu("Flatten", 2, intAttr("axis", 2)),
		relu("Flatten", 1, intAttr("axis", 2)),
		relu("Einsum", 1, textAttr("equation", "abc->ca")), relu("Einsum", 2, textAttr("equation", "abc->cb")),
		relu("Split", 0, intAttr("axis", 2)),
		on(2, node("InstanceNormalization", names("v", "four", "four"), names("y"))),
		on(0, node("InstanceNormalization", names("v", "four", "four"), names("y"))),
		on(1, node("LayerNormalization", names("v", "one"), names("y"), along)),
		on(1, node("LayerNormalization", names("v", "v", "v"), names("y"), along)),
		on(2, node("RMSNormalization", names("v", "one"), names("y"))),
		on(1, node("RMSNormalization", names("v", "four"), names("y"))),
		on(2, node("BatchNormalization", names("v", "four", "four", "four", "four"), names("y"))),
		on(1, node("MatMul", names("v", "four"), names("y"))),
		on(2, node("Einsum", names("v", "v"), names("y"), textAttr("equation", "abc,adc->abd"))),
		on(2, first, node("Gemm", names("m", "m"), names("y"), intAttr("transB", 1))),
		on(1, first, node("Gemm", names("m", "m"), names("y"), intAttr("transA", 1))),
		on(1, first, node("Gemm", names("m", "w", "two f"), names("y"), intAttr("transB", 1))),
		on(1, node("TopK", names("v", "two"), names("y", "i"), along)),
		on(1, node("TopK", names("v", "two"), names("i", "y"), along, intAttr("largest", 0))),
		on(2, node("TopK", names("v", "two"), names("y", "i"), along)),
		on(1, node("CumSum", names("v", "at1"), names("y"), intAttr("reverse", 1))),
		on(1, node("CumProd", names("v", "at1"), names("y"), intAttr("reverse", 1), intAttr("exclusive", 1))),
		on(1, node("Gather", names("v", "last"), names("y"), along)), on(1, node("Gather", names("v", "last"), names("y"))),
		on(1, node("Concat", names("v", "x", "v"), names("y"), along)),
		on(1, node("Concat", names("v", "v"), names("y"), intAttr("axis", 2))),
		on(1, node("Slice", names("v", "at1", "far", "at1"), names("y"))),
		on(1, node("Slice", names("v", "neg2", "far", "at1"), names("y"))),
		on(1, node("Slice", names("v", "at1", "neg1", "at1"), names("y"))),
		on(1, node("Slice", names("v", "at1", "at2", "at1"), names("y"))),
		on(1, node("Reshape", names("v", "flat"), names("y"))), on(2, node("Reshape", names("v", "flat"), names("y"))),
		on(0, node("Reshape", names("v", "flat"), names("y"))),
		on(1, node("Reshape", names("v", "outside"), names("y"))), on(2, node("Reshape", names("v", "inside"), names("y"))),
		on(1, node("Reshape", names("v", "kept"), names("y"))), on(0, node("Reshape", names("v", "heads"), names("y"))),
		on(1, node("Reshape", names("v", "exact"), names("y"))),
		on(1, node("Add", names("v", "v"), names("s")), node("Mul", names("s", "four"), names("y"))),
		on(1, node("Relu", names("v"), names("r")), node("ReduceMean", names("r", "at1"), names("m"), keep),
			node("Sub", names("v", "m"), names("y"))),
		on(1, node("Sign", names("v"), names("s")), node("Cast", names("s"), names("i"), intAttr("to", int64s)),
			node("ScatterElements", names("x", "i", "v"), names("y"), intAttr("axis", 2))),
		on(1, node("NonZero", names("v"), names("n")), node("Transpose", names("n"), names("i")),
			node("GatherND", names("x", "i"), names("u")), node("ScatterND", names("x", "i", "u"), names("y"))),
		on(1, node("Shape", names("v"), names("s")), node("Expand", names("one", "s"), names("e")),
			node("ConstantOfShape", names("s"), names("z")), node("Add", names("e", "z"), names("f")),
			node("Mul", names("f", "v"), names("y"))),
		on(0, node("Size", names("v"), names("n")), node("Cast", names("n"), names("f"), intAttr("to", float)),
			node("ReduceSum", names("v"), names("s")), node("Div", names("s", "f"), names("y"))),
		on(1, node("Shape", names("v"), names("s")), node("Gather", names("s", "first"), names("n")),
			node("Range", names("zero", "n", "unit"), names("y"))),
		on(2, node("Transpose", names("v"), names("t"), intsAttr("perm", 2, 0, 1)),
			node("Shape", names("t"), names("s")),
			node("Slice", names("s", "none", "at1"), names("n")), node("Concat", names("two", "n", "six"), names("to"),
				intAttr("axis", 0)), node("Reshape", names("v", "to"), names("y"))),
		on(1, node("Cast", names("v"), names("u"), intAttr("to", unsigned)),
			node("ReduceMin", names("u", "at1"), names("l")),
			node("ReduceMax", names("u", "at1"), names("m")), node("Sub", names("m", "l"), names("y"))),
		on(2, node("Greater", names("v", "one"), names("b")), node("Cast", names("b"), names("u"), intAttr("to", 2)),
			node("ReduceMax", names("b", "at2"), names("m")), node("ArgMax", names("u"), names("y"), intAttr("axis", 2),
				intAttr("select_last_index", 1))),
	}
	pads := func(list ...int64) msg { return intsAttr("pads", list...) }
	kernel := func(list ...int64) msg { return intsAttr("kernel_shape", list...) }
	on3 := func(op string, in []string, attributes ...msg) foundCase {
		return on(2, node(op, append(names("v"), in...), names("y"), attributes...))
	}
	cases = append(cases,
		on(1, node("Tile", names("v", "repeats"), names("y"))), on(2, node("Tile", names("v", "repeats"), names("y"))),
		on(1, node("Pad", names("v", "pads"), names("y"))), on(2, node("Pad", names("v", "pads", "half"), names("y"))),
		on(1, node("Pad", names("v", "pads"), names("y"), textAttr("mode", "edge"))),
		on(2, node("Pad", names("v", "pads"), names("y"), textAttr("mode", "wrap"))),
		on(1, node("Pad", names("v", "pads"), names("y"), textAttr("mode", "reflect"))),
		on(2, node("Pad", names("v", "cuts"), names("y"))),
		on(2, node("Pad", names("v", "cuts"), names("y"), textAttr("mode", "wrap"))),
		on(1, node("Unique", names("v"), names("y"))),
		on(2, node("Unique", names("v"), names("y"), intAttr("axis", 2))),
		on(1, node("Unique", names("v"), names("", "y"))),
		on(2, node("Unique", names("v"), names("", "", "y"), intAttr("sorted", 0))),
		on(1, node("Unique", names("v"), names("", "", "", "y"))),
		on(2, node("GroupNormalization", names("v", "four", "four"), names("y"), intAttr("num_groups", 2))),
		on(0, node("GroupNormalization", names("v", "four", "four"), names("y"), intAttr("num_groups", 2))),
		on(1, node("Trilu", names("v"), names("y"))),
		on3("Conv", names("k3"), pads(1, 1)), on3("Conv", names("k3", "two f"), intsAttr("strides", 2), pads(0, 2)),
		on3("Conv", names("k3"), textAttr("auto_pad", "SAME_UPPER")),
		on3("ConvTranspose", names("k4", "two f"), intsAttr("strides", 2), pads(1, 0), intsAttr("output_padding", 1)),
		on3("MaxPool", nil, kernel(2)), on3("MaxPool", nil, kernel(3), pads(1, 1), intsAttr("strides", 2)),
		on3("MaxPool", nil, kernel(2), intsAttr("strides", 2), intAttr("ceil_mode", 1)),
		on3("AveragePool", nil, kernel(2), pads(1, 1)),
		on3("AveragePool", nil, kernel(2), pads(1, 1), intAttr("count_include_pad", 1)),
		on3("AveragePool", nil, kernel(2), intsAttr("strides", 2), intAttr("ceil_mode", 1)),
		on3("LpPool", nil, kernel(2), pads(0, 1)),
		on(2, node("Unsqueeze", names("v", "at1"), names("u")),
			node("AveragePool", names("u"), names("y"), kernel(2, 2), pads(1, 0, 0, 1))),
		on(0, node("MaxPool", names("v"), names("y"), kernel(2))),
		on(0, node("ReduceSum", names("v", "at2"), names("b"), drop),
			node("ReduceMax", names("b", "at1"), names("m"), drop),
			node("Cast", names("m"), names("i"), intAttr("to", int64s)),
			node("Sub", names("i", "i"), names("z")), node("Unsqueeze", names("x", "none"), names("u")),
			node("RoiAlign", names("u", "b", "z"), names("y"), intAttr("sampling_ratio", 2),
				intAttr("output_height", 2))),
	)
	cases = append(cases, picturesFound()...)
	cases = append(cases, othersFound()...)
	for _, op := range []string{"Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"} {
		cases = append(cases, on(1, node("Reduce"+op, names("v", "at1"), names("y"), drop)),
			on(1, node("Reduce"+op, names("v", "at2"), names("y"))),
			on(2, node("Reduce"+op, names("v"), names("y"), keep)))
	}
	return cases
}

// picturesFound are cases of ops on pictures, of which a run finds the rows, columns, channels or pictures.
func picturesFound() []foundCase {
	var cases []foundCase
	for axis := range 3 { // of [1,3,4,4]
		on := func(op string, in []string, attributes ...msg) {
			cases = append(cases, foundCase{axis, []msg{node("Unsqueeze", names("v", "none"), names("u")),
				node(op, in, names("y"), attributes...)}})
		}
		for _, mode := range []string{"nearest", "linear", "cubic"} {
			on("Resize", names("u", "", "scales"), textAttr("mode", mode))
		}
		on("Resize", names("u", "", "scales"), textAttr("mode", "linear"),
			textAttr("coordinate_transformation_mode", "align_corners"))
		on("Resize", names("u", "", "", "sizes"), textAttr("mode", "linear"), intsAttr("axes", 2, 3))
		on("Resize", names("u", "ends", "", "sizes"), textAttr("mode", "linear"), intsAttr("axes", 2, 3),
			textAttr("coordinate_transformation_mode", "tf_crop_and_resize"))
		on("Resize", names("u", "roi", "units"), textAttr("mode", "linear"),
			textAttr("coordinate_transformation_mode", "tf_crop_and_resize"))
		for _, mode := range []string{"zeros", "border", "reflection"} {
			on("GridSample", names("u", "grid"), textAttr("padding_mode", mode))
			on("GridSample", names("u", "grid"), textAttr("padding_mode", mode), intAttr("align_corners", 1),
				textAttr("mode", "nearest"))
		}
		on("RoiAlign", names("u", "regions", "images"), intAttr("output_height", 2), intAttr("output_width", 2))
		on("RoiAlign", names("u", "regions", "images"), intAttr("output_width", 2), textAttr("mode", "max"))
		on("RoiAlign", names("u", "regions", "images"), intAttr("sampling_ratio", 1))
		on("MaxRoiPool", names("u", "boxes"), intsAttr("pooled_shape", 2, 2))
		if axis > 0 {
			on("LRN", names("u"), intAttr("size", 3))
		}
		for i := range int64(2) { // with indices, in both orders
			cases = append(cases, foundCase{axis, []msg{node("Unsqueeze", names("v", "none"), names("u")),
				node("MaxPool", names("u"), names("m", "y"), intsAttr("kernel_shape", 2, 2),
					intAttr("storage_order", i))}})
		}
	}
	depth := []msg{node("Transpose", names("v"), names("t"), intsAttr("perm", 2, 0, 1)),
		node("Unsqueeze", names("t", "none"), names("u")),
		node("DepthToSpace", names("u"), names("y"), intAttr("blocksize", 2))} // [1,4,3,4] to [1,1,6,8]
	return append(cases,
		foundCase{2, []msg{node("MaxPool", names("v"), names("p", "i"), intsAttr("kernel_shape", 2)),
			node("MaxUnpool", names("p", "i"), names("y"), intsAttr("kernel_shape", 2))}},
		foundCase{2, []msg{node("AveragePool", names("v"), names("y"), intsAttr("kernel_shape", 2),
			intsAttr("strides", 2), intsAttr("pads", 1, 0), intAttr("ceil_mode", 1), intAttr("count_include_pad", 1))}},
		foundCase{0, depth}, foundCase{1, depth},
		foundCase{1, append(slices.Clone(depth[:2]),
			node("DepthToSpace", names("u"), names("d"), intAttr("blocksize", 2)),
			node("SpaceToDepth", names("d"), names("y"), intAttr("blocksize", 2)))},
		foundCase{1, []msg{node("Shape", names("v"), names("s")), node("Resize", names("x", "", "", "s"), names("y"),
			textAttr("mode", "linear"))}},
		foundCase{1, []msg{node("Shape", names("v"), names("s")), node("Mul", names("s", "two"), names("t")),
			node("Resize", names("v", "", "", "t"), names("y"), textAttr("mode", "cubic"))}},
		foundCase{1, []msg{node("Shape", names("v"), names("s")), node("Slice", names("s", "at1", "at2"), names("n")),
			node("Concat", names("at1", "at1", "six", "n"), names("t"), intAttr("axis", 0)),
			node("AffineGrid", names("theta", "t"), names("y"))}},
		foundCase{0, []msg{node("Slice", names("v", "none2", "two three", "at12"), names("t")),
			node("AffineGrid", names("t", "grids"), names("g")), node("Unsqueeze", names("v", "at1"), names("u")),
			node("GridSample", names("u", "g"), names("y"))}})
}

// othersFound are cases of other ops.
func othersFound() []foundCase {
	on := func(axis int, list ...msg) foundCase { return foundCase{axis, list} }
	return []foundCase{
		on(1, node("Identity", names("v"), names("y"))), on(1, node("Dropout", names("v"), names("y"))),
		on(1, node("Optional", names("v"), names("o")), node("OptionalGetElement", names("o"), names("y"))),
		on(1, node("SequenceConstruct", names("x", "v"), names("s")),
			node("SequenceAt", names("s", "first"), names("y"))),
		on(1, node("Gather", names("v", "zero"), names("m"), intAttr("axis", 2)),
			node("EyeLike", names("m"), names("y"), intAttr("k", 1))),
		on(1, node("Shape", names("v"), names("s")), node("Expand", names("v", "s"), names("y"))),
		on(1, node("Unsqueeze", names("v", "none"), names("u")), node("Expand", names("u", "repeated"), names("y"))),
		on(0, node("Det", names("v"), names("y"))),
		on(0, node("ReverseSequence", names("v", "lengths"), names("y"), intAttr("batch_axis", 1),
			intAttr("time_axis", 0))),
		on(1, node("CenterCropPad", names("v", "six"), names("y"), intsAttr("axes", 2))),
		on(1, node("Unsqueeze", names("v", "neg1"), names("u")), node("DFT", names("u", "", "last axis"), names("y"))),
		on(1, node("QuantizeLinear", names("v", "tenth"), names("q")),
			node("DequantizeLinear", names("q", "tenth"), names("y"))),
		on(1, node("QuantizeLinear", names("v", "four", "fours"), names("q"), intAttr("axis", 2)),
			node("DequantizeLinear", names("q", "four", "fours"), names("y"), intAttr("axis", 2))),
		on(1, node("DynamicQuantizeLinear", names("v"), names("q", "y", "z"))),
		on(1, node("DynamicQuantizeLinear", names("v"), names("q", "s", "z")),
			node("MatMulInteger", names("q", "bytes"), names("y"))),
		on(1, of("com.microsoft", node("FastGelu", names("v", "four"), names("y")))),
	}
}

// foundCase has nodes that compute y from v, the part of x [3,4,4] that a condition selects along an axis.
type foundCase struct {
	axis  int
	nodes []msg
}

// foundKeep has the conditions by axis.
var foundKeep = [][]byte{{1, 0, 1}, {1, 0, 1, 1}, {0, 1, 1, 1}}

// foundConstants are the constants that cases use.
func foundConstants() []part {
	list := weights(floats("one", []float32{2}, 1), floats("two f", []float32{5, 6}, 2),
		floats("four", []float32{1, 2, 3, 4}, 4), floats("w", []float32{1, 2, 3, 4, 5, 6, 7, 8}, 2, 4),
		ints("zero", []int64{0}),
		ints("first", []int64{1}), ints("unit", []int64{1}), ints("none", []int64{0}, 1), ints("six", []int64{6}, 1),
		ints("two", []int64{2}, 1), ints("at1", []int64{1}, 1), ints("at2", []int64{2}, 1),
		ints("repeats", []int64{1, 3, 2}, 3), ints("pads", []int64{0, 1, 1, 1, 1, 0}, 6),
		ints("cuts", []int64{0, 0, -1, 0, 2, 2}, 6), floats("half", []float32{0.5}),
		floats("k3", countedUp(24), 2, 4, 3), floats("k4", countedUp(24), 4, 2, 3),
		ints("far", []int64{1 << 40}, 1), ints("neg1", []int64{-1}, 1), ints("neg2", []int64{-2}, 1),
		ints("last", []int64{-1, 0}, 2), ints("flat", []int64{-1}, 1), ints("outside", []int64{4, -1}, 2),
		ints("inside", []int64{0, 2, -1}, 3), ints("kept", []int64{3, 0, 2, -1}, 4),
		ints("heads", []int64{0, 0, -1, 2}, 4),
		ints("exact", []int64{3, 3, 2, 2}, 4),
		floats("scales", []float32{1, 1, 2, 1.5}, 4), ints("sizes", []int64{5, 3}, 2),
		floats("ends", []float32{0.25, 0, 1.5, 0.75}, 4), floats("units", []float32{1, 1, 1, 1}, 4),
		floats("roi", []float32{0, 0, 0.25, 0.125, 1, 1, 0.875, 0.5}, 8),
		floats("grid", []float32{-1, 0.5, 0.2, -0.7, 1.1, 0.9, -1.8, 1}, 1, 2, 2, 2), floats("tenth", []float32{0.1}),
		floats("regions", []float32{-0.5, 0.2, 3, 2.5, 1, 1, 2, 7}, 2, 4), ints("images", []int64{0, 0}, 2),
		floats("boxes", []float32{0, 0, 0, 2, 1, 0, 1, 1, 5, 2}, 2, 5),
		floats("theta", []float32{1, 0.5, 0, -0.5, 1, 0.25}, 1, 2, 3), ints("repeated", []int64{2, 1, 1, 4}, 4),
		ints("lengths", []int64{2, 1, 2, 0}, 4), ints("last axis", []int64{2}),
		ints("none2", []int64{0, 0}, 2), ints("two three", []int64{2, 3}, 2), ints("at12", []int64{1, 2}, 2),
		ints("grids", []int64{2, 1, 3, 2}, 4),
		bytesOf("fours", 2, []byte{1, 2, 3, 4}, 4), bytesOf("bytes", 2, []byte{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2))
	for axis, keep := range foundKeep {
		list = append(list, weights(tensorOf(fmt.Sprint("keep", axis), boolean, []int64{int64(len(keep))}).
			bytes(9, keep))...)
	}
	return list
}

// foundPorts are the input x, and foundInput is its value.
func foundPorts() []part { return inputs(port("x", float, 3, 4, 4)) }

func foundInput(t *testing.T) *ir.Data {
	t.Helper()
	var x []float64
	for i := range 48 {
		x = append(x, float64(i*7%13)/4-1)
	}
	return f32(t, x, 3, 4, 4)
}

// found returns the nodes after the one that finds v.
func (c foundCase) found() []part {
	return nodes(append([]msg{node("Compress", names("x", fmt.Sprint("keep", c.axis)), names("v"),
		intAttr("axis", int64(c.axis)))}, c.nodes...)...)
}

// whole runs the nodes on an input that has only the valid elements.
func (c foundCase) whole(t *testing.T) *ir.Data {
	t.Helper()
	keep, size, x := foundKeep[c.axis], []int{3, 4, 4}, foundInput(t)
	size[c.axis] = bytes.Count(keep, []byte{1})
	all, err := x.Floats()
	if err != nil {
		t.Fatal(err)
	}
	var v []float64
	for i, e := range all {
		if keep[[]int{i / 16, i / 4 % 4, i % 4}[c.axis]] == 1 {
			v = append(v, e)
		}
	}
	ports := append(foundPorts(), inputs(port("v", float, size[0], size[1], size[2]))...)
	return foundResult(t, ports, nodes(c.nodes...), map[string]*ir.Data{"x": x, "v": f32(t, v, size...)})
}

// foundResult computes y of nodes, trimmed.
func foundResult(t *testing.T, ports, list []part, in map[string]*ir.Data) *ir.Data {
	t.Helper()
	f := built(t, model(24, graph(ports, foundConstants(), list, outputs("y"))), onnx.Options{})
	out := run(t, f, in)
	if err := f.Graph.OutputInfo().Trim(out); err != nil {
		t.Fatal(err)
	}
	return out["y"]
}

// TestFoundAsWhole compares nodes on what a run finds with the same nodes on an input that has only the valid elements.
func TestFoundAsWhole(t *testing.T) {
	for i, c := range foundCases() {
		t.Run(fmt.Sprint(i, " ", c.axis), func(t *testing.T) {
			is(t, foundResult(t, foundPorts(), c.found(), map[string]*ir.Data{"x": foundInput(t)}), c.whole(t))
		})
	}
}

// TestFoundOnDevices computes a case of each op in one program.
func TestFoundOnDevices(t *testing.T) {
	title := regexp.MustCompile(`the \w+`)
	cases := pairs.Cover(foundCases(), func(c foundCase) (ops []string) {
		for _, n := range c.nodes {
			ops = append(ops, title.FindString(string(n)))
		}
		return ops
	})
	lists := map[string][]part{}
	for i, c := range cases {
		lists[fmt.Sprint(i)] = c.found()
	}
	m, y := together(24, foundPorts(), foundConstants(), lists)
	in := map[string]*ir.Data{"x": foundInput(t)}
	runOnEach(t, built(t, m, onnx.Options{}), in, func(t *testing.T, out map[string]*ir.Data) {
		for i, c := range cases {
			t.Run(fmt.Sprint(i, " ", c.axis), func(t *testing.T) { is(t, out[y[fmt.Sprint(i)]], c.whole(t)) })
		}
	})
}

// countedUp is 0, 1, 2 and so on.
func countedUp(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(i)
	}
	return out
}

// TestFoundRefused names the ops that need the number of elements before a run.
func TestFoundRefused(t *testing.T) {
	kernel := intsAttr("kernel_shape", 2)
	for want, n := range map[string]msg{
		"auto_pad needs the number": node("MaxPool", names("v"), names("y"), kernel, intsAttr("strides", 2),
			textAttr("auto_pad", "SAME_UPPER")),
		"output_shape and auto_pad":                               node("ConvTranspose", names("v", "k4"), names("y"), intsAttr("output_shape", 9)),
		`axis 2 of "v" has an extent that is known only in a run`: node("Conv", names("x", "v"), names("y")),
	} {
		m := model(24, graph(foundPorts(), foundConstants(), foundCase{2, []msg{n}}.found(), outputs("y")))
		if _, err := onnx.NewReader(m, onnx.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestFoundMismatch runs nodes on numbers of elements for which ONNX defines no result.
func TestFoundMismatch(t *testing.T) {
	for name, c := range map[string]msg{
		"add":         node("Add", names("v", "three"), names("y")),
		"contraction": node("MatMul", names("v", "three"), names("y")),
		"top k":       node("TopK", names("v", "two"), names("y", "i")),
		"gather":      node("Gather", names("v", "at"), names("y")),
		"reshape":     node("Reshape", names("v", "even"), names("y")),
		"exact":       node("Reshape", names("v", "pair"), names("y")),
		"other count": node("Add", names("v", "u"), names("y")),
		"reflection":  node("Pad", names("v", "pads"), names("y"), textAttr("mode", "reflect")),
	} {
		m := model(18, graph(inputs(port("x", float, 3)), weights(floats("three", []float32{1, 2, 3}, 3),
			ints("two", []int64{2}, 1), ints("at", []int64{1}), ints("even", []int64{2, -1}, 2),
			ints("pair", []int64{2}, 1), ints("pads", []int64{1, 0}, 2)),
			nodes(node("Cast", names("x"), names("b"), intAttr("to", boolean)),
				node("Compress", names("x", "b"), names("v"), intAttr("axis", 0)),
				node("Greater", names("x", "three"), names("g")),
				node("Compress", names("x", "g"), names("u"), intAttr("axis", 0)), c), outputs("y")))
		f := built(t, m, onnx.Options{})
		for _, right := range []bool{true, false} {
			x := []float64{7, 0, 0}
			if right { // as many elements as the nodes take
				x = map[string][]float64{"top k": {5, 0, 6}, "gather": {5, 0, 6}, "reshape": {5, 0, 6},
					"exact":       {5, 0, 6},
					"other count": {7, 8, 0}}[name]
				if x == nil {
					x = []float64{1, 2, 3}
				}
			} else if name == "other count" {
				x[1] = 1
			}
			err := f.Graph.OutputInfo().Trim(run(t, f, map[string]*ir.Data{"x": f32(t, x, 3)}))
			if right != (err == nil) || err != nil && !strings.Contains(err.Error(), "another number of elements") {
				t.Errorf("%s of %v: error %v", name, x, err)
			}
		}
	}
}

// TestMustNotBeFound has nodes with an input that a run finds, where it must not be found. Each is an error that says
// so.
func TestMustNotBeFound(t *testing.T) {
	compressed := func(of, to string, axis int64) msg {
		return node("Compress", names(of, "keep"), names(to), intAttr("axis", axis))
	}
	for name, list := range map[string][]msg{
		"indices of MaxUnpool": {compressed("i", "j", 2),
			node("MaxUnpool", names("x", "j"), names("y"), intsAttr("kernel_shape", 2))},
		"coordinates of GatherND": {compressed("i", "j", 2), node("GatherND", names("x", "j"), names("y"))},
		"proportions of Resize": {compressed("x", "v", 2), node("Resize", names("v", "", "", "sizes"), names("y"),
			textAttr("keep_aspect_ratio_policy", "not_larger"))},
	} {
		t.Run(name, func(t *testing.T) {
			m := model(18, graph(inputs(port("x", float, 2, 2, 5), port("i", int64s, 2, 2, 5),
				port("keep", boolean, 2)), weights(ints("sizes", []int64{2, 2, 7}, 3)), nodes(list...),
				outputs("y")))
			if _, err := onnx.NewReader(m, onnx.Options{}); err == nil || !strings.Contains(err.Error(), "in a run") {
				t.Errorf("error %v", err)
			}
		})
	}
}
