// cumsum_log over [T], along 4096
// Fuses: exp, cumsum, log.
// Schedule: scan_group wg=256 lanes=256 vec=4 subgroup=32.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer X_vec4_buffer { vec4 x_vec4[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };

shared float parts[8];

#define INF uintBitsToFloat(0x7f800000u)

#define NAN uintBitsToFloat(0x7fc00000u)

// log(1 + x), near 0 as 2 atanh(x / (2 + x)). Vulkan leaves log undefined for x <= -1.
float log1p(float x) {
    if (x <= -1.0) return x < -1.0 ? NAN : -INF;
    if (!(x > -0.3 && x < 0.42)) return log(1.0 + x);
    float s = x / (2.0 + x), z = s * s;
    return 2.0 * s * ((((z * 0.11111111 + 0.14285715) * z + 0.2) * z + 0.33333334) * z + 1.0);
}

// log. Vulkan allows an error of 2^-21 near 1 and leaves it undefined for x <= 0; some drivers return wrong results for
// denormals.
float log_accurate(float x) {
    if (x > 0.7 && x < 1.42) return log1p(x - 1.0);
    if (x < 1.1754944e-38) return x < 0.0 ? NAN : x == 0.0 ? -INF : log(x * 16777216.0) - 16.635532;
    return log(x);
}

void main() {
    uint local = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint row = gl_WorkGroupID.x;

    // running_sum: the sum up to each element.
    float running_sum = 0.0;
    for (uint tile = 0u; tile < 1024u; tile += 256u) {
        uint j4 = tile + local;
        float own = 0.0;
        float within[4];
        vec4 x4 = x_vec4[row * 1024u + j4];
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            own += exp(x4[lane]);
            within[lane] = own;
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
        float base = running_sum + before;
        vec4 result4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            float up_to_here = base + within[lane];
            result4[lane] = log_accurate(up_to_here);
        }
        result_vec4[row * 1024u + j4] = result4;
        running_sum += tile_sum;
        barrier(); // before shared memory is used for the next tile
    }
}
