// concat over [8,12]
// Fuses: transpose, concat.
// Schedule: map wg=64 vec=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer A_buffer { float a[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_vec4_buffer { vec4 b_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };

void main() {
    uint id = gl_GlobalInvocationID.x;
    if (id >= 24u) return;
    uint col4 = id % 3u;
    uint row = id / 3u;
    bool below = int(row) < 3;
    vec4 b4 = b_vec4[col4 + min(row, 2u) * 3u];
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        uint col = col4 * 4u + lane;
        result4[lane] = below ? b4[lane] : a[col * 5u + uint(clamp(int(row) - 3, 0, 4))];
    }
    result_vec4[row * 3u + col4] = result4;
}
