package spv_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/spv"
	. "github.com/vkc-go/vkc/internal/spv/spvtest"
)

var declared = spv.Interface{Bindings: 2, Workgroup: 64, Needs: []string{"storage16"}}

// The instructions for a storage buffer of type %10, variable %12.
var (
	structure = []uint32{30, 10}                                       // OpTypeStruct
	pointer   = []uint32{32, 11, 12, 10}                               // OpTypePointer StorageBuffer
	variable  = []uint32{59, 11, 12, 12}                               // OpVariable StorageBuffer
	set0      = []uint32{71, 12, 34, 0}                                // OpDecorate DescriptorSet
	binding1  = []uint32{71, 12, 33, 1}                                // OpDecorate Binding
	glsl      = []uint32{11, 3, 0x4c534c47, 0x6474732e, 0x3035342e, 0} // OpExtInstImport "GLSL.std.450"
)

func TestCheckShader(t *testing.T) {
	size := LocalSize(64, 1, 1)
	builtin := func(x uint32) [][]uint32 { // gl_WorkGroupSize
		return [][]uint32{{71, 20, 11, 25}, {43, 9, 21, x}, {43, 9, 22, 1}, {44, 9, 20, 21, 22, 22}}
	}
	tests := []struct {
		name string
		code [][]uint32
		want string // in the error; empty: it is the shader
	}{
		{"the least", [][]uint32{Shader, Main, size}, ""},
		{"a buffer", [][]uint32{Shader, glsl, Main, size, set0, binding1, structure, pointer, variable}, ""},
		{"a size twice", append([][]uint32{Shader, Main, size}, builtin(64)...), ""},
		{"a size in y", [][]uint32{Shader, Main, LocalSize(8, 8, 1)}, ""},
		{"a declared feature", [][]uint32{Shader, {17, 4433}, Main, size}, ""},

		{"another size", [][]uint32{Shader, Main, LocalSize(128, 1, 1)}, "128 x 1 x 1 invocations, declared are 64"},
		{"a size that overflows", [][]uint32{Shader, Main, LocalSize(1<<31, 1<<31, 16)}, "workgroups are"},
		{"a size of nothing", [][]uint32{Shader, Main, LocalSize(0, 64, 1)}, "workgroups are"},
		{"two sizes", append([][]uint32{Shader, Main, size}, builtin(32)...), "workgroups are [64 1 1] and [32 1 1]"},
		{"no size", [][]uint32{Shader, Main}, "how large"},
		{"a size that is not a constant", [][]uint32{Shader, Main, {71, 20, 11, 25}}, "not a constant"},
		{"a graphics shader", [][]uint32{Shader, {15, 4, 2, 0x6e69616d, 0}, size}, "want one compute shader"},
		{"another entry point", [][]uint32{Shader, {15, 5, 2, 0x6e69616e, 0}, size}, "want one compute shader"},
		{"two entry points", [][]uint32{Shader, Main, Main, size}, "want one compute shader"},
		{"an undeclared feature", [][]uint32{Shader, {17, 9}, Main, size}, "needs float16"},
		{"an unknown feature", [][]uint32{Shader, {17, 5347}, Main, size}, "capability 5347"},
		{"printf", [][]uint32{Shader, {11, 3, 0x536e6f4e, 0}, Main, size}, "instruction set"},
		{"a foreign extension", [][]uint32{Shader, {10, 0x4c525545, 0}, Main, size}, "extension"},
		{"a binding too high", [][]uint32{Shader, Main, size, set0, {71, 12, 33, 2}, structure, pointer, variable}, "bindings 0 to 1"},
		{"another set", [][]uint32{Shader, Main, size, {71, 12, 34, 1}, binding1, structure, pointer, variable}, "bindings 0 to 1"},
		{"no binding", [][]uint32{Shader, Main, size, set0, structure, pointer, variable}, "bindings 0 to 1"},
		{"an array of buffers", [][]uint32{Shader, Main, size, set0, binding1, pointer, variable}, "bindings 0 to 1"},
		{"an image", [][]uint32{Shader, Main, size, {32, 11, 0, 10}, {59, 11, 12, 0}}, "storage class 0"},
		{"push constants", [][]uint32{Shader, Main, size, {32, 11, 9, 10}, {59, 11, 12, 9}}, "storage class 9"},
		{"a variable of two classes", [][]uint32{Shader, Main, size, {32, 11, 12, 10}, {59, 11, 12, 7}}, "storage class 7"},
		{"an instruction cut short", [][]uint32{Shader, Main, size, {59, 11}}, "opcode 59 with 1 operands"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := spv.CheckShader(Assemble(append(tt.code, End)...), declared)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// FuzzCheckShader: no module makes the check panic, and accepted modules are complete.
func FuzzCheckShader(f *testing.F) {
	f.Add(Module(64, 1, 3))
	f.Add(Assemble(Shader, glsl, Main, LocalSize(64, 1, 1), set0, binding1, structure, pointer, variable, End))
	f.Fuzz(func(t *testing.T, b []byte) {
		if spv.CheckShader(b, declared) == nil && spv.Check(b) != nil {
			t.Error("a module passes that is not whole")
		}
	})
}
