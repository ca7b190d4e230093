// matmul over [32,1,128], folding T
// Fuses: matmul.
// Schedule: matvec wg=64 rows=1x64 vec=4 lanes=1.
#version 430
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer A_buffer { float a[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_buffer { float b[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 64u;
    uint batch = gl_WorkGroupID.z;
    float acc = 0.0;

    for (uint k = 0u; k < T; k += 4u) {
        vec4 a4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            uint at_k = min(k + lane, T - 1u);
            float neighbour = a[batch * T + at_k];
            a4[lane] = k + lane < T ? neighbour : 0.0;
        }
        uint col = col0 + self;
        vec4 b4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            uint at_k = min(k + lane, T - 1u);
            float neighbour = b[batch * T * 128u + col + at_k * 128u];
            b4[lane] = k + lane < T ? neighbour : 0.0;
        }
        acc += dot(a4, b4);
    }

    uint col = col0 + self;
    result[batch * 128u + col] = acc;
}
