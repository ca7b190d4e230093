package ir

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AttrKind is the type of an attribute's value.
type AttrKind uint8

// The attribute kinds, each with the Go type that holds its value.
const (
	AttrInt    AttrKind = iota + 1 // int64
	AttrInts                       // []int64
	AttrFloat                      // float64
	AttrBool                       // bool
	AttrString                     // string
	AttrDType                      // DType
	AttrShape                      // Shape
	AttrData                       // *Data
	AttrGraph                      // *Graph, made by NewBody
)

var attrKindNames = [...]string{"", "int", "ints", "float", "bool", "string", "dtype", "shape", "data", "graph"}

// String returns the kind's name as docs/OPS.md prints it.
func (k AttrKind) String() string { return attrKindNames[k] }

// AttrInfo declares one attribute of an op.
type AttrInfo struct {
	Name    string
	Kind    AttrKind
	Default any      // nil if the attribute is required
	Enum    []string // the allowed values of a string attribute
	Doc     string

	// Samples are values to test the op with, besides the default. A required attribute of an elementwise op or a
	// reduction needs some.
	Samples []any
}

// SampleAttrs returns attributes to test an op with: the i-th sample of each attribute, modulo the number of its
// samples. It leaves out attributes with a default unless all is set.
func (in *OpInfo) SampleAttrs(i int, all bool) []Attr {
	var list []Attr
	for _, a := range in.Attrs {
		if n := len(a.Samples); n > 0 && (all || a.Default == nil) {
			list = append(list, Attr{a.Name, a.Samples[i%n]})
		}
	}
	return list
}

// SampleCount returns the largest number of samples of any attribute.
func (in *OpInfo) SampleCount() int {
	n := 0
	for _, a := range in.Attrs {
		n = max(n, len(a.Samples))
	}
	return n
}

// Attr is one attribute of a node.
type Attr struct {
	Name  string
	Value any // the Go type of its AttrKind
}

// Attrs are the attributes of a node, in the order of the op's declaration, all present (defaults filled in).
type Attrs []Attr

// get returns the value of an attribute, or nil.
func (a Attrs) get(name string) any {
	for _, at := range a {
		if at.Name == name {
			return at.Value
		}
	}
	return nil
}

// Has reports whether the attribute is there.
func (a Attrs) Has(name string) bool { return a.get(name) != nil }

// Int returns an int attribute, or 0 if there is none of that name.
func (a Attrs) Int(name string) int { v, _ := a.get(name).(int64); return int(v) }

// Ints returns an ints attribute, or nil if there is none of that name. The getters below return zero values likewise.
func (a Attrs) Ints(name string) []int64 { v, _ := a.get(name).([]int64); return v }

// Float returns a float attribute.
func (a Attrs) Float(name string) float64 { v, _ := a.get(name).(float64); return v }

// Bool returns a bool attribute.
func (a Attrs) Bool(name string) bool { v, _ := a.get(name).(bool); return v }

// String_ returns a string attribute. (String would be the method of fmt.Stringer.)
func (a Attrs) String_(name string) string { v, _ := a.get(name).(string); return v }

// DType returns a dtype attribute.
func (a Attrs) DType(name string) DType { v, _ := a.get(name).(DType); return v }

// Shape returns a shape attribute.
func (a Attrs) Shape(name string) Shape { v, _ := a.get(name).(Shape); return v }

// Data returns a data attribute.
func (a Attrs) Data(name string) *Data { v, _ := a.get(name).(*Data); return v }

// Graph returns a graph attribute.
func (a Attrs) Graph(name string) *Graph { v, _ := a.get(name).(*Graph); return v }

