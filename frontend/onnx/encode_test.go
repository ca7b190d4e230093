package onnx_test

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// msg is a protobuf message under construction. The field numbers are those of onnx.proto.
type msg []byte

func (m msg) bytes(field int, b []byte) msg {
	return protowire.AppendBytes(protowire.AppendTag(m, protowire.Number(field), protowire.BytesType), b)
}

func (m msg) text(field int, s string) msg { return m.bytes(field, []byte(s)) }

func (m msg) texts(field int, list ...string) msg {
	for _, s := range list {
		m = m.text(field, s)
	}
	return m
}

func (m msg) int(field int, v int64) msg {
	return protowire.AppendVarint(protowire.AppendTag(m, protowire.Number(field), protowire.VarintType), uint64(v))
}

// Types of tensors and attributes.
const (
	float, int64s, boolean                    = 1, 7, 9
	attrFloat, attrInt, attrTensor, attrGraph = 1, 2, 4, 5
	attrString, attrFloats                    = 3, 6
	attrInts                                  = 7
)

// typed writes the type of a tensor. Extents are numbers or names, or nil for one that has neither.
func typed(elem int64, dims ...any) msg {
	var shape msg
	for _, d := range dims {
		switch d := d.(type) {
		case int:
			shape = shape.bytes(1, msg{}.int(1, int64(d)))
		case string:
			shape = shape.bytes(1, msg{}.text(2, d))
		case nil:
			shape = shape.bytes(1, nil)
		}
	}
	return msg{}.bytes(1, msg{}.int(1, elem).bytes(2, shape))
}

func port(name string, elem int64, dims ...any) msg {
	return msg{}.text(1, name).bytes(2, typed(elem, dims...))
}

func floats(name string, values []float32, dims ...int64) msg {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return tensorOf(name, float, dims).bytes(9, raw)
}

func ints(name string, values []int64, dims ...int64) msg {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return tensorOf(name, int64s, dims).bytes(9, raw)
}

func tensorOf(name string, elem int64, dims []int64) msg {
	m := msg{}
	for _, d := range dims {
		m = m.int(1, d)
	}
	return m.int(2, elem).text(8, name)
}

// node writes a node; further fields are its attributes.
func node(op string, inputs, outputs []string, attributes ...msg) msg {
	m := msg{}.texts(1, inputs...).texts(2, outputs...).text(3, "the "+op).text(4, op)
	for _, a := range attributes {
		m = m.bytes(5, a)
	}
	return m
}

func intAttr(name string, v int64) msg { return msg{}.text(1, name).int(3, v).int(20, attrInt) }

func intsAttr(name string, list ...int64) msg {
	m := msg{}.text(1, name)
	for _, v := range list {
		m = m.int(8, v)
	}
	return m.int(20, attrInts)
}

func textAttr(name, v string) msg { return msg{}.text(1, name).text(4, v).int(20, attrString) }

func floatsAttr(name string, list ...float32) msg {
	m := msg{}.text(1, name)
	for _, v := range list {
		m = protowire.AppendFixed32(protowire.AppendTag(m, 7, protowire.Fixed32Type), math.Float32bits(v))
	}
	return m.int(20, attrFloats)
}

func floatAttr(name string, v float32) msg {
	m := msg(protowire.AppendFixed32(protowire.AppendTag(msg{}.text(1, name), 2, protowire.Fixed32Type),
		math.Float32bits(v)))
	return m.int(20, attrFloat)
}

func graphAttr(name string, g msg) msg { return msg{}.text(1, name).bytes(6, g).int(20, attrGraph) }

// part is a field of a graph and its content.
type part struct {
	field   int
	content msg
}

func nodes(list ...msg) (parts []part) {
	for _, n := range list {
		parts = append(parts, part{1, n})
	}
	return parts
}

func weights(list ...msg) (parts []part) {
	for _, t := range list {
		parts = append(parts, part{5, t})
	}
	return parts
}

func inputs(list ...msg) (parts []part) {
	for _, v := range list {
		parts = append(parts, part{11, v})
	}
	return parts
}

func outputs(names ...string) (parts []part) {
	for _, name := range names {
		parts = append(parts, part{12, msg{}.text(1, name).bytes(2, typed(float))})
	}
	return parts
}

func graph(lists ...[]part) msg {
	m := msg{}.text(2, "g")
	for _, list := range lists {
		for _, p := range list {
			m = m.bytes(p.field, p.content)
		}
	}
	return m
}

// model writes a model of an opset; further messages are its functions.
func model(opset int64, g msg, functions ...msg) []byte {
	m := msg{}.int(1, 8).bytes(7, g).bytes(8, msg{}.int(2, opset)).bytes(8, msg{}.text(1, "own").int(2, 1))
	for _, fn := range functions {
		m = m.bytes(25, fn)
	}
	return m
}

func names(list ...string) []string { return list }
