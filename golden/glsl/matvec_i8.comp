// matmul over [1,4096], folding 4096
// Fuses: matmul.
// Schedule: matvec wg=256 rows=1x2 vec=4 subgroup=32 lanes=256 words.
#version 450
#extension GL_EXT_integer_dot_product : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer A_quads_buffer { uvec4 a_quads[]; }; // i8
layout(set = 0, binding = 1, std430) readonly buffer B_quads_buffer { uvec4 b_quads[]; }; // i8
layout(set = 0, binding = 2, std430) readonly buffer Bias_buffer { float bias[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };

shared int partial[24];

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

float fmul(const float a, const float b) {
    precise float c = a * b;
    return c;
}

// A number that a conversion has rounded. Some drivers remove a conversion and the conversion back, but they do not
// remove halving and doubling. For the smallest numbers halving would lose a digit.
float converted(const float x) {
    precise float by_half = x * 0.5;
    precise float doubled = by_half * 2.0;
    return abs(x) < 4.7019774e-38 ? x : doubled;
}

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 2u;
    int acc[2];
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        acc[i] = 0;
    }

    for (uint k = self * 16u; k < 4096u; k += 4096u) {
        uvec4 a_rows;
        a_rows = a_quads[k / 16u];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + j;
            uvec4 b_col = b_quads[(col * 4096u + k) / 16u];
            acc[j] += dotPacked4x8EXT(int(a_rows.x), int(b_col.x));
            acc[j] += dotPacked4x8EXT(int(a_rows.y), int(b_col.y));
            acc[j] += dotPacked4x8EXT(int(a_rows.z), int(b_col.z));
            acc[j] += dotPacked4x8EXT(int(a_rows.w), int(b_col.w));
        }
    }

    bool upper16 = (gl_SubgroupInvocationID & 16u) != 0u;
    acc[0u] = (upper16 ? acc[1u] : acc[0u]) + subgroupShuffleXor(upper16 ? acc[0u] : acc[1u], 16u);
    acc[0u] += subgroupShuffleXor(acc[0u], 8u);
    acc[0u] += subgroupShuffleXor(acc[0u], 4u);
    acc[0u] += subgroupShuffleXor(acc[0u], 2u);
    acc[0u] += subgroupShuffleXor(acc[0u], 1u);
    if (gl_SubgroupInvocationID % 16u == 0u) {
        partial[self / 32u * 3u + gl_SubgroupInvocationID / 16u] = acc[0u];
    }
    barrier();

    if (self < 2u) {
        uint col = col0 + self;
        int sum = partial[self];
        for (uint p = 1u; p < 8u; ++p) {
            sum += partial[p * 3u + self];
        }
        result[col] = fadd(fmul(converted(float(sum)), 1.5258789e-05), bias[col]);
    }
}
