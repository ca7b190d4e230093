// dequantize_embedding over [T,288]
// Fuses: dequantize, embedding.
// Schedule: map wg=128 vec=4.
#version 450
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Tokens_buffer { int tokens[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_buffer { uint16_t weight[]; }; // q8_0
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

// q8_0: 32 elements in 34 bytes.
vec4 decode4_weight(uint i) {
    uint block = i / 32u * 17u;
    float scale = unpackHalf2x16(uint(weight[block])).x;
    uint q = block + 1u + i % 32u / 2u;
    int low = int(uint(weight[q])), high = int(uint(weight[q + 1u]));
    return scale * vec4(bitfieldExtract(low, 0, 8), bitfieldExtract(low, 8, 8),
                        bitfieldExtract(high, 0, 8), bitfieldExtract(high, 8, 8));
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
