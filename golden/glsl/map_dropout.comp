// random_bernoulli_affine_where over [16384]
// Fuses: random_bernoulli, affine, affine, where.
// Schedule: map wg=64 vec=4.
#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer Seed_buffer { int64_t seed[]; };
layout(set = 0, binding = 1, std430) readonly buffer Offset_buffer { uint offset[]; };
layout(set = 0, binding = 2, std430) readonly buffer X_vec4_buffer { vec4 x_vec4[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { vec4 result_vec4[]; };

#define NAN uintBitsToFloat(0x7fc00000u)

float fmul(const float a, const float b) {
    precise float c = a * b;
    return c;
}

// x * 0.0: NaN for infinities and NaN, otherwise a zero with the sign of x. Drivers would replace the expression by 0.
float times_zero(float x) {
    uint bits = floatBitsToUint(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? float(NAN) : uintBitsToFloat(bits & 0x80000000u);
}

// x + 0.0: the sum of -0 and 0 is 0. Drivers would replace the expression by x.
float plus_zero(float x) {
    return x == 0.0 ? 0.0 : x;
}

// The low and the high word of a number.
uvec2 halves_of_i64(int64_t x) {
    return uvec2(uint(x), uint(x >> 32));
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

void main() {
    uint i4 = gl_GlobalInvocationID.x;
    uvec4 words4 = random_block(halves_of_i64(seed[0u]), uvec2(offset[0u], 0u), i4);
    vec4 x4 = x_vec4[i4];
    vec4 result4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        result4[lane] = words4[lane] >> 8u < 15099495u ? plus_zero(fmul(x4[lane], 1.1111112)) : plus_zero(times_zero(x4[lane]));
    }
    result_vec4[i4] = result4;
}
