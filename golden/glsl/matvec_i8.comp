// matmul over [1,4096], folding 4096
// Fuses: matmul.
// Schedule: matvec wg=128 rows=1x2 vec=4 subgroup=32.
#version 450
#extension GL_EXT_integer_dot_product : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer A_quads_buffer { uvec4 a_quads[]; }; // i8
layout(set = 0, binding = 1, std430) readonly buffer B_quads_buffer { uvec4 b_quads[]; }; // i8
layout(set = 0, binding = 2, std430) readonly buffer Bias_buffer { float bias[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };

shared int partial[6];

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 2u;
    int acc = 0;
    uint part = self % 64u;
    uint group = self / 64u;

    for (uint k = part * 16u; k < 4096u; k += 1024u) {
        uvec4 a_rows;
        a_rows = a_quads[k / 16u];
        uint col = col0 + group;
        uvec4 b_col = b_quads[(col * 4096u + k) / 16u];
        acc += dotPacked4x8EXT(int(a_rows.x), int(b_col.x));
        acc += dotPacked4x8EXT(int(a_rows.y), int(b_col.y));
        acc += dotPacked4x8EXT(int(a_rows.z), int(b_col.z));
        acc += dotPacked4x8EXT(int(a_rows.w), int(b_col.w));
    }

    acc += subgroupShuffleXor(acc, 16u);
    acc += subgroupShuffleXor(acc, 8u);
    acc += subgroupShuffleXor(acc, 4u);
    acc += subgroupShuffleXor(acc, 2u);
    acc += subgroupShuffleXor(acc, 1u);
    if (gl_SubgroupInvocationID == 0u) {
        partial[part / 32u * 3u + group] = acc;
    }
    barrier();

    if (self < 2u) {
        uint col = col0 + self;
        int sum = partial[self];
        for (uint p = 1u; p < 2u; ++p) {
            sum += partial[p * 3u + self];
        }
        result[col] = float(sum) * 1.5258789e-05 + bias[col];
    }
}
