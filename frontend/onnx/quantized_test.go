package onnx_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// bytesOf makes a tensor of int8 (type 3) or uint8 (type 2).
func bytesOf(name string, elem int64, values []byte, dims ...int64) msg {
	return tensorOf(name, elem, dims).bytes(9, values)
}

// TestQuantizedLayers compares a matmul of dequantized bytes with QLinearMatMul. The results may differ by one step.
// Weights stay bytes in the graph.
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

// byteConv is a convolution of bytes with zero points.
type byteConv struct {
	x, w                        ir.DType
	channels, outs, groups      int
	side, window                int
	stride, low, high, dilation int
	xz                          int64
	wz                          []int64 // one, or one for each channel of the result
	known                       bool    // the zero points are weights, and not inputs
}

// onnxByte is the number of a dtype of bytes in ONNX.
func onnxByte(t ir.DType) int64 {
	if t == ir.U8 {
		return 2
	}
	return 3
}

// bytesIn returns n random values of an 8-bit dtype, as file content and as numbers. Nearly half of them are the
// largest or smallest value.
func bytesIn(r *rand.Rand, t ir.DType, n int) (content []byte, values []int64) {
	low, high := ir.IntRange(t)
	for range n {
		v := low + r.Int64N(high-low+1)
		if r.IntN(5) < 2 {
			v = []int64{low, high}[r.IntN(2)]
		}
		content, values = append(content, byte(v)), append(values, v)
	}
	return content, values
}

func (c byteConv) outSide() int { return (c.side+c.low+c.high-c.dilation*(c.window-1)-1)/c.stride + 1 }

// sums computes the convolution by its definition.
func (c byteConv) sums(x, w []int64) (out []int64) {
	each, makes, side := c.channels/c.groups, c.outs/c.groups, c.outSide()
	for o := range c.outs {
		for at := range side * side {
			sum := int64(0)
			for k := range each * c.window * c.window {
				channel := o/makes*each + k/(c.window*c.window)
				row := at/side*c.stride - c.low + k/c.window%c.window*c.dilation
				col := at%side*c.stride - c.low + k%c.window*c.dilation
				if row >= 0 && row < c.side && col >= 0 && col < c.side {
					sum += (x[(channel*c.side+row)*c.side+col] - c.xz) *
						(w[o*each*c.window*c.window+k] - c.wz[min(o, len(c.wz)-1)])
				}
			}
			out = append(out, sum)
		}
	}
	return out
}

// attributes returns the node's attributes.
func (c byteConv) attributes() []msg {
	stride, low, high, dilation := int64(c.stride), int64(c.low), int64(c.high), int64(c.dilation)
	return []msg{intsAttr("strides", stride, stride), intsAttr("pads", low, low, high, high),
		intsAttr("dilations", dilation, dilation), intAttr("group", int64(c.groups))}
}

// byteConvs are convolutions whose exact sums exceed f32's precision, with known and unknown zero points, and with
// groups.
var byteConvs = map[string]byteConv{
	"long sums": {x: ir.U8, w: ir.U8, channels: 61, outs: 3, groups: 1, side: 5, window: 3, stride: 1, dilation: 1,
		xz: 1, wz: []int64{0}, known: true},
	"padded by a zero point": {x: ir.U8, w: ir.I8, channels: 4, outs: 6, groups: 1, side: 7, window: 3, stride: 2,
		low: 1, high: 2, dilation: 1, xz: 121, wz: []int64{0}, known: true},
	"zero points of channels, in groups": {x: ir.I8, w: ir.U8, channels: 4, outs: 6, groups: 2, side: 7, window: 2,
		stride: 1, low: 2, high: 0, dilation: 2, xz: -7, wz: []int64{0, 128, 255, 3, 4, 5}, known: true},
	"each channel by itself": {x: ir.U8, w: ir.I8, channels: 5, outs: 5, groups: 5, side: 6, window: 3, stride: 1,
		low: 1, high: 1, dilation: 1, xz: 128, wz: []int64{-3}, known: true},
	"zero points that are inputs": {x: ir.U8, w: ir.I8, channels: 3, outs: 4, groups: 1, side: 6, window: 3, stride: 1,
		low: 1, high: 1, dilation: 1, xz: 200, wz: []int64{5}},
}

