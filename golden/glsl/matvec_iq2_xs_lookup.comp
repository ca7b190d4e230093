// matmul over [1,4096], folding 4096
// Fuses: matmul.
// Schedule: matvec wg=512 rows=1x32 vec=4 run=32 tables copies=8 subgroup=32 lanes=64 lookup int_dot.
#version 450
#extension GL_EXT_integer_dot_product : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 512) in;

layout(set = 0, binding = 0, std430) readonly buffer A_quads_buffer { uvec4 a_quads[]; }; // i8
layout(set = 0, binding = 1, std430) readonly buffer Scales_buffer { float scales[]; };
layout(set = 0, binding = 2, std430) readonly buffer B_shorts_buffer { uint16_t b_shorts[]; }; // iq2_xs in planes
layout(set = 0, binding = 2, std430) readonly buffer B_words_buffer { uint b_words[]; }; // iq2_xs in planes
layout(set = 0, binding = 2, std430) readonly buffer B_pairs_buffer { uvec2 b_pairs[]; }; // iq2_xs in planes
layout(set = 0, binding = 3, std430) readonly buffer Codebook_buffer { uint codebook[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Result_buffer { float result[]; };

shared uvec2 octet_table[512][8];
shared uvec2 sign_table[128][16];

// Bit i of the low four bits becomes byte i, as 0 or 1.
uint spread_bits(uint bits) {
    return (bits & 15u) * 0x204081u & 0x01010101u;
}

// The signs of eight elements, given seven of them: the number of set bits is even.
uint even_signs(uint seven) {
    return seven | (uint(bitCount(seven)) & 1u) << 7;
}

uvec2 octet_entry(uint n) {
    return octet_table[n][gl_LocalInvocationIndex % 8u];
}

uvec2 octet_signs(uint n) {
    return sign_table[n][gl_LocalInvocationIndex % 16u];
}

uint short_b_scale(uint block) {
    return uint(b_shorts[block]);
}

float half_b_scale(uint block) {
    return unpackHalf2x16(short_b_scale(block)).x;
}

uint byte_b_scales(uint block, uint at) {
    return b_words[1081344u + block * 2u + (at - 66u) / 4u] >> (at - 66u) % 4u * 8u & 0xffu;
}

// iq2_xs: 256 elements in 74 bytes. The scale of element e.
float scale_b(uint block, uint e) {
    return half_b_scale(block) * (0.5 + float(byte_b_scales(block, 66u + e / 32u) >> e / 16u % 2u * 4u & 15u)) * 0.25;
}

uvec2 pairs_b_quants(uint block, uint at) {
    return b_pairs[16384u + block * 8u + (at - 2u) / 8u];
}

// Eight quants, a byte each, less the masks.
uvec2 octet_b(uint block, uint e, out uvec2 masks) {
    uint packed = pairs_b_quants(block, 2u + e / 32u * 8u)[e % 32u / 16u] >> e % 16u * 2u;
    uvec2 quads = octet_entry(packed & 511u);
    masks = octet_signs(packed >> 9 & 127u);
    return quads ^ masks;
}

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 32u;
    float acc[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 64u;
    uint group = self / 64u;

    for (uint i = self; i < 512u; i += 512u) {
        uint n = i;
        uvec2 entry = uvec2(codebook[2u * n], codebook[2u * n + 1u]);
        [[unroll]] for (uint c = 0u; c < 8u; ++c) {
            octet_table[n][(n + c) % 8u] = entry;
        }
    }

    for (uint i = self; i < 512u; i += 512u) {
        uint n = i % 128u;
        uvec2 signs = 255u * uvec2(spread_bits(n), spread_bits(even_signs(n) >> 4));
        [[unroll]] for (uint c = 0u; c < 4u; ++c) {
            sign_table[n][(n + i / 128u * 4u + c) % 16u] = signs;
        }
    }
    barrier();

    for (uint step_2 = part; step_2 < 128u; step_2 += 64u) {
        uint block = step_2 / 8u;
        uint e = step_2 % 8u * 32u;
        uint k = block * 256u + e;
        [[unroll]] for (uint p = 0u; p < 2u; ++p) {
            int a_strip[4];
            float a_scale;
            a_scale = scales[(k + p * 16u) / 32u];
            uint word = (k + p * 16u) / 4u;
            uvec4 four = a_quads[word / 4u];
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                a_strip[n] = int(four[n]);
            }
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                uint col = col0 + (group * 4u + j);
                int dots;
                dots = 0;
                uint at = col * 16u + block;
                uvec2 octets[2];
                uvec2 masks[2];
                [[unroll]] for (uint o = 0u; o < 2u; ++o) {
                    octets[o] = octet_b(at, e | p * 16u + o * 8u, masks[o]);
                }
                int less;
                less = 0;
                [[unroll]] for (uint t = 0u; t < 4u; ++t) {
                    int bytes = int(octets[t / 2u][t % 2u]);
                    dots = dots + dotPacked4x8EXT(bytes, a_strip[t]);
                    int bytes_2 = int(masks[t / 2u][t % 2u]);
                    less = less + dotPacked4x8EXT(bytes_2, a_strip[t]);
                }
                dots -= less;
                float scale = scale_b(at, e | p * 16u);
                acc[j] += a_scale * scale * float(dots);
            }
        }
    }
    barrier();

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
        octet_table[(part / 32u * 33u + (group * 4u + gl_SubgroupInvocationID / 8u)) / 8u][(part / 32u * 33u + (group * 4u + gl_SubgroupInvocationID / 8u)) % 8u].x = floatBitsToUint(acc[0u]);
    }
    barrier();

    if (self < 32u) {
        uint col = col0 + self;
        float sum = uintBitsToFloat(octet_table[self / 8u][self % 8u].x);
        sum += uintBitsToFloat(octet_table[(33u + self) / 8u][(33u + self) % 8u].x);
        result[col] = sum;
    }
}
