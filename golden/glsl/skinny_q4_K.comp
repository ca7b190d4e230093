// matmul over [8,14336], folding 4096
// Fuses: matmul.
// Schedule: skinny wg=256 tile=8x128x128 subgroups=8x1 fragment=16x8x32 subgroup=32.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { vec4 a_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_quads_buffer { uvec4 b_quads[]; }; // q4_K in planes
layout(set = 0, binding = 2, std430) readonly buffer Bias_vec4_buffer { vec4 bias_vec4[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };

shared uvec4 b_strips[1152];
shared float b_scales[512];
shared float b_offsets[512];
shared uvec4 a_strips[216];
shared float a_scales[32];
shared float a_sums[32];

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

// The 6-bit scale and minimum of group g of 8 in q4_K and q5_K. Groups 4 to 7 have their low bits in the last word, and
// their high bits above the scales and minima of the others in the first two words.
uvec2 scale_min_k4(uvec3 packed, uint g) {
    packed >>= g % 4u * 8u;
    uvec2 low = uvec2(packed.z & 15u, packed.z >> 4 & 15u);
    return mix(low | packed.xy >> 2 & 48u, packed.xy & 63u, bvec2(g < 4u));
}

uvec4 words_b_scales(uint block) {
    return b_quads[block];
}

// q4_K: 256 elements in 144 bytes. The scale and offset of element e.
vec2 scale_b(uint block, uint e) {
    uvec4 scales = words_b_scales(block);
    vec2 d = unpackHalf2x16(scales.x);
    uvec2 packed = scale_min_k4(scales.yzw, e / 32u);
    return vec2(d.x * float(packed.x), -(d.y * float(packed.y)));
}

uvec4 words_b_quants(uint block, uint at) {
    return b_quads[229376u + block * 8u + (at - 16u) / 16u];
}

// The same of four quads in a row.
uvec4 quants4_b(uint block, uint e, uint p) {
    return words_b_quants(block, 16u + e / 64u * 32u + e % 32u) >> 4u * p & 0x0f0f0f0fu;
}

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 128u;
    uint own_col = gl_SubgroupID * 16u;
    uint first_unit = gl_SubgroupID * 144u;
    uint first_scale = gl_SubgroupID * 64u;
    coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> acc;
    acc = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
    uvec4 b_quants[4];
    vec2 b_scale[2];
    vec4 a_elements;
    uint pair = gl_SubgroupInvocationID / 2u;
    uint column = pair / 2u * 2u + gl_SubgroupInvocationID % 2u;
    uint run = pair % 2u;
    uint col = col0 + own_col + column;
    uint block = run / 4u;
    uint place = run % 4u * 32u;
    uint e = place / 32u * 64u + place % 32u;
    uint at = col * 16u + block;
    [[unroll]] for (uint p = 0u; p < 2u; ++p) {
        b_quants[p * 2u] = quants4_b(at, e, p);
        b_quants[p * 2u + 1u] = quants4_b(at, e | 16u, p);
        b_scale[p] = scale_b(at, e | p * 32u);
    }
    uint line = self / 32u;
    uint at_2 = self % 32u * 4u;
    a_elements = a_vec4[(line * 4096u + at_2) / 4u];

    [[dont_unroll]] for (uint k0 = 0u; k0 < 4096u; k0 += 128u) {
        barrier(); // what is in shared memory has been multiplied
        uint pair_2 = gl_SubgroupInvocationID / 2u;
        uint column_2 = pair_2 / 2u * 2u + gl_SubgroupInvocationID % 2u;
        uint run_2 = pair_2 % 2u;
        uint place_2 = run_2 * 32u;
        uint e_2 = place_2 / 32u * 64u + place_2 % 32u;
        [[unroll]] for (uint p = 0u; p < 2u; ++p) {
            uint at_3 = e_2 + p * 32u;
            uint unit = first_unit + column_2 * 9u + at_3 / 16u;
            b_strips[unit] = b_quants[p * 2u];
            b_strips[unit + 1u] = b_quants[p * 2u + 1u];
            b_scales[first_scale + at_3 / 32u * 16u + column_2] = b_scale[p].x;
            b_offsets[first_scale + at_3 / 32u * 16u + column_2] = b_scale[p].y;
        }
        uint line_2 = self / 32u;
        uint at_3 = self % 32u * 4u;
        vec4 x = a_elements;
        uvec4 tops = floatBitsToUint(x) & 0x7fffffffu;
        uint top = max(max(tops.x, tops.y), max(tops.z, tops.w));
        float sum = dot(x, vec4(1.0));
        top = max(top, subgroupShuffleXor(top, 1u));
        sum += subgroupShuffleXor(sum, 1u);
        top = max(top, subgroupShuffleXor(top, 2u));
        sum += subgroupShuffleXor(sum, 2u);
        top = max(top, subgroupShuffleXor(top, 4u));
        sum += subgroupShuffleXor(sum, 4u);
        uint exponent = clamp(top >> 23, 22u, 254u);
        bool special = top >= 0x7f800000u;
        x = special ? mix(vec4(0.0), sign(x), isinf(x)) : x * uintBitsToFloat(275u - exponent << 23);
        uvec4 digits = uvec4(ivec4(roundEven(x)) + 0x808080) ^ 0x808080u;
        [[unroll]] for (uint part = 0u; part < 3u; ++part) {
            uint unit = (line_2 + part * 8u) * 9u + at_3 / 16u;
            a_strips[unit][at_3 / 4u % 4u] = pack_bytes(ivec4(digits >> 8u * part));
        }
        if (at_3 % 32u == 0u) {
            uint place_3 = at_3 / 32u * 8u + line_2;
            a_scales[place_3] = special ? uintBitsToFloat(top) : uintBitsToFloat(exponent - 21u << 23);
            a_sums[place_3] = sum;
        }
        barrier();

        // The next step, or the last once more.
        uint k1 = min(k0 + 128u, 3968u);
        uint pair_3 = gl_SubgroupInvocationID / 2u;
        uint column_3 = pair_3 / 2u * 2u + gl_SubgroupInvocationID % 2u;
        uint run_3 = pair_3 % 2u;
        uint col_2 = col0 + own_col + column_3;
        uint step_2 = k1 / 64u + run_3;
        uint block_2 = step_2 / 4u;
        uint place_3 = step_2 % 4u * 32u;
        uint e_3 = place_3 / 32u * 64u + place_3 % 32u;
        uint at_4 = col_2 * 16u + block_2;
        [[unroll]] for (uint p = 0u; p < 2u; ++p) {
            b_quants[p * 2u] = quants4_b(at_4, e_3, p);
            b_quants[p * 2u + 1u] = quants4_b(at_4, e_3 | 16u, p);
            b_scale[p] = scale_b(at_4, e_3 | p * 32u);
        }
        uint line_3 = self / 32u;
        uint at_5 = self % 32u * 4u;
        a_elements = a_vec4[(line_3 * 4096u + (k1 + at_5)) / 4u];

        // Multiply.
        [[dont_unroll]] for (uint strip = 0u; strip < 4u; ++strip) {
            coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> row_scale;
            coopMatLoad(row_scale, a_scales, strip * 8u, 0u, gl_CooperativeMatrixLayoutRowMajor);
            coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> row_sum;
            coopMatLoad(row_sum, a_sums, strip * 8u, 0u, gl_CooperativeMatrixLayoutRowMajor);
            coopmat<int8_t, gl_ScopeSubgroup, 32, 8, gl_MatrixUseB> rows[3];
            [[unroll]] for (uint f = 0u; f < 3u; ++f) {
                coopMatLoad(rows[f], a_strips, f * 72u + strip * 2u, 9u, gl_CooperativeMatrixLayoutColumnMajor);
            }
            coopmat<int8_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA> columns;
            coopMatLoad(columns, b_strips, first_unit + strip * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
            coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> scale;
            coopMatLoad(scale, b_scales, first_scale + strip * 16u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> offset;
            coopMatLoad(offset, b_offsets, first_scale + strip * 16u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            coopmat<int, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sum_2 = coopmat<int, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0);
            coopmat<int, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> least = coopmat<int, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0);
            least = coopMatMulAdd(columns, rows[0u], least);
            sum_2 = coopMatMulAdd(columns, rows[2u], sum_2);
            sum_2 = sum_2 * 256;
            sum_2 = coopMatMulAdd(columns, rows[1u], sum_2);
            acc += scale * (row_scale * (coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(sum_2) * 256.0 + coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(least))) + offset * row_sum;
        }
    }
    barrier();
    coopMatStore(acc, b_strips, own_col / 4u, 32u, gl_CooperativeMatrixLayoutColumnMajor);
    barrier();

    uint row = self / 32u;
    uint col4 = col0 + self % 32u * 4u;
    vec4 sums = uintBitsToFloat(b_strips[self]);
    vec4 bias4 = bias_vec4[col4 / 4u];
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        result4[lane] = fadd(sums[lane], bias4[lane]);
    }
    result_vec4[(row * 14336u + col4) / 4u] = result4;
}
