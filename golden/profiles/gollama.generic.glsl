// ---- shader 0: k0_rms_norm

// rms_norm over [T], folding 256
// Fuses: embedding, rms_norm.
// Schedule: row_group wg=128 lanes=32 cache=8 vec=4.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Tokens_buffer { int tokens[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_vec4_buffer { vec4 weight_2_vec4[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared float lanes[128];

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
    uint local = gl_LocalInvocationID.x;
    uint thread = local % 32u;
    uint row_unlimited = gl_WorkGroupID.x * 4u + local / 32u;
    bool in_range = row_unlimited < T;
    uint row = min(row_unlimited, T - 1u);
    float kept_weight[8];

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    int tokens_row = tokens[row];
    [[unroll]] for (uint n = 0u; n < 2u; ++n) {
        uint j4 = n * 32u + thread;
        vec4 weight4 = decode4_weight(j4 * 4u + uint(clamp(tokens_row, 0, 4095)) * 256u);
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            kept_weight[n * 4u + lane] = weight4[lane];
            sum_sq += weight4[lane] * weight4[lane];
        }
    }
    lanes[local] = sum_sq;
    barrier();
    for (uint half_row = 16u; half_row > 0u; half_row >>= 1u) {
        if (thread < half_row) {
            sum_sq = sum_sq + lanes[local + half_row];
            lanes[local] = sum_sq;
        }
        barrier();
    }
    sum_sq = lanes[local - thread];

    // Store each element of the row.
    if (in_range) {
        float scale = inversesqrt_of_any(fadd(fmul(sum_sq, 0.00390625), 1e-05));
        [[unroll]] for (uint n = 0u; n < 2u; ++n) {
            uint j4 = n * 32u + thread;
            vec4 weight_24 = weight_2_vec4[j4];
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                result4[lane] = fmul(fmul(kept_weight[n * 4u + lane], scale), weight_24[lane]);
            }
            result_vec4[row * 64u + j4] = result4;
        }
    }
}

// ---- shader 1: k1_matmul

// matmul over [T,512], folding 256
// Fuses: matmul.
// Schedule: tile wg=128 tile=64x32x16 thread=4x4.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Rms_norm_vec4_buffer { vec4 rms_norm_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[320];
shared vec4 tile_b[160];

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
    uint col0 = gl_WorkGroupID.x * 32u;
    uint row0 = gl_WorkGroupID.y * 64u;
    float acc[16];
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        acc[i] = 0.0;
    }
    uint tx = self % 8u;
    uint ty = self / 8u;

    for (uint k0 = 0u; k0 < 256u; k0 += 16u) {
        // Stage 64 rows of a.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            uint row = min(row0 + line, T - 1u);
            uint k = k0 + quad * 4u;
            tile_a[line * 5u + quad] = rms_norm_vec4[(row * 256u + k) / 4u];
        }

        // Stage 32 columns of b.
        uint line = self / 4u;
        uint quad = self % 4u;
        uint col = col0 + line;
        uint k = k0 + quad * 4u;
        tile_b[line * 5u + quad] = decode4_weight(col * 256u + k);
        barrier();

        for (uint quad_2 = 0u; quad_2 < 4u; ++quad_2) {
            vec4 b_cols[4];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                b_cols[j] = tile_b[(tx + j * 8u) * 5u + quad_2];
            }
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                vec4 a_row = tile_a[(ty + i * 16u) * 5u + quad_2];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] = fma(a_row.x, b_cols[j].x, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.y, b_cols[j].y, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.z, b_cols[j].z, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.w, b_cols[j].w, acc[i * 4u + j]);
                }
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 + ty + i * 16u;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + tx + j * 8u;
            if (row < T) {
                result[row * 512u + col] = acc[i * 4u + j];
            }
        }
    }
}

// ---- shader 2: k1_matmul_4

// matmul over [T,512], folding 256
// Fuses: matmul.
// Schedule: matvec wg=64 rows=4x8 vec=4 run=8 lanes=16 whole.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Rms_norm_vec4_buffer { vec4 rms_norm_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

