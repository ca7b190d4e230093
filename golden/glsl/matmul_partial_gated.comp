// matmul over [3,T,100], folding 37
// Fuses: matmul.
// Schedule: tile wg=128 tile=64x32x16 thread=4x4.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer A_buffer { float16_t a[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer B_buffer { float b[]; };
layout(set = 0, binding = 2, std430) readonly buffer Gate_buffer { float gate[]; };
layout(set = 0, binding = 3, std430) readonly buffer Bias_buffer { float bias[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Result_buffer { float16_t result[]; }; // f16
layout(set = 0, binding = 5, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[320];
shared vec4 tile_b0[160];
shared vec4 tile_b1[160];

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

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
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 32u;
    uint row0 = gl_WorkGroupID.y * 64u;
    uint batch = gl_WorkGroupID.z;
    float acc0[16];
    float acc1[16];
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        acc0[i] = 0.0;
        acc1[i] = 0.0;
    }
    uint tx = self % 8u;
    uint ty = self / 8u;

    for (uint k0 = 0u; k0 < 37u; k0 += 16u) {
        // Stage 64 rows of a.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            uint row = min(row0 + line, T - 1u);
            uint k = k0 + quad * 4u;
            vec4 a4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                uint at_k = min(k + lane, 36u);
                float neighbour = nan_max(fadd(float(a[batch * T * 37u + row * 37u + at_k]), 0.5), 0.0);
                a4[lane] = k + lane < 37u ? neighbour : 0.0;
            }
            tile_a[line * 5u + quad] = a4;
        }

        // Stage 32 columns of b0.
        uint line = self / 4u;
        uint quad = self % 4u;
        uint col = min(col0 + line, 99u);
        uint k = k0 + quad * 4u;
        vec4 b0_4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            uint at_k = min(k + lane, 36u);
            float neighbour = b[batch * 3700u + col * 37u + at_k];
            b0_4[lane] = k + lane < 37u ? neighbour : 0.0;
        }
        tile_b0[line * 5u + quad] = b0_4;

        // Stage 32 columns of b1.
        uint line_2 = self / 4u;
        uint quad_2 = self % 4u;
        uint col_2 = min(col0 + line_2, 99u);
        uint k_2 = k0 + quad_2 * 4u;
        vec4 b1_4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            uint at_k = min(k_2 + lane, 36u);
            float neighbour = gate[batch * 3700u + col_2 * 37u + at_k];
            b1_4[lane] = k_2 + lane < 37u ? neighbour : 0.0;
        }
        tile_b1[line_2 * 5u + quad_2] = b1_4;
        barrier();

        for (uint quad_3 = 0u; quad_3 < 4u; ++quad_3) {
            vec4 b0_cols[4];
            vec4 b1_cols[4];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                b0_cols[j] = tile_b0[(tx + j * 8u) * 5u + quad_3];
                b1_cols[j] = tile_b1[(tx + j * 8u) * 5u + quad_3];
            }
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                vec4 a_row = tile_a[(ty + i * 16u) * 5u + quad_3];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc0[i * 4u + j] = fma(a_row.x, b0_cols[j].x, acc0[i * 4u + j]);
                    acc0[i * 4u + j] = fma(a_row.y, b0_cols[j].y, acc0[i * 4u + j]);
                    acc0[i * 4u + j] = fma(a_row.z, b0_cols[j].z, acc0[i * 4u + j]);
                    acc0[i * 4u + j] = fma(a_row.w, b0_cols[j].w, acc0[i * 4u + j]);
                    acc1[i * 4u + j] = fma(a_row.x, b1_cols[j].x, acc1[i * 4u + j]);
                    acc1[i * 4u + j] = fma(a_row.y, b1_cols[j].y, acc1[i * 4u + j]);
                    acc1[i * 4u + j] = fma(a_row.z, b1_cols[j].z, acc1[i * 4u + j]);
                    acc1[i * 4u + j] = fma(a_row.w, b1_cols[j].w, acc1[i * 4u + j]);
                }
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 + ty + i * 16u;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + tx + j * 8u;
            if (row < T && col < 100u) {
                result[batch * T * 100u + row * 100u + col] = float16_t(fadd(fmul(nan_max(acc0[i * 4u + j], 0.0), acc1[i * 4u + j]), bias[col]));
            }
        }
    }
}
