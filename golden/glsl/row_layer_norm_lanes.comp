// layer_norm_cast over [50], folding 61
// Fuses: cast, layer_norm, cast.
// Schedule: row_group wg=256 lanes=32 cache=2 vec=1 subgroup=32.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_integer_mix : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer X_buffer { uint16_t x[]; }; // bf16
layout(set = 0, binding = 1, std430) readonly buffer Weight_buffer { float weight[]; };
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_buffer { float weight_2[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { uint16_t result[]; }; // bf16

#define NAN uintBitsToFloat(0x7fc00000u)

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

float fsub(const float a, const float b) {
    precise float c = a - b;
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

float bf16_to_f32(uint bits) {
    return uintBitsToFloat(bits << 16);
}

// Rounds to nearest even; NaN stays NaN.
uint f32_to_bf16(float x) {
    uint bits = floatBitsToUint(x);
    return mix(bits + 0x7fffu + (bits >> 16 & 1u) >> 16, bits >> 16 | 0x40u, isnan(x));
}

void main() {
    uint local = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint thread = local % 32u;
    uint row_unlimited = gl_WorkGroupID.x * 8u + local / 32u;
    bool in_range = row_unlimited < 50u;
    uint row = min(row_unlimited, 49u);
    float kept_x_f32[2];

    // sum_from_first: sum over the row.
    float sum_from_first = 0.0;
    float x_f32_2 = bf16_to_f32(uint(x[row * 61u]));
    [[unroll]] for (uint n = 0u; n < 2u; ++n) {
        uint j = n * 32u + thread;
        if (j < 61u) {
            float x_f32 = bf16_to_f32(uint(x[row * 61u + j]));
            kept_x_f32[n] = x_f32;
            sum_from_first += fsub(x_f32, x_f32_2);
        }
    }
    [[unroll]] for (uint distance = 16u; distance > 0u; distance >>= 1u) {
        sum_from_first += subgroupShuffleXor(sum_from_first, distance);
    }

    // sum_dev: sum over the row.
    float sum_dev = 0.0;
    // sum_sq_dev: sum over the row.
    float sum_sq_dev = 0.0;
    float sum = fadd(x_f32_2, fmul(sum_from_first, 0.016393442));
    [[unroll]] for (uint n = 0u; n < 2u; ++n) {
        uint j = n * 32u + thread;
        if (j < 61u) {
            float difference = fsub(kept_x_f32[n], sum);
            sum_dev += difference;
            sum_sq_dev += difference * difference;
        }
    }
    [[unroll]] for (uint distance = 16u; distance > 0u; distance >>= 1u) {
        sum_dev += subgroupShuffleXor(sum_dev, distance);
    }
    [[unroll]] for (uint distance = 16u; distance > 0u; distance >>= 1u) {
        sum_sq_dev += subgroupShuffleXor(sum_sq_dev, distance);
    }

    // Store each element of the row.
    if (in_range) {
        float product = fmul(sum_dev, 0.016393442);
        float scale = inversesqrt_of_any(fadd(fsub(fmul(sum_sq_dev, 0.016393442), fmul(product, product)), 1e-05));
        [[unroll]] for (uint n = 0u; n < 2u; ++n) {
            uint j = n * 32u + thread;
            if (j < 61u) {
                result[row * 61u + j] = uint16_t(f32_to_bf16(fadd(fmul(fmul(fsub(fsub(kept_x_f32[n], sum), product), scale), weight[j]), weight_2[j])));
            }
        }
    }
}