shared float partial[528];

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

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 8u;
    float acc[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 16u;
    uint group = self / 16u;

    for (uint step_2 = part; step_2 < 32u; step_2 += 16u) {
        uint block = step_2 / 4u;
        uint e = step_2 % 4u * 8u;
        uint k = block * 32u + e;
        uint b_at[2];
        float b_scale[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + (group * 2u + j);
            b_at[j] = col * 8u + block;
            float scale = scale_weight(b_at[j]);
            b_scale[j] = scale;
        }
        [[unroll]] for (uint t = 0u; t < 2u; ++t) {
            vec4 a_rows[4];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint row = min(i, T - 1u);
                a_rows[i] = rms_norm_vec4[(row * 256u + (k + t * 4u)) / 4u];
            }
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                vec4 b4 = b_scale[j] * bytes_signed(quants_weight(b_at[j], e | t * 4u));
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    acc[i * 2u + j] += dot(a_rows[i], b4);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            partial[part * 33u + i * 8u + (group * 2u + j)] = acc[i * 2u + j];
        }
    }
    barrier();

    if (self < 32u) {
        uint row = self / 8u;
        uint col = col0 + self % 8u;
        float sum = partial[self];
        for (uint p = 1u; p < 16u; ++p) {
            sum += partial[p * 33u + self];
        }
        if (row < T) {
            result[row * 512u + col] = sum;
        }
    }
}

// ---- shader 3: k2_rope

// rope over [1,T,64]
// Fuses: slice, reshape, transpose, rope.
// Schedule: map wg=128 vec=4 coarsen=4.
#version 430
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

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

// ---- shader 4: k3_rope

// rope over [1,T,64]
// Fuses: slice, reshape, transpose, rope.
// Schedule: map wg=128 vec=4 coarsen=2.
#version 430
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

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

// ---- shader 5: k4_attention

// attention over [1,2,2,T,64], folding T
// Fuses: slice, reshape, transpose, attention.
// Schedule: flash_tile wg=128 tile=32x32x16 thread=4x2 heads=1.
#version 430
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_integer_mix : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Rope_vec4_buffer { vec4 rope_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Rope_2_vec4_buffer { vec4 rope_2_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Matmul_vec4_buffer { vec4 matmul_vec4[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_q[160];
shared vec4 tile_k[160];
shared vec4 tile_v[256];
shared float weights[1056];
shared float partial[512];

// The device's own may give a number for NaN.
#define exp2(x) mix(exp2(x), x, isnan(x))

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
    uint self = gl_LocalInvocationIndex;
    uint query0 = ((T + 31u) / 32u - 1u - gl_WorkGroupID.x) * 32u;
    uint head = gl_WorkGroupID.y % 2u;
    uint group = gl_WorkGroupID.y / 2u;
    uint lane_of_row = self % 16u;
    uint row0 = self / 16u;
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

    [[dont_unroll]] for (uint key0 = 0u; key0 < keys; key0 += 32u) {
        float score[8];
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            score[i] = 0.0;
        }
        for (uint d0 = 0u; d0 < 64u; d0 += 16u) {
            // Stage queries and keys.
            uint line = self / 4u;
            uint quad = self % 4u;
            uint query = min(query0 + line, T - 1u);
            tile_q[line * 5u + quad] = rope_vec4[(group * T * 128u + head * T * 64u + query * 64u + (d0 + quad * 4u)) / 4u];
            uint line_2 = self / 4u;
            uint quad_2 = self % 4u;
            uint key = min(key0 + line_2, T - 1u);
            tile_k[line_2 * 5u + quad_2] = rope_2_vec4[(group * T * 64u + key * 64u + (d0 + quad_2 * 4u)) / 4u];
            barrier();

            for (uint quad_3 = 0u; quad_3 < 4u; ++quad_3) {
                vec4 keys4[2];
                [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                    keys4[j] = tile_k[(lane_of_row + j * 16u) * 5u + quad_3];
                }
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    vec4 query4 = tile_q[(row0 + i * 8u) * 5u + quad_3];
                    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                        score[i * 2u + j] = fma(query4.x, keys4[j].x, score[i * 2u + j]);
                        score[i * 2u + j] = fma(query4.y, keys4[j].y, score[i * 2u + j]);
                        score[i * 2u + j] = fma(query4.z, keys4[j].z, score[i * 2u + j]);
                        score[i * 2u + j] = fma(query4.w, keys4[j].w, score[i * 2u + j]);
                    }
                }
            }
            barrier();
        }

        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint row = row0 + i * 8u;
            best[i] = -INF;
            uint query = min(query0 + row, T - 1u);
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                uint key = key0 + (lane_of_row + j * 16u);
                float seen = score[i * 2u + j] * 0.18033688;
                score[i * 2u + j] = key < query + 1u ? seen : -INF;
                best[i] = max(best[i], score[i * 2u + j]);
            }
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            partial[(row0 + i * 8u) * 16u + lane_of_row] = best[i];
        }
        barrier();
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            best[i] = partial[(row0 + i * 8u) * 16u];
            for (uint other = 1u; other < 16u; ++other) {
                best[i] = max(best[i], partial[(row0 + i * 8u) * 16u + other]);
            }
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
            uint row = row0 + i * 8u;
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                float weight = exp2(score[i * 2u + j] - shift);
                total[i] += weight;
                weights[row * 33u + (lane_of_row + j * 16u)] = weight;
            }
        }

        for (uint v0 = 0u; v0 < 32u; v0 += 16u) {
            // Stage values.
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                uint slot = self + i * 128u;
                uint line = slot / 16u;
                uint quad = slot % 16u;
                uint key = key0 + v0 + line;
                tile_v[line * 16u + quad] = vec4(0.0);
                if (key < keys) {
                    tile_v[line * 16u + quad] = matmul_vec4[(group * 64u + quad * 4u + key * 512u + 384u) / 4u];
                }
            }
            barrier();

            for (uint line = 0u; line < 16u; ++line) {
                vec4 values4;
                values4 = tile_v[line * 16u + lane_of_row];
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    float weight = weights[(row0 + i * 8u) * 33u + v0 + line];
                    sums[i] += weight * values4;
                }
            }
            barrier();
        }
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        partial[(row0 + i * 8u) * 16u + lane_of_row] = total[i];
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        total[i] = partial[(row0 + i * 8u) * 16u];
        for (uint other = 1u; other < 16u; ++other) {
            total[i] = total[i] + partial[(row0 + i * 8u) * 16u + other];
        }
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 + i * 8u;
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

