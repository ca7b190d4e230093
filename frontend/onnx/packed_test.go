package onnx_test

import (
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// TestNumbersOfFourBits dequantizes weights of every type of four bits, written as bytes and as integers, an odd number
// of them too, in blocks of two with a scale and, of integers, a zero point each.
func TestNumbersOfFourBits(t *testing.T) {
	for _, c := range []struct {
		name   string
		elem   int64
		packed string // rows of 2, 2 and 1 elements, the first in the lower half of a byte
		zero   string // of three blocks
		want   []float64
	}{
		{"uint4", 21, "\xf0\x18\x07", "\x21\x00", []float64{-1, 14, 12, -2, 28}},
		{"int4", 22, "\xf0\x18\x07", "\xe1\x00", []float64{-1, -2, -12, 6, 28}},
		{"float4e2m1", 23, "\xf0\x71\x0a", "", []float64{0, -6, 1, 12, -4}},
	} {
		raw := tensorOf("w", c.elem, []int64{1, 5}).bytes(9, []byte(c.packed))
		whole := tensorOf("w", c.elem, []int64{1, 5})
		for _, b := range []byte(c.packed) {
			whole = whole.int(5, int64(b))
		}
		for form, w := range map[string]msg{"raw": raw, "int32": whole} {
			list, in := []msg{w, floats("s", []float32{1, 2, 4}, 1, 3)}, names("w", "s")
			if c.zero != "" {
				list = append(list, tensorOf("z", c.elem, []int64{1, 3}).bytes(9, []byte(c.zero)))
				in = names("w", "s", "z")
			}
			m := model(23, graph(inputs(port("x", float, 1, 5)), weights(list...),
				nodes(node("DequantizeLinear", in, names("d"), intAttr("axis", 1), intAttr("block_size", 2)),
					node("Add", names("x", "d"), names("y"))), outputs("y")))
			out := run(t, built(t, m, onnx.Options{}), map[string]*ir.Data{"x": f32(t, make([]float64, 5), 1, 5)})
			if err := onnx.Compare(out["y"], f32(t, c.want, 1, 5), 0, 0); err != nil {
				t.Errorf("%s, %s: %v", c.name, form, err)
			}
		}
		short := tensorOf("w", c.elem, []int64{1, 5}).bytes(9, []byte(c.packed[:2]))
		_, err := onnx.NewReader(model(23, graph(inputs(port("x", float, 1, 5)), weights(short),
			nodes(node("Identity", names("w"), names("y"))), outputs("y"))), onnx.Options{})
		if err == nil || !strings.Contains(err.Error(), "2 bytes") || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s of 2 bytes instead of 3: error %v", c.name, err)
		}
	}
}

