// matmul over [T,12288], folding 4096
// Fuses: matmul.
// Schedule: skinny wg=256 tile=16x64x256 subgroups=4x2 fragment=16x8x32 subgroup=32.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer A_quads_buffer { uvec4 a_quads[]; }; // i8
layout(set = 0, binding = 1, std430) readonly buffer Scales_buffer { float scales[]; };
layout(set = 0, binding = 2, std430) readonly buffer B_shorts_buffer { uint16_t b_shorts[]; }; // q4_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer B_quads_buffer { uvec4 b_quads[]; }; // q4_0 in planes
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared uvec4 b_strips[2176];
shared float b_scales[1024];
shared uvec4 a_strips[544];
shared float a_scales[256];

uint short_b_scale(uint block) {
    return uint(b_shorts[block]);
}

float half_b_scale(uint block) {
    return unpackHalf2x16(short_b_scale(block)).x;
}

// q4_0: 32 elements in 18 bytes. The scale.
float scale_b(uint block) {
    return half_b_scale(block);
}

uvec4 words_b_quants(uint block) {
    return b_quads[196608u + block];
}

// The same of four quads in a row.
uvec4 quants4_b(uint block, uint p) {
    return words_b_quants(block) >> 4u * p & 0x0f0f0f0fu;
}

void main() {
    const uint T = params[0];
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 64u;
    uint own_col = gl_SubgroupID % 4u * 16u;
    uint part = gl_SubgroupID / 4u;
    uint first_unit = gl_SubgroupID * 272u;
    uint first_scale = gl_SubgroupID * 128u;
    coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> acc[2];
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        acc[i] = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
    }
    uvec4 b_quants[8];
    float b_scale[4];
    uvec4 a_elements[2];
    float a_scale;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint slot = gl_SubgroupInvocationID + i * 32u;
        uint pair = slot / 2u;
        uint column = pair / 8u * 2u + slot % 2u;
        uint run = pair % 8u;
        uint col = col0 + own_col + column;
        uint step_2 = part * 256u / 32u + run;
        uint at = col * 128u + step_2;
        b_quants[i * 2u] = quants4_b(at, 0u) + 0x78787878u ^ 0x80808080u;
        b_quants[i * 2u + 1u] = quants4_b(at, 1u) + 0x78787878u ^ 0x80808080u;
        b_scale[i] = scale_b(at);
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self % 128u + i * 128u;
        uint line = slot / 16u;
        uint at = slot % 16u * 16u;
        uint row = min(line, T - 1u);
        a_elements[i] = a_quads[(row * 4096u + (part * 256u + at)) / 16u];
    }
    uint slot = self % 128u;
    uint line = slot / 8u;
    uint at = slot % 8u * 32u;
    uint row = min(line, T - 1u);
    uint k = part * 256u + at;
    a_scale = scales[k / 32u + row * 128u];

    [[dont_unroll]] for (uint k0 = part * 256u; k0 < 4096u; k0 += 512u) {
        barrier(); // what is in shared memory has been multiplied
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot_2 = gl_SubgroupInvocationID + i * 32u;
            uint pair = slot_2 / 2u;
            uint column = pair / 8u * 2u + slot_2 % 2u;
            uint run = pair % 8u;
            uint at_2 = run * 32u;
            uint unit = first_unit + column * 17u + at_2 / 16u;
            b_strips[unit] = b_quants[i * 2u];
            b_strips[unit + 1u] = b_quants[i * 2u + 1u];
            b_scales[first_scale + at_2 / 32u * 16u + column] = b_scale[i];
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot_2 = self % 128u + i * 128u;
            uint line_2 = slot_2 / 16u;
            uint at_2 = slot_2 % 16u * 16u;
            uint unit = part * 272u + line_2 * 17u + at_2 / 16u;
            a_strips[unit] = a_elements[i];
        }
        uint slot_2 = self % 128u;
        uint line_2 = slot_2 / 8u;
        uint at_2 = slot_2 % 8u * 32u;
        uint place = part * 128u + at_2 / 32u * 16u + line_2;
        a_scales[place] = a_scale;
        barrier();

        // The next step, or the last once more.
        uint k1 = min(k0 + 512u, 3840u);
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot_3 = gl_SubgroupInvocationID + i * 32u;
            uint pair = slot_3 / 2u;
            uint column = pair / 8u * 2u + slot_3 % 2u;
            uint run = pair % 8u;
            uint col = col0 + own_col + column;
            uint step_2 = k1 / 32u + run;
            uint at_3 = col * 128u + step_2;
            b_quants[i * 2u] = quants4_b(at_3, 0u) + 0x78787878u ^ 0x80808080u;
            b_quants[i * 2u + 1u] = quants4_b(at_3, 1u) + 0x78787878u ^ 0x80808080u;
            b_scale[i] = scale_b(at_3);
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot_3 = self % 128u + i * 128u;
            uint line_3 = slot_3 / 16u;
            uint at_3 = slot_3 % 16u * 16u;
            uint row_3 = min(line_3, T - 1u);
            a_elements[i] = a_quads[(row_3 * 4096u + (k1 + at_3)) / 16u];
        }
        uint slot_3 = self % 128u;
        uint line_3 = slot_3 / 8u;
        uint at_3 = slot_3 % 8u * 32u;
        uint row_3 = min(line_3, T - 1u);
        uint k_2 = k1 + at_3;
        a_scale = scales[k_2 / 32u + row_3 * 128u];

        // Multiply.
        [[dont_unroll]] for (uint strip = 0u; strip < 8u; ++strip) {
            coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> row_scale[2];
            [[unroll]] for (uint f = 0u; f < 2u; ++f) {
                coopMatLoad(row_scale[f], a_scales, part * 128u + strip * 16u + f * 8u, 0u, gl_CooperativeMatrixLayoutRowMajor);
            }
            coopmat<int8_t, gl_ScopeSubgroup, 32, 8, gl_MatrixUseB> rows[2];
            [[unroll]] for (uint f = 0u; f < 2u; ++f) {
                coopMatLoad(rows[f], a_strips, part * 272u + f * 136u + strip * 2u, 17u, gl_CooperativeMatrixLayoutColumnMajor);
            }
            coopmat<int8_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA> columns;
            coopMatLoad(columns, b_strips, first_unit + strip * 2u, 17u, gl_CooperativeMatrixLayoutRowMajor);
            coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> scale;
            coopMatLoad(scale, b_scales, first_scale + strip * 16u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint f = 0u; f < 2u; ++f) {
                coopmat<int, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sum = coopmat<int, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0);
                sum = coopMatMulAdd(columns, rows[f], sum);
                acc[f] += scale * (row_scale[f] * coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(sum));
            }
        }
    }
    barrier();
    [[unroll]] for (uint f = 0u; f < 2u; ++f) {
        coopMatStore(acc[f], b_strips, (part * 1024u + f * 512u + own_col) / 4u, 16u, gl_CooperativeMatrixLayoutColumnMajor);
    }
    barrier();

    for (uint id = self; id < 1024u; id += 256u) {
        uint row_2 = id / 64u;
        uint col = col0 + id % 64u;
        float sum = uintBitsToFloat(b_strips[id / 4u][id % 4u]);
        uint at_2 = 1024u + id;
        sum += uintBitsToFloat(b_strips[at_2 / 4u][at_2 % 4u]);
        if (row_2 < T) {
            result[row_2 * 12288u + col] = sum;
        }
    }
}
