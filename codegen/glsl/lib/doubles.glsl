// Mathematical functions of doubles, which GLSL has for floats only. A result is off by a few units in the last place.
// That holds if the device rounds sums and products of doubles to nearest, and if its quotients and roots are off by at
// most a unit. No function needs a fused multiply-add. Polynomials interpolate at Chebyshev nodes, with errors below
// 2^-55. A device that flushes subnormal doubles takes them for 0.

#pragma types double

// x without the low 32 bits of its mantissa. The product of two such numbers is exact.
double high_part(double x) {
    return packDouble2x32(uvec2(0u, unpackDouble2x32(x).y));
}

// size with the sign of x.
double with_sign(double size, double x) {
    uvec2 bits = unpackDouble2x32(size);
    bits.y = bits.y & 0x7fffffffu | unpackDouble2x32(x).y & 0x80000000u;
    return packDouble2x32(bits);
}

// 2^n, for n from -1022 to 1023.
double power_of_two(int n) {
    return packDouble2x32(uvec2(0u, uint(n + 1023) << 20));
}

// x * 2^n, in two steps, because 2^n may be no double.
double scaled_by(double x, int n) {
    int half_n = n >> 1;
    precise double part = x * power_of_two(half_n);
    precise double y = part * power_of_two(n - half_n);
    return y;
}

// The sum of a and b, rounded, and the rest. |a| is at least |b|, or a is 0 (Dekker 1971).
dvec2 two_sum(double a, double b) {
    precise double sum = a + b;
    precise double rest = b - (sum - a);
    return dvec2(sum, rest);
}

// The product of a and b, rounded, and the rest (Dekker 1971).
dvec2 two_product(double a, double b) {
    precise double high_a = high_part(a), high_b = high_part(b);
    precise double low_a = a - high_a, low_b = b - high_b;
    precise double product = a * b;
    precise double rest = high_a * high_b - product + high_a * low_b + low_a * high_b + low_a * low_b;
    return dvec2(product, rest);
}

// The product of two numbers, each the sum of two doubles.
dvec2 multiply_twos(dvec2 a, dvec2 b) {
    dvec2 y = two_product(a.x, b.x);
    precise double rest = y.y + (a.x * b.y + a.y * b.x);
    return dvec2(y.x, rest);
}

// x minus n log(2), with the nearest n (Cody and Waite 1980). The first part of log(2) is so short that n times it is
// exact.
double reduce_log_2(double x, out int n) {
    double multiple = roundEven(x * 1.4426950408889634lf);
    precise double r = x - multiple * 0.6931471803691238lf - multiple * 1.9082149292705877e-10lf;
    n = int(multiple);
    return r;
}

// e^x - 1, for |x| up to log(2)/2.
double expm1_reduced(double x) {
    double p = (2.09147553258932e-9lf * x + 2.5105312729622103e-8lf) * x + 2.755727347871858e-7lf;
    p = ((p * x + 2.755725517000089e-6lf) * x + 2.480158732567746e-5lf) * x + 1.984126987500228e-4lf;
    p = ((p * x + 1.3888888888883711e-3lf) * x + 8.333333333326084e-3lf) * x + 4.166666666666667e-2lf;
    p = (p * x + 0.1666666666666667lf) * x + 0.5lf;
    return p * x * x + x;
}

double exp_accurate(double x) {
    if (isnan(x)) return x;
    int n;
    double r = reduce_log_2(clamp(x, -746.0lf, 710.0lf), n);
    return scaled_by(1.0lf + expm1_reduced(r), n);
}

// 2^(x + rest), for a small rest.
double exp2_of_two(double x, double rest) {
    if (isnan(x)) return x;
    if (abs(x) > 1100.0lf) return x > 0.0lf ? double(INF) : 0.0lf;
    double n = roundEven(x);
    precise double r = (x - n + rest) * 0.6931471805599453lf;
    return scaled_by(1.0lf + expm1_reduced(r), int(n));
}

double exp2_accurate(double x) {
    return exp2_of_two(x, 0.0lf);
}

// e^x - 1, as 2^n (e^r - 1) + (2^n - 1). It computes half of that, because 2^n may be no double.
double expm1(double x) {
    if (isnan(x) || abs(x) < 5.551115123125783e-17lf) return x;
    int n;
    double r = reduce_log_2(clamp(x, -60.0lf, 710.0lf), n), power = power_of_two(n - 1);
    precise double y = power * expm1_reduced(r) + (power - 0.5lf);
    return y + y;
}

