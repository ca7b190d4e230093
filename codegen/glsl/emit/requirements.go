package emit

import (
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
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

// Device features that a shader may need, by their names in device.Caps.Has.
const (
	NeedStorage8        = "storage8"              // 8-bit elements in storage buffers
	NeedStorage16       = "storage16"             // 16-bit elements in storage buffers
	NeedFloat64         = "float64"               // double arithmetic
	NeedInt64           = "int64"                 // 64-bit integer arithmetic
	NeedSubgroupBasic   = "subgroup_basic"        // subgroup ids
	NeedSubgroupShuffle = "subgroup_shuffle"      // values of other invocations
	NeedSubgroupVote    = "subgroup_vote"         // whether a condition holds for any invocation
	needSubgroupSums    = "subgroup_arithmetic"   // sums over a subgroup, for custom kernels
	NeedSubgroupTypes   = "subgroupExtendedTypes" // 64-bit operands of subgroup operations
	NeedInt8            = "int8"                  // 8-bit integers as values, or matrices of them
	NeedInt16           = "int16"                 // 16-bit integers as values
	NeedFloat16         = "float16"               // f16 arithmetic, or matrices of f16
	NeedBFloat16Matrix  = "bfloat16Matrix"        // matrices of bf16
	NeedMemoryModel     = "memoryModel"           // the Vulkan memory model
	NeedCoopMat         = "cooperativeMatrix"     // matrices of subgroup scope
	NeedCoopMat2        = "cooperativeMatrix2"    // matrices of workgroup scope, tensor addressing
	NeedMaintenance4    = "maintenance4"          // the SPIR-V of Vulkan 1.3
	NeedIntDot          = "integerDotProduct"     // four int8 multiplications, added up
	NeedPreserveNaN     = "preserveNaN32"         // float arithmetic that optimizers must keep IEEE-conforming
	NeedPreserveNaN64   = "preserveNaN64"         // the same for double
	NeedAddress         = "bufferDeviceAddress"   // buffers larger than a binding may be

	needAtomicFloats = "atomicFloat32Add"       // atomic adds to floats in buffers
	needSharedFloats = "sharedAtomicFloat32Add" // the same in shared memory
)

// Needs describes each Need constant.
var Needs = map[string]struct {
	Extension string // the GLSL extension that enables it, or ""
	Custom    bool   // custom kernels may request it
}{
	NeedStorage8:        {"GL_EXT_shader_8bit_storage", true},
	NeedStorage16:       {"GL_EXT_shader_16bit_storage", true},
	NeedFloat64:         {"", true},
	NeedInt64:           {"GL_EXT_shader_explicit_arithmetic_types_int64", true},
	NeedSubgroupBasic:   {"GL_KHR_shader_subgroup_basic", true},
	NeedSubgroupShuffle: {"GL_KHR_shader_subgroup_shuffle", true},
	needSubgroupSums:    {"GL_KHR_shader_subgroup_arithmetic", true},
	NeedSubgroupVote:    {"GL_KHR_shader_subgroup_vote", false},
	NeedSubgroupTypes:   {"GL_EXT_shader_subgroup_extended_types_int64", false},
	NeedInt8:            {"GL_EXT_shader_explicit_arithmetic_types_int8", true},
	NeedInt16:           {"GL_EXT_shader_explicit_arithmetic_types_int16", true},
	NeedFloat16:         {"GL_EXT_shader_explicit_arithmetic_types_float16", true},
	NeedBFloat16Matrix:  {"GL_EXT_bfloat16", false},
	NeedMemoryModel:     {"GL_KHR_memory_scope_semantics", false},
	NeedCoopMat:         {"GL_KHR_cooperative_matrix", false},
	NeedCoopMat2:        {"GL_NV_cooperative_matrix2", false},
	NeedMaintenance4:    {"", false},
	NeedIntDot:          {"GL_EXT_integer_dot_product", false},
	NeedPreserveNaN:     {"GL_EXT_spirv_intrinsics", false},
	NeedPreserveNaN64:   {"GL_EXT_spirv_intrinsics", false},
	NeedAddress:         {"GL_EXT_buffer_reference", true},
	needAtomicFloats:    {"GL_EXT_shader_atomic_float", true},
	needSharedFloats:    {"GL_EXT_shader_atomic_float", true},
}

// CustomNeeds lists the features that a custom kernel may request, sorted.
func CustomNeeds() (names []string) {
	for name, n := range Needs {
		if n.Custom {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Functions returns the helpers, decoders and custom ops that main uses, and main itself last. It removes unused
// statements.
func (e *Emitter) Functions() []*syntax.Definition {
	main := e.Definition("void main() {\n}\n")
	main.Body = syntax.Prune(append(e.symbolLines(), e.Root.body...))
	var own []*syntax.Definition
	if device.LosesNaN(e.Caps) {
		own = slices.Clone(lib.NaNGuards)
	}
	for _, h := range lib.All {
		for _, typ := range h.Types {
			if e.Helpers[h.Name+" "+typ] {
				own = append(own, h.Definition(typ))
			}
		}
	}
	// Functions of Definitions may call custom ops.
	kept := append(slices.Clone(e.custom), main)
	return pruneFunctions(slices.Concat(own, e.custom, e.Definitions, []*syntax.Definition{main}), kept)
}