// ---- shader 6: k5_matmul_add

// matmul_add over [T,256], folding 256
// Fuses: embedding, transpose, reshape, matmul, add.
// Schedule: tile wg=128 tile=64x32x16 thread=4x4.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Attention_vec4_buffer { vec4 attention_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Tokens_buffer { int tokens[]; };
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_shorts_buffer { uint16_t weight_2_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_words_buffer { uint weight_2_words[]; }; // q8_0 in planes
layout(set = 0, binding = 4, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 5, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[320];
shared vec4 tile_b[160];

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
    uint row0 = gl_WorkGroupID.y * 64u;
    float acc[16];
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        acc[i] = 0.0;
    }
    uint tx = self % 8u;
    uint ty = self / 8u;

    for (uint k0 = 0u; k0 < 256u; k0 += 16u) {
        // Stage 64 rows of a.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            uint row = min(row0 + line, T - 1u);
            uint k = k0 + quad * 4u;
            tile_a[line * 5u + quad] = attention_vec4[(k % 64u + k / 64u * T * 64u + row * 64u) / 4u];
        }

        // Stage 32 columns of b.
        uint line = self / 4u;
        uint quad = self % 4u;
        uint col = col0 + line;
        uint k = k0 + quad * 4u;
        tile_b[line * 5u + quad] = decode4_weight(col * 256u + k);
        barrier();

        for (uint quad_2 = 0u; quad_2 < 4u; ++quad_2) {
            vec4 b_cols[4];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                b_cols[j] = tile_b[(tx + j * 8u) * 5u + quad_2];
            }
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                vec4 a_row = tile_a[(ty + i * 16u) * 5u + quad_2];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] = fma(a_row.x, b_cols[j].x, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.y, b_cols[j].y, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.z, b_cols[j].z, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.w, b_cols[j].w, acc[i * 4u + j]);
                }
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 + ty + i * 16u;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + tx + j * 8u;
            if (row < T) {
                result[row * 256u + col] = fadd(decode_weight_2(col + uint(clamp(tokens[row], 0, 4095)) * 256u), acc[i * 4u + j]);
            }
        }
    }
}

// ---- shader 7: k5_matmul_add_4

// matmul_add over [T,256], folding 256
// Fuses: embedding, transpose, reshape, matmul, add.
// Schedule: matvec wg=64 rows=4x8 vec=4 run=8 lanes=16 whole.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Attention_vec4_buffer { vec4 attention_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Tokens_buffer { int tokens[]; };
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_shorts_buffer { uint16_t weight_2_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 3, std430) readonly buffer Weight_2_words_buffer { uint weight_2_words[]; }; // q8_0 in planes
layout(set = 0, binding = 4, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 5, std430) readonly buffer Params_buffer { uint params[]; };

