// ---- shader 0: k0_matmul_gelu

// matmul_gelu over [T,16], folding 8
// Fuses: matmul, add, gelu.
// Schedule: tile wg=64 tile=8x8x8 thread=1x1.
#version 430
#extension GL_EXT_shader_integer_mix : require

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer X_vec4_buffer { vec4 x_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_buffer { float weight_2[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[24];
shared vec4 tile_b[24];

// The device's own may give a number for NaN.
#define exp(x) mix(exp(x), x, isnan(x))

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
    uint col0 = gl_WorkGroupID.x * 8u;
    uint row0 = gl_WorkGroupID.y * 8u;
    float acc = 0.0;
    uint tx = self % 8u;
    uint ty = self / 8u;


    // Stage 8 rows of a.
    if (self < 16u) {
        uint line = self / 2u;
        uint quad = self % 2u;
        uint row = min(row0 + line, T - 1u);
        uint k = quad * 4u;
        tile_a[line * 3u + quad] = x_vec4[(row * 8u + k) / 4u];
    }

    // Stage 8 columns of b.
    if (self < 16u) {
        uint line = self / 2u;
        uint quad = self % 2u;
        uint col = col0 + line;
        uint k = quad * 4u;
        tile_b[line * 3u + quad] = weight_vec4[(col * 8u + k) / 4u];
    }
    barrier();

    for (uint quad = 0u; quad < 2u; ++quad) {
        vec4 b_cols;
        b_cols = tile_b[tx * 3u + quad];
        vec4 a_row = tile_a[ty * 3u + quad];
        acc = fma(a_row.x, b_cols.x, acc);
        acc = fma(a_row.y, b_cols.y, acc);
        acc = fma(a_row.z, b_cols.z, acc);
        acc = fma(a_row.w, b_cols.w, acc);
    }
    barrier();

    uint row = row0 + ty;
    uint col = col0 + tx;
    if (row < T) {
        result[row * 16u + col] = gelu_tanh(fadd(acc, weight_2[col]));
    }
}

// ---- shader 1: k1_matmul

// matmul over [T,4], folding 16
// Fuses: matmul.
// Schedule: tile wg=64 tile=8x8x8 thread=1x1.
#version 430

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Gelu_vec4_buffer { vec4 gelu_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[24];
shared vec4 tile_b[24];

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint row0 = gl_WorkGroupID.y * 8u;
    float acc = 0.0;
    uint tx = self % 8u;
    uint ty = self / 8u;

    for (uint k0 = 0u; k0 < 16u; k0 += 8u) {
        // Stage 8 rows of a.
        if (self < 16u) {
            uint line = self / 2u;
            uint quad = self % 2u;
            uint row = min(row0 + line, T - 1u);
            uint k = k0 + quad * 4u;
            tile_a[line * 3u + quad] = gelu_vec4[(row * 16u + k) / 4u];
        }

        // Stage 8 columns of b.
        if (self < 16u) {
            uint line = self / 2u;
            uint quad = self % 2u;
            uint col = min(line, 3u);
            uint k = k0 + quad * 4u;
            tile_b[line * 3u + quad] = weight_vec4[(col * 16u + k) / 4u];
        }
        barrier();

        for (uint quad = 0u; quad < 2u; ++quad) {
            vec4 b_cols;
            b_cols = tile_b[tx * 3u + quad];
            vec4 a_row = tile_a[ty * 3u + quad];
            acc = fma(a_row.x, b_cols.x, acc);
            acc = fma(a_row.y, b_cols.y, acc);
            acc = fma(a_row.z, b_cols.z, acc);
            acc = fma(a_row.w, b_cols.w, acc);
        }
        barrier();
    }

    uint row = row0 + ty;
    uint col = tx;
    if (row < T && col < 4u) {
        result[row * 4u + col] = acc;
    }
}

// ---- shader 2: k2_softmax

// softmax over [T], folding 4
// Fuses: softmax.
// Schedule: row_serial wg=64 vec=4 cache=4.
#version 430
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_integer_mix : require

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Matmul_vec4_buffer { vec4 matmul_vec4[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Params_buffer { uint params[]; };

// The device's own may give a number for NaN.
#define exp(x) mix(exp(x), x, isnan(x))

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
// Schedule: row_serial wg=64 vec=4 cache=0.
#version 430
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

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

