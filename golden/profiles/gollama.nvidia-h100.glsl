// ---- shader 0: k0_rms_norm

// rms_norm over [T], folding 256
// Fuses: embedding, rms_norm.
// Schedule: row_group wg=256 lanes=64 cache=4 vec=4 subgroup=32.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Tokens_buffer { int tokens[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_vec4_buffer { vec4 weight_2_vec4[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

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
    uint local = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint thread = local % 64u;
    uint row_unlimited = gl_WorkGroupID.x * 4u + local / 64u;
    bool in_range = row_unlimited < T;
    uint row = min(row_unlimited, T - 1u);
    float kept_weight[4];

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    vec4 weight4 = decode4_weight(thread * 4u + uint(clamp(tokens[row], 0, 4095)) * 256u);
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        kept_weight[lane] = weight4[lane];
        sum_sq += weight4[lane] * weight4[lane];
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
        float scale = inversesqrt_of_any(fadd(fmul(sum_sq, 0.00390625), 1e-05));
        vec4 weight_24 = weight_2_vec4[thread];
        vec4 result4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            result4[lane] = fmul(fmul(kept_weight[lane], scale), weight_24[lane]);
        }
        result_vec4[row * 64u + thread] = result4;
    }
}

// ---- shader 1: k1_matmul_parts

// matmul_parts over [2,T,512], folding 128
// Fuses: matmul.
// Schedule: tile wg=128 tile=32x64x16 thread=4x4 stages=2 paired steps.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Rms_norm_vec4_buffer { vec4 rms_norm_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Acc_parts_vec4_buffer { vec4 acc_parts_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[288];
shared vec4 tile_b[544];

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
    uint row0 = gl_WorkGroupID.y * 32u;
    uint batch = gl_WorkGroupID.z;
    vec4 acc[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        acc[i] = vec4(0.0);
    }
    uint tx = self % 2u + self / 4u % 8u * 2u;
    uint ty = self / 2u % 2u + self / 32u * 2u;
    vec4 next_a;
    vec4 next_b[2];

    // The first tiles go to shared memory.

    // Fetch 32 rows of a.
    uint line = self / 4u;
    uint quad = self % 4u;
    uint row = min(row0 + line, T - 1u);
    uint k = quad * 4u;
    next_a = rms_norm_vec4[(batch * 128u + row * 256u + k) / 4u];

    // Fetch 64 columns of b.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line_2 = slot / 4u;
        uint quad_2 = slot % 4u;
        uint col = col0 + line_2;
        uint k_2 = quad_2 * 4u;
        next_b[i] = decode4_weight(batch * 128u + col * 256u + k_2);
    }
    uint line_2 = self / 4u;
    uint quad_2 = self % 4u;
    [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
        tile_a[(quad_2 * 4u + depth) * 9u + line_2 / 4u][line_2 % 4u] = next_a[depth];
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line_3 = slot / 4u;
        uint quad_3 = slot % 4u;
        vec4 b4 = next_b[i];
        [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
            tile_b[(quad_3 * 4u + depth) * 17u + line_3 / 4u][line_3 % 4u] = b4[depth];
        }
    }
    barrier();

    uint stage = 0u;
    for (uint k0 = 0u; k0 < 128u; k0 += 16u) {
        uint k1 = min(k0 + 16u, 112u);

        // Fetch 32 rows of a.
        uint line_3 = self / 4u;
        uint quad_3 = self % 4u;
        uint row_2 = min(row0 + line_3, T - 1u);
        uint k_2 = k1 + quad_3 * 4u;
        next_a = rms_norm_vec4[(batch * 128u + row_2 * 256u + k_2) / 4u];

        // Fetch 64 columns of b.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line_4 = slot / 4u;
            uint quad_4 = slot % 4u;
            uint col = col0 + line_4;
            uint k_3 = k1 + quad_4 * 4u;
            next_b[i] = decode4_weight(batch * 128u + col * 256u + k_3);
        }

        [[unroll]] for (uint depth = 0u; depth < 16u; ++depth) {
            vec4 a_rows;
            a_rows = tile_a[stage * 144u + (depth * 9u + ty)];
            vec4 b_cols;
            b_cols = tile_b[stage * 272u + (depth * 17u + tx)];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                acc[i] = fma(vec4(a_rows[i]), b_cols, acc[i]);
            }
        }
        stage = 1u - stage;
        uint line_4 = self / 4u;
        uint quad_4 = self % 4u;
        [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
            tile_a[stage * 144u + ((quad_4 * 4u + depth) * 9u + line_4 / 4u)][line_4 % 4u] = next_a[depth];
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line_5 = slot / 4u;
            uint quad_5 = slot % 4u;
            vec4 b4 = next_b[i];
            [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
                tile_b[stage * 272u + ((quad_5 * 4u + depth) * 17u + line_5 / 4u)][line_5 % 4u] = b4[depth];
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row_2 = row0 + (ty * 4u + i);
        uint col = col0 + tx * 4u;
        if (row_2 < T) {
            vec4 acc_parts4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                acc_parts4[lane] = acc[i][lane];
            }
            acc_parts_vec4[(batch * T * 512u + row_2 * 512u + col) / 4u] = acc_parts4;
        }
    }
}

// ---- shader 2: k1_matmul_parts_16

// matmul_parts over [2,T,512], folding 128
// Fuses: matmul.
// Schedule: matvec wg=128 rows=8x8 vec=4 run=16 subnormals staged lanes=16 whole.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Rms_norm_vec4_buffer { vec4 rms_norm_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_quads_buffer { uvec4 weight_quads[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Acc_parts_buffer { float acc_parts[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 a_tile[512];
shared float partial[1040];

// Four bytes as floats, each times 2^-24: a half with a byte in its last bits and zeros before it has this value.
vec4 bytes_subnormal(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu);
    return vec4(even.x, odd.x, even.y, odd.y);
}