shared float partial[528];

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
    float acc[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 16u;
    uint group = self / 16u;

    for (uint step_2 = part; step_2 < 32u; step_2 += 16u) {
        uint block = step_2 / 4u;
        uint e = step_2 % 4u * 8u;
        uint k = block * 32u + e;
        uint b_at[2];
        float b_scale[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + (group * 2u + j);
            b_at[j] = col * 8u + block;
            float scale = scale_weight(b_at[j]);
            b_scale[j] = scale;
        }
        [[unroll]] for (uint t = 0u; t < 2u; ++t) {
            vec4 a_rows[4];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint row = min(i, T - 1u);
                a_rows[i] = attention_vec4[((k + t * 4u) % 64u + (k + t * 4u) / 64u * T * 64u + row * 64u) / 4u];
            }
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                vec4 b4 = b_scale[j] * bytes_signed(quants_weight(b_at[j], e | t * 4u));
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    acc[i * 2u + j] += dot(a_rows[i], b4);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            partial[part * 33u + i * 8u + (group * 2u + j)] = acc[i * 2u + j];
        }
    }
    barrier();

    if (self < 32u) {
        uint row = self / 8u;
        uint col = col0 + self % 8u;
        float sum = partial[self];
        for (uint p = 1u; p < 16u; ++p) {
            sum += partial[p * 33u + self];
        }
        if (row < T) {
            result[row * 256u + col] = fadd(decode_weight_2(col + uint(clamp(tokens[row], 0, 4095)) * 256u), sum);
        }
    }
}

// ---- shader 8: k6_rms_norm

// rms_norm over [T], folding 256
// Fuses: rms_norm.
// Schedule: row_group wg=128 lanes=32 cache=8 vec=4.
#version 430
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Add_vec4_buffer { vec4 add_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

shared float lanes[128];

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
    uint local = gl_LocalInvocationID.x;
    uint thread = local % 32u;
    uint row_unlimited = gl_WorkGroupID.x * 4u + local / 32u;
    bool in_range = row_unlimited < T;
    uint row = min(row_unlimited, T - 1u);
    float kept_add[8];

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    [[unroll]] for (uint n = 0u; n < 2u; ++n) {
        uint j4 = n * 32u + thread;
        vec4 add4 = add_vec4[row * 64u + j4];
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            kept_add[n * 4u + lane] = add4[lane];
            sum_sq += add4[lane] * add4[lane];
        }
    }
    lanes[local] = sum_sq;
    barrier();
    for (uint half_row = 16u; half_row > 0u; half_row >>= 1u) {
        if (thread < half_row) {
            sum_sq = sum_sq + lanes[local + half_row];
            lanes[local] = sum_sq;
        }
        barrier();
    }
    sum_sq = lanes[local - thread];

    // Store each element of the row.
    if (in_range) {
        float scale = inversesqrt_of_any(fadd(fmul(sum_sq, 0.00390625), 1e-05));
        [[unroll]] for (uint n = 0u; n < 2u; ++n) {
            uint j4 = n * 32u + thread;
            vec4 weight4 = weight_vec4[j4];
            vec4 result4;
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                result4[lane] = fmul(fmul(kept_add[n * 4u + lane], scale), weight4[lane]);
            }
            result_vec4[row * 64u + j4] = result4;
        }
    }
}

// ---- shader 9: k7_matmul_mul

// matmul_mul over [T,768], folding 256
// Fuses: matmul, matmul, silu, mul.
// Schedule: tile wg=128 tile=64x32x16 thread=4x4.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_integer_mix : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Rms_norm_vec4_buffer { vec4 rms_norm_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_shorts_buffer { uint16_t weight_2_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_words_buffer { uint weight_2_words[]; }; // q8_0 in planes
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[320];
shared vec4 tile_b0[160];
shared vec4 tile_b1[160];

// The device's own may give a number for NaN.
#define exp(x) mix(exp(x), x, isnan(x))

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
    uint row0 = gl_WorkGroupID.y * 64u;
    float acc0[16];
    float acc1[16];
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        acc0[i] = 0.0;
        acc1[i] = 0.0;
    }
    uint tx = self % 8u;
    uint ty = self / 8u;

    for (uint k0 = 0u; k0 < 256u; k0 += 16u) {
        // Stage 64 rows of a.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            uint row = min(row0 + line, T - 1u);
            uint k = k0 + quad * 4u;
            tile_a[line * 5u + quad] = rms_norm_vec4[(row * 256u + k) / 4u];
        }

        // Stage 32 columns of b0.
        uint line = self / 4u;
        uint quad = self % 4u;
        uint col = col0 + line;
        uint k = k0 + quad * 4u;
        tile_b0[line * 5u + quad] = decode4_weight(col * 256u + k);

        // Stage 32 columns of b1.
        uint line_2 = self / 4u;
        uint quad_2 = self % 4u;
        uint col_2 = col0 + line_2;
        uint k_2 = k0 + quad_2 * 4u;
        tile_b1[line_2 * 5u + quad_2] = decode4_weight_2(col_2 * 256u + k_2);
        barrier();

        for (uint quad_3 = 0u; quad_3 < 4u; ++quad_3) {
            vec4 b0_cols[4];
            vec4 b1_cols[4];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                b0_cols[j] = tile_b0[(tx + j * 8u) * 5u + quad_3];
                b1_cols[j] = tile_b1[(tx + j * 8u) * 5u + quad_3];
            }
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                vec4 a_row = tile_a[(ty + i * 16u) * 5u + quad_3];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc0[i * 4u + j] = fma(a_row.x, b0_cols[j].x, acc0[i * 4u + j]);
                    acc0[i * 4u + j] = fma(a_row.y, b0_cols[j].y, acc0[i * 4u + j]);
                    acc0[i * 4u + j] = fma(a_row.z, b0_cols[j].z, acc0[i * 4u + j]);
                    acc0[i * 4u + j] = fma(a_row.w, b0_cols[j].w, acc0[i * 4u + j]);
                    acc1[i * 4u + j] = fma(a_row.x, b1_cols[j].x, acc1[i * 4u + j]);
                    acc1[i * 4u + j] = fma(a_row.y, b1_cols[j].y, acc1[i * 4u + j]);
                    acc1[i * 4u + j] = fma(a_row.z, b1_cols[j].z, acc1[i * 4u + j]);
                    acc1[i * 4u + j] = fma(a_row.w, b1_cols[j].w, acc1[i * 4u + j]);
                }
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 + ty + i * 16u;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + tx + j * 8u;
            if (row < T) {
                result[row * 768u + col] = fmul(fdiv(acc0[i * 4u + j], fadd(1.0, exp(-acc0[i * 4u + j]))), acc1[i * 4u + j]);
            }
        }
    }
}

