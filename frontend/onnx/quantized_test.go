package onnx_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// bytesOf makes a tensor of int8 (type 3) or uint8 (type 2).
func bytesOf(name string, elem int64, values []byte, dims ...int64) msg {
	return tensorOf(name, elem, dims).bytes(9, values)
}

// TestQuantizedLayers has a layer of dequantized bytes and the same as QLinearMatMul, whose results may differ by one
// step; weights stay bytes in the graph.
func TestQuantizedLayers(t *testing.T) {
	const int8s, uint8s, rows, inner, columns = 3, 2, 5, 40, 8
	r := rand.New(rand.NewPCG(1, 2))
	weight, scales, x := make([]byte, inner*columns), make([]float32, columns), make([]float64, rows*inner)
	for i := range weight {
		weight[i] = byte(r.IntN(256))
	}
	for i := range scales {
		scales[i] = 0.002 + 0.001*r.Float32()
	}
	for i := range x {
		x[i] = 2*r.Float64() - 1
	}
	constants := weights(bytesOf("w", int8s, weight, inner, columns), floats("ws", scales, columns),
		bytesOf("wz", int8s, make([]byte, columns), columns), floats("xs", []float32{1. / 128}),
		bytesOf("xz", uint8s, []byte{128}), floats("ys", []float32{0.05}), bytesOf("yz", uint8s, []byte{100}))
	quantize := node("QuantizeLinear", names("x", "xs", "xz"), names("q"))
	dequantized := built(t, model(13, graph(inputs(port("x", float, rows, inner)), constants, nodes(quantize,
		node("DequantizeLinear", names("q", "xs", "xz"), names("a")),
		node("DequantizeLinear", names("w", "ws", "wz"), names("b"), intAttr("axis", 1)),
		node("MatMul", names("a", "b"), names("p")), node("QuantizeLinear", names("p", "ys", "yz"), names("y"))),
		outputs("y"))), onnx.Options{})
	direct := built(t, model(13, graph(inputs(port("x", float, rows, inner)), constants, nodes(quantize,
		node("QLinearMatMul", names("q", "xs", "xz", "w", "ws", "wz", "ys", "yz"), names("y"))),
		outputs("y"))), onnx.Options{})
	for _, f := range []*onnx.File{dequantized, direct} {
		if d, err := f.Weight("w"); err != nil || d.DType != ir.I8 {
			t.Errorf("the weight is %v, %v", d, err)
		}
	}
	in := map[string]*ir.Data{"x": f32(t, x, rows, inner)}
	a, b := numbers(t, run(t, dequantized, in)["y"]), numbers(t, run(t, direct, in)["y"])
	spread := 0.0
	for i := range a {
		sum := 0.0
		for k := range inner {
			q := math.RoundToEven(x[i/columns*inner+k] * 128)
			sum += math.Min(q, 127) / 128 * float64(int8(weight[k*columns+i%columns])) * float64(scales[i%columns])
		}
		want := math.Min(math.Max(math.RoundToEven(sum/0.05)+100, 0), 255)
		if math.Abs(a[i]-want) > 1 || math.Abs(b[i]-want) > 1 {
			t.Errorf("element %d is %v and %v, want %v", i, a[i], b[i], want)
		}
		spread = math.Max(spread, math.Abs(want-100))
	}
	if spread < 20 {
		t.Errorf("results are within %v of the zero point: the test shows nothing", spread)
	}
}

// TestConvInteger sums more products of bytes than f32 holds exactly, of the largest bytes and of others, without f64.
func TestConvInteger(t *testing.T) {
	const uint8s, channels, outs, side, window = 2, 61, 3, 5, 3
	r := rand.New(rand.NewPCG(3, 4))
	x, w := make([]int64, channels*side*side), make([]byte, outs*channels*window*window)
	for i := range x {
		x[i] = 255 - r.Int64N(2)
	}
	for i := range w {
		w[i] = byte(255 - r.IntN(2))
	}
	f := built(t, model(13, graph(inputs(port("x", uint8s, 1, channels, side, side)),
		weights(bytesOf("w", uint8s, w, outs, channels, window, window), bytesOf("xz", uint8s, []byte{1}),
			bytesOf("wz", uint8s, []byte{0})),
		nodes(node("ConvInteger", names("x", "w", "xz", "wz"), names("y"))), outputs("y"))), onnx.Options{})
	for _, n := range f.Graph.Nodes() {
		if n.DType() == ir.F64 {
			t.Errorf("%s is %s: not all devices have f64", n, n.Type())
		}
	}
	in, err := ir.FromInts(ir.U8, x, 1, channels, side, side)
	if err != nil {
		t.Fatal(err)
	}
	got, err := run(t, f, map[string]*ir.Data{"x": in})["y"].Ints()
	if err != nil {
		t.Fatal(err)
	}
	const places = side - window + 1
	for o := range outs {
		for at := range places * places {
			sum := int64(0)
			for c := range channels {
				for k := range window * window {
					from := (c*side+at/places+k/window)*side + at%places + k%window
					sum += (x[from] - 1) * int64(w[(o*channels+c)*window*window+k])
				}
			}
			if sum < 1<<24 || got[o*places*places+at] != sum {
				t.Errorf("output %d at %d is %d, want %d", o, at, got[o*places*places+at], sum)
			}
		}
	}
}
