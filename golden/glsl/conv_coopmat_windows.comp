// conv_relu over [8,1,256,3136], folding 2304
// Fuses: conv, relu.
// Schedule: coopmat wg=512 tile=128x128x32 subgroups=2x4 fragment=16x16x16 subgroup=64.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 512) in;

layout(set = 0, binding = 0, std430) readonly buffer W_vec8_buffer { uvec4 w_vec8[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer X_vec8_buffer { uvec4 x_vec8[]; }; // f16
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { f16vec4 result_vec4[]; }; // f16

shared uvec4 tiles[2368];

// The larger number; NaN if either is NaN.
float nan_max(float a, float b) {
    return isnan(b) || a <= b ? b : a;
}

// Rounds to the nearest f16, ties to even. It is computed in integers, because compilers replace unpackHalf2x16 of
// packHalf2x16 by its argument.
float round_f16(float x) {
    uint bits = floatBitsToUint(x), size = bits & 0x7fffffffu;
    // Below 2^-14 an f16 is a multiple of 2^-24, as an f32 near 0.5 is.
    precise float small = (uintBitsToFloat(size) + 0.5) - 0.5;
    uint rounded = size + 0xfffu + (size >> 13 & 1u) & 0xffffe000u;
    rounded = mix(rounded, floatBitsToUint(small), size < 0x38800000u);
    rounded = mix(rounded, max(size, 0x7f800000u), rounded >= 0x47800000u); // 2^16: infinite, or NaN as it is
    return uintBitsToFloat(bits & 0x80000000u | rounded);
}

// Elements i+first to i+end-1, and 0 for the others of i to i+7.
uvec4 window_x(int i, int first, int end) {
    int at = i >> 3, last = int(x_vec8.length()) - 1;
    uvec4 low = x_vec8[clamp(at, 0, last)], high = x_vec8[clamp(at + 1, 0, last)];
    bvec4 by4 = bvec4((i & 4) != 0), by2 = bvec4((i & 2) != 0), by1 = bvec4((i & 1) != 0);
    low = mix(low, uvec4(low.zw, high.xy), by4);
    high = mix(high, high.zwzw, by4);
    low = mix(low, uvec4(low.yzw, high.x), by2);
    high = mix(high, high.yyyy, by2);
    low = mix(low, low >> 16 | uvec4(low.yzw, high.x) << 16, by1);
    uvec4 count = uvec4(max(end - first, 0)), place = uvec4(0u, 2u, 4u, 6u) - uint(first);
    uvec4 halves = mix(uvec4(0u), uvec4(0xffffu), lessThan(place, count));
    return low & (halves | mix(uvec4(0u), uvec4(0xffff0000u), lessThan(place + 1u, count)));
}

void main() {
    uint self = gl_SubgroupID * 64u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 128u;
    uint row0 = gl_WorkGroupID.y * 128u;
    uint axis0 = gl_WorkGroupID.z;
    uint frag_row = gl_SubgroupID / 4u * 64u;
    uint frag_col = gl_SubgroupID % 4u * 32u;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> acc[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    }
    uvec4 next_a;
    uvec4 next_b;

    // The first tiles go to shared memory.

    // Fetch 128 rows of a.
    uint k = self % 4u * 8u;
    uint row = row0 + self / 4u;
    next_a = w_vec8[(row * 2304u + k) / 8u];

    // Fetch 128 columns of b.
    uint col = col0 + self % 16u * 8u;
    uint k_2 = self / 16u;
    next_b = uvec4(0u);
    if (col < 3136u) {
        uint k_2_remainder = k_2 % 3u;
        uint k_2_quotient = k_2 / 3u;
        uint remainder = k_2_quotient % 3u;
        uint col_remainder = col % 56u;
        uint col_quotient = col / 56u;
        next_b = int(remainder + col_quotient - 1u) >= 0 && int(remainder + col_quotient - 1u) < 56 ? window_x(int(k_2_quotient / 3u * 3136u + col_remainder + k_2_remainder + axis0 * 802816u + uint(clamp(int(remainder) + int(col_quotient) - 1, 0, 55)) * 56u - 1u), max(0, 0 - int(col_remainder + k_2_remainder - 1u)), min(8, 56 - int(col_remainder + k_2_remainder - 1u))) : uvec4(0u);
    }
    tiles[self / 4u * 5u + self % 4u] = next_a;
    tiles[640u + self / 16u * 17u + self % 16u] = next_b;
    barrier();

    uint stage = 0u;
    for (uint k0 = 0u; k0 < 2304u; k0 += 32u) {
        uint k1 = min(k0 + 32u, 2272u);

        // Fetch 128 rows of a.
        uint k_3 = k1 + self % 4u * 8u;
        uint row_2 = row0 + self / 4u;
        next_a = w_vec8[(row_2 * 2304u + k_3) / 8u];

        // Fetch 128 columns of b.
        uint col_2 = col0 + self % 16u * 8u;
        uint k_4 = k1 + self / 16u;
        next_b = uvec4(0u);
        if (col_2 < 3136u) {
            uint k_4_remainder = k_4 % 3u;
            uint k_4_quotient = k_4 / 3u;
            uint remainder = k_4_quotient % 3u;
            uint col_2_remainder = col_2 % 56u;
            uint col_2_quotient = col_2 / 56u;
            next_b = int(remainder + col_2_quotient - 1u) >= 0 && int(remainder + col_2_quotient - 1u) < 56 ? window_x(int(k_4_quotient / 3u * 3136u + col_2_remainder + k_4_remainder + axis0 * 802816u + uint(clamp(int(remainder) + int(col_2_quotient) - 1, 0, 55)) * 56u - 1u), max(0, 0 - int(col_2_remainder + k_4_remainder - 1u)), min(8, 56 - int(col_2_remainder + k_4_remainder - 1u))) : uvec4(0u);
        }

        // Multiply the tiles in shared memory.
        [[unroll]] for (uint part = 0u; part < 2u; ++part) {
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> frag_a[4];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                coopMatLoad(frag_a[i], tiles, stage + (frag_row + i * 16u) * 5u + part * 2u, 5u, gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> frag_b;
                coopMatLoad(frag_b, tiles, stage + 640u + part * 272u + (frag_col + j * 16u) / 8u, 17u, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    acc[i * 2u + j] = coopMatMulAdd(frag_a[i], frag_b, acc[i * 2u + j]);
                }
            }
        }
        stage = 1184u - stage;
        tiles[stage + self / 4u * 5u + self % 4u] = next_a;
        tiles[stage + 640u + self / 16u * 17u + self % 16u] = next_b;
        barrier();
    }

    // Results pass through shared memory, 16 by 32 of each subgroup at a time.
    uint place = gl_SubgroupID * 144u;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        coopMatStore(acc[i * 2u], tiles, place, 9u, gl_CooperativeMatrixLayoutRowMajor);
        coopMatStore(acc[i * 2u + 1u], tiles, place + 4u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
        [[unroll]] for (uint i_2 = 0u; i_2 < 2u; ++i_2) {
            uint slot = gl_SubgroupInvocationID + i_2 * 64u;
            uint line = slot / 8u;
            uint quad = slot % 8u;
            vec4 acc4 = uintBitsToFloat(tiles[place + (line * 9u + quad)]);
            uint row_2 = row0 + frag_row + i * 16u + line;
            uint col4 = col0 + frag_col + quad * 4u;
            if (col4 < 3136u) {
                vec4 result4;
                [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                    result4[lane] = nan_max(round_f16(acc4[lane]), 0.0);
                }
                result_vec4[(axis0 * 802816u + row_2 * 3136u + col4) / 4u] = f16vec4(result4);
            }
        }
        subgroupBarrier();
    }
}
