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
	{"quantize_q2_K", f32Only, []string{"fit_affine"}, `
// A block of q2_K: 16 groups of 16 in levels 0 to 3.
void quantize_q2_K(float x[256], out uint halves[42]) {
    uint q[256], scales[16], mins[16];
    uvec2 d = fit_affine(x, 16u, 3.0, -0.5, 0.1, 15u, true, 15, q, scales, mins);
    for (uint i = 0u; i < 42u; ++i) halves[i] = 0u;
    for (uint i = 0u; i < 16u; ++i) halves[i / 2u] |= (scales[i] | mins[i] << 4) << i % 2u * 8u;
    for (uint i = 0u; i < 256u; ++i) {
        uint at = i / 128u * 32u + i % 32u;
        halves[8u + at / 2u] |= q[i] << i % 128u / 32u * 2u + at % 2u * 8u;
    }
    halves[40] = d.x;
    halves[41] = d.y;
}`},
	{"pack_scales_k4", f32Only, nil, `
// Byte i of the 6-bit scales and minima of eight groups.
uint pack_scales_k4(uint scales[16], uint mins[16], uint i) {
    uint g = i % 4u;
    if (i < 4u) return scales[g] | scales[g + 4u] >> 4 << 6;
    if (i < 8u) return mins[g] | mins[g + 4u] >> 4 << 6;
    return scales[g + 4u] & 15u | (mins[g + 4u] & 15u) << 4;
}`},
	{"quantize_q4_K", f32Only, []string{"fit_affine", "pack_scales_k4"}, `
// A block of q4_K: 8 groups of 32 in levels 0 to 15.
void quantize_q4_K(float x[256], out uint halves[72]) {
    uint q[256], scales[16], mins[16];
    uvec2 d = fit_affine(x, 32u, 15.0, -1.0, 0.1, 20u, false, 63, q, scales, mins);
    for (uint i = 0u; i < 72u; ++i) halves[i] = 0u;
    halves[0] = d.x;
    halves[1] = d.y;
    for (uint i = 0u; i < 12u; ++i) halves[2u + i / 2u] |= pack_scales_k4(scales, mins, i) << i % 2u * 8u;
    for (uint i = 0u; i < 256u; ++i) {
        uint at = i / 64u * 32u + i % 32u;
        halves[8u + at / 2u] |= q[i] << i % 64u / 32u * 4u + at % 2u * 8u;
    }
}`},
	{"quantize_q5_K", f32Only, []string{"fit_affine", "pack_scales_k4"}, `
// A block of q5_K: 8 groups of 32 in levels 0 to 31.
void quantize_q5_K(float x[256], out uint halves[88]) {
    uint q[256], scales[16], mins[16];
    uvec2 d = fit_affine(x, 32u, 31.0, -0.5, 0.1, 15u, false, 63, q, scales, mins);
    for (uint i = 0u; i < 88u; ++i) halves[i] = 0u;
    halves[0] = d.x;
    halves[1] = d.y;
    for (uint i = 0u; i < 12u; ++i) halves[2u + i / 2u] |= pack_scales_k4(scales, mins, i) << i % 2u * 8u;
    for (uint i = 0u; i < 256u; ++i) {
        uint at = i / 64u * 32u + i % 32u, byte = i % 32u;
        halves[8u + byte / 2u] |= q[i] >> 4 << i / 32u + byte % 2u * 8u;
        halves[24u + at / 2u] |= (q[i] & 15u) << i % 64u / 32u * 4u + at % 2u * 8u;
    }
}`},
	{"quantize_q3_K", f32Only, []string{"half_value", "finite_half", "descend_scale",
		"round_signed_scales", "requantize"}, `
// A block of q3_K: 16 groups of 16 in levels -4 to 3.
void quantize_q3_K(float x[256], out uint halves[55]) {
    uint q[256];
    float scales[32];
    bool zero = true;
    for (uint g = 0u; g < 32u; ++g) scales[g] = 0.0;
    for (uint g = 0u; g < 16u; ++g) {
        float xs[32], w[32];
        for (uint i = 0u; i < 32u; ++i) {
            xs[i] = i < 16u ? x[16u * g + i] : 0.0;
            w[i] = xs[i] * xs[i];
        }
        uint level[32];
        scales[g] = descend_scale(xs, w, level);
        for (uint i = 0u; i < 16u; ++i) q[16u * g + i] = level[i];
        zero = zero && scales[g] == 0.0;
    }
    for (uint i = 0u; i < 55u; ++i) halves[i] = 0u;
    if (zero) return;
    int rounded[16];
    uint d = finite_half(round_signed_scales(scales, -32, 31, rounded));
    requantize(x, rounded, half_value(d), -4, 3, q);
    for (uint i = 0u; i < 256u; ++i) {
        uint bits = i % 32u, at = i / 128u * 32u + bits;
        halves[bits / 2u] |= q[i] >> 2 << i / 32u + bits % 2u * 8u;
        halves[16u + at / 2u] |= (q[i] & 3u) << i % 128u / 32u * 2u + at % 2u * 8u;
    }
    for (uint g = 0u; g < 16u; ++g) {
        uint scale = uint(rounded[g] + 32);
        halves[48u + g % 8u / 2u] |= (scale & 15u) << g / 8u * 4u + g % 2u * 8u;
        halves[52u + g % 4u / 2u] |= scale >> 4 << g / 4u * 2u + g % 2u * 8u;
    }
    halves[54] = d;
}`},
	{"quantize_q6_K", f32Only, []string{"half_value", "finite_half", "fit_scale",
		"round_signed_scales", "requantize"}, `
// A block of q6_K: 16 groups of 16 in levels -32 to 31.
void quantize_q6_K(float x[256], out uint halves[105]) {
    uint q[256];
    float scales[32];
    bool zero = true;
    for (uint g = 0u; g < 32u; ++g) scales[g] = 0.0;
    for (uint g = 0u; g < 16u; ++g) {
        float xs[32], w[32];
        for (uint i = 0u; i < 32u; ++i) {
            xs[i] = i < 16u ? x[16u * g + i] : 0.0;
            w[i] = xs[i] * xs[i];
        }
        uint level[32];
        scales[g] = fit_scale(xs, w, 16u, -32.0, 31.0, level);
        for (uint i = 0u; i < 16u; ++i) q[16u * g + i] = level[i];
        zero = zero && abs(scales[g]) < 1e-15;
    }
    for (uint i = 0u; i < 105u; ++i) halves[i] = 0u;
    if (zero) return;
    int rounded[16];
    uint d = finite_half(round_signed_scales(scales, -128, 127, rounded));
    requantize(x, rounded, half_value(d), -32, 31, q);
    for (uint i = 0u; i < 256u; ++i) {
        uint part = i / 128u, run = i / 32u % 4u;
        uint low = part * 64u + run % 2u * 32u + i % 32u, high = part * 32u + i % 32u;
        halves[low / 2u] |= (q[i] & 15u) << run / 2u * 4u + low % 2u * 8u;
        halves[64u + high / 2u] |= q[i] >> 4 << 2u * run + high % 2u * 8u;
    }
    for (uint g = 0u; g < 16u; ++g) halves[96u + g / 2u] |= (uint(rounded[g]) & 255u) << g % 2u * 8u;
    halves[104] = d;
}`},
	{"quantize_iq4_xs", f32Only, []string{"divide_bits", "half_bits", "inverse_of", "largest_of",
		"round_int", "level_iq4_nl", "scale_iq4_nl", "pack_nibbles"}, `
// A block of iq4_xs: 8 groups as in iq4_nl, with scales of 6 bits.
void quantize_iq4_xs(float x[256], out uint halves[68]) {
    float scales[32];
    for (uint g = 0u; g < 32u; ++g) scales[g] = 0.0;
    for (uint g = 0u; g < 8u; ++g) {
        float xs[32];
        for (uint i = 0u; i < 32u; ++i) xs[i] = x[32u * g + i];
        scales[g] = uintBitsToFloat(scale_iq4_nl(xs));
    }
    uint bits = divide_bits(largest_of(scales) ^ 0x80000000u, floatBitsToUint(32.0));
    float d = uintBitsToFloat(bits), inverse = inverse_of(bits);
    halves[0] = half_bits(bits);
    for (uint i = 1u; i < 4u; ++i) halves[i] = 0u;
    for (uint g = 0u; g < 8u; ++g) {
        precise float scaled = inverse * scales[g];
        int scale = clamp(round_int(scaled), -32, 31);
        precise float unit = d * float(scale);
        float group_inverse = inverse_of(floatBitsToUint(unit));
        uint level[32];
        for (uint i = 0u; i < 32u; ++i) level[i] = level_iq4_nl(group_inverse * x[32u * g + i]);
        for (uint i = 0u; i < 8u; ++i) halves[4u + 8u * g + i] = pack_nibbles(level, 2u * i);
        uint stored = uint(scale + 32);
        halves[2u + g / 4u] |= (stored & 15u) << g % 4u * 4u;
        halves[1] |= stored >> 4 << 2u * g;
    }
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
	{"quantize_q8_1", f32Only, []string{"divide_bits", "half_bits", "inverse_of", "largest_of", "round_away"}, `
// A block of q8_1: q8_0 with the sum of the levels times the scale.
void quantize_q8_1(float x[32], out uint halves[18]) {
    uint d = divide_bits(largest_of(x) & 0x7fffffffu, floatBitsToUint(127.0));
    float inverse = inverse_of(d);
    int sum = 0;
    for (uint i = 0u; i < 18u; ++i) halves[i] = 0u;
    for (uint i = 0u; i < 32u; ++i) {
        precise float scaled = x[i] * inverse;
        int level = round_away(scaled);
        sum += level;
        halves[2u + i / 2u] |= (uint(level) & 255u) << i % 2u * 8u;
    }
    precise float total = float(sum) * uintBitsToFloat(d);
    halves[0] = half_bits(d);
    halves[1] = half_bits(floatBitsToUint(total));
}`},
	{"quantize_q8_K", f32Only, []string{"divide_bits", "largest_of_all", "round_int"}, `
// A block of q8_K: the element of largest magnitude gets level -127, and every 16
// levels have their sum beside them.
void quantize_q8_K(float x[256], out uint halves[146]) {
    for (uint i = 0u; i < 146u; ++i) halves[i] = 0u;
    uint inverse = divide_bits(floatBitsToUint(-127.0), largest_of_all(x));
    if ((inverse & 0x7fffffffu) >= 0x7f800000u) return;
    uint d = divide_bits(floatBitsToUint(1.0), inverse);
    halves[0] = d & 0xffffu;
    halves[1] = d >> 16;
    for (uint g = 0u; g < 16u; ++g) {
        int sum = 0;
        for (uint i = 16u * g; i < 16u * g + 16u; ++i) {
            precise float scaled = uintBitsToFloat(inverse) * x[i];
            int level = min(round_int(scaled), 127);
            sum += level;
            halves[2u + i / 2u] |= (uint(level) & 255u) << i % 2u * 8u;
        }
        halves[130u + g] = uint(sum) & 0xffffu;
    }
}`},
	{"quantize_tq1_0", f32Only, []string{"half_bits", "inverse_of", "largest_of_all", "round_away"}, `
// A block of tq1_0: five digits of base 3 to a byte, as a fraction rounded up.
void quantize_tq1_0(float x[256], out uint halves[27]) {
    uint d = largest_of_all(x) & 0x7fffffffu;
    float inverse = inverse_of(d);
    for (uint i = 0u; i < 26u; ++i) halves[i] = 0u;
    for (uint i = 0u; i < 52u; ++i) {
        uint run = i < 32u ? 32u : i < 48u ? 16u : 4u;
        uint first = i < 32u ? i : i < 48u ? 128u + i : 192u + i;
        uint fraction = 0u;
        for (uint n = 0u; n < 5u; ++n) {
            fraction *= 3u;
            if (i < 48u || n < 4u) {
                precise float scaled = x[first + n * run] * inverse;
                fraction += uint(round_away(scaled) + 1);
            }
        }
        halves[i / 2u] |= (fraction * 256u + 242u) / 243u << i % 2u * 8u;
    }
    halves[26] = half_bits(d);
}`},
	{"quantize_tq2_0", f32Only, []string{"half_bits", "inverse_of", "largest_of_all", "round_away"}, `
// A block of tq2_0: levels -1 to 1, plus 1, in two bits.
void quantize_tq2_0(float x[256], out uint halves[33]) {
    uint d = largest_of_all(x) & 0x7fffffffu;
    float inverse = inverse_of(d);
    for (uint i = 0u; i < 32u; ++i) halves[i] = 0u;
    for (uint i = 0u; i < 256u; ++i) {
        precise float scaled = x[i] * inverse;
        uint at = i / 128u * 32u + i % 32u;
        halves[at / 2u] |= uint(round_away(scaled) + 1) << i % 128u / 32u * 2u + at % 2u * 8u;
    }
    halves[32] = half_bits(d);
}`},
	{"float_bits", f32Only, nil, `
// The bits of the float m * 2^exponent, which there is.
uint float_bits(uint m, int exponent) {
    int top = findMSB(m), unit = top + exponent;
    if (unit < -126) return m << exponent + 149;
    return uint(unit + 127) << 23 | m << 23 - top & 0x7fffffu;
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
	{"quantize_mxfp4", f32Only, []string{"largest_of", "float_bits", "exponent_mxfp4"}, `
const uint MIDDLES_MXFP4[7] = uint[](1u, 3u, 5u, 7u, 10u, 14u, 20u);

// A block of mxfp4: the number of middles between levels that lie below each
// magnitude. The middles are in halves of a level of 1.
void quantize_mxfp4(float x[32], out uint halves[9]) {
    uint exponent = exponent_mxfp4(largest_of(x) & 0x7fffffffu);
    uint middle[7];
    for (uint n = 0u; n < 7u; ++n) middle[n] = float_bits(MIDDLES_MXFP4[n], int(exponent) - 129);
    for (uint i = 0u; i < 9u; ++i) halves[i] = 0u;
    halves[0] = exponent;
    for (uint i = 0u; i < 32u; ++i) {
        uint bits = floatBitsToUint(x[i]), level = 0u;
        for (uint n = 0u; n < 7u; ++n) level += middle[n] < (bits & 0x7fffffffu) ? 1u : 0u;
        if (level > 0u) level |= bits >> 31 << 3;
        uint at = 1u + i % 16u;
        halves[at / 2u] |= level << i / 16u * 4u + at % 2u * 8u;
    }
}`},
}
