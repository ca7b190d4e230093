// matmul over [1,4096], folding 4096
// Fuses: matmul.
// Schedule: matvec wg=256 rows=1x16 vec=4 run=32 prefetch=registers coarsen=2 rounds digits=3 subgroup=32 lanes=128 strips int_dot.
#version 450
#extension GL_EXT_integer_dot_product : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { vec4 a_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Norm_weight_vec4_buffer { vec4 norm_weight_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer B_shorts_buffer { uint16_t b_shorts[]; }; // q4_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer B_quads_buffer { uvec4 b_quads[]; }; // q4_0 in planes
layout(set = 0, binding = 3, std430) readonly buffer Gate_shorts_buffer { uint16_t gate_shorts[]; }; // q4_0 in planes
layout(set = 0, binding = 3, std430) readonly buffer Gate_quads_buffer { uvec4 gate_quads[]; }; // q4_0 in planes
layout(set = 0, binding = 4, std430) writeonly buffer Result_buffer { float result[]; };

shared float sum_sq_parts[8];
shared uvec4 a_bytes[768];
shared float a_scales[128];
shared float partial0[68];
shared float partial1[68];

#define NAN uintBitsToFloat(0x7fc00000u)

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

float fmul(const float a, const float b) {
    precise float c = a * b;
    return c;
}

// The larger number; NaN if either is NaN.
float nan_max(float a, float b) {
    return isnan(b) || a <= b ? b : a;
}

// inversesqrt of any number. If x is itself an inverse, a driver may compute one square root for both, which is -0 for
// -0 and NaN for -inf. So these two values have branches.
float inversesqrt_of_any(const float x) {
    precise float inverse = 1.0 / x;
    return x == 0.0 ? inverse : x < 0.0 ? float(NAN) : inversesqrt(x);
}

// The low bytes of four integers as a word, the first in the lowest byte.
uint pack_bytes(ivec4 v) {
    uvec4 bytes = uvec4(v) & 0xffu;
    return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}

// Numbers below 2^22 as signed digits in base 256, the last digit in the lowest byte: a sum with 3 * 2^22 has the
// nearest integer in its last bits. Infinity counts as 2^22.
uvec4 digits_of(vec4 v) {
    uvec4 bits = floatBitsToUint(max(v, -4194304.0) + 12582912.0);
    return bits - 0x4abf7f80u ^ 0x808080u;
}

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

uint short_gate_scale(uint block) {
    return uint(gate_shorts[block]);
}

float half_gate_scale(uint block) {
    return unpackHalf2x16(short_gate_scale(block)).x;
}

// q4_0: 32 elements in 18 bytes. The scale.
float scale_gate(uint block) {
    return half_gate_scale(block);
}

uvec4 words_b_quants(uint block) {
    return b_quads[65536u + block];
}

// The words that have four quads in a row of each plane.
uvec4 words_b(uint block) {
    return words_b_quants(block);
}

uvec4 words_gate_quants(uint block) {
    return gate_quads[65536u + block];
}

// The words that have four quads in a row of each plane.
uvec4 words_gate(uint block) {
    return words_gate_quants(block);
}

// Four quads of a plane, out of such words.
uvec4 quants_of_q4_0(uvec4 words, uint p) {
    return words >> 4u * p & 0x0f0f0f0fu;
}

// The same of four quads in a row.
uvec4 quants4_b(uint block, uint p) {
    return words_b_quants(block) >> 4u * p & 0x0f0f0f0fu;
}

