// Float arithmetic that follows IEEE 754, and integer arithmetic that is defined for every input.

#pragma types float

#define INF uintBitsToFloat(0x7f800000u)

#define NAN uintBitsToFloat(0x7fc00000u)

#pragma types float double

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
TYPE fadd(const TYPE a, const TYPE b) {
    precise TYPE c = a + b;
    return c;
}

TYPE fsub(const TYPE a, const TYPE b) {
    precise TYPE c = a - b;
    return c;
}

TYPE fmul(const TYPE a, const TYPE b) {
    precise TYPE c = a * b;
    return c;
}

TYPE fdiv(const TYPE a, const TYPE b) {
    precise TYPE c = a / b;
    return c;
}

#pragma types vec4

// dot, for a device that multiplies and adds in two steps anyway. Its driver could round the terms differently.
float dot_in_order(const vec4 a, const vec4 b) {
    precise float sum = dot(a, b);
    return sum;
}

#pragma types float vec4

// fma, for the same reason.
TYPE fma_in_order(const TYPE a, const TYPE b, const TYPE sum) {
    precise TYPE c = a * b + sum;
    return c;
}

#pragma types float double

// The larger number; NaN if either is NaN.
TYPE nan_max(TYPE a, TYPE b) {
    return isnan(b) || a <= b ? b : a;
}

// The smaller number; NaN if either is NaN.
TYPE nan_min(TYPE a, TYPE b) {
    return isnan(b) || a >= b ? b : a;
}

// x limited to lo..hi; NaN stays.
TYPE nan_clamp(TYPE x, TYPE lo, TYPE hi) {
    return isnan(x) ? x : clamp(x, lo, hi);
}

// a / b for all divisors. Vulkan defines division for divisors up to 2^126; beyond that, some devices multiply by a
// reciprocal that is flushed to 0.
TYPE div_full(TYPE a, TYPE b) {
    float scale = abs(b) > 8.507059e37 ? 0.25 : 1.0;
    precise TYPE quotient = a * scale / (b * scale);
    return quotient;
}

#pragma types float

