package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"
)

// conv is a convolution of images followed by a bias and, if relu is set, a ReLU.
type conv struct {
	name                   string
	in, out, height, width int
	kernel, stride, groups int
	pad, dilation          int
	relu                   bool
}

// convs has the kinds of convolutions of image models.
var convs = []conv{
	{name: "3x3 of 64 channels, 64x64", in: 64, out: 64, height: 64, width: 64, kernel: 3, pad: 1},
	{name: "3x3 of 128 channels, 28x28", in: 128, out: 128, height: 28, width: 28, kernel: 3, pad: 1, relu: true},
	{name: "3x3 of 256 channels, 14x14", in: 256, out: 256, height: 14, width: 14, kernel: 3, pad: 1, relu: true},
	{name: "3x3 of 512 channels, 7x7", in: 512, out: 512, height: 7, width: 7, kernel: 3, pad: 1, relu: true},
	{name: "3x3 stride 2, 64 to 128, 56x56", in: 64, out: 128, height: 56, width: 56, kernel: 3, stride: 2, pad: 1},
	{name: "3x3 dilation 2, 32, 48x48", in: 32, out: 32, height: 48, width: 48, kernel: 3, pad: 2, dilation: 2},
	{name: "stem 3x3 stride 2, 3 to 32, 224x224", in: 3, out: 32, height: 224, width: 224, kernel: 3, stride: 2,
		pad: 1, relu: true},
	{name: "stem 7x7 stride 2, 3 to 64, 224x224", in: 3, out: 64, height: 224, width: 224, kernel: 7, stride: 2,
		pad: 3, relu: true},
	{name: "stem 5x5 stride 2, 3 to 24, 128x128", in: 3, out: 24, height: 128, width: 128, kernel: 5, stride: 2,
		pad: 2, relu: true},
	{name: "1x1, 64 to 64, 56x56", in: 64, out: 64, height: 56, width: 56, kernel: 1},
	{name: "1x1, 64 to 256, 64x64", in: 64, out: 256, height: 64, width: 64, kernel: 1, relu: true},
	{name: "1x1, 512 to 128, 14x14", in: 512, out: 128, height: 14, width: 14, kernel: 1},
	{name: "1x1 stride 2, 64 to 128, 56x56", in: 64, out: 128, height: 56, width: 56, kernel: 1, stride: 2},
	{name: "1x1, 256 to 64, 1x1", in: 256, out: 64, height: 1, width: 1, kernel: 1},
	{name: "depthwise 3x3 of 64, 112x112", in: 64, out: 64, height: 112, width: 112, kernel: 3, pad: 1, groups: 64},
	{name: "depthwise 3x3 stride 2 of 96, 112x112", in: 96, out: 96, height: 112, width: 112, kernel: 3, stride: 2,
		pad: 1, groups: 96, relu: true},
	{name: "depthwise 5x5 of 240, 14x14", in: 240, out: 240, height: 14, width: 14, kernel: 5, pad: 2, groups: 240},
	{name: "grouped 3x3 of 128 by 32, 56x56", in: 128, out: 128, height: 56, width: 56, kernel: 3, pad: 1, groups: 32},
	{name: "tiny 3x3 of 4, 8x8", in: 4, out: 4, height: 8, width: 8, kernel: 3, pad: 1, relu: true},
}

// write writes an ONNX model with this convolution to a file in the folder, and returns the file's path. Weights are
// random. Fields of the zero value mean one group, a stride of 1 and a dilation of 1.
func (c conv) write(folder string) (string, error) {
	groups, stride, dilation := max(c.groups, 1), max(c.stride, 1), max(c.dilation, 1)
	per := c.in / groups
	rng := rand.New(rand.NewPCG(17, uint64(c.in)))
	random := func(n int, scale float64) (raw []byte) {
		for range n {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(rng.NormFloat64()*scale)))
		}
		return raw
	}
	side := c.kernel * c.kernel
	weights := tensor("w", random(c.out*per*side, 1/math.Sqrt(float64(per*side))), c.out, per, c.kernel, c.kernel)
	bias := tensor("b", random(c.out, 1), c.out)
	result := "y"
	if c.relu {
		result = "sum"
	}
	// Numbers of fields and types are those of onnx.proto3.
	nodes := []message{node("Conv", []string{"x", "w", "b"}, result, ints("strides", stride, stride),
		ints("pads", c.pad, c.pad, c.pad, c.pad), ints("dilations", dilation, dilation),
		message{}.text(1, "group").int(3, groups).int(20, 2))}
	if c.relu {
		nodes = append(nodes, node("Relu", []string{"sum"}, "y"))
	}
	var g message
	for _, n := range nodes {
		g = g.bytes(1, n)
	}
	g = g.text(2, "conv").bytes(5, weights).bytes(5, bias).bytes(11, port("x", 1, c.in, c.height, c.width))
	extent := func(n int) int { return (n+2*c.pad-dilation*(c.kernel-1)-1)/stride + 1 }
	g = g.bytes(12, port("y", 1, c.out, extent(c.height), extent(c.width)))
	return save(folder, c.name, g)
}

// save writes a model of one graph to a file in a folder, and returns its path.
func save(folder, name string, graph message) (string, error) {
	path := filepath.Join(folder, "model.onnx")
	model := message{}.int(1, 8).bytes(7, graph).bytes(8, message{}.int(2, 17))
	if err := os.WriteFile(path, model, 0o600); err != nil {
		return "", fmt.Errorf("write the case %s: %w", name, err)
	}
	return path, nil
}

// message is a protobuf message under construction. Its field numbers follow onnx.proto.
type message []byte

func (m message) bytes(field int, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, protowire.Number(field), protowire.BytesType), b)
}

func (m message) text(field int, s string) message { return m.bytes(field, []byte(s)) }

func (m message) int(field, v int) message {
	return protowire.AppendVarint(protowire.AppendTag(m, protowire.Number(field), protowire.VarintType), uint64(v))
}

// node returns a NodeProto with attributes. The numbers are its fields in onnx.proto.
func node(op string, inputs []string, output string, attributes ...message) message {
	m := message{}
	for _, in := range inputs {
		m = m.text(1, in)
	}
	m = m.text(2, output).text(4, op)
	for _, a := range attributes {
		m = m.bytes(5, a)
	}
	return m
}

// ints writes an attribute with a list of integers.
func ints(name string, list ...int) message {
	m := message{}.text(1, name)
	for _, v := range list {
		m = m.int(8, v)
	}
	return m.int(20, 7)
}

// tensor writes an initializer of float32.
func tensor(name string, raw []byte, dims ...int) message {
	return typedTensor(name, float32s, raw, dims...)
}

// typedTensor writes an initializer of a type of elements.
func typedTensor(name string, elem int, raw []byte, dims ...int) message {
	m := message{}
	for _, d := range dims {
		m = m.int(1, d)
	}
	return m.int(2, elem).text(8, name).bytes(9, raw)
}

// port writes an input or output of float32.
func port(name string, dims ...int) message { return typedPort(name, float32s, dims...) }

// typedPort writes an input or output of a type of elements.
func typedPort(name string, elem int, dims ...int) message {
	var shape message
	for _, d := range dims {
		shape = shape.bytes(1, message{}.int(1, d))
	}
	return message{}.text(1, name).bytes(2, message{}.bytes(1, message{}.int(1, elem).bytes(2, shape)))
}
