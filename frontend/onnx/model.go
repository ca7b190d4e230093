package onnx

import (
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// Model is the parsed content of an ONNX file: the main graph, functions and opset versions.
type Model struct {
	IRVersion int64
	Producer  string
	// Opsets maps each domain of ops to its version; ONNX's own domain is "".
	Opsets    map[string]int64
	Graph     *Graph
	Functions []*Function
	Metadata  map[string]string
}

// Graph is the main graph of a model, or a graph that is an attribute of a node. Nodes are sorted so that each comes
// after the nodes that compute its inputs.
type Graph struct {
	Name         string
	Nodes        []*Node
	Initializers []*Tensor
	Inputs       []Value
	Outputs      []Value

	outer []string // if the graph is an attribute: the names that it reads from enclosing graphs
}

// Function is an op that a model defines itself.
type Function struct {
	Domain, Name    string
	Overload        string // tells functions of the same name apart
	Inputs, Outputs []string
	// Attributes are the names of the attributes without a default. Defaults has the attributes with one.
	Attributes []string
	Defaults   []*Attribute
	Nodes      []*Node
	Opsets     map[string]int64
}

// Node is a call of an op. The name of an omitted input is "".
type Node struct {
	Name, Op, Domain string
	Overload         string // of the model's function that the node calls
	Inputs, Outputs  []string
	Attributes       []*Attribute
}

// Attribute is an attribute of a node. Type says which field has its value.
type Attribute struct {
	Name string
	Type AttributeType
	// Ref is the attribute of the enclosing function that supplies the value; "" for a direct value.
	Ref     string
	Float   float32
	Int     int64
	String  string
	Tensor  *Tensor
	Graph   *Graph
	Floats  []float32
	Ints    []int64
	Strings []string
	Tensors []*Tensor
	Graphs  []*Graph
	Of      *Type
}

// AttributeType is the type of an attribute's value, by ONNX's numbers.
type AttributeType int64

// The types of attributes.
const (
	AttrNone    AttributeType = 0
	AttrFloat   AttributeType = 1
	AttrInt     AttributeType = 2
	AttrString  AttributeType = 3
	AttrTensor  AttributeType = 4
	AttrGraph   AttributeType = 5
	AttrFloats  AttributeType = 6
	AttrInts    AttributeType = 7
	AttrStrings AttributeType = 8
	AttrTensors AttributeType = 9
	AttrGraphs  AttributeType = 10
	AttrType    AttributeType = 13
)

// Value is the name and type of a graph's input or output.
type Value struct {
	Name string
	Type Type
}

// Kind says whether a value is a tensor or consists of tensors.
type Kind int

// The kinds of values. For a sequence or optional, dtype and shape describe its elements.
const (
	KindUnknown Kind = iota
	KindTensor
	KindSequence
	KindOptional
	KindOther // maps, sparse and opaque values, which are not supported
)

// Type is the type of a value. HasShape distinguishes a scalar from a tensor of unknown shape.
type Type struct {
	Kind     Kind
	Elem     DataType
	HasShape bool
	Shape    []Dim
	Of       *Type // of the elements of a sequence or optional
}

// Dim is an extent: a number, or symbolic, with a name or without.
type Dim struct {
	Size int64 // -1 if it is symbolic
	Name string
}

// DataType is the type of a tensor's elements, by ONNX's numbers.
type DataType int32

// dataType is a row of the table of ONNX's types: its name, and the dtype in which vkc computes it, or Invalid.
type dataType struct {
	name     string
	dtype    ir.DType
	unsigned bool // a uint64, with the bits of which vkc computes as i64
}

var dataTypes = map[DataType]dataType{
	1: scalar("float", ir.F32), 2: scalar("uint8", ir.U8), 3: scalar("int8", ir.I8), 4: scalar("uint16", ir.U16),
	5: scalar("int16", ir.I16), 6: scalar("int32", ir.I32), 7: scalar("int64", ir.I64), 8: scalar("string", ir.Invalid),
	9: scalar("bool", ir.Bool), 10: scalar("float16", ir.F16), 11: scalar("double", ir.F64), 12: scalar("uint32", ir.U32),
	13: {name: "uint64", dtype: ir.I64, unsigned: true}, 14: scalar("complex64", ir.Invalid),
	15: scalar("complex128", ir.Invalid), 16: scalar("bfloat16", ir.BF16), 17: scalar("float8e4m3fn", ir.F8E4M3),
	18: scalar("float8e4m3fnuz", ir.F8E4M3FNUZ), 19: scalar("float8e5m2", ir.F8E5M2),
	20: scalar("float8e5m2fnuz", ir.F8E5M2FNUZ), 21: scalar("uint4", ir.U4), 22: scalar("int4", ir.I4),
	23: scalar("float4e2m1", ir.F4E2M1), 24: scalar("float8e8m0", ir.F8E8M0), 25: scalar("uint2", ir.U2),
	26: scalar("int2", ir.I2),
}

// scalar returns a row for a type with an equivalent dtype, or with none.
func scalar(name string, t ir.DType) dataType { return dataType{name: name, dtype: t} }

// ONNX's numbers of some types.
const (
	float32Type = 1
	uint8Type   = 2
	int64Type   = 7
	float64Type = 11
)

// DType returns the dtype that vkc computes in, or ir.Invalid.
func (t DataType) DType() ir.DType { return dataTypes[t].dtype }

// Bytes returns the size in bytes of that many elements in a file, or 0 for types that vkc does not support.
func (t DataType) Bytes(elems int64) int64 {
	if t.DType() == ir.Invalid {
		return 0
	}
	bits := int64(t.DType().Bits())
	return elems*(bits/8) + ceil.Div(elems*(bits%8), 8) // in two parts, so that elems*bits cannot overflow
}

// String returns ONNX's name of the type.
func (t DataType) String() string {
	if row, ok := dataTypes[t]; ok {
		return row.name
	}
	return "unknown"
}

// String formats a type as vkc prints inputs and outputs: float[N,3], or seq(float[3]). A question mark is an extent
// without a name.
func (t Type) String() string {
	switch t.Kind {
	case KindTensor:
		if !t.HasShape {
			return t.Elem.String()
		}
		dims := make([]string, len(t.Shape))
		for i, d := range t.Shape {
			switch {
			case d.Size >= 0:
				dims[i] = strconv.FormatInt(d.Size, 10)
			case d.Name != "":
				dims[i] = d.Name
			default:
				dims[i] = "?"
			}
		}
		return t.Elem.String() + "[" + strings.Join(dims, ",") + "]"
	case KindSequence, KindOptional:
		name := "seq"
		if t.Kind == KindOptional {
			name = "optional"
		}
		if t.Of == nil {
			return name
		}
		return name + "(" + t.Of.String() + ")"
	}
	return "unknown"
}

// Ops counts the nodes of each op, including nodes in functions and subgraphs. The name of an op outside of ONNX's
// domain includes its domain.
func (m *Model) Ops() map[string]int {
	count := map[string]int{}
	m.eachNode(func(n *Node) { count[n.op()]++ })
	return count
}

// UnknownOps returns the ops that are neither supported nor functions of the model, with the reason for each.
func (m *Model) UnknownOps() map[string]error {
	unknown := map[string]error{}
	m.eachNode(func(n *Node) {
		if _, err := findRow(n.Domain, n.Op); err != nil && m.function(n) == nil {
			unknown[n.op()] = err
		}
	})
	return unknown
}

// eachNode visits all nodes of the model, including nodes in functions and subgraphs.
func (m *Model) eachNode(visit func(n *Node)) {
	eachNode(m.Graph.Nodes, visit)
	for _, fn := range m.Functions {
		eachNode(fn.Nodes, visit)
	}
}

// eachNode visits nodes, and the nodes in their subgraphs.
func eachNode(nodes []*Node, visit func(n *Node)) {
	for _, n := range nodes {
		visit(n)
		for _, a := range n.Attributes {
			if a.Graph != nil {
				eachNode(a.Graph.Nodes, visit)
			}
			for _, g := range a.Graphs {
				eachNode(g.Nodes, visit)
			}
		}
	}
}

// Tensors lists the constants of a model: the initializers of its graphs, and the values of Constant nodes. A value of
// a Constant node has the name of the node's result.
func (m *Model) Tensors() []*Tensor {
	list := slices.Clone(m.Graph.Initializers)
	m.eachNode(func(n *Node) {
		for _, a := range n.Attributes {
			for _, g := range append(slices.Clip(a.Graphs), a.Graph) {
				if g != nil {
					list = append(list, g.Initializers...)
				}
			}
		}
		if n.Op != "Constant" || n.Domain != "" || len(n.Outputs) == 0 {
			return
		}
		for _, a := range n.Attributes {
			if t := a.constant(); t != nil {
				t.Name = n.Outputs[0]
				list = append(list, t)
			}
		}
	})
	return list
}

// constant returns the value of an attribute of a Constant node as a tensor without a name. Numbers have their type and
// shape, but no content. It returns nil for attributes of other types.
func (a *Attribute) constant() *Tensor {
	switch a.Type {
	case AttrTensor:
		if a.Tensor != nil {
			t := *a.Tensor
			return &t
		}
	case AttrFloat:
		return &Tensor{Type: float32Type}
	case AttrFloats:
		return &Tensor{Type: float32Type, Dims: []int64{int64(len(a.Floats))}}
	case AttrInt:
		return &Tensor{Type: int64Type}
	case AttrInts:
		return &Tensor{Type: int64Type, Dims: []int64{int64(len(a.Ints))}}
	}
	return nil
}

// attr returns the attribute of that name, or nil.
func (n *Node) attr(name string) *Attribute {
	for _, a := range n.Attributes {
		if a.Name == name {
			return a
		}
	}
	return nil
}
