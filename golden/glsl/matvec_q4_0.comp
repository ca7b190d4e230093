// matmul over [1,4096], folding 4096
// Fuses: matmul.
// Schedule: matvec wg=128 rows=1x4 vec=4 subgroup=32.
#version 450
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { vec4 a_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_buffer { uint16_t b[]; }; // q4_0
layout(set = 0, binding = 2, std430) readonly buffer Bias_buffer { float bias[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };

shared float partial[5];

vec4 bytes_unsigned(uint bytes) {
    return vec4(bytes & 0xffu, bytes >> 8 & 0xffu, bytes >> 16 & 0xffu, bytes >> 24);
}

uint short_b(uint block, uint at) {
    return uint(b[block * 9u + at / 2u]);
}

float half_b(uint block, uint at) {
    return unpackHalf2x16(short_b(block, at)).x;
}

// q4_0: 32 elements in 18 bytes. The scale of element e.
float scale_b(uint block, uint e) {
    return half_b(block, 0u);
}

uint word_b(uint block, uint at) {
    uint i = block * 9u + at / 2u;
    return uint(b[i]) | uint(b[i + 1u]) << 16;
}

// Four neighbours from element e on, or p times 16 further, a byte each.
uint quants_b(uint block, uint e, uint p) {
    return word_b(block, 2u + e) >> 4u * p & 0x0f0f0f0fu;
}

vec4 levels_b(uint block, uint e, uint p) {
    return bytes_unsigned(quants_b(block, e, p)) - 8.0;
}

// Elements i to i+3, i being a multiple of 4.
vec4 decode4_b(uint i) {
    uint block = i / 32u, e = i % 32u;
    return scale_b(block, e) * levels_b(block, e % 16u, e / 16u % 2u);
}

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 4u;
    float acc = 0.0;
    uint part = self % 32u;
    uint group = self / 32u;

    for (uint k = part * 4u; k < 4096u; k += 128u) {
        vec4 a4 = a_vec4[k / 4u];
        uint col = col0 + group;
        vec4 b4 = decode4_b(col * 4096u + k);
        acc += dot(a4, b4);
    }

    acc += subgroupShuffleXor(acc, 16u);
    acc += subgroupShuffleXor(acc, 8u);
    acc += subgroupShuffleXor(acc, 4u);
    acc += subgroupShuffleXor(acc, 2u);
    acc += subgroupShuffleXor(acc, 1u);
    if (gl_SubgroupInvocationID == 0u) {
        partial[group] = acc;
    }
    barrier();

    if (self < 4u) {
        uint col = col0 + self;
        float sum = partial[self];
        result[col] = sum + bias[col];
    }
}
