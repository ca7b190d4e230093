// matmul over [2,8,64,64], folding 64
// Fuses: matmul.
// Schedule: direct wg=16 tile=16x64x8 thread=16x4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 16) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { vec4 a_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_vec4_buffer { vec4 b_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };

// fma, for the same reason.
float fma_in_order(const float a, const float b, const float sum) {
    precise float c = a * b + sum;
    return c;
}

void main() {
    uint self = gl_LocalInvocationIndex;
    uint row0 = gl_WorkGroupID.y * 16u;
    uint batch = gl_WorkGroupID.z % 8u;
    uint axis0 = gl_WorkGroupID.z / 8u;
    float acc[64];
    [[unroll]] for (uint i = 0u; i < 64u; ++i) {
        acc[i] = 0.0;
    }

    [[dont_unroll]] for (uint k0 = 0u; k0 < 64u; k0 += 8u) {
        vec4 b_cols[8];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = self + j * 16u;
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                b_cols[j * 2u + q] = b_vec4[(axis0 * 32768u + batch * 4096u + col * 64u + (k0 + q * 4u)) / 4u];
            }
        }
        [[unroll]] for (uint i = 0u; i < 16u; ++i) {
            uint row = row0 + i;
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                vec4 a_row = a_vec4[(axis0 * 32768u + batch * 4096u + row * 64u + (k0 + q * 4u)) / 4u];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] = fma_in_order(a_row.x, b_cols[j * 2u + q].x, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.y, b_cols[j * 2u + q].y, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.z, b_cols[j * 2u + q].z, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.w, b_cols[j * 2u + q].w, acc[i * 4u + j]);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        uint row = row0 + i;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = self + j * 16u;
            result[axis0 * 32768u + batch * 4096u + row * 64u + col] = acc[i * 4u + j];
        }
    }
}
