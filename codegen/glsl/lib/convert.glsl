// Conversions of numbers from one type to another.

#pragma types float

float bf16_to_f32(uint bits) {
    return uintBitsToFloat(bits << 16);
}

// Rounds to nearest even; NaN stays NaN.
uint f32_to_bf16(float x) {
    uint bits = floatBitsToUint(x);
    return mix(bits + 0x7fffu + (bits >> 16 & 1u) >> 16, bits >> 16 | 0x40u, isnan(x));
}

#pragma types uvec4

// The first n of eight halves; the others are 0.
uvec4 first_halves(uvec4 octet, uint n) {
    const uvec4 first = uvec4(0u, 2u, 4u, 6u);
    octet = mix(octet & 0xffffu, octet, greaterThan(uvec4(n), first + 1u));
    return mix(uvec4(0u), octet, greaterThan(uvec4(n), first));
}

#pragma types float

// Two floats rounded to bf16, the first in the low half.
uint pack_bf16(vec2 v) {
    return f32_to_bf16(v.x) | f32_to_bf16(v.y) << 16;
}

// Decoding and rounding have no branch, because loops repeat them; see [device.SlowBranches].

// OCP 8-bit float: 4 exponent and 3 mantissa bits, no infinity, 0x7f is NaN.
float f8e4m3_to_f32(uint bits) {
    uint magnitude = bits & 0x7fu, small = floatBitsToUint(float(magnitude) * 0.001953125);
    uint x = mix((magnitude << 20) + 0x3c000000u, small, magnitude < 8u);
    return uintBitsToFloat(mix(x, 0x7fc00000u, magnitude == 0x7fu) | (bits & 0x80u) << 24);
}

// Rounds to nearest even and saturates at 448. It works on bits, because some drivers leave out abs around an
// inversesqrt.
uint f32_to_f8e4m3(float x) {
    uint bits = min(floatBitsToUint(x) & 0x7fffffffu, 0x43e00000u);
    float a = uintBitsToFloat(bits);
    uint rounded = (bits + 0x7ffffu + (bits >> 20 & 1u) >> 20) - 960u;
    rounded = mix(rounded, uint(roundEven(a * 512.0)), a < 0.015625);
    return mix(rounded, 0x7fu, isnan(x)) | floatBitsToUint(x) >> 24 & 0x80u;
}

// OCP 8-bit float: 5 exponent and 2 mantissa bits, the upper half of an f16. It is computed in integers, because a
// device may flush small f16 to 0.
float f8e5m2_to_f32(uint bits) {
    uint magnitude = bits & 0x7fu, small = floatBitsToUint(float(magnitude) * 0.0000152587890625);
    uint x = mix((magnitude << 21) + 0x38000000u, small, magnitude < 4u);
    return uintBitsToFloat(mix(x, magnitude << 21 | 0x7f800000u, magnitude >= 0x7cu) | (bits & 0x80u) << 24);
}

// Rounds to nearest even; numbers beyond the range become infinite, as 65536 does. It works on bits, because some
// drivers leave out abs around an inversesqrt, which is -inf for -0.
uint f32_to_f8e5m2(float x) {
    uint bits = min(floatBitsToUint(x) & 0x7fffffffu, 0x47800000u);
    float a = uintBitsToFloat(bits);
    uint rounded = (bits + 0xfffffu + (bits >> 21 & 1u) >> 21) - 448u;
    rounded = mix(rounded, uint(roundEven(min(a, 1.0) * 65536.0)), a < 0.00006103515625);
    return mix(rounded, 0x7eu, isnan(x)) | floatBitsToUint(x) >> 24 & 0x80u;
}

// Rounds to the precision of f8e5m2.
float round_f8e5m2(float x) {
    return f8e5m2_to_f32(f32_to_f8e5m2(x));
}

// Rounds to the nearest f16, ties to even. It is computed in integers, because compilers replace unpackHalf2x16 of
// packHalf2x16 by its argument.
float round_f16(float x) {
    uint bits = floatBitsToUint(x), size = bits & 0x7fffffffu;
    // Below 2^-14 an f16 is a multiple of 2^-24, as an f32 near 0.5 is.
    precise float small = (uintBitsToFloat(size) + 0.5) - 0.5;
    uint rounded = size + 0xfffu + (size >> 13 & 1u) & 0xffffe000u;
    rounded = mix(rounded, floatBitsToUint(small), size < 0x38800000u);
    rounded = mix(rounded, max(size, 0x7f800000u), rounded >= 0x47800000u); // 2^16: infinite, or NaN as it is
    return uintBitsToFloat(bits & 0x80000000u | rounded);
}

// Rounds to the precision of bf16.
float round_bf16(float x) {
    return bf16_to_f32(f32_to_bf16(x));
}

