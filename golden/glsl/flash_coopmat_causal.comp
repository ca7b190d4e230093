// attention over [1,8,4,T,64], folding T
// Fuses: transpose, attention.
// Schedule: flash_coopmat wg=256 tile=128x32 heads=1 fragment=16 subgroup=32.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Q_vec8_buffer { uvec4 q_vec8[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer K_vec8_buffer { uvec4 k_vec8[]; }; // f16
layout(set = 0, binding = 2, std430) readonly buffer V_vec8_buffer { uvec4 v_vec8[]; }; // f16
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { f16vec4 result_vec4[]; }; // f16
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared uvec4 tiles[576];
shared float fragments[2048];
shared float scores[4608];
shared uint weights[2560];

#define INF uintBitsToFloat(0x7f800000u)

// a / b for all divisors. Vulkan defines division for divisors up to 2^126; beyond that, some devices multiply by a
// reciprocal that is flushed to 0.
float div_full(float a, float b) {
    float scale = abs(b) > 8.507059e37 ? 0.25 : 1.0;
    precise float quotient = a * scale / (b * scale);
    return quotient;
}

void main() {
    const uint T = params[0];
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
    float top = -INF;
    float total = 0.0;

    // Rows 0 to 63 come by way of shared memory.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 256u;
        uint line = slot / 8u;
        uint octet = slot % 8u;
        uint query = min(query0 + line, T - 1u);
        tiles[line * 9u + octet] = q_vec8[(group * 256u + head * 64u + query * 2048u + octet * 8u) / 8u];
    }
    barrier();
    if (row0 / 64u == 0u) {
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            coopMatLoad(queries[n], tiles, row0 % 64u * 9u + n * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    barrier();

    // Rows 64 to 127 come by way of shared memory.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 256u;
        uint line = slot / 8u;
        uint octet = slot % 8u;
        uint row = 64u + line;
        uint query = min(query0 + row, T - 1u);
        tiles[line * 9u + octet] = q_vec8[(group * 256u + head * 64u + query * 2048u + octet * 8u) / 8u];
    }
    barrier();
    if (row0 / 64u == 1u) {
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            coopMatLoad(queries[n], tiles, row0 % 64u * 9u + n * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    barrier();
    uint keys = min(query0 + 127u, T - 1u) + 1u;

    uint line = self / 8u;
    uint octet = self % 8u;
    next_keys = k_vec8[(group * T * 64u + min(line, keys - 1u) * 64u + octet * 8u) / 8u];
    uint line_2 = self / 8u;
    uint octet_2 = self % 8u;
    tiles[line_2 * 9u + octet_2] = next_keys;
    uint line_3 = self / 8u;
    uint octet_3 = self % 8u;
    next_values = line_3 < keys ? v_vec8[(group * T * 64u + octet_3 * 8u + min(line_3, keys - 1u) * 64u) / 8u] : uvec4(0u);
    uint line_4 = self / 8u;
    uint octet_4 = self % 8u;
    tiles[288u + (line_4 * 9u + octet_4)] = next_values;
    uint line_5 = self / 8u;
    uint octet_5 = self % 8u;
    uint key = 32u + line_5;
    next_keys = k_vec8[(group * T * 64u + min(key, keys - 1u) * 64u + octet_5 * 8u) / 8u];
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
    barrier();
    uint line_6 = self / 8u;
    uint octet_6 = self % 8u;
    tiles[line_6 * 9u + octet_6] = next_keys;
    [[dont_unroll]] for (uint key0 = 0u; key0 < keys; key0 += 64u) {
        // One tile.
        barrier();
        uint line_7 = self / 8u;
        uint octet_7 = self % 8u;
        uint key_2 = key0 + 64u + line_7;
        next_keys = k_vec8[(group * T * 64u + min(key_2, keys - 1u) * 64u + octet_7 * 8u) / 8u];
        uint line_8 = self / 8u;
        uint octet_8 = self % 8u;
        uint key_3 = key0 + 32u + line_8;
        next_values = key_3 < keys ? v_vec8[(group * T * 64u + octet_8 * 8u + min(key_3, keys - 1u) * 64u) / 8u] : uvec4(0u);

        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> weight[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            coopMatStore(score[j], scores, row0 * 36u + j * 16u, 36u, gl_CooperativeMatrixLayoutRowMajor);
        }
        subgroupBarrier();
        uint row = row0 + frag_row;
        float mine[16];
        float best = top;
        uint query = min(query0 + row, T - 1u);
        [[unroll]] for (uint c = 0u; c < 16u; ++c) {
            uint key_4 = key0 + (lane_of_row * 16u + c);
            float seen = scores[row * 36u + (lane_of_row * 16u + c)] * 0.18033688;
            mine[c] = key_4 < query + 1u ? seen : -INF;
            best = max(best, mine[c]);
        }
        best = max(best, subgroupShuffleXor(best, 1u));

        // While no key counts, any finite number does in place of the largest score.
        float shift = best == -INF ? 0.0 : best;
        float correction = exp2(top - shift);
        top = best;
        total *= correction;
        [[unroll]] for (uint c = 0u; c < 8u; ++c) {
            vec2 pair = exp2(vec2(mine[c * 2u], mine[c * 2u + 1u]) - shift);
            total += pair.x + pair.y;
            weights[row * 20u + lane_of_row * 8u + c] = packHalf2x16(pair);
        }
        [[unroll]] for (uint c = 0u; c < 8u; ++c) {
            fragments[(row0 + frag_row) * 16u + lane_of_row * 8u + c] = correction;
        }
        subgroupBarrier();
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> corrections;
        coopMatLoad(corrections, fragments, row0 * 16u, 16u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            sums[n] = sums[n] * corrections;
        }
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            coopMatLoad(weight[j], weights, row0 * 20u + j * 8u, 20u, gl_CooperativeMatrixLayoutRowMajor);
        }

        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            score_2[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                coopMatLoad(b, tiles, j * 144u + n * 2u, 9u, gl_CooperativeMatrixLayoutColumnMajor);
                score_2[j] = coopMatMulAdd(queries[n], b, score_2[j]);
            }
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                coopMatLoad(b, tiles, 288u + (j * 144u + n * 2u), 9u, gl_CooperativeMatrixLayoutRowMajor);
                sums[n] = coopMatMulAdd(weight[j], b, sums[n]);
            }
        }
        barrier();
        uint line_9 = self / 8u;
        uint octet_9 = self % 8u;
        tiles[line_9 * 9u + octet_9] = next_keys;
        uint line_10 = self / 8u;
        uint octet_10 = self % 8u;
        tiles[288u + (line_10 * 9u + octet_10)] = next_values;

        // The next; past the last key it has no weight.
        uint second = key0 + 32u;
        barrier();
        uint line_11 = self / 8u;
        uint octet_11 = self % 8u;
        uint key_4 = second + 64u + line_11;
        next_keys = k_vec8[(group * T * 64u + min(key_4, keys - 1u) * 64u + octet_11 * 8u) / 8u];
        uint line_12 = self / 8u;
        uint octet_12 = self % 8u;
        uint key_5 = second + 32u + line_12;
        next_values = key_5 < keys ? v_vec8[(group * T * 64u + octet_12 * 8u + min(key_5, keys - 1u) * 64u) / 8u] : uvec4(0u);

        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> weight_2[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            coopMatStore(score_2[j], scores, row0 * 36u + j * 16u, 36u, gl_CooperativeMatrixLayoutRowMajor);
        }
        subgroupBarrier();
        uint row_2 = row0 + frag_row;
        float mine_2[16];
        float best_2 = top;
        uint query_2 = min(query0 + row_2, T - 1u);
        [[unroll]] for (uint c = 0u; c < 16u; ++c) {
            uint key_6 = second + (lane_of_row * 16u + c);
            float seen = scores[row_2 * 36u + (lane_of_row * 16u + c)] * 0.18033688;
            mine_2[c] = key_6 < query_2 + 1u ? seen : -INF;
            best_2 = max(best_2, mine_2[c]);
        }
        best_2 = max(best_2, subgroupShuffleXor(best_2, 1u));

        // While no key counts, any finite number does in place of the largest score.
        float shift_2 = best_2 == -INF ? 0.0 : best_2;
        float correction_2 = exp2(top - shift_2);
        top = best_2;
        total *= correction_2;
        [[unroll]] for (uint c = 0u; c < 8u; ++c) {
            vec2 pair = exp2(vec2(mine_2[c * 2u], mine_2[c * 2u + 1u]) - shift_2);
            total += pair.x + pair.y;
            weights[row_2 * 20u + lane_of_row * 8u + c] = packHalf2x16(pair);
        }
        [[unroll]] for (uint c = 0u; c < 8u; ++c) {
            fragments[(row0 + frag_row) * 16u + lane_of_row * 8u + c] = correction_2;
        }
        subgroupBarrier();
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> corrections_2;
        coopMatLoad(corrections_2, fragments, row0 * 16u, 16u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            sums[n] = sums[n] * corrections_2;
        }
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            coopMatLoad(weight_2[j], weights, row0 * 20u + j * 8u, 20u, gl_CooperativeMatrixLayoutRowMajor);
        }

        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            score[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                coopMatLoad(b, tiles, j * 144u + n * 2u, 9u, gl_CooperativeMatrixLayoutColumnMajor);
                score[j] = coopMatMulAdd(queries[n], b, score[j]);
            }
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                coopMatLoad(b, tiles, 288u + (j * 144u + n * 2u), 9u, gl_CooperativeMatrixLayoutRowMajor);
                sums[n] = coopMatMulAdd(weight_2[j], b, sums[n]);
            }
        }
        barrier();
        uint line_13 = self / 8u;
        uint octet_13 = self % 8u;
        tiles[line_13 * 9u + octet_13] = next_keys;
        uint line_14 = self / 8u;
        uint octet_14 = self % 8u;
        tiles[288u + (line_14 * 9u + octet_14)] = next_values;
    }

    uint row = row0 + frag_row;
    total += subgroupShuffleXor(total, 1u);
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
                    result4[lane] = div_full(sum[lane], total);
                }
                result_vec4[(group * T * 256u + head * T * 64u + query * 64u + quad * 4u) / 4u] = f16vec4(result4);
            }
        }
    }
}