// The logarithm of x if x is not positive and finite.
double log_of_other(double x) {
    return x < 0.0lf ? double(NAN) : x == 0.0lf ? -double(INF) : x;
}

// m from sqrt(1/2) to sqrt(2) and e with x = 2^e m, for a positive and finite x.
double split_exponent(double x, out int e) {
    bool tiny = x < 2.2250738585072014e-308lf;
    uvec2 bits = unpackDouble2x32(tiny ? x * 18014398509481984.0lf : x);
    e = int(bits.y) - 0x3fe6a09e >> 20;
    double m = packDouble2x32(uvec2(bits.x, bits.y - (uint(e) << 20)));
    if (tiny) e -= 54;
    return m;
}

// The polynomial 2/3 + z (2/5 + ...) of log((1+s)/(1-s)) = 2s + s z (2/3 + ...), without its first term and divided by
// z. z is the square of s, which is at most 3-sqrt(8).
double log_series(double z) {
    double p = (0.1310072138350349lf * z + 0.13267418596474884lf) * z + 0.15386290534658992lf;
    p = (p * z + 0.181817947008978lf) * z + 0.2222222240054776lf;
    return (p * z + 0.2857142857076445lf) * z + 0.4000000000000094lf;
}

// log(1 + f) - f + f^2/2, for 1 + f from sqrt(1/2) to sqrt(2) (Sun, fdlibm e_log.c).
double log_rest(double f) {
    double s = f / (2.0lf + f), z = s * s;
    return s * (0.5lf * f * f + z * (z * log_series(z) + 0.6666666666666666lf));
}

double log_accurate(double x) {
    if (isnan(x) || isinf(x) || x <= 0.0lf) return log_of_other(x);
    int e;
    double f = split_exponent(x, e) - 1.0lf, n = double(e);
    precise double rest = 0.5lf * f * f - (log_rest(f) + n * 1.9082149292705877e-10lf);
    precise double y = n * 0.6931471803691238lf + (f - rest);
    return y;
}

// log2, as the product of log(m) and log2(e), each the sum of a short number and a rest (FreeBSD, e_log2.c).
double log2_accurate(double x) {
    if (isnan(x) || isinf(x) || x <= 0.0lf) return log_of_other(x);
    int e;
    double f = split_exponent(x, e) - 1.0lf, n = double(e);
    precise double h = 0.5lf * f * f;
    precise double high = high_part(f - h);
    precise double low = f - high - h + log_rest(f);
    precise double product = high * 1.4426946640014648lf;
    precise double rest = (low + high) * 3.768874985636099e-7lf + low * 1.4426946640014648lf;
    precise double sum = n + product;
    precise double y = sum + (n - sum + product + rest);
    return y;
}

// log(1 + x). The last term makes up for the rounding of 1 + x.
double log1p(double x) {
    if (isnan(x) || abs(x) < 5.551115123125783e-17lf) return x;
    precise double u = 1.0lf + x;
    if (isinf(u) || u <= 0.0lf) return log_of_other(u);
    precise double y = log_accurate(u) + (x - (u - 1.0lf)) / u;
    return y;
}

// log2(x) as the sum of two doubles, for a positive and finite x. With s = (m-1)/(m+1), log(m) is 2s + s^3 (2/3 + ...).
dvec2 log2_of_two(double x) {
    int e;
    double m = split_exponent(x, e);
    precise double f = m - 1.0lf;
    precise double under = m + 1.0lf;
    precise double under_rest = m - (under - 1.0lf);
    precise double quotient = f / under;
    dvec2 product = two_product(quotient, under);
    precise double rest = (f - product.x - product.y - quotient * under_rest) / under;
    dvec2 s = dvec2(quotient, rest), z = multiply_twos(s, s);
    dvec2 p = two_sum(0.6666666666666666lf, z.x * log_series(z.x) + 3.700743415417188e-17lf);
    p = multiply_twos(multiply_twos(s, z), p);
    dvec2 y = two_sum(2.0lf * s.x, p.x);
    precise double y_rest = y.y + (2.0lf * s.y + p.y);
    y = multiply_twos(dvec2(y.x, y_rest), dvec2(1.4426950408889634lf, 2.0355273740931033e-17lf));
    dvec2 sum = two_sum(double(e), y.x);
    precise double sum_rest = sum.y + y.y;
    return dvec2(sum.x, sum_rest);
}

