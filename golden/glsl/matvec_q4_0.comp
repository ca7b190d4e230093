// matmul over [1,4096], folding 4096
// Fuses: matmul.
// Schedule: matvec wg=128 rows=1x2 vec=4 run=8 subgroup=32.
#version 450
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { vec4 a_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_buffer { uint16_t b[]; }; // q4_0
layout(set = 0, binding = 2, std430) readonly buffer Bias_buffer { float bias[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };

shared float partial[12];

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

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 2u;
    float acc[2];
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        acc[i] = 0.0;
    }

    for (uint step_2 = self; step_2 < 512u; step_2 += 128u) {
        uint block = step_2 / 4u;
        uint e = step_2 % 4u * 4u;
        uint k = block * 32u + e;
        [[unroll]] for (uint p = 0u; p < 2u; ++p) {
            vec4 a_strip;
            float a_sum;
            a_sum = 0.0;
            a_strip = a_vec4[(k + p * 16u) / 4u];
            a_sum += dot(a_strip, vec4(1.0));
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                uint col = col0 + j;
                float dots;
                dots = 0.0;
                uint at = col * 128u + block;
                vec4 levels = bytes_unsigned(quants_b(at, e, p));
                dots += dot(levels, a_strip);
                float scale = scale_b(at, e + p * 16u);
                acc[j] += scale * (dots - 8.0 * a_sum);
            }
        }
    }

    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        acc[j] += subgroupShuffleXor(acc[j], 16u);
        acc[j] += subgroupShuffleXor(acc[j], 8u);
        acc[j] += subgroupShuffleXor(acc[j], 4u);
        acc[j] += subgroupShuffleXor(acc[j], 2u);
        acc[j] += subgroupShuffleXor(acc[j], 1u);
        if (gl_SubgroupInvocationID == 0u) {
            partial[self / 32u * 3u + j] = acc[j];
        }
    }
    barrier();

    if (self < 2u) {
        uint col = col0 + self;
        float sum = partial[self];
        for (uint p = 1u; p < 4u; ++p) {
            sum += partial[p * 3u + self];
        }
        result[col] = sum + bias[col];
    }
}
