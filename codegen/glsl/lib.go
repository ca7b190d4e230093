package glsl

import (
	"slices"
	"strings"
)

// helper is a function or constant of the library: what GLSL lacks, leaves
// undefined or computes too roughly. TYPE in the source stands for each of its
// types in turn.
type helper struct {
	name   string
	types  []string
	uses   []string // other helpers, which come earlier in the table
	source string
}

var (
	floats   = []string{"float", "double"}
	ints     = []string{"int", "int64_t"}
	f32Only  = []string{"float"}
	intOnly  = []string{"int"}
	longOnly = []string{"int64_t"}
	uintOnly = []string{"uint"}
)

// libraryNames holds the names that variables must not hide.
var libraryNames = func() map[string]bool {
	names := map[string]bool{}
	for _, h := range library {
		names[h.name] = true
	}
	for _, a := range exchanged {
		names[a.name] = true
	}
	return names
}()

// helper makes the text have a library function for a type.
func (e *emitter) helper(name, typ string) {
	h, typ := findHelper(name, typ)
	if h == nil {
		e.fail("the library has no %s of %s", name, typ)
		return
	}
	if e.helpers[name+" "+typ] {
		return
	}
	e.helpers[name+" "+typ] = true
	e.needType(typ)
	if strings.Contains(h.source, "int64_t") {
		e.need(NeedInt64)
	}
	for _, u := range h.uses {
		e.helper(u, typ)
	}
}

// findHelper returns the row of a function for a type, or the only one there
// is, and the type that it is for.
func findHelper(name, typ string) (*helper, string) {
	var only *helper
	for i := range library {
		h := &library[i]
		if h.name != name {
			continue
		}
		if slices.Contains(h.types, typ) {
			return h, typ
		}
		only = h
	}
	if only == nil || len(only.types) != 1 {
		return nil, typ
	}
	return only, only.types[0]
}

// functions returns the helpers, decoders and custom ops that main uses, and takes out of main what they do without.
func (e *emitter) functions() []definition {
	main := pruned(append(e.symbolLines(), e.root.lines...))
	var own []definition
	for _, h := range library {
		for _, typ := range h.types {
			if e.helpers[h.name+" "+typ] {
				own = append(own, h.definition(typ))
			}
		}
	}
	own = pruneFunctions(append(own, e.decoders...), e.custom, main)
	e.root.lines = main
	return append(own, e.custom...)
}

// definition is the helper for one of its types.
func (h helper) definition(typ string) definition {
	return parseDefinition(strings.ReplaceAll(strings.Trim(h.source, "\n"), "TYPE", typ) + "\n")
}

// library is in the order of the text: what a function uses stands before it.
// Functions of floats follow IEEE in NaN and infinity.
var library = withQuantizers(slices.Concat(scalarLibrary, pairLibrary, quantizeLibrary, quantizeFits))

