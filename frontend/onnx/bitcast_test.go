package onnx_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// TestBitCast is an op of opset 26: bits stay, and there must be as many.
func TestBitCast(t *testing.T) {
	to := func(number int64) []byte {
		return model(26, graph(inputs(port("x", float, 2)),
			nodes(node("BitCast", names("x"), names("y"), intAttr("to", number))), outputs("y")))
	}
	y := run(t, built(t, to(6), onnx.Options{}), map[string]*ir.Data{"x": f32(t, []float64{1, -2.5}, 2)})["y"]
	want, err := ir.FromInts(ir.I32, []int64{0x3f800000, -0x3fe00000}, 2)
	if err != nil {
		t.Fatal(err)
	}
	is(t, y, want)
	if _, err := onnx.NewReader(to(10), onnx.Options{}); err == nil || !strings.Contains(err.Error(), "as many") {
		t.Errorf("f32 as f16: error %v", err)
	}
}
