// dequantize_embedding over [T,288]
// Fuses: dequantize, embedding.
// Schedule: map wg=128 vec=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Tokens_buffer { int tokens[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_buffer { uint16_t weight[]; }; // q8_0
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

// Four signed bytes as floats. The bytes plus 128 are converted as unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}

uint short_weight(uint block, uint at) {
    return uint(weight[block * 17u + at / 2u]);
}

float half_weight(uint block, uint at) {
    return unpackHalf2x16(short_weight(block, at)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_weight(uint block) {
    return half_weight(block, 0u);
}

uint word_weight(uint block, uint at) {
    uint i = block * 17u + at / 2u;
    return uint(weight[i]) | uint(weight[i + 1u]) << 16;
}

// Four neighbours from element e on, a byte each.
uint quants_weight(uint block, uint e) {
    return word_weight(block, 2u + e);
}

vec4 levels_weight(uint block, uint e) {
    return bytes_signed(quants_weight(block, e));
}

// Elements i to i+3, i being a multiple of 4.
vec4 decode4_weight(uint i) {
    uint block = i / 32u, e = i % 32u;
    return scale_weight(block) * levels_weight(block, e);
}

void main() {
    const uint T = params[0];
    uint id = gl_GlobalInvocationID.x;
    if (id >= T * 72u) return;
    uint col4 = id % 72u;
    uint row = id / 72u;
    vec4 weight4 = decode4_weight(col4 * 4u + uint(clamp(tokens[row], 0, 31999)) * 288u);
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        result4[lane] = weight4[lane];
    }
    result_vec4[row * 72u + col4] = result4;
}
