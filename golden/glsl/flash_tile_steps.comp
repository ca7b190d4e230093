// attention over [1,12,1,1500,64], folding 1500
// Fuses: attention.
// Schedule: flash_tile wg=128 tile=32x128x16 thread=4x8 heads=1 paired steps subgroup=32.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Q_vec4_buffer { vec4 q_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer K_vec4_buffer { vec4 k_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer V_vec4_buffer { vec4 v_vec4[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };

shared vec4 tile_q[576];
shared vec4 tile[1056];
shared vec4 weights[1152];

#define INF uintBitsToFloat(0x7f800000u)

// a / b for all divisors. Vulkan defines division for divisors up to 2^126; beyond that, some devices multiply by a
// reciprocal that is flushed to 0.
float div_full(float a, float b) {
    float scale = abs(b) > 8.507059e37 ? 0.25 : 1.0;
    precise float quotient = a * scale / (b * scale);
    return quotient;
}

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint query0 = gl_WorkGroupID.x * 32u;
    uint group = gl_WorkGroupID.y;
    uint lane_of_row = self % 2u + self / 4u % 8u * 2u;
    uint row0 = self / 2u % 2u + self / 32u * 2u;
    float top[4];
    float total[4];
    float best[4];
    vec4 sums[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        top[i] = -INF;
        total[i] = 0.0;
        sums[i] = vec4(0.0);
    }
    vec4 next_keys[4];
    vec4 next_values[2];

    // Stage queries.
    for (uint d0 = 0u; d0 < 64u; d0 += 16u) {
        uint line = self / 4u;
        uint quad = self % 4u;
        uint query = min(query0 + line, 1499u);
        vec4 quad4 = q_vec4[(group * 96000u + query * 64u + (d0 + quad * 4u)) / 4u];
        [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
            tile_q[(d0 + quad * 4u + depth) * 9u + line / 4u][line % 4u] = quad4[depth];
        }
    }

    [[dont_unroll]] for (uint key0 = 0u; key0 < 1500u; key0 += 128u) {
        vec4 score[8];
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            score[i] = vec4(0.0);
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            uint key = min(key0 + line, 1499u);
            next_keys[i] = k_vec4[(group * 96000u + key * 64u + quad * 4u) / 4u];
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            vec4 quad4 = next_keys[i];
            [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
                tile[(quad * 4u + depth) * 33u + line / 4u][line % 4u] = quad4[depth];
            }
        }
        barrier();
        uint stage = 0u;
        for (uint d0 = 0u; d0 < 64u; d0 += 16u) {
            uint d1 = min(d0 + 16u, 48u);
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint slot = self + i * 128u;
                uint line = slot / 4u;
                uint quad = slot % 4u;
                uint key = min(key0 + line, 1499u);
                next_keys[i] = k_vec4[(group * 96000u + key * 64u + (d1 + quad * 4u)) / 4u];
            }

            [[unroll]] for (uint depth = 0u; depth < 16u; ++depth) {
                vec4 queries4;
                queries4 = tile_q[(d0 + depth) * 9u + row0];
                vec4 keys4[2];
                [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                    keys4[j] = tile[stage + (depth * 33u + (lane_of_row + j * 16u))];
                }
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                        score[i * 2u + j] = fma(vec4(queries4[i]), keys4[j], score[i * 2u + j]);
                    }
                }
            }
            stage = 528u - stage;
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint slot = self + i * 128u;
                uint line = slot / 4u;
                uint quad = slot % 4u;
                vec4 quad4 = next_keys[i];
                [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
                    tile[stage + ((quad * 4u + depth) * 33u + line / 4u)][line % 4u] = quad4[depth];
                }
            }
            barrier();
        }

        // The first values are on their way while scores become weights.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 16u;
            uint quad = slot % 16u;
            uint key = key0 + line;
            next_values[i] = vec4(0.0);
            if (key < 1500u) {
                next_values[i] = v_vec4[(group * 96000u + quad * 4u + key * 64u) / 4u];
            }
        }

        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            best[i] = -INF;
            [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                uint key = key0 + ((lane_of_row + j / 4u * 16u) * 4u + j % 4u);
                float seen = score[i * 2u + j / 4u][j % 4u] * 0.18033688;
                score[i * 2u + j / 4u][j % 4u] = key < 1500u ? seen : -INF;
                best[i] = max(best[i], score[i * 2u + j / 4u][j % 4u]);
            }
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            best[i] = max(best[i], subgroupShuffleXor(best[i], 16u));
            best[i] = max(best[i], subgroupShuffleXor(best[i], 8u));
            best[i] = max(best[i], subgroupShuffleXor(best[i], 4u));
            best[i] = max(best[i], subgroupShuffleXor(best[i], 1u));
        }

        // While no key counts, any finite number does in place of the largest score.
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            best[i] = max(best[i], top[i]);
            float largest = best[i];
            float shift = largest == -INF ? 0.0 : largest;
            float correction = exp2(top[i] - shift);
            top[i] = best[i];
            total[i] *= correction;
            sums[i] *= correction;
            [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                float weight = exp2(score[i * 2u + j / 4u][j % 4u] - shift);
                total[i] += weight;
                score[i * 2u + j / 4u][j % 4u] = weight;
            }
        }
        [[unroll]] for (uint j = 0u; j < 8u; ++j) {
            weights[((lane_of_row + j / 4u * 16u) * 4u + j % 4u) * 9u + row0] = vec4(score[j / 4u][j % 4u], score[2u + j / 4u][j % 4u], score[4u + j / 4u][j % 4u], score[6u + j / 4u][j % 4u]);
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 16u;
            uint quad = slot % 16u;
            tile[line * 16u + quad] = next_values[i];
        }
        barrier();
        uint stage_2 = 0u;
        for (uint v0 = 0u; v0 < 128u; v0 += 16u) {
            uint v1 = min(v0 + 16u, 112u);
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                uint slot = self + i * 128u;
                uint line = slot / 16u;
                uint quad = slot % 16u;
                uint key = key0 + v1 + line;
                next_values[i] = vec4(0.0);
                if (key < 1500u) {
                    next_values[i] = v_vec4[(group * 96000u + quad * 4u + key * 64u) / 4u];
                }
            }

            [[unroll]] for (uint depth = 0u; depth < 16u; ++depth) {
                vec4 weights4;
                weights4 = weights[(v0 + depth) * 9u + row0];
                vec4 values4;
                values4 = tile[stage_2 + (depth * 16u + lane_of_row)];
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    sums[i] = fma(vec4(weights4[i]), values4, sums[i]);
                }
            }
            stage_2 = 528u - stage_2;
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                uint slot = self + i * 128u;
                uint line = slot / 16u;
                uint quad = slot % 16u;
                tile[stage_2 + (line * 16u + quad)] = next_values[i];
            }
            barrier();
        }
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        total[i] = total[i] + subgroupShuffleXor(total[i], 16u);
        total[i] = total[i] + subgroupShuffleXor(total[i], 8u);
        total[i] = total[i] + subgroupShuffleXor(total[i], 4u);
        total[i] = total[i] + subgroupShuffleXor(total[i], 1u);
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 * 4u + i;
        if (query0 + row < 1500u) {
            uint query = query0 + row;
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                result4[lane] = div_full(sums[i][lane], total[i]);
            }
            result_vec4[(group * 96000u + query * 64u + lane_of_row * 4u) / 4u] = result4;
        }
    }
}
