// cast_add_gelu over [T,768]
// Fuses: cast, add, gelu.
// Schedule: map wg=256 vec=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer X_vec4_buffer { f16vec4 x_vec4[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

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
    uint id = gl_GlobalInvocationID.x;
    if (id >= T * 192u) return;
    uint col4 = id % 192u;
    uint row = id / 192u;
    vec4 x4 = vec4(x_vec4[row * 192u + col4]);
    vec4 weight4 = weight_vec4[col4];
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        result4[lane] = gelu_tanh(fadd(x4[lane], weight4[lane]));
    }
    result_vec4[row * 192u + col4] = result4;
}