// Rounds to the precision of f8e4m3.
float round_f8e4m3(float x) {
    return f8e4m3_to_f32(f32_to_f8e4m3(x));
}

// A number that a conversion has rounded. Some drivers remove a conversion and the conversion back, but they do not
// remove halving and doubling. For the smallest numbers halving would lose a digit.
float converted(const float x) {
    precise float by_half = x * 0.5;
    precise float doubled = by_half * 2.0;
    return abs(x) < 4.7019774e-38 ? x : doubled;
}

#pragma types double

// An integer that a conversion has rounded; see converted.
double converted_double(const double x) {
    precise double by_half = x * 0.5;
    precise double doubled = by_half * 2.0;
    return doubled;
}

#pragma types float

// A number of f8e8m0 as a double. A device may flush the least one, 2^-127, which is no normal float.
double exponent_to_double(float x) {
    return floatBitsToUint(x) == 0x400000u ? 5.877471754111438e-39lf : double(x);
}

#pragma types uint

// Both halves and the scaled high half are exact, so only the sum is rounded. Some drivers convert the 31 low bits and
// then add the highest one, which rounds twice.
float word_to_float(uint x) {
    precise float whole = float(x >> 16) * 65536.0 + float(x & 0xffffu);
    return whole;
}

// x with as many digits as a float has. If x has more digits, the last one is made odd. Rounding the result to fewer
// digits then equals rounding x (Boldo and Melquiond 2008).
float uint_to_odd(uint x) {
    return x < 0x1000000u ? float(x) : float(x >> 8 | min(x & 0xffu, 1u)) * 256.0;
}

float float_to_odd(uint x) {
    return uint_to_odd(x);
}

#pragma types int

float float_to_odd(int x) {
    return x < 0 ? -uint_to_odd(uint(-x)) : uint_to_odd(uint(x));
}

#pragma types int64_t

// Of 64 bits it uses the first 32 from the first set bit, and whether any bits after them are set.
float float_to_odd(int64_t x) {
    uvec2 size = uvec2(uint(x), uint(x >> 32));
    if (x < 0) size = uvec2(-size.x, ~size.y + uint(size.x == 0u));
    float y = uint_to_odd(size.x);
    if (size.y != 0u) {
        int up = 31 - findMSB(size.y);
        uint top = up == 0 ? size.y : size.y << up | size.x >> 32 - up;
        if (size.x << up != 0u) top |= 1u;
        y = uint_to_odd(top) * uintBitsToFloat(uint(159 - up) << 23);
    }
    return x < 0 ? -y : y;
}

#pragma types double

// x with as many digits as a float has. If x has more digits, the last one is made odd. Rounding the result to fewer
// digits then equals rounding x (Boldo and Melquiond 2008).
float float_to_odd(double x) {
    float y = converted(float(x));
    double back = double(y);
    if (back == x || isnan(y) || isinf(y)) return y;
    return uintBitsToFloat(floatBitsToUint(y) - uint(abs(back) > abs(x)) | 1u);
}

#pragma types float double

// Truncates and saturates; NaN gives 0. It has no branches, so that a compiler recognizes two equal calls.
int float_to_i32(TYPE x) {
    int whole = int(abs(x) < 2147483648.0 ? x : 0.0);
    int limited = x >= 2147483648.0 ? 0x7fffffff : whole;
    return x <= -2147483648.0 ? -0x7fffffff - 1 : limited;
}

// Truncates and saturates; NaN gives 0.
uint float_to_u32(TYPE x) {
    if (isnan(x) || x <= 0.0) return 0u;
    return x >= 4294967296.0 ? 0xffffffffu : uint(x);
}

// Truncates and saturates; NaN gives 0.
int64_t float_to_i64(TYPE x) {
    if (isnan(x)) return 0L;
    return x >= 9223372036854775808.0 ? 0x7fffffffffffffffL : x <= -9223372036854775808.0 ? -0x7fffffffffffffffL - 1L : int64_t(x);
}

// Truncates and saturates; NaN gives 0.
int float_to_i16(TYPE x) {
    return isnan(x) ? 0 : int(clamp(x, -32768.0, 32767.0));
}

// Truncates and saturates; NaN gives 0.
uint float_to_u16(TYPE x) {
    return isnan(x) ? 0u : uint(clamp(x, 0.0, 65535.0));
}

// Truncates and saturates; NaN gives 0.
int float_to_i8(TYPE x) {
    return isnan(x) ? 0 : int(clamp(x, -128.0, 127.0));
}

// Truncates and saturates; NaN gives 0.
uint float_to_u8(TYPE x) {
    return isnan(x) ? 0u : uint(clamp(x, 0.0, 255.0));
}
