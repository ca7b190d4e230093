// matmul over [T,4096], folding 4096
// Fuses: matmul.
// Schedule: tile wg=128 tile=128x128x8 thread=8x16 stages=2 paired steps.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { vec4 a_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_buffer { uint16_t b[]; }; // q4_0
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[528];
shared vec4 tile_b[528];

// Four bytes as floats. A byte becomes the last bits of a half from 1024 to 1279, because conversions of integers are
// slower.
vec4 bytes_unsigned(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1024.0;
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

vec4 levels_b(uint block, uint e, uint p) {
    return bytes_unsigned(quants_b(block, e, p)) - 8.0;
}

// Elements i to i+3, i being a multiple of 4.
vec4 decode4_b(uint i) {
    uint block = i / 32u, e = i % 32u;
    return scale_b(block) * levels_b(block, e % 16u, e / 16u % 2u);
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 128u;
    uint row0 = gl_WorkGroupID.y * 128u;
    vec4 acc[32];
    [[unroll]] for (uint i = 0u; i < 32u; ++i) {
        acc[i] = vec4(0.0);
    }
    uint tx = self % 2u + self / 4u % 4u * 2u;
    uint ty = self / 2u % 2u + self / 16u * 2u;
    vec4 next_a[2];
    vec4 next_b[2];

    // The first tiles go to shared memory.

    // Fetch 128 rows of a.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line = slot / 2u;
        uint quad = slot % 2u;
        uint row = min(row0 + line, T - 1u);
        uint k = quad * 4u;
        next_a[i] = a_vec4[(row * 4096u + k) / 4u];
    }

    // Fetch 128 columns of b.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line = slot / 2u;
        uint quad = slot % 2u;
        uint col = col0 + line;
        uint k = quad * 4u;
        next_b[i] = decode4_b(col * 4096u + k);
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line = slot / 2u;
        uint quad = slot % 2u;
        vec4 a4 = next_a[i];
        [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
            tile_a[(quad * 4u + depth) * 33u + line / 4u][line % 4u] = a4[depth];
        }
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line = slot / 2u;
        uint quad = slot % 2u;
        vec4 b4 = next_b[i];
        [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
            tile_b[(quad * 4u + depth) * 33u + line / 4u][line % 4u] = b4[depth];
        }
    }
    barrier();

    uint stage = 0u;
    for (uint k0 = 0u; k0 < 4096u; k0 += 8u) {
        uint k1 = min(k0 + 8u, 4088u);

        // Fetch 128 rows of a.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 2u;
            uint quad = slot % 2u;
            uint row = min(row0 + line, T - 1u);
            uint k = k1 + quad * 4u;
            next_a[i] = a_vec4[(row * 4096u + k) / 4u];
        }

        // Fetch 128 columns of b.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 2u;
            uint quad = slot % 2u;
            uint col = col0 + line;
            uint k = k1 + quad * 4u;
            next_b[i] = decode4_b(col * 4096u + k);
        }

        [[unroll]] for (uint depth = 0u; depth < 8u; ++depth) {
            vec4 a_rows[2];
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                a_rows[i] = tile_a[stage * 264u + (depth * 33u + (ty + i * 16u))];
            }
            vec4 b_cols[4];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                b_cols[i] = tile_b[stage * 264u + (depth * 33u + (tx + i * 8u))];
            }
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] = fma(vec4(a_rows[i / 4u][i % 4u]), b_cols[j], acc[i * 4u + j]);
                }
            }
        }
        stage = 1u - stage;
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 2u;
            uint quad = slot % 2u;
            vec4 a4 = next_a[i];
            [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
                tile_a[stage * 264u + ((quad * 4u + depth) * 33u + line / 4u)][line % 4u] = a4[depth];
            }
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 2u;
            uint quad = slot % 2u;
            vec4 b4 = next_b[i];
            [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
                tile_b[stage * 264u + ((quad * 4u + depth) * 33u + line / 4u)][line % 4u] = b4[depth];
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        uint row = row0 + ((ty + i / 4u * 16u) * 4u + i % 4u);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + (tx + j * 8u) * 4u;
            if (row < T) {
                vec4 result4;
                [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                    result4[lane] = acc[i * 4u + j][lane];
                }
                result_vec4[(row * 4096u + col) / 4u] = result4;
            }
        }
    }
}
