// attention over [1,2,3,5,6], folding 77
// Fuses: attention.
// Schedule: flash_tile wg=48 tile=12x16x8 thread=2x2 heads=3.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 48) in;

layout(set = 0, binding = 0, std430) readonly buffer Q_buffer { float q[]; };
layout(set = 0, binding = 1, std430) readonly buffer K_buffer { float k[]; };
layout(set = 0, binding = 2, std430) readonly buffer V_buffer { float v[]; };
layout(set = 0, binding = 3, std430) readonly buffer Mask_buffer { float mask[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Result_buffer { float result[]; };

shared vec4 tile_q[36];
shared vec4 tile_k[48];
shared vec4 tile_v[16];
shared float weights[204];
shared float partial[96];

#define INF uintBitsToFloat(0x7f800000u)

float fmul(const float a, const float b) {
    precise float c = a * b;
    return c;
}

// a / b for all divisors. Vulkan defines division for divisors up to 2^126; beyond that, some devices multiply by a
// reciprocal that is flushed to 0.
float div_full(float a, float b) {
    float scale = abs(b) > 8.507059e37 ? 0.25 : 1.0;
    precise float quotient = a * scale / (b * scale);
    return quotient;
}

void main() {
    uint self = gl_LocalInvocationIndex;
    uint query0 = gl_WorkGroupID.x * 4u;
    uint group = gl_WorkGroupID.y;
    uint lane_of_row = self % 8u;
    uint row0 = self / 8u;
    float top[2];
    float total[2];
    float best[2];
    vec4 sums[2];
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        top[i] = -INF;
        total[i] = 0.0;
        sums[i] = vec4(0.0);
    }

    [[dont_unroll]] for (uint key0 = 0u; key0 < 77u; key0 += 16u) {
        float score[4];
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            score[i] = 0.0;
        }
        for (uint d0 = 0u; d0 < 10u; d0 += 8u) {
            // Stage queries and keys.
            if (self < 24u) {
                uint line = self / 2u;
                uint quad = self % 2u;
                vec4 q4;
                uint head = line % 3u;
                uint query = min(query0 + line / 3u, 4u);
                [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                    uint at_k = min(d0 + quad * 4u + lane, 9u);
                    float neighbour = q[group * 150u + head * 50u + query * 10u + at_k];
                    q4[lane] = d0 + quad * 4u + lane < 10u ? neighbour : 0.0;
                }
                tile_q[line * 3u + quad] = q4;
            }
            if (self < 32u) {
                uint line = self / 2u;
                uint quad = self % 2u;
                uint key = min(key0 + line, 76u);
                vec4 k4;
                [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                    uint at_k = min(d0 + quad * 4u + lane, 9u);
                    float neighbour = k[group * 770u + key * 10u + at_k];
                    k4[lane] = d0 + quad * 4u + lane < 10u ? neighbour : 0.0;
                }
                tile_k[line * 3u + quad] = k4;
            }
            barrier();

            for (uint quad = 0u; quad < 2u; ++quad) {
                vec4 keys4[2];
                [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                    keys4[j] = tile_k[(lane_of_row + j * 8u) * 3u + quad];
                }
                [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                    vec4 query4 = tile_q[(row0 + i * 6u) * 3u + quad];
                    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                        score[i * 2u + j] = fma(query4.x, keys4[j].x, score[i * 2u + j]);
                        score[i * 2u + j] = fma(query4.y, keys4[j].y, score[i * 2u + j]);
                        score[i * 2u + j] = fma(query4.z, keys4[j].z, score[i * 2u + j]);
                        score[i * 2u + j] = fma(query4.w, keys4[j].w, score[i * 2u + j]);
                    }
                }
            }
            barrier();
        }

        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint row = row0 + i * 6u;
            best[i] = -INF;
            uint query = min(query0 + row / 3u, 4u);
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                uint key = key0 + (lane_of_row + j * 8u);
                float mask_min = mask[query * 77u + min(key, 76u)];
                float product = fmul(mask_min, 1.442695);
                float seen = score[i * 2u + j] * 0.45622024 + (abs(product) > 3.4028235e+38 ? mask_min : product);
                score[i * 2u + j] = key < 77u ? seen : -INF;
                best[i] = max(best[i], score[i * 2u + j]);
            }
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            partial[(row0 + i * 6u) * 8u + lane_of_row] = best[i];
        }
        barrier();
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            best[i] = partial[(row0 + i * 6u) * 8u];
            for (uint other = 1u; other < 8u; ++other) {
                best[i] = max(best[i], partial[(row0 + i * 6u) * 8u + other]);
            }
        }

        // While no key counts, any finite number does in place of the largest score.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            best[i] = max(best[i], top[i]);
            float largest = best[i];
            float shift = largest == -INF ? 0.0 : largest;
            float correction = exp2(top[i] - shift);
            top[i] = best[i];
            total[i] *= correction;
            sums[i] *= correction;
            uint row = row0 + i * 6u;
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                float weight = exp2(score[i * 2u + j] - shift);
                total[i] += weight;
                weights[row * 17u + (lane_of_row + j * 8u)] = weight;
            }
        }

        for (uint v0 = 0u; v0 < 16u; v0 += 8u) {
            // Stage values.
            if (self < 16u) {
                uint line = self / 2u;
                uint quad = self % 2u;
                uint key = key0 + v0 + line;
                tile_v[line * 2u + quad] = vec4(0.0);
                if (key < 77u) {
                    vec4 v4;
                    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                        uint at_col = min(quad * 4u + lane, 5u);
                        float neighbour = v[group * 462u + at_col + key * 6u];
                        v4[lane] = quad * 4u + lane < 6u ? neighbour : 0.0;
                    }
                    tile_v[line * 2u + quad] = v4;
                }
            }
            barrier();

            for (uint line = 0u; line < 8u; ++line) {
                vec4 values4;
                values4 = tile_v[line * 2u + min(lane_of_row, 1u)];
                [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                    float weight = weights[(row0 + i * 6u) * 17u + v0 + line];
                    sums[i] += weight * values4;
                }
            }
            barrier();
        }
    }

    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        partial[(row0 + i * 6u) * 8u + lane_of_row] = total[i];
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        total[i] = partial[(row0 + i * 6u) * 8u];
        for (uint other = 1u; other < 8u; ++other) {
            total[i] = total[i] + partial[(row0 + i * 6u) * 8u + other];
        }
    }

    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint row = row0 + i * 6u;
        if (query0 + row / 3u < 5u) {
            uint head = row % 3u;
            uint query = query0 + row / 3u;
            if (lane_of_row < 2u) {
                [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                    uint col = lane_of_row * 4u + lane;
                    if (col < 6u) {
                        result[group * 90u + head * 30u + query * 6u + col] = div_full(sums[i][lane], total[i]);
                    }
                }
            }
        }
    }
}
