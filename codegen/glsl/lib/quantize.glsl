// These functions quantize blocks exactly as package quant does. Vulkan does not define the last bits of a division, the
// rounding to f16, and subnormal results of a multiplication. So these functions compute them in integers. A
// multiplication that must round before an addition is precise, so that no compiler fuses the two. A block of these
// formats is an array of 16-bit units, the first in halves[0].

#pragma types float

// v without its last bits (at least one), rounded to nearest even.
uint shift_even(uint v, uint bits) {
    uint kept = v >> bits, rest = v & (1u << bits) - 1u, middle = 1u << bits - 1u;
    return rest > middle || rest == middle && (kept & 1u) != 0u ? kept + 1u : kept;
}

// The 24 bits of a float's significand, and its exponent. The float is not 0; the bits of a denormal are shifted up.
uint significand(uint bits, out int exponent) {
    uint m = bits & 0x7fffffu;
    exponent = int(bits >> 23);
    if (exponent > 0) return m | 0x800000u;
    int up = 23 - findMSB(m);
    exponent = 1 - up;
    return m << up;
}

// The float nearest to a / b, all three as bits. It divides by shifts: the quotient has two bits more than the result,
// and its last bit says whether more would follow.
uint divide_bits(uint a, uint b) {
    uint sign = (a ^ b) & 0x80000000u;
    a &= 0x7fffffffu;
    b &= 0x7fffffffu;
    if (a == 0u) return sign;
    if (b == 0u) return sign | 0x7f800000u;
    int exponent, exponent_b;
    uint rest = significand(a, exponent), by = significand(b, exponent_b);
    exponent += 127 - exponent_b;
    if (rest < by) {
        rest <<= 1;
        --exponent;
    }
    uint quotient = 0u;
    for (uint i = 0u; i < 26u; ++i) {
        quotient <<= 1;
        if (rest >= by) {
            rest -= by;
            quotient |= 1u;
        }
        rest <<= 1;
    }
    if (rest != 0u) quotient |= 1u;
    if (exponent >= 255) return sign | 0x7f800000u;
    if (exponent <= -25) return sign;
    if (exponent <= 0) return sign | shift_even(quotient, uint(3 - exponent));
    return sign | (uint(exponent - 1) << 23) + shift_even(quotient, 2u);
}

