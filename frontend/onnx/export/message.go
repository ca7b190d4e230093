package export

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a protobuf message under construction. Its field numbers follow onnx.proto.
type message []byte

// bytes appends a field with bytes, such as another message.
func (m message) bytes(field int, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, protowire.Number(field), protowire.BytesType), b)
}

func (m message) text(field int, s string) message { return m.bytes(field, []byte(s)) }

// int appends a field with an integer or an enum.
func (m message) int(field int, v int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, protowire.Number(field), protowire.VarintType), uint64(v))
}

// float appends a field with a float of 32 bits.
func (m message) float(field int, v float32) message {
	return protowire.AppendFixed32(protowire.AppendTag(m, protowire.Number(field), protowire.Fixed32Type),
		math.Float32bits(v))
}

// pair writes an entry of a map from strings to strings.
func pair(key, value string) message { return message{}.text(1, key).text(2, value) }

// attribute is an attribute of an ONNX node: an int64, float64, string, []int64 or *scope.
type attribute struct {
	name  string
	value any
}

// message writes the attribute as an AttributeProto. Field 2 is a float, 3 an int, 4 a string, 6 a graph, and 8 one of
// several ints. Field 20 is the attribute's type, by the numbers of AttributeProto.AttributeType: 1 is FLOAT, 2 INT,
// 3 STRING, 5 GRAPH and 7 INTS.
func (a attribute) message(rename map[string]string) message {
	m := message{}.text(1, a.name)
	switch v := a.value.(type) {
	case int64:
		return m.int(3, v).int(20, 2)
	case float64:
		return m.float(2, float32(v)).int(20, 1)
	case string:
		return m.text(4, v).int(20, 3)
	case *scope:
		return m.bytes(6, v.message(rename)).int(20, 5)
	case []int64:
		for _, n := range v {
			m = m.int(8, n)
		}
		return m.int(20, 7)
	}
	return m
}

// node is a call of an ONNX op.
type node struct {
	op, domain string
	in, out    []string
	attrs      []attribute
}

// message writes a NodeProto. The field numbers are from onnx.proto: 1 is an input, 2 an output, 4 the op, 5 an
// attribute and 7 the domain. rename has new names of values that are outputs of the graph.
func (n *node) message(rename map[string]string) message {
	m := message{}
	for _, name := range n.in {
		m = m.text(1, renamed(name, rename))
	}
	for _, name := range n.out {
		m = m.text(2, renamed(name, rename))
	}
	m = m.text(4, n.op)
	for _, a := range n.attrs {
		m = m.bytes(5, a.message(rename))
	}
	if n.domain != "" {
		m = m.text(7, n.domain)
	}
	return m
}

// renamed returns the new name of a value, if it has one.
func renamed(name string, rename map[string]string) string {
	if to, ok := rename[name]; ok {
		return to
	}
	return name
}

// scope is a graph under construction: the model's, or the body of an If or a Loop. A body sees the values of the
// scopes around it.
type scope struct {
	outer   *scope
	name    string
	nodes   []*node
	inputs  []message
	outputs []message
	made    map[string]string // by op, inputs and attributes: the result of the node with these
}

// message writes the scope as a GraphProto without initializers. The field numbers are from onnx.proto: 1 is a node, 2
// the name, 11 an input and 12 an output.
func (s *scope) message(rename map[string]string) message {
	m := message{}
	for _, n := range s.nodes {
		m = m.bytes(1, n.message(rename))
	}
	m = m.text(2, s.name)
	for _, in := range s.inputs {
		m = m.bytes(11, in)
	}
	for _, out := range s.outputs {
		m = m.bytes(12, out)
	}
	return m
}
