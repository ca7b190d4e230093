// matmul over [1,4096], folding 4096
// Fuses: matmul.
// Schedule: matvec wg=256 rows=1x16 vec=4 run=32 prefetch=cache coarsen=2 rounds digits=3 subgroup=32 lanes=128 strips int_dot.
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
layout(set = 0, binding = 1, std430) readonly buffer B_buffer { uint16_t b[]; }; // q4_0
layout(set = 0, binding = 2, std430) readonly buffer Bias_buffer { float bias[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };

shared uvec4 a_bytes[768];
shared float a_scales[128];
shared float partial[68];

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
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

uint short_b(uint block, uint at) {
    return uint(b[block * 9u + at / 2u]);
}

float half_b(uint block, uint at) {
    return unpackHalf2x16(short_b(block, at)).x;
}

// q4_0: 32 elements in 18 bytes. The scale.
float scale_b(uint block) {
    return half_b(block, 0u);
}

uint word_b(uint block, uint at) {
    uint i = block * 9u + at / 2u;
    return uint(b[i]) | uint(b[i + 1u]) << 16;
}

// Four neighbours from element e on, or p times 16 further, a byte each.
uint quants_b(uint block, uint e, uint p) {
    return word_b(block, 2u + e) >> 4u * p & 0x0f0f0f0fu;
}

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 16u;
    uint part = self % 128u;
    uint group = self / 128u;
    int ones = 0x01010101 + int(gl_NumWorkGroups.x >> 31); // + 0

    uint k = part * 32u;
    uint asked = 0u;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint col = col0 + (group * 4u + j);
        uint at = col * 128u + part;
        asked ^= quants_b(at, 0u, 0u);
        asked ^= quants_b(at, 0u, 1u);
        asked ^= floatBitsToUint(scale_b(at));
    }
    ones += int(gl_NumWorkGroups.x >> 31 & asked); // + 0
    vec4 own[4];
    [[unroll]] for (uint q = 0u; q < 2u; ++q) {
        uint n = self + q * 256u;
        [[unroll]] for (uint h = 0u; h < 2u; ++h) {
            own[q * 2u + h] = a_vec4[(n * 2u + h) * 4u / 4u];
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

    for (uint first_col = 0u; first_col < 16u; first_col += 8u) {
        float acc[4];
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            acc[i] = 0.0;
        }

        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + (first_col + (group * 4u + j));
            int dots[3];
            [[unroll]] for (uint i = 0u; i < 3u; ++i) {
                dots[i] = 0;
            }
            uint at = col * 128u + part;
            [[unroll]] for (uint t = 0u; t < 8u; ++t) {
                int bytes = int(quants_b(at, t % 4u * 4u, t / 4u));
                [[unroll]] for (uint digit = 0u; digit < 3u; ++digit) {
                    dots[digit] = dots[digit] + dotPacked4x8EXT(bytes, a_strip[digit * 8u + t]);
                }
            }
            int whole = dots[0u] + (dots[1u] << 8u) + (dots[2u] << 16u);
            float scale = scale_b(at);
            acc[j] += a_scale * scale * float(whole - 8 * a_sum);
        }

        bool upper16 = (gl_SubgroupInvocationID & 16u) != 0u;
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            acc[j] = (upper16 ? acc[j + 2u] : acc[j]) + subgroupShuffleXor(upper16 ? acc[j] : acc[j + 2u], 16u);
        }
        bool upper8 = (gl_SubgroupInvocationID & 8u) != 0u;
        acc[0u] = (upper8 ? acc[1u] : acc[0u]) + subgroupShuffleXor(upper8 ? acc[0u] : acc[1u], 8u);
        acc[0u] += subgroupShuffleXor(acc[0u], 4u);
        acc[0u] += subgroupShuffleXor(acc[0u], 2u);
        acc[0u] += subgroupShuffleXor(acc[0u], 1u);
        if (gl_SubgroupInvocationID % 8u == 0u) {
            partial[part / 32u * 17u + (first_col + (group * 4u + gl_SubgroupInvocationID / 8u))] = acc[0u];
        }
    }
    barrier();

    if (self < 16u) {
        uint col = col0 + self;
        float sum = partial[self];
        for (uint p = 1u; p < 4u; ++p) {
            sum += partial[p * 17u + self];
        }
        result[col] = fadd(sum, bias[col]);
    }
}