// ---- shader 10: k7_matmul_mul_16

// matmul_mul over [T,768], folding 256
// Fuses: matmul, matmul, silu, mul.
// Schedule: matvec wg=64 rows=8x8 vec=4 run=8 lanes=16 whole.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_integer_mix : require

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Rms_norm_vec4_buffer { vec4 rms_norm_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_shorts_buffer { uint16_t weight_2_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Weight_2_words_buffer { uint weight_2_words[]; }; // q8_0 in planes
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared float partial0[1040];
shared float partial1[1040];

// The device's own may give a number for NaN.
#define exp(x) mix(exp(x), x, isnan(x))

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

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 8u;
    uint row0 = gl_WorkGroupID.y * 8u;
    float acc0[16];
    float acc1[16];
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        acc0[i] = 0.0;
        acc1[i] = 0.0;
    }
    uint part = self % 16u;
    uint group = self / 16u;

    for (uint step_2 = part; step_2 < 32u; step_2 += 16u) {
        uint block = step_2 / 4u;
        uint e = step_2 % 4u * 8u;
        uint k = block * 32u + e;
        uint b0_at[2];
        float b0_scale[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + (group * 2u + j);
            b0_at[j] = col * 8u + block;
            float scale = scale_weight(b0_at[j]);
            b0_scale[j] = scale;
        }
        uint b1_at[2];
        float b1_scale[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + (group * 2u + j);
            b1_at[j] = col * 8u + block;
            float scale = scale_weight_2(b1_at[j]);
            b1_scale[j] = scale;
        }
        [[unroll]] for (uint t = 0u; t < 2u; ++t) {
            vec4 a_rows[8];
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                uint row = min(row0 + i, T - 1u);
                a_rows[i] = rms_norm_vec4[(row * 256u + (k + t * 4u)) / 4u];
            }
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                vec4 b0_4 = b0_scale[j] * bytes_signed(quants_weight(b0_at[j], e | t * 4u));
                vec4 b1_4 = b1_scale[j] * bytes_signed(quants_weight_2(b1_at[j], e | t * 4u));
                [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                    acc0[i * 2u + j] += dot(a_rows[i], b0_4);
                    acc1[i * 2u + j] += dot(a_rows[i], b1_4);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            partial0[part * 65u + i * 8u + (group * 2u + j)] = acc0[i * 2u + j];
            partial1[part * 65u + i * 8u + (group * 2u + j)] = acc1[i * 2u + j];
        }
    }
    barrier();

    uint row = row0 + self / 8u;
    uint col = col0 + self % 8u;
    float sum0 = partial0[self];
    float sum1 = partial1[self];
    for (uint p = 1u; p < 16u; ++p) {
        sum0 += partial0[p * 65u + self];
        sum1 += partial1[p * 65u + self];
    }
    if (row < T) {
        result[row * 768u + col] = fmul(fdiv(sum0, fadd(1.0, exp(-sum0))), sum1);
    }
}

// ---- shader 11: k8_matmul_add

