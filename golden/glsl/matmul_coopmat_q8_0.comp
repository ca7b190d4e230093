// matmul over [512,4096], folding 4096
// Fuses: matmul.
// Schedule: coopmat wg=256 tile=128x128x32 subgroups=2x4 fragment=16x16x16 subgroup=32.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec8_buffer { uvec4 a_vec8[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer B_buffer { uint16_t b[]; }; // q8_0
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { f16vec4 result_vec4[]; }; // f16

shared uvec4 tiles[2560];

uint short_b(uint block, uint at) {
    return uint(b[block * 17u + at / 2u]);
}

float half_b(uint block, uint at) {
    return unpackHalf2x16(short_b(block, at)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_b(uint block) {
    return half_b(block, 0u);
}

uint word_b(uint block, uint at) {
    uint i = block * 17u + at / 2u;
    return uint(b[i]) | uint(b[i + 1u]) << 16;
}

// Four neighbours from element e on, a byte each.
uint quants_b(uint block, uint e) {
    return word_b(block, 2u + e);
}

// Elements i to i+7 in f16, i being a multiple of 8.
uvec4 octet_b(uint i) {
    uint block = i / 32u, first = i % 32u;
    float16_t scale = float16_t(scale_b(block));
    uvec4 octet;
    [[unroll]] for (uint n = 0u; n < 2u; ++n) {
        uint e = first + 4u * n;
        uint q = quants_b(block, e) ^ 0x80808080u;
        f16vec2 even = (unpackFloat2x16(q & 0x00ff00ffu | 0x64006400u) - float16_t(1152)) * scale;
        f16vec2 odd = (unpackFloat2x16(q >> 8 & 0x00ff00ffu | 0x64006400u) - float16_t(1152)) * scale;
        octet[2u * n] = packFloat2x16(f16vec2(even.x, odd.x));
        octet[2u * n + 1u] = packFloat2x16(f16vec2(even.y, odd.y));
    }
    return octet;
}

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 128u;
    uint row0 = gl_WorkGroupID.y * 128u;
    uint frag_row = gl_SubgroupID / 4u * 64u;
    uint frag_col = gl_SubgroupID % 4u * 32u;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> acc[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    }
    uvec4 next_a[2];
    uvec4 next_b[2];

    // The first tiles go to shared memory.

    // Fetch 128 rows of a.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 256u;
        uint k = slot % 4u * 8u;
        uint row = row0 + slot / 4u;
        next_a[i] = a_vec8[(row * 4096u + k) / 8u];
    }

    // Fetch 128 columns of b.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 256u;
        uint k = slot % 4u * 8u;
        uint col = col0 + slot / 4u;
        next_b[i] = octet_b(col * 4096u + k);
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 256u;
        tiles[slot / 4u * 5u + slot % 4u] = next_a[i];
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 256u;
        tiles[640u + slot / 4u * 5u + slot % 4u] = next_b[i];
    }
    barrier();

    uint stage = 0u;
    for (uint k0 = 0u; k0 < 4096u; k0 += 32u) {
        uint k1 = min(k0 + 32u, 4064u);

        // Fetch 128 rows of a.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 256u;
            uint k = k1 + slot % 4u * 8u;
            uint row = row0 + slot / 4u;
            next_a[i] = a_vec8[(row * 4096u + k) / 8u];
        }

        // Fetch 128 columns of b.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 256u;
            uint k = k1 + slot % 4u * 8u;
            uint col = col0 + slot / 4u;
            next_b[i] = octet_b(col * 4096u + k);
        }

        // Multiply the tiles in shared memory.
        [[unroll]] for (uint part = 0u; part < 2u; ++part) {
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> frag_a[4];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                coopMatLoad(frag_a[i], tiles, stage + (frag_row + i * 16u) * 5u + part * 2u, 5u, gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> frag_b;
                coopMatLoad(frag_b, tiles, stage + 640u + (frag_col + j * 16u) * 5u + part * 2u, 5u, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    acc[i * 2u + j] = coopMatMulAdd(frag_a[i], frag_b, acc[i * 2u + j]);
                }
            }
        }
        stage = 1280u - stage;
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 256u;
            tiles[stage + slot / 4u * 5u + slot % 4u] = next_a[i];
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 256u;
            tiles[stage + 640u + slot / 4u * 5u + slot % 4u] = next_b[i];
        }
        barrier();
    }

    // Results pass through shared memory, 16 by 32 of each subgroup at a time.
    uint place = gl_SubgroupID * 144u;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        coopMatStore(acc[i * 2u], tiles, place, 9u, gl_CooperativeMatrixLayoutRowMajor);
        coopMatStore(acc[i * 2u + 1u], tiles, place + 4u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
        [[unroll]] for (uint i_2 = 0u; i_2 < 4u; ++i_2) {
            uint slot = gl_SubgroupInvocationID + i_2 * 32u;
            uint line = slot / 8u;
            uint quad = slot % 8u;
            vec4 acc4 = uintBitsToFloat(tiles[place + (line * 9u + quad)]);
            uint row = row0 + frag_row + i * 16u + line;
            uint col4 = col0 + frag_col + quad * 4u;
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                result4[lane] = acc4[lane];
            }
            result_vec4[(row * 4096u + col4) / 4u] = f16vec4(result4);
        }
        subgroupBarrier();
    }
}
