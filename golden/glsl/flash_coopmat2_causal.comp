// attention over [1,8,4,T,64], folding T
// Fuses: transpose, attention.
// Schedule: flash_coopmat2 wg=256 tile=128x64 heads=1 fragment=16 subgroup=32.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
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

shared uvec4 tile_k[576];
shared uvec4 tile_v[576];
shared float fragments[2048];

#define INF uintBitsToFloat(0x7f800000u)

// a / b. Vulkan's division goes to divisors of 2^126, past which some devices
// multiply by a reciprocal that is flushed to 0.
float div_full(float a, float b) {
    float scale = abs(b) > 8.507059e37 ? 0.25 : 1.0;
    return a * scale / (b * scale);
}

float larger_of(const in float a, const in float b) {
    return max(a, b);
}

float sum_of(const in float a, const in float b) {
    return a + b;
}

float larger(const in uint row, const in uint col, const in float a, const in float b) {
    return max(a, b);
}

float finite(const in uint row, const in uint col, const in float x) {
    return x == -INF ? 0.0 : x;
}

float power(const in uint row, const in uint col, const in float x, const in float shift) {
    return exp2(x - shift);
}

float weight_of(const in uint row, const in uint col, const in float x, const in float shift) {
    return exp2(x * 0.18033688 - shift);
}

float score_of(const in uint frag_row, const in uint frag_col, const in float dot_product, const in uint first_row, const in uint first_key, const in uint query0, const in uint group, const in uint head) {
    const uint T = params[0];
    uint row = first_row + frag_row;
    uint key = first_key + frag_col;
    uint query = min(query0 + row, T - 1u);
    return key < query + 1u ? dot_product : -INF;
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
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> top = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(-INF);
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> total = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    uvec4 next[2];

    // Rows 0 to 63 come by way of the tile of keys.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 256u;
        uint line = slot / 8u;
        uint octet = slot % 8u;
        uint query = min(query0 + line, T - 1u);
        tile_k[line * 9u + octet] = q_vec8[(group * 256u + head * 64u + query * 2048u + octet * 8u) / 8u];
    }
    barrier();
    if (row0 / 64u == 0u) {
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            coopMatLoad(queries[n], tile_k, row0 % 64u * 9u + n * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    barrier();

    // Rows 64 to 127 come by way of the tile of keys.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 256u;
        uint line = slot / 8u;
        uint octet = slot % 8u;
        uint row = 64u + line;
        uint query = min(query0 + row, T - 1u);
        tile_k[line * 9u + octet] = q_vec8[(group * 256u + head * 64u + query * 2048u + octet * 8u) / 8u];
    }
    barrier();
    if (row0 / 64u == 1u) {
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            coopMatLoad(queries[n], tile_k, row0 % 64u * 9u + n * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    barrier();
    uint keys = min(query0 + 127u, T - 1u) + 1u;
    uint all_see = min(query0 + row0, T - 1u) + 1u;

    if (0u < keys) {
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 256u;
            uint line = slot / 8u;
            uint octet = slot % 8u;
            uint key = line;
            next[i] = k_vec8[(group * T * 64u + min(key, keys - 1u) * 64u + octet * 8u) / 8u];
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 256u;
            uint line = slot / 8u;
            uint octet = slot % 8u;
            tile_k[line * 9u + octet] = next[i];
        }
    }
    [[dont_unroll]] for (uint key0 = 0u; key0 < keys; key0 += 64u) {
        barrier();
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 256u;
            uint line = slot / 8u;
            uint octet = slot % 8u;
            uint key = key0 + line;
            next[i] = key < keys ? v_vec8[(group * T * 64u + octet * 8u + min(key, keys - 1u) * 64u) / 8u] : uvec4(0u);
        }

        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> score[4];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            score[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                coopMatLoad(b, tile_k, j * 144u + n * 2u, 9u, gl_CooperativeMatrixLayoutColumnMajor);
                score[j] = coopMatMulAdd(queries[n], b, score[j]);
            }
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 256u;
            uint line = slot / 8u;
            uint octet = slot % 8u;
            tile_v[line * 9u + octet] = next[i];
        }

        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> weight[4];
        if (key0 + 64u > all_see) {
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                coopMatPerElementNV(score[j], score[j], score_of, row0, key0 + j * 16u, query0, group, head);
            }
        }
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> best = score[0u];
        [[unroll]] for (uint j = 1u; j < 4u; ++j) {
            coopMatPerElementNV(best, best, larger, score[j]);
        }
        coopMatReduceNV(best, best, gl_CooperativeMatrixReduceRowNV, larger_of);
        best = best * 0.18033688;
        coopMatPerElementNV(best, best, larger, top);

        // While no key counts, any finite number does in place of the largest score.
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> shift, correction;
        coopMatPerElementNV(shift, best, finite);
        coopMatPerElementNV(correction, top, power, shift);
        top = best;
        total = total * correction;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            coopMatPerElementNV(score[j], score[j], weight_of, shift);
            total = total + score[j];
            weight[j] = coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(score[j]);
        }
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            sums[n] = sums[n] * correction;
        }
        barrier();
        if (key0 + 64u < keys) {
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                uint slot = self + i * 256u;
                uint line = slot / 8u;
                uint octet = slot % 8u;
                uint key = key0 + 64u + line;
                next[i] = k_vec8[(group * T * 64u + min(key, keys - 1u) * 64u + octet * 8u) / 8u];
            }
        }
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
                coopMatLoad(b, tile_v, j * 144u + n * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
                sums[n] = coopMatMulAdd(weight[j], b, sums[n]);
            }
        }
        if (key0 + 64u < keys) {
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                uint slot = self + i * 256u;
                uint line = slot / 8u;
                uint octet = slot % 8u;
                tile_k[line * 9u + octet] = next[i];
            }
        }
    }

    uint row = row0 + frag_row;
    coopMatReduceNV(total, total, gl_CooperativeMatrixReduceRowNV, sum_of);
    coopMatStore(total, fragments, row0 * 16u, 16u, gl_CooperativeMatrixLayoutRowMajor);
    subgroupBarrier();
    float row_total = fragments[(row0 + frag_row) * 16u];
    subgroupBarrier();
    [[unroll]] for (uint n = 0u; n < 4u; ++n) {
        subgroupBarrier();
        coopMatStore(sums[n], fragments, row0 * 16u, 16u, gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
        if (query0 + row < T) {
            uint query = min(query0 + row, T - 1u);
            [[unroll]] for (uint q_2 = 0u; q_2 < 2u; ++q_2) {
                uint at = row * 16u + (lane_of_row * 2u + q_2) * 4u;
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
