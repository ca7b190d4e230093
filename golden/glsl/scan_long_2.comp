// cumsum over [16], along 250
// Fuses: cumsum.
// Schedule: scan_group wg=256 lanes=16 vec=2 subgroup=32.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Sum_vec2_buffer { vec2 sum_vec2[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_vec2_buffer { vec2 result_vec2[]; };

void main() {
    uint local = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint thread = local % 16u;
    uint row = gl_WorkGroupID.x * 16u + local / 16u;

    // running_sum: the sum before each element.
    float running_sum = 0.0;
    for (uint tile = 0u; tile < 125u; tile += 16u) {
        uint j2 = tile + thread;
        bool in_row = j2 < 125u;
        float own = 0.0;
        float within[2];
        if (in_row) {
            vec2 sum2 = sum_vec2[row * 125u + j2];
            [[unroll]] for (uint lane = 0u; lane < 2u; ++lane) {
                within[lane] = own;
                own += sum2[lane];
            }
        }

        // What the lanes before have.
        float up_to = own;
        [[unroll]] for (uint distance = 1u; distance < 16u; distance <<= 1u) {
            float other = subgroupShuffle(up_to, gl_SubgroupInvocationID - distance & 31u);
            if (thread >= distance) up_to += other;
        }
        float before = subgroupShuffle(up_to, gl_SubgroupInvocationID - 1u & 31u);
        if (thread == 0u) before = 0.0;
        float tile_sum = subgroupShuffle(up_to, gl_SubgroupInvocationID | 15u);
        if (in_row) {
            float base = running_sum + before;
            vec2 result2;
            [[unroll]] for (uint lane = 0u; lane < 2u; ++lane) {
                float up_to_here = base + within[lane];
                result2[lane] = up_to_here;
            }
            result_vec2[row * 125u + j2] = result2;
        }
        running_sum += tile_sum;
    }
}
