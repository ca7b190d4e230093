// ---- shader 0: k0_matmul_gelu

// matmul_gelu over [T,16], folding 8
// Fuses: matmul, add, gelu.
// Schedule: tile wg=64 tile=16x16x16 thread=2x2.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer X_vec4_buffer { vec4 x_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_buffer { float weight_2[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[80];
shared vec4 tile_b[80];

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
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
    float acc[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        acc[i] = 0.0;
    }
    uint tx = self % 8u;
    uint ty = self / 8u;


    // Stage 16 rows of a.
    uint line = self / 4u;
    uint quad = self % 4u;
    uint row = min(row0 + line, T - 1u);
    uint k = quad * 4u;
    vec4 a4 = vec4(0.0);
    if (k < 8u) {
        a4 = x_vec4[(row * 8u + k) / 4u];
    }
    tile_a[line * 5u + quad] = a4;

    // Stage 16 columns of b.
    uint line_2 = self / 4u;
    uint quad_2 = self % 4u;
    uint col = line_2;
    uint k_2 = quad_2 * 4u;
    vec4 b4 = vec4(0.0);
    if (k_2 < 8u) {
        b4 = weight_vec4[(col * 8u + k_2) / 4u];
    }
    tile_b[line_2 * 5u + quad_2] = b4;
    barrier();

    for (uint quad_3 = 0u; quad_3 < 4u; ++quad_3) {
        vec4 b_cols[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            b_cols[j] = tile_b[(tx + j * 8u) * 5u + quad_3];
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            vec4 a_row = tile_a[(ty + i * 8u) * 5u + quad_3];
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                acc[i * 2u + j] = fma(a_row.x, b_cols[j].x, acc[i * 2u + j]);
                acc[i * 2u + j] = fma(a_row.y, b_cols[j].y, acc[i * 2u + j]);
                acc[i * 2u + j] = fma(a_row.z, b_cols[j].z, acc[i * 2u + j]);
                acc[i * 2u + j] = fma(a_row.w, b_cols[j].w, acc[i * 2u + j]);
            }
        }
    }
    barrier();

    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint row_2 = row0 + ty + i * 8u;
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col_2 = tx + j * 8u;
            if (row_2 < T) {
                result[row_2 * 16u + col_2] = gelu_tanh(fadd(acc[i * 2u + j], weight_2[col_2]));
            }
        }
    }
}

// ---- shader 1: k1_matmul

// matmul over [T,4], folding 16
// Fuses: matmul.
// Schedule: tile wg=64 tile=16x16x16 thread=2x2.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Gelu_vec4_buffer { vec4 gelu_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[80];
shared vec4 tile_b[80];

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint row0 = gl_WorkGroupID.y * 16u;
    float acc[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        acc[i] = 0.0;
    }
    uint tx = self % 8u;
    uint ty = self / 8u;


    // Stage 16 rows of a.
    uint line = self / 4u;
    uint quad = self % 4u;
    uint row = min(row0 + line, T - 1u);
    uint k = quad * 4u;
    tile_a[line * 5u + quad] = gelu_vec4[(row * 16u + k) / 4u];

    // Stage 16 columns of b.
    uint line_2 = self / 4u;
    uint quad_2 = self % 4u;
    uint col = min(line_2, 3u);
    uint k_2 = quad_2 * 4u;
    tile_b[line_2 * 5u + quad_2] = weight_vec4[(col * 16u + k_2) / 4u];
    barrier();

    for (uint quad_3 = 0u; quad_3 < 4u; ++quad_3) {
        vec4 b_cols[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            b_cols[j] = tile_b[(tx + j * 8u) * 5u + quad_3];
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            vec4 a_row = tile_a[(ty + i * 8u) * 5u + quad_3];
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                acc[i * 2u + j] = fma(a_row.x, b_cols[j].x, acc[i * 2u + j]);
                acc[i * 2u + j] = fma(a_row.y, b_cols[j].y, acc[i * 2u + j]);
                acc[i * 2u + j] = fma(a_row.z, b_cols[j].z, acc[i * 2u + j]);
                acc[i * 2u + j] = fma(a_row.w, b_cols[j].w, acc[i * 2u + j]);
            }
        }
    }
    barrier();

    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint row_2 = row0 + ty + i * 8u;
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col_2 = tx + j * 8u;
            if (row_2 < T && col_2 < 4u) {
                result[row_2 * 4u + col_2] = acc[i * 2u + j];
            }
        }
    }
}

// ---- shader 2: k2_softmax

// softmax over [T], folding 4
// Fuses: softmax.
// Schedule: row_serial wg=32 vec=4 cache=4.
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
    float kept_matmul[4];

    // row_max: maximum over the row.
    float row_max = -INF;
    vec4 matmul4 = matmul_vec4[row];
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        kept_matmul[lane] = matmul4[lane];
        row_max = nan_max(row_max, matmul4[lane]);
    }

    // row_sum: sum over the row.
    float row_sum = 0.0;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        row_sum += exp(fsub(kept_matmul[lane], row_max));
    }

    // Store each element of the row.
    float recip = fdiv(1.0, row_sum);
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        result4[lane] = fmul(exp(fsub(kept_matmul[lane], row_max)), recip);
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

