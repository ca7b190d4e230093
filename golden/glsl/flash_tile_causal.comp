// attention over [1,8,4,T,128], folding S
// Fuses: transpose, attention, transpose, reshape.
// Schedule: flash_tile wg=256 tile=64x64x16 thread=4x4 heads=1 subgroup=32.
#version 430
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

shared vec4 tile_q[320];
shared vec4 tile_k[320];
shared vec4 tile_v[512];
shared float weights[4160];

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
    const uint T = params[1];
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint query0 = ((T + 63u) / 64u - 1u - gl_WorkGroupID.x) * 64u;
    uint head = gl_WorkGroupID.y % 4u;
    uint group = gl_WorkGroupID.y / 4u;
    uint lane_of_row = self % 16u;
    uint row0 = self / 16u;
    float top[4];
    float total[4];
    float best[4];
    vec4 sums[8];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        top[i] = -INF;
        total[i] = 0.0;
        [[unroll]] for (uint n = 0u; n < 2u; ++n) {
            sums[i * 2u + n] = vec4(0.0);
        }
    }
    uint keys = uint(max(min(int(S) + int(min(query0 + 63u, T - 1u)) + 1 - int(T), int(S)), 0));

    [[dont_unroll]] for (uint key0 = 0u; key0 < keys; key0 += 64u) {
        float score[16];
        [[unroll]] for (uint i = 0u; i < 16u; ++i) {
            score[i] = 0.0;
        }
        for (uint d0 = 0u; d0 < 128u; d0 += 16u) {
            // Stage queries and keys.
            uint line = self / 4u;
            uint quad = self % 4u;
            uint query = min(query0 + line, T - 1u);
            tile_q[line * 5u + quad] = vec4(q_vec4[(group * 512u + head * 128u + query * 4096u + (d0 + quad * 4u)) / 4u]);
            uint line_2 = self / 4u;
            uint quad_2 = self % 4u;
            uint key = min(key0 + line_2, S - 1u);
            tile_k[line_2 * 5u + quad_2] = vec4(k_vec4[(group * S * 128u + key * 128u + (d0 + quad_2 * 4u)) / 4u]);
            barrier();

            for (uint quad_3 = 0u; quad_3 < 4u; ++quad_3) {
                vec4 keys4[4];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    keys4[j] = tile_k[(lane_of_row + j * 16u) * 5u + quad_3];
                }
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    vec4 query4 = tile_q[(row0 + i * 16u) * 5u + quad_3];
                    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                        score[i * 4u + j] = fma(query4.x, keys4[j].x, score[i * 4u + j]);
                        score[i * 4u + j] = fma(query4.y, keys4[j].y, score[i * 4u + j]);
                        score[i * 4u + j] = fma(query4.z, keys4[j].z, score[i * 4u + j]);
                        score[i * 4u + j] = fma(query4.w, keys4[j].w, score[i * 4u + j]);
                    }
                }
            }
            barrier();
        }

        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint row = row0 + i * 16u;
            best[i] = -INF;
            uint query = min(query0 + row, T - 1u);
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                uint key = key0 + (lane_of_row + j * 16u);
                float seen = score[i * 4u + j] * 0.12751743;
                score[i * 4u + j] = key < uint(max(min(int(S) + int(query) + 1 - int(T), int(S)), 0)) ? seen : -INF;
                best[i] = max(best[i], score[i * 4u + j]);
            }
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            best[i] = max(best[i], subgroupShuffleXor(best[i], 8u));
            best[i] = max(best[i], subgroupShuffleXor(best[i], 4u));
            best[i] = max(best[i], subgroupShuffleXor(best[i], 2u));
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
            [[unroll]] for (uint n = 0u; n < 2u; ++n) {
                sums[i * 2u + n] *= correction;
            }
            uint row = row0 + i * 16u;
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                float weight = exp2(score[i * 4u + j] - shift);
                total[i] += weight;
                weights[row * 65u + (lane_of_row + j * 16u)] = weight;
            }
        }

        for (uint v0 = 0u; v0 < 64u; v0 += 16u) {
            // Stage values.
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                uint slot = self + i * 256u;
                uint line = slot / 32u;
                uint quad = slot % 32u;
                uint key = key0 + v0 + line;
                tile_v[line * 32u + quad] = vec4(0.0);
                if (key < keys) {
                    tile_v[line * 32u + quad] = vec4(v_vec4[(group * S * 128u + quad * 4u + key * 128u) / 4u]);
                }
            }
            barrier();

            for (uint line = 0u; line < 16u; ++line) {
                vec4 values4[2];
                [[unroll]] for (uint n = 0u; n < 2u; ++n) {
                    values4[n] = tile_v[line * 32u + (lane_of_row + n * 16u)];
                }
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    float weight = weights[(row0 + i * 16u) * 65u + v0 + line];
                    [[unroll]] for (uint n = 0u; n < 2u; ++n) {
                        sums[i * 2u + n] += weight * values4[n];
                    }
                }
            }
            barrier();
        }
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        total[i] = total[i] + subgroupShuffleXor(total[i], 8u);
        total[i] = total[i] + subgroupShuffleXor(total[i], 4u);
        total[i] = total[i] + subgroupShuffleXor(total[i], 2u);
        total[i] = total[i] + subgroupShuffleXor(total[i], 1u);
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 + i * 16u;
        if (query0 + row < T) {
            uint query = query0 + row;
            [[unroll]] for (uint n = 0u; n < 2u; ++n) {
                uint quad = lane_of_row + n * 16u;
                vec4 result4;
                [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                    result4[lane] = div_full(sums[i * 2u + n][lane], total[i]);
                }
                result_vec4[(group * 512u + head * 128u + query * 4096u + quad * 4u) / 4u] = f16vec4(result4);
            }
        }
    }
}