// The float nearest to a / b. Vulkan allows a quotient to be off by 2.5 units in the last place. So this function
// corrects the quotient of the significands, which is from 1 to 2, by up to two units. Its remainder fits 32 bits,
// although the parts do not, and twice the remainder never equals the divisor. div_full divides zeros, infinities, NaN
// and subnormal numbers, and all numbers with a subnormal quotient.
float div_nearest(float a, float b) {
    uint size_a = floatBitsToUint(a) & 0x7fffffffu, size_b = floatBitsToUint(b) & 0x7fffffffu;
    uint x = size_a & 0x7fffffu | 0x800000u, y = size_b & 0x7fffffu | 0x800000u;
    int exponent = int(size_a >> 23) - int(size_b >> 23) + 127;
    if (x < y) {
        x <<= 1;
        --exponent;
    }
    if (max(size_a - 0x800000u, size_b - 0x800000u) >= 0x7f000000u || exponent < 1) return div_full(a, b);
    uint quotient = uint(max(float(x) / float(y), 1.0) * 8388608.0);
    int twice = int((x << 23) - quotient * y) * 2, by = int(y);
    quotient += uint(twice > by) + uint(twice > 3 * by) - uint(twice < -by) - uint(twice < -3 * by);
    uint bits = min((uint(exponent - 1) << 23) + quotient, 0x7f800000u);
    return uintBitsToFloat((floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u | bits);
}

// x * 0.0: NaN for infinities and NaN, otherwise a zero with the sign of x. Drivers would replace the expression by 0.
float times_zero(float x) {
    uint bits = floatBitsToUint(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? float(NAN) : uintBitsToFloat(bits & 0x80000000u);
}

#pragma types double

// x * 0.0: NaN for infinities and NaN, otherwise a zero with the sign of x. Drivers would replace the expression by 0.
double times_zero(double x) {
    uint bits = unpackDouble2x32(x).y;
    return packDouble2x32((bits & 0x7ff00000u) == 0x7ff00000u ? uvec2(0u, 0x7ff80000u) : uvec2(0u, bits & 0x80000000u));
}

#pragma types float double

// 0.0 / x: NaN for zeros and NaN, otherwise a zero with the sign of x. Drivers would replace the expression by 0.
TYPE zero_over(TYPE x) {
    if (isinf(x)) return x < 0.0 ? -0.0 : 0.0;
    return x == 0.0 ? TYPE(NAN) : times_zero(x);
}

// x + 0.0: the sum of -0 and 0 is 0. Drivers would replace the expression by x.
TYPE plus_zero(TYPE x) {
    return x == 0.0 ? 0.0 : x;
}

// inversesqrt of any number. If x is itself an inverse, a driver may compute one square root for both, which is -0 for
// -0 and NaN for -inf. So these two values have branches.
TYPE inversesqrt_of_any(const TYPE x) {
    precise TYPE inverse = 1.0 / x;
    return x == 0.0 ? inverse : x < 0.0 ? TYPE(NAN) : inversesqrt(x);
}

#pragma types float

// Adds x to a sum, and the rounding error of the addition to lost (Knuth, TwoSum).
void sum_exactly(inout float sum, inout float lost, float x) {
    precise float total = sum + x;
    precise float part = total - sum;
    precise float error = (sum - (total - part)) + (x - part);
    sum = total;
    lost += error;
}

// A sum plus its rounding error lost. lost is NaN if the sum is infinite.
float sum_with(float sum, float lost) {
    return isinf(sum) ? sum : sum + lost;
}

#pragma types int

// A shift by 32 or more, or by less than 0, gives 0.
int shift_left(int a, int b) {
    return uint(b) < 32u ? a << b : 0;
}

#pragma types int64_t

// A shift by 64 or more, or by less than 0, gives 0.
int64_t shift_left(int64_t a, int64_t b) {
    return b >= 0 && b < 64 ? a << int(b) : int64_t(0);
}

#pragma types uvec2

// A shift by 64 or more, or by less than 0, gives 0.
uvec2 shift_left(uvec2 a, uvec2 b) {
    if (b.y != 0u || b.x > 63u) return uvec2(0u);
    if (b.x > 31u) return uvec2(0u, a.x << b.x - 32u);
    return b.x == 0u ? a : uvec2(a.x << b.x, a.y << b.x | a.x >> 32u - b.x);
}

#pragma types int

// A shift by 32 or more, or by less than 0, gives 0 or -1, by the sign.
int shift_right(int a, int b) {
    return a >> min(uint(b), 31u);
}

#pragma types int64_t

// A shift by 64 or more, or by less than 0, gives 0 or -1, by the sign.
int64_t shift_right(int64_t a, int64_t b) {
    return a >> (b >= 0 && b < 64 ? int(b) : 63);
}

#pragma types uvec2

// A shift by 64 or more, or by less than 0, gives 0 or -1, by the sign.
uvec2 shift_right(uvec2 a, uvec2 b) {
    int high = int(a.y);
    uint sign = uint(high >> 31);
    if (b.y != 0u || b.x > 63u) return uvec2(sign);
    if (b.x > 31u) return uvec2(uint(high >> b.x - 32u), sign);
    return b.x == 0u ? a : uvec2(a.x >> b.x | a.y << 32u - b.x, uint(high >> b.x));
}

#pragma types int int64_t

// The truncated quotient. x/0 is 0, and the smallest number divided by -1 wraps around.
TYPE div_int(TYPE a, TYPE b) {
    if (b == 0) return 0;
    return b == -1 ? -a : a / b;
}

#pragma types uint

// x/0 is 0.
uint div_uint(uint a, uint b) {
    return b == 0u ? 0u : a / b;
}

#pragma types int int64_t

// The remainder with the sign of a; x rem 0 is 0.
TYPE rem_int(TYPE a, TYPE b) {
    if (b == 0 || b == -1) return 0;
    return a - a / b * b;
}

#pragma types uint

// x rem 0 is 0.
uint rem_uint(uint a, uint b) {
    return b == 0u ? 0u : a % b;
}

#pragma types int int64_t

// a^b by squaring. It wraps around; for negative b the result is truncated.
TYPE pow_int(TYPE a, TYPE b) {
    TYPE y = TYPE(b < 0 && (a > 1 || a < -1 || a == 0) ? 0 : 1);
    if (b < 0) b = (b & 1) == 0 || a != -1 ? TYPE(0) : TYPE(1);
    for (; b > 0; b >>= 1) {
        if ((b & 1) != 0) y *= a;
        a *= a;
    }
    return y;
}

#pragma types uint

// a^b by squaring. It wraps around.
uint pow_uint(uint a, uint b) {
    uint y = 1u;
    for (; b > 0u; b >>= 1) {
        if ((b & 1u) != 0u) y *= a;
        a *= a;
    }
    return y;
}

#pragma types int int64_t

// The remainder with the sign of b; x mod 0 is 0.
TYPE mod_int(TYPE a, TYPE b) {
    TYPE r = rem_int(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#pragma types float

// The exact remainder of a division that truncates, with the sign of a. It is computed in integers, eight bits of the
// quotient at a time.
float rem_trunc(float a, float b) {
    if (isnan(a) || isnan(b) || isinf(a) || b == 0.0) return NAN;
    uint x = floatBitsToUint(a) & 0x7fffffffu, y = floatBitsToUint(b) & 0x7fffffffu;
    if (x < y || isinf(b)) return a;
    uint ex = max(x >> 23, 1u), ey = max(y >> 23, 1u);
    uint mx = x - (ex - 1u << 23), my = y - (ey - 1u << 23);
    uint m = mx % my;
    for (int left = int(ex - ey); left > 0; left -= 8) {
        m = (m << min(left, 8)) % my;
    }
    float r = float(m) * 1.1920929e-7 * uintBitsToFloat(ey << 23);
    return floatBitsToInt(a) < 0 ? -r : r;
}

#pragma types double

// The exact remainder of a division that truncates, with the sign of a. It subtracts multiples of b by powers of two,
// the largest first. No difference is rounded.
double rem_trunc(double a, double b) {
    if (isnan(a) || isnan(b) || isinf(a) || b == 0.0) return double(NAN);
    if (abs(a) < abs(b)) return a;
    double r = abs(a), part = abs(b);
    for (int n = 0; n < 2098 && part <= 0.5 * r; ++n) {
        part += part;
    }
    for (; part >= abs(b); part *= 0.5) {
        if (r >= part) r -= part;
    }
    return a < 0.0 ? -r : r;
}

#pragma types float double

// a - b * floor(a / b), with the sign of b.
TYPE mod_floor(TYPE a, TYPE b) {
    TYPE r = rem_trunc(a, b);
    precise TYPE other = r + b;
    return r != 0.0 && (r < 0.0) != (b < 0.0) ? other : r;
}
