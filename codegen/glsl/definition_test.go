package glsl

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseDefinition(t *testing.T) {
	for text, want := range map[string]definition{
		"// Half of x,\n// exactly.\nfloat half_of(const in float x, float y[4]) {\n    return 0.5 * x;\n}\n": {
			note: "// Half of x,\n// exactly.\n", before: "float", name: "half_of",
			params: []string{"const in float x", "float y[4]"}, body: "    return 0.5 * x;\n}\n"},
		"void wait() {\n    if (f(x)) {\n    }\n}\n": {
			before: "void", name: "wait", params: []string{}, body: "    if (f(x)) {\n    }\n}\n"},
		"#define INF uintBitsToFloat(0x7f800000u)\n": {
			before: "#define", name: "INF", body: " uintBitsToFloat(0x7f800000u)\n"},
		"// Some.\nconst uint ODD[2] = uint[](1u, 3u);\n": {
			note: "// Some.\n", before: "const uint", name: "ODD", body: "[2] = uint[](1u, 3u);\n"},
	} {
		d := parseDefinition(text)
		if !reflect.DeepEqual(d, want) {
			t.Errorf("%q: have %#v, want %#v", text, d, want)
		}
		if d.String() != text {
			t.Errorf("%q is printed as %q", text, d)
		}
	}
}

// TestLibraryDefinitions: a row of the library is one definition, of the name that the row has.
func TestLibraryDefinitions(t *testing.T) {
	for _, h := range library {
		for _, typ := range h.types {
			d := h.definition(typ)
			if d.name != h.name {
				t.Errorf("%s of %s defines %q", h.name, typ, d.name)
			}
			ends := strings.Count("\n"+d.body, "\n}")
			if d.isFunction() && (ends != 1 || !strings.HasSuffix(d.body, "\n}\n")) {
				t.Errorf("%s of %s has %d functions:\n%s", h.name, typ, ends, d)
			}
		}
	}
}

// TestRenamed: names change where they stand for themselves, and not in comments, behind a dot or within longer ones.
func TestRenamed(t *testing.T) {
	names := map[string]string{"x": "y", "f": "g", "b": "c"}
	d := parseDefinition("// About x.\nuint f(uint x, uint b) {\n    return x + v.x + f_x + f(b, 1u); // x\n}\n").
		renamed(names)
	want := "// About x.\nuint g(uint y, uint c) {\n    return y + v.x + f_x + g(c, 1u); // x\n}\n"
	if d.String() != want {
		t.Errorf("have %s", d)
	}
	if d.head() != "uint g(uint y, uint c)" || d.signature() != "g(uint, uint)" ||
		!slices.Equal(d.params, []string{"uint y", "uint c"}) {
		t.Errorf("have %#v", d)
	}
	if m := parseDefinition("#define x 1\n").renamed(names); m.isFunction() || m.signature() != "y" {
		t.Errorf("have %#v", m)
	}
}

// TestSignature: functions of one name are one to GLSL where types of parameters are the same, whatever these are
// called and whatever is returned.
func TestSignature(t *testing.T) {
	for head, want := range map[string]string{
		"uint f(uint a, float x[4])":                  "f(uint, float[4])",
		"float f(uint b, float y[4])":                 "f(uint, float[4])",
		"void f(inout float sum, const in uint)":      "f(float, uint)",
		"float f(const in uint row, const in vec4 x)": "f(uint, vec4)",
		"float f()": "f()",
	} {
		if have := newFunction(head, "").signature(); have != want {
			t.Errorf("%s: %s, want %s", head, have, want)
		}
	}
}