// matmul_add over [T,256], folding 768
// Fuses: matmul, add.
// Schedule: tile wg=128 tile=64x32x16 thread=4x4.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Mul_vec4_buffer { vec4 mul_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Add_buffer { float add[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[320];
shared vec4 tile_b[160];

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
    uint col0 = gl_WorkGroupID.x * 32u;
    uint row0 = gl_WorkGroupID.y * 64u;
    float acc[16];
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        acc[i] = 0.0;
    }
    uint tx = self % 8u;
    uint ty = self / 8u;

    for (uint k0 = 0u; k0 < 768u; k0 += 16u) {
        // Stage 64 rows of a.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            uint row = min(row0 + line, T - 1u);
            uint k = k0 + quad * 4u;
            tile_a[line * 5u + quad] = mul_vec4[(row * 768u + k) / 4u];
        }

        // Stage 32 columns of b.
        uint line = self / 4u;
        uint quad = self % 4u;
        uint col = col0 + line;
        uint k = k0 + quad * 4u;
        tile_b[line * 5u + quad] = decode4_weight(col * 768u + k);
        barrier();

        for (uint quad_2 = 0u; quad_2 < 4u; ++quad_2) {
            vec4 b_cols[4];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                b_cols[j] = tile_b[(tx + j * 8u) * 5u + quad_2];
            }
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                vec4 a_row = tile_a[(ty + i * 16u) * 5u + quad_2];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] = fma(a_row.x, b_cols[j].x, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.y, b_cols[j].y, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.z, b_cols[j].z, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.w, b_cols[j].w, acc[i * 4u + j]);
                }
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 + ty + i * 16u;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + tx + j * 8u;
            if (row < T) {
                uint at = row * 256u + col;
                result[at] = fadd(add[at], acc[i * 4u + j]);
            }
        }
    }
}

// ---- shader 12: k8_matmul_add_4

// matmul_add over [T,256], folding 768
// Fuses: matmul, add.
// Schedule: matvec wg=64 rows=4x8 vec=4 run=8 lanes=16 whole.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Mul_vec4_buffer { vec4 mul_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Add_buffer { float add[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared float partial[528];

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
    return weight_words[3072u + block * 8u + (at - 2u) / 4u];
}

// Four neighbours from element e on, a byte each.
uint quants_weight(uint block, uint e) {
    return word_weight_quants(block, 2u + e);
}

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 8u;
    float acc[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 16u;
    uint group = self / 16u;

    for (uint step_2 = part; step_2 < 96u; step_2 += 16u) {
        uint block = step_2 / 4u;
        uint e = step_2 % 4u * 8u;
        uint k = block * 32u + e;
        uint b_at[2];
        float b_scale[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + (group * 2u + j);
            b_at[j] = col * 24u + block;
            float scale = scale_weight(b_at[j]);
            b_scale[j] = scale;
        }
        [[unroll]] for (uint t = 0u; t < 2u; ++t) {
            vec4 a_rows[4];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint row = min(i, T - 1u);
                a_rows[i] = mul_vec4[(row * 768u + (k + t * 4u)) / 4u];
            }
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                vec4 b4 = b_scale[j] * bytes_signed(quants_weight(b_at[j], e | t * 4u));
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    acc[i * 2u + j] += dot(a_rows[i], b4);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            partial[part * 33u + i * 8u + (group * 2u + j)] = acc[i * 2u + j];
        }
    }
    barrier();

    if (self < 32u) {
        uint row = self / 8u;
        uint col = col0 + self % 8u;
        float sum = partial[self];
        for (uint p = 1u; p < 16u; ++p) {
            sum += partial[p * 33u + self];
        }
        if (row < T) {
            uint at = row * 256u + col;
            result[at] = fadd(add[at], sum);
        }
    }
}

// ---- shader 13: k14_matmul_add

// matmul_add over [T,256], folding 256
// Fuses: transpose, reshape, matmul, add.
// Schedule: tile wg=128 tile=64x32x16 thread=4x4.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Attention_vec4_buffer { vec4 attention_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Add_buffer { float add[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[320];
shared vec4 tile_b[160];

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
    uint row0 = gl_WorkGroupID.y * 64u;
    float acc[16];
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        acc[i] = 0.0;
    }
    uint tx = self % 8u;
    uint ty = self / 8u;

    for (uint k0 = 0u; k0 < 256u; k0 += 16u) {
        // Stage 64 rows of a.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            uint row = min(row0 + line, T - 1u);
            uint k = k0 + quad * 4u;
            tile_a[line * 5u + quad] = attention_vec4[(k % 64u + k / 64u * T * 64u + row * 64u) / 4u];
        }

        // Stage 32 columns of b.
        uint line = self / 4u;
        uint quad = self % 4u;
        uint col = col0 + line;
        uint k = k0 + quad * 4u;
        tile_b[line * 5u + quad] = decode4_weight(col * 256u + k);
        barrier();

        for (uint quad_2 = 0u; quad_2 < 4u; ++quad_2) {
            vec4 b_cols[4];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                b_cols[j] = tile_b[(tx + j * 8u) * 5u + quad_2];
            }
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                vec4 a_row = tile_a[(ty + i * 16u) * 5u + quad_2];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] = fma(a_row.x, b_cols[j].x, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.y, b_cols[j].y, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.z, b_cols[j].z, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.w, b_cols[j].w, acc[i * 4u + j]);
                }
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 + ty + i * 16u;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + tx + j * 8u;
            if (row < T) {
                uint at = row * 256u + col;
                result[at] = fadd(add[at], acc[i * 4u + j]);
            }
        }
    }
}