// a^b for a finite a > 0, as 2^(b log2(a)). The logarithm has more digits than a double, because b multiplies its
// error.
double pow_positive(double a, double b) {
    dvec2 y = multiply_twos(log2_of_two(a), dvec2(clamp(b, -1e20lf, 1e20lf), 0.0lf));
    return exp2_of_two(y.x, y.y);
}

// pow for all bases. A negative base needs an integral exponent.
double pow_full(double a, double b) {
    if (b == 0.0lf || a == 1.0lf || a == -1.0lf && isinf(b)) return 1.0lf;
    if (isnan(a) || isnan(b)) return double(NAN);
    if (b == 1.0lf) return a;
    bool zero = a == 0.0lf, negative = int(unpackDouble2x32(a).y) < 0;
    double p = zero || isinf(a) ? ((b > 0.0lf) == zero ? 0.0lf : double(INF)) : pow_positive(abs(a), b);
    if (!negative) return p;
    if (floor(b) != b) return isinf(a) || zero ? p : double(NAN);
    return b - 2.0lf * floor(0.5lf * b) == 1.0lf ? -p : p;
}

// Arc tangent. From tan(pi/8) on, the argument of the polynomial is (x-1)/(x+1), and from its inverse on -1/x.
// Multiples of pi/4 are the sum of two doubles.
double atan_accurate(double x) {
    double over = abs(x), under = 1.0lf, angle = 0.0lf, rest = 0.0lf;
    if (over > 2.414213562373095lf) {
        under = over;
        over = -1.0lf;
        angle = 1.5707963267948966lf;
        rest = 6.123233995736766e-17lf;
    } else if (over > 0.41421356237309503lf) {
        under = over + 1.0lf;
        over -= 1.0lf;
        angle = 0.7853981633974483lf;
        rest = 3.061616997868383e-17lf;
    }
    double t = over / under, z = t * t;
    double p = (-0.013905374533113234lf * z + 0.030622995553735516lf) * z - 0.04103887546862687lf;
    p = ((p * z + 0.04719259188242093lf) * z - 0.05258020272656758lf) * z + 0.058819230561140225lf;
    p = ((p * z - 0.06666641869131183lf) * z + 0.07692306729194896lf) * z - 0.0909090906681608lf;
    p = ((p * z + 0.11111111110751482lf) * z - 0.1428571428571149lf) * z + 0.19999999999999993lf;
    p = (p * z - 0.3333333333333333lf) * z;
    precise double y = angle + (t + (p * t + rest));
    return with_sign(y, x);
}

// The angle of the point (x, y), also at the origin, at infinity and with signed zeros.
double atan2_full(double y, double x) {
    if (isnan(x) || isnan(y)) return double(NAN);
    double dx = abs(x), dy = abs(y), angle = dx == 0.0lf ? 0.0lf : 0.7853981633974483lf;
    if (dx != dy) angle = atan_accurate(div_full(min(dx, dy), max(dx, dy)));
    if (dy > dx) {
        precise double turned = 1.5707963267948966lf - (angle - 6.123233995736766e-17lf);
        angle = turned;
    }
    if (int(unpackDouble2x32(x).y) < 0) {
        precise double mirrored = 3.141592653589793lf - (angle - 1.2246467991473532e-16lf);
        angle = mirrored;
    }
    return with_sign(angle, y);
}

// Arc sine, as the angle of a point of the unit circle.
double arcsin(double x) {
    if (abs(x) > 1.0lf) return double(NAN);
    return atan2_full(x, sqrt((1.0lf - x) * (1.0lf + x)));
}

// Arc cosine, as twice the angle of half the arc.
double arccos(double x) {
    if (abs(x) > 1.0lf) return double(NAN);
    return 2.0lf * atan2_full(sqrt(1.0lf - x), sqrt(1.0lf + x));
}

