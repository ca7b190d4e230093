package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// Types of elements in ONNX files.
const (
	float32s = 1
	uint8s   = 2
	int8s    = 3
	int32s   = 6
)

// quantizedModel is a model of 8-bit integers.
type quantizedModel struct {
	name      string
	in, out   message // ports
	constants []message
	nodes     []message
}

// bytesOf returns n random bytes.
func bytesOf(rng *rand.Rand, n int) []byte {
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	return raw
}

// number writes an initializer of one float32.
func number(name string, x float32) message {
	return typedTensor(name, float32s, binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))
}

// quantized returns models of ONNX's quantized matmuls and convolutions, and linear layers that quantize their input at
// each run.
func quantized() (list []quantizedModel) {
	rng := rand.New(rand.NewPCG(18, 1))
	// Names of tensors: x, w and y are operands and result, and with s or z after it their scale or zero point.
	zero := []message{typedTensor("xz", uint8s, []byte{119}), typedTensor("wz", int8s, []byte{0})}
	for _, s := range [][3]int{{1, 1024, 1024}, {16, 1024, 1024}, {256, 1024, 1024}, {128, 768, 3072}} {
		m, k, n := s[0], s[1], s[2]
		w := typedTensor("w", int8s, bytesOf(rng, k*n), k, n)
		list = append(list, quantizedModel{fmt.Sprintf("MatMulInteger %dx%dx%d", m, k, n), typedPort("x", uint8s, m, k),
			typedPort("y", int32s, m, n), append([]message{w}, zero...),
			[]message{node("MatMulInteger", []string{"x", "w", "xz", "wz"}, "y")}})
		list = append(list, quantizedModel{fmt.Sprintf("QLinearMatMul %dx%dx%d", m, k, n), typedPort("x", uint8s, m, k),
			typedPort("y", uint8s, m, n), append([]message{w, number("xs", 0.01), number("ws", 0.01), number("ys", 0.1),
				typedTensor("yz", uint8s, []byte{100})}, zero...),
			[]message{node("QLinearMatMul", []string{"x", "xs", "xz", "w", "ws", "wz", "ys", "yz"}, "y")}})
		// DynamicQuantizeLinear has three results: the bytes q, their scale s and zero point z.
		dynamic := message{}.text(1, "x").text(2, "q").text(2, "s").text(2, "z").text(4, "DynamicQuantizeLinear")
		list = append(list, quantizedModel{fmt.Sprintf("dynamic linear layer %dx%dx%d", m, k, n),
			typedPort("x", float32s, m, k), typedPort("y", float32s, m, n),
			append([]message{w, number("ws", 0.01)}, zero...),
			[]message{dynamic, node("MatMulInteger", []string{"q", "w", "z", "wz"}, "p"),
				node("Cast", []string{"p"}, "f", message{}.text(1, "to").int(3, 1).int(20, 2)),
				node("Mul", []string{"s", "ws"}, "t"), node("Mul", []string{"f", "t"}, "y")}})
	}
	for _, c := range []conv{
		{name: "3x3 of 64 channels, 64x64", in: 64, out: 64, height: 64, width: 64, kernel: 3, pad: 1},
		{name: "3x3 of 256 channels, 14x14", in: 256, out: 256, height: 14, width: 14, kernel: 3, pad: 1},
		{name: "1x1, 64 to 256, 56x56", in: 64, out: 256, height: 56, width: 56, kernel: 1},
		{name: "stem 3x3 stride 2, 3 to 32, 224x224", in: 3, out: 32, height: 224, width: 224, kernel: 3, stride: 2,
			pad: 1},
		{name: "depthwise 3x3 of 64, 56x56", in: 64, out: 64, height: 56, width: 56, kernel: 3, pad: 1, groups: 64},
	} {
		groups, stride := max(c.groups, 1), max(c.stride, 1)
		raw := bytesOf(rng, c.out*c.in/groups*c.kernel*c.kernel)
		w := typedTensor("w", int8s, raw, c.out, c.in/groups, c.kernel, c.kernel)
		extent := func(n int) int { return (n+2*c.pad-c.kernel)/stride + 1 }
		attributes := []message{ints("strides", stride, stride), ints("pads", c.pad, c.pad, c.pad, c.pad),
			message{}.text(1, "group").int(3, groups).int(20, 2)}
		dims := []int{1, c.out, extent(c.height), extent(c.width)}
		in := typedPort("x", uint8s, 1, c.in, c.height, c.width)
		list = append(list, quantizedModel{"ConvInteger " + c.name, in, typedPort("y", int32s, dims...),
			append([]message{w}, zero...),
			[]message{node("ConvInteger", []string{"x", "w", "xz", "wz"}, "y", attributes...)}})
		list = append(list, quantizedModel{"QLinearConv " + c.name, in, typedPort("y", uint8s, dims...),
			append([]message{w, number("xs", 0.01), number("ws", 0.01), number("ys", 0.1),
				typedTensor("yz", uint8s, []byte{100})}, zero...),
			[]message{node("QLinearConv", []string{"x", "xs", "xz", "w", "ws", "wz", "ys", "yz"}, "y", attributes...)}})
	}
	return list
}

// write writes the model to a file in a folder, and returns its path.
func (q quantizedModel) write(folder string) (string, error) {
	var g message
	for _, n := range q.nodes {
		g = g.bytes(1, n)
	}
	g = g.text(2, "quantized")
	for _, c := range q.constants {
		g = g.bytes(5, c)
	}
	g = g.bytes(11, q.in).bytes(12, q.out)
	return save(folder, q.name, g)
}