// ---- shader 14: k14_matmul_add_4

// matmul_add over [T,256], folding 256
// Fuses: transpose, reshape, matmul, add.
// Schedule: matvec wg=64 rows=4x8 vec=4 run=8 lanes=16 whole.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Attention_vec4_buffer { vec4 attention_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) readonly buffer Add_buffer { float add[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared float partial[528];

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

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 8u;
    float acc[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 16u;
    uint group = self / 16u;

    for (uint step_2 = part; step_2 < 32u; step_2 += 16u) {
        uint block = step_2 / 4u;
        uint e = step_2 % 4u * 8u;
        uint k = block * 32u + e;
        uint b_at[2];
        float b_scale[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + (group * 2u + j);
            b_at[j] = col * 8u + block;
            float scale = scale_weight(b_at[j]);
            b_scale[j] = scale;
        }
        [[unroll]] for (uint t = 0u; t < 2u; ++t) {
            vec4 a_rows[4];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint row = min(i, T - 1u);
                a_rows[i] = attention_vec4[((k + t * 4u) % 64u + (k + t * 4u) / 64u * T * 64u + row * 64u) / 4u];
            }
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                vec4 b4 = b_scale[j] * bytes_signed(quants_weight(b_at[j], e | t * 4u));
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    acc[i * 2u + j] += dot(a_rows[i], b4);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            partial[part * 33u + i * 8u + (group * 2u + j)] = acc[i * 2u + j];
        }
    }
    barrier();

    if (self < 32u) {
        uint row = self / 8u;
        uint col = col0 + self % 8u;
        float sum = partial[self];
        for (uint p = 1u; p < 16u; ++p) {
            sum += partial[p * 33u + self];
        }
        if (row < T) {
            uint at = row * 256u + col;
            result[at] = fadd(add[at], sum);
        }
    }
}

// ---- shader 15: k71_matmul

// matmul over [T,256], folding 768
// Fuses: matmul.
// Schedule: tile wg=128 tile=64x32x16 thread=4x4.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Mul_vec4_buffer { vec4 mul_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

shared vec4 tile_a[320];
shared vec4 tile_b[160];

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
    uint col0 = gl_WorkGroupID.x * 32u;
    uint row0 = gl_WorkGroupID.y * 64u;
    float acc[16];
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        acc[i] = 0.0;
    }
    uint tx = self % 8u;
    uint ty = self / 8u;

    for (uint k0 = 0u; k0 < 768u; k0 += 16u) {
        // Stage 64 rows of a.
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint slot = self + i * 128u;
            uint line = slot / 4u;
            uint quad = slot % 4u;
            uint row = min(row0 + line, T - 1u);
            uint k = k0 + quad * 4u;
            tile_a[line * 5u + quad] = mul_vec4[(row * 768u + k) / 4u];
        }

        // Stage 32 columns of b.
        uint line = self / 4u;
        uint quad = self % 4u;
        uint col = col0 + line;
        uint k = k0 + quad * 4u;
        tile_b[line * 5u + quad] = decode4_weight(col * 768u + k);
        barrier();

        for (uint quad_2 = 0u; quad_2 < 4u; ++quad_2) {
            vec4 b_cols[4];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                b_cols[j] = tile_b[(tx + j * 8u) * 5u + quad_2];
            }
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                vec4 a_row = tile_a[(ty + i * 16u) * 5u + quad_2];
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    acc[i * 4u + j] = fma(a_row.x, b_cols[j].x, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.y, b_cols[j].y, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.z, b_cols[j].z, acc[i * 4u + j]);
                    acc[i * 4u + j] = fma(a_row.w, b_cols[j].w, acc[i * 4u + j]);
                }
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint row = row0 + ty + i * 16u;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = col0 + tx + j * 8u;
            if (row < T) {
                result[row * 256u + col] = acc[i * 4u + j];
            }
        }
    }
}

// ---- shader 16: k71_matmul_4

