package onnxtest

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Message is a protobuf message under construction. Its field numbers follow onnx.proto.
type Message []byte

// Bytes appends a field of bytes: a string, raw values, or another message.
func (m Message) Bytes(field int, b []byte) Message {
	return protowire.AppendBytes(protowire.AppendTag(m, protowire.Number(field), protowire.BytesType), b)
}

// Text appends a string.
func (m Message) Text(field int, s string) Message { return m.Bytes(field, []byte(s)) }

// Int appends an integer.
func (m Message) Int(field int, v int64) Message {
	return protowire.AppendVarint(protowire.AppendTag(m, protowire.Number(field), protowire.VarintType), uint64(v))
}

// Float appends a float32.
func (m Message) Float(field int, v float32) Message {
	return protowire.AppendFixed32(protowire.AppendTag(m, protowire.Number(field), protowire.Fixed32Type),
		math.Float32bits(v))
}

// typed writes the type of a tensor of dtype elem. Unless known is set, it writes no shape.
func typed(elem int64, dims []int, known bool) Message {
	m := Message{}.Int(1, elem)
	if known {
		shape := Message{}
		for _, d := range dims {
			shape = shape.Bytes(1, Message{}.Int(1, int64(d)))
		}
		m = m.Bytes(2, shape)
	}
	return Message{}.Bytes(1, m)
}

// Field numbers of AttributeProto in onnx.proto.
const (
	attrName    = 1
	attrFloat   = 2
	attrInt     = 3
	attrString  = 4
	attrFloats  = 7
	attrInts    = 8
	attrStrings = 9
	attrType    = 20
)

// Values of field type of AttributeProto.
const (
	typeFloat   = 1
	typeInt     = 2
	typeString  = 3
	typeFloats  = 6
	typeInts    = 7
	typeStrings = 8
)

// attribute writes an attribute. The form of the value gives its type: 3 is an int, 3.0 a float, [1,2] ints, [1.0]
// floats, [Tanh] strings, and anything else is a string. It returns an error for a list without a closing bracket.
func attribute(name, value string) (Message, error) {
	m := Message{}.Text(attrName, name)
	list, isList := strings.CutPrefix(value, "[")
	if !isList {
		if v, err := strconv.ParseInt(value, 10, 64); err == nil {
			return m.Int(attrInt, v).Int(attrType, typeInt), nil
		}
		if v, err := strconv.ParseFloat(value, 32); err == nil {
			return m.Float(attrFloat, float32(v)).Int(attrType, typeFloat), nil
		}
		return m.Text(attrString, value).Int(attrType, typeString), nil
	}
	list, closed := strings.CutSuffix(list, "]")
	if !closed {
		return nil, fmt.Errorf("attribute %s=%s: want ] at its end", name, value)
	}
	items := strings.Split(list, ",")
	kind := listType(items)
	for _, item := range items {
		switch kind {
		case typeInts:
			v, _ := strconv.ParseInt(item, 10, 64)
			m = m.Int(attrInts, v)
		case typeFloats:
			v, _ := strconv.ParseFloat(item, 32)
			m = m.Float(attrFloats, float32(v))
		default:
			m = m.Text(attrStrings, item)
		}
	}
	return m.Int(attrType, kind), nil
}

// listType returns the type of a list: ints if all items are integers, floats if all are numbers, and else strings.
func listType(items []string) int64 {
	kind := int64(typeInts)
	for _, item := range items {
		if _, err := strconv.ParseInt(item, 10, 64); err == nil {
			continue
		}
		if _, err := strconv.ParseFloat(item, 32); err != nil {
			return typeStrings
		}
		kind = typeFloats
	}
	return kind
}
