// matmul over [4096,4096], folding 4096
// Fuses: matmul.
// Schedule: tile wg=128 tile=128x128x8 thread=8x16 stages=2 paired steps.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { vec4 a_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_vec4_buffer { vec4 b_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };

shared vec4 tile_a[528];
shared vec4 tile_b[528];

void main() {
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
        uint row = row0 + line;
        uint k = quad * 4u;
        next_a[i] = a_vec4[(row * 4096u + k) / 4u];
    }

    // Fetch 128 columns of b.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint four = slot % 32u;
        uint depth = slot / 32u;
        uint col = col0 + four * 4u;
        next_b[i] = b_vec4[(col + depth * 4096u) / 4u];
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
        uint four = slot % 32u;
        uint depth = slot / 32u;
        tile_b[depth * 33u + four] = next_b[i];
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
            uint row = row0 + line;
            uint k = k1 + quad * 4u;
            next_a[i] = a_vec4[(row * 4096u + k) / 4u];
        }

        // Fetch 128 columns of b.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint four = slot % 32u;
            uint depth = slot / 32u;
            uint col = col0 + four * 4u;
            uint k = k1 + depth;
            next_b[i] = b_vec4[(col + k * 4096u) / 4u];
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
            uint four = slot % 32u;
            uint depth = slot / 32u;
            tile_b[stage * 264u + (depth * 33u + four)] = next_b[i];
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        uint row = row0 + ((ty + i / 4u * 16u) * 4u + i % 4u);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + (tx + j * 8u) * 4u;
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                result4[lane] = acc[i * 4u + j][lane];
            }
            result_vec4[(row * 4096u + col) / 4u] = result4;
        }
    }
}