// resolveAttrs checks given attributes against the op's declaration and
// returns them complete and in order.
func resolveAttrs(info *OpInfo, given []Attr) (Attrs, error) {
	out := make(Attrs, 0, len(info.Attrs))
	for _, spec := range info.Attrs {
		v, err := attrValue(spec, given)
		if err != nil {
			return nil, err
		}
		out = append(out, Attr{spec.Name, v})
	}
	for _, g := range given { // finds attributes that the op does not have
		if _, err := info.attr(g.Name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// attr returns the declaration of an attribute.
func (in *OpInfo) attr(name string) (AttrInfo, error) {
	for _, s := range in.Attrs {
		if s.Name == name {
			return s, nil
		}
	}
	return AttrInfo{}, fmt.Errorf("unknown attribute %q: %s has %s", clip(name), in.Name, attrNames(in))
}

// attrValue returns the value of the attribute that spec declares: the given one, checked, or the default.
func attrValue(spec AttrInfo, given []Attr) (any, error) {
	var v any
	for _, g := range given {
		if g.Name != spec.Name {
			continue
		}
		if v != nil {
			return nil, fmt.Errorf("attribute %q is given twice", spec.Name)
		}
		v = g.Value
	}
	if v == nil {
		if spec.Default == nil {
			return nil, fmt.Errorf("attribute %q (%s) is missing: %s", spec.Name, spec.Kind, spec.Doc)
		}
		return spec.Default, nil
	}
	v = widenAttr(v, spec.Kind)
	if err := checkAttr(spec, v); err != nil {
		return nil, fmt.Errorf("attribute %q: %w", spec.Name, err)
	}
	return v, nil
}

// widenAttr converts an int or []int, which callers naturally write, to the Go type of the attribute's kind.
func widenAttr(v any, kind AttrKind) any {
	switch x := v.(type) {
	case int:
		if kind == AttrFloat {
			return float64(x)
		}
		return int64(x)
	case int64:
		if kind == AttrFloat {
			return float64(x)
		}
	case []int:
		out := make([]int64, len(x))
		for i, n := range x {
			out[i] = int64(n)
		}
		return out
	}
	return v
}

// checkAttr returns an error unless v has the Go type of the attribute's kind and is an allowed value.
func checkAttr(spec AttrInfo, v any) error {
	if !spec.Kind.isTypeOf(v) {
		return fmt.Errorf("want %s, have %T", spec.Kind, v)
	}
	switch v := v.(type) {
	case []int64:
		if len(v) > MaxRank {
			return fmt.Errorf("%d values are more than the %d axes a tensor can have", len(v), MaxRank)
		}
	case float64:
		if math.IsNaN(v) {
			return fmt.Errorf("NaN is not a usable value")
		}
	case string:
		if !utf8.ValidString(v) {
			return fmt.Errorf("%q is not UTF-8, so graph.json could not hold it", v)
		}
		if spec.Enum != nil && !slices.Contains(spec.Enum, v) {
			return fmt.Errorf("%q is not one of %s", v, strings.Join(spec.Enum, ", "))
		}
	case DType:
		if !v.Valid() {
			return fmt.Errorf("invalid dtype")
		}
	case Shape:
		return v.Check()
	case *Data:
		return checkConst(v)
	}
	return nil
}

// isTypeOf reports whether v has the Go type of attributes of kind k. A nil graph counts as no graph.
func (k AttrKind) isTypeOf(v any) bool {
	ok := false
	switch k {
	case AttrInt:
		_, ok = v.(int64)
	case AttrInts:
		_, ok = v.([]int64)
	case AttrFloat:
		_, ok = v.(float64)
	case AttrBool:
		_, ok = v.(bool)
	case AttrString:
		_, ok = v.(string)
	case AttrDType:
		_, ok = v.(DType)
	case AttrShape:
		_, ok = v.(Shape)
	case AttrData:
		_, ok = v.(*Data)
	case AttrGraph:
		g, isGraph := v.(*Graph)
		ok = isGraph && g != nil
	}
	return ok
}

// checkConst rejects constants that text IR could not represent uniquely: missing data, and bools other than 0 and 1.
func checkConst(d *Data) error {
	if d == nil {
		return fmt.Errorf("want data, have nil")
	}
	if err := d.Check(); err != nil {
		return err
	}
	if unused := d.unusedBits(); unused != 0 && d.Bytes[len(d.Bytes)-1]&unused != 0 {
		return fmt.Errorf("the last byte of %s is %#x: want 0 in the bits after the last element", d,
			d.Bytes[len(d.Bytes)-1])
	}
	if d.DType == Bool {
		for i, b := range d.Bytes {
			if b > 1 {
				return fmt.Errorf("element %d of %s is byte %d: want 0 or 1 for a bool", i, d, b)
			}
		}
	}
	return nil
}

// attrNames lists the names of an op's attributes, for errors.
func attrNames(info *OpInfo) string {
	if len(info.Attrs) == 0 {
		return "none"
	}
	names := make([]string, len(info.Attrs))
	for i, s := range info.Attrs {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// FormatAttr prints an attribute value as text IR does.
func FormatAttr(v any) string {
	switch x := v.(type) {
	case int64:
		return strconv.FormatInt(x, 10)
	case []int64:
		parts := make([]string, len(x))
		for i, n := range x {
			parts[i] = strconv.FormatInt(n, 10)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case float64:
		return FormatFloat(x)
	case bool:
		return strconv.FormatBool(x)
	case string:
		return strconv.Quote(x)
	case DType:
		return x.String()
	case Shape:
		return x.String()
	case *Data:
		return formatData(x)
	case *Graph:
		return strings.ReplaceAll(strings.TrimSuffix(x.String(), "\n"), "\n", "\n  ")
	}
	return fmt.Sprintf("<%T>", v)
}

// FormatFloat prints a float so that it parses to the same bits and differs from an integer; infinities are inf and
// -inf.
func FormatFloat(x float64) string {
	switch {
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	case math.IsNaN(x):
		return "nan"
	}
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}