// Four signed bytes plus 128, as floats times 2^-24.
vec4 bytes_above_subnormal(uint bytes) {
    return bytes_subnormal(bytes ^ 0x80808080u);
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

uvec4 words_weight_quants(uint block, uint at) {
    return weight_quads[512u + block * 2u + (at - 2u) / 16u];
}

// The same of four quads in a row.
uvec4 quants4_weight(uint block, uint e) {
    return words_weight_quants(block, 2u + e);
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 8u;
    uint row0 = gl_WorkGroupID.y * 8u;
    uint batch = gl_WorkGroupID.z;
    float acc[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 16u;
    uint group = self / 16u;

    for (uint n = self; n < 64u; n += 128u) {
        uint k = n * 4u;
        if (k < 128u) {
            uint place = n ^ (n >> 3 ^ n >> 6) & 7u;
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                uint row = min(row0 + i, T - 1u);
                a_tile[i * 64u + place] = rms_norm_vec4[(batch * 128u + row * 256u + k) / 4u];
            }
        }
    }
    barrier();
    uint step_2 = part;
    if (step_2 < 8u) {
        uint block = step_2 / 2u;
        uint e = step_2 % 2u * 16u;
        uint k = block * 32u + e;
        uint b_at;
        vec2 b_scale;
        uvec4 b_quants;
        uint col = col0 + group;
        b_at = batch * 4u + col * 8u + block;
        b_quants = quants4_weight(b_at, e);
        float scale = scale_weight(b_at);
        b_scale = vec2(16777216.0 * scale, -128.0 * scale);
        uint first_quad = k / 4u;
        uint place = first_quad ^ (first_quad >> 3 ^ first_quad >> 6) & 7u;
        [[unroll]] for (uint t = 0u; t < 4u; ++t) {
            vec4 a_rows[8];
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                a_rows[i] = a_tile[i * 64u + (place ^ t)];
            }
            vec4 b4 = b_scale.x * bytes_above_subnormal(b_quants[t]) + b_scale.y;
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                acc[i] += dot(a_rows[i], b4);
            }
        }
    }
    barrier();

    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        partial[part * 65u + i * 8u + group] = acc[i];
    }
    barrier();

    if (self < 64u) {
        uint row = row0 + self / 8u;
        uint col = col0 + self % 8u;
        float sum = partial[self];
        for (uint p = 1u; p < 16u; ++p) {
            sum += partial[p * 65u + self];
        }
        if (row < T) {
            acc_parts[batch * T * 512u + row * 512u + col] = sum;
        }
    }
}

// ---- shader 3: k2_matmul_sum

// matmul_sum over [512*T]
// Fuses: matmul.
// Schedule: map wg=128 vec=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Acc_parts_vec4_buffer { vec4 acc_parts_vec4[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Params_buffer { uint params[]; };

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

void main() {
    const uint T = params[0];
    uint i4 = gl_GlobalInvocationID.x;
    vec4 acc_parts4 = acc_parts_vec4[i4];
    vec4 acc_parts4_2 = acc_parts_vec4[T * 128u + i4];
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        result4[lane] = fadd(acc_parts4[lane], acc_parts4_2[lane]);
    }
    result_vec4[i4] = result4;
}

// ---- shader 4: k3_rope

// rope over [4,T,64]
// Fuses: slice, reshape, transpose, rope.
// Schedule: map wg=64 vec=4.
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
    uint col4 = id % 16u;
    uint row = id / 16u % T;
    uint batch = id / (T * 16u);
    vec4 matmul4 = matmul_vec4[batch * 16u + row * 128u + col4];
    vec4 result4;
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
        uint col_remainder = lane % 2u;
        float matmul_col = matmul[col_quotient * 2u + batch * 64u + row * 512u + 1u - col_remainder];
        float sin_size = odd_quadrant ? cosine : sine;
        float turn_sin = (quadrant & 2u) != 0u ? -sin_size : sin_size;
        result4[lane] = fadd(fmul(matmul4[lane], (quadrant + 1u & 2u) != 0u ? -cos_size : cos_size), fmul(matmul_col, int(col_remainder) != 0 ? turn_sin : -turn_sin));
    }
    result_vec4[batch * T * 16u + row * 16u + col4] = result4;
}

// ---- shader 5: k4_rope

// rope over [2,T,64]
// Fuses: slice, reshape, transpose, rope.
// Schedule: map wg=64 vec=4.
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
    if (id >= T * 32u) return;
    uint col4 = id % 16u;
    uint row = id / 16u % T;
    uint batch = id / (T * 16u);
    vec4 matmul4 = matmul_vec4[batch * 16u + row * 128u + col4 + 64u];
    vec4 result4;
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
        uint col_remainder = lane % 2u;
        float matmul_col = matmul[col_quotient * 2u + batch * 64u + row * 512u + 257u - col_remainder];
        float sin_size = odd_quadrant ? cosine : sine;
        float turn_sin = (quadrant & 2u) != 0u ? -sin_size : sin_size;
        result4[lane] = fadd(fmul(matmul4[lane], (quadrant + 1u & 2u) != 0u ? -cos_size : cos_size), fmul(matmul_col, int(col_remainder) != 0 ? turn_sin : -turn_sin));
    }
    result_vec4[batch * T * 16u + row * 16u + col4] = result4;
}

// ---- shader 6: k5_attention

// attention over [1,2,2,T,64], folding T
// Fuses: slice, reshape, transpose, attention.
// Schedule: flash_tile wg=128 tile=32x128x16 thread=4x8 heads=1 paired steps subgroup=32.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Rope_vec4_buffer { vec4 rope_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Rope_2_vec4_buffer { vec4 rope_2_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Matmul_vec4_buffer { vec4 matmul_vec4[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_q[576];
shared vec4 tile[1056];
shared vec4 weights[1152];

#define INF uintBitsToFloat(0x7f800000u)

// a / b for all divisors. Vulkan defines division for divisors up to 2^126; beyond that, some devices multiply by a
// reciprocal that is flushed to 0.
float div_full(float a, float b) {
    float scale = abs(b) > 8.507059e37 ? 0.25 : 1.0;
    precise float quotient = a * scale / (b * scale);
    return quotient;
}

