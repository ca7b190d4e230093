package onnx_test

import (
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// TestNothingIsLeftOut builds nodes with attributes, inputs and results that their rows do not support. The errors have
// the node, the op, the unsupported part and a hint.
func TestNothingIsLeftOut(t *testing.T) {
	x := inputs(port("x", float, 2, 2))
	fn := msg{}.text(1, "Double").text(4, "a").text(5, "b").text(6, "by").text(10, "own").
		bytes(7, node("Add", names("a", "a"), names("b"))).bytes(9, msg{}.int(2, 13))
	own := func(n msg) msg { return n.text(7, "own") }
	const todo = "remove the attribute if the result is the same without it, or replace the node"
	for name, c := range map[string]struct {
		node msg
		want []string // nil if it must build
	}{
		"an integer": {node("Relu", names("x"), names("y"), intAttr("alpha", 3)),
			[]string{"the Relu (Relu)", "attribute alpha, which is 3,", todo}},
		"a float": {node("Abs", names("x"), names("y"), floatAttr("scale", 0.5)), []string{"attribute scale, which is 0.5,"}},
		"a text": {node("Add", names("x", "x"), names("y"), textAttr("mode", "wrap")),
			[]string{`attribute mode, which is "wrap",`}},
		"many numbers": {node("MatMul", names("x", "x"), names("y"), intsAttr("axes", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
			[]string{"attribute axes, which is [1,2,3,4,5,6,7,8] and 2 more,"}},
		"a graph": {node("Exp", names("x"), names("y"), graphAttr("body", graph(outputs("x")))),
			[]string{"attribute body, which is a graph,"}},
		"an attribute of another op": {node("ReduceMax", names("x"), names("y"), intAttr("select_last_index", 1)),
			[]string{"attribute select_last_index, which is 1,"}},
		"with a default as value":                {node("Relu", names("x"), names("y"), intAttr("axis", 0)), []string{"attribute axis,"}},
		"what an op says that vkc need not know": {node("TopK", names("x", "one"), names("y", "i"), intAttr("sorted", 0)), nil},
		"an input":                               {node("Relu", names("x", "x"), names("y")), []string{"it has input 1, x,", "remove the input"}},
		"an input past one that is left out":     {node("Conv", names("x4", "w", "", "x"), names("y")), []string{"input 3, x,"}},
		"a result":                               {node("Relu", names("x"), names("z", "y")), []string{"its result 1, y, is used", "only 1 results"}},
		"a result that nothing reads":            {node("Relu", names("x"), names("y", "z")), nil},
		"an attribute that a function does not have": {own(node("Double", names("x"), names("y"), intAttr("to", 1))),
			[]string{"attribute to, which is 1, but the model's function"}},
		"an attribute that a function has": {own(node("Double", names("x"), names("y"), intAttr("by", 1))), nil},
		"an input that a function does not take": {own(node("Double", names("x", "x"), names("y"))),
			[]string{"it has 2 inputs, but the model's function of this name takes 1"}},
		"a result that a function does not make": {own(node("Double", names("x"), names("z", "y"))),
			[]string{"its result 1, y, is used"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := model(13, graph(append(x, inputs(port("x4", float, 1, 1, 2, 2))...),
				weights(ints("one", []int64{1}, 1), floats("w", []float32{1}, 1, 1, 1, 1)), nodes(c.node),
				outputs("y")), fn)
			_, err := onnx.NewReader(m, onnx.Options{})
			if c.want == nil && err != nil || c.want != nil && err == nil {
				t.Fatalf("error %v", err)
			}
			for _, text := range c.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not in the error:\n%v", text, err)
				}
			}
		})
	}
	// The hint of old opsets at memory, and of no other.
	hinted := node("Relu", names("x"), names("y"), intsAttr("consumed_inputs", 0))
	for opset, right := range map[int64]bool{5: true, 6: false} {
		_, err := onnx.NewReader(model(opset, graph(x, nodes(hinted), outputs("y"))), onnx.Options{})
		if right != (err == nil) {
			t.Errorf("opset %d with consumed_inputs: error %v", opset, err)
		}
	}
}

// TestShapesLeaveNothingOut computes with symbolic extents, using attributes that change the result.
func TestShapesLeaveNothingOut(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []msg // of the shape s = [N,3], to the shape of y
		fails bool
	}{
		"concat":              {[]msg{node("Concat", names("s"), names("t"), intAttr("axis", -1))}, false},
		"concat of axis 1":    {[]msg{node("Concat", names("s", "s"), names("t"), intAttr("axis", 1))}, true},
		"gather of axis 1":    {[]msg{node("Gather", names("s", "zero"), names("t"), intAttr("axis", 1))}, true},
		"product of axis 1":   {[]msg{node("ReduceProd", names("s", "one"), names("t"))}, true},
		"squeeze of axis 1":   {[]msg{node("Gather", names("s", "zero"), names("n")), node("Squeeze", names("n", "one"), names("t"))}, true},
		"unsqueeze to axis 1": {[]msg{node("Size", names("x"), names("n")), node("Unsqueeze", names("n", "one"), names("t"))}, true},
	} {
		list := append([]msg{node("Shape", names("x"), names("s"))}, c.nodes...)
		list = append(list, node("Expand", names("fill", "t"), names("y")))
		m := model(18, graph(inputs(port("x", float, "N", 3)), weights(ints("zero", []int64{0}, 1),
			ints("one", []int64{1}, 1), floats("fill", []float32{1})), nodes(list...), outputs("y")))
		if _, err := onnx.NewReader(m, onnx.Options{}); c.fails != (err != nil) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

const f8e4m3, f8e5m2 = 17, 19

// TestFloatsOf8Bits converts to them as ONNX's tables say, with and without saturation: directly, by the type of
// another tensor, and divided by a scale.
func TestFloatsOf8Bits(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	values := []float64{0.3, 3.3, 460, 470, -60000, 70000, inf, -inf, nan}
	for _, c := range []struct {
		to       int64
		saturate int64
		want     []float64
	}{
		{f8e4m3, 1, []float64{0.3125, 3.25, 448, 448, -448, 448, 448, -448, nan}},
		{f8e4m3, 0, []float64{0.3125, 3.25, 448, nan, nan, nan, nan, nan, nan}},
		{f8e5m2, 1, []float64{0.3125, 3.5, 448, 448, -57344, 57344, 57344, -57344, nan}},
		{f8e5m2, 0, []float64{0.3125, 3.5, 448, 448, -57344, inf, inf, -inf, nan}},
	} {
		for name, list := range map[string][]msg{
			"Cast": {node("Cast", names("x"), names("q"), intAttr("to", c.to), intAttr("saturate", c.saturate))},
			"Cast of float16": {node("Cast", names("x"), names("h"), intAttr("to", 10)),
				node("Cast", names("h"), names("q"), intAttr("to", c.to), intAttr("saturate", c.saturate))},
			"CastLike": {node("CastLike", names("x", "like"), names("q"), intAttr("saturate", c.saturate))},
			"QuantizeLinear": {node("Mul", names("x", "two"), names("d")),
				node("QuantizeLinear", names("d", "two", "like"), names("q"), intAttr("saturate", c.saturate))},
			"QuantizeLinear by output_dtype": {node("Mul", names("x", "two"), names("d")),
				node("QuantizeLinear", names("d", "two"), names("q"), intAttr("output_dtype", c.to),
					intAttr("saturate", c.saturate))},
		} {
			m := model(21, graph(inputs(port("x", float, len(values))),
				weights(tensorOf("like", c.to, nil).bytes(9, []byte{0}), floats("two", []float32{2})),
				nodes(append(list, node("Cast", names("q"), names("y"), intAttr("to", float)))...), outputs("y")))
			x, want := map[string]*ir.Data{"x": f32(t, values, len(values))}, f32(t, c.want, len(values))
			if err := onnx.Compare(run(t, built(t, m, onnx.Options{}), x)["y"], want, 0, 0); err != nil {
				t.Errorf("%s to %d, saturate %d: %v", name, c.to, c.saturate, err)
			}
			if err := onnx.Compare(run(t, built(t, m, onnx.Options{Inputs: x}), nil)["y"], want, 0, 0); err != nil {
				t.Errorf("%s of a constant to %d, saturate %d: %v", name, c.to, c.saturate, err)
			}
		}
	}
	// By default both saturate.
	for _, to := range []int64{f8e4m3, f8e5m2} {
		for _, n := range []msg{node("Cast", names("x"), names("q"), intAttr("to", to)),
			node("CastLike", names("x", "like"), names("q")),
			node("QuantizeLinear", names("x", "one", "like"), names("q"))} {
			m := model(21, graph(inputs(port("x", float, 1)), weights(tensorOf("like", to, nil).bytes(9, []byte{0}),
				floats("one", []float32{1})), nodes(n, node("Cast", names("q"), names("y"), intAttr("to", float))),
				outputs("y")))
			x := map[string]*ir.Data{"x": f32(t, []float64{1e6}, 1)}
			got, err := run(t, built(t, m, onnx.Options{}), x)["y"].Floats()
			if want := map[int64]float64{f8e4m3: 448, f8e5m2: 57344}[to]; err != nil || got[0] != want {
				t.Errorf("1e6 to %d is %v, %v, want %v", to, got, err, want)
			}
		}
	}
}

// TestQuantizedBits takes the types of quantized and dequantized values from attributes, and of the division.
func TestQuantizedBits(t *testing.T) {
	quantize := func(attributes ...msg) msg {
		return node("QuantizeLinear", names("x", "s"), names("q"), attributes...)
	}
	back := node("Cast", names("q"), names("y"), intAttr("to", float))
	m := func(list ...msg) []byte {
		half := tensorOf("h", 10, nil).bytes(9, []byte{0x00, 0x38}) // 0.5
		return model(25, graph(inputs(port("x", float, 3)), weights(floats("s", []float32{0.5}), half,
			tensorOf("z", 5, nil).bytes(9, []byte{0xe8, 0x03})), nodes(list...), outputs("y"))) // int16 1000
	}
	x := []float64{-1, 100.3, 20000}
	for name, c := range map[string]struct {
		list []msg
		want []float64
	}{
		"uint8 by default":   {[]msg{quantize(), back}, []float64{0, 201, 255}},
		"a type of 0":        {[]msg{quantize(intAttr("output_dtype", 0)), back}, []float64{0, 201, 255}},
		"int16":              {[]msg{quantize(intAttr("output_dtype", 5)), back}, []float64{-2, 201, 32767}},
		"around 1000":        {[]msg{node("QuantizeLinear", names("x", "s", "z"), names("q")), back}, []float64{998, 1201, 32767}},
		"divided in float16": {[]msg{quantize(intAttr("output_dtype", 5), intAttr("precision", 10)), back}, []float64{-2, 201, 32767}},
		"around 1000 of float16": {[]msg{node("Cast", names("x"), names("c"), intAttr("to", 10)),
			node("QuantizeLinear", names("c", "h", "z"), names("q")), back}, []float64{998, 1201, 32767}},
	} {
		got := run(t, built(t, m(c.list...), onnx.Options{}), map[string]*ir.Data{"x": f32(t, x, 3)})["y"]
		if err := onnx.Compare(got, f32(t, c.want, 3), 0, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := built(t, m(quantize(intAttr("output_dtype", 5)), node("DequantizeLinear", names("q", "s"), names("y"),
		intAttr("output_dtype", 10))), onnx.Options{})
	if got := run(t, f, map[string]*ir.Data{"x": f32(t, x, 3)})["y"]; got.DType != ir.F16 {
		t.Errorf("dequantized to float16 it is %s", got)
	}
	two := node("QuantizeLinear", names("x", "s", "z"), names("q"), intAttr("output_dtype", 2))
	_, err := onnx.NewReader(m(two, back), onnx.Options{})
	if err == nil || !strings.Contains(err.Error(), "output_dtype is uint8, and the zero point is int16") {
		t.Errorf("two types: error %v", err)
	}
}

// TestTransforms goes to frequencies and back, with all of them and with the half that real numbers need.
func TestTransforms(t *testing.T) {
	dft := func(in, out string, attributes ...msg) msg {
		return node("DFT", names(in, "", "axis"), names(out), attributes...)
	}
	half, inverse := intAttr("onesided", 1), intAttr("inverse", 1)
	length := node("DFT", names("f", "n", "axis"), names("y"), half, inverse)
	for name, c := range map[string]struct {
		n    int // of the elements
		list []msg
		want []float64
	}{
		"even":              {6, []msg{dft("x", "f", half), dft("f", "y", half, inverse)}, countUp(6)},
		"odd":               {5, []msg{dft("x", "f", half), length}, countUp(5)},
		"fewer frequencies": {6, []msg{dft("x", "f", half), length}, inverseHalf(6, 5)},
	} {
		m := model(20, graph(inputs(port("x", float, 1, c.n, 1)),
			weights(ints("axis", []int64{1}), ints("n", []int64{5})), nodes(c.list...), outputs("y")))
		got := run(t, built(t, m, onnx.Options{}), map[string]*ir.Data{"x": f32(t, countUp(c.n), 1, c.n, 1)})["y"]
		if err := onnx.Compare(got, f32(t, c.want, 1, len(c.want), 1), 1e-5, 1e-5); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, n := range map[string]msg{"of complex numbers": node("DFT", names("z"), names("y"), half),
		"back from real ones": node("DFT", names("x"), names("y"), half, inverse)} {
		m := model(20, graph(inputs(port("x", float, 1, 4, 1), port("z", float, 1, 4, 2)), nodes(n), outputs("y")))
		if _, err := onnx.NewReader(m, onnx.Options{}); err == nil || !strings.Contains(err.Error(), "onesided") {
			t.Errorf("onesided %s: error %v", name, err)
		}
	}
}

// inverseHalf computes the inverse transform of the first half of the frequencies of countUp(n), as length real
// numbers, by the definition.
func inverseHalf(n, length int) []float64 {
	out := make([]float64, length)
	for i := range out {
		for k := range length {
			of, sign := k, 1.0 // frequency k is the conjugate of length-k past the half
			if k > length/2 {
				of, sign = length-k, -1
			}
			for j, x := range countUp(n) {
				in, back := -2*math.Pi*float64(of*j)/float64(n)*sign, 2*math.Pi*float64(k*i)/float64(length)
				out[i] += x * math.Cos(in+back) / float64(length)
			}
		}
	}
	return out
}
