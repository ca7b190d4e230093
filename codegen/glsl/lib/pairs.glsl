// Arithmetic of 64-bit integers as pairs of words, the low word in x. It wraps around.

#pragma types uvec2

uvec2 int_to_pair(int x) {
    return uvec2(uint(x), uint(x >> 31));
}

uvec2 pair_add(uvec2 a, uvec2 b) {
    uint carry;
    uint low = uaddCarry(a.x, b.x, carry);
    return uvec2(low, a.y + b.y + carry);
}

uvec2 pair_subtract(uvec2 a, uvec2 b) {
    uint borrow;
    uint low = usubBorrow(a.x, b.x, borrow);
    return uvec2(low, a.y - b.y - borrow);
}

uvec2 pair_multiply(uvec2 a, uvec2 b) {
    uint high, low;
    umulExtended(a.x, b.x, high, low);
    return uvec2(low, high + a.x * b.y + a.y * b.x);
}

bool pair_less(uvec2 a, uvec2 b) {
    return int(a.y) < int(b.y) || a.y == b.y && a.x < b.x;
}

uvec2 pair_negate(uvec2 x) {
    return pair_add(~x, uvec2(1u, 0u));
}

uvec2 pair_min(uvec2 a, uvec2 b) {
    return pair_less(b, a) ? b : a;
}

uvec2 pair_max(uvec2 a, uvec2 b) {
    return pair_less(a, b) ? b : a;
}

uvec2 pair_abs(uvec2 x) {
    return int(x.y) < 0 ? pair_negate(x) : x;
}

uvec2 pair_sign(uvec2 x) {
    return int(x.y) < 0 ? uvec2(0xffffffffu) : uvec2((x.x | x.y) == 0u ? 0u : 1u, 0u);
}

// Divides unsigned numbers up to 2^63, one bit of the quotient at a time; b is not 0.
uvec2 pair_divide(uvec2 a, uvec2 b, out uvec2 rest) {
    if (b.x == 0u) {
        rest = uvec2(a.x, a.y % b.y);
        return uvec2(a.y / b.y, 0u);
    }
    rest = uvec2(0u);
    if ((a.y | b.y) == 0u) {
        rest.x = a.x % b.x;
        return uvec2(a.x / b.x, 0u);
    }
    uvec2 quotient = uvec2(0u);
    for (int bit = a.y == 0u ? findMSB(a.x) : 32 + findMSB(a.y); bit >= 0; --bit) {
        uint word = bit < 32 ? a.x : a.y, mask = 1u << (bit & 31);
        rest = uvec2(rest.x << 1 | ((word & mask) == 0u ? 0u : 1u), rest.y << 1 | rest.x >> 31);
        if (rest.y > b.y || rest.y == b.y && rest.x >= b.x) {
            uint borrow;
            rest.x = usubBorrow(rest.x, b.x, borrow);
            rest.y -= b.y + borrow;
            if (bit < 32) quotient.x |= mask; else quotient.y |= mask;
        }
    }
    return quotient;
}

// The truncated quotient. x/0 is 0, and the smallest number divided by -1 wraps around.
uvec2 div_int(uvec2 a, uvec2 b) {
    if (b == uvec2(0u)) return b;
    uvec2 rest, quotient = pair_divide(pair_abs(a), pair_abs(b), rest);
    return int(a.y ^ b.y) < 0 ? pair_negate(quotient) : quotient;
}

// The remainder with the sign of a; x rem 0 is 0.
uvec2 rem_int(uvec2 a, uvec2 b) {
    if (b == uvec2(0u)) return b;
    uvec2 rest, quotient = pair_divide(pair_abs(a), pair_abs(b), rest);
    return int(a.y) < 0 ? pair_negate(rest) : rest;
}

// The remainder with the sign of b; x mod 0 is 0.
uvec2 mod_int(uvec2 a, uvec2 b) {
    uvec2 rest = rem_int(a, b);
    return rest != uvec2(0u) && int(rest.y ^ b.y) < 0 ? pair_add(rest, b) : rest;
}

// a^b by squaring. It wraps around; for negative b the result is truncated.
uvec2 pow_int(uvec2 a, uvec2 b) {
    uvec2 one = uvec2(1u, 0u), y = one;
    if (int(b.y) < 0) return a == one || a == uvec2(0xffffffffu) ? ((b.x & 1u) == 0u ? one : a) : uvec2(0u);
    for (; b != uvec2(0u); b = uvec2(b.x >> 1 | b.y << 31, b.y >> 1)) {
        if ((b.x & 1u) != 0u) y = pair_multiply(y, a);
        a = pair_multiply(a, a);
    }
    return y;
}

// Whether a at place i comes before b at place j. The first of equal numbers comes first.
bool argmax_beats_int(uvec2 a, int i, uvec2 b, int j) {
    return pair_less(b, a) || a == b && i < j;
}

// Whether a at place i comes before b at place j. The first of equal numbers comes first.
bool argmin_beats_int(uvec2 a, int i, uvec2 b, int j) {
    return pair_less(a, b) || a == b && i < j;
}

// Rounds to nearest even. It uses the first 32 bits from the first set bit; the last of them also stands for all bits
// that follow.
float pair_to_float(uvec2 x) {
    bool negative = int(x.y) < 0;
    x = pair_abs(x);
    float size = word_to_float(x.x);
    if (x.y != 0u) {
        int up = 31 - findMSB(x.y);
        uint top = up == 0 ? x.y : x.y << up | x.x >> 32 - up;
        if (x.x << up != 0u) top |= 1u;
        size = word_to_float(top) * uintBitsToFloat(uint(159 - up) << 23);
    }
    return negative ? -size : size;
}

// Of 64 bits it uses the first 32 from the first set bit, and whether any bits after them are set.
float float_to_odd(uvec2 x) {
    bool negative = int(x.y) < 0;
    x = pair_abs(x);
    float size = uint_to_odd(x.x);
    if (x.y != 0u) {
        int up = 31 - findMSB(x.y);
        uint top = up == 0 ? x.y : x.y << up | x.x >> 32 - up;
        if (x.x << up != 0u) top |= 1u;
        size = uint_to_odd(top) * uintBitsToFloat(uint(159 - up) << 23);
    }
    return negative ? -size : size;
}

// Both words and the scaled high word are exact, so only the sum is rounded.
double pair_to_double(uvec2 x) {
    return double(int(x.y)) * 4294967296.0lf + double(x.x);
}

#pragma types float double

// Truncates and saturates; NaN gives 0.
uvec2 float_to_pair(TYPE x) {
    if (isnan(x)) return uvec2(0u);
    if (x >= 9223372036854775808.0) return uvec2(0xffffffffu, 0x7fffffffu);
    if (x <= -9223372036854775808.0) return uvec2(0u, 0x80000000u);
    TYPE size = trunc(abs(x)), high = floor(size / 4294967296.0);
    uvec2 whole = uvec2(uint(size - high * 4294967296.0), uint(high));
    return x < 0.0 ? pair_negate(whole) : whole;
}
