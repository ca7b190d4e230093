// rms_norm_matmul_rope over [1,768], folding 256
// Fuses: rms_norm, matmul, reshape, slice, reshape, rope, reshape, slice, reshape, rope, cast,
//        dynamic_update_slice, slice, reshape, cast, dynamic_update_slice.
// Schedule: matvec wg=256 rows=1x4 vec=4 run=8 prefetch=runs:2 subgroup=32 lanes=64 strips.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer X_vec4_buffer { vec4 x_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_buffer { uint16_t weight[]; }; // q8_0
layout(set = 0, binding = 2, std430) readonly buffer At_buffer { int at[]; };
layout(set = 0, binding = 3, std430) readonly buffer Const_data_buffer { uint const_data[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 5, std430) writeonly buffer State_buffer { float16_t state[]; }; // f16
layout(set = 0, binding = 6, std430) writeonly buffer State_2_buffer { float16_t state_2[]; }; // f16

shared float partial[10];
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

// The sine on [-pi/4, pi/4] (Moshier, Cephes sinf.c).
float sin_reduced(float x) {
    float z = x * x;
    return ((-1.9515296e-4 * z + 8.332161e-3) * z - 0.16666655) * z * x + x;
}

// The cosine on [-pi/4, pi/4] (Moshier, Cephes sinf.c).
float cos_reduced(float x) {
    float z = x * x;
    return ((2.4433157e-5 * z - 1.3887316e-3) * z + 4.1666646e-2) * z * z - 0.5 * z + 1.0;
}

// A number that a conversion has rounded. Some drivers remove a conversion and the conversion back, but they do not
// remove halving and doubling. For the smallest numbers halving would lose a digit.
float converted(const float x) {
    precise float by_half = x * 0.5;
    precise float doubled = by_half * 2.0;
    return abs(x) < 4.7019774e-38 ? x : doubled;
}

// Truncates and saturates; NaN gives 0. It has no branches, so that a compiler recognizes two equal calls.
int float_to_i32(float x) {
    int whole = int(abs(x) < 2147483648.0 ? x : 0.0);
    int limited = x >= 2147483648.0 ? 0x7fffffff : whole;
    return x <= -2147483648.0 ? -0x7fffffff - 1 : limited;
}

// Four signed bytes as floats. The bytes plus 128 are converted as unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}

uint short_weight(uint block, uint at) {
    return uint(weight[block * 17u + at / 2u]);
}

float half_weight(uint block, uint at) {
    return unpackHalf2x16(short_weight(block, at)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_weight(uint block) {
    return half_weight(block, 0u);
}

uint word_weight(uint block, uint at) {
    uint i = block * 17u + at / 2u;
    return uint(weight[i]) | uint(weight[i + 1u]) << 16;
}

// Four neighbours from element e on, a byte each.
uint quants_weight(uint block, uint e) {
    return word_weight(block, 2u + e);
}

void main() {
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 4u;
    float acc = 0.0;
    uint part = self % 64u;
    uint group = self / 64u;

    uint first = part;
    for (; first + 64u < 32u; first += 128u) {
        [[unroll]] for (uint n = 0u; n < 2u; ++n) {
            uint step_2 = first + n * 64u;
            uint block = step_2 / 4u;
            uint e = step_2 % 4u * 8u;
            uint k = block * 32u + e;
            vec4 a_strip[2];
            [[unroll]] for (uint t = 0u; t < 2u; ++t) {
                a_strip[t] = x_vec4[(k + t * 4u) / 4u];
            }
            uint col = col0 + group;
            float dots;
            dots = 0.0;
            uint at_2 = col * 8u + block;
            [[unroll]] for (uint t = 0u; t < 2u; ++t) {
                vec4 levels = bytes_signed(quants_weight(at_2, e | t * 4u));
                dots = dots + dot(levels, a_strip[t]);
            }
            float scale = scale_weight(at_2);
            acc += scale * dots;
        }
    }
    for (; first < 32u; first += 64u) {
        uint block = first / 4u;
        uint e = first % 4u * 8u;
        uint k = block * 32u + e;
        vec4 a_strip[2];
        [[unroll]] for (uint t = 0u; t < 2u; ++t) {
            a_strip[t] = x_vec4[(k + t * 4u) / 4u];
        }
        uint col = col0 + group;
        float dots;
        dots = 0.0;
        uint at_2 = col * 8u + block;
        [[unroll]] for (uint t = 0u; t < 2u; ++t) {
            vec4 levels = bytes_signed(quants_weight(at_2, e | t * 4u));
            dots = dots + dot(levels, a_strip[t]);
        }
        float scale = scale_weight(at_2);
        acc += scale * dots;
    }

    acc += subgroupShuffleXor(acc, 16u);
    acc += subgroupShuffleXor(acc, 8u);
    acc += subgroupShuffleXor(acc, 4u);
    acc += subgroupShuffleXor(acc, 2u);
    acc += subgroupShuffleXor(acc, 1u);
    if (gl_SubgroupInvocationID == 0u) {
        partial[part / 32u * 5u + group] = acc;
    }

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    uint n = self;
    if (n < 64u) {
        vec4 x4 = x_vec4[n * 4u / 4u];
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            sum_sq += x4[lane] * x4[lane];
        }
    }
    sum_sq += subgroupShuffleXor(sum_sq, 16u);
    sum_sq += subgroupShuffleXor(sum_sq, 8u);
    sum_sq += subgroupShuffleXor(sum_sq, 4u);
    sum_sq += subgroupShuffleXor(sum_sq, 2u);
    sum_sq += subgroupShuffleXor(sum_sq, 1u);
    if (gl_SubgroupInvocationID == 0u) {
        sum_sq_parts[gl_SubgroupID] = sum_sq;
    }
    barrier();

    if (self < 4u) {
        uint col = col0 + self;
        float sum = partial[self];
        sum += partial[5u + self];
        float sum_sq_2 = sum_sq_parts[0u];
        for (uint p = 1u; p < 8u; ++p) {
            sum_sq_2 += sum_sq_parts[p];
        }
        if (col < 256u) {
            uint other_col = col / 2u * 2u + 1u - col % 2u;
            uint other_id = other_col - col0;
            float other_sum = partial[other_id];
            other_sum += partial[5u + other_id];
            float scale = inversesqrt_of_any(fadd(fmul(sum_sq_2, 0.00390625), 1e-05));
            int at_value = at[0u];
            uint col_remainder = col % 64u;
            uint quotient = col_remainder / 2u;
            float product = fmul(converted(float(at_value)), converted(float(const_data[quotient * 2u + 1u])));
            uint turn = uint(at_value) * const_data[quotient * 2u] + uint(float_to_i32(fmul(product, 2.3283064e-10)));
            uint quadrant = turn + 536870912u >> 30u;
            bool odd_quadrant = (quadrant & 1u) != 0u;
            float angle = fmul(converted(float(int(turn << 2u))), 3.6572953e-10);
            float sine = sin_reduced(angle);
            float cosine = cos_reduced(angle);
            float cos_size = odd_quadrant ? sine : cosine;
            float product_2 = fmul(fmul(sum, scale), (quadrant + 1u & 2u) != 0u ? -cos_size : cos_size);
            float sin_size = odd_quadrant ? cosine : sine;
            float turn_sin = (quadrant & 2u) != 0u ? -sin_size : sin_size;
            float product_3 = fmul(fmul(other_sum, scale), int(col_remainder % 2u) != 0 ? turn_sin : -turn_sin);
            result[col] = fadd(product_2, product_3);
        }
        if (col - 256u < 256u) {
            uint slice_col = col - 256u;
            uint other_col = slice_col / 2u * 2u + 1u - slice_col % 2u + 256u;
            uint other_id = other_col - col0;
            float other_sum = partial[other_id];
            other_sum += partial[5u + other_id];
            float scale = inversesqrt_of_any(fadd(fmul(sum_sq_2, 0.00390625), 1e-05));
            int at_value = at[0u];
            uint slice_col_remainder = slice_col % 64u;
            uint quotient = slice_col_remainder / 2u;
            float product = fmul(converted(float(at_value)), converted(float(const_data[quotient * 2u + 1u])));
            uint turn = uint(at_value) * const_data[quotient * 2u] + uint(float_to_i32(fmul(product, 2.3283064e-10)));
            uint quadrant = turn + 536870912u >> 30u;
            bool odd_quadrant = (quadrant & 1u) != 0u;
            float angle = fmul(converted(float(int(turn << 2u))), 3.6572953e-10);
            float sine = sin_reduced(angle);
            float cosine = cos_reduced(angle);
            float cos_size = odd_quadrant ? sine : cosine;
            float product_2 = fmul(fmul(sum, scale), (quadrant + 1u & 2u) != 0u ? -cos_size : cos_size);
            float sin_size = odd_quadrant ? cosine : sine;
            float turn_sin = (quadrant & 2u) != 0u ? -sin_size : sin_size;
            float product_3 = fmul(fmul(other_sum, scale), int(slice_col_remainder % 2u) != 0 ? turn_sin : -turn_sin);
            state[slice_col_remainder + slice_col / 64u * 2048u + uint(clamp(at_value, 0, 31)) * 64u] = float16_t(fadd(product_2, product_3));
        }
        if (col >= 512u) {
            uint slice_col = col - 512u;
            state_2[slice_col % 64u + slice_col / 64u * 2048u + uint(clamp(at[0u], 0, 31)) * 64u] = float16_t(fmul(sum, inversesqrt_of_any(fadd(fmul(sum_sq_2, 0.00390625), 1e-05))));
        }
    }
}