void main() {
    const uint T = params[0];
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint query0 = ((T + 31u) / 32u - 1u - gl_WorkGroupID.x) * 32u;
    uint head = gl_WorkGroupID.y % 2u;
    uint group = gl_WorkGroupID.y / 2u;
    uint lane_of_row = self % 2u + self / 4u % 8u * 2u;
    uint row0 = self / 2u % 2u + self / 32u * 2u;
    float top[4];
    float total[4];
    float best[4];
    vec4 sums[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        top[i] = -INF;
        total[i] = 0.0;
        sums[i] = vec4(0.0);
    }
    uint keys = min(query0 + 31u, T - 1u) + 1u;
    vec4 next_keys[4];
    vec4 next_values[2];

    // Stage queries.
    for (uint d0 = 0u; d0 < 64u; d0 += 16u) {
        uint line = self / 4u;
        uint quad = self % 4u;
        uint query = min(query0 + line, T - 1u);
        vec4 quad4 = rope_vec4[(group * T * 128u + head * T * 64u + query * 64u + (d0 + quad * 4u)) / 4u];
        [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
            tile_q[(d0 + quad * 4u + depth) * 9u + line / 4u][line % 4u] = quad4[depth];
        }
    }

    [[dont_unroll]] for (uint key0 = 0u; key0 < keys; key0 += 128u) {
        vec4 score[8];
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            score[i] = vec4(0.0);
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            uint key = min(key0 + line, T - 1u);
            next_keys[i] = rope_2_vec4[(group * T * 64u + key * 64u + quad * 4u) / 4u];
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            vec4 quad4 = next_keys[i];
            [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
                tile[(quad * 4u + depth) * 33u + line / 4u][line % 4u] = quad4[depth];
            }
        }
        barrier();
        uint stage = 0u;
        for (uint d0 = 0u; d0 < 64u; d0 += 16u) {
            uint d1 = min(d0 + 16u, 48u);
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint slot = self + i * 128u;
                uint line = slot / 4u;
                uint quad = slot % 4u;
                uint key = min(key0 + line, T - 1u);
                next_keys[i] = rope_2_vec4[(group * T * 64u + key * 64u + (d1 + quad * 4u)) / 4u];
            }

            [[unroll]] for (uint depth = 0u; depth < 16u; ++depth) {
                vec4 queries4;
                queries4 = tile_q[(d0 + depth) * 9u + row0];
                vec4 keys4[2];
                [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                    keys4[j] = tile[stage + (depth * 33u + (lane_of_row + j * 16u))];
                }
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                        score[i * 2u + j] = fma(vec4(queries4[i]), keys4[j], score[i * 2u + j]);
                    }
                }
            }
            stage = 528u - stage;
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint slot = self + i * 128u;
                uint line = slot / 4u;
                uint quad = slot % 4u;
                vec4 quad4 = next_keys[i];
                [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
                    tile[stage + ((quad * 4u + depth) * 33u + line / 4u)][line % 4u] = quad4[depth];
                }
            }
            barrier();
        }

        // The first values are on their way while scores become weights.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 16u;
            uint quad = slot % 16u;
            uint key = key0 + line;
            next_values[i] = vec4(0.0);
            if (key < keys) {
                next_values[i] = matmul_vec4[(group * 64u + quad * 4u + key * 512u + 384u) / 4u];
            }
        }

        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint row = row0 * 4u + i;
            best[i] = -INF;
            uint query = min(query0 + row, T - 1u);
            [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                uint key = key0 + ((lane_of_row + j / 4u * 16u) * 4u + j % 4u);
                float seen = score[i * 2u + j / 4u][j % 4u] * 0.18033688;
                score[i * 2u + j / 4u][j % 4u] = key < query + 1u ? seen : -INF;
                best[i] = max(best[i], score[i * 2u + j / 4u][j % 4u]);
            }
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            best[i] = max(best[i], subgroupShuffleXor(best[i], 16u));
            best[i] = max(best[i], subgroupShuffleXor(best[i], 8u));
            best[i] = max(best[i], subgroupShuffleXor(best[i], 4u));
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
            sums[i] *= correction;
            [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                float weight = exp2(score[i * 2u + j / 4u][j % 4u] - shift);
                total[i] += weight;
                score[i * 2u + j / 4u][j % 4u] = weight;
            }
        }
        [[unroll]] for (uint j = 0u; j < 8u; ++j) {
            weights[((lane_of_row + j / 4u * 16u) * 4u + j % 4u) * 9u + row0] = vec4(score[j / 4u][j % 4u], score[2u + j / 4u][j % 4u], score[4u + j / 4u][j % 4u], score[6u + j / 4u][j % 4u]);
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 16u;
            uint quad = slot % 16u;
            tile[line * 16u + quad] = next_values[i];
        }
        barrier();
        uint stage_2 = 0u;
        for (uint v0 = 0u; v0 < 128u; v0 += 16u) {
            uint v1 = min(v0 + 16u, 112u);
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                uint slot = self + i * 128u;
                uint line = slot / 16u;
                uint quad = slot % 16u;
                uint key = key0 + v1 + line;
                next_values[i] = vec4(0.0);
                if (key < keys) {
                    next_values[i] = matmul_vec4[(group * 64u + quad * 4u + key * 512u + 384u) / 4u];
                }
            }

            [[unroll]] for (uint depth = 0u; depth < 16u; ++depth) {
                vec4 weights4;
                weights4 = weights[(v0 + depth) * 9u + row0];
                vec4 values4;
                values4 = tile[stage_2 + (depth * 16u + lane_of_row)];
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    sums[i] = fma(vec4(weights4[i]), values4, sums[i]);
                }
            }
            stage_2 = 528u - stage_2;
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                uint slot = self + i * 128u;
                uint line = slot / 16u;
                uint quad = slot % 16u;
                tile[stage_2 + (line * 16u + quad)] = next_values[i];
            }
            barrier();
        }
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        total[i] = total[i] + subgroupShuffleXor(total[i], 16u);
        total[i] = total[i] + subgroupShuffleXor(total[i], 8u);
        total[i] = total[i] + subgroupShuffleXor(total[i], 4u);
        total[i] = total[i] + subgroupShuffleXor(total[i], 1u);
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 * 4u + i;
        if (query0 + row < T) {
            uint query = query0 + row;
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                result4[lane] = div_full(sums[i][lane], total[i]);
            }
            result_vec4[(group * T * 128u + head * T * 64u + query * 64u + lane_of_row * 4u) / 4u] = result4;
        }
    }
}

// ---- shader 7: k6_matmul_add

// matmul_add over [T,256], folding 256
// Fuses: embedding, transpose, reshape, matmul, add.
// Schedule: tile wg=256 tile=32x32x32 thread=2x2.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Attention_vec4_buffer { vec4 attention_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Tokens_buffer { int tokens[]; };
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_shorts_buffer { uint16_t weight_2_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_words_buffer { uint weight_2_words[]; }; // q8_0 in planes
layout(set = 0, binding = 4, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 5, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[288];
shared vec4 tile_b[288];

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
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
    uint col0 = gl_WorkGroupID.x * 32u;
    uint row0 = gl_WorkGroupID.y * 32u;
    float acc[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        acc[i] = 0.0;
    }
    uint tx = self % 16u;
    uint ty = self / 16u;

    for (uint k0 = 0u; k0 < 256u; k0 += 32u) {
        // Stage 32 rows of a.
        uint line = self / 8u;
        uint quad = self % 8u;
        uint row = min(row0 + line, T - 1u);
        uint k = k0 + quad * 4u;
        tile_a[line * 9u + quad] = attention_vec4[(k % 64u + k / 64u * T * 64u + row * 64u) / 4u];

        // Stage 32 columns of b.
        uint line_2 = self / 8u;
        uint quad_2 = self % 8u;
        uint col = col0 + line_2;
        uint k_2 = k0 + quad_2 * 4u;
        tile_b[line_2 * 9u + quad_2] = decode4_weight(col * 256u + k_2);
        barrier();

        for (uint quad_3 = 0u; quad_3 < 8u; ++quad_3) {
            vec4 b_cols[2];
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                b_cols[j] = tile_b[(tx + j * 16u) * 9u + quad_3];
            }
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                vec4 a_row = tile_a[(ty + i * 16u) * 9u + quad_3];
                [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                    acc[i * 2u + j] = fma(a_row.x, b_cols[j].x, acc[i * 2u + j]);
                    acc[i * 2u + j] = fma(a_row.y, b_cols[j].y, acc[i * 2u + j]);
                    acc[i * 2u + j] = fma(a_row.z, b_cols[j].z, acc[i * 2u + j]);
                    acc[i * 2u + j] = fma(a_row.w, b_cols[j].w, acc[i * 2u + j]);
                }
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint row = row0 + ty + i * 16u;
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + tx + j * 16u;
            if (row < T) {
                result[row * 256u + col] = fadd(decode_weight_2(col + uint(clamp(tokens[row], 0, 4095)) * 256u), acc[i * 2u + j]);
            }
        }
    }
}

// ---- shader 8: k6_matmul_add_16

