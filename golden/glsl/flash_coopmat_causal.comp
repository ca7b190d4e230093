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

shared uvec4 tile_k[288];
shared uvec4 tile_v[288];
shared float fragments[2048];
shared float scores[4608];
shared uint weights[2560];

#define INF uintBitsToFloat(0x7f800000u)

// a / b. Vulkan's division goes to divisors of 2^126, past which some devices
// multiply by a reciprocal that is flushed to 0.
float div_full(float a, float b) {
    float scale = abs(b) > 8.507059e37 ? 0.25 : 1.0;
    return a * scale / (b * scale);
}

void main() {
    const uint T = params[0];
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint query0 = ((T + 127u) / 128u - 1u - gl_WorkGroupID.x) * 128u;
    uint head = gl_WorkGroupID.y % 4u;
    uint group = gl_WorkGroupID.y / 4u;
    uint row0 = gl_SubgroupID * 16u;
    uint frag_row = gl_SubgroupInvocationID / 2u;
    uint lane_of_row = gl_SubgroupInvocationID % 2u;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> queries[4];
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sums[4];
    [[unroll]] for (uint n = 0u; n < 4u; ++n) {
        sums[n] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    }
    float top = float(-INF);
    float total = float(0.0);
    uvec4 next;

    // Rows 0 to 31 come by way of the tile of keys.
    uint line = self / 8u;
    uint octet = self % 8u;
    uint query = min(query0 + line, T - 1u);
    tile_k[line * 9u + octet] = q_vec8[(group * 256u + head * 64u + query * 2048u + octet * 8u) / 8u];
    barrier();
    if (row0 / 32u == 0u) {
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            coopMatLoad(queries[n], tile_k, row0 % 32u * 9u + n * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    barrier();

    // Rows 32 to 63 come by way of the tile of keys.
    uint line_2 = self / 8u;
    uint octet_2 = self % 8u;
    uint row = 32u + line_2;
    uint query_2 = min(query0 + row, T - 1u);
    tile_k[line_2 * 9u + octet_2] = q_vec8[(group * 256u + head * 64u + query_2 * 2048u + octet_2 * 8u) / 8u];
    barrier();
    if (row0 / 32u == 1u) {
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            coopMatLoad(queries[n], tile_k, row0 % 32u * 9u + n * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    barrier();

    // Rows 64 to 95 come by way of the tile of keys.
    uint line_3 = self / 8u;
    uint octet_3 = self % 8u;
    uint row_2 = 64u + line_3;
    uint query_3 = min(query0 + row_2, T - 1u);
    tile_k[line_3 * 9u + octet_3] = q_vec8[(group * 256u + head * 64u + query_3 * 2048u + octet_3 * 8u) / 8u];
    barrier();
    if (row0 / 32u == 2u) {
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            coopMatLoad(queries[n], tile_k, row0 % 32u * 9u + n * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    barrier();

    // Rows 96 to 127 come by way of the tile of keys.
    uint line_4 = self / 8u;
    uint octet_4 = self % 8u;
    uint row_3 = 96u + line_4;
    uint query_4 = min(query0 + row_3, T - 1u);
    tile_k[line_4 * 9u + octet_4] = q_vec8[(group * 256u + head * 64u + query_4 * 2048u + octet_4 * 8u) / 8u];
    barrier();
    if (row0 / 32u == 3u) {
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            coopMatLoad(queries[n], tile_k, row0 % 32u * 9u + n * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    barrier();
    uint keys = min(query0 + 127u, T - 1u) + 1u;
    uint all_see = min(query0 + row0, T - 1u) + 1u;

    if (0u < keys) {
        uint line_5 = self / 8u;
        uint octet_5 = self % 8u;
        uint key = line_5;
        next = k_vec8[(group * T * 64u + min(key, keys - 1u) * 64u + octet_5 * 8u) / 8u];
        uint line_6 = self / 8u;
        uint octet_6 = self % 8u;
        tile_k[line_6 * 9u + octet_6] = next;
    }
    [[dont_unroll]] for (uint key0 = 0u; key0 < keys; key0 += 32u) {
        barrier();
        uint line_5 = self / 8u;
        uint octet_5 = self % 8u;
        uint key = key0 + line_5;
        next = key < keys ? v_vec8[(group * T * 64u + octet_5 * 8u + min(key, keys - 1u) * 64u) / 8u] : uvec4(0u);

        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> score[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            score[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                coopMatLoad(b, tile_k, j * 144u + n * 2u, 9u, gl_CooperativeMatrixLayoutColumnMajor);
                score[j] = coopMatMulAdd(queries[n], b, score[j]);
            }
        }
        uint line_6 = self / 8u;
        uint octet_6 = self % 8u;
        tile_v[line_6 * 9u + octet_6] = next;

        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> weight[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            coopMatStore(score[j], scores, row0 * 36u + j * 16u, 36u, gl_CooperativeMatrixLayoutRowMajor);
        }
        subgroupBarrier();
        uint row_4 = row0 + frag_row;
        float mine[16];
        float best = top;
        uint query_5 = min(query0 + row_4, T - 1u);
        [[unroll]] for (uint c = 0u; c < 16u; ++c) {
            uint key_2 = key0 + (lane_of_row * 16u + c);
            mine[c] = key_2 < query_5 + 1u ? scores[row_4 * 36u + (lane_of_row * 16u + c)] * 0.18033688 : -INF;
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
            weights[row_4 * 20u + lane_of_row * 8u + c] = packHalf2x16(pair);
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
        barrier();
        if (key0 + 32u < keys) {
            uint line_7 = self / 8u;
            uint octet_7 = self % 8u;
            uint key_2 = key0 + 32u + line_7;
            next = k_vec8[(group * T * 64u + min(key_2, keys - 1u) * 64u + octet_7 * 8u) / 8u];
        }
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                coopMatLoad(b, tile_v, j * 144u + n * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
                sums[n] = coopMatMulAdd(weight[j], b, sums[n]);
            }
        }
        if (key0 + 32u < keys) {
            uint line_7 = self / 8u;
            uint octet_7 = self % 8u;
            tile_k[line_7 * 9u + octet_7] = next;
        }
    }

    uint row_4 = row0 + frag_row;
    total += subgroupShuffleXor(total, 1u);
    [[unroll]] for (uint n = 0u; n < 4u; ++n) {
        subgroupBarrier();
        coopMatStore(sums[n], fragments, row0 * 16u, 16u, gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
        if (query0 + row_4 < T) {
            uint query_5 = min(query0 + row_4, T - 1u);
            [[unroll]] for (uint q_2 = 0u; q_2 < 2u; ++q_2) {
                uint at = row_4 * 16u + (lane_of_row * 2u + q_2) * 4u;
                vec4 sum = vec4(fragments[at], fragments[at + 1u], fragments[at + 2u], fragments[at + 3u]);
                uint quad = n * 4u + (lane_of_row * 2u + q_2);
                vec4 result4;
                [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                    result4[lane] = div_full(sum[lane], total);
                }
                result_vec4[(group * T * 256u + head * T * 64u + query_5 * 64u + quad * 4u) / 4u] = f16vec4(result4);
            }
        }
    }
}
