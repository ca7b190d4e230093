package onnx

import (
	"math"

	"github.com/vkc-go/vkc/internal/filefmt"
	"google.golang.org/protobuf/encoding/protowire"
)

// Limits on the contents of a file, far above the needs of models. They bound the memory and stack that a hostile file
// can use relative to its size.
const (
	maxNesting  = 16      // subgraphs within subgraphs
	maxMessages = 1 << 21 // total of nodes, attributes, tensors and values
	maxRank     = 64      // of parsed tensors; built ones have at most ir.MaxRank
)

// reader parses the protobuf messages of one file. The bytes that it returns alias the file. Its methods, such as
// graph, parse one kind of message each. The field numbers in their switch statements are those of onnx.proto.
type reader struct {
	src      filefmt.Source
	messages int // read so far
	depth    int // nesting of graphs or types
}

// field is a field of a message: its number and its value.
type field struct {
	num   protowire.Number
	typ   protowire.Type // says which of bytes and value has the value
	bytes []byte
	value uint64
	pos   int64 // of the value in the file
}

// fields calls visit for each field of the protobuf message b. pos is the message's position in the file, for errors.
func (r *reader) fields(b []byte, pos int64, visit func(f field) error) error {
	r.messages++
	if r.messages > maxMessages {
		return r.src.Errorf(pos, "more than %d messages: a model never has as many", maxMessages)
	}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return r.src.Errorf(pos, "this is not a field of a protobuf message: %v", protowire.ParseError(n))
		}
		f := field{num: num, typ: typ}
		rest, m := b[n:], 0 // m is the size of the value
		switch typ {
		case protowire.VarintType:
			f.value, m = protowire.ConsumeVarint(rest)
		case protowire.Fixed32Type:
			var v uint32
			v, m = protowire.ConsumeFixed32(rest)
			f.value = uint64(v)
		case protowire.Fixed64Type:
			f.value, m = protowire.ConsumeFixed64(rest)
		case protowire.BytesType:
			f.bytes, m = protowire.ConsumeBytes(rest)
		default:
			m = protowire.ConsumeFieldValue(num, typ, rest)
		}
		if m < 0 {
			return r.src.Errorf(pos, "field %d: %v", num, protowire.ParseError(m))
		}
		// The value comes after the tag and, for bytes, the length.
		f.pos = pos + int64(n+m-len(f.bytes))
		if err := visit(f); err != nil {
			return err
		}
		b, pos = rest[m:], pos+int64(n+m)
	}
	return nil
}

// want returns an error unless a field has the wire type that its message declares.
func (r *reader) want(f field, typ protowire.Type) error {
	if f.typ != typ {
		return r.src.Errorf(f.pos, "field %d has wire type %d, want %d", f.num, f.typ, typ)
	}
	return nil
}

func (r *reader) text(f field, to *string) error {
	*to = string(f.bytes)
	return r.want(f, protowire.BytesType)
}

func (r *reader) texts(f field, to *[]string) error {
	*to = append(*to, string(f.bytes))
	return r.want(f, protowire.BytesType)
}

func (r *reader) int(f field, to *int64) error {
	*to = int64(f.value)
	return r.want(f, protowire.VarintType)
}

// ints appends the integers of a field: one, or several if the field is packed.
func (r *reader) ints(f field, to *[]int64) error {
	if f.typ != protowire.BytesType {
		*to = append(*to, int64(f.value))
		return r.want(f, protowire.VarintType)
	}
	for b := f.bytes; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return r.src.Errorf(f.pos, "field %d: %v", f.num, protowire.ParseError(n))
		}
		*to, b = append(*to, int64(v)), b[n:]
	}
	return nil
}

// fixed appends the little-endian numbers of a field as bytes. A field has one number or, if it is packed, several.
// size is the size of a number in bytes. If one packed field has all numbers, the slice aliases the file.
func (r *reader) fixed(f field, size int, to *[]byte) error {
	one := protowire.Fixed32Type
	if size == 8 {
		one = protowire.Fixed64Type
	}
	switch {
	case f.typ == one && size == 4:
		*to = protowire.AppendFixed32(*to, uint32(f.value))
	case f.typ == one:
		*to = protowire.AppendFixed64(*to, f.value)
	case f.typ != protowire.BytesType:
		return r.want(f, protowire.BytesType)
	case len(f.bytes)%size != 0:
		return r.src.Errorf(f.pos, "field %d has %d bytes of numbers of %d", f.num, len(f.bytes), size)
	case len(*to) == 0: // a limited capacity, so that a later append copies and does not write into the file
		*to = f.bytes[:len(f.bytes):len(f.bytes)]
	default:
		*to = append(*to, f.bytes...)
	}
	return nil
}

// floats appends the 32-bit floats of a field: one or, if the field is packed, several.
func (r *reader) floats(f field, to *[]float32) error {
	var raw []byte
	if err := r.fixed(f, 4, &raw); err != nil {
		return err
	}
	for ; len(raw) > 0; raw = raw[4:] {
		v, _ := protowire.ConsumeFixed32(raw)
		*to = append(*to, math.Float32frombits(v))
	}
	return nil
}

