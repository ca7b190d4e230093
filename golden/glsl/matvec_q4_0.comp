// matmul over [1,4096], folding 4096
// Fuses: matmul.
// Schedule: matvec wg=256 rows=1x16 vec=4 run=16 subnormals subgroup=32 lanes=128 strips.
#version 450
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { vec4 a_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_buffer { uint16_t b[]; }; // q4_0
layout(set = 0, binding = 2, std430) readonly buffer Bias_buffer { float bias[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };

shared float partial[68];

// Four bytes as floats of 2^-24 each: the halves that are a byte in the last
// bits and zeros before it.
vec4 bytes_subnormal(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu);
    return vec4(even.x, odd.x, even.y, odd.y);
}

uint short_b(uint block, uint at) {
    return uint(b[block * 9u + at / 2u]);
}

float half_b(uint block, uint at) {
    return unpackHalf2x16(short_b(block, at)).x;
}

// q4_0: 32 elements in 18 bytes. The scale.
float scale_b(uint block) {
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

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 16u;
    float acc[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 128u;
    uint group = self / 128u;

    for (uint step_2 = part; step_2 < 256u; step_2 += 128u) {
        uint block = step_2 / 2u;
        uint e = step_2 % 2u * 8u;
        uint k = block * 32u + e;
        [[unroll]] for (uint p = 0u; p < 2u; ++p) {
            vec4 a_strip[2];
            float a_sum;
            a_sum = 0.0;
            [[unroll]] for (uint t = 0u; t < 2u; ++t) {
                a_strip[t] = a_vec4[(k + p * 16u + t * 4u) / 4u];
                a_sum += dot(a_strip[t], vec4(1.0));
            }
            [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                uint col = col0 + (group * 8u + j);
                float dots;
                dots = 0.0;
                uint at = col * 128u + block;
                [[unroll]] for (uint t = 0u; t < 2u; ++t) {
                    vec4 levels = bytes_subnormal(quants_b(at, e | t * 4u, p));
                    dots = dots + dot(levels, a_strip[t]);
                }
                float scale = scale_b(at);
                acc[j] += scale * (16777216.0 * dots - 8.0 * a_sum);
            }
        }
    }

    bool upper16 = (gl_SubgroupInvocationID & 16u) != 0u;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        acc[j] = (upper16 ? acc[j + 4u] : acc[j]) + subgroupShuffleXor(upper16 ? acc[j] : acc[j + 4u], 16u);
    }
    bool upper8 = (gl_SubgroupInvocationID & 8u) != 0u;
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        acc[j] = (upper8 ? acc[j + 2u] : acc[j]) + subgroupShuffleXor(upper8 ? acc[j] : acc[j + 2u], 8u);
    }
    bool upper4 = (gl_SubgroupInvocationID & 4u) != 0u;
    acc[0u] = (upper4 ? acc[1u] : acc[0u]) + subgroupShuffleXor(upper4 ? acc[0u] : acc[1u], 4u);
    acc[0u] += subgroupShuffleXor(acc[0u], 2u);
    acc[0u] += subgroupShuffleXor(acc[0u], 1u);
    if (gl_SubgroupInvocationID % 4u == 0u) {
        partial[part / 32u * 17u + (group * 8u + gl_SubgroupInvocationID / 4u)] = acc[0u];
    }
    barrier();

    if (self < 16u) {
        uint col = col0 + self;
        float sum = partial[self];
        for (uint p = 1u; p < 4u; ++p) {
            sum += partial[p * 17u + self];
        }
        result[col] = sum + bias[col];
    }
}
