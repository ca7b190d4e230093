package emit

import (
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/lib"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/ir"
)

// Requirements are what main needs outside itself: device features and functions.
type Requirements struct {
	Job
	Needs       map[string]bool
	Helpers     map[string]bool      // library functions: name, space, type
	Definitions []*syntax.Definition // functions that families define, such as decoders of block formats
	custom      []*syntax.Definition // functions of custom ops
	once        map[string]bool      // keys that Once was called with
}

// Need records that the shader needs device features.
func (r *Requirements) Need(names ...string) {
	for _, n := range names {
		r.Needs[n] = true
	}
}

// SortedNeeds lists the device features that the shader needs.
func (r *Requirements) SortedNeeds() []string { return slices.Sorted(maps.Keys(r.Needs)) }

// NeedType records the device feature that a variable of a type needs.
func (r *Requirements) NeedType(typ string) {
	switch typ {
	case "double":
		r.Need(NeedFloat64)
	case "int64_t":
		r.Need(NeedInt64)
	}
}

// NeedMatrix records the device features that cooperative matrices of a dtype need.
func (r *Requirements) NeedMatrix(t ir.DType) {
	switch t {
	case ir.BF16:
		r.Need(NeedBFloat16Matrix)
	case ir.I8, ir.U8:
		r.Need(NeedInt8)
	default:
		r.Need(NeedFloat16)
	}
}

// Helper adds a library function for a type to the shader, with the functions that it calls.
func (r *Requirements) Helper(name, typ string) {
	h, typ := lib.Find(name, typ)
	if h == nil {
		r.Fail("the library has no %s of %s", name, typ)
		return
	}
	if r.Helpers[name+" "+typ] {
		return
	}
	r.Helpers[name+" "+typ] = true
	r.NeedType(typ)
	if strings.Contains(h.Source, "int64_t") {
		r.Need(NeedInt64)
	}
	for _, u := range h.Uses() {
		r.Helper(u, typ)
	}
}

// Add parses a definition and adds it to the shader. Later functions may use it.
func (r *Requirements) Add(source string) {
	r.Definitions = append(r.Definitions, r.Definition(source))
}

// AddFunction adds a function with a head such as "float half(float x)" and the given body.
func (r *Requirements) AddFunction(head, lines string) { r.Add(head + " {\n" + lines + "}\n") }

// Definition parses a definition.
func (r *Requirements) Definition(source string) *syntax.Definition {
	d, err := syntax.ParseDefinition(source)
	if err != nil {
		r.Fail("%v", err)
	}
	return d
}

// Once reports whether this is the first call with the key. Callers use it to add a function only once.
func (r *Requirements) Once(key string) bool {
	first := !r.once[key]
	r.once[key] = true
	return first
}