// pair reads an entry of a map from strings to strings.
func (r *reader) pair(f field, to *map[string]string) error {
	if err := r.want(f, protowire.BytesType); err != nil {
		return err
	}
	var key, value string
	err := r.fields(f.bytes, f.pos, func(f field) error {
		switch f.num {
		case 1:
			return r.text(f, &key)
		case 2:
			return r.text(f, &value)
		}
		return nil
	})
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[key] = value
	return err
}

// message reads a message and appends it, for a repeated field.
func message[T any](r *reader, f field, to *[]T, read func([]byte, int64) (T, error)) error {
	if err := r.want(f, protowire.BytesType); err != nil {
		return err
	}
	m, err := read(f.bytes, f.pos)
	*to = append(*to, m)
	return err
}

// single reads a message, for a field that is not repeated.
func single[T any](r *reader, f field, to *T, read func([]byte, int64) (T, error)) (err error) {
	if err := r.want(f, protowire.BytesType); err != nil {
		return err
	}
	*to, err = read(f.bytes, f.pos)
	return err
}

// model parses a ModelProto, the content of a file. The numbers of fields here and below are those of onnx.proto.
func (r *reader) model(b []byte) (*Model, error) {
	m := &Model{Opsets: map[string]int64{}}
	err := r.fields(b, 0, func(f field) error {
		switch f.num {
		case 1:
			return r.int(f, &m.IRVersion)
		case 2:
			return r.text(f, &m.Producer)
		case 7:
			return single(r, f, &m.Graph, r.graph)
		case 8:
			return r.opset(f, m.Opsets)
		case 14:
			return r.pair(f, &m.Metadata)
		case 25:
			return message(r, f, &m.Functions, r.function)
		}
		return nil
	})
	if err == nil && m.Graph == nil {
		err = r.src.Errorf(0, "it has no graph, so it is not an ONNX model")
	}
	return m, err
}

// opset reads the version of a domain's ops.
func (r *reader) opset(f field, to map[string]int64) error {
	if err := r.want(f, protowire.BytesType); err != nil {
		return err
	}
	var domain string
	var version int64
	err := r.fields(f.bytes, f.pos, func(f field) error {
		switch f.num {
		case 1:
			return r.text(f, &domain)
		case 2:
			return r.int(f, &version)
		}
		return nil
	})
	to[standardDomain(domain)] = version
	return err
}

