// ---- shader 0: k0_matmul_gelu

// matmul_gelu over [T,16], folding 8
// Fuses: matmul, add, gelu.
// Schedule: direct wg=8 tile=16x32x8 thread=16x4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 8) in;

layout(set = 0, binding = 0, std430) readonly buffer X_vec4_buffer { vec4 x_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_buffer { float weight_2[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

// fma, for the same reason.
float fma_in_order(const float a, const float b, const float sum) {
    precise float c = a * b + sum;
    return c;
}

// 0.5 * x * (1 + tanh(u)), computed as x times the logistic function of 2u. That keeps its digits if tanh is near -1.
float gelu_tanh(float x) {
    float u = 0.79788456 * (x + 0.044715 * x * x * x);
    return x / (1.0 + exp(-2.0 * u));
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint row0 = gl_WorkGroupID.y * 16u;
    float acc[64];
    [[unroll]] for (uint i = 0u; i < 64u; ++i) {
        acc[i] = 0.0;
    }

    vec4 b_cols[8];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint col = min(self + j * 8u, 15u);
        [[unroll]] for (uint q = 0u; q < 2u; ++q) {
            b_cols[j * 2u + q] = weight_vec4[(col * 8u + q * 4u) / 4u];
        }
    }
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        uint row = min(row0 + i, T - 1u);
        [[unroll]] for (uint q = 0u; q < 2u; ++q) {
            vec4 a_row = x_vec4[(row * 8u + q * 4u) / 4u];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                acc[i * 4u + j] = fma_in_order(a_row.x, b_cols[j * 2u + q].x, acc[i * 4u + j]);
                acc[i * 4u + j] = fma_in_order(a_row.y, b_cols[j * 2u + q].y, acc[i * 4u + j]);
                acc[i * 4u + j] = fma_in_order(a_row.z, b_cols[j * 2u + q].z, acc[i * 4u + j]);
                acc[i * 4u + j] = fma_in_order(a_row.w, b_cols[j * 2u + q].w, acc[i * 4u + j]);
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        uint row = row0 + i;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = self + j * 8u;
            if (row < T && col < 16u) {
                result[row * 16u + col] = gelu_tanh(fadd(acc[i * 4u + j], weight_2[col]));
            }
        }
    }
}

// ---- shader 1: k1_matmul

// matmul over [T,4], folding 16
// Fuses: matmul.
// Schedule: direct wg=8 tile=16x32x8 thread=16x4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 8) in;

layout(set = 0, binding = 0, std430) readonly buffer Gelu_vec4_buffer { vec4 gelu_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

// fma, for the same reason.
float fma_in_order(const float a, const float b, const float sum) {
    precise float c = a * b + sum;
    return c;
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint row0 = gl_WorkGroupID.y * 16u;
    float acc[64];
    [[unroll]] for (uint i = 0u; i < 64u; ++i) {
        acc[i] = 0.0;
    }

    [[dont_unroll]] for (uint k0 = 0u; k0 < 16u; k0 += 8u) {
        vec4 b_cols[8];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = min(self + j * 8u, 3u);
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                b_cols[j * 2u + q] = weight_vec4[(col * 16u + (k0 + q * 4u)) / 4u];
            }
        }
        [[unroll]] for (uint i = 0u; i < 16u; ++i) {
            uint row = min(row0 + i, T - 1u);
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                vec4 a_row = gelu_vec4[(row * 16u + (k0 + q * 4u)) / 4u];
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
            uint col = self + j * 8u;
            if (row < T && col < 4u) {
                result[row * 4u + col] = acc[i * 4u + j];
            }
        }
    }
}

// ---- shader 2: k2_softmax

// softmax over [T], folding 4
// Fuses: softmax.
// Schedule: row_serial wg=32 vec=4 cache=0.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 32) in;

layout(set = 0, binding = 0, std430) readonly buffer Matmul_vec4_buffer { vec4 matmul_vec4[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Params_buffer { uint params[]; };

#define INF uintBitsToFloat(0x7f800000u)

float fsub(const float a, const float b) {
    precise float c = a - b;
    return c;
}

float fmul(const float a, const float b) {
    precise float c = a * b;
    return c;
}

float fdiv(const float a, const float b) {
    precise float c = a / b;
    return c;
}

// The larger number; NaN if either is NaN.
float nan_max(float a, float b) {
    return isnan(b) || a <= b ? b : a;
}

void main() {
    const uint T = params[0];
    uint row = gl_GlobalInvocationID.x;
    if (row >= T) return;

    // row_max: maximum over the row.
    float row_max = -INF;
    vec4 matmul4 = matmul_vec4[row];
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        row_max = nan_max(row_max, matmul4[lane]);
    }

    // row_sum: sum over the row.
    float row_sum = 0.0;
    vec4 matmul4_2 = matmul_vec4[row];
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        row_sum += exp(fsub(matmul4_2[lane], row_max));
    }

    // Store each element of the row.
    float recip = fdiv(1.0, row_sum);
    vec4 matmul4_3 = matmul_vec4[row];
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        result4[lane] = fmul(exp(fsub(matmul4_3[lane], row_max)), recip);
    }
    result_vec4[row] = result4;
}

// ---- shader 3: k3_argmax

// argmax over [T], folding 4
// Fuses: argmax.
// Schedule: row_serial wg=32 vec=4 cache=0.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 32) in;

layout(set = 0, binding = 0, std430) readonly buffer Matmul_vec4_buffer { vec4 matmul_vec4[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_buffer { int result[]; };
layout(set = 0, binding = 2, std430) readonly buffer Params_buffer { uint params[]; };

#define INF uintBitsToFloat(0x7f800000u)

// Whether a at place i comes before b at place j. NaN is largest; the first of equal numbers comes first.
bool argmax_beats(float a, int i, float b, int j) {
    if (isnan(a)) return !isnan(b) || i < j;
    return a > b || a == b && i < j;
}

void main() {
    const uint T = params[0];
    uint row = gl_GlobalInvocationID.x;
    if (row >= T) return;

    // row_argmax: place of the maximum over the row.
    float row_argmax_value = -INF;
    int row_argmax = 0x7fffffff;
    vec4 matmul4 = matmul_vec4[row];
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        uint j = lane;
        float candidate = matmul4[lane];
        if (argmax_beats(candidate, int(j), row_argmax_value, row_argmax)) {
            row_argmax_value = candidate;
            row_argmax = int(j);
        }
    }
    result[row] = row_argmax;
}