// matmul_add over [T,256], folding 256
// Fuses: embedding, transpose, reshape, matmul, add.
// Schedule: matvec wg=128 rows=8x8 vec=4 run=16 subnormals staged lanes=16 whole.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Attention_vec4_buffer { vec4 attention_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_quads_buffer { uvec4 weight_quads[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Tokens_buffer { int tokens[]; };
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_shorts_buffer { uint16_t weight_2_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_words_buffer { uint weight_2_words[]; }; // q8_0 in planes
layout(set = 0, binding = 4, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 5, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 a_tile[512];
shared float partial[1040];

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

// Four bytes as floats, each times 2^-24: a half with a byte in its last bits and zeros before it has this value.
vec4 bytes_subnormal(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu);
    return vec4(even.x, odd.x, even.y, odd.y);
}

// Four signed bytes as floats. The bytes plus 128 are converted as unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}

// Four signed bytes plus 128, as floats times 2^-24.
vec4 bytes_above_subnormal(uint bytes) {
    return bytes_subnormal(bytes ^ 0x80808080u);
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

uvec4 words_weight_quants(uint block, uint at) {
    return weight_quads[256u + block * 2u + (at - 2u) / 16u];
}

// The same of four quads in a row.
uvec4 quants4_weight(uint block, uint e) {
    return words_weight_quants(block, 2u + e);
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
    uint col0 = gl_WorkGroupID.x * 8u;
    uint row0 = gl_WorkGroupID.y * 8u;
    float acc[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 16u;
    uint group = self / 16u;

    for (uint n = self; n < 64u; n += 128u) {
        uint k = n * 4u;
        uint place = n ^ (n >> 3 ^ n >> 6) & 7u;
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            uint row = min(row0 + i, T - 1u);
            a_tile[i * 64u + place] = attention_vec4[(k % 64u + k / 64u * T * 64u + row * 64u) / 4u];
        }
    }
    barrier();
    uint step_2 = part;
    uint block = step_2 / 2u;
    uint e = step_2 % 2u * 16u;
    uint k = block * 32u + e;
    uint b_at;
    vec2 b_scale;
    uvec4 b_quants;
    uint col = col0 + group;
    b_at = col * 8u + block;
    b_quants = quants4_weight(b_at, e);
    float scale = scale_weight(b_at);
    b_scale = vec2(16777216.0 * scale, -128.0 * scale);
    uint first_quad = k / 4u;
    uint place = first_quad ^ (first_quad >> 3 ^ first_quad >> 6) & 7u;
    [[unroll]] for (uint t = 0u; t < 4u; ++t) {
        vec4 a_rows[8];
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            a_rows[i] = a_tile[i * 64u + (place ^ t)];
        }
        vec4 b4 = b_scale.x * bytes_above_subnormal(b_quants[t]) + b_scale.y;
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            acc[i] += dot(a_rows[i], b4);
        }
    }
    barrier();

    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        partial[part * 65u + i * 8u + group] = acc[i];
    }
    barrier();

    if (self < 64u) {
        uint row = row0 + self / 8u;
        uint col_2 = col0 + self % 8u;
        float sum = partial[self];
        for (uint p = 1u; p < 16u; ++p) {
            sum += partial[p * 65u + self];
        }
        if (row < T) {
            result[row * 256u + col_2] = fadd(decode_weight_2(col_2 + uint(clamp(tokens[row], 0, 4095)) * 256u), sum);
        }
    }
}

// ---- shader 9: k7_rms_norm

// rms_norm over [T], folding 256
// Fuses: rms_norm.
// Schedule: row_group wg=256 lanes=64 cache=4 vec=4 subgroup=32.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Add_vec4_buffer { vec4 add_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

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
    float kept_add[4];

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    vec4 add4 = add_vec4[row * 64u + thread];
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        kept_add[lane] = add4[lane];
        sum_sq += add4[lane] * add4[lane];
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
        float scale = inversesqrt_of_any(fadd(fmul(sum_sq, 0.00390625), 1e-05));
        vec4 weight4 = weight_vec4[thread];
        vec4 result4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            result4[lane] = fmul(fmul(kept_add[lane], scale), weight4[lane]);
        }
        result_vec4[row * 64u + thread] = result4;
    }
}

// ---- shader 10: k8_matmul_mul_parts

