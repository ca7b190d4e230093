// attention over [1,8,4,1,128], folding S
// Fuses: attention.
// Schedule: flash_vec wg=256 rows=4 heads=4 lanes=16 keys=4 subgroup=32.
#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Q_vec4_buffer { f16vec4 q_vec4[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer K_vec4_buffer { f16vec4 k_vec4[]; }; // f16
layout(set = 0, binding = 2, std430) readonly buffer V_vec4_buffer { f16vec4 v_vec4[]; }; // f16
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { f16vec4 result_vec4[]; }; // f16
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 shared_sums[1024];
shared vec2 shared_weights[32];

#define INF uintBitsToFloat(0x7f800000u)

// a / b for all divisors. Vulkan defines division for divisors up to 2^126; beyond that, some devices multiply by a
// reciprocal that is flushed to 0.
float div_full(float a, float b) {
    float scale = abs(b) > 8.507059e37 ? 0.25 : 1.0;
    precise float quotient = a * scale / (b * scale);
    return quotient;
}

void main() {
    const uint S = params[0];
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint group = gl_WorkGroupID.y;
    uint lane_of_key = self % 16u;
    uint team = self / 16u;
    vec4 queries[8];
    [[unroll]] for (uint r = 0u; r < 4u; ++r) {
        [[unroll]] for (uint n = 0u; n < 2u; ++n) {
            queries[r * 2u + n] = vec4(q_vec4[(group * 512u + r * 128u + (lane_of_key + n * 16u) * 4u) / 4u]) * 0.12751743;
        }
    }
    float top[4];
    float total[4];
    vec4 sums[8];
    [[unroll]] for (uint r = 0u; r < 4u; ++r) {
        top[r] = -INF;
        total[r] = 0.0;
        [[unroll]] for (uint n = 0u; n < 2u; ++n) {
            sums[r * 2u + n] = vec4(0.0);
        }
    }

    [[dont_unroll]] for (uint key0 = 0u; key0 < S; key0 += 64u) {
        f16vec4 keys4[8];
        [[unroll]] for (uint u = 0u; u < 4u; ++u) {
            uint key = min(key0 + team + u * 16u, S - 1u);
            [[unroll]] for (uint n = 0u; n < 2u; ++n) {
                keys4[u * 2u + n] = k_vec4[(group * S * 128u + key * 128u + (lane_of_key + n * 16u) * 4u) / 4u];
            }
        }
        f16vec4 values4[8];
        [[unroll]] for (uint u = 0u; u < 4u; ++u) {
            uint key = min(key0 + team + u * 16u, S - 1u);
            [[unroll]] for (uint n = 0u; n < 2u; ++n) {
                values4[u * 2u + n] = v_vec4[(group * S * 128u + (lane_of_key + n * 16u) * 4u + key * 128u) / 4u];
            }
        }

        float score[16];
        [[unroll]] for (uint u = 0u; u < 4u; ++u) {
            [[unroll]] for (uint r = 0u; r < 4u; ++r) {
                score[r * 4u + u] = 0.0;
                [[unroll]] for (uint n = 0u; n < 2u; ++n) {
                    score[r * 4u + u] += dot(queries[r * 2u + n], vec4(keys4[u * 2u + n]));
                }
            }
        }

        // The lanes of a team add up what each has of a product.
        [[unroll]] for (uint i = 0u; i < 16u; ++i) {
            score[i] += subgroupShuffleXor(score[i], 8u);
            score[i] += subgroupShuffleXor(score[i], 4u);
            score[i] += subgroupShuffleXor(score[i], 2u);
            score[i] += subgroupShuffleXor(score[i], 1u);
        }
        [[unroll]] for (uint r = 0u; r < 4u; ++r) {
            float best = top[r];
            [[unroll]] for (uint u = 0u; u < 4u; ++u) {
                uint key = key0 + team + u * 16u;
                float seen = score[r * 4u + u];
                score[r * 4u + u] = key < S ? seen : -INF;
                best = max(best, score[r * 4u + u]);
            }

            // While no key counts, any finite number does in place of the largest score.
            float shift = best == -INF ? 0.0 : best;
            float correction = exp2(top[r] - shift);
            top[r] = best;
            total[r] *= correction;
            [[unroll]] for (uint n = 0u; n < 2u; ++n) {
                sums[r * 2u + n] *= correction;
            }
            [[unroll]] for (uint u = 0u; u < 4u; ++u) {
                score[r * 4u + u] = exp2(score[r * 4u + u] - shift);
                total[r] += score[r * 4u + u];
            }
        }

        [[unroll]] for (uint u = 0u; u < 4u; ++u) {
            [[unroll]] for (uint n = 0u; n < 2u; ++n) {
                vec4 v4 = vec4(values4[u * 2u + n]);
                [[unroll]] for (uint r = 0u; r < 4u; ++r) {
                    sums[r * 2u + n] += score[r * 4u + u] * v4;
                }
            }
        }
    }

    // Teams of a subgroup join their results.
    [[unroll]] for (uint r = 0u; r < 4u; ++r) {
        float best = top[r];
        best = max(best, subgroupShuffleXor(best, 16u));
        float shift = best == -INF ? 0.0 : best;
        float correction = exp2(top[r] - shift);
        top[r] = best;
        total[r] *= correction;
        [[unroll]] for (uint n = 0u; n < 2u; ++n) {
            sums[r * 2u + n] *= correction;
        }
        total[r] += subgroupShuffleXor(total[r], 16u);
        [[unroll]] for (uint n = 0u; n < 2u; ++n) {
            sums[r * 2u + n] += subgroupShuffleXor(sums[r * 2u + n], 16u);
        }
    }

    if (gl_SubgroupInvocationID < 16u) {
        [[unroll]] for (uint r = 0u; r < 4u; ++r) {
            shared_weights[gl_SubgroupID * 4u + r] = vec2(top[r], total[r]);
            [[unroll]] for (uint n = 0u; n < 2u; ++n) {
                shared_sums[(gl_SubgroupID * 4u + r) * 32u + (lane_of_key + n * 16u)] = sums[r * 2u + n];
            }
        }
    }
    barrier();

    if (self < 128u) {
        uint row = self / 32u;
        uint quad = self % 32u;
        float best = -INF;
        for (uint g = 0u; g < 8u; ++g) {
            best = max(best, shared_weights[g * 4u + row].x);
        }
        float sum = 0.0;
        vec4 weighted = vec4(0.0);
        for (uint g = 0u; g < 8u; ++g) {
            float shift = best == -INF ? 0.0 : best;
            float correction = exp2(shared_weights[g * 4u + row].x - shift);
            sum += correction * shared_weights[g * 4u + row].y;
            weighted += correction * shared_sums[(g * 4u + row) * 32u + quad];
        }
        vec4 result4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            result4[lane] = div_full(weighted[lane], sum);
        }
        result_vec4[(group * 512u + row * 128u + quad * 4u) / 4u] = f16vec4(result4);
    }
}
