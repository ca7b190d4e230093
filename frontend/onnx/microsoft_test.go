package onnx_test

import (
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// of gives a node a domain.
func of(domain string, n msg) msg { return n.text(7, domain) }

// TestOpsByHand compares ops without tests in ONNX's suite with hand-computed values.
func TestOpsByHand(t *testing.T) {
	const ms = "com.microsoft"
	gelu := func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }
	gelu1 := (1 + math.Tanh(math.Sqrt(2/math.Pi)*1.044715)) / 2 // gelu of 1 by tanh
	scalar := func(v int64) *ir.Data { return &ir.Data{DType: ir.U8, Bytes: []byte{byte(v)}} }
	numbers := func(of ir.DType) func(values ...int64) *ir.Data {
		return func(values ...int64) *ir.Data {
			d, err := ir.FromInts(of, values, len(values))
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	bytes, i32, signed := numbers(ir.U8), numbers(ir.I32), numbers(ir.I8)
	const u8 = 2
	two := floats("b", []float32{1, -1}, 2)
	for name, c := range map[string]struct {
		inputs  []part
		weights []part
		node    msg
		in      map[string]*ir.Data
		want    *ir.Data
	}{
		"BiasGelu": {inputs(port("x", float, 2)), weights(two), of(ms, node("BiasGelu", names("x", "b"), names("y"))),
			map[string]*ir.Data{"x": f32(t, []float64{1, 2}, 2)}, f32(t, []float64{gelu(2), gelu(1)}, 2)},
		"QuickGelu": {inputs(port("x", float, 1)), nil, of(ms, node("QuickGelu", names("x"), names("y"))),
			map[string]*ir.Data{"x": f32(t, []float64{2}, 1)}, f32(t, []float64{2 / (1 + math.Exp(-3.404))}, 1)},
		"FusedMatMul": {inputs(port("x", float, 2, 1)), weights(floats("b", []float32{3, 4}, 2, 1)),
			of(ms, node("FusedMatMul", names("x", "b"), names("y"), intAttr("transA", 1), floatAttr("alpha", 0.5))),
			map[string]*ir.Data{"x": f32(t, []float64{1, 2}, 2, 1)}, f32(t, []float64{5.5}, 1, 1)},
		"SkipLayerNormalization": {inputs(port("x", float, 1, 2)), weights(floats("s", []float32{1, 1}, 1, 2), two),
			of(ms, node("SkipLayerNormalization", names("x", "s", "b"), names("y"))),
			map[string]*ir.Data{"x": f32(t, []float64{0, 2}, 1, 2)}, f32(t, []float64{-1, -1}, 1, 2)},
		"SkipSimplifiedLayerNormalization": {inputs(port("x", float, 1, 2)),
			weights(floats("s", []float32{1, 0}, 1, 2), two),
			of(ms, node("SkipSimplifiedLayerNormalization", names("x", "s", "b"), names("y"))),
			map[string]*ir.Data{"x": f32(t, []float64{0, 7}, 1, 2)}, f32(t, []float64{0.2, -1.4}, 1, 2)},
		"QLinearAdd": { // (12-10)*0.5 + (4-0)*0.25 = 2 and (8-10)*0.5 + 2 = 1, in steps of 0.1 around 3
			inputs(port("x", u8, 2), port("xz", u8, 1), port("b", u8, 2), port("yz", u8, 1)),
			weights(floats("xs", []float32{0.5}), floats("bs", []float32{0.25}), floats("ys", []float32{0.1})),
			of(ms, node("QLinearAdd", names("x", "xs", "xz", "b", "bs", "", "ys", "yz"), names("y"))),
			map[string]*ir.Data{"x": bytes(12, 8), "xz": bytes(10), "b": bytes(4, 8), "yz": bytes(3)}, bytes(23, 13)},
		"AffineGrid": {inputs(port("x", float, 1, 2, 3)), weights(ints("size", []int64{1, 1, 1, 2}, 4)),
			node("AffineGrid", names("x", "size"), names("y")), // x' = 2x+3, y' = y-1, of x = -0.5 and 0.5, y = 0
			map[string]*ir.Data{"x": f32(t, []float64{2, 0, 3, 0, 1, -1}, 1, 2, 3)},
			f32(t, []float64{2, -1, 4, -1}, 1, 1, 2, 2)},
		"Col2Im": {inputs(port("x", float, 1, 2, 3)),
			weights(ints("image", []int64{1, 4}, 2), ints("block", []int64{1, 2}, 2)),
			node("Col2Im", names("x", "image", "block"), names("y")), // windows [1 4], [2 5], [3 6], one apart
			map[string]*ir.Data{"x": f32(t, []float64{1, 2, 3, 4, 5, 6}, 1, 2, 3)},
			f32(t, []float64{1, 6, 8, 6}, 1, 1, 1, 4)},
		"RotaryEmbedding": {inputs(port("x", float, 1, 1, 2, 2)),
			weights(floats("cos", []float32{1, 0}, 2, 1), floats("sin", []float32{0, 1}, 2, 1),
				ints("at", []int64{1, 0}, 1, 2)),
			node("RotaryEmbedding", names("x", "cos", "sin", "at"), names("y")), // a quarter turn, and none
			map[string]*ir.Data{"x": f32(t, []float64{3, 4, 5, 6}, 1, 1, 2, 2)}, f32(t, []float64{-4, 3, 5, 6}, 1, 1, 2, 2)},
		"RotaryEmbedding of heads side by side": {inputs(port("x", float, 1, 1, 4)),
			weights(floats("cos", []float32{0}, 1, 1), floats("sin", []float32{1}, 1, 1), ints("at", []int64{0}, 1)),
			of(ms, node("RotaryEmbedding", names("x", "at", "cos", "sin"), names("y"), intAttr("num_heads", 2))),
			map[string]*ir.Data{"x": f32(t, []float64{1, 2, 3, 4}, 1, 1, 4)}, f32(t, []float64{-2, 1, -4, 3}, 1, 1, 4)},
		// Experimental ops of opset 1, which files of old exporters still have.
		"ScaledTanh": {inputs(port("x", float, 1)), nil,
			node("ScaledTanh", names("x"), names("y"), floatAttr("alpha", 2), floatAttr("beta", 0.5)),
			map[string]*ir.Data{"x": f32(t, []float64{1}, 1)}, f32(t, []float64{2 * math.Tanh(0.5)}, 1)},
		"Affine": {inputs(port("x", float, 1)), nil,
			node("Affine", names("x"), names("y"), floatAttr("alpha", 2), floatAttr("beta", 3)),
			map[string]*ir.Data{"x": f32(t, []float64{1}, 1)}, f32(t, []float64{5}, 1)},
		"Scale": {inputs(port("x", float, 1)), nil, node("Scale", names("x"), names("y"), floatAttr("scale", 3)),
			map[string]*ir.Data{"x": f32(t, []float64{2}, 1)}, f32(t, []float64{6}, 1)},
		"ParametricSoftplus": {inputs(port("x", float, 1)), nil,
			node("ParametricSoftplus", names("x"), names("y"), floatAttr("alpha", 2), floatAttr("beta", 0.5)),
			map[string]*ir.Data{"x": f32(t, []float64{2}, 1)}, f32(t, []float64{2 * math.Log1p(math.E)}, 1)},
		"ConstantFill": {inputs(port("x", float, 1)), nil,
			node("ConstantFill", names("x"), names("y"), floatAttr("value", 4), intsAttr("extra_shape", 2)),
			map[string]*ir.Data{"x": f32(t, []float64{9}, 1)}, f32(t, []float64{4, 4}, 1, 2)},
		"Crop": {inputs(port("x", float, 1, 1, 3, 3)), nil, // the border is left, top, right, bottom
			node("Crop", names("x"), names("y"), intsAttr("border", 1, 0, 0, 2)),
			map[string]*ir.Data{"x": f32(t, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 1, 1, 3, 3)},
			f32(t, []float64{2, 3}, 1, 1, 1, 2)},
		"FC": {inputs(port("x", float, 1, 2)), weights(floats("w", []float32{3, 4, 5, 6}, 2, 2), two),
			node("FC", names("x", "w", "b"), names("y")), // rows of w are outputs
			map[string]*ir.Data{"x": f32(t, []float64{1, 2}, 1, 2)}, f32(t, []float64{12, 16}, 1, 2)},
		"Mish": {inputs(port("x", float, 1)), nil, node("Mish", names("x"), names("y")),
			map[string]*ir.Data{"x": f32(t, []float64{1}, 1)}, f32(t, []float64{math.Tanh(math.Log1p(math.E))}, 1)},
		"ComplexMul": {inputs(port("x", float, 1, 2)), weights(floats("b", []float32{3, -4}, 1, 2)), // (1+2i)(3-4i)
			of(ms, node("ComplexMul", names("x", "b"), names("y"))),
			map[string]*ir.Data{"x": f32(t, []float64{1, 2}, 1, 2)}, f32(t, []float64{11, 2}, 1, 2)},
		"ComplexMulConj": {inputs(port("x", float, 1, 2)), weights(floats("b", []float32{3, -4}, 1, 2)), // (1+2i)(3+4i)
			of(ms, node("ComplexMulConj", names("x", "b"), names("y"))),
			map[string]*ir.Data{"x": f32(t, []float64{1, 2}, 1, 2)}, f32(t, []float64{-5, 10}, 1, 2)},
		"MulInteger": {inputs(port("x", u8, 2), port("xz", u8), port("b", u8, 2)), nil, // no second zero point
			of(ms, node("MulInteger", names("x", "xz", "b"), names("y"))),
			map[string]*ir.Data{"x": bytes(12, 8), "xz": scalar(10), "b": bytes(4, 200)}, i32(8, -400)},
		"ReduceSumInteger": {inputs(port("x", 3, 2)), nil,
			of(ms, node("ReduceSumInteger", names("x"), names("y"), intsAttr("axes", 0), intAttr("keepdims", 1))),
			map[string]*ir.Data{"x": signed(-100, -100)}, i32(-200)},
		"QLinearReduceMean": { // the mean of (12-10)*0.5 and (8-10)*0.5, in steps of 0.1 around 7
			inputs(port("x", u8, 2), port("xz", u8, 1), port("yz", u8, 1)),
			weights(floats("xs", []float32{0.5}), floats("ys", []float32{0.1})),
			of(ms, node("QLinearReduceMean", names("x", "xs", "xz", "ys", "yz"), names("y"), intsAttr("axes", 0),
				intAttr("keepdims", 1))),
			map[string]*ir.Data{"x": bytes(13, 8), "xz": bytes(10), "yz": bytes(7)}, bytes(9)},
		"IsAllFinite": {inputs(port("x", float, 2)), weights(two),
			of(ms, node("IsAllFinite", names("b", "x"), names("y"))),
			map[string]*ir.Data{"x": f32(t, []float64{1, math.Inf(-1)}, 2)},
			&ir.Data{DType: ir.Bool, Bytes: []byte{0}}},
		"RemovePadding and RestorePadding": {inputs(port("x", float, 2, 3, 1), port("n", 6, 2)), nil,
			of(ms, node("RestorePadding", names("rows", "at"), names("y"))),
			map[string]*ir.Data{"x": f32(t, []float64{1, 2, 3, 4, 5, 6}, 2, 3, 1), "n": i32(1, 2)},
			f32(t, []float64{1, 0, 0, 4, 5, 0}, 2, 3, 1)},
		"RelativePositionBias": { // distances 0 and 1 have buckets of their own, and 2 and 3 share one
			inputs(port("x", float, 4, 1)), weights(ints("n", []int64{4}), ints("q", []int64{1})),
			of(ms, node("RelativePositionBias", names("x", "n", "n"), names("y"), intAttr("max_distance", 8))),
			map[string]*ir.Data{"x": f32(t, []float64{10, 20, 30, 40}, 4, 1)},
			f32(t, []float64{10, 10, 10, 10, 20, 10, 10, 10, 30, 20, 10, 10, 30, 30, 20, 10}, 1, 1, 4, 4)},
		"RelativePositionBias of both directions": { // two buckets each, and those of later keys come second
			inputs(port("x", float, 4, 1)), weights(ints("n", []int64{3})),
			of(ms, node("RelativePositionBias", names("x", "n", "n"), names("y"), intAttr("max_distance", 8),
				intAttr("is_bidirectional", 1))),
			map[string]*ir.Data{"x": f32(t, []float64{10, 20, 30, 40}, 4, 1)},
			f32(t, []float64{10, 40, 40, 20, 10, 40, 20, 20, 10}, 1, 1, 3, 3)},
		"GatedRelativePositionBias": { // gates are the sigmoids of 0 and of ln 3: 0.5*(0.75*4-1)+2 = 3
			inputs(port("x", float, 1, 1, 1)), weights(floats("qb", []float32{1}, 1), floats("p", []float32{5}, 1, 1, 1, 1),
				floats("w", []float32{0, float32(math.Log(3))}, 1, 2), floats("wb", []float32{0, 0}, 2),
				floats("a", []float32{4}, 1, 1, 1, 1)),
			of(ms, node("GatedRelativePositionBias", names("x", "qb", "p", "w", "wb", "a"), names("y"), intAttr("num_heads", 1))),
			map[string]*ir.Data{"x": f32(t, []float64{0}, 1, 1, 1)}, f32(t, []float64{15}, 1, 1, 1, 1)},
		"GemmaRotaryEmbedding": {inputs(port("x", float, 1, 1, 2)), weights(floats("q", []float32{3, 4}, 1, 1, 1, 2),
			floats("r", []float32{-4, 3}, 1, 1, 1, 2)),
			of(ms, node("GemmaRotaryEmbedding", names("x", "q", "r", "q", "r"), names("y", "k"))),
			map[string]*ir.Data{"x": f32(t, []float64{0, math.Pi / 2}, 1, 1, 2)}, f32(t, []float64{3, 3}, 1, 1, 1, 2)},
		"BitwiseAnd": {inputs(port("x", u8, 1), port("b", u8, 1)), nil, node("BitwiseAnd", names("x", "b"), names("y")),
			map[string]*ir.Data{"x": bytes(12), "b": bytes(10)}, bytes(8)},
		"BitwiseOr": {inputs(port("x", u8, 1), port("b", u8, 1)), nil, node("BitwiseOr", names("x", "b"), names("y")),
			map[string]*ir.Data{"x": bytes(12), "b": bytes(10)}, bytes(14)},
		"BitwiseXor": {inputs(port("x", u8, 1), port("b", u8, 1)), nil, node("BitwiseXor", names("x", "b"), names("y")),
			map[string]*ir.Data{"x": bytes(12), "b": bytes(10)}, bytes(6)},
		"BitwiseNot": {inputs(port("x", u8, 1)), nil, node("BitwiseNot", names("x"), names("y")),
			map[string]*ir.Data{"x": bytes(12)}, bytes(243)},
		"FastGelu": {inputs(port("x", float, 2)), weights(two), of(ms, node("FastGelu", names("x", "b"), names("y"))),
			map[string]*ir.Data{"x": f32(t, []float64{0, 2}, 2)}, f32(t, []float64{gelu1, gelu1}, 2)},
		"QLinearMul": { // 1 and -1 times 1 and 2, in steps of 0.1 around 30
			inputs(port("x", u8, 2), port("xz", u8, 1), port("b", u8, 2), port("yz", u8, 1)),
			weights(floats("xs", []float32{0.5}), floats("bs", []float32{0.25}), floats("ys", []float32{0.1})),
			of(ms, node("QLinearMul", names("x", "xs", "xz", "b", "bs", "", "ys", "yz"), names("y"))),
			map[string]*ir.Data{"x": bytes(12, 8), "xz": bytes(10), "b": bytes(4, 8), "yz": bytes(30)}, bytes(40, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			list := nodes(c.node)
			if strings.HasPrefix(name, "RemovePadding") {
				remove := node("RemovePadding", names("x", "n"), names("rows", "at", "sums", "most"))
				list = append(nodes(of(ms, remove)), list...)
			}
			f := built(t, model(23, graph(c.inputs, c.weights, list, outputs("y"))), onnx.Options{})
			is(t, run(t, f, c.in)["y"], c.want)
		})
	}
}

// TestGroupsOfColumns multiplies by weights that name the block of each column, which may be anywhere.
func TestGroupsOfColumns(t *testing.T) {
	content := func(block int64, group func(column int64) int64) []byte {
		codes, groups := make([]byte, 32), make([]int64, 64)
		for i := range groups {
			groups[i] = group(int64(i))
			codes[i/2] |= byte(9+i%3) << (i % 2 * 4)
		}
		return model(21, graph(inputs(port("x", float, 1, 64)), weights(bytesOf("w", 2, codes, 1, 64/block, block/2),
			floats("s", []float32{1, 2, 4, 8}[:64/block], 64/block), ints("g64", groups, 64)),
			nodes(node("Cast", names("g64"), names("g"), intAttr("to", 6)), of("com.microsoft", node("MatMulNBits",
				names("x", "w", "s", "", "g"), names("y"), intAttr("K", 64), intAttr("N", 1), intAttr("bits", 4),
				intAttr("block_size", block)))), outputs("y")))
	}
	x := make([]float64, 64)
	for i := range x {
		x[i] = float64(i % 7)
	}
	for name, c := range map[string]struct {
		block int64 // vkc has a format for blocks of 32
		group func(column int64) int64
	}{
		"in order":              {16, func(column int64) int64 { return column / 16 }},
		"act-order":             {16, func(column int64) int64 { return 3 - column%4 }},
		"act-order of a format": {32, func(column int64) int64 { return (column/4 + column) % 2 }},
	} {
		want := 0.0
		content := content(c.block, func(column int64) int64 {
			g := c.group(column)
			want += x[column] * float64(1+column%3) * float64(int64(1)<<g)
			return g
		})
		f := built(t, content, onnx.Options{})
		t.Run(name, func(t *testing.T) {
			is(t, run(t, f, map[string]*ir.Data{"x": f32(t, x, 1, 64)})["y"], f32(t, []float64{want}, 1, 1))
		})
	}
	uneven := content(32, func(column int64) int64 { return min(1, column/8) })
	if _, err := onnx.NewReader(uneven, onnx.Options{}); err == nil || !strings.Contains(err.Error(), "g_idx") {
		t.Errorf("error %v", err)
	}
}
