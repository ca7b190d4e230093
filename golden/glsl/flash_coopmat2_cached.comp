// attention over [1,8,4,T,64], folding S
// Fuses: slice, slice, attention.
// Schedule: flash_coopmat2 wg=256 tile=128x32 heads=1 fragment=16 stages=2 subgroup=32.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Q_vec8_buffer { uvec4 q_vec8[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer State_vec8_buffer { uvec4 state_vec8[]; }; // f16
layout(set = 0, binding = 2, std430) readonly buffer State_2_vec8_buffer { uvec4 state_2_vec8[]; }; // f16
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { f16vec4 result_vec4[]; }; // f16
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared uvec4 tiles[1152];
shared float fragments[2048];

#define INF uintBitsToFloat(0x7f800000u)

// a / b for all divisors. Vulkan defines division for divisors up to 2^126; beyond that, some devices multiply by a
// reciprocal that is flushed to 0.
float div_full(float a, float b) {
    float scale = abs(b) > 8.507059e37 ? 0.25 : 1.0;
    precise float quotient = a * scale / (b * scale);
    return quotient;
}

float larger_of(const in float a, const in float b) {
    return max(a, b);
}

float sum_of(const in float a, const in float b) {
    return a + b;
}

float larger(const in uint, const in uint, const in float a, const in float b) {
    return max(a, b);
}

float power(const in uint, const in uint, const in float x, const in float shift) {
    return exp2(x - shift);
}

float weight_of(const in uint, const in uint, const in float x, const in float shift) {
    return exp2(x * 0.18033688 - shift);
}

float score_of(const in uint frag_row, const in uint frag_col, const in float dot_product, const in uint first_row, const in uint first_key, const in uint query0) {
    const uint S = params[0];
    const uint T = params[1];
    uint row = first_row + frag_row;
    uint key = first_key + frag_col;
    uint query = min(query0 + row, T - 1u);
    return key < uint(max(min(int(S) + int(query) + 1 - int(T), int(S)), 0)) ? dot_product : -INF;
}