// sign(x) log(|x| + sqrt(x^2 + 1)), without cancellation near 0.
double arsinh(double x) {
    double a = abs(x);
    if (a < 1e-8lf) return x;
    if (a > 1e9lf) return with_sign(log_accurate(a) + 0.6931471805599453lf, x);
    return with_sign(log1p(a + a * a / (1.0lf + sqrt(a * a + 1.0lf))), x);
}

// log(x + sqrt(x^2 - 1)), without cancellation near 1.
double arcosh(double x) {
    double t = x - 1.0lf;
    if (!(t >= 0.0lf)) return double(NAN);
    return x > 1e9lf ? log_accurate(x) + 0.6931471805599453lf : log1p(t + sqrt(t) * sqrt(t + 2.0lf));
}

// log((1 + x) / (1 - x)) / 2, without cancellation near 0.
double artanh(double x) {
    double a = abs(x);
    if (!(a <= 1.0lf)) return double(NAN);
    double y = a == 1.0lf ? double(INF) : 0.5lf * log1p(2.0lf * a / (1.0lf - a));
    return a < 1e-8lf ? x : with_sign(y, x);
}

// The bits of 2/pi, after 64 zeros. A double with the largest exponent needs the last ones.
const uint TWO_OVER_PI[39] = uint[](0u, 0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u,
    0x3c439041u, 0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu,
    0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu,
    0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu,
    0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u);

// The low word of a * b + carry. The high word becomes the next carry.
uint multiply_word(uint a, uint b, inout uint carry) {
    uint high, low, more;
    umulExtended(a, b, high, low);
    low = uaddCarry(low, carry, more);
    carry = high + more;
    return low;
}

// x minus the nearest multiple of pi/2 (Payne and Hanek 1983). The mantissa is multiplied by 192 bits of 2/pi from its
// exponent on. Higher bits add multiples of four quadrants. The product has the quadrant in its first two bits and the
// fraction of a quadrant in the others. No double is so near to a multiple that fewer than 70 of them are left.
double reduce_half_pi(double x, out int quadrant) {
    quadrant = 0;
    if (!(abs(x) > 0.7853981633974483lf)) return x;
    uvec2 bits = unpackDouble2x32(x);
    uint exponent = (bits.y >> 20 & 0x7ffu) - 1013u, i = exponent >> 5, shift = exponent & 31u;
    uint high = bits.y & 0xfffffu | 0x100000u, carry = 0u, high_carry = 0u, more = 0u, last = 0u;
    uint words[6];
    for (int k = 5; k >= 0; --k) {
        uint digits = TWO_OVER_PI[i + uint(k)] << shift | TWO_OVER_PI[i + uint(k) + 1u] >> 1 >> 31u - shift;
        uint low_word = multiply_word(bits.x, digits, carry), high_word = multiply_word(high, last, high_carry);
        words[k] = uaddCarry(low_word, high_word, more);
        carry += more;
        last = digits;
    }
    quadrant = int(words[0] >> 30);
    bool below = (words[0] & 0x20000000u) != 0u; // the next multiple is nearer
    uint flip = below ? 0xffffffffu : 0u;
    double r = 0.0lf;
    for (int k = 5; k > 0; --k) {
        r = (r + double(words[k] ^ flip)) * 2.3283064365386963e-10lf;
    }
    r = (r + double((words[0] ^ flip) & 0x3fffffffu)) * 1.4629180792671596e-9lf;
    if (below) ++quadrant;
    if (x < 0.0lf) quadrant = -quadrant;
    quadrant &= 3;
    return below != x < 0.0lf ? -r : r;
}

// The sine on [-pi/4, pi/4].
double sin_reduced(double x) {
    double z = x * x;
    double p = (-7.586094789672621e-13lf * z + 1.6058521349954986e-10lf) * z - 2.5052106167335705e-8lf;
    p = ((p * z + 2.7557319219150783e-6lf) * z - 1.9841269841264821e-4lf) * z + 8.333333333333331e-3lf;
    return (p * z - 0.16666666666666666lf) * z * x + x;
}

// The cosine on [-pi/4, pi/4].
double cos_reduced(double x) {
    double z = x * x;
    double p = (4.745537017319258e-14lf * z - 1.1470455178216906e-11lf) * z + 2.0876755754879594e-9lf;
    p = ((p * z - 2.755731922129809e-7lf) * z + 2.480158730158451e-5lf) * z - 1.3888888888888887e-3lf;
    return (p * z + 0.041666666666666664lf) * z * z - 0.5lf * z + 1.0lf;
}

