// matmul over [T,12288], folding 4096
// Fuses: matmul.
// Schedule: skinny wg=128 tile=16x32x256 subgroups=2x2 fragment=16x8x32 subgroup=32.
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

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer A_quads_buffer { uvec4 a_quads[]; }; // i8
layout(set = 0, binding = 1, std430) readonly buffer Scales_buffer { float scales[]; };
layout(set = 0, binding = 2, std430) readonly buffer B_shorts_buffer { uint16_t b_shorts[]; }; // q4_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer B_words_buffer { uint b_words[]; }; // q4_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer B_quads_buffer { uvec4 b_quads[]; }; // q4_0 in planes
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared uvec4 b_strips[1088];
shared float b_scales[512];
shared uvec4 a_strips[544];
shared float a_scales[256];

uint short_b_scale(uint block) {
    return uint(b_shorts[block]);
}

// A scale, out of the word that has it.
float scale_of_q4_0(uint word) {
    return unpackHalf2x16(word).x;
}

uvec4 words_b_quants(uint block) {
    return b_quads[196608u + block];
}

// The words that have four quads in a row of each plane.
uvec4 words_b(uint block) {
    return words_b_quants(block);
}

// The word that has the scale.
uint scale_word_b(uint block) {
    return short_b_scale(block);
}

// Four quads of a plane, out of such words.
uvec4 quants_of_q4_0(uvec4 words, uint p) {
    return words >> 4u * p & 0x0f0f0f0fu;
}

void main() {
    const uint T = params[0];
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 32u;
    uint own_col = gl_SubgroupID % 2u * 16u;
    uint part = gl_SubgroupID / 2u;
    uint first_unit = gl_SubgroupID * 272u;
    uint first_scale = gl_SubgroupID * 128u;
    coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> acc[2];
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        acc[i] = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
    }
    uvec4 b_words[4];
    uint b_scale[4];
    uvec4 a_elements[4];
    float a_scale[2];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint slot = gl_SubgroupInvocationID + i * 32u;
        uint pair = slot / 2u;
        uint column = pair / 8u * 2u + slot % 2u;
        uint run = pair % 8u;
        uint col = col0 + own_col + column;
        uint step_2 = part * 256u / 32u + run;
        uint at = col * 128u + step_2;
        b_words[i] = words_b(at);
        b_scale[i] = scale_word_b(at);
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint slot = self % 64u + i * 64u;
        uint line = slot / 16u;
        uint at = slot % 16u * 16u;
        uint row = min(line, T - 1u);
        a_elements[i] = a_quads[(row * 4096u + (part * 256u + at)) / 16u];
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self % 64u + i * 64u;
        uint line = slot / 8u;
        uint at = slot % 8u * 32u;
        uint row = min(line, T - 1u);
        uint k = part * 256u + at;
        a_scale[i] = scales[k / 32u + row * 128u];
    }

    [[dont_unroll]] for (uint k0 = part * 256u; k0 < 4096u; k0 += 512u) {
        barrier(); // what is in shared memory has been multiplied
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot = gl_SubgroupInvocationID + i * 32u;
            uint pair = slot / 2u;
            uint column = pair / 8u * 2u + slot % 2u;
            uint run = pair % 8u;
            uint at = run * 32u;
            uint unit = first_unit + column * 17u + at / 16u;
            b_strips[unit] = quants_of_q4_0(b_words[i], 0u) + 0x78787878u ^ 0x80808080u;
            b_strips[unit + 1u] = quants_of_q4_0(b_words[i], 1u) + 0x78787878u ^ 0x80808080u;
            b_scales[first_scale + at / 32u * 16u + column] = scale_of_q4_0(b_scale[i]);
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot = self % 64u + i * 64u;
            uint line = slot / 16u;
            uint at = slot % 16u * 16u;
            uint unit = part * 272u + line * 17u + at / 16u;
            a_strips[unit] = a_elements[i];
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self % 64u + i * 64u;
            uint line = slot / 8u;
            uint at = slot % 8u * 32u;
            uint place = part * 128u + at / 32u * 16u + line;
            float scale = a_scale[i];
            a_scales[place] = scale;
        }
        barrier();

        // The next step, or the last once more.
        uint k1 = min(k0 + 512u, 3840u);
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot = gl_SubgroupInvocationID + i * 32u;
            uint pair = slot / 2u;
            uint column = pair / 8u * 2u + slot % 2u;
            uint run = pair % 8u;
            uint col = col0 + own_col + column;
            uint step_2 = k1 / 32u + run;
            uint at = col * 128u + step_2;
            b_words[i] = words_b(at);
            b_scale[i] = scale_word_b(at);
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot = self % 64u + i * 64u;
            uint line = slot / 16u;
            uint at = slot % 16u * 16u;
            uint row = min(line, T - 1u);
            a_elements[i] = a_quads[(row * 4096u + (k1 + at)) / 16u];
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self % 64u + i * 64u;
            uint line = slot / 8u;
            uint at = slot % 8u * 32u;
            uint row = min(line, T - 1u);
            uint k = k1 + at;
            a_scale[i] = scales[k / 32u + row * 128u];
        }

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
        coopMatStore(acc[f], b_strips, (part * 512u + f * 256u + own_col) / 4u, 8u, gl_CooperativeMatrixLayoutColumnMajor);
    }
    barrier();

    for (uint id = self; id < 512u; id += 128u) {
        uint row = id / 32u;
        uint col = col0 + id % 32u;
        float sum = uintBitsToFloat(b_strips[id / 4u][id % 4u]);
        uint at = 512u + id;
        sum += uintBitsToFloat(b_strips[at / 4u][at % 4u]);
        if (row < T) {
            result[row * 12288u + col] = sum;
        }
    }
}
