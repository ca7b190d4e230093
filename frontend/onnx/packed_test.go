package onnx_test

import (
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

// TestNothingIsRoundedToFourBits: a result of four bits would have values that they do not hold.
func TestNothingIsRoundedToFourBits(t *testing.T) {
	zero := tensorOf("z", 22, nil).bytes(9, []byte{0})
	for _, n := range []msg{
		node("QuantizeLinear", names("x", "s", "same"), names("y")),
		node("QuantizeLinear", names("x", "s"), names("y"), intAttr("output_dtype", 22)),
		node("Cast", names("x"), names("y"), intAttr("to", 22)),
	} {
		_, err := onnx.NewReader(model(23, graph(inputs(port("x", float, 4)), weights(zero, floats("s", []float32{1})),
			nodes(node("Identity", names("z"), names("same")), n), outputs("y"))), onnx.Options{})
		if err == nil || !strings.Contains(err.Error(), "four bits") && !strings.Contains(err.Error(), "int4") {
			t.Errorf("error %v, want one that names int4", err)
		}
	}
}