// matmul_mul_parts over [2,T,768], folding 128
// Fuses: matmul, matmul, silu, mul.
// Schedule: tile wg=128 tile=32x64x16 thread=4x4 stages=2 paired steps.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Rms_norm_vec4_buffer { vec4 rms_norm_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Acc0_parts_vec4_buffer { vec4 acc0_parts_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_shorts_buffer { uint16_t weight_2_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_words_buffer { uint weight_2_words[]; }; // q8_0 in planes
layout(set = 0, binding = 4, std430) writeonly buffer Acc1_parts_vec4_buffer { vec4 acc1_parts_vec4[]; };
layout(set = 0, binding = 5, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[288];
shared vec4 tile_b0[544];
shared vec4 tile_b1[544];

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
    uint col0 = gl_WorkGroupID.x * 64u;
    uint row0 = gl_WorkGroupID.y * 32u;
    uint batch = gl_WorkGroupID.z;
    vec4 acc0[4];
    vec4 acc1[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        acc0[i] = vec4(0.0);
        acc1[i] = vec4(0.0);
    }
    uint tx = self % 2u + self / 4u % 8u * 2u;
    uint ty = self / 2u % 2u + self / 32u * 2u;
    vec4 next_a;
    vec4 next_b0[2];
    vec4 next_b1[2];

    // The first tiles go to shared memory.

    // Fetch 32 rows of a.
    uint line = self / 4u;
    uint quad = self % 4u;
    uint row = min(row0 + line, T - 1u);
    uint k = quad * 4u;
    next_a = rms_norm_vec4[(batch * 128u + row * 256u + k) / 4u];

    // Fetch 64 columns of b0.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line_2 = slot / 4u;
        uint quad_2 = slot % 4u;
        uint col = col0 + line_2;
        uint k_2 = quad_2 * 4u;
        next_b0[i] = decode4_weight(batch * 128u + col * 256u + k_2);
    }

    // Fetch 64 columns of b1.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line_2 = slot / 4u;
        uint quad_2 = slot % 4u;
        uint col = col0 + line_2;
        uint k_2 = quad_2 * 4u;
        next_b1[i] = decode4_weight_2(batch * 128u + col * 256u + k_2);
    }
    uint line_2 = self / 4u;
    uint quad_2 = self % 4u;
    [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
        tile_a[(quad_2 * 4u + depth) * 9u + line_2 / 4u][line_2 % 4u] = next_a[depth];
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line_3 = slot / 4u;
        uint quad_3 = slot % 4u;
        vec4 b0_4 = next_b0[i];
        [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
            tile_b0[(quad_3 * 4u + depth) * 17u + line_3 / 4u][line_3 % 4u] = b0_4[depth];
        }
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line_3 = slot / 4u;
        uint quad_3 = slot % 4u;
        vec4 b1_4 = next_b1[i];
        [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
            tile_b1[(quad_3 * 4u + depth) * 17u + line_3 / 4u][line_3 % 4u] = b1_4[depth];
        }
    }
    barrier();

    uint stage = 0u;
    for (uint k0 = 0u; k0 < 128u; k0 += 16u) {
        uint k1 = min(k0 + 16u, 112u);

        // Fetch 32 rows of a.
        uint line_3 = self / 4u;
        uint quad_3 = self % 4u;
        uint row_2 = min(row0 + line_3, T - 1u);
        uint k_2 = k1 + quad_3 * 4u;
        next_a = rms_norm_vec4[(batch * 128u + row_2 * 256u + k_2) / 4u];

        // Fetch 64 columns of b0.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line_4 = slot / 4u;
            uint quad_4 = slot % 4u;
            uint col = col0 + line_4;
            uint k_3 = k1 + quad_4 * 4u;
            next_b0[i] = decode4_weight(batch * 128u + col * 256u + k_3);
        }

        // Fetch 64 columns of b1.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line_4 = slot / 4u;
            uint quad_4 = slot % 4u;
            uint col = col0 + line_4;
            uint k_3 = k1 + quad_4 * 4u;
            next_b1[i] = decode4_weight_2(batch * 128u + col * 256u + k_3);
        }

        [[unroll]] for (uint depth = 0u; depth < 16u; ++depth) {
            vec4 a_rows;
            a_rows = tile_a[stage * 144u + (depth * 9u + ty)];
            vec4 b0_cols;
            b0_cols = tile_b0[stage * 272u + (depth * 17u + tx)];
            vec4 b1_cols;
            b1_cols = tile_b1[stage * 272u + (depth * 17u + tx)];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                acc0[i] = fma(vec4(a_rows[i]), b0_cols, acc0[i]);
                acc1[i] = fma(vec4(a_rows[i]), b1_cols, acc1[i]);
            }
        }
        stage = 1u - stage;
        uint line_4 = self / 4u;
        uint quad_4 = self % 4u;
        [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
            tile_a[stage * 144u + ((quad_4 * 4u + depth) * 9u + line_4 / 4u)][line_4 % 4u] = next_a[depth];
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line_5 = slot / 4u;
            uint quad_5 = slot % 4u;
            vec4 b0_4 = next_b0[i];
            [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
                tile_b0[stage * 272u + ((quad_5 * 4u + depth) * 17u + line_5 / 4u)][line_5 % 4u] = b0_4[depth];
            }
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line_5 = slot / 4u;
            uint quad_5 = slot % 4u;
            vec4 b1_4 = next_b1[i];
            [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
                tile_b1[stage * 272u + ((quad_5 * 4u + depth) * 17u + line_5 / 4u)][line_5 % 4u] = b1_4[depth];
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row_2 = row0 + (ty * 4u + i);
        uint col = col0 + tx * 4u;
        if (row_2 < T) {
            vec4 acc0_parts4;
            vec4 acc1_parts4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                acc0_parts4[lane] = acc0[i][lane];
                acc1_parts4[lane] = acc1[i][lane];
            }
            acc0_parts_vec4[(batch * T * 768u + row_2 * 768u + col) / 4u] = acc0_parts4;
            acc1_parts_vec4[(batch * T * 768u + row_2 * 768u + col) / 4u] = acc1_parts4;
        }
    }
}

// ---- shader 11: k8_matmul_mul_parts_16

// matmul_mul_parts over [2,T,768], folding 128
// Fuses: matmul, matmul, silu, mul.
// Schedule: matvec wg=128 rows=8x16 vec=4 run=16 subnormals staged lanes=16 whole.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Rms_norm_vec4_buffer { vec4 rms_norm_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_quads_buffer { uvec4 weight_quads[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Acc0_parts_buffer { float acc0_parts[]; };
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_shorts_buffer { uint16_t weight_2_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_quads_buffer { uvec4 weight_2_quads[]; }; // q8_0 in planes
layout(set = 0, binding = 4, std430) writeonly buffer Acc1_parts_buffer { float acc1_parts[]; };
layout(set = 0, binding = 5, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 a_tile[512];
shared float partial0[2064];
shared float partial1[2064];

// Four bytes as floats, each times 2^-24: a half with a byte in its last bits and zeros before it has this value.
vec4 bytes_subnormal(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu);
    return vec4(even.x, odd.x, even.y, odd.y);
}

// Four signed bytes plus 128, as floats times 2^-24.
vec4 bytes_above_subnormal(uint bytes) {
    return bytes_subnormal(bytes ^ 0x80808080u);
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

uvec4 words_weight_quants(uint block, uint at) {
    return weight_quads[768u + block * 2u + (at - 2u) / 16u];
}

// The same of four quads in a row.
uvec4 quants4_weight(uint block, uint e) {
    return words_weight_quants(block, 2u + e);
}

uvec4 words_weight_2_quants(uint block, uint at) {
    return weight_2_quads[768u + block * 2u + (at - 2u) / 16u];
}

// The same of four quads in a row.
uvec4 quants4_weight_2(uint block, uint e) {
    return words_weight_2_quants(block, 2u + e);
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 16u;
    uint row0 = gl_WorkGroupID.y * 8u;
    uint batch = gl_WorkGroupID.z;
    float acc0[16];
    float acc1[16];
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        acc0[i] = 0.0;
        acc1[i] = 0.0;
    }
    uint part = self % 16u;
    uint group = self / 16u;

    for (uint n = self; n < 64u; n += 128u) {
        uint k = n * 4u;
        if (k < 128u) {
            uint place = n ^ (n >> 3 ^ n >> 6) & 7u;
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                uint row = min(row0 + i, T - 1u);
                a_tile[i * 64u + place] = rms_norm_vec4[(batch * 128u + row * 256u + k) / 4u];
            }
        }
    }
    barrier();
    uint step_2 = part;
    if (step_2 < 8u) {
        uint block = step_2 / 2u;
        uint e = step_2 % 2u * 16u;
        uint k = block * 32u + e;
        uint b0_at[2];
        vec2 b0_scale[2];
        uvec4 b0_quants[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + (group * 2u + j);
            b0_at[j] = batch * 4u + col * 8u + block;
            b0_quants[j] = quants4_weight(b0_at[j], e);
            float scale = scale_weight(b0_at[j]);
            b0_scale[j] = vec2(16777216.0 * scale, -128.0 * scale);
        }
        uint b1_at[2];
        vec2 b1_scale[2];
        uvec4 b1_quants[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + (group * 2u + j);
            b1_at[j] = batch * 4u + col * 8u + block;
            b1_quants[j] = quants4_weight_2(b1_at[j], e);
            float scale = scale_weight_2(b1_at[j]);
            b1_scale[j] = vec2(16777216.0 * scale, -128.0 * scale);
        }
        uint first_quad = k / 4u;
        uint place = first_quad ^ (first_quad >> 3 ^ first_quad >> 6) & 7u;
        [[unroll]] for (uint t = 0u; t < 4u; ++t) {
            vec4 a_rows[8];
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                a_rows[i] = a_tile[i * 64u + (place ^ t)];
            }
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                vec4 b0_4 = b0_scale[j].x * bytes_above_subnormal(b0_quants[j][t]) + b0_scale[j].y;
                vec4 b1_4 = b1_scale[j].x * bytes_above_subnormal(b1_quants[j][t]) + b1_scale[j].y;
                [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                    acc0[i * 2u + j] += dot(a_rows[i], b0_4);
                    acc1[i * 2u + j] += dot(a_rows[i], b1_4);
                }
            }
        }
    }
    barrier();

    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            partial0[part * 129u + i * 16u + (group * 2u + j)] = acc0[i * 2u + j];
            partial1[part * 129u + i * 16u + (group * 2u + j)] = acc1[i * 2u + j];
        }
    }
    barrier();

    uint row = row0 + self / 16u;
    uint col = col0 + self % 16u;
    float sum0 = partial0[self];
    float sum1 = partial1[self];
    for (uint p = 1u; p < 16u; ++p) {
        sum0 += partial0[p * 129u + self];
        sum1 += partial1[p * 129u + self];
    }
    if (row < T) {
        uint at = batch * T * 768u + row * 768u + col;
        acc0_parts[at] = sum0;
        acc1_parts[at] = sum1;
    }
}

