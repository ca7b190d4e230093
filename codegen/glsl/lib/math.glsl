// Mathematical functions that GLSL lacks, or that devices may compute inaccurately.

#pragma types float

// log(1 + x), near 0 as 2 atanh(x / (2 + x)). Vulkan leaves log undefined for x <= -1.
float log1p(float x) {
    if (x <= -1.0) return x < -1.0 ? NAN : -INF;
    if (!(x > -0.3 && x < 0.42)) return log(1.0 + x);
    float s = x / (2.0 + x), z = s * s;
    return 2.0 * s * ((((z * 0.11111111 + 0.14285715) * z + 0.2) * z + 0.33333334) * z + 1.0);
}

// sign(x) log(|x| + sqrt(x^2 + 1)), without cancellation near 0.
float arsinh(float x) {
    float a = abs(x), y = a > 4096.0 ? log(a) + 0.6931472 : log1p(a + a * a / (1.0 + sqrt(a * a + 1.0)));
    return a < 0.0001 || isnan(x) ? x : x < 0.0 ? -y : y;
}

// log(x + sqrt(x^2 - 1)), without cancellation near 1.
float arcosh(float x) {
    float t = x - 1.0;
    if (!(t >= 0.0)) return NAN;
    return x > 4096.0 ? log(x) + 0.6931472 : log1p(t + sqrt(t * (t + 2.0)));
}

// log((1 + x) / (1 - x)) / 2, without cancellation near 0.
float artanh(float x) {
    float a = abs(x);
    if (!(a <= 1.0)) return NAN;
    float y = 0.5 * log1p(a == 1.0 ? uintBitsToFloat(0x7f800000u) : 2.0 * a / (1.0 - a));
    return a < 0.0001 ? x : x < 0.0 ? -y : y;
}

// log. Vulkan allows an error of 2^-21 near 1 and leaves it undefined for x <= 0; some drivers return wrong results for
// denormals.
float log_accurate(float x) {
    if (x > 0.7 && x < 1.42) return log1p(x - 1.0);
    if (x < 1.1754944e-38) return x < 0.0 ? NAN : x == 0.0 ? -INF : log(x * 16777216.0) - 16.635532;
    return log(x);
}

// log2. Vulkan allows an error of 2^-21 near 1 and leaves it undefined for x <= 0; some drivers return wrong results
// for denormals.
float log2_accurate(float x) {
    if (x > 0.7 && x < 1.42) return log1p(x - 1.0) * 1.442695;
    if (x < 1.1754944e-38) return x < 0.0 ? NAN : x == 0.0 ? -INF : log2(x * 16777216.0) - 24.0;
    return log2(x);
}

// a^b for a finite a > 0, as 2^(b log2 a). a is 2^e m with m from sqrt(1/2) to sqrt(2). The integer part of the
// exponent is kept apart: if it were rounded together with the rest, digits would be lost, and large results would
// overflow.
float pow_positive(float a, float b) {
    bool tiny = a < 1.1754944e-38;
    int bits = floatBitsToInt(tiny ? a * 16777216.0 : a), e = bits - 0x3f3504f3 >> 23;
    float m = intBitsToFloat(bits - (e << 23)), whole = float(tiny ? e - 24 : e);
    b = clamp(b, -1e30, 1e30);
    float rest = b * (log1p(m - 1.0) * 1.442695), n = roundEven(b * whole + rest);
    if (abs(n) > 160.0) return n > 0.0 ? INF : 0.0;
    int k = int(n), h = k / 2; // two steps, as 2^k may be no float
    return exp2(b * whole - n + rest) * intBitsToFloat(h + 127 << 23) * intBitsToFloat(k - h + 127 << 23);
}

// pow for all bases. A negative base needs an integral exponent.
float pow_full(float a, float b) {
    if (b == 0.0 || a == 1.0 || a == -1.0 && isinf(b)) return 1.0;
    if (isnan(a) || isnan(b)) return NAN;
    if (b == 1.0) return a;
    bool zero = a == 0.0;
    float p = zero || isinf(a) ? ((b > 0.0) == zero ? 0.0 : INF) : pow_positive(abs(a), b);
    if (floatBitsToInt(a) >= 0) return p;
    if (floor(b) != b) return isinf(a) || zero ? p : NAN;
    return b - 2.0 * floor(0.5 * b) == 1.0 ? -p : p;
}

// Arc tangent by a polynomial (Moshier, Cephes atanf.c). Beyond tan(pi/8) its argument is (x-1)/(x+1), and beyond 1 it
// is 1/x.
float atan_accurate(float x) {
    float t = abs(x) > 1.0 ? 1.0 / abs(x) : abs(x), angle = 0.0;
    if (t > 0.41421356) {
        angle = 0.78539816;
        t = (t - 1.0) / (t + 1.0);
    }
    float z = t * t;
    angle += (((8.0537446e-2 * z - 0.13877685) * z + 0.1997771) * z - 0.3333295) * z * t + t;
    if (abs(x) > 1.0) angle = 1.5707964 - angle;
    return x < 0.0 ? -angle : angle;
}

