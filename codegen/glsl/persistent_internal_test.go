package glsl

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// phaseOf is a phase with one buffer of floats, x, at a slot.
func phaseOf(slot int, grid [3]uint32, functions ...string) Phase {
	b := &emit.Buffer{Binding: kernel.Binding{Name: "x", DType: ir.F32, Elems: 4}, Name: "x"}
	sh := &Shader{Workgroup: 32, Needs: []string{"int8"}, SharedBytes: 4}
	sh.parts = parts{about: "// a phase\n", buffers: []emit.View{{Buffer: b,
		Array: emit.Array{Typ: "float", Name: "x"}}},
		shared: []emit.Shared{{Type: "float", Name: "sums", Size: "[4]"}}}
	last := len(functions) - 1
	for _, f := range functions[:last] {
		sh.parts.functions = append(sh.parts.functions, parsed(f))
	}
	sh.parts.main = parsed(functions[last])
	sh.Source = sh.parts.text(32)
	return Phase{sh, []int{slot}, grid}
}

// Equal declarations of phases appear once. Different declarations of one name get different names, and so do the
// functions that mention them. Functions that differ in their parameters keep their names.
func TestPersistentNames(t *testing.T) {
	scale := "float scale(float v) {\n    return v;\n}\n"
	sh, err := Persistent("both", []Phase{
		phaseOf(0, [3]uint32{4, 1, 1}, scale, "float twice(float v) {\n    return 2.0 * scale(v);\n}\n",
			"void main() {\n    x[gl_WorkGroupID.x] = twice(1.0);\n}\n"),
		phaseOf(1, [3]uint32{9, 1, 1}, scale, "float scale(int v) {\n    return float(v);\n}\n",
			"float twice(float v) {\n    return scale(v) + scale(1);\n}\n",
			"float four(float v) {\n    return twice(twice(v));\n}\n",
			"void main() {\n    x[gl_WorkGroupID.x % gl_NumWorkGroups.x] = four(1.0);\n}\n"),
		phaseOf(0, [3]uint32{1, 2, 1}, scale, "uint four(float x) {\n    return uint(x);\n}\n",
			"void main() {\n    x[gl_GlobalInvocationID.y] = scale(four(2.0));\n}\n"),
	}, []bool{true, false}, 4)
	if err != nil {
		t.Fatal(err)
	}
	for text, n := range map[string]int{
		scale: 1, "float scale(int v)": 1, "float twice(float v)": 1, "shared float sums[4];": 1,
		"float twice_2(float v) {\n    return scale(v) + scale(1);": 1,
		"uint four_2(float x) {\n":                                  1, "scale(four_2(2.0))": 1,
		"float four(float v) {\n    return twice_2(twice_2(v));":                                             1,
		"binding = 0, std430) nonprivate buffer X_buffer { float x[]; };":                                    1,
		"binding = 1, std430) buffer X_2_buffer { float x_2[]; };":                                           1,
		"void phase_2(uvec3 workgroup, uvec3 workgroups) {\n    x_2[workgroup.":                              1,
		"binding = 2, std430) buffer Meeting_buffer":                                                         1,
		"    phase_1(uvec3(gl_WorkGroupID.x, 0u, 0u));\n    meet(4u);\n":                                     1,
		"for (uint n = gl_WorkGroupID.x; n < 9u; n += 4u) {":                                                 1,
		"    if (gl_WorkGroupID.x < 2u) {\n        phase_3(uvec3(0u, gl_WorkGroupID.x, 0u));":                1,
		"    uvec3 invocation = workgroup * gl_WorkGroupSize + gl_LocalInvocationID;\n    x[invocation.y] =": 1, "meet(8u);": 1, "meet(": 3, "leave();\n}\n": 1,
	} {
		if have := strings.Count(sh.Source, text); have != n {
			t.Errorf("%q stands there %d times, want %d", text, have, n)
		}
	}
	if sh.SharedBytes != 12 || len(sh.Needs) != 2 || t.Failed() {
		t.Errorf("%d bytes of shared memory, needs %v:\n%s", sh.SharedBytes, sh.Needs, sh.Source)
	}
	if _, err := Persistent("other", []Phase{phaseOf(0, [3]uint32{1, 1, 1}, "void main() {\n}\n"),
		{Shader: &Shader{Workgroup: 32}}}, []bool{true}, 4); err == nil {
		t.Error("a phase without parts is taken")
	}
}

func parsed(source string) *syntax.Definition {
	d, err := syntax.ParseDefinition(source)
	if err != nil {
		panic(err)
	}
	return d
}
