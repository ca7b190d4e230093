package emit

import "slices"

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
