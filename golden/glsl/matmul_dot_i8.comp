// matmul over [T,1000], folding 4096
// Fuses: matmul.
// Schedule: tile wg=256 tile=64x64x64 thread=4x4.
#version 450
#extension GL_EXT_integer_dot_product : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer A_words_buffer { uint a_words[]; }; // i8
layout(set = 0, binding = 1, std430) readonly buffer B_words_buffer { uint b_words[]; }; // i8
layout(set = 0, binding = 2, std430) readonly buffer Bias_buffer { float bias[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared int tile_a[1088];
shared int tile_b[1088];

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

// A number that a conversion has rounded. Some drivers remove a conversion and the conversion back, but they do not
// remove halving and doubling. For the smallest numbers halving would lose a digit.
float converted(const float x) {
    precise float by_half = x * 0.5;
    precise float doubled = by_half * 2.0;
    return abs(x) < 4.7019774e-38 ? x : doubled;
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 64u;
    uint row0 = gl_WorkGroupID.y * 64u;
    int acc[16];
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        acc[i] = 0;
    }
    uint tx = self % 16u;
    uint ty = self / 16u;

    for (uint k0 = 0u; k0 < 4096u; k0 += 64u) {
        // Stage 64 rows of a.
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot = self + i * 256u;
            uint line = slot / 16u;
            uint quad = slot % 16u;
            uint row = min(row0 + line, T - 1u);
            uint k = k0 + quad * 4u;
            tile_a[line * 17u + quad] = int(a_words[(row * 4096u + k) / 4u]);
        }

        // Stage 64 columns of b.
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot = self + i * 256u;
            uint line = slot / 16u;
            uint quad = slot % 16u;
            uint col = min(col0 + line, 999u);
            uint k = k0 + quad * 4u;
            tile_b[line * 17u + quad] = int(b_words[(col * 4096u + k) / 4u]);
        }
        barrier();

        for (uint quad = 0u; quad < 16u; ++quad) {
            int b_cols[4];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                b_cols[j] = tile_b[(tx + j * 16u) * 17u + quad];
            }
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                int a_row = tile_a[(ty + i * 16u) * 17u + quad];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] += dotPacked4x8EXT(a_row, b_cols[j]);
                }
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 + ty + i * 16u;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + tx + j * 16u;
            if (row < T && col < 1000u) {
                result[row * 1000u + col] = fadd(fmul(converted(float(acc[i * 4u + j])), 1.5258789e-05), bias[col]);
            }
        }
    }
}
