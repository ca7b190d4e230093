// vkc.float_key over [3200000]
// Fuses: vkc.float_key.
// Schedule: map wg=256 vec=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer X_vec4_buffer { u16vec4 x_vec4[]; }; // bf16
layout(set = 0, binding = 1, std430) writeonly buffer Result_vec4_buffer { uvec4 result_vec4[]; };

float bf16_to_f32(uint bits) {
    return uintBitsToFloat(bits << 16);
}

// Maps a float to an unsigned sort key in the order of sort. -0 and 0 have the same key. NaN is last.
uint custom_vkc_float_key(float x, bool descending) {
    // >>> custom op vkc.float_key Body
    uint bits = floatBitsToUint(x), magnitude = bits & 0x7fffffffu;
    uint key = bits == magnitude || magnitude == 0u ? magnitude | 0x80000000u : ~bits;
    if (magnitude > 0x7f800000u) key = 0xffffffffu;
    return descending ? ~key : key;
    // <<< custom op vkc.float_key Body
}

void main() {
    uint i4 = gl_GlobalInvocationID.x;
    uvec4 x4 = uvec4(x_vec4[i4]);
    uvec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        result4[lane] = custom_vkc_float_key(bf16_to_f32(x4[lane]), false);
    }
    result_vec4[i4] = result4;
}
