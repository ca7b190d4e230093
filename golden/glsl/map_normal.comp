// random_normal over [1000]
// Fuses: random_normal.
// Schedule: map wg=64 vec=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_integer_mix : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Seed_buffer { uint seed[]; };
layout(set = 0, binding = 1, std430) readonly buffer Offset_buffer { uint offset[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_vec4_buffer { f16vec4 result_vec4[]; }; // f16

#define INF uintBitsToFloat(0x7f800000u)

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

// log(1 + x), near 0 as 2 atanh(x / (2 + x)). Vulkan leaves log undefined for x <= -1.
float log1p(float x) {
    if (x <= -1.0) return x < -1.0 ? NAN : -INF;
    if (!(x > -0.3 && x < 0.42)) return log(1.0 + x);
    float s = x / (2.0 + x), z = s * s;
    return 2.0 * s * ((((z * 0.11111111 + 0.14285715) * z + 0.2) * z + 0.33333334) * z + 1.0);
}

// x minus the nearest multiple of pi/2 (Payne and Hanek 1983). The mantissa is multiplied by the bits of 2/pi from its
// exponent on; 62 of these bits come after the quadrant. Integers are used because float optimizers tend to undo such
// reductions. The words of 2/pi are selected, because some drivers keep an array in slow memory.
float reduce_half_pi(float x, out int quadrant) {
    quadrant = 0;
    if (!(abs(x) > 0.78539816)) return x;
    uint bits = floatBitsToUint(x), mantissa = bits << 8 | 0x80000000u;
    uint exponent = (bits >> 23 & 0xffu) - 126u, i = exponent >> 5, shift = exponent & 31u;
    uvec4 words = uvec4(0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u); // from word i on, which is at most 4
    words = mix(words, uvec4(words.yzw, 0x7d4d3770u), bvec4(i > 0u));
    words = mix(words, uvec4(words.yzw, 0x36d8a566u), bvec4(i > 1u));
    words = mix(words, uvec4(words.yzw, 0x4f10e410u), bvec4(i > 2u));
    words = mix(words, uvec4(words.yzw, 0x7f9458eau), bvec4(i > 3u));
    uvec3 digits = words.xyz << shift | words.yzw >> 1 >> 31u - shift;
    uint high, low, carry, rest;
    umulExtended(mantissa, digits.z, carry, rest);
    umulExtended(mantissa, digits.y, high, low);
    low = uaddCarry(low, carry, carry);
    high += mantissa * digits.x + carry;
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

float sin_accurate(float x) {
    if (isinf(x)) return NAN;
    int quadrant;
    float r = reduce_half_pi(x, quadrant);
    float s = (quadrant & 1) == 0 ? sin_reduced(r) : cos_reduced(r);
    return quadrant < 2 ? s : -s;
}

// Four random words: block offset + block of the stream of a seed, by
// Philox-4x32 with 10 rounds (Salmon et al. 2011).
uvec4 random_block(uvec2 seed, uvec2 offset, uint block) {
    uint carry, high, low, high2, low2;
    uvec4 words = uvec4(uaddCarry(offset.x, block, carry), 0u, 0u, 0u);
    words.y = offset.y + carry;
    for (int i = 0; i < 10; ++i) {
        umulExtended(0xd2511f53u, words.x, high, low);
        umulExtended(0xcd9e8d57u, words.z, high2, low2);
        words = uvec4(high2 ^ words.y ^ seed.x, low2, high ^ words.w ^ seed.y, low);
        seed += uvec2(0x9e3779b9u, 0xbb67ae85u);
    }
    return words;
}

// A number that a conversion has rounded. Some drivers remove a conversion and the conversion back, but they do not
// remove halving and doubling. For the smallest numbers halving would lose a digit.
float converted(const float x) {
    precise float by_half = x * 0.5;
    precise float doubled = by_half * 2.0;
    return abs(x) < 4.7019774e-38 ? x : doubled;
}

void main() {
    uint i4 = gl_GlobalInvocationID.x;
    if (i4 >= 250u) return;
    uvec4 words4 = random_block(uvec2(seed[0u], 0u), uvec2(offset[0u], 0u), i4);
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        float log1p_i = log1p(-fmul(converted(float(words4[lane & 0xfffffffeu] >> 8u)), 5.9604645e-08));
        float uniform_i = fmul(converted(float(words4[lane | 1u] >> 8u)), 5.9604645e-08);
        float turns = int(lane % 2u) != 0 ? uniform_i : fadd(uniform_i, uniform_i < 0.5 ? 0.25 : -0.75);
        result4[lane] = fmul(sqrt(fmul(-2.0, log1p_i)), sin_accurate(fmul(6.2831855, turns)));
    }
    result_vec4[i4] = f16vec4(result4);
}