double sin_accurate(double x) {
    if (isinf(x)) return double(NAN);
    int quadrant;
    double r = reduce_half_pi(x, quadrant);
    double s = (quadrant & 1) == 0 ? sin_reduced(r) : cos_reduced(r);
    return quadrant < 2 ? s : -s;
}

double cos_accurate(double x) {
    if (isinf(x)) return double(NAN);
    int quadrant;
    double r = reduce_half_pi(x, quadrant);
    double c = (quadrant & 1) == 0 ? cos_reduced(r) : sin_reduced(r);
    return quadrant == 0 || quadrant == 3 ? c : -c;
}

// h * h / 2, without the overflow of h * h.
double half_square(double h) {
    precise double half_h = 0.5lf * h;
    precise double y = half_h * h;
    return y;
}

// Sinh. From 22 on it is e^|x|/2, and the square of exp(x/2) overflows only if sinh does.
double sinh_accurate(double x) {
    double a = abs(x), t = expm1(min(a, 22.0lf));
    double y = a < 22.0lf ? 0.5lf * (t + t / (t + 1.0lf)) : half_square(exp_accurate(0.5lf * a));
    return with_sign(y, x);
}

// Cosh. The square of exp(x/2) overflows only if cosh does.
double cosh_accurate(double x) {
    double h = exp_accurate(0.5lf * abs(x));
    return half_square(h) + 0.5lf / h / h;
}

// Tanh, as t/(t+2) for t = e^2x - 1.
double tanh_safe(double x) {
    double a = abs(x), t = expm1(2.0lf * (a > 22.0lf ? 22.0lf : a));
    return with_sign(t / (t + 2.0lf), x);
}

// Error function: up to 1 a polynomial, and then 1 - e^(-x^2) g with a polynomial g of (x-2.5)/(x+2.5).
double erf(double x) {
    double a = abs(x) > 6.0lf ? 6.0lf : abs(x), z = a * a;
    if (a > 1.0lf) {
        double t = (a - 2.5lf) / (a + 2.5lf);
        double g = (-1.587633893127344e-6lf * t - 2.2328516517555215e-6lf) * t + 7.499735050763299e-6lf;
        g = ((g * t + 1.8596747731144528e-5lf) * t - 3.4175718896856294e-5lf) * t - 1.2887483134837842e-4lf;
        g = ((g * t + 2.283799633257643e-4lf) * t + 8.759152875774328e-4lf) * t - 2.6423659518134547e-3lf;
        g = ((g * t - 3.993701160123029e-3lf) * t + 3.992253907546523e-2lf) * t - 0.12503305237891782lf;
        g = ((g * t + 0.2517131932174488lf) * t - 0.37173673394897294lf) * t + 0.2108063640611436lf;
        return with_sign(1.0lf - exp_accurate(-z) * g, x);
    }
    double p = (-4.230945824295338e-12lf * z + 8.709045129053106e-11lf) * z - 1.216456005728345e-9lf;
    p = ((p * z + 1.4792401209404813e-8lf) * z - 1.6364642158167616e-7lf) * z + 1.6462045441468418e-6lf;
    p = ((p * z - 1.4925647567519332e-5lf) * z + 1.2055332902888736e-4lf) * z - 8.54832702193483e-4lf;
    p = ((p * z + 5.2239776254232985e-3lf) * z - 2.686617064512984e-2lf) * z + 0.1128379167095512lf;
    p = (p * z - 0.37612638903183754lf) * z + 0.1283791670955126lf;
    return p * x + x;
}

// log(1 + e^x) without overflow.
double softplus(double x) {
    return max(x, 0.0lf) + log1p(exp_accurate(-abs(x)));
}

double selu(double x) {
    return 1.0507009873554805lf * (x < 0.0lf ? 1.6732632423543772lf * expm1(x) : x);
}

// 0.5 * x * (1 + tanh(u)), computed as x times the logistic function of 2u. That keeps its digits if tanh is near -1.
double gelu_tanh(double x) {
    double u = 0.7978845608028654lf * (x + 0.044715lf * x * x * x);
    return x / (1.0lf + exp_accurate(-2.0lf * u));
}
