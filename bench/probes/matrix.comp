#version 450
// Matrix products that stay in registers, of f16 summed in f32 or of bytes summed in i32. The shape of the fragments is the device's.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = SUBGROUP * 8) in;
layout(std430, set = 0, binding = 0) readonly buffer Src { ELEM src[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Dst { SUM dst[]; };
void main() {
	coopmat<ELEM, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a[2];
	coopmat<ELEM, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b[4];
	coopmat<SUM, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> sums[8];
	for (int i = 0; i < 2; i++) coopMatLoad(a[i], src, i * M * K, K, gl_CooperativeMatrixLayoutRowMajor);
	for (int j = 0; j < 4; j++) coopMatLoad(b[j], src, j * K * N, N, gl_CooperativeMatrixLayoutRowMajor);
	for (int i = 0; i < 8; i++) sums[i] = coopmat<SUM, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(0);
	for (int n = 0; n < ROUNDS; n++)
		for (int i = 0; i < 8; i++)
			sums[i] = coopMatMulAdd(a[i / 4], b[i % 4], sums[i]);
	for (int i = 1; i < 8; i++) sums[0] += sums[i];
	coopMatStore(sums[0], dst, (gl_WorkGroupID.x * 8 + gl_LocalInvocationID.x / SUBGROUP) * M * N, N, gl_CooperativeMatrixLayoutRowMajor);
}
