// matmul over [512,4096], folding 4096
// Fuses: matmul.
// Schedule: coopmat2 wg=256 tile=128x128x64.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer A_buffer { float16_t a[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer B_buffer { uint16_t b[]; }; // q8_0
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float16_t result[]; }; // f16

shared uvec4 tiles[2304];

uint short_b(uint block, uint at) {
    return uint(b[block * 17u + at / 2u]);
}

float half_b(uint block, uint at) {
    return unpackHalf2x16(short_b(block, at)).x;
}

// q8_0: 32 elements in 34 bytes. The scale of element e.
float scale_b(uint block, uint e) {
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
    float16_t scale = float16_t(scale_b(block, first));
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
    uint col0 = gl_WorkGroupID.x * 128u;
    uint row0 = gl_WorkGroupID.y * 128u;
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeUndefinedNV> layout_a = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeUndefinedNV);
    layout_a = setTensorLayoutDimensionNV(layout_a, 512u, 4096u);
    coopmat<float, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator> acc = coopmat<float, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator>(0.0);

    uvec4 next_b[4];

    // The first tiles go to shared memory.

    // Fetch 128 columns of b.
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint slot = gl_LocalInvocationIndex + i * 256u;
        uint k = slot % 8u * 8u;
        uint col = col0 + slot / 8u;
        next_b[i] = octet_b(col * 4096u + k);
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint slot = gl_LocalInvocationIndex + i * 256u;
        tiles[slot / 8u * 9u + slot % 8u] = next_b[i];
    }
    barrier();

    uint stage = 0u;
    for (uint k0 = 0u; k0 < 4096u; k0 += 64u) {
        uint k1 = k0 + 64u;
        if (k1 < 4096u) {
            // Fetch 128 columns of b.
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint slot = gl_LocalInvocationIndex + i * 256u;
                uint k = k1 + slot % 8u * 8u;
                uint col = col0 + slot / 8u;
                next_b[i] = octet_b(col * 4096u + k);
            }
        }
        coopmat<float16_t, gl_ScopeWorkgroup, 128, 64, gl_MatrixUseA> tile_a;
        coopMatLoadTensorNV(tile_a, a, 0u, sliceTensorLayoutNV(layout_a, row0, 128u, k0, 64u));
        coopmat<float16_t, gl_ScopeWorkgroup, 64, 128, gl_MatrixUseB> tile_b;
        coopMatLoad(tile_b, tiles, stage, 9u, gl_CooperativeMatrixLayoutColumnMajor);
        acc = coopMatMulAdd(tile_a, tile_b, acc);
        stage = 1152u - stage;
        if (k1 < 4096u) {
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint slot = gl_LocalInvocationIndex + i * 256u;
                tiles[stage + slot / 8u * 9u + slot % 8u] = next_b[i];
            }
        }
        barrier();
    }

    // Store a tile of out.
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeUndefinedNV> layout_out = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeUndefinedNV);
    layout_out = setTensorLayoutDimensionNV(layout_out, 512u, 4096u);
    coopMatStoreTensorNV(coopmat<float16_t, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator>(acc), result, 0u, sliceTensorLayoutNV(layout_out, row0, 128u, col0, 128u));
}
