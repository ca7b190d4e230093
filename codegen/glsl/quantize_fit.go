package glsl

// quantizeFits makes blocks of the formats that fit scales to groups of elements,
// bit for bit as package quant does: every sum is in its order, every quotient and
// root exact. Groups are arrays of 32, of which formats of 16 use the first half.
var quantizeFits = []helper{
	{"exact_quotient", f32Only, []string{"divide_bits"}, `
// a / b, rounded to nearest.
float exact_quotient(float a, float b) {
    return uintBitsToFloat(divide_bits(floatBitsToUint(a), floatBitsToUint(b)));
}`},
	{"root_of", f32Only, []string{"shift_even", "significand"}, `
// The square root of v, which is not negative, rounded to nearest: two bits further
// than the result and with a mark where more would follow.
float root_of(float v) {
    if (v == 0.0) return 0.0;
    int exponent;
    uint m = significand(floatBitsToUint(v), exponent);
    exponent -= 150;
    if ((exponent & 1) != 0) {
        m <<= 1;
        --exponent;
    }
    uint rest = 0u, root = 0u;
    for (uint i = 0u; i < 26u; ++i) {
        rest <<= 2;
        if (i < 13u) rest |= m >> 24u - 2u * i & 3u;
        uint next = root << 2 | 1u;
        root <<= 1;
        if (rest >= next) {
            rest -= next;
            root |= 1u;
        }
    }
    root <<= 1;
    if (rest != 0u) root |= 1u;
    int top = findMSB(root);
    return uintBitsToFloat((uint(exponent / 2 + top + 112) << 23) + shift_even(root, uint(top - 23)));
}`},
	{"half_value", f32Only, nil, `
// The f16 of these bits, which is finite, as it is: a device may flush denormals when it unpacks.
float half_value(uint h) {
    uint size = h & 0x7fffu;
    float v = size < 0x400u ? float(size) * 5.9604644775390625e-8 : uintBitsToFloat((size << 13) + 0x38000000u);
    return (h & 0x8000u) != 0u ? -v : v;
}`},
	{"finite_half", f32Only, []string{"half_bits"}, `
// The bits of the finite f16 nearest to v.
uint finite_half(float v) { return half_bits(floatBitsToUint(clamp(v, -65504.0, 65504.0))); }`},
	{"round_level", f32Only, nil, `
// v rounded to even, by pushing the fraction out.
float round_level(float v) {
    precise float up = v + 12582912.0;
    precise float level = up - 12582912.0;
    return level;
}`},
	{"round_int", f32Only, nil, `
// v rounded to even; past 2^22 it is what is left of the bits.
int round_int(float v) {
    precise float up = v + 12582912.0;
    return int(floatBitsToUint(up) & 0x7fffffu) - 0x400000;
}`},
	{"level_sums", f32Only, []string{"round_level"}, `
// The levels nearest to x at an inverse scale, and the weighted sums of level
// times element and of level squared.
vec2 level_sums(float x[32], float w[32], uint count, float inverse, float least, float most, out float level[32]) {
    precise vec2 sums = vec2(0.0);
    for (uint i = 0u; i < count; ++i) {
        precise float scaled = inverse * x[i];
        float q = clamp(round_level(scaled), least, most);
        level[i] = q;
        precise float weighted = w[i] * x[i];
        precise float square = w[i] * q;
        precise vec2 products = vec2(weighted * q, square * q);
        sums = sums + products;
    }
    return sums;
}`},
	{"fit_scale", f32Only, []string{"largest_of", "exact_quotient", "exact_product", "exceeds", "level_sums"}, `
// Of 19 scales the one of least weighted squared error, and the levels at it less
// the least. The outermost level is the least.
float fit_scale(float x[32], float w[32], uint count, float least, float most, out uint q[32]) {
    for (uint i = 0u; i < 32u; ++i) q[i] = 0u;
    float largest = uintBitsToFloat(largest_of(x));
    if (abs(largest) < 1e-15) return 0.0;
    float level[32];
    vec2 sums = level_sums(x, w, count, exact_quotient(least, largest), least, most, level);
    float scale = sums.y > 0.0 ? exact_quotient(sums.x, sums.y) : exact_quotient(largest, least);
    for (uint i = 0u; i < count; ++i) q[i] = uint(int(level[i] - least));
    precise float best = scale * sums.x;
    for (int n = -9; n <= 9; ++n) {
        if (n == 0) continue;
        precise float moved = -0.1 * float(n);
        precise float edge = least + moved;
        sums = level_sums(x, w, count, exact_quotient(edge, largest), least, most, level);
        if (sums.y > 0.0 && exceeds(exact_product(sums.x, sums.x), exact_product(best, sums.y))) {
            scale = exact_quotient(sums.x, sums.y);
            best = scale * sums.x;
            for (uint i = 0u; i < count; ++i) q[i] = uint(int(level[i] - least));
        }
    }
    return scale;
}`},
	{"descend_scale", f32Only, []string{"largest_of", "exact_quotient", "exact_product", "exceeds", "round_int",
		"level_sums"}, `
// The scale of 16 elements in levels -4 to 3, and those less -4: five passes move
// one level at a time to where the others would have it.
float descend_scale(float x[32], float w[32], out uint q[32]) {
    for (uint i = 0u; i < 32u; ++i) q[i] = 0u;
    float largest = uintBitsToFloat(largest_of(x));
    if (abs(largest) < 1e-15) return 0.0;
    float level[32];
    vec2 sums = level_sums(x, w, 16u, exact_quotient(-4.0, largest), -4.0, 3.0, level);
    bool moved = true;
    for (uint pass = 0u; pass < 5u && moved; ++pass) {
        moved = false;
        for (uint i = 0u; i < 16u; ++i) {
            precise float weighted = w[i] * x[i];
            precise float here = weighted * level[i];
            precise float rest = sums.x - here;
            if (!(rest > 0.0)) continue;
            precise float weighted_level = w[i] * level[i];
            precise float square = weighted_level * level[i];
            precise float squares = sums.y - square;
            precise float scaled = x[i] * squares;
            float next = float(clamp(round_int(exact_quotient(scaled, rest)), -4, 3));
            if (next == level[i]) continue;
            precise float there = weighted * next;
            precise float weighted_next = w[i] * next;
            precise float next_square = weighted_next * next;
            rest = rest + there;
            squares = squares + next_square;
            float gain = exact_product(exact_product(rest, rest), sums.y);
            float bound = exact_product(exact_product(sums.x, sums.x), squares);
            if (squares > 0.0 && exceeds(gain, bound)) {
                level[i] = next;
                sums = vec2(rest, squares);
                moved = true;
            }
        }
    }
    for (uint i = 0u; i < 16u; ++i) q[i] = uint(int(level[i]) + 4);
    return exact_quotient(sums.x, sums.y);
}`},
	{"round_signed_scales", f32Only, []string{"largest_of", "exact_quotient", "round_int"}, `
// Scales, of which one is not zero, in units of the one returned: the largest is least.
float round_signed_scales(float scales[32], int least, int most, out int q[16]) {
    float inverse = exact_quotient(float(least), uintBitsToFloat(largest_of(scales)));
    for (uint i = 0u; i < 16u; ++i) {
        precise float scaled = inverse * scales[i];
        q[i] = clamp(round_int(scaled), least, most);
    }
    return exact_quotient(1.0, inverse);
}`},
	{"round_scales", f32Only, []string{"inverse_of", "exact_quotient", "round_int"}, `
// Scales, none negative, in units of the one returned: the greatest is top.
float round_scales(float scales[16], int top, out uint q[16]) {
    float most = 0.0;
    for (uint i = 0u; i < 16u; ++i) most = max(most, scales[i]);
    float inverse = inverse_of(floatBitsToUint(most));
    if (inverse > 0.0) inverse = exact_quotient(float(top), most);
    for (uint i = 0u; i < 16u; ++i) {
        precise float scaled = inverse * scales[i];
        q[i] = uint(clamp(round_int(scaled), 0, top));
    }
    return exact_quotient(most, float(top));
}`},
	{"line_levels", f32Only, []string{"round_level"}, `
// The levels from 0 to top that are nearest to x at an inverse scale, 0 being lower.
void line_levels(float x[32], uint count, float inverse, float lower, float top, out float level[32]) {
    for (uint i = 0u; i < count; ++i) {
        precise float above = x[i] - lower;
        precise float scaled = inverse * above;
        level[i] = clamp(round_level(scaled), 0.0, top);
    }
}`},
	{"line_error", f32Only, nil, `
// The weighted error of slope * level + lower.
float line_error(float x[32], float w[32], uint count, float level[32], float slope, float lower, bool absolute) {
    precise float sum = 0.0;
    for (uint i = 0u; i < count; ++i) {
        precise float product = slope * level[i];
        precise float value = product + lower;
        precise float off = value - x[i];
        precise float square = off * off;
        precise float weighted = w[i] * (absolute ? abs(off) : square);
        sum = sum + weighted;
    }
    return sum;
}`},
	{"fit_line", f32Only, []string{"divide_bits", "exact_quotient", "line_levels", "line_error"}, `
// The scale and depth of x as scale * level - depth: of lines through the levels at
// so many scales, steps of step apart, the one of least weighted error.
float fit_line(float x[32], float w[32], uint count, float top, float first, float step_size, uint tries,
               bool absolute, out uint q[32], out float depth) {
    for (uint i = 0u; i < 32u; ++i) q[i] = 0u;
    float lower = x[0], upper = x[0];
    for (uint i = 1u; i < count; ++i) {
        if (x[i] < lower) lower = x[i];
        if (x[i] > upper) upper = x[i];
    }
    if (lower > 0.0) lower = 0.0;
    precise float range = upper - lower;
    uint inverse = divide_bits(floatBitsToUint(top), floatBitsToUint(range));
    depth = -lower;
    if (upper == lower || inverse >= 0x7f800000u) return 0.0;
    precise vec2 all = vec2(0.0);
    for (uint i = 0u; i < count; ++i) {
        precise float weighted = w[i] * x[i];
        all = all + vec2(w[i], weighted);
    }
    float level[32];
    line_levels(x, count, uintBitsToFloat(inverse), lower, top, level);
    for (uint i = 0u; i < count; ++i) q[i] = uint(level[i]);
    float scale = exact_quotient(1.0, uintBitsToFloat(inverse));
    float best = line_error(x, w, count, level, scale, lower, absolute);
    for (uint n = 0u; n <= tries; ++n) {
        precise float moved = step_size * float(n);
        precise float from = first + moved;
        precise float levels = from + top;
        line_levels(x, count, exact_quotient(levels, range), lower, top, level);
        precise vec3 sums = vec3(0.0); // of levels, their squares, and times elements, all weighted
        for (uint i = 0u; i < count; ++i) {
            precise float weighted = w[i] * level[i];
            precise vec3 products = vec3(weighted, weighted * level[i], weighted * x[i]);
            sums = sums + products;
        }
        precise vec2 dets = vec2(all.x * sums.y, sums.x * sums.x);
        precise float det = dets.x - dets.y;
        if (!(det > 0.0)) continue;
        precise vec2 slopes = vec2(all.x * sums.z, all.y * sums.x);
        precise vec2 starts = vec2(sums.y * all.y, sums.x * sums.z);
        precise float slope_part = slopes.x - slopes.y;
        precise float start_part = starts.x - starts.y;
        float slope = exact_quotient(slope_part, det), start = exact_quotient(start_part, det);
        if (start > 0.0) {
            slope = exact_quotient(sums.z, sums.y);
            start = 0.0;
        }
        float off = line_error(x, w, count, level, slope, start, absolute);
        if (off < best) {
            best = off;
            scale = slope;
            lower = start;
            range = upper - lower;
            for (uint i = 0u; i < count; ++i) q[i] = uint(level[i]);
        }
    }
    depth = -lower;
    return scale;
}`},
	{"fit_affine", f32Only, []string{"exact_quotient", "root_of", "half_value", "finite_half",
		"round_int", "round_scales", "fit_line"}, `
// The levels of a block whose groups have a scale and a minimum, integers times the
// block's two f16, which are returned. Weights are magnitudes, and where errors
// count squared the group's root mean square more.
uvec2 fit_affine(float x[256], uint group, float top, float first, float step_size, uint tries, bool absolute,
                 int scale_top, out uint q[256], out uint scales[16], out uint mins[16]) {
    float fitted[16], depths[16];
    for (uint g = 0u; g < 16u; ++g) {
        fitted[g] = 0.0;
        depths[g] = 0.0;
    }
    for (uint g = 0u; g < 256u / group; ++g) {
        float xs[32], w[32];
        precise float squares = 0.0;
        for (uint i = 0u; i < group; ++i) {
            xs[i] = x[g * group + i];
            precise float square = xs[i] * xs[i];
            squares = squares + square;
        }
        float rms = absolute ? 0.0 : root_of(exact_quotient(squares, float(group)));
        for (uint i = 0u; i < group; ++i) w[i] = rms + abs(xs[i]);
        uint level[32];
        fitted[g] = fit_line(xs, w, group, top, first, step_size, tries, absolute, level, depths[g]);
        for (uint i = 0u; i < group; ++i) q[g * group + i] = level[i];
    }
    uint d = finite_half(round_scales(fitted, scale_top, scales));
    uint least = finite_half(round_scales(depths, scale_top, mins));
    for (uint g = 0u; g < 256u / group; ++g) {
        precise float scale = half_value(d) * float(scales[g]);
        precise float depth = half_value(least) * float(mins[g]);
        if (scale == 0.0) continue;
        for (uint i = g * group; i < (g + 1u) * group; ++i) {
            precise float above = x[i] + depth;
            q[i] = uint(clamp(round_int(exact_quotient(above, scale)), 0, int(top)));
        }
    }
    return uvec2(d, least);
}`},
	{"requantize", f32Only, []string{"exact_quotient", "round_int"}, `
// The levels nearest to x under the scales of 16 groups times d, less the least. A
// group whose scale is zero keeps its levels.
void requantize(float x[256], int scales[16], float d, int least, int most, inout uint q[256]) {
    for (uint i = 0u; i < 256u; ++i) {
        precise float scale = d * float(scales[i / 16u]);
        if (scale != 0.0) q[i] = uint(clamp(round_int(exact_quotient(x[i], scale)), least, most) - least);
    }
}`},
	{"pack_scales_k4", f32Only, nil, `
// Byte i of the 6-bit scales and minima of eight groups.
uint pack_scales_k4(uint scales[16], uint mins[16], uint i) {
    uint g = i % 4u;
    if (i < 4u) return scales[g] | scales[g + 4u] >> 4 << 6;
    if (i < 8u) return mins[g] | mins[g + 4u] >> 4 << 6;
    return scales[g + 4u] & 15u | (mins[g + 4u] & 15u) << 4;
}`},
	{"largest_of_all", f32Only, nil, `
// The element of the largest magnitude of a whole block, the first of equals, as bits.
uint largest_of_all(float x[256]) {
    uint largest = 0u;
    for (uint i = 0u; i < 256u; ++i) {
        uint bits = floatBitsToUint(x[i]);
        if ((bits & 0x7fffffffu) > (largest & 0x7fffffffu)) largest = bits;
    }
    return largest;
}`},
	{"float_bits", f32Only, nil, `
// The bits of the float m * 2^exponent, which there is.
uint float_bits(uint m, int exponent) {
    int top = findMSB(m), unit = top + exponent;
    if (unit < -126) return m << exponent + 149;
    return uint(unit + 127) << 23 | m << 23 - top & 0x7fffffu;
}`},
	{"MIDDLES_FP4", f32Only, nil, `
// Middles between the magnitudes of E2M1, doubled, in halves.
const uint MIDDLES_FP4[7] = uint[](1u, 3u, 5u, 7u, 10u, 14u, 20u);`},
	{"ue4m3_bits", f32Only, nil, `
// A float that is not negative as one of eight bits: four of exponent and three behind the point, rounded to nearest,
// halves up. Those above 2^8 are 448, as in ggml.
uint ue4m3_bits(uint bits) {
    precise float steps = uintBitsToFloat(bits) * 512.0 + 0.5; // of denormals
    if (bits < 0x3c800000u) return min(uint(steps), 7u);
    uint code = (bits >> 20) + (bits >> 19 & 1u) - 960u;
    return code < 120u ? code : 126u;
}`},
	{"exponent_mxfp4", f32Only, nil, `
// The shared exponent of a block of this largest magnitude: that of its base-2
// logarithm as a float, which rounds magnitudes just below a power of two up to it,
// less that of the greatest level.
uint exponent_mxfp4(uint largest) {
    if (largest < 0x800000u) return 0u;
    int exponent = int(largest >> 23) - 127, next = exponent + 1;
    uint size = uint(abs(next)), off = 0x800000u - (largest & 0x7fffffu);
    int unit = findMSB(size);
    if (next > 0 && (size & size - 1u) == 0u) --unit;
    // The logarithm is off by off / ln 2 of 2^-24, and floats there lie 2^(unit-23) apart.
    if (next != 0 && unit >= 0 && float(off) <= 0.6931 * float(1 << unit)) exponent = next;
    return uint(max(0, exponent + 125));
}`},
}
