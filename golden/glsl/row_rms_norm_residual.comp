// add over [768*T]
// Fuses: add.
// Schedule: map wg=256 vec=4.
#version 450
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer X_vec4_buffer { vec4 x_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Residual_vec4_buffer { vec4 residual_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

void main() {
    const uint T = params[0];
    uint i4 = gl_GlobalInvocationID.x;
    if (i4 >= T * 192u) return;
    vec4 x4 = x_vec4[i4];
    vec4 residual4 = residual_vec4[i4];
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        result4[lane] = x4[lane] + residual4[lane];
    }
    result_vec4[i4] = result4;
}