// standardDomain returns "" for ONNX's own domain, which has two names, and other domains unchanged.
func standardDomain(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

// function parses a FunctionProto.
func (r *reader) function(b []byte, pos int64) (*Function, error) {
	fn := &Function{Opsets: map[string]int64{}}
	err := r.fields(b, pos, func(f field) error {
		switch f.num {
		case 1:
			return r.text(f, &fn.Name)
		case 4:
			return r.texts(f, &fn.Inputs)
		case 5:
			return r.texts(f, &fn.Outputs)
		case 6:
			return r.texts(f, &fn.Attributes)
		case 7:
			return message(r, f, &fn.Nodes, r.node)
		case 9:
			return r.opset(f, fn.Opsets)
		case 10:
			return r.text(f, &fn.Domain)
		case 11:
			return message(r, f, &fn.Defaults, r.attribute)
		case 13:
			return r.text(f, &fn.Overload)
		}
		return nil
	})
	fn.Domain = standardDomain(fn.Domain)
	if err == nil {
		if fn.Nodes, err = ordered(fn.Nodes); err != nil {
			err = r.src.Errorf(pos, "function %q: %v", fn.Name, err)
		}
	}
	return fn, err
}

// graph parses a GraphProto, and sorts its nodes.
func (r *reader) graph(b []byte, pos int64) (*Graph, error) {
	r.depth++
	if r.depth > maxNesting {
		return nil, r.src.Errorf(pos, "graphs are nested more than %d deep", maxNesting)
	}
	defer func() { r.depth-- }()
	g := &Graph{}
	err := r.fields(b, pos, func(f field) error {
		switch f.num {
		case 1:
			return message(r, f, &g.Nodes, r.node)
		case 2:
			return r.text(f, &g.Name)
		case 5:
			return message(r, f, &g.Initializers, r.tensor)
		case 11:
			return message(r, f, &g.Inputs, r.value)
		case 12:
			return message(r, f, &g.Outputs, r.value)
		case 15:
			return r.src.Errorf(f.pos, "the graph has a sparse initializer: vkc has no sparse tensors, store it as a "+
				"dense one")
		}
		return nil
	})
	if err == nil {
		if g.Nodes, err = ordered(g.Nodes); err != nil {
			err = r.src.Errorf(pos, "graph %q: %v", g.Name, err)
		}
	}
	if r.depth > 1 { // a subgraph, which may use names of the graphs around it
		g.outer = g.readsFromAround()
	}
	return g, err
}

// node parses a NodeProto.
func (r *reader) node(b []byte, pos int64) (*Node, error) {
	n := &Node{}
	err := r.fields(b, pos, func(f field) error {
		switch f.num {
		case 1:
			return r.texts(f, &n.Inputs)
		case 2:
			return r.texts(f, &n.Outputs)
		case 3:
			return r.text(f, &n.Name)
		case 4:
			return r.text(f, &n.Op)
		case 5:
			return message(r, f, &n.Attributes, r.attribute)
		case 7:
			return r.text(f, &n.Domain)
		case 8:
			return r.text(f, &n.Overload)
		}
		return nil
	})
	n.Domain = standardDomain(n.Domain)
	if err == nil && n.Op == "" {
		err = r.src.Errorf(pos, "a node names no op")
	}
	return n, err
}

// attribute parses an AttributeProto at position pos of the file. The cases are its field numbers in onnx.proto.
func (r *reader) attribute(b []byte, pos int64) (*Attribute, error) {
	a := &Attribute{}
	found := AttrNone // the type implied by the fields, since old files do not state it
	err := r.fields(b, pos, func(f field) error {
		switch f.num {
		case 1:
			return r.text(f, &a.Name)
		case 2:
			found = AttrFloat
			a.Float = math.Float32frombits(uint32(f.value))
			return r.want(f, protowire.Fixed32Type)
		case 3:
			found = AttrInt
			return r.int(f, &a.Int)
		case 4:
			found = AttrString
			return r.text(f, &a.String)
		case 5:
			found = AttrTensor
			return single(r, f, &a.Tensor, r.tensor)
		case 6:
			found = AttrGraph
			return single(r, f, &a.Graph, r.graph)
		case 7:
			found = AttrFloats
			return r.floats(f, &a.Floats)
		case 8:
			found = AttrInts
			return r.ints(f, &a.Ints)
		case 9:
			found = AttrStrings
			return r.texts(f, &a.Strings)
		case 10:
			found = AttrTensors
			return message(r, f, &a.Tensors, r.tensor)
		case 11:
			found = AttrGraphs
			return message(r, f, &a.Graphs, r.graph)
		case 14:
			found = AttrType
			var t Type
			a.Of = &t
			return single(r, f, &t, r.typ)
		case 20:
			return r.int(f, (*int64)(&a.Type))
		case 21:
			return r.text(f, &a.Ref)
		}
		return nil
	})
	if a.Type == AttrNone {
		a.Type = found
	}
	return a, err
}

// value parses a ValueInfoProto: the name and type of an input or output.
func (r *reader) value(b []byte, pos int64) (Value, error) {
	var v Value
	err := r.fields(b, pos, func(f field) error {
		switch f.num {
		case 1:
			return r.text(f, &v.Name)
		case 2:
			return single(r, f, &v.Type, r.typ)
		}
		return nil
	})
	return v, err
}

// typ parses a TypeProto.
func (r *reader) typ(b []byte, pos int64) (Type, error) {
	r.depth++
	if r.depth > maxNesting {
		return Type{}, r.src.Errorf(pos, "types are nested more than %d deep", maxNesting)
	}
	defer func() { r.depth-- }()
	t := Type{Kind: KindOther}
	err := r.fields(b, pos, func(f field) error {
		switch f.num {
		case 1:
			t.Kind = KindTensor
			return r.tensorType(f, &t)
		case 4:
			t.Kind = KindSequence
			return r.elementType(f, &t)
		case 9:
			t.Kind = KindOptional
			return r.elementType(f, &t)
		}
		return nil
	})
	return t, err
}

// elementType parses the type of the elements of a sequence or optional.
func (r *reader) elementType(f field, t *Type) error {
	if err := r.want(f, protowire.BytesType); err != nil {
		return err
	}
	return r.fields(f.bytes, f.pos, func(f field) error {
		if f.num != 1 {
			return nil
		}
		var of Type
		err := single(r, f, &of, r.typ)
		t.Of, t.Elem, t.HasShape, t.Shape = &of, of.Elem, of.HasShape, of.Shape
		return err
	})
}

// tensorType parses a tensor's dtype and shape.
func (r *reader) tensorType(f field, t *Type) error {
	if err := r.want(f, protowire.BytesType); err != nil {
		return err
	}
	return r.fields(f.bytes, f.pos, func(f field) error {
		switch f.num {
		case 1:
			t.Elem = DataType(f.value)
			return r.want(f, protowire.VarintType)
		case 2:
			t.HasShape = true
			if err := r.want(f, protowire.BytesType); err != nil {
				return err
			}
			return r.fields(f.bytes, f.pos, func(f field) error {
				if f.num != 1 {
					return nil
				}
				if len(t.Shape) == maxRank {
					return r.src.Errorf(f.pos, "a shape has more than %d axes", maxRank)
				}
				return message(r, f, &t.Shape, r.dim)
			})
		}
		return nil
	})
}

// dim parses an extent of a shape.
func (r *reader) dim(b []byte, pos int64) (Dim, error) {
	d := Dim{Size: -1}
	err := r.fields(b, pos, func(f field) error {
		switch f.num {
		case 1:
			d.Size = max(int64(f.value), -1) // some exporters write other negative numbers for "not known"
			return r.want(f, protowire.VarintType)
		case 2:
			return r.text(f, &d.Name)
		}
		return nil
	})
	return d, err
}
