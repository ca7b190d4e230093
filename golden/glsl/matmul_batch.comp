// matmul over [2,8,64,64], folding 64
// Fuses: matmul.
// Schedule: tile wg=64 tile=64x64x16 thread=8x8.
#version 450
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { vec4 a_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_vec4_buffer { vec4 b_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };

shared vec4 tile_a[320];
shared vec4 tile_b[320];

void main() {
    uint self = gl_LocalInvocationIndex;
    uint batch = gl_WorkGroupID.z % 8u;
    uint axis0 = gl_WorkGroupID.z / 8u;
    float acc[64];
    [[unroll]] for (uint i = 0u; i < 64u; ++i) {
        acc[i] = 0.0;
    }
    uint tx = self % 8u;
    uint ty = self / 8u;

    for (uint k0 = 0u; k0 < 64u; k0 += 16u) {
        // Stage 64 rows of a.
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot = self + i * 64u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            uint row = line;
            uint k = k0 + quad * 4u;
            tile_a[line * 5u + quad] = a_vec4[(axis0 * 32768u + batch * 4096u + row * 64u + k) / 4u];
        }

        // Stage 64 columns of b.
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot = self + i * 64u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            uint col = line;
            uint k = k0 + quad * 4u;
            tile_b[line * 5u + quad] = b_vec4[(axis0 * 32768u + batch * 4096u + col * 64u + k) / 4u];
        }
        barrier();

        for (uint quad = 0u; quad < 4u; ++quad) {
            vec4 b_cols[8];
            [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                b_cols[j] = tile_b[(tx + j * 8u) * 5u + quad];
            }
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                vec4 a_row = tile_a[(ty + i * 8u) * 5u + quad];
                [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                    acc[i * 8u + j] = fma(a_row.x, b_cols[j].x, acc[i * 8u + j]);
                    acc[i * 8u + j] = fma(a_row.y, b_cols[j].y, acc[i * 8u + j]);
                    acc[i * 8u + j] = fma(a_row.z, b_cols[j].z, acc[i * 8u + j]);
                    acc[i * 8u + j] = fma(a_row.w, b_cols[j].w, acc[i * 8u + j]);
                }
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        uint row = ty + i * 8u;
        [[unroll]] for (uint j = 0u; j < 8u; ++j) {
            uint col = tx + j * 8u;
            result[axis0 * 32768u + batch * 4096u + row * 64u + col] = acc[i * 8u + j];
        }
    }
}