// TestSmallTypes casts to types of a few bits and back. Integers keep their lowest bits, and floats are rounded to the
// nearest number of the type, half to even.
func TestSmallTypes(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name  string
		elem  int64
		attrs []msg
		x     []float64
		want  []float64
	}{
		{"int4", 22, nil, []float64{-9, -8, -1.7, 0.5, 6.9, 7, 100}, []float64{7, -8, -1, 0, 6, 7, 4}},
		{"uint4", 21, nil, []float64{-1, 0, 14.9, 15, 17}, []float64{15, 0, 14, 15, 1}},
		{"int2", 26, nil, []float64{-3, -2, -1, 0, 1, 2}, []float64{1, -2, -1, 0, 1, -2}},
		{"uint2", 25, nil, []float64{-1, 0, 2, 3, 5}, []float64{3, 0, 2, 3, 1}},
		{"float4e2m1", 23, nil, []float64{0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -5.1, 100, -inf, 0.24},
			[]float64{0, 1, 1, 2, 2, 4, 4, -6, 6, -6, 0}},
		{"float8e4m3fnuz", 18, nil, []float64{1, 17, 19, 240, 247, 1000, -inf, nan, 0.0009765625, 0.0004, 0.0015},
			[]float64{1, 16, 20, 240, 240, 240, -240, nan, 0.0009765625, 0, 0.001953125}},
		{"float8e4m3fnuz without saturation", 18, []msg{intAttr("saturate", 0)}, []float64{240, 247, 1000, -inf},
			[]float64{240, 240, nan, nan}},
		{"float8e5m2fnuz", 20, nil,
			[]float64{1.125, 1.375, 57344, 65000, -inf, nan, math.Ldexp(1, -17), math.Ldexp(1, -19)},
			[]float64{1, 1.5, 57344, 57344, -57344, nan, math.Ldexp(1, -17), 0}},
		{"float8e8m0", 24, nil, []float64{1, 1.01, 2, 3, math.Ldexp(1.5, 127), nan, math.Ldexp(1, -127)},
			[]float64{1, 2, 2, 4, math.Ldexp(1, 127), nan, math.Ldexp(1, -127)}},
		{"float8e8m0 down", 24, []msg{textAttr("round_mode", "down")}, []float64{1, 1.99, 2, 3}, []float64{1, 1, 2, 2}},
		{"float8e8m0 to the nearest", 24, []msg{textAttr("round_mode", "nearest")}, []float64{1, 1.4, 1.6, 3},
			[]float64{1, 1, 2, 4}},
	} {
		to := append([]msg{intAttr("to", c.elem)}, c.attrs...)
		f := built(t, model(25, graph(inputs(port("x", float, len(c.x))), weights(floats("s", []float32{1})),
			nodes(node("Cast", names("x"), names("q"), to...), node("Identity", names("q"), names("r")),
				node("CastLike", names("r", "s"), names("y"))), outputs("y"))), onnx.Options{})
		got := run(t, f, map[string]*ir.Data{"x": f32(t, c.x, len(c.x))})["y"]
		if err := onnx.Compare(got, f32(t, c.want, len(c.x)), 0, 0); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// An integer keeps its lowest bits, a quantized one saturates, and a type that only moves keeps its values.
	x := []int64{-9, 8, 7, 250}
	whole, err := ir.FromInts(ir.I32, x, len(x))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		list []part
		want []float64
	}{
		"cast": {nodes(node("Cast", names("x"), names("q"), intAttr("to", 22)),
			node("Cast", names("q"), names("y"), intAttr("to", float))), []float64{7, -8, 7, -6}},
		"cast to uint2": {nodes(node("Cast", names("x"), names("q"), intAttr("to", 25)),
			node("Transpose", names("q"), names("r")), node("Cast", names("r"), names("y"), intAttr("to", float))),
			[]float64{3, 0, 3, 2}},
		"to int8 and on": {nodes(node("Cast", names("x"), names("q"), intAttr("to", 22)),
			node("Cast", names("q"), names("i"), intAttr("to", 3)), node("Mul", names("i", "i"), names("m")),
			node("Cast", names("m"), names("y"), intAttr("to", float))), []float64{49, 64, 49, 36}},
		"quantize": {nodes(node("Cast", names("x"), names("f"), intAttr("to", float)),
			node("QuantizeLinear", names("f", "s", "z"), names("q")),
			node("DequantizeLinear", names("q", "s", "z"), names("y"))),
			[]float64{-9, 6, 6, 6}},
		"quantize by a type": {nodes(node("Cast", names("x"), names("f"), intAttr("to", float)),
			node("QuantizeLinear", names("f", "s"), names("q"), intAttr("output_dtype", 26)),
			node("DequantizeLinear", names("q", "s"), names("y"))), []float64{-2, 1, 1, 1}},
	} {
		f := built(t, model(25, graph(inputs(port("x", 6, len(x))), weights(floats("s", []float32{1}),
			tensorOf("z", 22, nil).bytes(9, []byte{1})), c.list, outputs("y"))), onnx.Options{})
		got := run(t, f, map[string]*ir.Data{"x": whole})["y"]
		if err := onnx.Compare(got, f32(t, c.want, len(x)), 0, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = onnx.NewReader(model(21, graph(inputs(port("x", float, 2, 2)),
		nodes(node("EyeLike", names("x"), names("y"), intAttr("dtype", 22))), outputs("y"))), onnx.Options{})
	if err == nil || !strings.Contains(err.Error(), "int4") {
		t.Errorf("EyeLike of int4: error %v", err)
	}
}