// TestConvInteger checks ConvInteger on these. The kernels must not use f64, only int8 dot products.
func TestConvInteger(t *testing.T) {
	for name, c := range byteConvs {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			_, x := bytesIn(r, c.x, c.channels*c.side*c.side)
			wBytes, w := bytesIn(r, c.w, c.outs*c.channels/c.groups*c.window*c.window)
			if name == "long sums" {
				for i := range x {
					x[i] = 255 - r.Int64N(2)
				}
				for i := range w {
					wBytes[i], w[i] = 255, 255
				}
			}
			each, window := int64(c.channels/c.groups), int64(c.window)
			constants := []msg{bytesOf("w", onnxByte(c.w), wBytes, int64(c.outs), each, window, window)}
			ports := []msg{port("x", onnxByte(c.x), 1, c.channels, c.side, c.side)}
			in := map[string]*ir.Data{"x": intsOf(t, c.x, x, 1, c.channels, c.side, c.side)}
			if c.known {
				var zeros []byte
				for _, z := range c.wz {
					zeros = append(zeros, byte(z))
				}
				constants = append(constants, bytesOf("xz", onnxByte(c.x), []byte{byte(c.xz)}),
					bytesOf("wz", onnxByte(c.w), zeros, int64(len(zeros))))
			} else {
				ports = append(ports, port("xz", onnxByte(c.x)), port("wz", onnxByte(c.w)))
				in["xz"], in["wz"] = intsOf(t, c.x, []int64{c.xz}), intsOf(t, c.w, c.wz)
			}
			f := built(t, model(13, graph(inputs(ports...), weights(constants...),
				nodes(node("ConvInteger", names("x", "w", "xz", "wz"), names("y"), c.attributes()...)),
				outputs("y"))), onnx.Options{})
			for _, n := range f.Graph.Nodes() {
				if n.DType().IsFloat() {
					t.Errorf("%s is %s: the sums are of integers", n, n.Type())
				}
			}
			want := c.sums(x, w)
			if name == "long sums" && slices.Min(want) < 1<<24 {
				t.Errorf("sums from %d: f32 holds them", slices.Min(want))
			}
			for way, got := range map[string]*ir.Data{"reference": run(t, f, in)["y"],
				"kernels": runKernels(t, f, in)["y"]} {
				if list, err := got.Ints(); err != nil || !slices.Equal(list, want) {
					t.Errorf("%s (%v): have\n%v\nwant\n%v", way, err, list, want)
				}
			}
		})
	}
}