// a * b, rounded to nearest. A device may flush denormals to zero, so the device multiplies only if the result is far
// above them.
float exact_product(float a, float b) {
    precise float product = a * b;
    uint sign = (floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u;
    if ((floatBitsToUint(product) & 0x7fffffffu) >= 0x01000000u) return product;
    uint u = floatBitsToUint(a) & 0x7fffffffu, v = floatBitsToUint(b) & 0x7fffffffu;
    if (u == 0u || v == 0u) return uintBitsToFloat(sign);
    int exponent_u, exponent_v;
    uint high, low;
    umulExtended(significand(u, exponent_u), significand(v, exponent_v), high, low);
    // 30 or 31 bits of the result; the last one says whether more would follow.
    uint kept = high << 15 | low >> 17;
    if ((low & 0x1ffffu) != 0u) kept |= 1u;
    int unit = 134 - exponent_u - exponent_v; // kept >> unit counts the least denormal
    int drop = max(unit, findMSB(kept) - 23);
    if (drop > 31) return uintBitsToFloat(sign);
    return uintBitsToFloat(sign | (uint(drop - unit) << 23) + shift_even(kept, uint(drop)));
}

// Whether a > b. Neither is negative, and either may be denormal.
bool exceeds(float a, float b) { return floatBitsToInt(a) > max(0, floatBitsToInt(b)); }

// The f16 nearest to a float, both as bits. The float is not NaN.
uint half_bits(uint bits) {
    uint sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    if (a >= 0x47800000u) return sign | 0x7c00u;
    if (a < 0x33000000u) return sign;
    if (a < 0x38800000u) return sign | shift_even(a & 0x7fffffu | 0x800000u, 126u - (a >> 23));
    return sign | shift_even(a - 0x38000000u, 13u);
}

// The bits of the f16 nearest to x; NaN stays NaN. The rounding of packHalf2x16 depends on the device, and
// SwiftShader's converts infinities to NaN.
uint f32_to_f16(float x) {
    if (isnan(x)) return floatBitsToUint(x) >> 16 & 0x8000u | 0x7e00u;
    return half_bits(floatBitsToUint(x));
}

// 1/d, or 0 if that is not finite.
float inverse_of(uint d) {
    uint inverse = divide_bits(0x3f800000u, d);
    return (inverse & 0x7fffffffu) < 0x7f800000u ? uintBitsToFloat(inverse) : 0.0;
}

// The first element with the largest magnitude, as bits.
uint largest_of(float x[32]) {
    uint largest = 0u;
    for (uint i = 0u; i < 32u; ++i) {
        uint bits = floatBitsToUint(x[i]);
        if ((bits & 0x7fffffffu) > (largest & 0x7fffffffu)) largest = bits;
    }
    return largest;
}

// The smallest and the largest element; of several zeros the first.
vec2 range_of(float x[32]) {
    vec2 range = x[0].xx;
    for (uint i = 1u; i < 32u; ++i) {
        if (x[i] < range.x) range.x = x[i];
        if (x[i] > range.y) range.y = x[i];
    }
    return range;
}

// v divided by a scale, plus an offset, without its fraction.
uint level_of(float v, float inverse, float offset, int top) {
    precise float scaled = v * inverse;
    precise float level = scaled + offset;
    return uint(min(int(level), top));
}

// The levels of elements i and i+16 in each byte, for two elements from i on.
uint pack_nibbles(uint level[32], uint i) {
    return level[i] & 15u | (level[i + 16u] & 15u) << 4 | (level[i + 1u] & 15u) << 8 | (level[i + 17u] & 15u) << 12;
}

// The fifth bits of all levels.
uint fifth_bits(uint level[32]) {
    uint bits = 0u;
    for (uint i = 0u; i < 32u; ++i) bits |= level[i] >> 4 << i;
    return bits;
}

// v rounded to the nearest integer, ties away from 0.
int round_away(float v) {
    precise float whole = trunc(v);
    int level = int(whole);
    return abs(v - whole) >= 0.5 ? level + (v < 0.0 ? -1 : 1) : level;
}

// The number of the level nearest to v; of two equally near levels the greater. It counts the midpoints between levels,
// doubled, that are at most v.
uint level_iq4_nl(float v) {
    vec4 twice = vec4(2.0 * v);
    uvec4 below = uvec4(greaterThanEqual(twice, vec4(-231.0, -187.0, -148.0, -114.0)));
    below += uvec4(greaterThanEqual(twice, vec4(-84.0, -57.0, -32.0, -9.0)));
    below += uvec4(greaterThanEqual(twice, vec4(14.0, 38.0, 63.0, 91.0)));
    below.xyz += uvec3(greaterThanEqual(twice.xyz, vec3(122.0, 158.0, 202.0)));
    return below.x + below.y + below.z + below.w;
}

// The level nearest to v; of two equally near levels the greater. It adds up the steps from the least level, -127.
float nearest_iq4_nl(float v) {
    vec4 twice = vec4(2.0 * v), none = vec4(0.0);
    vec4 steps = mix(none, vec4(23.0, 21.0, 18.0, 16.0), greaterThanEqual(twice, vec4(-231.0, -187.0, -148.0, -114.0)));
    steps += mix(none, vec4(14.0, 13.0, 12.0, 11.0), greaterThanEqual(twice, vec4(-84.0, -57.0, -32.0, -9.0)));
    steps += mix(none, vec4(12.0, 12.0, 13.0, 15.0), greaterThanEqual(twice, vec4(14.0, 38.0, 63.0, 91.0)));
    steps.xyz += mix(none.xyz, vec3(16.0, 20.0, 24.0), greaterThanEqual(twice.xyz, vec3(122.0, 158.0, 202.0)));
    return steps.x + steps.y + steps.z + steps.w - 127.0;
}

// The sums of level times element and of level squared, for an inverse scale. The weights are the squares of the
// elements.
vec2 fit_iq4_nl(float x[32], float inverse) {
    precise vec2 sums = vec2(0.0);
    for (uint i = 0u; i < 32u; ++i) {
        precise float scaled = inverse * x[i];
        float level = nearest_iq4_nl(scaled);
        precise float square = x[i] * x[i];
        precise float weighted = square * level;
        precise vec2 products = vec2(weighted * x[i], weighted * level);
        sums = sums + products;
    }
    return sums;
}

// The best of 16 scales, as bits: it has the least squared error, weighted by the square of each element.
uint scale_iq4_nl(float x[32]) {
    uint largest = largest_of(x);
    if (uintBitsToFloat(largest & 0x7fffffffu) < 1e-15) return 0u;
    uint d = divide_bits(largest, floatBitsToUint(127.0));
    vec2 sums = fit_iq4_nl(x, uintBitsToFloat(divide_bits(floatBitsToUint(1.0), d)));
    if (sums.y > 0.0) d = divide_bits(floatBitsToUint(sums.x), floatBitsToUint(sums.y));
    precise float best = uintBitsToFloat(d) * sums.x;
    for (int n = -7; n <= 7; ++n) {
        sums = fit_iq4_nl(x, uintBitsToFloat(divide_bits(floatBitsToUint(float(n) - 127.0), largest)));
        if (sums.y > 0.0 && exceeds(exact_product(sums.x, sums.x), exact_product(best, sums.y))) {
            d = divide_bits(floatBitsToUint(sums.x), floatBitsToUint(sums.y));
            best = uintBitsToFloat(d) * sums.x;
        }
    }
    return d;
}
