// matmul over [4096,4096], folding 4096
// Fuses: matmul.
// Schedule: tile wg=128 tile=128x128x8 thread=8x16 stages=2.
#version 450
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { vec4 a_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_buffer { float b[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };

shared vec4 tile_a[768];
shared vec4 tile_b[768];

void main() {
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 128u;
    uint row0 = gl_WorkGroupID.y * 128u;
    float acc[128];
    [[unroll]] for (uint i = 0u; i < 128u; ++i) {
        acc[i] = 0.0;
    }
    uint tx = self % 8u;
    uint ty = self / 8u;
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
        uint line = slot % 128u;
        uint quad = slot / 128u;
        uint col = col0 + line;
        uint k = quad * 4u;
        vec4 b4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            b4[lane] = b[col + (k + lane) * 4096u];
        }
        next_b[i] = b4;
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line = slot / 2u;
        uint quad = slot % 2u;
        tile_a[line * 3u + quad] = next_a[i];
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line = slot % 128u;
        uint quad = slot / 128u;
        tile_b[line * 3u + quad] = next_b[i];
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
            uint line = slot % 128u;
            uint quad = slot / 128u;
            uint col = col0 + line;
            uint k = k1 + quad * 4u;
            vec4 b4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                b4[lane] = b[col + (k + lane) * 4096u];
            }
            next_b[i] = b4;
        }

        for (uint quad = 0u; quad < 2u; ++quad) {
            vec4 b_cols[16];
            [[unroll]] for (uint j = 0u; j < 16u; ++j) {
                b_cols[j] = tile_b[stage * 384u + ((tx + j * 8u) * 3u + quad)];
            }
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                vec4 a_row = tile_a[stage * 384u + ((ty + i * 16u) * 3u + quad)];
                [[unroll]] for (uint j = 0u; j < 16u; ++j) {
                    acc[i * 16u + j] = fma(a_row.x, b_cols[j].x, acc[i * 16u + j]);
                    acc[i * 16u + j] = fma(a_row.y, b_cols[j].y, acc[i * 16u + j]);
                    acc[i * 16u + j] = fma(a_row.z, b_cols[j].z, acc[i * 16u + j]);
                    acc[i * 16u + j] = fma(a_row.w, b_cols[j].w, acc[i * 16u + j]);
                }
            }
        }
        stage = 1u - stage;
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 2u;
            uint quad = slot % 2u;
            tile_a[stage * 384u + (line * 3u + quad)] = next_a[i];
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot % 128u;
            uint quad = slot / 128u;
            tile_b[stage * 384u + (line * 3u + quad)] = next_b[i];
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        uint row = row0 + ty + i * 16u;
        [[unroll]] for (uint j = 0u; j < 16u; ++j) {
            uint col = col0 + tx + j * 8u;
            result[row * 4096u + col] = acc[i * 16u + j];
        }
    }
}
