// ---- shader 0: k0_rms_norm

// rms_norm over [T], folding 256
// Fuses: embedding, rms_norm.
// Schedule: row_group wg=32 lanes=8 cache=0 vec=4 subgroup=8.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 32) in;

layout(set = 0, binding = 0, std430) readonly buffer Tokens_buffer { int tokens[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_vec4_buffer { vec4 weight_2_vec4[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

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

// Four signed bytes as floats. The bytes plus 128 are converted as unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}

uint short_weight_scale(uint block) {
    return uint(weight_shorts[block]);
}

float half_weight_scale(uint block) {
    return unpackHalf2x16(short_weight_scale(block)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_weight(uint block) {
    return half_weight_scale(block);
}

uint word_weight_quants(uint block, uint at) {
    return weight_words[16384u + block * 8u + (at - 2u) / 4u];
}

// Four neighbours from element e on, a byte each.
uint quants_weight(uint block, uint e) {
    return word_weight_quants(block, 2u + e);
}

vec4 levels_weight(uint block, uint e) {
    return bytes_signed(quants_weight(block, e));
}

// Elements i to i+3, i being a multiple of 4.
vec4 decode4_weight(uint i) {
    uint block = i / 32u, e = i % 32u;
    return scale_weight(block) * levels_weight(block, e);
}

void main() {
    const uint T = params[0];
    uint local = gl_SubgroupID * 8u + gl_SubgroupInvocationID;
    uint thread = local % 8u;
    uint row_unlimited = gl_WorkGroupID.x * 4u + local / 8u;
    bool in_range = row_unlimited < T;
    uint row = min(row_unlimited, T - 1u);

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    int tokens_row = tokens[row];
    [[dont_unroll]] for (uint j4 = thread; j4 < 64u; j4 += 8u) {
        vec4 weight4 = decode4_weight(j4 * 4u + uint(clamp(tokens_row, 0, 4095)) * 256u);
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            sum_sq += weight4[lane] * weight4[lane];
        }
    }
    [[unroll]] for (uint distance = 4u; distance > 0u; distance >>= 1u) {
        sum_sq += subgroupShuffleXor(sum_sq, distance);
    }

    // Store each element of the row.
    if (in_range) {
        float scale = inversesqrt_of_any(fadd(fmul(sum_sq, 0.00390625), 1e-05));
        [[dont_unroll]] for (uint j4 = thread; j4 < 64u; j4 += 8u) {
            vec4 weight4 = decode4_weight(j4 * 4u + uint(clamp(tokens_row, 0, 4095)) * 256u);
            vec4 weight_24 = weight_2_vec4[j4];
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                result4[lane] = fmul(fmul(weight4[lane], scale), weight_24[lane]);
            }
            result_vec4[row * 64u + j4] = result4;
        }
    }
}

// ---- shader 1: k1_matmul

// matmul over [T,512], folding 256
// Fuses: matmul.
// Schedule: direct wg=16 tile=16x64x8 thread=16x4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 16) in;

layout(set = 0, binding = 0, std430) readonly buffer Rms_norm_vec4_buffer { vec4 rms_norm_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

// fma, for the same reason.
float fma_in_order(const float a, const float b, const float sum) {
    precise float c = a * b + sum;
    return c;
}

// Four signed bytes as floats. The bytes plus 128 are converted as unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}

uint short_weight_scale(uint block) {
    return uint(weight_shorts[block]);
}

float half_weight_scale(uint block) {
    return unpackHalf2x16(short_weight_scale(block)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_weight(uint block) {
    return half_weight_scale(block);
}

uint word_weight_quants(uint block, uint at) {
    return weight_words[2048u + block * 8u + (at - 2u) / 4u];
}

// Four neighbours from element e on, a byte each.
uint quants_weight(uint block, uint e) {
    return word_weight_quants(block, 2u + e);
}

vec4 levels_weight(uint block, uint e) {
    return bytes_signed(quants_weight(block, e));
}

// Elements i to i+3, i being a multiple of 4.
vec4 decode4_weight(uint i) {
    uint block = i / 32u, e = i % 32u;
    return scale_weight(block) * levels_weight(block, e);
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 64u;
    uint row0 = gl_WorkGroupID.y * 16u;
    float acc[64];
    [[unroll]] for (uint i = 0u; i < 64u; ++i) {
        acc[i] = 0.0;
    }

    [[dont_unroll]] for (uint k0 = 0u; k0 < 256u; k0 += 8u) {
        vec4 b_cols[8];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + self + j * 16u;
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                b_cols[j * 2u + q] = decode4_weight(col * 256u + (k0 + q * 4u));
            }
        }
        [[unroll]] for (uint i = 0u; i < 16u; ++i) {
            uint row = min(row0 + i, T - 1u);
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                vec4 a_row = rms_norm_vec4[(row * 256u + (k0 + q * 4u)) / 4u];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] = fma_in_order(a_row.x, b_cols[j * 2u + q].x, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.y, b_cols[j * 2u + q].y, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.z, b_cols[j * 2u + q].z, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.w, b_cols[j * 2u + q].w, acc[i * 4u + j]);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        uint row = row0 + i;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + self + j * 16u;
            if (row < T) {
                result[row * 512u + col] = acc[i * 4u + j];
            }
        }
    }
}

// ---- shader 2: k2_rope

// rope over [1,T,64]
// Fuses: slice, reshape, transpose, rope.
// Schedule: map wg=64 vec=4 coarsen=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Matmul_buffer { float matmul[]; };
layout(set = 0, binding = 0, std430) readonly buffer Matmul_vec4_buffer { vec4 matmul_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Const_data_buffer { uint const_data[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

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

void main() {
    const uint T = params[0];
    uint id = gl_GlobalInvocationID.x;
    if (id >= T * 16u) return;
    uint col4 = id % 16u;
    uint row = id / 16u % T;
    float kept_turn_cos[4];
    float kept_partner_sin[4];
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        uint col_quotient = col4 * 2u + lane / 2u;
        float product = fmul(converted(float(int(row))), converted(float(const_data[col_quotient * 2u + 1u])));
        uint turn = row * const_data[col_quotient * 2u] + uint(float_to_i32(fmul(product, 2.3283064e-10)));
        uint quadrant = turn + 536870912u >> 30u;
        bool odd_quadrant = (quadrant & 1u) != 0u;
        float angle = fmul(converted(float(int(turn << 2u))), 3.6572953e-10);
        float sine = sin_reduced(angle);
        float cosine = cos_reduced(angle);
        float cos_size = odd_quadrant ? sine : cosine;
        float sin_size = odd_quadrant ? cosine : sine;
        float turn_sin = (quadrant & 2u) != 0u ? -sin_size : sin_size;
        kept_turn_cos[lane] = (quadrant + 1u & 2u) != 0u ? -cos_size : cos_size;
        kept_partner_sin[lane] = int(lane % 2u) != 0 ? turn_sin : -turn_sin;
    }
    [[unroll]] for (uint point = 0u; point < 4u; ++point) {
        vec4 matmul4 = matmul_vec4[row * 128u + col4 + point * 16u];
        vec4 result4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            float matmul_point = matmul[(col4 * 2u + lane / 2u) * 2u + row * 512u + point * 64u + 1u - lane % 2u];
            result4[lane] = fadd(fmul(matmul4[lane], kept_turn_cos[lane]), fmul(matmul_point, kept_partner_sin[lane]));
        }
        result_vec4[point * T * 16u + row * 16u + col4] = result4;
    }
}

// ---- shader 3: k3_rope

// rope over [1,T,64]
// Fuses: slice, reshape, transpose, rope.
// Schedule: map wg=64 vec=4 coarsen=2.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Matmul_buffer { float matmul[]; };
layout(set = 0, binding = 0, std430) readonly buffer Matmul_vec4_buffer { vec4 matmul_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Const_data_buffer { uint const_data[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

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

void main() {
    const uint T = params[0];
    uint id = gl_GlobalInvocationID.x;
    if (id >= T * 16u) return;
    uint col4 = id % 16u;
    uint row = id / 16u % T;
    float kept_turn_cos[4];
    float kept_partner_sin[4];
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        uint col_quotient = col4 * 2u + lane / 2u;
        float product = fmul(converted(float(int(row))), converted(float(const_data[col_quotient * 2u + 1u])));
        uint turn = row * const_data[col_quotient * 2u] + uint(float_to_i32(fmul(product, 2.3283064e-10)));
        uint quadrant = turn + 536870912u >> 30u;
        bool odd_quadrant = (quadrant & 1u) != 0u;
        float angle = fmul(converted(float(int(turn << 2u))), 3.6572953e-10);
        float sine = sin_reduced(angle);
        float cosine = cos_reduced(angle);
        float cos_size = odd_quadrant ? sine : cosine;
        float sin_size = odd_quadrant ? cosine : sine;
        float turn_sin = (quadrant & 2u) != 0u ? -sin_size : sin_size;
        kept_turn_cos[lane] = (quadrant + 1u & 2u) != 0u ? -cos_size : cos_size;
        kept_partner_sin[lane] = int(lane % 2u) != 0 ? turn_sin : -turn_sin;
    }
    [[unroll]] for (uint point = 0u; point < 2u; ++point) {
        vec4 matmul4 = matmul_vec4[row * 128u + col4 + point * 16u + 64u];
        vec4 result4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            float matmul_point = matmul[(col4 * 2u + lane / 2u) * 2u + row * 512u + point * 64u + 257u - lane % 2u];
            result4[lane] = fadd(fmul(matmul4[lane], kept_turn_cos[lane]), fmul(matmul_point, kept_partner_sin[lane]));
        }
        result_vec4[point * T * 16u + row * 16u + col4] = result4;
    }
}

// ---- shader 4: k4_attention

// attention over [1,2,2,T,64], folding T
// Fuses: slice, reshape, transpose, attention.
// Schedule: flash_tile wg=16 tile=16x32x16 thread=4x8 heads=1 subgroup=8.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 16) in;

layout(set = 0, binding = 0, std430) readonly buffer Rope_vec4_buffer { vec4 rope_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Rope_2_vec4_buffer { vec4 rope_2_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Matmul_vec4_buffer { vec4 matmul_vec4[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_q[80];
shared vec4 tile_k[160];
shared vec4 tile_v[256];
shared float weights[528];

#define INF uintBitsToFloat(0x7f800000u)

// fma, for the same reason.
float fma_in_order(const float a, const float b, const float sum) {
    precise float c = a * b + sum;
    return c;
}

// a / b for all divisors. Vulkan defines division for divisors up to 2^126; beyond that, some devices multiply by a
// reciprocal that is flushed to 0.
float div_full(float a, float b) {
    float scale = abs(b) > 8.507059e37 ? 0.25 : 1.0;
    precise float quotient = a * scale / (b * scale);
    return quotient;
}

void main() {
    const uint T = params[0];
    uint self = gl_SubgroupID * 8u + gl_SubgroupInvocationID;
    uint query0 = ((T + 15u) / 16u - 1u - gl_WorkGroupID.x) * 16u;
    uint head = gl_WorkGroupID.y % 2u;
    uint group = gl_WorkGroupID.y / 2u;
    uint lane_of_row = self % 4u;
    uint row0 = self / 4u;
    float top[4];
    float total[4];
    float best[4];
    vec4 sums[16];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        top[i] = -INF;
        total[i] = 0.0;
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            sums[i * 4u + n] = vec4(0.0);
        }
    }
    uint keys = min(query0 + 15u, T - 1u) + 1u;

    [[dont_unroll]] for (uint key0 = 0u; key0 < keys; key0 += 32u) {
        float score[32];
        [[unroll]] for (uint i = 0u; i < 32u; ++i) {
            score[i] = 0.0;
        }
        [[dont_unroll]] for (uint d0 = 0u; d0 < 64u; d0 += 16u) {
            // Stage queries and keys.
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint slot = self + i * 16u;
                uint line = slot / 4u;
                uint quad = slot % 4u;
                uint query = min(query0 + line, T - 1u);
                tile_q[line * 5u + quad] = rope_vec4[(group * T * 128u + head * T * 64u + query * 64u + (d0 + quad * 4u)) / 4u];
            }
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                uint slot = self + i * 16u;
                uint line = slot / 4u;
                uint quad = slot % 4u;
                uint key = min(key0 + line, T - 1u);
                tile_k[line * 5u + quad] = rope_2_vec4[(group * T * 64u + key * 64u + (d0 + quad * 4u)) / 4u];
            }
            barrier();

            [[dont_unroll]] for (uint quad = 0u; quad < 4u; ++quad) {
                vec4 keys4[8];
                [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                    keys4[j] = tile_k[(lane_of_row + j * 4u) * 5u + quad];
                }
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    vec4 query4 = tile_q[(row0 + i * 4u) * 5u + quad];
                    [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                        score[i * 8u + j] = fma_in_order(query4.x, keys4[j].x, score[i * 8u + j]);
                        score[i * 8u + j] = fma_in_order(query4.y, keys4[j].y, score[i * 8u + j]);
                        score[i * 8u + j] = fma_in_order(query4.z, keys4[j].z, score[i * 8u + j]);
                        score[i * 8u + j] = fma_in_order(query4.w, keys4[j].w, score[i * 8u + j]);
                    }
                }
            }
            barrier();
        }

        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint row = row0 + i * 4u;
            best[i] = -INF;
            uint query = min(query0 + row, T - 1u);
            [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                uint key = key0 + (lane_of_row + j * 4u);
                float seen = score[i * 8u + j] * 0.18033688;
                score[i * 8u + j] = key < query + 1u ? seen : -INF;
                best[i] = max(best[i], score[i * 8u + j]);
            }
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            best[i] = max(best[i], subgroupShuffleXor(best[i], 2u));
            best[i] = max(best[i], subgroupShuffleXor(best[i], 1u));
        }

        // While no key counts, any finite number does in place of the largest score.
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            best[i] = max(best[i], top[i]);
            float largest = best[i];
            float shift = largest == -INF ? 0.0 : largest;
            float correction = exp2(top[i] - shift);
            top[i] = best[i];
            total[i] *= correction;
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                sums[i * 4u + n] *= correction;
            }
            uint row = row0 + i * 4u;
            [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                float weight = exp2(score[i * 8u + j] - shift);
                total[i] += weight;
                weights[row * 33u + (lane_of_row + j * 4u)] = weight;
            }
        }

        [[dont_unroll]] for (uint v0 = 0u; v0 < 32u; v0 += 16u) {
            // Stage values.
            [[unroll]] for (uint i = 0u; i < 16u; ++i) {
                uint slot = self + i * 16u;
                uint line = slot / 16u;
                uint quad = slot % 16u;
                uint key = key0 + v0 + line;
                tile_v[line * 16u + quad] = vec4(0.0);
                if (key < keys) {
                    tile_v[line * 16u + quad] = matmul_vec4[(group * 64u + quad * 4u + key * 512u + 384u) / 4u];
                }
            }
            barrier();

            [[dont_unroll]] for (uint line = 0u; line < 16u; ++line) {
                vec4 values4[4];
                [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                    values4[n] = tile_v[line * 16u + (lane_of_row + n * 4u)];
                }
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    float weight = weights[(row0 + i * 4u) * 33u + v0 + line];
                    [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                        sums[i * 4u + n] += weight * values4[n];
                    }
                }
            }
            barrier();
        }
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        total[i] = total[i] + subgroupShuffleXor(total[i], 2u);
        total[i] = total[i] + subgroupShuffleXor(total[i], 1u);
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 + i * 4u;
        if (query0 + row < T) {
            uint query = query0 + row;
            [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                uint quad = lane_of_row + n * 4u;
                vec4 result4;
                [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                    result4[lane] = div_full(sums[i * 4u + n][lane], total[i]);
                }
                result_vec4[(group * T * 128u + head * T * 64u + query * 64u + quad * 4u) / 4u] = result4;
            }
        }
    }
}

// ---- shader 5: k5_matmul_add

// matmul_add over [T,256], folding 256
// Fuses: embedding, transpose, reshape, matmul, add.
// Schedule: direct wg=16 tile=16x64x8 thread=16x4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 16) in;

layout(set = 0, binding = 0, std430) readonly buffer Attention_vec4_buffer { vec4 attention_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Tokens_buffer { int tokens[]; };
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_shorts_buffer { uint16_t weight_2_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_words_buffer { uint weight_2_words[]; }; // q8_0 in planes
layout(set = 0, binding = 4, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 5, std430) readonly buffer Params_buffer { uint params[]; };

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

// fma, for the same reason.
float fma_in_order(const float a, const float b, const float sum) {
    precise float c = a * b + sum;
    return c;
}

// Four signed bytes as floats. The bytes plus 128 are converted as unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}

uint short_weight_scale(uint block) {
    return uint(weight_shorts[block]);
}

float half_weight_scale(uint block) {
    return unpackHalf2x16(short_weight_scale(block)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_weight(uint block) {
    return half_weight_scale(block);
}

uint word_weight_quants(uint block, uint at) {
    return weight_words[1024u + block * 8u + (at - 2u) / 4u];
}

// Four neighbours from element e on, a byte each.
uint quants_weight(uint block, uint e) {
    return word_weight_quants(block, 2u + e);
}

vec4 levels_weight(uint block, uint e) {
    return bytes_signed(quants_weight(block, e));
}

// Elements i to i+3, i being a multiple of 4.
vec4 decode4_weight(uint i) {
    uint block = i / 32u, e = i % 32u;
    return scale_weight(block) * levels_weight(block, e);
}

uint short_weight_2_scale(uint block) {
    return uint(weight_2_shorts[block]);
}

float half_weight_2_scale(uint block) {
    return unpackHalf2x16(short_weight_2_scale(block)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_weight_2(uint block) {
    return half_weight_2_scale(block);
}

uint word_weight_2_quants(uint block, uint at) {
    return weight_2_words[16384u + block * 8u + (at - 2u) / 4u];
}

// Four neighbours from element e on, a byte each.
uint quants_weight_2(uint block, uint e) {
    return word_weight_2_quants(block, 2u + e);
}

vec4 levels_weight_2(uint block, uint e) {
    return bytes_signed(quants_weight_2(block, e));
}

// Element i.
float decode_weight_2(uint i) {
    uint block = i / 32u, e = i % 32u;
    return scale_weight_2(block) * levels_weight_2(block, e / 4u * 4u)[e % 4u];
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 64u;
    uint row0 = gl_WorkGroupID.y * 16u;
    float acc[64];
    [[unroll]] for (uint i = 0u; i < 64u; ++i) {
        acc[i] = 0.0;
    }

    [[dont_unroll]] for (uint k0 = 0u; k0 < 256u; k0 += 8u) {
        vec4 b_cols[8];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + self + j * 16u;
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                b_cols[j * 2u + q] = decode4_weight(col * 256u + (k0 + q * 4u));
            }
        }
        [[unroll]] for (uint i = 0u; i < 16u; ++i) {
            uint row = min(row0 + i, T - 1u);
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                vec4 a_row = attention_vec4[((k0 + q * 4u) % 64u + (k0 + q * 4u) / 64u * T * 64u + row * 64u) / 4u];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] = fma_in_order(a_row.x, b_cols[j * 2u + q].x, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.y, b_cols[j * 2u + q].y, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.z, b_cols[j * 2u + q].z, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.w, b_cols[j * 2u + q].w, acc[i * 4u + j]);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        uint row = row0 + i;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + self + j * 16u;
            if (row < T) {
                result[row * 256u + col] = fadd(decode_weight_2(col + uint(clamp(tokens[row], 0, 4095)) * 256u), acc[i * 4u + j]);
            }
        }
    }
}

// ---- shader 6: k6_rms_norm

// rms_norm over [T], folding 256
// Fuses: rms_norm.
// Schedule: row_group wg=32 lanes=8 cache=0 vec=4 subgroup=8.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 32) in;

layout(set = 0, binding = 0, std430) readonly buffer Add_vec4_buffer { vec4 add_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

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
    uint local = gl_SubgroupID * 8u + gl_SubgroupInvocationID;
    uint thread = local % 8u;
    uint row_unlimited = gl_WorkGroupID.x * 4u + local / 8u;
    bool in_range = row_unlimited < T;
    uint row = min(row_unlimited, T - 1u);

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    [[dont_unroll]] for (uint j4 = thread; j4 < 64u; j4 += 8u) {
        vec4 add4 = add_vec4[row * 64u + j4];
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            sum_sq += add4[lane] * add4[lane];
        }
    }
    [[unroll]] for (uint distance = 4u; distance > 0u; distance >>= 1u) {
        sum_sq += subgroupShuffleXor(sum_sq, distance);
    }

    // Store each element of the row.
    if (in_range) {
        float scale = inversesqrt_of_any(fadd(fmul(sum_sq, 0.00390625), 1e-05));
        [[dont_unroll]] for (uint j4 = thread; j4 < 64u; j4 += 8u) {
            vec4 add4 = add_vec4[row * 64u + j4];
            vec4 weight4 = weight_vec4[j4];
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                result4[lane] = fmul(fmul(add4[lane], scale), weight4[lane]);
            }
            result_vec4[row * 64u + j4] = result4;
        }
    }
}

// ---- shader 7: k7_matmul_mul

// matmul_mul over [T,768], folding 256
// Fuses: matmul, matmul, silu, mul.
// Schedule: direct wg=16 tile=16x32x8 thread=16x2.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 16) in;

layout(set = 0, binding = 0, std430) readonly buffer Rms_norm_vec4_buffer { vec4 rms_norm_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_shorts_buffer { uint16_t weight_2_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_words_buffer { uint weight_2_words[]; }; // q8_0 in planes
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

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

float fdiv(const float a, const float b) {
    precise float c = a / b;
    return c;
}

// fma, for the same reason.
float fma_in_order(const float a, const float b, const float sum) {
    precise float c = a * b + sum;
    return c;
}

// Four signed bytes as floats. The bytes plus 128 are converted as unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}

uint short_weight_scale(uint block) {
    return uint(weight_shorts[block]);
}

float half_weight_scale(uint block) {
    return unpackHalf2x16(short_weight_scale(block)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_weight(uint block) {
    return half_weight_scale(block);
}

uint word_weight_quants(uint block, uint at) {
    return weight_words[3072u + block * 8u + (at - 2u) / 4u];
}

// Four neighbours from element e on, a byte each.
uint quants_weight(uint block, uint e) {
    return word_weight_quants(block, 2u + e);
}

vec4 levels_weight(uint block, uint e) {
    return bytes_signed(quants_weight(block, e));
}

// Elements i to i+3, i being a multiple of 4.
vec4 decode4_weight(uint i) {
    uint block = i / 32u, e = i % 32u;
    return scale_weight(block) * levels_weight(block, e);
}

uint short_weight_2_scale(uint block) {
    return uint(weight_2_shorts[block]);
}

float half_weight_2_scale(uint block) {
    return unpackHalf2x16(short_weight_2_scale(block)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_weight_2(uint block) {
    return half_weight_2_scale(block);
}

uint word_weight_2_quants(uint block, uint at) {
    return weight_2_words[3072u + block * 8u + (at - 2u) / 4u];
}

// Four neighbours from element e on, a byte each.
uint quants_weight_2(uint block, uint e) {
    return word_weight_2_quants(block, 2u + e);
}

vec4 levels_weight_2(uint block, uint e) {
    return bytes_signed(quants_weight_2(block, e));
}

// Elements i to i+3, i being a multiple of 4.
vec4 decode4_weight_2(uint i) {
    uint block = i / 32u, e = i % 32u;
    return scale_weight_2(block) * levels_weight_2(block, e);
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 32u;
    uint row0 = gl_WorkGroupID.y * 16u;
    float acc0[32];
    float acc1[32];
    [[unroll]] for (uint i = 0u; i < 32u; ++i) {
        acc0[i] = 0.0;
        acc1[i] = 0.0;
    }

    [[dont_unroll]] for (uint k0 = 0u; k0 < 256u; k0 += 8u) {
        vec4 b0_cols[4];
        vec4 b1_cols[4];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + self + j * 16u;
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                b0_cols[j * 2u + q] = decode4_weight(col * 256u + (k0 + q * 4u));
                b1_cols[j * 2u + q] = decode4_weight_2(col * 256u + (k0 + q * 4u));
            }
        }
        [[unroll]] for (uint i = 0u; i < 16u; ++i) {
            uint row = min(row0 + i, T - 1u);
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                vec4 a_row = rms_norm_vec4[(row * 256u + (k0 + q * 4u)) / 4u];
                [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                    acc0[i * 2u + j] = fma_in_order(a_row.x, b0_cols[j * 2u + q].x, acc0[i * 2u + j]);
                    acc0[i * 2u + j] = fma_in_order(a_row.y, b0_cols[j * 2u + q].y, acc0[i * 2u + j]);
                    acc0[i * 2u + j] = fma_in_order(a_row.z, b0_cols[j * 2u + q].z, acc0[i * 2u + j]);
                    acc0[i * 2u + j] = fma_in_order(a_row.w, b0_cols[j * 2u + q].w, acc0[i * 2u + j]);
                    acc1[i * 2u + j] = fma_in_order(a_row.x, b1_cols[j * 2u + q].x, acc1[i * 2u + j]);
                    acc1[i * 2u + j] = fma_in_order(a_row.y, b1_cols[j * 2u + q].y, acc1[i * 2u + j]);
                    acc1[i * 2u + j] = fma_in_order(a_row.z, b1_cols[j * 2u + q].z, acc1[i * 2u + j]);
                    acc1[i * 2u + j] = fma_in_order(a_row.w, b1_cols[j * 2u + q].w, acc1[i * 2u + j]);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        uint row = row0 + i;
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + self + j * 16u;
            if (row < T) {
                result[row * 768u + col] = fmul(fdiv(acc0[i * 2u + j], fadd(1.0, exp(-acc0[i * 2u + j]))), acc1[i * 2u + j]);
            }
        }
    }
}

// ---- shader 8: k8_matmul_add

// matmul_add over [T,256], folding 768
// Fuses: matmul, add.
// Schedule: direct wg=16 tile=16x64x8 thread=16x4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 16) in;

layout(set = 0, binding = 0, std430) readonly buffer Mul_vec4_buffer { vec4 mul_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Add_buffer { float add[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

// fma, for the same reason.
float fma_in_order(const float a, const float b, const float sum) {
    precise float c = a * b + sum;
    return c;
}

// Four signed bytes as floats. The bytes plus 128 are converted as unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}

uint short_weight_scale(uint block) {
    return uint(weight_shorts[block]);
}

float half_weight_scale(uint block) {
    return unpackHalf2x16(short_weight_scale(block)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_weight(uint block) {
    return half_weight_scale(block);
}

uint word_weight_quants(uint block, uint at) {
    return weight_words[3072u + block * 8u + (at - 2u) / 4u];
}

// Four neighbours from element e on, a byte each.
uint quants_weight(uint block, uint e) {
    return word_weight_quants(block, 2u + e);
}

vec4 levels_weight(uint block, uint e) {
    return bytes_signed(quants_weight(block, e));
}

// Elements i to i+3, i being a multiple of 4.
vec4 decode4_weight(uint i) {
    uint block = i / 32u, e = i % 32u;
    return scale_weight(block) * levels_weight(block, e);
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 64u;
    uint row0 = gl_WorkGroupID.y * 16u;
    float acc[64];
    [[unroll]] for (uint i = 0u; i < 64u; ++i) {
        acc[i] = 0.0;
    }

    [[dont_unroll]] for (uint k0 = 0u; k0 < 768u; k0 += 8u) {
        vec4 b_cols[8];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + self + j * 16u;
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                b_cols[j * 2u + q] = decode4_weight(col * 768u + (k0 + q * 4u));
            }
        }
        [[unroll]] for (uint i = 0u; i < 16u; ++i) {
            uint row = min(row0 + i, T - 1u);
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                vec4 a_row = mul_vec4[(row * 768u + (k0 + q * 4u)) / 4u];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] = fma_in_order(a_row.x, b_cols[j * 2u + q].x, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.y, b_cols[j * 2u + q].y, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.z, b_cols[j * 2u + q].z, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.w, b_cols[j * 2u + q].w, acc[i * 4u + j]);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        uint row = row0 + i;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + self + j * 16u;
            if (row < T) {
                uint at = row * 256u + col;
                result[at] = fadd(add[at], acc[i * 4u + j]);
            }
        }
    }
}

// ---- shader 9: k14_matmul_add

// matmul_add over [T,256], folding 256
// Fuses: transpose, reshape, matmul, add.
// Schedule: direct wg=16 tile=16x64x8 thread=16x4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 16) in;

layout(set = 0, binding = 0, std430) readonly buffer Attention_vec4_buffer { vec4 attention_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Add_buffer { float add[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

// fma, for the same reason.
float fma_in_order(const float a, const float b, const float sum) {
    precise float c = a * b + sum;
    return c;
}

// Four signed bytes as floats. The bytes plus 128 are converted as unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}

uint short_weight_scale(uint block) {
    return uint(weight_shorts[block]);
}

float half_weight_scale(uint block) {
    return unpackHalf2x16(short_weight_scale(block)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_weight(uint block) {
    return half_weight_scale(block);
}

uint word_weight_quants(uint block, uint at) {
    return weight_words[1024u + block * 8u + (at - 2u) / 4u];
}

// Four neighbours from element e on, a byte each.
uint quants_weight(uint block, uint e) {
    return word_weight_quants(block, 2u + e);
}

vec4 levels_weight(uint block, uint e) {
    return bytes_signed(quants_weight(block, e));
}

// Elements i to i+3, i being a multiple of 4.
vec4 decode4_weight(uint i) {
    uint block = i / 32u, e = i % 32u;
    return scale_weight(block) * levels_weight(block, e);
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 64u;
    uint row0 = gl_WorkGroupID.y * 16u;
    float acc[64];
    [[unroll]] for (uint i = 0u; i < 64u; ++i) {
        acc[i] = 0.0;
    }

    [[dont_unroll]] for (uint k0 = 0u; k0 < 256u; k0 += 8u) {
        vec4 b_cols[8];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + self + j * 16u;
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                b_cols[j * 2u + q] = decode4_weight(col * 256u + (k0 + q * 4u));
            }
        }
        [[unroll]] for (uint i = 0u; i < 16u; ++i) {
            uint row = min(row0 + i, T - 1u);
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                vec4 a_row = attention_vec4[((k0 + q * 4u) % 64u + (k0 + q * 4u) / 64u * T * 64u + row * 64u) / 4u];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] = fma_in_order(a_row.x, b_cols[j * 2u + q].x, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.y, b_cols[j * 2u + q].y, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.z, b_cols[j * 2u + q].z, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.w, b_cols[j * 2u + q].w, acc[i * 4u + j]);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        uint row = row0 + i;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + self + j * 16u;
            if (row < T) {
                uint at = row * 256u + col;
                result[at] = fadd(add[at], acc[i * 4u + j]);
            }
        }
    }
}

// ---- shader 10: k71_matmul

// matmul over [T,256], folding 768
// Fuses: matmul.
// Schedule: direct wg=16 tile=16x64x8 thread=16x4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 16) in;

layout(set = 0, binding = 0, std430) readonly buffer Mul_vec4_buffer { vec4 mul_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

// fma, for the same reason.
float fma_in_order(const float a, const float b, const float sum) {
    precise float c = a * b + sum;
    return c;
}

// Four signed bytes as floats. The bytes plus 128 are converted as unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}

uint short_weight_scale(uint block) {
    return uint(weight_shorts[block]);
}

float half_weight_scale(uint block) {
    return unpackHalf2x16(short_weight_scale(block)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_weight(uint block) {
    return half_weight_scale(block);
}

uint word_weight_quants(uint block, uint at) {
    return weight_words[3072u + block * 8u + (at - 2u) / 4u];
}

// Four neighbours from element e on, a byte each.
uint quants_weight(uint block, uint e) {
    return word_weight_quants(block, 2u + e);
}

vec4 levels_weight(uint block, uint e) {
    return bytes_signed(quants_weight(block, e));
}

// Elements i to i+3, i being a multiple of 4.
vec4 decode4_weight(uint i) {
    uint block = i / 32u, e = i % 32u;
    return scale_weight(block) * levels_weight(block, e);
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 64u;
    uint row0 = gl_WorkGroupID.y * 16u;
    float acc[64];
    [[unroll]] for (uint i = 0u; i < 64u; ++i) {
        acc[i] = 0.0;
    }

    [[dont_unroll]] for (uint k0 = 0u; k0 < 768u; k0 += 8u) {
        vec4 b_cols[8];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + self + j * 16u;
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                b_cols[j * 2u + q] = decode4_weight(col * 768u + (k0 + q * 4u));
            }
        }
        [[unroll]] for (uint i = 0u; i < 16u; ++i) {
            uint row = min(row0 + i, T - 1u);
            [[unroll]] for (uint q = 0u; q < 2u; ++q) {
                vec4 a_row = mul_vec4[(row * 768u + (k0 + q * 4u)) / 4u];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] = fma_in_order(a_row.x, b_cols[j * 2u + q].x, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.y, b_cols[j * 2u + q].y, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.z, b_cols[j * 2u + q].z, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma_in_order(a_row.w, b_cols[j * 2u + q].w, acc[i * 4u + j]);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        uint row = row0 + i;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + self + j * 16u;
            if (row < T) {
                result[row * 256u + col] = acc[i * 4u + j];
            }
        }
    }
}

// ---- shader 11: k72_rms_norm

// rms_norm over [], folding 256
// Fuses: add, sub, reshape, index_select, rms_norm.
// Schedule: row_group wg=32 lanes=32 cache=0 vec=4 subgroup=8.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 32) in;

layout(set = 0, binding = 0, std430) readonly buffer Add_vec4_buffer { vec4 add_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Matmul_vec4_buffer { vec4 matmul_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared float sum_sq_parts[4];

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
    uint local = gl_SubgroupID * 8u + gl_SubgroupInvocationID;

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    int difference = int(T) - 1;
    [[dont_unroll]] for (uint j4 = local; j4 < 64u; j4 += 32u) {
        vec4 add4 = add_vec4[j4 + uint(max(min(difference, int(T) - 1), 0)) * 64u];
        vec4 matmul4 = matmul_vec4[j4 + uint(max(min(difference, int(T) - 1), 0)) * 64u];
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            float sum = fadd(add4[lane], matmul4[lane]);
            sum_sq += sum * sum;
        }
    }
    [[unroll]] for (uint distance = 4u; distance > 0u; distance >>= 1u) {
        sum_sq += subgroupShuffleXor(sum_sq, distance);
    }
    if (gl_SubgroupInvocationID == 0u) {
        sum_sq_parts[gl_SubgroupID] = sum_sq;
    }
    barrier();
    sum_sq = sum_sq_parts[0u];
    [[unroll]] for (uint n = 1u; n < 4u; ++n) {
        sum_sq += sum_sq_parts[n];
    }

    // Store each element of the row.
    float scale = inversesqrt_of_any(fadd(fmul(sum_sq, 0.00390625), 1e-05));
    [[dont_unroll]] for (uint j4 = local; j4 < 64u; j4 += 32u) {
        vec4 add4 = add_vec4[j4 + uint(max(min(difference, int(T) - 1), 0)) * 64u];
        vec4 matmul4 = matmul_vec4[j4 + uint(max(min(difference, int(T) - 1), 0)) * 64u];
        vec4 weight4 = weight_vec4[j4];
        vec4 result4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            result4[lane] = fmul(fmul(fadd(add4[lane], matmul4[lane]), scale), weight4[lane]);
        }
        result_vec4[j4] = result4;
    }
}

// ---- shader 12: k73_matmul

// matmul over [1,4096], folding 256
// Fuses: matmul, reshape.
// Schedule: matvec wg=32 rows=1x8 vec=4 run=8 subgroup=8 lanes=8 strips chained.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 32) in;

layout(set = 0, binding = 0, std430) readonly buffer Rms_norm_vec4_buffer { vec4 rms_norm_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_pairs_buffer { uvec2 weight_pairs[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };

shared float partial[9];

// Four signed bytes as floats. The bytes plus 128 are converted as unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}

// sum plus the dot product of a and b, term by term, each with its own multiplication.
float dot_onto(float sum, vec4 a, vec4 b) {
    return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

uint short_weight_scale(uint block) {
    return uint(weight_shorts[block]);
}

float half_weight_scale(uint block) {
    return unpackHalf2x16(short_weight_scale(block)).x;
}

// q8_0: 32 elements in 34 bytes. The scale.
float scale_weight(uint block) {
    return half_weight_scale(block);
}

uvec2 pairs_weight_quants(uint block, uint at) {
    return weight_pairs[8192u + block * 4u + (at - 2u) / 8u];
}

// Four neighbours from element e on, and the four after them, a byte each.
uvec2 quants2_weight(uint block, uint e) {
    return pairs_weight_quants(block, 2u + e);
}

void main() {
    uint self = gl_SubgroupID * 8u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 8u;
    float acc[2];
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 8u;
    uint group = self / 8u;

    [[dont_unroll]] for (uint step_2 = part; step_2 < 32u; step_2 += 8u) {
        uint block = step_2 / 4u;
        uint e = step_2 % 4u * 8u;
        uint k = block * 32u + e;
        vec4 a_strip[2];
        [[unroll]] for (uint t = 0u; t < 2u; ++t) {
            a_strip[t] = rms_norm_vec4[(k + t * 4u) / 4u];
        }
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + (group * 2u + j);
            float dots;
            dots = 0.0;
            uint at = col * 8u + block;
            uvec2 quants = quants2_weight(at, e);
            [[unroll]] for (uint t = 0u; t < 2u; ++t) {
                vec4 levels = bytes_signed(quants[t]);
                dots = dot_onto(dots, levels, a_strip[t]);
            }
            float scale = scale_weight(at);
            acc[j] += scale * dots;
        }
    }

    bool upper4 = (gl_SubgroupInvocationID & 4u) != 0u;
    acc[0u] = (upper4 ? acc[1u] : acc[0u]) + subgroupShuffleXor(upper4 ? acc[0u] : acc[1u], 4u);
    acc[0u] += subgroupShuffleXor(acc[0u], 2u);
    acc[0u] += subgroupShuffleXor(acc[0u], 1u);
    if (gl_SubgroupInvocationID % 4u == 0u) {
        partial[group * 2u + gl_SubgroupInvocationID / 4u] = acc[0u];
    }
    barrier();

    if (self < 8u) {
        uint col = col0 + self;
        float sum = partial[self];
        result[col] = sum;
    }
}

