// cast_mul over [64,300]
// Fuses: transpose, reshape, cast, mul.
// Schedule: map_tile wg=256 vec=4 tile=64x64.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { f16vec4 a_vec4[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer B_vec4_buffer { vec4 b_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };

shared float a_tile[4160];

float fmul(const float a, const float b) {
    precise float c = a * b;
    return c;
}

void main() {
    uint local = gl_LocalInvocationID.x;

    // Lines of a.
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint slot = local + i * 256u;
        uint line = slot / 16u;
        uint at = slot % 16u;
        uint row4 = gl_WorkGroupID.y * 16u + at;
        uint col = gl_WorkGroupID.x * 64u + line;
        if (col < 300u) {
            vec4 a4 = vec4(a_vec4[row4 + col * 16u]);
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                a_tile[line * 65u + at * 4u + lane] = a4[lane];
            }
        }
    }
    barrier();

    // Points of the tile.
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint slot = local + i * 256u;
        uint line = slot / 16u;
        uint at = slot % 16u;
        uint col4 = gl_WorkGroupID.x * 16u + at;
        uint row = gl_WorkGroupID.y * 64u + line;
        if (col4 < 75u) {
            vec4 b4 = b_vec4[row * 75u + col4];
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                result4[lane] = fmul(a_tile[(at * 4u + lane) * 65u + line], b4[lane]);
            }
            result_vec4[row * 75u + col4] = result4;
        }
    }
}
