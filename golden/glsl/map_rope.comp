// rope over [T,3,48]
// Fuses: rope.
// Schedule: map wg=256 vec=4 turns=2.
#version 450
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Q_buffer { float16_t q[]; }; // f16
layout(set = 0, binding = 0, std430) readonly buffer Q_vec4_buffer { f16vec4 q_vec4[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer Positions_buffer { int positions[]; };
layout(set = 0, binding = 2, std430) readonly buffer Const_data_buffer { uint const_data[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { f16vec4 result_vec4[]; }; // f16
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

#define NAN uintBitsToFloat(0x7fc00000u)

// x less the nearest multiple of pi/2 (Payne and Hanek 1983): the mantissa
// times the bits of 2/pi from its exponent on, of which 62 stand behind the
// quadrant. Integers, because float optimizers tend to undo such reductions.
float reduce_half_pi(float x, out int quadrant) {
    const uint two_over_pi[8] = uint[8](0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau);
    quadrant = 0;
    if (!(abs(x) > 0.78539816)) return x;
    uint bits = floatBitsToUint(x), mantissa = bits << 8 | 0x80000000u;
    uint exponent = (bits >> 23 & 0xffu) - 126u, i = exponent >> 5, shift = exponent & 31u;
    uint a = two_over_pi[i], b = two_over_pi[i + 1u], c = two_over_pi[i + 2u], d = two_over_pi[i + 3u];
    a = a << shift | b >> 1 >> 31u - shift;
    b = b << shift | c >> 1 >> 31u - shift;
    c = c << shift | d >> 1 >> 31u - shift;
    uint high, low, carry, rest;
    umulExtended(mantissa, c, carry, rest);
    umulExtended(mantissa, b, high, low);
    low = uaddCarry(low, carry, carry);
    high += mantissa * a + carry;
    quadrant = int(high >> 30);
    high &= 0x3fffffffu;
    bool below = high >= 0x20000000u; // the next multiple is nearer
    if (below) {
        ++quadrant;
        low = -low;
        high = 0x3fffffffu - high + (low == 0u ? 1u : 0u);
    }
    float r = (float(high) * 4294967296.0 + float(low)) * 3.4061216e-19;
    if (x < 0.0) quadrant = -quadrant;
    quadrant &= 3;
    return below != x < 0.0 ? -r : r;
}

// On [-pi/4, pi/4] (Moshier, Cephes sinf.c).
float sin_reduced(float x) {
    float z = x * x;
    return ((-1.9515296e-4 * z + 8.332161e-3) * z - 0.16666655) * z * x + x;
}

// On [-pi/4, pi/4] (Moshier, Cephes sinf.c).
float cos_reduced(float x) {
    float z = x * x;
    return ((2.4433157e-5 * z - 1.3887316e-3) * z + 4.1666646e-2) * z * z - 0.5 * z + 1.0;
}

float sin_accurate(float x) {
    if (isinf(x)) return NAN;
    int quadrant;
    float r = reduce_half_pi(x, quadrant);
    float s = (quadrant & 1) == 0 ? sin_reduced(r) : cos_reduced(r);
    return quadrant < 2 ? s : -s;
}

float cos_accurate(float x) {
    if (isinf(x)) return NAN;
    int quadrant;
    float r = reduce_half_pi(x, quadrant);
    float c = (quadrant & 1) == 0 ? cos_reduced(r) : sin_reduced(r);
    return quadrant == 0 || quadrant == 3 ? c : -c;
}

void main() {
    const uint T = params[0];
    uint id = gl_GlobalInvocationID.x;
    if (id >= T * 36u) return;
    uint col4 = id % 12u;
    uint row = id / 12u % 3u;
    uint batch = id / 36u;
    float kept_where[4];
    float kept_where_2[4];
    int positions_batch = positions[batch];
    uint cast_batch = uint(positions_batch);
    float cast_batch_2 = float(positions_batch);
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        uint col = col4 * 4u + lane;
        uint col_quotient = col / 2u;
        uint turn = cast_batch * const_data[col_quotient * 2u];
        uint quadrant = turn + 536870912u >> 30u;
        bool ne = (quadrant & 1u) != 0u;
        float angle = float(int(turn << 2u)) * 3.6572953e-10 + cast_batch_2 * float(const_data[col_quotient * 2u + 1u]) * 3.4061217e-19;
        float sin_col = sin_accurate(angle);
        float cos_col = cos_accurate(angle);
        float where = ne ? sin_col : cos_col;
        float where_2 = ne ? cos_col : sin_col;
        float where_3 = (quadrant & 2u) != 0u ? -where_2 : where_2;
        kept_where[lane] = (quadrant + 1u & 2u) != 0u ? -where : where;
        kept_where_2[lane] = int(col % 2u) != 0 ? where_3 : -where_3;
    }
    [[unroll]] for (uint turn = 0u; turn < 2u; ++turn) {
        vec4 q4 = vec4(q_vec4[batch * 72u + row * 24u + col4 + turn * 12u]);
        vec4 result4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            uint col = col4 * 4u + lane;
            float q_turn = float(q[col / 2u * 2u + batch * 288u + row * 96u + turn * 48u + 1u - col % 2u]);
            result4[lane] = q4[lane] * kept_where[lane] + q_turn * kept_where_2[lane];
        }
        result_vec4[batch * 72u + row * 24u + col4 + turn * 12u] = f16vec4(result4);
    }
}