// ---- shader 12: k9_matmul_mul_sum

// matmul_mul_sum over [768*T]
// Fuses: matmul, matmul, silu, mul.
// Schedule: map wg=256 vec=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Acc0_parts_vec4_buffer { vec4 acc0_parts_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Acc1_parts_vec4_buffer { vec4 acc1_parts_vec4[]; };
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

float fdiv(const float a, const float b) {
    precise float c = a / b;
    return c;
}

void main() {
    const uint T = params[0];
    uint i4 = gl_GlobalInvocationID.x;
    if (i4 >= T * 192u) return;
    vec4 acc0_parts4 = acc0_parts_vec4[i4];
    vec4 acc0_parts4_2 = acc0_parts_vec4[T * 192u + i4];
    vec4 acc1_parts4 = acc1_parts_vec4[i4];
    vec4 acc1_parts4_2 = acc1_parts_vec4[T * 192u + i4];
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        float acc0 = fadd(acc0_parts4[lane], acc0_parts4_2[lane]);
        result4[lane] = fmul(fdiv(acc0, fadd(1.0, exp(-acc0))), fadd(acc1_parts4[lane], acc1_parts4_2[lane]));
    }
    result_vec4[i4] = result4;
}

// ---- shader 13: k10_matmul_add_parts

// matmul_add_parts over [4,T,256], folding 192
// Fuses: matmul, add.
// Schedule: tile wg=128 tile=32x64x16 thread=4x4 stages=2 paired steps.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Mul_vec4_buffer { vec4 mul_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Acc_parts_vec4_buffer { vec4 acc_parts_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[288];
shared vec4 tile_b[544];

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
    uint row0 = gl_WorkGroupID.y * 32u;
    uint batch = gl_WorkGroupID.z;
    vec4 acc[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        acc[i] = vec4(0.0);
    }
    uint tx = self % 2u + self / 4u % 8u * 2u;
    uint ty = self / 2u % 2u + self / 32u * 2u;
    vec4 next_a;
    vec4 next_b[2];

    // The first tiles go to shared memory.

    // Fetch 32 rows of a.
    uint line = self / 4u;
    uint quad = self % 4u;
    uint row = min(row0 + line, T - 1u);
    uint k = quad * 4u;
    next_a = mul_vec4[(batch * 192u + row * 768u + k) / 4u];

    // Fetch 64 columns of b.
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line_2 = slot / 4u;
        uint quad_2 = slot % 4u;
        uint col = col0 + line_2;
        uint k_2 = quad_2 * 4u;
        next_b[i] = decode4_weight(batch * 192u + col * 768u + k_2);
    }
    uint line_2 = self / 4u;
    uint quad_2 = self % 4u;
    [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
        tile_a[(quad_2 * 4u + depth) * 9u + line_2 / 4u][line_2 % 4u] = next_a[depth];
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint slot = self + i * 128u;
        uint line_3 = slot / 4u;
        uint quad_3 = slot % 4u;
        vec4 b4 = next_b[i];
        [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
            tile_b[(quad_3 * 4u + depth) * 17u + line_3 / 4u][line_3 % 4u] = b4[depth];
        }
    }
    barrier();

    uint stage = 0u;
    for (uint k0 = 0u; k0 < 192u; k0 += 16u) {
        uint k1 = min(k0 + 16u, 176u);

        // Fetch 32 rows of a.
        uint line_3 = self / 4u;
        uint quad_3 = self % 4u;
        uint row_2 = min(row0 + line_3, T - 1u);
        uint k_2 = k1 + quad_3 * 4u;
        next_a = mul_vec4[(batch * 192u + row_2 * 768u + k_2) / 4u];

        // Fetch 64 columns of b.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line_4 = slot / 4u;
            uint quad_4 = slot % 4u;
            uint col = col0 + line_4;
            uint k_3 = k1 + quad_4 * 4u;
            next_b[i] = decode4_weight(batch * 192u + col * 768u + k_3);
        }

        [[unroll]] for (uint depth = 0u; depth < 16u; ++depth) {
            vec4 a_rows;
            a_rows = tile_a[stage * 144u + (depth * 9u + ty)];
            vec4 b_cols;
            b_cols = tile_b[stage * 272u + (depth * 17u + tx)];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                acc[i] = fma(vec4(a_rows[i]), b_cols, acc[i]);
            }
        }
        stage = 1u - stage;
        uint line_4 = self / 4u;
        uint quad_4 = self % 4u;
        [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
            tile_a[stage * 144u + ((quad_4 * 4u + depth) * 9u + line_4 / 4u)][line_4 % 4u] = next_a[depth];
        }
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line_5 = slot / 4u;
            uint quad_5 = slot % 4u;
            vec4 b4 = next_b[i];
            [[unroll]] for (uint depth = 0u; depth < 4u; ++depth) {
                tile_b[stage * 272u + ((quad_5 * 4u + depth) * 17u + line_5 / 4u)][line_5 % 4u] = b4[depth];
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row_2 = row0 + (ty * 4u + i);
        uint col = col0 + tx * 4u;
        if (row_2 < T) {
            vec4 acc_parts4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                acc_parts4[lane] = acc[i][lane];
            }
            acc_parts_vec4[(batch * T * 256u + row_2 * 256u + col) / 4u] = acc_parts4;
        }
    }
}

// ---- shader 14: k10_matmul_add_parts_16

// matmul_add_parts over [4,T,256], folding 192
// Fuses: matmul, add.
// Schedule: matvec wg=128 rows=8x8 vec=4 run=16 subnormals staged lanes=16 whole.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Mul_vec4_buffer { vec4 mul_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_quads_buffer { uvec4 weight_quads[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Acc_parts_buffer { float acc_parts[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 a_tile[512];
shared float partial[1040];

// Four bytes as floats, each times 2^-24: a half with a byte in its last bits and zeros before it has this value.
vec4 bytes_subnormal(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu);
    return vec4(even.x, odd.x, even.y, odd.y);
}

