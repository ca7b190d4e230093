package glsl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// TargetEnv returns the environment for which to compile a shader with these needs: Vulkan 1.3 for cooperative matrices
// of workgroup scope, 1.1 for devices without 1.2, and 1.2 otherwise.
func TargetEnv(needs []string, api device.APIVersion) string {
	switch {
	case slices.Contains(needs, emit.NeedCoopMat2):
		return "vulkan1.3"
	case !api.AtLeast(1, 2):
		return "vulkan1.1"
	}
	return "vulkan1.2"
}

// preserveNaN requests the execution mode SignedZeroInfNanPreserve (SPIR-V 1.6, 3.6) for floats of the given width.
// Without it, drivers replace x - x by 0, and x > y ? x : y by a maximum, which is wrong for infinities and NaN. SPIR-V
// 1.4 includes the mode; earlier versions need an extension, floatControls.
//
// If a shader names the extension, spirv-opt 2026.4 keeps dead stores. lavapipe's compiler needs these stores: without
// them it takes seconds for an unrolled matvec, and minutes for the largest. For SwiftShader they must be removed; see
// [device.SlowBranches].
const preserveNaN = `// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(%scapabilities = [4466], 4461, %d);
`

// floatControls requests that extension in the execution mode.
const floatControls = `extensions = ["SPV_KHR_float_controls"], `

// Shader is the GLSL of a kernel, with the facts that a program needs to run it.
type Shader struct {
	Source string
	// SPIRV is the module if a custom op provides compiled SPIR-V. Source then only describes it.
	SPIRV []byte
	// Grid is the number of workgroups of a dispatch.
	Grid kernel.Grid
	// Needs lists the device features that the shader needs (the Need constants of package emit), sorted.
	Needs []string
	// SharedBytes is the size of the shader's shared memory.
	SharedBytes int
	// SubgroupSize is the subgroup size that the shader relies on, with full subgroups, or 0.
	SubgroupSize int
	// Workgroup is the number of invocations per workgroup.
	Workgroup int

	parts parts // the parts of Source, if vkc wrote it
}

// parts are the parts of a shader's source.
type parts struct {
	about      string   // comments
	extensions []string // lines that enable extensions
	modes      []string // execution modes
	buffers    []emit.View
	shared     []emit.Shared
	functions  []*syntax.Definition // also macros and constants; each uses only earlier ones
	main       *syntax.Definition
}

// extensions430 lists the extensions that work in GLSL 4.30 as they do in 4.50. The types of 64-bit integers are not
// among them: in 4.30, their min and max would be computed as doubles.
var extensions430 = []string{"GL_EXT_shader_8bit_storage", "GL_EXT_shader_16bit_storage",
	"GL_KHR_shader_subgroup_basic", "GL_KHR_shader_subgroup_shuffle", "GL_KHR_shader_subgroup_vote",
	"GL_EXT_spirv_intrinsics", "GL_EXT_control_flow_attributes", "GL_EXT_buffer_reference",
	"GL_EXT_buffer_reference_uvec2", "GL_KHR_memory_scope_semantics"}

// versionLines returns the lines with the version of GLSL and the extensions. The version is 4.30 if that has
// everything that the shader uses, and otherwise 4.50. glslc first parses the declarations of all built-in functions
// of the version. For 4.50 that takes three times as long as for 4.30, and longer than dozens of shaders.
func (p parts) versionLines(code string) string {
	lines := strings.Join(p.extensions, "")
	for _, line := range p.extensions {
		if name := strings.Fields(line)[1]; !slices.Contains(extensions430, name) {
			return "#version 450\n" + lines
		}
	}
	if strings.Contains(code, "mix(") { // of integers, which 4.50 has without an extension
		lines += "#extension GL_EXT_shader_integer_mix : require\n"
	}
	return "#version 430\n" + lines
}

// text returns the shader's source.
func (p parts) text(workgroup int) string {
	code := p.code(workgroup)
	return p.about + p.versionLines(code) + code
}

// code returns the shader without its head.
func (p parts) code(workgroup int) string {
	var b strings.Builder
	for _, m := range p.modes {
		b.WriteString("\n" + m)
	}
	fmt.Fprintf(&b, "\nlayout(local_size_x = %d) in;\n\n", workgroup)
	for _, v := range p.buffers {
		b.WriteString(v.String())
	}
	for i, s := range p.shared {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(s.String() + "\n")
	}
	for _, f := range p.functions {
		b.WriteString("\n" + f.String())
	}
	b.WriteString("\n" + p.main.String())
	return b.String()
}

// Origins returns, for each line of Source, the ops of the graph that the line computes, and "load" if it loads an
// element. A line of addresses, loops or library functions has none.
func (sh *Shader) Origins() [][]string {
	all := make([][]string, strings.Count(sh.Source, "\n"))
	if sh.parts.main == nil {
		return all
	}
	// text writes the functions last, each after an empty line.
	var written [][]string
	for _, f := range append(slices.Clip(sh.parts.functions), sh.parts.main) {
		written = append(append(written, nil), f.Origins()...)
	}
	copy(all[len(all)-len(written):], written)
	return all
}

// declarations lists everything that the shader declares.
func (p parts) declarations() (all []declaration) {
	for _, v := range p.buffers {
		all = append(all, ofBuffer(v))
	}
	for _, s := range p.shared {
		all = append(all, ofShared(s))
	}
	for _, f := range p.functions {
		all = append(all, ofFunction(f))
	}
	return all
}

// renamed returns the parts with names replaced.
func (p parts) renamed(names map[string]string) parts {
	if len(names) == 0 {
		return p
	}
	p.buffers, p.shared, p.functions = slices.Clone(p.buffers), slices.Clone(p.shared), slices.Clone(p.functions)
	for i := range p.buffers {
		a := &p.buffers[i].Array
		a.Name = cmp.Or(names[a.Name], a.Name)
	}
	for i := range p.shared {
		p.shared[i].Name = cmp.Or(names[p.shared[i].Name], p.shared[i].Name)
	}
	for i, f := range p.functions {
		p.functions[i] = f.Renamed(names)
	}
	p.main = p.main.Renamed(names)
	return p
}

// declaration is a global declaration of a shader: an array over a buffer, a shared array or a function.
type declaration struct {
	name      string
	signature string // differs from the signatures of all other declarations of a shader
	source    string
}

func ofBuffer(v emit.View) declaration   { return declaration{v.Array.Name, v.Array.Name, v.String()} }
func ofShared(s emit.Shared) declaration { return declaration{s.Name, s.Name, s.String()} }
func ofFunction(f *syntax.Definition) declaration {
	return declaration{f.Name, f.Signature(), f.String()}
}
