// rms_norm over [T], folding 768
// Fuses: add, rms_norm.
// Schedule: row_group wg=256 lanes=64 cache=12 vec=4 subgroup=32.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer X_vec4_buffer { vec4 x_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Residual_vec4_buffer { vec4 residual_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Out_add_vec4_buffer { vec4 out_add_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Out_rms_norm_vec4_buffer { vec4 out_rms_norm_vec4[]; };
layout(set = 0, binding = 5, std430) readonly buffer Params_buffer { uint params[]; };

shared float sum_sq_parts[8];

#define NAN uintBitsToFloat(0x7fc00000u)

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

// inversesqrt of any number. If x is itself an inverse, a driver may compute one square root for both, which is -0 for
// -0 and NaN for -inf. So these two values have branches.
float inversesqrt_of_any(const float x) {
    precise float inverse = 1.0 / x;
    return x == 0.0 ? inverse : x < 0.0 ? float(NAN) : inversesqrt(x);
}

void main() {
    const uint T = params[0];
    uint local = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint thread = local % 64u;
    uint row_unlimited = gl_WorkGroupID.x * 4u + local / 64u;
    bool in_range = row_unlimited < T;
    uint row = min(row_unlimited, T - 1u);
    float kept_sum[12];

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    [[unroll]] for (uint n = 0u; n < 3u; ++n) {
        uint j4 = n * 64u + thread;
        vec4 x4 = x_vec4[row * 192u + j4];
        vec4 residual4 = residual_vec4[row * 192u + j4];
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            float sum = fadd(x4[lane], residual4[lane]);
            kept_sum[n * 4u + lane] = sum;
            sum_sq += sum * sum;
        }
    }
    [[unroll]] for (uint distance = 16u; distance > 0u; distance >>= 1u) {
        sum_sq += subgroupShuffleXor(sum_sq, distance);
    }
    if (gl_SubgroupInvocationID == 0u) {
        sum_sq_parts[gl_SubgroupID] = sum_sq;
    }
    barrier();
    uint part = local / 64u * 2u;
    sum_sq = sum_sq_parts[part];
    sum_sq += sum_sq_parts[part + 1u];

    // Store each element of the row.
    if (in_range) {
        float scale = inversesqrt_of_any(fadd(fmul(sum_sq, 0.0013020834), 1e-05));
        [[unroll]] for (uint n = 0u; n < 3u; ++n) {
            uint j4 = n * 64u + thread;
            vec4 weight4 = weight_vec4[j4];
            vec4 out_add4;
            vec4 out_rms_norm4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                out_add4[lane] = kept_sum[n * 4u + lane];
                out_rms_norm4[lane] = fmul(fmul(kept_sum[n * 4u + lane], scale), weight4[lane]);
            }
            out_add_vec4[row * 192u + j4] = out_add4;
            out_rms_norm_vec4[row * 192u + j4] = out_rms_norm4;
        }
    }
}