void main() {
    const uint S = params[0];
    const uint T = params[1];
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint head = gl_WorkGroupID.x % 4u;
    uint group = gl_WorkGroupID.x / 4u;
    uint query0 = ((T + 127u) / 128u - 1u - gl_WorkGroupID.y) * 128u;
    uint row0 = gl_SubgroupID * 16u;
    uint frag_row = gl_SubgroupInvocationID / 2u;
    uint lane_of_row = gl_SubgroupInvocationID % 2u;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> queries[4];
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sums[4];
    [[unroll]] for (uint n = 0u; n < 4u; ++n) {
        sums[n] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    }
    uvec4 next_keys;
    uvec4 next_values;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> top;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> shift;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> total;
    top = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(-INF);
    shift = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(-3.4028235e+38);
    total = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);

    // Rows 0 to 127 come by way of shared memory.
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint slot = self + i * 256u;
        uint line = slot / 8u;
        uint octet = slot % 8u;
        uint query = min(query0 + line, T - 1u);
        tiles[line * 9u + octet] = q_vec8[(group * T * 256u + head * T * 64u + query * 64u + octet * 8u) / 8u];
    }
    barrier();
    [[unroll]] for (uint n = 0u; n < 4u; ++n) {
        coopMatLoad(queries[n], tiles, row0 * 9u + n * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    uint keys = uint(max(min(int(S) + int(min(query0 + 127u, T - 1u)) + 1 - int(T), int(S)), 0));
    uint all_see = uint(max(min(int(S) + int(min(query0 + row0, T - 1u)) + 1 - int(T), int(S)), 0));

    uint last_key = max(keys, 1u) - 1u;
    uint line = self / 8u;
    uint octet = self % 8u;
    next_keys = state_vec8[(group * 32768u + min(line, last_key) * 64u + octet * 8u) / 8u];
    uint line_2 = self / 8u;
    uint octet_2 = self % 8u;
    tiles[line_2 * 9u + octet_2] = next_keys;
    uint line_3 = self / 8u;
    uint octet_3 = self % 8u;
    next_values = line_3 < keys ? state_2_vec8[(group * 32768u + octet_3 * 8u + min(line_3, last_key) * 64u) / 8u] : uvec4(0u);
    uint line_4 = self / 8u;
    uint octet_4 = self % 8u;
    tiles[576u + (line_4 * 9u + octet_4)] = next_values;
    uint line_5 = self / 8u;
    uint octet_5 = self % 8u;
    uint key = 32u + line_5;
    next_keys = state_vec8[(group * 32768u + min(key, last_key) * 64u + octet_5 * 8u) / 8u];
    uint line_6 = self / 8u;
    uint octet_6 = self % 8u;
    tiles[288u + (line_6 * 9u + octet_6)] = next_keys;
    barrier();
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> score[2];
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> score_2[2];
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        score[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
            coopMatLoad(b, tiles, j * 144u + n * 2u, 9u, gl_CooperativeMatrixLayoutColumnMajor);
            score[j] = coopMatMulAdd(queries[n], b, score[j]);
        }
    }
    [[dont_unroll]] for (uint key0 = 0u; key0 < keys; key0 += 64u) {
        // One tile.
        barrier();
        uint line_7 = self / 8u;
        uint octet_7 = self % 8u;
        uint key_2 = key0 + 64u + line_7;
        next_keys = state_vec8[(group * 32768u + min(key_2, last_key) * 64u + octet_7 * 8u) / 8u];
        uint line_8 = self / 8u;
        uint octet_8 = self % 8u;
        uint key_3 = key0 + 32u + line_8;
        next_values = key_3 < keys ? state_2_vec8[(group * 32768u + octet_8 * 8u + min(key_3, last_key) * 64u) / 8u] : uvec4(0u);

        if (key0 + 32u > all_see) {
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                coopMatPerElementNV(score[j], score[j], score_of, row0, key0 + j * 16u, query0);
            }
        }
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            coopMatPerElementNV(top, top, larger, score[j]);
        }
        bool grew = false;
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> growth = top * 0.18033688 - shift;
        [[unroll]] for (int e = 0; e < growth.length(); ++e) {
            grew = grew || growth[e] > 8.0;
        }
        if (subgroupAny(grew)) {
            coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> best, correction;
            coopMatReduceNV(best, top, gl_CooperativeMatrixReduceRowNV, larger_of);
            best = best * 0.18033688;
            coopMatPerElementNV(best, best, larger, shift);
            coopMatPerElementNV(correction, shift, power, best);
            shift = best;
            total = total * correction;
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                sums[n] = sums[n] * correction;
            }
        }

        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            score_2[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                coopMatLoad(b, tiles, 288u + (j * 144u + n * 2u), 9u, gl_CooperativeMatrixLayoutColumnMajor);
                score_2[j] = coopMatMulAdd(queries[n], b, score_2[j]);
            }
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> weight;
            coopMatPerElementNV(score[j], score[j], weight_of, shift);
            total = total + score[j];
            weight = coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(score[j]);
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                coopMatLoad(b, tiles, 576u + (j * 144u + n * 2u), 9u, gl_CooperativeMatrixLayoutRowMajor);
                sums[n] = coopMatMulAdd(weight, b, sums[n]);
            }
        }
        uint line_9 = self / 8u;
        uint octet_9 = self % 8u;
        tiles[line_9 * 9u + octet_9] = next_keys;
        uint line_10 = self / 8u;
        uint octet_10 = self % 8u;
        tiles[864u + (line_10 * 9u + octet_10)] = next_values;

        // The next; past the last key it has no weight.
        uint second = key0 + 32u;
        barrier();
        uint line_11 = self / 8u;
        uint octet_11 = self % 8u;
        uint key_4 = second + 64u + line_11;
        next_keys = state_vec8[(group * 32768u + min(key_4, last_key) * 64u + octet_11 * 8u) / 8u];
        uint line_12 = self / 8u;
        uint octet_12 = self % 8u;
        uint key_5 = second + 32u + line_12;
        next_values = key_5 < keys ? state_2_vec8[(group * 32768u + octet_12 * 8u + min(key_5, last_key) * 64u) / 8u] : uvec4(0u);

        if (second + 32u > all_see) {
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                coopMatPerElementNV(score_2[j], score_2[j], score_of, row0, second + j * 16u, query0);
            }
        }
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            coopMatPerElementNV(top, top, larger, score_2[j]);
        }
        bool grew_2 = false;
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> growth_2 = top * 0.18033688 - shift;
        [[unroll]] for (int e = 0; e < growth_2.length(); ++e) {
            grew_2 = grew_2 || growth_2[e] > 8.0;
        }
        if (subgroupAny(grew_2)) {
            coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> best, correction;
            coopMatReduceNV(best, top, gl_CooperativeMatrixReduceRowNV, larger_of);
            best = best * 0.18033688;
            coopMatPerElementNV(best, best, larger, shift);
            coopMatPerElementNV(correction, shift, power, best);
            shift = best;
            total = total * correction;
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                sums[n] = sums[n] * correction;
            }
        }

        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            score[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                coopMatLoad(b, tiles, j * 144u + n * 2u, 9u, gl_CooperativeMatrixLayoutColumnMajor);
                score[j] = coopMatMulAdd(queries[n], b, score[j]);
            }
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> weight;
            coopMatPerElementNV(score_2[j], score_2[j], weight_of, shift);
            total = total + score_2[j];
            weight = coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(score_2[j]);
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                coopMatLoad(b, tiles, 864u + (j * 144u + n * 2u), 9u, gl_CooperativeMatrixLayoutRowMajor);
                sums[n] = coopMatMulAdd(weight, b, sums[n]);
            }
        }
        uint line_13 = self / 8u;
        uint octet_13 = self % 8u;
        tiles[288u + (line_13 * 9u + octet_13)] = next_keys;
        uint line_14 = self / 8u;
        uint octet_14 = self % 8u;
        tiles[576u + (line_14 * 9u + octet_14)] = next_values;
    }

    uint row = row0 + frag_row;
    coopMatReduceNV(total, total, gl_CooperativeMatrixReduceRowNV, sum_of);
    subgroupBarrier();
    coopMatStore(total, fragments, row0 * 16u, 16u, gl_CooperativeMatrixLayoutRowMajor);
    subgroupBarrier();
    float row_total = fragments[(row0 + frag_row) * 16u];
    [[unroll]] for (uint n = 0u; n < 4u; ++n) {
        subgroupBarrier();
        coopMatStore(sums[n], fragments, row0 * 16u, 16u, gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
        if (query0 + row < T) {
            uint query = query0 + row;
            [[unroll]] for (uint q_2 = 0u; q_2 < 2u; ++q_2) {
                uint at = (row0 + frag_row) * 16u + (lane_of_row * 2u + q_2) * 4u;
                vec4 sum = vec4(fragments[at], fragments[at + 1u], fragments[at + 2u], fragments[at + 3u]);
                uint quad = n * 4u + (lane_of_row * 2u + q_2);
                vec4 result4;
                [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                    result4[lane] = div_full(sum[lane], row_total);
                }
                result_vec4[(group * T * 256u + head * T * 64u + query * 64u + quad * 4u) / 4u] = f16vec4(result4);
            }
        }
    }
}