var scalarLibrary = []helper{
	{"INF", f32Only, nil, `
#define INF uintBitsToFloat(0x7f800000u)`},
	{"NAN", f32Only, nil, `
#define NAN uintBitsToFloat(0x7fc00000u)`},
	{"nan_max", floats, nil, `
// The larger one; NaN if either is.
TYPE nan_max(TYPE a, TYPE b) {
    return isnan(b) || a <= b ? b : a;
}`},
	{"nan_min", floats, nil, `
// The smaller one; NaN if either is.
TYPE nan_min(TYPE a, TYPE b) {
    return isnan(b) || a >= b ? b : a;
}`},
	{"nan_clamp", floats, nil, `
// x limited to lo..hi; NaN stays.
TYPE nan_clamp(TYPE x, TYPE lo, TYPE hi) {
    return isnan(x) ? x : clamp(x, lo, hi);
}`},
	{"div_full", floats, nil, `
// a / b. Vulkan's division goes to divisors of 2^126, past which some devices
// multiply by a reciprocal that is flushed to 0.
TYPE div_full(TYPE a, TYPE b) {
    float scale = abs(b) > 8.507059e37 ? 0.25 : 1.0;
    return a * scale / (b * scale);
}`},
	{"sum_exactly", f32Only, nil, `
// Adds x to a sum, and what rounding takes from that to lost (Knuth, TwoSum).
void sum_exactly(inout float sum, inout float lost, float x) {
    precise float total = sum + x;
    precise float part = total - sum;
    precise float error = (sum - (total - part)) + (x - part);
    sum = total;
    lost += error;
}`},
	{"sum_with", f32Only, nil, `
// A sum with what was lost of it, which of an infinite one is no number.
float sum_with(float sum, float lost) {
    return isinf(sum) ? sum : sum + lost;
}`},
	{"shift_left", intOnly, nil, `
// No bit stays of a shift by 32 or more, nor of one by less than 0.
int shift_left(int a, int b) {
    return uint(b) < 32u ? a << b : 0;
}`},
	{"shift_left", longOnly, nil, `
// No bit stays of a shift by 64 or more, nor of one by less than 0.
int64_t shift_left(int64_t a, int64_t b) {
    return b >= 0 && b < 64 ? a << int(b) : int64_t(0);
}`},
	{"shift_left", pairOnly, nil, `
// No bit stays of a shift by 64 or more, nor of one by less than 0.
uvec2 shift_left(uvec2 a, uvec2 b) {
    if (b.y != 0u || b.x > 63u) return uvec2(0u);
    if (b.x > 31u) return uvec2(0u, a.x << b.x - 32u);
    return b.x == 0u ? a : uvec2(a.x << b.x, a.y << b.x | a.x >> 32u - b.x);
}`},
	{"shift_right", intOnly, nil, `
// The sign stays of a shift by 32 or more, or by less than 0.
int shift_right(int a, int b) {
    return a >> min(uint(b), 31u);
}`},
	{"shift_right", longOnly, nil, `
// The sign stays of a shift by 64 or more, or by less than 0.
int64_t shift_right(int64_t a, int64_t b) {
    return a >> (b >= 0 && b < 64 ? int(b) : 63);
}`},
	{"shift_right", pairOnly, nil, `
// The sign stays of a shift by 64 or more, or by less than 0.
uvec2 shift_right(uvec2 a, uvec2 b) {
    int high = int(a.y);
    uint sign = uint(high >> 31);
    if (b.y != 0u || b.x > 63u) return uvec2(sign);
    if (b.x > 31u) return uvec2(uint(high >> b.x - 32u), sign);
    return b.x == 0u ? a : uvec2(a.x >> b.x | a.y << 32u - b.x, uint(high >> b.x));
}`},
	{"div_int", ints, nil, `
// Truncates; x/0 is 0, and the smallest number by -1 wraps.
TYPE div_int(TYPE a, TYPE b) {
    if (b == 0) return 0;
    return b == -1 ? -a : a / b;
}`},
	{"div_uint", uintOnly, nil, `
// x/0 is 0.
uint div_uint(uint a, uint b) {
    return b == 0u ? 0u : a / b;
}`},
	{"rem_int", ints, nil, `
// Has the sign of a; x rem 0 is 0.
TYPE rem_int(TYPE a, TYPE b) {
    if (b == 0 || b == -1) return 0;
    return a - a / b * b;
}`},
	{"rem_uint", uintOnly, nil, `
// x rem 0 is 0.
uint rem_uint(uint a, uint b) {
    return b == 0u ? 0u : a % b;
}`},
	{"pow_int", ints, nil, `
// a^b by squaring, which wraps; of negative b, truncated.
TYPE pow_int(TYPE a, TYPE b) {
    TYPE y = TYPE(b < 0 && (a > 1 || a < -1 || a == 0) ? 0 : 1);
    if (b < 0) b = (b & 1) == 0 || a != -1 ? TYPE(0) : TYPE(1);
    for (; b > 0; b >>= 1) {
        if ((b & 1) != 0) y *= a;
        a *= a;
    }
    return y;
}`},
	{"pow_uint", uintOnly, nil, `
// a^b by squaring, which wraps.
uint pow_uint(uint a, uint b) {
    uint y = 1u;
    for (; b > 0u; b >>= 1) {
        if ((b & 1u) != 0u) y *= a;
        a *= a;
    }
    return y;
}`},
	{"mod_int", ints, []string{"rem_int"}, `
// Has the sign of b; x mod 0 is 0.
TYPE mod_int(TYPE a, TYPE b) {
    TYPE r = rem_int(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}`},
	{"rem_trunc", f32Only, []string{"NAN"}, `
// The remainder of a division that truncates, exactly: in integers, eight bits
// of the quotient at a time. Has the sign of a.
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
}`},
	{"rem_trunc", []string{"double"}, nil, `
// a - b * trunc(a / b), corrected where the quotient was rounded across an
// integer. Has the sign of a.
double rem_trunc(double a, double b) {
    if (isinf(b) && !isinf(a)) return a;
    double r = fma(-trunc(a / b), b, a);
    if (r != 0.0 && (r < 0.0) != (a < 0.0)) r += a < 0.0 ? -abs(b) : abs(b);
    if (abs(r) >= abs(b)) r -= r < 0.0 ? -abs(b) : abs(b);
    return r;
}`},
	{"mod_floor", floats, []string{"rem_trunc"}, `
// a - b * floor(a / b). Has the sign of b.
TYPE mod_floor(TYPE a, TYPE b) {
    TYPE r = rem_trunc(a, b);
    return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}`},
	{"log1p", f32Only, []string{"INF", "NAN"}, `
// log(1 + x): near 0 by 2 atanh(x / (2 + x)); Vulkan leaves it open for x <= -1.
float log1p(float x) {
    if (x <= -1.0) return x < -1.0 ? NAN : -INF;
    if (!(x > -0.3 && x < 0.42)) return log(1.0 + x);
    float s = x / (2.0 + x), z = s * s;
    return 2.0 * s * ((((z * 0.11111111 + 0.14285715) * z + 0.2) * z + 0.33333334) * z + 1.0);
}`},
	{"arsinh", f32Only, []string{"log1p"}, `
// sign(x) log(|x| + sqrt(x^2 + 1)), near 0 without cancelling.
float arsinh(float x) {
    float a = abs(x), y = a > 4096.0 ? log(a) + 0.6931472 : log1p(a + a * a / (1.0 + sqrt(a * a + 1.0)));
    return a < 0.0001 || isnan(x) ? x : x < 0.0 ? -y : y;
}`},
	{"arcosh", f32Only, []string{"NAN", "log1p"}, `
// log(x + sqrt(x^2 - 1)), near 1 without cancelling.
float arcosh(float x) {
    float t = x - 1.0;
    if (!(t >= 0.0)) return NAN;
    return x > 4096.0 ? log(x) + 0.6931472 : log1p(t + sqrt(t * (t + 2.0)));
}`},
	{"artanh", f32Only, []string{"NAN", "log1p"}, `
// log((1 + x) / (1 - x)) / 2, near 0 without cancelling.
float artanh(float x) {
    float a = abs(x);
    if (!(a <= 1.0)) return NAN;
    float y = 0.5 * log1p(a == 1.0 ? uintBitsToFloat(0x7f800000u) : 2.0 * a / (1.0 - a));
    return a < 0.0001 ? x : x < 0.0 ? -y : y;
}`},
	{"log_accurate", f32Only, []string{"INF", "NAN", "log1p"}, `
// log, which Vulkan lets be off by 2^-21 near 1 and leaves open for x <= 0;
// drivers take denormals for anything.
float log_accurate(float x) {
    if (x > 0.7 && x < 1.42) return log1p(x - 1.0);
    if (x < 1.1754944e-38) return x < 0.0 ? NAN : x == 0.0 ? -INF : log(x * 16777216.0) - 16.635532;
    return log(x);
}`},
	{"log2_accurate", f32Only, []string{"INF", "NAN", "log1p"}, `
// log2, which Vulkan lets be off by 2^-21 near 1 and leaves open for x <= 0;
// drivers take denormals for anything.
float log2_accurate(float x) {
    if (x > 0.7 && x < 1.42) return log1p(x - 1.0) * 1.442695;
    if (x < 1.1754944e-38) return x < 0.0 ? NAN : x == 0.0 ? -INF : log2(x * 16777216.0) - 24.0;
    return log2(x);
}`},
	{"pow_positive", f32Only, []string{"INF", "log1p"}, `
// a^b of a finite a > 0, as 2^(b log2 a). a is 2^e m with m from sqrt(1/2) to
// sqrt(2), and the whole part of the exponent is kept apart: rounding it
// together with the rest would cost digits, and overflow near the largest float.
float pow_positive(float a, float b) {
    bool tiny = a < 1.1754944e-38;
    int bits = floatBitsToInt(tiny ? a * 16777216.0 : a), e = bits - 0x3f3504f3 >> 23;
    float m = intBitsToFloat(bits - (e << 23)), whole = float(tiny ? e - 24 : e);
    b = clamp(b, -1e30, 1e30);
    float rest = b * (log1p(m - 1.0) * 1.442695), n = roundEven(b * whole + rest);
    if (abs(n) > 160.0) return n > 0.0 ? INF : 0.0;
    int k = int(n), h = k / 2; // two steps, as 2^k may be no float
    return exp2(b * whole - n + rest) * intBitsToFloat(h + 127 << 23) * intBitsToFloat(k - h + 127 << 23);
}`},
	{"pow_full", f32Only, []string{"INF", "NAN", "pow_positive"}, `
// pow for all bases: a negative one needs an integral exponent.
float pow_full(float a, float b) {
    if (b == 0.0 || a == 1.0 || a == -1.0 && isinf(b)) return 1.0;
    if (isnan(a) || isnan(b)) return NAN;
    if (b == 1.0) return a;
    bool zero = a == 0.0;
    float p = zero || isinf(a) ? ((b > 0.0) == zero ? 0.0 : INF) : pow_positive(abs(a), b);
    if (floatBitsToInt(a) >= 0) return p;
    if (floor(b) != b) return isinf(a) || zero ? p : NAN;
    return b - 2.0 * floor(0.5 * b) == 1.0 ? -p : p;
}`},
	{"atan_accurate", f32Only, nil, `
// Arc tangent: beyond tan(pi/8) by that of (x-1)/(x+1), beyond 1 by that of 1/x,
// to reach a polynomial (Moshier, Cephes atanf.c).
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
}`},
	{"atan2_full", f32Only, []string{"atan_accurate", "div_full", "NAN"}, `
// The angle of the point (x, y): at the origin, at infinity and with signed
// zeros too. Of the two ratios it is by the one up to 1, as a driver may take a
// division by a known 0 for something else.
float atan2_full(float y, float x) {
    if (isnan(x) || isnan(y)) return NAN;
    float dx = abs(x), dy = abs(y);
    float angle = dx == dy ? (dx == 0.0 ? 0.0 : 0.78539816) : atan_accurate(div_full(min(dx, dy), max(dx, dy)));
    if (dy > dx) angle = 1.5707964 - angle;
    if (floatBitsToInt(x) < 0) angle = 3.1415927 - angle;
    return floatBitsToInt(y) < 0 ? -angle : angle;
}`},
	{"arcsin", f32Only, []string{"NAN"}, `
// Arc sine: beyond 1/2 by that of sqrt((1-x)/2), to reach a polynomial (Moshier,
// Cephes asinf.c).
float arcsin(float x) {
    float a = abs(x);
    if (a > 1.0) return NAN;
    bool far = a > 0.5;
    float z = far ? 0.5 - 0.5 * a : a * a;
    if (far) a = sqrt(z);
    a += ((((4.21632e-2 * z + 2.4181311e-2) * z + 4.547003e-2) * z + 7.4953e-2) * z + 0.16666752) * z * a;
    if (far) a = 1.5707964 - 2.0 * a;
    return floatBitsToInt(x) < 0 ? -a : a;
}`},
	{"arccos", f32Only, []string{"arcsin", "NAN"}, `
// Arc cosine, from the arc sine where that loses no digits (Moshier, Cephes
// asinf.c).
float arccos(float x) {
    if (abs(x) > 1.0) return NAN;
    if (!(abs(x) > 0.5)) return 1.5707964 - arcsin(x);
    float a = 2.0 * arcsin(sqrt(0.5 - 0.5 * abs(x)));
    return x < 0.0 ? 3.1415927 - a : a;
}`},
	{"reduce_half_pi", f32Only, nil, `
// x less the nearest multiple of pi/2 (Payne and Hanek 1983): the mantissa
// times the bits of 2/pi from its exponent on, of which 62 stand behind the
// quadrant. Integers, because float optimizers tend to undo such reductions. The
// words of 2/pi are selected, since some drivers keep an array in slow memory.
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
}`},
	{"sin_reduced", f32Only, nil, `
// On [-pi/4, pi/4] (Moshier, Cephes sinf.c).
float sin_reduced(float x) {
    float z = x * x;
    return ((-1.9515296e-4 * z + 8.332161e-3) * z - 0.16666655) * z * x + x;
}`},
	{"cos_reduced", f32Only, nil, `
// On [-pi/4, pi/4] (Moshier, Cephes sinf.c).
float cos_reduced(float x) {
    float z = x * x;
    return ((2.4433157e-5 * z - 1.3887316e-3) * z + 4.1666646e-2) * z * z - 0.5 * z + 1.0;
}`},
	{"sin_accurate", f32Only, []string{"reduce_half_pi", "sin_reduced", "cos_reduced", "NAN"}, `
float sin_accurate(float x) {
    if (isinf(x)) return NAN;
    int quadrant;
    float r = reduce_half_pi(x, quadrant);
    float s = (quadrant & 1) == 0 ? sin_reduced(r) : cos_reduced(r);
    return quadrant < 2 ? s : -s;
}`},
	{"cos_accurate", f32Only, []string{"reduce_half_pi", "sin_reduced", "cos_reduced", "NAN"}, `
float cos_accurate(float x) {
    if (isinf(x)) return NAN;
    int quadrant;
    float r = reduce_half_pi(x, quadrant);
    float c = (quadrant & 1) == 0 ? cos_reduced(r) : sin_reduced(r);
    return quadrant == 0 || quadrant == 3 ? c : -c;
}`},
	{"expm1", f32Only, nil, `
// e^x - 1: its series near 0, where the subtraction would lose digits.
float expm1(float x) {
    if (abs(x) > 0.5) return exp(x) - 1.0;
    float p = x * 2.4801587e-5 + 1.984127e-4;
    p = (((((p * x + 1.3888889e-3) * x + 8.333334e-3) * x + 4.1666668e-2) * x + 0.16666667) * x + 0.5) * x;
    return p * x + x;
}`},
	{"half_square", f32Only, nil, `
// Half the square of h, which is at least 1. The half is taken from the exponent:
// of 0.5 * h * h compilers compute h * h first, which overflows sooner.
float half_square(float h) {
    return uintBitsToFloat(floatBitsToUint(h) - 0x00800000u) * h;
}`},
	{"sinh_accurate", f32Only, []string{"half_square"}, `
// Sinh: its series near 0; squares of exp(x/2) overflow only where sinh does.
float sinh_accurate(float x) {
    float a = abs(x), z = x * x;
    if (a < 1.0) return (((z * 2.7557319e-6 + 1.984127e-4) * z + 8.333334e-3) * z + 0.16666667) * z * x + x;
    float h = exp(0.5 * a);
    float s = half_square(h) - 0.5 / h / h;
    return x < 0.0 ? -s : s;
}`},
	{"cosh_accurate", f32Only, []string{"half_square"}, `
// Cosh: squares of exp(x/2) overflow only where cosh does.
float cosh_accurate(float x) {
    float h = exp(0.5 * abs(x));
    return half_square(h) + 0.5 / h / h;
}`},
	{"tanh_safe", f32Only, nil, `
// Tanh without overflow; near 0 by a minimax polynomial (Moshier, Cephes tanhf.c).
float tanh_safe(float x) {
    float a = abs(x), z = x * x;
    if (a < 0.625) {
        float p = ((-5.7049887e-3 * z + 2.0639088e-2) * z - 5.3739715e-2) * z + 0.13331442;
        return (p * z - 0.33333282) * z * x + x;
    }
    float t = 1.0 - 2.0 / (exp(2.0 * a) + 1.0);
    return x < 0.0 ? -t : t;
}`},
	{"erf", f32Only, nil, `
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
}`},
	{"softplus", f32Only, []string{"log1p"}, `
// log(1 + e^x) without overflow.
float softplus(float x) {
    return max(x, 0.0) + log1p(exp(-abs(x)));
}`},
	{"selu", f32Only, []string{"expm1"}, `
float selu(float x) {
    return 1.050701 * (x < 0.0 ? 1.6732632 * expm1(x) : x);
}`},
	{"gelu_tanh", f32Only, nil, `
// 0.5 * x * (1 + tanh(u)), written as x times the logistic function of 2u,
// which keeps its digits where tanh comes close to -1.
float gelu_tanh(float x) {
    float u = 0.79788456 * (x + 0.044715 * x * x * x);
    return x / (1.0 + exp(-2.0 * u));
}`},
	{"halves_of_i64", []string{"int64_t"}, nil, `
// The low and the high half of a number.
uvec2 halves_of_i64(int64_t x) {
    return uvec2(uint(x), uint(x >> 32));
}`},
	{"random_block", uintOnly, nil, `
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
}`},
	{"random_word", uintOnly, []string{"random_block"}, `
// The random word of one element.
uint random_word(uvec2 seed, uvec2 offset, uint element) {
    return random_block(seed, offset, element / 4u)[element % 4u];
}`},
	{"bf16_to_f32", f32Only, nil, `
float bf16_to_f32(uint bits) {
    return uintBitsToFloat(bits << 16);
}`},
	{"f32_to_bf16", f32Only, nil, `
// Rounds to nearest even; NaN stays NaN.
uint f32_to_bf16(float x) {
    uint bits = floatBitsToUint(x);
    return mix(bits + 0x7fffu + (bits >> 16 & 1u) >> 16, bits >> 16 | 0x40u, isnan(x));
}`},
	{"first_halves", []string{"uvec4"}, nil, `
// The first n of eight halves; the others are 0.
uvec4 first_halves(uvec4 octet, uint n) {
    const uvec4 first = uvec4(0u, 2u, 4u, 6u);
    octet = mix(octet & 0xffffu, octet, greaterThan(uvec4(n), first + 1u));
    return mix(uvec4(0u), octet, greaterThan(uvec4(n), first));
}`},
	{"pack_bf16", f32Only, []string{"f32_to_bf16"}, `
// Two floats rounded to bf16, the first in the low half.
uint pack_bf16(vec2 v) {
    return f32_to_bf16(v.x) | f32_to_bf16(v.y) << 16;
}`},
	// Decoding and rounding have no branch, as loops do many: see [target.DearBranches].
	{"f8e4m3_to_f32", f32Only, nil, `
// OCP 8-bit float: 4 exponent and 3 mantissa bits, no infinity, 0x7f is NaN.
float f8e4m3_to_f32(uint bits) {
    uint magnitude = bits & 0x7fu, small = floatBitsToUint(float(magnitude) * 0.001953125);
    uint x = mix((magnitude << 20) + 0x3c000000u, small, magnitude < 8u);
    return uintBitsToFloat(mix(x, 0x7fc00000u, magnitude == 0x7fu) | (bits & 0x80u) << 24);
}`},
	{"f32_to_f8e4m3", f32Only, nil, `
// Rounds to nearest even and saturates at 448, as bits: some drivers leave abs out around an inversesqrt.
uint f32_to_f8e4m3(float x) {
    uint bits = min(floatBitsToUint(x) & 0x7fffffffu, 0x43e00000u);
    float a = uintBitsToFloat(bits);
    uint rounded = (bits + 0x7ffffu + (bits >> 20 & 1u) >> 20) - 960u;
    rounded = mix(rounded, uint(roundEven(a * 512.0)), a < 0.015625);
    return mix(rounded, 0x7fu, isnan(x)) | floatBitsToUint(x) >> 24 & 0x80u;
}`},
	{"f8e5m2_to_f32", f32Only, nil, `
// OCP 8-bit float: 5 exponent and 2 mantissa bits, the upper half of an f16. By integers, since a device may take
// small f16 for 0.
float f8e5m2_to_f32(uint bits) {
    uint magnitude = bits & 0x7fu, small = floatBitsToUint(float(magnitude) * 0.0000152587890625);
    uint x = mix((magnitude << 21) + 0x38000000u, small, magnitude < 4u);
    return uintBitsToFloat(mix(x, magnitude << 21 | 0x7f800000u, magnitude >= 0x7cu) | (bits & 0x80u) << 24);
}`},
	{"f32_to_f8e5m2", f32Only, nil, `
// Rounds to nearest even; what does not fit is infinite, as 65536 is, and found so by bits: some drivers leave
// abs out around an inversesqrt, which is -inf of -0.
uint f32_to_f8e5m2(float x) {
    uint bits = min(floatBitsToUint(x) & 0x7fffffffu, 0x47800000u);
    float a = uintBitsToFloat(bits);
    uint rounded = (bits + 0xfffffu + (bits >> 21 & 1u) >> 21) - 448u;
    rounded = mix(rounded, uint(roundEven(min(a, 1.0) * 65536.0)), a < 0.00006103515625);
    return mix(rounded, 0x7eu, isnan(x)) | floatBitsToUint(x) >> 24 & 0x80u;
}`},
	{"round_f8e5m2", f32Only, []string{"f8e5m2_to_f32", "f32_to_f8e5m2"}, `
// Rounds to the precision of f8e5m2.
float round_f8e5m2(float x) {
    return f8e5m2_to_f32(f32_to_f8e5m2(x));
}`},
	{"round_f16", f32Only, nil, `
// Rounds to the nearest f16, ties to even: by integers, since compilers take
// unpackHalf2x16 of packHalf2x16 for the number itself.
float round_f16(float x) {
    uint bits = floatBitsToUint(x), size = bits & 0x7fffffffu;
    // Below 2^-14 an f16 is a multiple of 2^-24, as an f32 next to 0.5 is.
    precise float small = (uintBitsToFloat(size) + 0.5) - 0.5;
    uint rounded = size + 0xfffu + (size >> 13 & 1u) & 0xffffe000u;
    rounded = mix(rounded, floatBitsToUint(small), size < 0x38800000u);
    rounded = mix(rounded, max(size, 0x7f800000u), rounded >= 0x47800000u); // 2^16: infinite, or NaN as it is
    return uintBitsToFloat(bits & 0x80000000u | rounded);
}`},
	{"round_bf16", f32Only, []string{"bf16_to_f32", "f32_to_bf16"}, `
// Rounds to the precision of bf16.
float round_bf16(float x) {
    return bf16_to_f32(f32_to_bf16(x));
}`},
	{"round_f8e4m3", f32Only, []string{"f8e4m3_to_f32", "f32_to_f8e4m3"}, `
// Rounds to the precision of f8e4m3.
float round_f8e4m3(float x) {
    return f8e4m3_to_f32(f32_to_f8e4m3(x));
}`},
	{"float_to_i32", floats, nil, `
// Truncates and saturates; NaN gives 0. Without branches, so that a compiler finds
// two calls that are one.
int float_to_i32(TYPE x) {
    int whole = int(abs(x) < 2147483648.0 ? x : 0.0);
    int limited = x >= 2147483648.0 ? 0x7fffffff : whole;
    return x <= -2147483648.0 ? -0x7fffffff - 1 : limited;
}`},
	{"float_to_u32", floats, nil, `
// Truncates and saturates; NaN gives 0.
uint float_to_u32(TYPE x) {
    if (isnan(x) || x <= 0.0) return 0u;
    return x >= 4294967296.0 ? 0xffffffffu : uint(x);
}`},
	{"float_to_i64", floats, nil, `
// Truncates and saturates; NaN gives 0.
int64_t float_to_i64(TYPE x) {
    if (isnan(x)) return 0L;
    return x >= 9223372036854775808.0 ? 0x7fffffffffffffffL : x <= -9223372036854775808.0 ? -0x7fffffffffffffffL - 1L : int64_t(x);
}`},
	{"float_to_i16", floats, nil, `
// Truncates and saturates; NaN gives 0.
int float_to_i16(TYPE x) {
    return isnan(x) ? 0 : int(clamp(x, -32768.0, 32767.0));
}`},
	{"float_to_u16", floats, nil, `
// Truncates and saturates; NaN gives 0.
uint float_to_u16(TYPE x) {
    return isnan(x) ? 0u : uint(clamp(x, 0.0, 65535.0));
}`},
	{"float_to_i8", floats, nil, `
// Truncates and saturates; NaN gives 0.
int float_to_i8(TYPE x) {
    return isnan(x) ? 0 : int(clamp(x, -128.0, 127.0));
}`},
	{"float_to_u8", floats, nil, `
// Truncates and saturates; NaN gives 0.
uint float_to_u8(TYPE x) {
    return isnan(x) ? 0u : uint(clamp(x, 0.0, 255.0));
}`},
	{"float_order", f32Only, nil, `
// A number that orders floats: -0 as 0, NaN after all.
uint float_order(float x) {
    uint bits = floatBitsToUint(x), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0xffffffffu;
    return magnitude == 0u || bits == magnitude ? magnitude | 0x80000000u : ~bits;
}`},
	{"argmax_beats", []string{"float", "double"}, nil, `
// Whether a at place i comes before b at place j: NaN is largest, and the
// first of equals wins.
bool argmax_beats(TYPE a, int i, TYPE b, int j) {
    if (isnan(a)) return !isnan(b) || i < j;
    return a > b || a == b && i < j;
}`},
	{"argmin_beats", []string{"float", "double"}, nil, `
// Whether a at place i comes before b at place j: NaN is smallest, and the
// first of equals wins.
bool argmin_beats(TYPE a, int i, TYPE b, int j) {
    if (isnan(a)) return !isnan(b) || i < j;
    return a < b || a == b && i < j;
}`},
	{"argmax_beats_int", []string{"int", "uint", "int64_t"}, nil, `
// Whether a at place i comes before b at place j: the first of equals wins.
bool argmax_beats_int(TYPE a, int i, TYPE b, int j) {
    return a > b || a == b && i < j;
}`},
	{"argmin_beats_int", []string{"int", "uint", "int64_t"}, nil, `
// Whether a at place i comes before b at place j: the first of equals wins.
bool argmin_beats_int(TYPE a, int i, TYPE b, int j) {
    return a < b || a == b && i < j;
}`},
	{"bytes_unsigned", f32Only, nil, `
// Four bytes as floats, by way of the halves from 1024 to 1279, whose last bits
// are a byte: conversions of integers are slower.
vec4 bytes_unsigned(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1024.0;
}`},
	{"bytes_subnormal", f32Only, nil, `
// Four bytes as floats of 2^-24 each: the halves that are a byte in the last
// bits and zeros before it.
vec4 bytes_subnormal(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu);
    return vec4(even.x, odd.x, even.y, odd.y);
}`},
	{"shorts_unsigned", f32Only, nil, `
// Both halves of a word as floats.
vec2 shorts_unsigned(uint shorts) {
    return vec2(shorts & 0xffffu, shorts >> 16);
}`},
	{"bytes_signed", f32Only, nil, `
// Four signed bytes as floats: 128 more than each is unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}`},
	{"halves_of_bytes", f32Only, nil, `
// Eight bytes as halves, by way of those from 1024 to 1279, less what is above
// what they stand for; the even ones of four come before the odd ones.
uvec4 halves_of_bytes(uvec2 bytes, float16_t above) {
    uvec4 halves = uvec4(bytes & 0x00ff00ffu, bytes >> 8 & 0x00ff00ffu).xzyw | 0x64006400u;
    return uvec4(packFloat2x16(unpackFloat2x16(halves.x) - above), packFloat2x16(unpackFloat2x16(halves.y) - above),
        packFloat2x16(unpackFloat2x16(halves.z) - above), packFloat2x16(unpackFloat2x16(halves.w) - above));
}`},
	{"pack_halves", f32Only, nil, `
// Eight floats as halves.
uvec4 pack_halves(vec4 low, vec4 high) {
    return uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
}`},
	{"pack_bytes", []string{"ivec4"}, nil, `
// The low byte of each, the first lowest.
uint pack_bytes(ivec4 v) {
    uvec4 bytes = uvec4(v) & 0xffu;
    return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}`},
	{"dot_onto", f32Only, nil, `
// The products of a and b added to a sum one by one, each with a multiplication.
float dot_onto(float sum, vec4 a, vec4 b) {
    return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}`},
	{"round_bytes", f32Only, nil, `
// Each rounded to the nearest integer, from -127 to 127, as a byte: the sum with
// 3 * 2^22 has it in its last bits.
uint round_bytes(vec4 v) {
    uvec4 bits = floatBitsToUint(v + 12582912.0);
    return bits.x & 0xffu | (bits.y & 0xffu) << 8 | (bits.z & 0xffu) << 16 | bits.w << 24;
}`},
	{"digits_of", f32Only, nil, `
// Numbers below 2^22 as signed digits to the base 256, the last digit in the lowest byte: the sum with 3 * 2^22 has the
// nearest integer in its last bits. Infinity counts as 2^22.
uvec4 digits_of(vec4 v) {
    uvec4 bits = floatBitsToUint(max(v, -4194304.0) + 12582912.0);
    return bits - 0x4abf7f80u ^ 0x808080u;
}`},
	{"dot_bytes", []string{"int", "uint"}, nil, `
// The products of the bytes of two words, added up.
TYPE dot_bytes(TYPE a, TYPE b) {
    return bitfieldExtract(a, 0, 8) * bitfieldExtract(b, 0, 8) + bitfieldExtract(a, 8, 8) * bitfieldExtract(b, 8, 8) +
        bitfieldExtract(a, 16, 8) * bitfieldExtract(b, 16, 8) + bitfieldExtract(a, 24, 8) * bitfieldExtract(b, 24, 8);
}`},
	{"spread_bits", f32Only, nil, `
// Bit i of the low four bits as byte i.
uint spread_bits(uint bits) {
    return (bits & 15u) * 0x204081u & 0x01010101u;
}`},
	{"negate_bytes", f32Only, []string{"spread_bits"}, `
// Changes the sign of byte i, which is not 0, where bit i of signs is set.
uint negate_bytes(uint bytes, uint signs) {
    uint negative = spread_bits(signs);
    return (bytes ^ negative * 255u) + negative;
}`},
	{"even_signs", f32Only, nil, `
// The signs of eight elements from those of seven: an even number is set.
uint even_signs(uint seven) {
    return seven | (uint(bitCount(seven)) & 1u) << 7;
}`},
	{"high_bytes", f32Only, nil, `
// The products of each byte with a factor up to 255, less their low bytes.
uvec2 high_bytes(uvec2 bytes, uvec2 factor) {
    uvec2 even = (bytes & 0x00ff00ffu) * factor;
    uvec2 odd = (bytes >> 8 & 0x00ff00ffu) * factor;
    return (even >> 8 & 0x00ff00ffu) | (odd & 0xff00ff00u);
}`},
	{"bytes_above_subnormal", f32Only, []string{"bytes_subnormal"}, `
// Four signed bytes, and 128 more than each, as floats of 2^-24.
vec4 bytes_above_subnormal(uint bytes) {
    return bytes_subnormal(bytes ^ 0x80808080u);
}`},
	{"scale_min_k4", f32Only, nil, `
// The 6-bit scale and minimum of group g of 8 in q4_K and q5_K. Groups 4 to 7
// have their low bits in the last word, the others on top of the first two.
uvec2 scale_min_k4(uvec3 packed, uint g) {
    packed >>= g % 4u * 8u;
    uvec2 low = uvec2(packed.z & 15u, packed.z >> 4 & 15u);
    return mix(low | packed.xy >> 2 & 48u, packed.xy & 63u, bvec2(g < 4u));
}`},
}