// Four signed bytes plus 128, as floats times 2^-24.
vec4 bytes_above_subnormal(uint bytes) {
    return bytes_subnormal(bytes ^ 0x80808080u);
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

uvec4 words_weight_quants(uint block, uint at) {
    return weight_quads[768u + block * 2u + (at - 2u) / 16u];
}

// The same of four quads in a row.
uvec4 quants4_weight(uint block, uint e) {
    return words_weight_quants(block, 2u + e);
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 8u;
    uint row0 = gl_WorkGroupID.y * 8u;
    uint batch = gl_WorkGroupID.z;
    float acc[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 16u;
    uint group = self / 16u;

    for (uint n = self; n < 64u; n += 128u) {
        uint k = n * 4u;
        if (k < 192u) {
            uint place = n ^ (n >> 3 ^ n >> 6) & 7u;
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                uint row = min(row0 + i, T - 1u);
                a_tile[i * 64u + place] = mul_vec4[(batch * 192u + row * 768u + k) / 4u];
            }
        }
    }
    barrier();
    uint step_2 = part;
    if (step_2 < 12u) {
        uint block = step_2 / 2u;
        uint e = step_2 % 2u * 16u;
        uint k = block * 32u + e;
        uint b_at;
        vec2 b_scale;
        uvec4 b_quants;
        uint col = col0 + group;
        b_at = batch * 6u + col * 24u + block;
        b_quants = quants4_weight(b_at, e);
        float scale = scale_weight(b_at);
        b_scale = vec2(16777216.0 * scale, -128.0 * scale);
        uint first_quad = k / 4u;
        uint place = first_quad ^ (first_quad >> 3 ^ first_quad >> 6) & 7u;
        [[unroll]] for (uint t = 0u; t < 4u; ++t) {
            vec4 a_rows[8];
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                a_rows[i] = a_tile[i * 64u + (place ^ t)];
            }
            vec4 b4 = b_scale.x * bytes_above_subnormal(b_quants[t]) + b_scale.y;
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                acc[i] += dot(a_rows[i], b4);
            }
        }
    }
    barrier();

    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        partial[part * 65u + i * 8u + group] = acc[i];
    }
    barrier();

    if (self < 64u) {
        uint row = row0 + self / 8u;
        uint col = col0 + self % 8u;
        float sum = partial[self];
        for (uint p = 1u; p < 16u; ++p) {
            sum += partial[p * 65u + self];
        }
        if (row < T) {
            acc_parts[batch * T * 256u + row * 256u + col] = sum;
        }
    }
}

// ---- shader 15: k11_matmul_add_sum

// matmul_add_sum over [256*T]
// Fuses: matmul, add.
// Schedule: map wg=64 vec=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Acc_parts_vec4_buffer { vec4 acc_parts_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Add_vec4_buffer { vec4 add_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

void main() {
    const uint T = params[0];
    uint i4 = gl_GlobalInvocationID.x;
    vec4 add4 = add_vec4[i4];
    vec4 acc_parts4 = acc_parts_vec4[i4];
    vec4 acc_parts4_2 = acc_parts_vec4[T * 64u + i4];
    vec4 acc_parts4_3 = acc_parts_vec4[T * 128u + i4];
    vec4 acc_parts4_4 = acc_parts_vec4[T * 192u + i4];
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        float acc = fadd(fadd(fadd(acc_parts4[lane], acc_parts4_2[lane]), acc_parts4_3[lane]), acc_parts4_4[lane]);
        result4[lane] = fadd(add4[lane], acc);
    }
    result_vec4[i4] = result4;
}

// ---- shader 16: k18_matmul_add

// matmul_add over [T,256], folding 256
// Fuses: transpose, reshape, matmul, add.
// Schedule: tile wg=256 tile=32x32x32 thread=2x2.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Attention_vec4_buffer { vec4 attention_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Add_buffer { float add[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[288];
shared vec4 tile_b[288];

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
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
    uint col0 = gl_WorkGroupID.x * 32u;
    uint row0 = gl_WorkGroupID.y * 32u;
    float acc[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        acc[i] = 0.0;
    }
    uint tx = self % 16u;
    uint ty = self / 16u;

    for (uint k0 = 0u; k0 < 256u; k0 += 32u) {
        // Stage 32 rows of a.
        uint line = self / 8u;
        uint quad = self % 8u;
        uint row = min(row0 + line, T - 1u);
        uint k = k0 + quad * 4u;
        tile_a[line * 9u + quad] = attention_vec4[(k % 64u + k / 64u * T * 64u + row * 64u) / 4u];

        // Stage 32 columns of b.
        uint line_2 = self / 8u;
        uint quad_2 = self % 8u;
        uint col = col0 + line_2;
        uint k_2 = k0 + quad_2 * 4u;
        tile_b[line_2 * 9u + quad_2] = decode4_weight(col * 256u + k_2);
        barrier();

        for (uint quad_3 = 0u; quad_3 < 8u; ++quad_3) {
            vec4 b_cols[2];
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                b_cols[j] = tile_b[(tx + j * 16u) * 9u + quad_3];
            }
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                vec4 a_row = tile_a[(ty + i * 16u) * 9u + quad_3];
                [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                    acc[i * 2u + j] = fma(a_row.x, b_cols[j].x, acc[i * 2u + j]);
                    acc[i * 2u + j] = fma(a_row.y, b_cols[j].y, acc[i * 2u + j]);
                    acc[i * 2u + j] = fma(a_row.z, b_cols[j].z, acc[i * 2u + j]);
                    acc[i * 2u + j] = fma(a_row.w, b_cols[j].w, acc[i * 2u + j]);
                }
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint row = row0 + ty + i * 16u;
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + tx + j * 16u;
            if (row < T) {
                uint at = row * 256u + col;
                result[at] = fadd(add[at], acc[i * 2u + j]);
            }
        }
    }
}

// ---- shader 17: k18_matmul_add_16

// matmul_add over [T,256], folding 256
// Fuses: transpose, reshape, matmul, add.
// Schedule: matvec wg=128 rows=8x8 vec=4 run=16 subnormals staged lanes=16 whole.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Attention_vec4_buffer { vec4 attention_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_quads_buffer { uvec4 weight_quads[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Add_buffer { float add[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 a_tile[512];
shared float partial[1040];

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

// Four bytes as floats, each times 2^-24: a half with a byte in its last bits and zeros before it has this value.
vec4 bytes_subnormal(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu);
    return vec4(even.x, odd.x, even.y, odd.y);
}