func intsOf(t *testing.T, dtype ir.DType, values []int64, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.FromInts(dtype, values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// kernelsOf returns the kernels of a model for any device.
func kernelsOf(t *testing.T, f *onnx.File) *passes.State {
	t.Helper()
	s, err := passes.Run(f.Graph, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runKernels computes the outputs of a model by its kernels.
func runKernels(t *testing.T, f *onnx.File, in map[string]*ir.Data) map[string]*ir.Data {
	t.Helper()
	s := kernelsOf(t, f)
	m, err := keval.New(s.Program, s.Kernels, keval.Options{Weights: f})
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.Run(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestQLinearConv has bytes of another scale made of the sums and a bias.
func TestQLinearConv(t *testing.T) {
	for name, c := range byteConvs {
		if !c.known {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 6))
			_, x := bytesIn(r, c.x, c.channels*c.side*c.side)
			wBytes, w := bytesIn(r, c.w, c.outs*c.channels/c.groups*c.window*c.window)
			var zeros, bias []byte
			var scales []float32
			for o := range c.outs {
				zeros = append(zeros, byte(c.wz[min(o, len(c.wz)-1)]))
				bias = append(bias, 0, byte(o), 0, 0) // 256 for each
				scales = append(scales, float32(o+1)/4)
			}
			sums := c.sums(x, w)
			_, exponent := math.Frexp(float64(max(slices.Max(sums), -slices.Min(sums))) / 512)
			step := math.Ldexp(1, exponent)
			each, window, outs := int64(c.channels/c.groups), int64(c.window), int64(c.outs)
			f := built(t, model(13, graph(inputs(port("x", onnxByte(c.x), 1, c.channels, c.side, c.side)),
				weights(bytesOf("w", onnxByte(c.w), wBytes, outs, each, window, window),
					bytesOf("wz", onnxByte(c.w), zeros, outs), floats("ws", scales, outs),
					bytesOf("b", 6, bias, outs), floats("xs", []float32{0.5}),
					bytesOf("xz", onnxByte(c.x), []byte{byte(c.xz)}), floats("ys", []float32{float32(step)}),
					bytesOf("yz", 2, []byte{99})),
				nodes(node("QLinearConv", names("x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"), names("y"),
					c.attributes()...)), outputs("y"))), onnx.Options{})
			in := map[string]*ir.Data{"x": intsOf(t, c.x, x, 1, c.channels, c.side, c.side)}
			places := c.outSide() * c.outSide()
			var want []int64
			within := 0
			for i, sum := range sums { // all scales are powers of two times small numbers: no float rounds
				o := i / places
				v := 99 + math.RoundToEven(float64(sum+int64(256*o))*float64(o+1)/8/step)
				want = append(want, int64(min(max(v, 0), 255)))
				if v > 0 && v < 255 {
					within++
				}
			}
			if within*4 < len(want) {
				t.Errorf("%d of %d results are within the range of bytes", within, len(want))
			}
			for way, got := range map[string]*ir.Data{"reference": run(t, f, in)["y"],
				"kernels": runKernels(t, f, in)["y"]} {
				if list, err := got.Ints(); err != nil || !slices.Equal(list, want) {
					t.Errorf("%s (%v): have\n%v\nwant\n%v", way, err, list, want)
				}
			}
			integerProducts(t, f, "QLinearConv")
		})
	}
}

// integerProducts checks that no kernel of a model has a floating-point dot product, and that some have int8 dot
// products.
func integerProducts(t *testing.T, f *onnx.File, what string) {
	t.Helper()
	bytes := 0
	for _, k := range kernelsOf(t, f).Kernels {
		if !slices.Contains(k.Ops, "conv") {
			continue
		}
		switch {
		case len(k.MatMuls) == 1 && k.MatMuls[0].Operands == ir.I8 && strings.Contains(k.String(), " of i8 in i32"),
			len(k.Phases) == 1 && k.Phases[0].Value.DType == ir.I32:
			bytes++
		default:
			t.Errorf("%s: %s is no product of integers:\n%s", what, k.Name, k)
		}
	}
	if bytes == 0 {
		t.Errorf("%s has no product of integers", what)
	}
}

// TestQuantizedModel has two convolutions and a residual addition, each between dequantize and quantize, as
// quantization tools write them. Inputs and outputs are bytes, and convolutions use int8 dot products.
func TestQuantizedModel(t *testing.T) {
	const channels, side = 8, 6
	r := rand.New(rand.NewPCG(7, 8))
	first, _ := bytesIn(r, ir.I8, channels*channels*9)
	second, _ := bytesIn(r, ir.I8, channels*channels*9)
	scales, biasScales, bias := make([]float32, channels), make([]float32, channels), make([]byte, 4*channels)
	for i := range scales {
		scales[i] = (1 + r.Float32()) / 512
		biasScales[i] = scales[i] / 64
		bias[4*i+1] = byte(r.IntN(20))
	}
	quantized := func(from, to, scale, zero string) []msg {
		return []msg{node("QuantizeLinear", names(from, scale, zero), names(to+"q")),
			node("DequantizeLinear", names(to+"q", scale, zero), names(to))}
	}
	weight := func(of string) msg {
		return node("DequantizeLinear", names(of, "ws", "wz"), names(of+"f"), intAttr("axis", 0))
	}
	pads := intsAttr("pads", 1, 1, 1, 1)
	list := slices.Concat(quantized("x", "a", "xs", "xz"), []msg{weight("w1"), weight("w2"),
		node("DequantizeLinear", names("b", "bs", "bz"), names("bf"), intAttr("axis", 0)),
		node("Conv", names("a", "w1f", "bf"), names("c1"), pads), node("Relu", names("c1"), names("r1"))},
		quantized("r1", "m", "ms", "mz"), []msg{node("Conv", names("m", "w2f", "bf"), names("c2"), pads)},
		quantized("c2", "n", "ns", "nz"), []msg{node("Add", names("n", "a"), names("s")),
			node("Relu", names("s"), names("r2"))}, quantized("r2", "y", "ms", "mz"))
	f := built(t, model(13, graph(inputs(port("x", float, 1, channels, side, side)),
		weights(bytesOf("w1", 3, first, channels, channels, 3, 3), bytesOf("w2", 3, second, channels, channels, 3, 3),
			floats("ws", scales, channels), bytesOf("wz", 3, make([]byte, channels), channels),
			bytesOf("b", 6, bias, channels), floats("bs", biasScales, channels),
			bytesOf("bz", 6, make([]byte, 4*channels), channels), floats("xs", []float32{1. / 64}),
			bytesOf("xz", 2, []byte{117}), floats("ms", []float32{1. / 32}), bytesOf("mz", 2, []byte{0}),
			floats("ns", []float32{1. / 16}), bytesOf("nz", 3, []byte{0xf0})),
		nodes(list...), outputs("yq"))), onnx.Options{})
	x := make([]float64, channels*side*side)
	for i := range x {
		x[i] = 4*r.Float64() - 2
	}
	in := map[string]*ir.Data{"x": f32(t, x, 1, channels, side, side)}
	want, err := run(t, f, in)["yq"].Ints()
	if err != nil {
		t.Fatal(err)
	}
	have, err := runKernels(t, f, in)["yq"].Ints()
	if err != nil {
		t.Fatal(err)
	}
	different := 0
	for i := range want {
		if d := want[i] - have[i]; d < -1 || d > 1 {
			t.Errorf("element %d is %d, want %d", i, have[i], want[i])
		} else if d != 0 {
			different++
		}
	}
	slices.Sort(want)
	if distinct := len(slices.Compact(want)); distinct < 30 || different > 2 {
		t.Errorf("%d values differ by a step, of %d different ones", different, distinct)
	}
	integerProducts(t, f, "the model")
	// Sums of two weights, the bytes of x, and two convolutions, each with all that comes before the next bytes.
	kernels := kernelsOf(t, f).Kernels
	if len(kernels) != 5 {
		t.Errorf("%d kernels, want 5", len(kernels))
	}
	for _, k := range kernels {
		for _, b := range k.Bindings {
			if b.Write && b.DType.IsFloat() {
				t.Errorf("a kernel stores %s:\n%s", b.DType, k)
			}
		}
	}
}