// The same of four quads in a row.
uvec4 quants4_gate(uint block, uint p) {
    return words_gate_quants(block) >> 4u * p & 0x0f0f0f0fu;
}

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 16u;
    uint part = self % 128u;
    uint group = self / 128u;

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    [[unroll]] for (uint q = 0u; q < 4u; ++q) {
        uint n = self + q * 256u;
        vec4 a4 = a_vec4[n * 4u / 4u];
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            sum_sq += a4[lane] * a4[lane];
        }
    }
    sum_sq += subgroupShuffleXor(sum_sq, 16u);
    sum_sq += subgroupShuffleXor(sum_sq, 8u);
    sum_sq += subgroupShuffleXor(sum_sq, 4u);
    sum_sq += subgroupShuffleXor(sum_sq, 2u);
    sum_sq += subgroupShuffleXor(sum_sq, 1u);
    if (gl_SubgroupInvocationID == 0u) {
        sum_sq_parts[gl_SubgroupID] = sum_sq;
    }
    int ones = 0x01010101 + int(gl_NumWorkGroups.x >> 31); // + 0

    uint k = part * 32u;
    uvec4 b0_words[4];
    float b0_scale[4];
    uvec4 b1_words[4];
    float b1_scale[4];
    uint asked = 0u;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint col = col0 + (group * 4u + j);
        uint at = col * 128u + part;
        b0_words[j] = words_b(at);
        b0_scale[j] = scale_b(at);
        asked ^= b0_words[j].x ^ b0_words[j].y ^ b0_words[j].z ^ b0_words[j].w ^ floatBitsToUint(b0_scale[j]);
        uint at_2 = col * 128u + part;
        b1_words[j] = words_gate(at_2);
        b1_scale[j] = scale_gate(at_2);
        asked ^= b1_words[j].x ^ b1_words[j].y ^ b1_words[j].z ^ b1_words[j].w ^ floatBitsToUint(b1_scale[j]);
    }
    ones += int(gl_NumWorkGroups.x >> 31 & asked); // + 0
    vec4 own[4];
    [[unroll]] for (uint q = 0u; q < 2u; ++q) {
        uint n = self + q * 256u;
        [[unroll]] for (uint h = 0u; h < 2u; ++h) {
            vec4 a4;
            vec4 a4_2 = a_vec4[(n * 2u + h) * 4u / 4u];
            vec4 norm_weight4 = norm_weight_vec4[(n * 2u + h) * 4u / 4u];
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                a4[lane] = fmul(a4_2[lane], norm_weight4[lane]);
            }
            own[q * 2u + h] = a4;
        }
    }
    [[unroll]] for (uint q = 0u; q < 2u; ++q) {
        uint n = self + q * 256u;
        uvec4 size = uvec4(0u);
        [[unroll]] for (uint h = 0u; h < 2u; ++h) {
            size = max(size, floatBitsToUint(own[q * 2u + h]) & 0x7fffffffu);
        }
        uint top = max(max(size.x, size.y), max(size.z, size.w));
        top = max(top, subgroupShuffleXor(top, 1u));
        top = max(top, subgroupShuffleXor(top, 2u));
        uint exponent = clamp(top >> 23, 22u, 254u);
        bool special = top >= 0x7f800000u;
        float steps = uintBitsToFloat((special ? 1u : 275u - exponent) << 23);
        float scale = special ? uintBitsToFloat(top) : uintBitsToFloat(exponent - 21u << 23);
        [[unroll]] for (uint h = 0u; h < 2u; ++h) {
            uvec4 digits = digits_of(own[q * 2u + h] * steps);
            [[unroll]] for (uint digit = 0u; digit < 3u; ++digit) {
                a_bytes[digit * 256u + (n * 2u + h) / 4u][(n * 2u + h) % 4u] = pack_bytes(ivec4(digits >> 8u * digit));
            }
        }
        if (n % 4u == 0u) {
            a_scales[n / 4u] = scale;
        }
    }
    barrier();
    int a_strip[24];
    float a_scale;
    int a_sum;
    a_scale = a_scales[k / 32u];
    a_sum = 0;
    [[unroll]] for (uint digit = 0u; digit < 3u; ++digit) {
        uint quad = digit * 256u + k / 16u;
        [[unroll]] for (uint w = 0u; w < 2u; ++w) {
            uvec4 four = a_bytes[quad + w];
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                a_strip[digit * 8u + (w * 4u + n)] = int(four[n]);
                a_sum += dotPacked4x8EXT(a_strip[digit * 8u + (w * 4u + n)], ones) << digit * 8u;
            }
        }
    }

    float acc0[4];
    float acc1[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        acc0[i] = 0.0;
        acc1[i] = 0.0;
    }

    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        int dots0[3];
        [[unroll]] for (uint i = 0u; i < 3u; ++i) {
            dots0[i] = 0;
        }
        uvec4 quants[2];
        [[unroll]] for (uint w = 0u; w < 2u; ++w) {
            quants[w] = quants_of_q4_0(b0_words[j], w);
        }
        [[unroll]] for (uint t = 0u; t < 8u; ++t) {
            int bytes = int(quants[t / 4u][t % 4u]);
            [[unroll]] for (uint digit = 0u; digit < 3u; ++digit) {
                dots0[digit] = dots0[digit] + dotPacked4x8EXT(bytes, a_strip[digit * 8u + t]);
            }
        }
        int whole = dots0[0u] + (dots0[1u] << 8u) + (dots0[2u] << 16u);
        float scale = b0_scale[j];
        acc0[j] += a_scale * scale * float(whole - 8 * a_sum);
        int dots1[3];
        [[unroll]] for (uint i = 0u; i < 3u; ++i) {
            dots1[i] = 0;
        }
        uvec4 quants_2[2];
        [[unroll]] for (uint w = 0u; w < 2u; ++w) {
            quants_2[w] = quants_of_q4_0(b1_words[j], w);
        }
        [[unroll]] for (uint t = 0u; t < 8u; ++t) {
            int bytes = int(quants_2[t / 4u][t % 4u]);
            [[unroll]] for (uint digit = 0u; digit < 3u; ++digit) {
                dots1[digit] = dots1[digit] + dotPacked4x8EXT(bytes, a_strip[digit * 8u + t]);
            }
        }
        int whole_2 = dots1[0u] + (dots1[1u] << 8u) + (dots1[2u] << 16u);
        float scale_2 = b1_scale[j];
        acc1[j] += a_scale * scale_2 * float(whole_2 - 8 * a_sum);
    }

    bool upper16 = (gl_SubgroupInvocationID & 16u) != 0u;
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        acc0[j] = (upper16 ? acc0[j + 2u] : acc0[j]) + subgroupShuffleXor(upper16 ? acc0[j] : acc0[j + 2u], 16u);
        acc1[j] = (upper16 ? acc1[j + 2u] : acc1[j]) + subgroupShuffleXor(upper16 ? acc1[j] : acc1[j + 2u], 16u);
    }
    bool upper8 = (gl_SubgroupInvocationID & 8u) != 0u;
    acc0[0u] = (upper8 ? acc0[1u] : acc0[0u]) + subgroupShuffleXor(upper8 ? acc0[0u] : acc0[1u], 8u);
    acc1[0u] = (upper8 ? acc1[1u] : acc1[0u]) + subgroupShuffleXor(upper8 ? acc1[0u] : acc1[1u], 8u);
    acc0[0u] += subgroupShuffleXor(acc0[0u], 4u);
    acc0[0u] += subgroupShuffleXor(acc0[0u], 2u);
    acc0[0u] += subgroupShuffleXor(acc0[0u], 1u);
    acc1[0u] += subgroupShuffleXor(acc1[0u], 4u);
    acc1[0u] += subgroupShuffleXor(acc1[0u], 2u);
    acc1[0u] += subgroupShuffleXor(acc1[0u], 1u);
    if (gl_SubgroupInvocationID % 8u == 0u) {
        partial0[part / 32u * 17u + (group * 4u + gl_SubgroupInvocationID / 8u)] = acc0[0u];
        partial1[part / 32u * 17u + (group * 4u + gl_SubgroupInvocationID / 8u)] = acc1[0u];
    }

    float acc0_2[4];
    float acc1_2[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        acc0_2[i] = 0.0;
        acc1_2[i] = 0.0;
    }

    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint col = col0 + (8u + (group * 4u + j));
        int dots0[3];
        [[unroll]] for (uint i = 0u; i < 3u; ++i) {
            dots0[i] = 0;
        }
        uint at0 = col * 128u + part;
        uvec4 quants[2];
        [[unroll]] for (uint w = 0u; w < 2u; ++w) {
            quants[w] = quants4_b(at0, w);
        }
        [[unroll]] for (uint t = 0u; t < 8u; ++t) {
            int bytes = int(quants[t / 4u][t % 4u]);
            [[unroll]] for (uint digit = 0u; digit < 3u; ++digit) {
                dots0[digit] = dots0[digit] + dotPacked4x8EXT(bytes, a_strip[digit * 8u + t]);
            }
        }
        int whole = dots0[0u] + (dots0[1u] << 8u) + (dots0[2u] << 16u);
        float scale = scale_b(at0);
        acc0_2[j] += a_scale * scale * float(whole - 8 * a_sum);
        int dots1[3];
        [[unroll]] for (uint i = 0u; i < 3u; ++i) {
            dots1[i] = 0;
        }
        uint at1 = col * 128u + part;
        uvec4 quants_2[2];
        [[unroll]] for (uint w = 0u; w < 2u; ++w) {
            quants_2[w] = quants4_gate(at1, w);
        }
        [[unroll]] for (uint t = 0u; t < 8u; ++t) {
            int bytes = int(quants_2[t / 4u][t % 4u]);
            [[unroll]] for (uint digit = 0u; digit < 3u; ++digit) {
                dots1[digit] = dots1[digit] + dotPacked4x8EXT(bytes, a_strip[digit * 8u + t]);
            }
        }
        int whole_2 = dots1[0u] + (dots1[1u] << 8u) + (dots1[2u] << 16u);
        float scale_2 = scale_gate(at1);
        acc1_2[j] += a_scale * scale_2 * float(whole_2 - 8 * a_sum);
    }

    bool upper16_2 = (gl_SubgroupInvocationID & 16u) != 0u;
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        acc0_2[j] = (upper16_2 ? acc0_2[j + 2u] : acc0_2[j]) + subgroupShuffleXor(upper16_2 ? acc0_2[j] : acc0_2[j + 2u], 16u);
        acc1_2[j] = (upper16_2 ? acc1_2[j + 2u] : acc1_2[j]) + subgroupShuffleXor(upper16_2 ? acc1_2[j] : acc1_2[j + 2u], 16u);
    }
    bool upper8_2 = (gl_SubgroupInvocationID & 8u) != 0u;
    acc0_2[0u] = (upper8_2 ? acc0_2[1u] : acc0_2[0u]) + subgroupShuffleXor(upper8_2 ? acc0_2[0u] : acc0_2[1u], 8u);
    acc1_2[0u] = (upper8_2 ? acc1_2[1u] : acc1_2[0u]) + subgroupShuffleXor(upper8_2 ? acc1_2[0u] : acc1_2[1u], 8u);
    acc0_2[0u] += subgroupShuffleXor(acc0_2[0u], 4u);
    acc0_2[0u] += subgroupShuffleXor(acc0_2[0u], 2u);
    acc0_2[0u] += subgroupShuffleXor(acc0_2[0u], 1u);
    acc1_2[0u] += subgroupShuffleXor(acc1_2[0u], 4u);
    acc1_2[0u] += subgroupShuffleXor(acc1_2[0u], 2u);
    acc1_2[0u] += subgroupShuffleXor(acc1_2[0u], 1u);
    if (gl_SubgroupInvocationID % 8u == 0u) {
        partial0[part / 32u * 17u + (8u + (group * 4u + gl_SubgroupInvocationID / 8u))] = acc0_2[0u];
        partial1[part / 32u * 17u + (8u + (group * 4u + gl_SubgroupInvocationID / 8u))] = acc1_2[0u];
    }
    barrier();

    if (self < 16u) {
        uint col = col0 + self;
        float sum0 = partial0[self];
        float sum1 = partial1[self];
        for (uint p = 1u; p < 4u; ++p) {
            sum0 += partial0[p * 17u + self];
            sum1 += partial1[p * 17u + self];
        }
        float sum_sq_2 = sum_sq_parts[0u];
        for (uint p = 1u; p < 8u; ++p) {
            sum_sq_2 += sum_sq_parts[p];
        }
        float rsqrt = inversesqrt_of_any(fadd(fmul(sum_sq_2, 0.00024414063), 0.01));
        result[col] = fmul(nan_max(fmul(sum0, rsqrt), 0.0), fmul(sum1, rsqrt));
    }
}