// Four signed bytes plus 128, as floats times 2^-24.
vec4 bytes_above_subnormal(uint bytes) {
    return bytes_subnormal(bytes ^ 0x80808080u);
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

uvec4 words_weight_quants(uint block, uint at) {
    return weight_quads[256u + block * 2u + (at - 2u) / 16u];
}

// The same of four quads in a row.
uvec4 quants4_weight(uint block, uint e) {
    return words_weight_quants(block, 2u + e);
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 8u;
    uint row0 = gl_WorkGroupID.y * 8u;
    float acc[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 16u;
    uint group = self / 16u;

    for (uint n = self; n < 64u; n += 128u) {
        uint k = n * 4u;
        uint place = n ^ (n >> 3 ^ n >> 6) & 7u;
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            uint row = min(row0 + i, T - 1u);
            a_tile[i * 64u + place] = attention_vec4[(k % 64u + k / 64u * T * 64u + row * 64u) / 4u];
        }
    }
    barrier();
    uint step_2 = part;
    uint block = step_2 / 2u;
    uint e = step_2 % 2u * 16u;
    uint k = block * 32u + e;
    uint b_at;
    vec2 b_scale;
    uvec4 b_quants;
    uint col = col0 + group;
    b_at = col * 8u + block;
    b_quants = quants4_weight(b_at, e);
    float scale = scale_weight(b_at);
    b_scale = vec2(16777216.0 * scale, -128.0 * scale);
    uint first_quad = k / 4u;
    uint place = first_quad ^ (first_quad >> 3 ^ first_quad >> 6) & 7u;
    [[unroll]] for (uint t = 0u; t < 4u; ++t) {
        vec4 a_rows[8];
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            a_rows[i] = a_tile[i * 64u + (place ^ t)];
        }
        vec4 b4 = b_scale.x * bytes_above_subnormal(b_quants[t]) + b_scale.y;
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            acc[i] += dot(a_rows[i], b4);
        }
    }
    barrier();

    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        partial[part * 65u + i * 8u + group] = acc[i];
    }
    barrier();

    if (self < 64u) {
        uint row = row0 + self / 8u;
        uint col_2 = col0 + self % 8u;
        float sum = partial[self];
        for (uint p = 1u; p < 16u; ++p) {
            sum += partial[p * 65u + self];
        }
        if (row < T) {
            uint at = row * 256u + col_2;
            result[at] = fadd(add[at], sum);
        }
    }
}

// ---- shader 18: k95_matmul_sum

// matmul_sum over [256*T]
// Fuses: matmul.
// Schedule: map wg=64 vec=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Acc_parts_vec4_buffer { vec4 acc_parts_vec4[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Params_buffer { uint params[]; };

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

void main() {
    const uint T = params[0];
    uint i4 = gl_GlobalInvocationID.x;
    vec4 acc_parts4 = acc_parts_vec4[i4];
    vec4 acc_parts4_2 = acc_parts_vec4[T * 64u + i4];
    vec4 acc_parts4_3 = acc_parts_vec4[T * 128u + i4];
    vec4 acc_parts4_4 = acc_parts_vec4[T * 192u + i4];
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        result4[lane] = fadd(fadd(fadd(acc_parts4[lane], acc_parts4_2[lane]), acc_parts4_3[lane]), acc_parts4_4[lane]);
    }
    result_vec4[i4] = result4;
}

// ---- shader 19: k96_rms_norm_matmul

// rms_norm_matmul over [1,4096], folding 256
// Fuses: add, sub, reshape, index_select, rms_norm, matmul, reshape.
// Schedule: matvec wg=256 rows=1x16 vec=4 run=8 prefetch=runs:2 subgroup=32 lanes=32 strips chained.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Add_vec4_buffer { vec4 add_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Matmul_vec4_buffer { vec4 matmul_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Norm_weight_vec4_buffer { vec4 norm_weight_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 3, std430) readonly buffer Weight_pairs_buffer { uvec2 weight_pairs[]; }; // q8_0 in planes
layout(set = 0, binding = 4, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 5, std430) readonly buffer Params_buffer { uint params[]; };

shared float partial[17];
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
    const uint T = params[0];
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint col0 = gl_WorkGroupID.x * 16u;
    float acc[2];
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 32u;
    uint group = self / 32u;

    uint first = part;
    int difference = int(T) - 1;
    for (; first + 32u < 32u; first += 64u) {
        [[unroll]] for (uint n = 0u; n < 2u; ++n) {
            uint step_2 = first + n * 32u;
            uint block = step_2 / 4u;
            uint e = step_2 % 4u * 8u;
            uint k = block * 32u + e;
            vec4 a_strip[2];
            [[unroll]] for (uint t = 0u; t < 2u; ++t) {
                vec4 a4;
                vec4 add4 = add_vec4[(k + t * 4u + uint(max(min(difference, int(T) - 1), 0)) * 256u) / 4u];
                vec4 matmul4 = matmul_vec4[(k + t * 4u + uint(max(min(difference, int(T) - 1), 0)) * 256u) / 4u];
                vec4 norm_weight4 = norm_weight_vec4[(k + t * 4u) / 4u];
                [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                    a4[lane] = fmul(fadd(add4[lane], matmul4[lane]), norm_weight4[lane]);
                }
                a_strip[t] = a4;
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
    }
    for (; first < 32u; first += 32u) {
        uint block = first / 4u;
        uint e = first % 4u * 8u;
        uint k = block * 32u + e;
        vec4 a_strip[2];
        [[unroll]] for (uint t = 0u; t < 2u; ++t) {
            vec4 a4;
            vec4 add4 = add_vec4[(k + t * 4u + uint(max(min(difference, int(T) - 1), 0)) * 256u) / 4u];
            vec4 matmul4 = matmul_vec4[(k + t * 4u + uint(max(min(difference, int(T) - 1), 0)) * 256u) / 4u];
            vec4 norm_weight4 = norm_weight_vec4[(k + t * 4u) / 4u];
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                a4[lane] = fmul(fadd(add4[lane], matmul4[lane]), norm_weight4[lane]);
            }
            a_strip[t] = a4;
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

    bool upper16 = (gl_SubgroupInvocationID & 16u) != 0u;
    acc[0u] = (upper16 ? acc[1u] : acc[0u]) + subgroupShuffleXor(upper16 ? acc[0u] : acc[1u], 16u);
    acc[0u] += subgroupShuffleXor(acc[0u], 8u);
    acc[0u] += subgroupShuffleXor(acc[0u], 4u);
    acc[0u] += subgroupShuffleXor(acc[0u], 2u);
    acc[0u] += subgroupShuffleXor(acc[0u], 1u);
    if (gl_SubgroupInvocationID % 16u == 0u) {
        partial[group * 2u + gl_SubgroupInvocationID / 16u] = acc[0u];
    }

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    uint n = self;
    if (n < 64u) {
        vec4 add4 = add_vec4[(n * 4u + uint(max(min(difference, int(T) - 1), 0)) * 256u) / 4u];
        vec4 matmul4 = matmul_vec4[(n * 4u + uint(max(min(difference, int(T) - 1), 0)) * 256u) / 4u];
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            float sum = fadd(add4[lane], matmul4[lane]);
            sum_sq += sum * sum;
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

    if (self < 16u) {
        uint col = col0 + self;
        float sum = partial[self];
        float sum_sq_2 = sum_sq_parts[0u];
        for (uint p = 1u; p < 8u; ++p) {
            sum_sq_2 += sum_sq_parts[p];
        }
        result[col] = fmul(sum, inversesqrt_of_any(fadd(fmul(sum_sq_2, 0.00390625), 1e-05)));
    }
}

