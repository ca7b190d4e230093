// sum over [4000], folding 4000
// Fuses: cast, reshape, sum.
// Schedule: row_group wg=256 lanes=256 cache=0 vec=4 subgroup=32.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer X_vec4_buffer { f16vec4 x_vec4[]; }; // f16
layout(set = 0, binding = 1, std430) writeonly buffer Result_buffer { float result[]; };

shared float row_sum_parts[8];

void main() {
    uint local = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint row = gl_WorkGroupID.x;

    // row_sum: sum over the row.
    float row_sum = 0.0;
    for (uint j4 = local; j4 < 1000u; j4 += 256u) {
        vec4 x4 = vec4(x_vec4[row * 1000u + j4]);
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            row_sum += x4[lane];
        }
    }
    [[unroll]] for (uint distance = 16u; distance > 0u; distance >>= 1u) {
        row_sum += subgroupShuffleXor(row_sum, distance);
    }
    if (gl_SubgroupInvocationID == 0u) {
        row_sum_parts[gl_SubgroupID] = row_sum;
    }
    barrier();
    row_sum = row_sum_parts[0u];
    [[unroll]] for (uint n = 1u; n < 8u; ++n) {
        row_sum += row_sum_parts[n];
    }
    if (local == 0u) {
        result[row] = row_sum;
    }
}
