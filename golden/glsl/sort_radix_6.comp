// cumsum over [16], along 12544
// Fuses: reshape, cumsum, reshape.
// Schedule: scan_group wg=256 lanes=256 vec=4 subgroup=32.
#version 430
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Vkc_radix_count_vec4_buffer { uvec4 vkc_radix_count_vec4[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_vec4_buffer { uvec4 result_vec4[]; };

shared uint parts[8];

void main() {
    uint local = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint row = gl_WorkGroupID.x;

    // running_sum: the sum before each element.
    uint running_sum = 0u;
    for (uint tile = 0u; tile < 3136u; tile += 256u) {
        uint j4 = tile + local;
        bool in_row = j4 < 3136u;
        uint own = 0u;
        uint within[4];
        if (in_row) {
            uvec4 vkc_radix_count4 = vkc_radix_count_vec4[row * 3136u + j4];
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                within[lane] = own;
                own += vkc_radix_count4[lane];
            }
        }

        // What the lanes before have.
        uint up_to = own;
        [[unroll]] for (uint distance = 1u; distance < 32u; distance <<= 1u) {
            uint other = subgroupShuffle(up_to, gl_SubgroupInvocationID - distance & 31u);
            if (gl_SubgroupInvocationID >= distance) up_to += other;
        }
        uint before = subgroupShuffle(up_to, gl_SubgroupInvocationID - 1u & 31u);
        if (gl_SubgroupInvocationID == 0u) before = 0u;
        if (gl_SubgroupInvocationID == 31u) parts[gl_SubgroupID] = up_to;
        barrier();
        uint ahead = 0u;
        uint tile_sum = 0u;
        [[unroll]] for (uint n = 0u; n < 8u; ++n) {
            uint part = parts[n];
            if (n < gl_SubgroupID) ahead += part;
            tile_sum += part;
        }
        before = ahead + before;
        if (in_row) {
            uint base = running_sum + before;
            uvec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                uint up_to_here = base + within[lane];
                result4[lane] = up_to_here;
            }
            result_vec4[row * 3136u + j4] = result4;
        }
        running_sum += tile_sum;
        barrier(); // before shared memory is used for the next tile
    }
}