// The angle of the point (x, y), also at the origin, at infinity and with signed zeros. It uses the ratio that is at
// most 1, because a driver may compile a division by a known 0 incorrectly.
float atan2_full(float y, float x) {
    if (isnan(x) || isnan(y)) return NAN;
    float dx = abs(x), dy = abs(y);
    float angle = dx == dy ? (dx == 0.0 ? 0.0 : 0.78539816) : atan_accurate(div_full(min(dx, dy), max(dx, dy)));
    if (dy > dx) angle = 1.5707964 - angle;
    if (floatBitsToInt(x) < 0) angle = 3.1415927 - angle;
    return floatBitsToInt(y) < 0 ? -angle : angle;
}

// Arc sine by a polynomial (Moshier, Cephes asinf.c). Beyond 1/2 its argument is sqrt((1-x)/2).
float arcsin(float x) {
    float a = abs(x);
    if (a > 1.0) return NAN;
    bool far = a > 0.5;
    float z = far ? 0.5 - 0.5 * a : a * a;
    if (far) a = sqrt(z);
    a += ((((4.21632e-2 * z + 2.4181311e-2) * z + 4.547003e-2) * z + 7.4953e-2) * z + 0.16666752) * z * a;
    if (far) a = 1.5707964 - 2.0 * a;
    return floatBitsToInt(x) < 0 ? -a : a;
}

// Arc cosine, from the arc sine unless that loses digits (Moshier, Cephes asinf.c).
float arccos(float x) {
    if (abs(x) > 1.0) return NAN;
    if (!(abs(x) > 0.5)) return 1.5707964 - arcsin(x);
    float a = 2.0 * arcsin(sqrt(0.5 - 0.5 * abs(x)));
    return x < 0.0 ? 3.1415927 - a : a;
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

float cos_accurate(float x) {
    if (isinf(x)) return NAN;
    int quadrant;
    float r = reduce_half_pi(x, quadrant);
    float c = (quadrant & 1) == 0 ? cos_reduced(r) : sin_reduced(r);
    return quadrant == 0 || quadrant == 3 ? c : -c;
}

// e^x - 1. Near 0, a subtraction would lose digits, so a series is used.
float expm1(float x) {
    if (abs(x) > 0.5) return exp(x) - 1.0;
    float p = x * 2.4801587e-5 + 1.984127e-4;
    p = (((((p * x + 1.3888889e-3) * x + 8.333334e-3) * x + 4.1666668e-2) * x + 0.16666667) * x + 0.5) * x;
    return p * x + x;
}

// h * h / 2, without the overflow of h * h.
float half_square(float h) {
    precise float half_h = 0.5 * h;
    precise float y = half_h * h;
    return y;
}

// Sinh, near 0 as a series. The square of exp(x/2) overflows only if sinh does.
float sinh_accurate(float x) {
    float a = abs(x), z = x * x;
    if (a < 1.0) return (((z * 2.7557319e-6 + 1.984127e-4) * z + 8.333334e-3) * z + 0.16666667) * z * x + x;
    float h = exp(0.5 * a);
    float s = half_square(h) - 0.5 / h / h;
    return x < 0.0 ? -s : s;
}

// Cosh. The square of exp(x/2) overflows only if cosh does.
float cosh_accurate(float x) {
    float h = exp(0.5 * abs(x));
    return half_square(h) + 0.5 / h / h;
}

// Tanh without overflow, near 0 as a minimax polynomial (Moshier, Cephes tanhf.c).
float tanh_safe(float x) {
    float a = abs(x), z = x * x;
    if (a < 0.625) {
        float p = ((-5.7049887e-3 * z + 2.0639088e-2) * z - 5.3739715e-2) * z + 0.13331442;
        return (p * z - 0.33333282) * z * x + x;
    }
    float t = 1.0 - 2.0 / (exp(2.0 * a) + 1.0);
    return x < 0.0 ? -t : t;
}

// Error function, by two polynomials (after Juffa, "A minimax erff", 2015).
float erf(float x) {
    float a = abs(x), z = x * x;
    if (a > 0.92773438) {
        a = min(a, 4.0);
        z = a * a;
        float p = -1.7285347e-5 * a + 3.8319713e-4;
        float q = -3.8839644e-3 * a + 2.4254622e-2;
        p = p * z + q;
        p = ((p * a - 0.10677788) * a - 0.63484669) * a - 0.12871751;
        p = 1.0 - exp(p * a - a);
        return x < 0.0 ? -p : p;
    }
    float p = (((-5.961676e-4 * z + 4.9911942e-3) * z - 2.6768135e-2) * z + 0.11281993) * z - 0.37612534;
    return (p * z + 0.12837917) * x + x;
}

// log(1 + e^x) without overflow.
float softplus(float x) {
    return max(x, 0.0) + log1p(exp(-abs(x)));
}

float selu(float x) {
    return 1.050701 * (x < 0.0 ? 1.6732632 * expm1(x) : x);
}

// 0.5 * x * (1 + tanh(u)), computed as x times the logistic function of 2u. That keeps its digits if tanh is near -1.
float gelu_tanh(float x) {
    float u = 0.79788456 * (x + 0.044715 * x * x * x);
    return x / (1.0 + exp(-2.0 * u));
}
