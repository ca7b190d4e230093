// softmax over [T], folding 1024
// Fuses: softmax.
// Schedule: row_group wg=256 lanes=64 cache=16 vec=4 subgroup=32.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Scores_vec4_buffer { vec4 scores_vec4[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Params_buffer { uint params[]; };

shared float row_max_parts[8];
shared float row_sum_parts[8];

#define INF uintBitsToFloat(0x7f800000u)

float fsub(const float a, const float b) {
    precise float c = a - b;
    return c;
}

float fmul(const float a, const float b) {
    precise float c = a * b;
    return c;
}

float fdiv(const float a, const float b) {
    precise float c = a / b;
    return c;
}

// The larger number; NaN if either is NaN.
float nan_max(float a, float b) {
    return isnan(b) || a <= b ? b : a;
}

void main() {
    const uint T = params[0];
    uint local = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint thread = local % 64u;
    uint row_unlimited = gl_WorkGroupID.x * 4u + local / 64u;
    bool in_range = row_unlimited < T;
    uint row = min(row_unlimited, T - 1u);
    float kept_scores[16];

    // row_max: maximum over the row.
    float row_max = -INF;
    [[unroll]] for (uint n = 0u; n < 4u; ++n) {
        uint j4 = n * 64u + thread;
        vec4 scores4 = scores_vec4[row * 256u + j4];
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            kept_scores[n * 4u + lane] = scores4[lane];
            row_max = nan_max(row_max, scores4[lane]);
        }
    }
    [[unroll]] for (uint distance = 16u; distance > 0u; distance >>= 1u) {
        row_max = nan_max(row_max, subgroupShuffleXor(row_max, distance));
    }
    if (gl_SubgroupInvocationID == 0u) {
        row_max_parts[gl_SubgroupID] = row_max;
    }
    barrier();
    uint part = local / 64u * 2u;
    row_max = row_max_parts[part];
    row_max = nan_max(row_max, row_max_parts[part + 1u]);

    // row_sum: sum over the row.
    float row_sum = 0.0;
    [[unroll]] for (uint n = 0u; n < 4u; ++n) {
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            row_sum += exp(fsub(kept_scores[n * 4u + lane], row_max));
        }
    }
    [[unroll]] for (uint distance = 16u; distance > 0u; distance >>= 1u) {
        row_sum += subgroupShuffleXor(row_sum, distance);
    }
    if (gl_SubgroupInvocationID == 0u) {
        row_sum_parts[gl_SubgroupID] = row_sum;
    }
    barrier();
    row_sum = row_sum_parts[part];
    row_sum += row_sum_parts[part + 1u];

    // Store each element of the row.
    if (in_range) {
        float recip = fdiv(1.0, row_sum);
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            uint j4 = n * 64u + thread;
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                result4[lane] = fmul(exp(fsub(kept_scores[n * 4u + lane], row_max)), recip);
            }
            result_vec4[row * 256u + j4] = result4;
        }
    }
}
