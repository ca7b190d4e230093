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
layout(set = 0, binding = 1, std430) readonly buffer Norm_weight_vec4_buffer { vec4 norm_weight_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer B_shorts_buffer { uint16_t b_shorts[]; }; // q4_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer B_words_buffer { uint b_words[]; }; // q4_0 in planes
layout(set = 0, binding = 3, std430) readonly buffer Gate_shorts_buffer { uint16_t gate_shorts[]; }; // q4_0 in planes
layout(set = 0, binding = 3, std430) readonly buffer Gate_words_buffer { uint gate_words[]; }; // q4_0 in planes
layout(set = 0, binding = 4, std430) writeonly buffer Result_buffer { float result[]; };

shared float partial0[68];
shared float partial1[68];
shared float sum_sq_parts[8];

// The larger one; NaN if either is.
float nan_max(float a, float b) {
    return isnan(b) || a <= b ? b : a;
}

// Four bytes as floats of 2^-24 each: the halves that are a byte in the last
// bits and zeros before it.
vec4 bytes_subnormal(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu);
    return vec4(even.x, odd.x, even.y, odd.y);
}

uint short_b_scale(uint block) {
    return uint(b_shorts[block]);
}

float half_b_scale(uint block) {
    return unpackHalf2x16(short_b_scale(block)).x;
}

// q4_0: 32 elements in 18 bytes. The scale.
float scale_b(uint block) {
    return half_b_scale(block);
}

uint word_b_quants(uint block, uint at) {
    return b_words[262144u + block * 4u + (at - 2u) / 4u];
}

// Four neighbours from element e on, or p times 16 further, a byte each.
uint quants_b(uint block, uint e, uint p) {
    return word_b_quants(block, 2u + e) >> 4u * p & 0x0f0f0f0fu;
}

uint short_gate_scale(uint block) {
    return uint(gate_shorts[block]);
}

float half_gate_scale(uint block) {
    return unpackHalf2x16(short_gate_scale(block)).x;
}

// q4_0: 32 elements in 18 bytes. The scale.
float scale_gate(uint block) {
    return half_gate_scale(block);
}

uint word_gate_quants(uint block, uint at) {
    return gate_words[262144u + block * 4u + (at - 2u) / 4u];
}

// Four neighbours from element e on, or p times 16 further, a byte each.
uint quants_gate(uint block, uint e, uint p) {
    return word_gate_quants(block, 2u + e) >> 4u * p & 0x0f0f0f0fu;
}

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 16u;
    float acc0[8];
    float acc1[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc0[i] = 0.0;
        acc1[i] = 0.0;
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
                vec4 a4;
                vec4 a4_2 = a_vec4[(k + p * 16u + t * 4u) / 4u];
                vec4 norm_weight4 = norm_weight_vec4[(k + p * 16u + t * 4u) / 4u];
                [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                    a4[lane] = a4_2[lane] * norm_weight4[lane];
                }
                a_strip[t] = a4;
                a_sum += dot(a_strip[t], vec4(1.0));
            }
            [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                uint col = col0 + (group * 8u + j);
                float dots0;
                dots0 = 0.0;
                uint at0 = col * 128u + block;
                [[unroll]] for (uint t = 0u; t < 2u; ++t) {
                    vec4 levels = bytes_subnormal(quants_b(at0, e | t * 4u, p));
                    dots0 = dots0 + dot(levels, a_strip[t]);
                }
                float scale = scale_b(at0);
                acc0[j] += scale * (16777216.0 * dots0 - 8.0 * a_sum);
                float dots1;
                dots1 = 0.0;
                uint at1 = col * 128u + block;
                [[unroll]] for (uint t = 0u; t < 2u; ++t) {
                    vec4 levels = bytes_subnormal(quants_gate(at1, e | t * 4u, p));
                    dots1 = dots1 + dot(levels, a_strip[t]);
                }
                float scale_2 = scale_gate(at1);
                acc1[j] += scale_2 * (16777216.0 * dots1 - 8.0 * a_sum);
            }
        }
    }

    bool upper16 = (gl_SubgroupInvocationID & 16u) != 0u;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        acc0[j] = (upper16 ? acc0[j + 4u] : acc0[j]) + subgroupShuffleXor(upper16 ? acc0[j] : acc0[j + 4u], 16u);
        acc1[j] = (upper16 ? acc1[j + 4u] : acc1[j]) + subgroupShuffleXor(upper16 ? acc1[j] : acc1[j + 4u], 16u);
    }
    bool upper8 = (gl_SubgroupInvocationID & 8u) != 0u;
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        acc0[j] = (upper8 ? acc0[j + 2u] : acc0[j]) + subgroupShuffleXor(upper8 ? acc0[j] : acc0[j + 2u], 8u);
        acc1[j] = (upper8 ? acc1[j + 2u] : acc1[j]) + subgroupShuffleXor(upper8 ? acc1[j] : acc1[j + 2u], 8u);
    }
    bool upper4 = (gl_SubgroupInvocationID & 4u) != 0u;
    acc0[0u] = (upper4 ? acc0[1u] : acc0[0u]) + subgroupShuffleXor(upper4 ? acc0[0u] : acc0[1u], 4u);
    acc1[0u] = (upper4 ? acc1[1u] : acc1[0u]) + subgroupShuffleXor(upper4 ? acc1[0u] : acc1[1u], 4u);
    acc0[0u] += subgroupShuffleXor(acc0[0u], 2u);
    acc0[0u] += subgroupShuffleXor(acc0[0u], 1u);
    acc1[0u] += subgroupShuffleXor(acc1[0u], 2u);
    acc1[0u] += subgroupShuffleXor(acc1[0u], 1u);
    if (gl_SubgroupInvocationID % 4u == 0u) {
        partial0[part / 32u * 17u + (group * 8u + gl_SubgroupInvocationID / 4u)] = acc0[0u];
        partial1[part / 32u * 17u + (group * 8u + gl_SubgroupInvocationID / 4u)] = acc1[0u];
    }

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    [[unroll]] for (uint q = 0u; q < 4u; ++q) {
        uint n = self + q * 256u;
        vec4 a4 = a_vec4[n * 4u / 4u];
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            sum_sq += a4[lane] * a4[lane];
        }
    }
    sum_sq += subgroupShuffleXor(sum_sq, 16u);
    sum_sq += subgroupShuffleXor(sum_sq, 8u);
    sum_sq += subgroupShuffleXor(sum_sq, 4u);
    sum_sq += subgroupShuffleXor(sum_sq, 2u);
    sum_sq += subgroupShuffleXor(sum_sq, 1u);
    if (gl_SubgroupInvocationID == 0u) {
        sum_sq_parts[gl_SubgroupID] = sum_sq;
    }
    barrier();

    if (self < 16u) {
        uint col = col0 + self;
        float sum0 = partial0[self];
        float sum1 = partial1[self];
        for (uint p = 1u; p < 4u; ++p) {
            sum0 += partial0[p * 17u + self];
            sum1 += partial1[p * 17u + self];
        }
        float sum_sq_2 = sum_sq_parts[0u];
        for (uint p = 1u; p < 8u; ++p) {
            sum_sq_2 += sum_sq_parts[p];
        }
        float rsqrt = inversesqrt(sum_sq_2 * 0.00024414063 + 0.01);
        result[col] = nan_max(sum0 * rsqrt, 0.0) * (sum1 * rsqrt);
    }
}
