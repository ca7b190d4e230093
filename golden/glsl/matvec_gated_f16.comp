// matmul over [2,14336], folding 4096
// Fuses: matmul.
// Schedule: matvec wg=128 rows=2x2 vec=4 subgroup=64 lanes=64.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer A_vec4_buffer { vec4 a_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer B_vec4_buffer { f16vec4 b_vec4[]; }; // f16
layout(set = 0, binding = 2, std430) readonly buffer Gate_vec4_buffer { f16vec4 gate_vec4[]; }; // f16
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };

shared float partial0[5];
shared float partial1[5];

float fmul(const float a, const float b) {
    precise float c = a * b;
    return c;
}

// The larger number; NaN if either is NaN.
float nan_max(float a, float b) {
    return isnan(b) || a <= b ? b : a;
}

void main() {
    uint self = gl_SubgroupID * 64u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 2u;
    float acc0[2];
    float acc1[2];
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        acc0[i] = 0.0;
        acc1[i] = 0.0;
    }
    uint part = self % 64u;
    uint group = self / 64u;

    for (uint k = part * 4u; k < 4096u; k += 256u) {
        vec4 a_rows[2];
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            a_rows[i] = a_vec4[(i * 4096u + k) / 4u];
        }
        uint col = col0 + group;
        vec4 b0_4 = vec4(b_vec4[(col * 4096u + k) / 4u]);
        vec4 b1_4 = vec4(gate_vec4[(col * 4096u + k) / 4u]);
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            acc0[i] += dot(a_rows[i], b0_4);
            acc1[i] += dot(a_rows[i], b1_4);
        }
    }

    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        acc0[i] += subgroupShuffleXor(acc0[i], 32u);
        acc0[i] += subgroupShuffleXor(acc0[i], 16u);
        acc0[i] += subgroupShuffleXor(acc0[i], 8u);
        acc0[i] += subgroupShuffleXor(acc0[i], 4u);
        acc0[i] += subgroupShuffleXor(acc0[i], 2u);
        acc0[i] += subgroupShuffleXor(acc0[i], 1u);
        acc1[i] += subgroupShuffleXor(acc1[i], 32u);
        acc1[i] += subgroupShuffleXor(acc1[i], 16u);
        acc1[i] += subgroupShuffleXor(acc1[i], 8u);
        acc1[i] += subgroupShuffleXor(acc1[i], 4u);
        acc1[i] += subgroupShuffleXor(acc1[i], 2u);
        acc1[i] += subgroupShuffleXor(acc1[i], 1u);
        if (gl_SubgroupInvocationID == 0u) {
            partial0[i * 2u + group] = acc0[i];
            partial1[i * 2u + group] = acc1[i];
        }
    }
    barrier();

    if (self < 4u) {
        uint row = self / 2u;
        uint col = col0 + self % 2u;
        float sum0 = partial0[self];
        float sum1 = partial1[self];
        result[row * 14336u + col] = fmul(nan_max(sum0, 0.0), sum1);
    }
}
