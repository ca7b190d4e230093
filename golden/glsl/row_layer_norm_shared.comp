// layer_norm over [50], folding 1200
// Fuses: layer_norm.
// Schedule: row_group wg=256 lanes=256 cache=8 vec=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer X_buffer { float x[]; };
layout(set = 0, binding = 0, std430) readonly buffer X_vec4_buffer { vec4 x_vec4[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };

shared float lanes[256];

#define NAN uintBitsToFloat(0x7fc00000u)

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

float fsub(const float a, const float b) {
    precise float c = a - b;
    return c;
}

float fmul(const float a, const float b) {
    precise float c = a * b;
    return c;
}

// inversesqrt of any number. If x is itself an inverse, a driver may compute one square root for both, which is -0 for
// -0 and NaN for -inf. So these two values have branches.
float inversesqrt_of_any(const float x) {
    precise float inverse = 1.0 / x;
    return x == 0.0 ? inverse : x < 0.0 ? float(NAN) : inversesqrt(x);
}

void main() {
    uint local = gl_LocalInvocationID.x;
    uint row = gl_WorkGroupID.x;
    float kept_x[8];

    // sum_from_first: sum over the row.
    float sum_from_first = 0.0;
    float x_row = x[row * 1200u];
    [[unroll]] for (uint n = 0u; n < 2u; ++n) {
        uint j4 = n * 256u + local;
        if (j4 < 300u) {
            vec4 x4 = x_vec4[row * 300u + j4];
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                kept_x[n * 4u + lane] = x4[lane];
                sum_from_first += fsub(x4[lane], x_row);
            }
        }
    }
    lanes[local] = sum_from_first;
    barrier();
    for (uint half_row = 128u; half_row > 0u; half_row >>= 1u) {
        if (local < half_row) {
            sum_from_first = sum_from_first + lanes[local + half_row];
            lanes[local] = sum_from_first;
        }
        barrier();
    }
    sum_from_first = lanes[0u];

    // sum_dev: sum over the row.
    float sum_dev = 0.0;
    // sum_sq_dev: sum over the row.
    float sum_sq_dev = 0.0;
    float sum = fadd(x_row, fmul(sum_from_first, 0.00083333335));
    [[unroll]] for (uint n = 0u; n < 2u; ++n) {
        uint j4 = n * 256u + local;
        if (j4 < 300u) {
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                float difference = fsub(kept_x[n * 4u + lane], sum);
                sum_dev += difference;
                sum_sq_dev += difference * difference;
            }
        }
    }
    barrier(); // until all have read what the last fold left
    lanes[local] = sum_dev;
    barrier();
    for (uint half_row = 128u; half_row > 0u; half_row >>= 1u) {
        if (local < half_row) {
            sum_dev = sum_dev + lanes[local + half_row];
            lanes[local] = sum_dev;
        }
        barrier();
    }
    sum_dev = lanes[0u];
    barrier(); // until all have read what the last fold left
    lanes[local] = sum_sq_dev;
    barrier();
    for (uint half_row = 128u; half_row > 0u; half_row >>= 1u) {
        if (local < half_row) {
            sum_sq_dev = sum_sq_dev + lanes[local + half_row];
            lanes[local] = sum_sq_dev;
        }
        barrier();
    }
    sum_sq_dev = lanes[0u];

    // Store each element of the row.
    float product = fmul(sum_dev, 0.00083333335);
    float sum_2 = fadd(fsub(fmul(sum_sq_dev, 0.00083333335), fmul(product, product)), 1e-05);
    float scale = inversesqrt_of_any(sum_2);
    [[unroll]] for (uint n = 0u; n < 2u; ++n) {
        uint j4 = n * 256u + local;
        if (j4 < 300u) {
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                result4[lane] = fmul(fsub(fsub(kept_x[n * 4u + lane], sum), product), scale);
            }
            result_vec4[row * 300u + j4] = result4;
        }
    }
}
