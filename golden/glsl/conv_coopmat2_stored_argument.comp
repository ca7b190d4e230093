// conv_argument over [458,57,256]
// Fuses: copy.
// Schedule: map_tile wg=128 vec=4 tile=32x32.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer X_buffer { float16_t x[]; }; // f16
layout(set = 0, binding = 1, std430) writeonly buffer X_stored_vec4_buffer { f16vec4 x_stored_vec4[]; }; // f16

shared float x_tile[1056];

void main() {
    uint local = gl_LocalInvocationID.x;
    uint batch = gl_WorkGroupID.z;
    uint batch_quotient = batch / 57u;
    uint batch_remainder = batch % 57u;

    // Lines of x.
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        uint slot = local + i * 128u;
        uint line = slot / 32u;
        uint at = slot % 32u;
        uint row = gl_WorkGroupID.y * 32u + at;
        uint col = gl_WorkGroupID.x * 32u + line;
        if (row < 57u) {
            x_tile[line * 33u + at] = float(x[col * 3136u + uint(clamp(int(batch_remainder) - 1, 0, 55)) * 56u + min(batch_quotient, 7u) * 802816u + uint(clamp(int(row) - 1, 0, 55))]);
        }
    }
    barrier();

    // Points of the tile.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = local + i * 128u;
        uint line = slot / 8u;
        uint at = slot % 8u;
        uint col4 = gl_WorkGroupID.x * 8u + at;
        uint row = gl_WorkGroupID.y * 32u + line;
        if (row < 57u) {
            bool both = int(batch_quotient) < 8 && int(batch_remainder - 1u) >= 0 && int(row - 1u) >= 0;
            vec4 x_stored4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                x_stored4[lane] = both ? x_tile[(at * 4u + lane) * 33u + line] : 0.0;
            }
            x_stored_vec4[batch * 3648u + row * 64u + col4] = f16vec4(x_stored4);
        }
    }
}
