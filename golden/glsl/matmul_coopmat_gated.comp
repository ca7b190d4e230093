// matmul over [T,1000], folding 4096
// Fuses: matmul.
// Schedule: coopmat wg=512 tile=128x64x32 subgroups=2x4 fragment=16x16x16 subgroup=64.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 512) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec8_buffer { uvec4 a_vec8[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer B_vec8_buffer { uvec4 b_vec8[]; }; // f16
layout(set = 0, binding = 2, std430) readonly buffer Gate_vec8_buffer { uvec4 gate_vec8[]; }; // f16
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { f16vec4 result_vec4[]; }; // f16
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared uvec4 tiles[2432];

float fmul(const float a, const float b) {
    precise float c = a * b;
    return c;
}

// The larger number; NaN if either is NaN.
float nan_max(float a, float b) {
    return isnan(b) || a <= b ? b : a;
}

void main() {
    const uint T = params[0];
    uint self = gl_SubgroupID * 64u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 64u;
    uint row0 = gl_WorkGroupID.y * 128u;
    uint frag_row = gl_SubgroupID / 4u * 64u;
    uint frag_col = gl_SubgroupID % 4u * 16u;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> acc0[4];
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> acc1[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        acc0[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
        acc1[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    }
    uvec4 next_a;
    uvec4 next_b0;
    uvec4 next_b1;

    // The first tiles go to shared memory.

    // Fetch 128 rows of a.
    uint k = self % 4u * 8u;
    uint row = min(row0 + self / 4u, T - 1u);
    next_a = a_vec8[(row * 4096u + k) / 8u];

    // Fetch 64 columns of b0.
    if (self < 256u) {
        uint col = col0 + self % 8u * 8u;
        uint k_2 = self / 8u;
        next_b0 = uvec4(0u);
        if (col < 1000u) {
            next_b0 = b_vec8[(col + k_2 * 1000u) / 8u];
        }
    }

    // Fetch 64 columns of b1.
    if (self < 256u) {
        uint col = col0 + self % 8u * 8u;
        uint k_2 = self / 8u;
        next_b1 = uvec4(0u);
        if (col < 1000u) {
            next_b1 = gate_vec8[(col + k_2 * 1000u) / 8u];
        }
    }
    tiles[self / 4u * 5u + self % 4u] = next_a;
    if (self < 256u) {
        tiles[640u + self / 8u * 9u + self % 8u] = next_b0;
    }
    if (self < 256u) {
        tiles[928u + self / 8u * 9u + self % 8u] = next_b1;
    }
    barrier();

    uint stage = 0u;
    for (uint k0 = 0u; k0 < 4096u; k0 += 32u) {
        uint k1 = min(k0 + 32u, 4064u);

        // Fetch 128 rows of a.
        uint k_2 = k1 + self % 4u * 8u;
        uint row_2 = min(row0 + self / 4u, T - 1u);
        next_a = a_vec8[(row_2 * 4096u + k_2) / 8u];

        // Fetch 64 columns of b0.
        if (self < 256u) {
            uint col = col0 + self % 8u * 8u;
            uint k_3 = k1 + self / 8u;
            next_b0 = uvec4(0u);
            if (col < 1000u) {
                next_b0 = b_vec8[(col + k_3 * 1000u) / 8u];
            }
        }

        // Fetch 64 columns of b1.
        if (self < 256u) {
            uint col = col0 + self % 8u * 8u;
            uint k_3 = k1 + self / 8u;
            next_b1 = uvec4(0u);
            if (col < 1000u) {
                next_b1 = gate_vec8[(col + k_3 * 1000u) / 8u];
            }
        }

        // Multiply the tiles in shared memory.
        [[unroll]] for (uint part = 0u; part < 2u; ++part) {
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> frag_a[4];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                coopMatLoad(frag_a[i], tiles, stage + (frag_row + i * 16u) * 5u + part * 2u, 5u, gl_CooperativeMatrixLayoutRowMajor);
            }
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> frag_b0;
            coopMatLoad(frag_b0, tiles, stage + 640u + part * 144u + frag_col / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> frag_b1;
            coopMatLoad(frag_b1, tiles, stage + 928u + part * 144u + frag_col / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                acc0[i] = coopMatMulAdd(frag_a[i], frag_b0, acc0[i]);
                acc1[i] = coopMatMulAdd(frag_a[i], frag_b1, acc1[i]);
            }
        }
        stage = 1216u - stage;
        tiles[stage + self / 4u * 5u + self % 4u] = next_a;
        if (self < 256u) {
            tiles[stage + 640u + self / 8u * 9u + self % 8u] = next_b0;
        }
        if (self < 256u) {
            tiles[stage + 928u + self / 8u * 9u + self % 8u] = next_b1;
        }
        barrier();
    }

    // Results pass through shared memory, 16 by 16 of each subgroup at a time.
    uint place = gl_SubgroupID * 160u;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        coopMatStore(acc0[i], tiles, place, 5u, gl_CooperativeMatrixLayoutRowMajor);
        coopMatStore(acc1[i], tiles, place + 80u, 5u, gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
        uint line = gl_SubgroupInvocationID / 4u;
        uint quad = gl_SubgroupInvocationID % 4u;
        vec4 acc04 = uintBitsToFloat(tiles[place + (line * 5u + quad)]);
        vec4 acc14 = uintBitsToFloat(tiles[place + 80u + (line * 5u + quad)]);
        uint row_2 = row0 + frag_row + i * 16u + line;
        uint col4 = col0 + frag_col + quad * 4u;
        if (row_2 < T && col4 < 1000u) {
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                result4[lane] = fmul(nan_max(acc04[lane], 0.0), acc14[lane]);
            }
            result_vec4[(row_2 * 1000u + col4) / 4u] = f16vec4(result4);
        }
        subgroupBarrier();
    }
}