// matmul over [T,256], folding 768
// Fuses: matmul.
// Schedule: matvec wg=64 rows=4x8 vec=4 run=8 lanes=16 whole.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Mul_vec4_buffer { vec4 mul_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_words_buffer { uint weight_words[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Params_buffer { uint params[]; };

shared float partial[528];

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

void main() {
    const uint T = params[0];
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 8u;
    float acc[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 16u;
    uint group = self / 16u;

    for (uint step_2 = part; step_2 < 96u; step_2 += 16u) {
        uint block = step_2 / 4u;
        uint e = step_2 % 4u * 8u;
        uint k = block * 32u + e;
        uint b_at[2];
        float b_scale[2];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint col = col0 + (group * 2u + j);
            b_at[j] = col * 24u + block;
            float scale = scale_weight(b_at[j]);
            b_scale[j] = scale;
        }
        [[unroll]] for (uint t = 0u; t < 2u; ++t) {
            vec4 a_rows[4];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint row = min(i, T - 1u);
                a_rows[i] = mul_vec4[(row * 768u + (k + t * 4u)) / 4u];
            }
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                vec4 b4 = b_scale[j] * bytes_signed(quants_weight(b_at[j], e | t * 4u));
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    acc[i * 2u + j] += dot(a_rows[i], b4);
                }
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            partial[part * 33u + i * 8u + (group * 2u + j)] = acc[i * 2u + j];
        }
    }
    barrier();

    if (self < 32u) {
        uint row = self / 8u;
        uint col = col0 + self % 8u;
        float sum = partial[self];
        for (uint p = 1u; p < 16u; ++p) {
            sum += partial[p * 33u + self];
        }
        if (row < T) {
            result[row * 256u + col] = sum;
        }
    }
}

// ---- shader 17: k72_rms_norm

// rms_norm over [], folding 256
// Fuses: add, sub, reshape, index_select, rms_norm.
// Schedule: row_group wg=128 lanes=64 cache=4 vec=4.
#version 430
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer Add_vec4_buffer { vec4 add_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Matmul_vec4_buffer { vec4 matmul_vec4[]; };
layout(set = 0, binding = 2, std430) readonly buffer Weight_vec4_buffer { vec4 weight_vec4[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

shared float lanes[128];

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
    uint local = gl_LocalInvocationID.x;
    uint thread = local % 64u;
    float kept_sum[4];

    // sum_sq: sum over the row.
    float sum_sq = 0.0;
    vec4 add4 = add_vec4[thread + uint(max(min(int(T) - 1, int(T) - 1), 0)) * 64u];
    vec4 matmul4 = matmul_vec4[thread + uint(max(min(int(T) - 1, int(T) - 1), 0)) * 64u];
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        float sum = fadd(add4[lane], matmul4[lane]);
        kept_sum[lane] = sum;
        sum_sq += sum * sum;
    }
    lanes[local] = sum_sq;
    barrier();
    for (uint half_row = 32u; half_row > 0u; half_row >>= 1u) {
        if (thread < half_row) {
            sum_sq = sum_sq + lanes[local + half_row];
            lanes[local] = sum_sq;
        }
        barrier();
    }
    sum_sq = lanes[local - thread];

    // Store each element of the row.
    float scale = inversesqrt_of_any(fadd(fmul(sum_sq, 0.00390625), 1e-05));
    vec4 weight4 = weight_vec4[thread];
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        result4[lane] = fmul(fmul(kept_sum[lane], scale), weight4[lane]);
    }
    result_vec4[thread] = result4;
}

// ---- shader 18: k73_matmul

// matmul over [1,4096], folding 256
// Fuses: matmul, reshape.
// Schedule: matvec wg=64 rows=1x8 vec=4 run=8 lanes=16 strips chained.
#version 430
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Rms_norm_vec4_buffer { vec4 rms_norm_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_shorts_buffer { uint16_t weight_shorts[]; }; // q8_0 in planes
layout(set = 0, binding = 1, std430) readonly buffer Weight_pairs_buffer { uvec2 weight_pairs[]; }; // q8_0 in planes
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };

shared float partial[144];

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
    uint self = gl_LocalInvocationIndex;
    uint col0 = gl_WorkGroupID.x * 8u;
    float acc[2];
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        acc[i] = 0.0;
    }
    uint part = self % 16u;
    uint group = self / 16u;

    for (uint step_2 = part; step_2 < 32u; step_2 += 16u) {
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

    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        partial[part * 9u + (group * 2u + j)] = acc[j];
    }
    barrier();

    if (self < 8u) {
        uint col = col0 + self;
        float sum = partial[self];
        for (uint p = 1u; p < 16u; ++p) {
            sum += partial[p * 9u + self];
        }
        result[col] = sum;
    }
}

