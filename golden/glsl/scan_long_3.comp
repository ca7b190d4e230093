// cumsum_cast over [4000], along 4000
// Fuses: cast, cumsum, reshape, broadcast, reshape, add, cast.
// Schedule: scan_group wg=256 lanes=256 vec=4 subgroup=32.
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
layout(set = 0, binding = 1, std430) readonly buffer Cumsum_buffer { float cumsum[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { f16vec4 result_vec4[]; }; // f16

shared float parts[8];

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

void main() {
    uint local = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint row = gl_WorkGroupID.x;

    // running_sum: the sum up to each element.
    float running_sum = 0.0;
    for (uint tile = 0u; tile < 1000u; tile += 256u) {
        uint j4 = tile + local;
        bool in_row = j4 < 1000u;
        float own = 0.0;
        float within[4];
        if (in_row) {
            vec4 x4 = vec4(x_vec4[row * 1000u + j4]);
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                own += x4[lane];
                within[lane] = own;
            }
        }

        // What the lanes before have.
        float up_to = own;
        [[unroll]] for (uint distance = 1u; distance < 32u; distance <<= 1u) {
            float other = subgroupShuffle(up_to, gl_SubgroupInvocationID - distance & 31u);
            if (gl_SubgroupInvocationID >= distance) up_to += other;
        }
        float before = subgroupShuffle(up_to, gl_SubgroupInvocationID - 1u & 31u);
        if (gl_SubgroupInvocationID == 0u) before = 0.0;
        if (gl_SubgroupInvocationID == 31u) parts[gl_SubgroupID] = up_to;
        barrier();
        float ahead = 0.0;
        float tile_sum = 0.0;
        [[unroll]] for (uint n = 0u; n < 8u; ++n) {
            float part = parts[n];
            if (n < gl_SubgroupID) ahead += part;
            tile_sum += part;
        }
        before = ahead + before;
        if (in_row) {
            float base = running_sum + before;
            float cumsum_row = cumsum[row];
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                float up_to_here = base + within[lane];
                result4[lane] = fadd(cumsum_row, up_to_here);
            }
            result_vec4[row * 1000u + j4] = f16vec4(result4);
        }
        running_sum += tile_sum;
        barrier(); // before shared memory is used for the next tile
    }
}
