// mul_relu over [2400]
// Fuses: mul, relu.
// Schedule: map wg=64 vec=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { vec4 a_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_vec4_buffer { vec4 b_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Out_mul_vec4_buffer { vec4 out_mul_vec4[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Out_relu_vec4_buffer { vec4 out_relu_vec4[]; };

float fmul(const float a, const float b) {
    precise float c = a * b;
    return c;
}

// The larger number; NaN if either is NaN.
float nan_max(float a, float b) {
    return isnan(b) || a <= b ? b : a;
}

void main() {
    uint i4 = gl_GlobalInvocationID.x;
    if (i4 >= 600u) return;
    vec4 a4 = a_vec4[i4];
    vec4 b4 = b_vec4[i4];
    vec4 out_mul4;
    vec4 out_relu4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        float product = fmul(a4[lane], b4[lane]);
        out_mul4[lane] = product;
        out_relu4[lane] = nan_max(product, 0.0);
    }
    out_mul_vec4[i4] = out_mul4;
    out_relu_vec4[i4] = out_relu4;
}
