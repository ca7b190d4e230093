// These functions quantize blocks of the formats that fit scales to groups of elements. Results are bit for bit equal to
// package quant's: sums have the same order, and quotients and roots are exact. A group is an array of 32 elements;
// formats with groups of 16 use the first half. An invocation fits one group. It exchanges the result with the
// invocations that fit the other groups of the block. Quants are computed again instead of kept in registers.

#pragma types float

// a / b, rounded to nearest.
float exact_quotient(float a, float b) {
    return uintBitsToFloat(divide_bits(floatBitsToUint(a), floatBitsToUint(b)));
}

// The square root of v, rounded to nearest; v is not negative. The integer root has two bits more than the result, and
// its last bit says whether more would follow.
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
}

// The value of the finite f16 with these bits. A device may flush denormals when it unpacks; this does not.
float half_value(uint h) {
    uint size = h & 0x7fffu;
    float v = size < 0x400u ? float(size) * 5.9604644775390625e-8 : uintBitsToFloat((size << 13) + 0x38000000u);
    return (h & 0x8000u) != 0u ? -v : v;
}

// The bits of the finite f16 nearest to v.
uint finite_half(float v) { return half_bits(floatBitsToUint(clamp(v, -65504.0, 65504.0))); }

// v rounded to even: adding a large number removes the fraction.
float round_level(float v) {
    precise float up = v + 12582912.0;
    precise float level = up - 12582912.0;
    return level;
}

// v rounded to even; beyond 2^22 it is the remaining bits of the sum.
int round_int(float v) {
    precise float up = v + 12582912.0;
    return int(floatBitsToUint(up) & 0x7fffffu) - 0x400000;
}

// The level nearest to v * inverse, from least to most.
float level_at(float v, float inverse, float least, float most) {
    precise float scaled = inverse * v;
    return clamp(round_level(scaled), least, most);
}

// The sums of level times element and of level squared, for an inverse scale. The weights are the squares of the
// elements.
vec2 level_sums(float x[32], uint count, float inverse, float least, float most) {
    precise vec2 sums = vec2(0.0);
    for (uint i = 0u; i < count; ++i) {
        float q = level_at(x[i], inverse, least, most);
        precise float weight = x[i] * x[i];
        precise float weighted = weight * x[i];
        precise float square = weight * q;
        precise vec2 products = vec2(weighted * q, square * q);
        sums = sums + products;
    }
    return sums;
}

// The first of the count elements that has the largest magnitude.
float largest_of_run(float x[32], uint count) {
    float largest = 0.0;
    for (uint i = 0u; i < count; ++i) {
        if ((floatBitsToUint(x[i]) & 0x7fffffffu) > (floatBitsToUint(largest) & 0x7fffffffu)) largest = x[i];
    }
    return largest;
}

// The best of 19 scales: it has the least error, weighted by the square of each element. inverse is the inverse scale
// of the levels that it was computed for, or 0 if all elements count as zero. The element with the largest magnitude
// gets a level near least.
float fit_scale(float x[32], uint count, float least, float most, out float inverse) {
    float largest = largest_of_run(x, count);
    inverse = 0.0;
    if (abs(largest) < 1e-15) return 0.0;
    inverse = exact_quotient(least, largest);
    vec2 sums = level_sums(x, count, inverse, least, most);
    float scale = sums.y > 0.0 ? exact_quotient(sums.x, sums.y) : exact_quotient(largest, least);
    precise float best = scale * sums.x;
    for (int n = -9; n <= 9; ++n) {
        if (n == 0) continue;
        precise float moved = -0.1 * float(n);
        precise float edge = least + moved;
        float next = exact_quotient(edge, largest);
        sums = level_sums(x, count, next, least, most);
        if (sums.y > 0.0 && exceeds(exact_product(sums.x, sums.x), exact_product(best, sums.y))) {
            scale = exact_quotient(sums.x, sums.y);
            best = scale * sums.x;
            inverse = next;
        }
    }
    return scale;
}

// The scale of 16 elements with levels -4 to 3, and the levels. In five passes each level moves to the best value,
// given the other levels. If all elements count as zero, all levels are the least.
float descend_scale(float x[32], out float level[16]) {
    float largest = largest_of_run(x, 16u);
    for (uint i = 0u; i < 16u; ++i) level[i] = -4.0;
    if (abs(largest) < 1e-15) return 0.0;
    float inverse = exact_quotient(-4.0, largest);
    vec2 sums = level_sums(x, 16u, inverse, -4.0, 3.0);
    for (uint i = 0u; i < 16u; ++i) level[i] = level_at(x[i], inverse, -4.0, 3.0);
    bool moved = true;
    for (uint pass = 0u; pass < 5u && moved; ++pass) {
        moved = false;
        for (uint i = 0u; i < 16u; ++i) {
            precise float weight = x[i] * x[i];
            precise float weighted = weight * x[i];
            precise float here = weighted * level[i];
            precise float rest = sums.x - here;
            if (!(rest > 0.0)) continue;
            precise float weighted_level = weight * level[i];
            precise float square = weighted_level * level[i];
            precise float squares = sums.y - square;
            precise float scaled = x[i] * squares;
            float next = float(clamp(round_int(exact_quotient(scaled, rest)), -4, 3));
            if (next == level[i]) continue;
            precise float there = weighted * next;
            precise float weighted_next = weight * next;
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
    return exact_quotient(sums.x, sums.y);
}

// The level from 0 to top that is nearest to v at an inverse scale. Level 0 stands for lower.
float line_level(float v, float inverse, float lower, float top) {
    precise float above = v - lower;
    return level_at(above, inverse, 0.0, top);
}

// The error of slope * level + start, with the levels of a line. The weight of an element is its magnitude plus base.
float line_error(float x[32], uint count, float base, vec2 line, float top, float slope, float start, bool absolute) {
    precise float sum = 0.0;
    for (uint i = 0u; i < count; ++i) {
        precise float product = slope * line_level(x[i], line.x, line.y, top);
        precise float value = product + start;
        precise float off = value - x[i];
        precise float square = off * off;
        precise float weight = base + abs(x[i]);
        precise float weighted = weight * (absolute ? abs(off) : square);
        sum = sum + weighted;
    }
    return sum;
}

// The scale and depth of x, as scale * level - depth. Candidates are the line from the smallest element to the largest,
// and lines fitted to the levels at several scales, step_size apart; the one with the least error wins. line describes
// its levels: their inverse scale, and the value of level 0.
vec2 fit_line(float x[32], uint count, float base, float top, float first, float step_size, uint tries, bool absolute,
              out vec2 line) {
    float lower = x[0], upper = x[0];
    for (uint i = 1u; i < count; ++i) {
        if (x[i] < lower) lower = x[i];
        if (x[i] > upper) upper = x[i];
    }
    if (lower > 0.0) lower = 0.0;
    precise float range = upper - lower;
    uint inverse = divide_bits(floatBitsToUint(top), floatBitsToUint(range));
    line = vec2(0.0);
    if (upper == lower || inverse >= 0x7f800000u) return vec2(0.0, -lower);
    precise vec2 all = vec2(0.0);
    for (uint i = 0u; i < count; ++i) {
        precise float weight = base + abs(x[i]);
        precise float weighted = weight * x[i];
        all = all + vec2(weight, weighted);
    }
    vec2 next = vec2(uintBitsToFloat(inverse), lower);
    float slope = exact_quotient(1.0, next.x), start = lower, scale, best;
    bool possible = true;
    for (uint n = 0u; n <= tries + 1u; ++n) {
        float off = line_error(x, count, base, next, top, slope, start, absolute);
        if (n == 0u || possible && off < best) {
            best = off;
            scale = slope;
            lower = start;
            range = upper - lower;
            line = next;
        }
        precise float moved = step_size * float(n);
        precise float from = first + moved;
        precise float levels = from + top;
        next = vec2(exact_quotient(levels, range), lower);
        precise vec3 sums = vec3(0.0); // of levels, their squares, and times elements, all weighted
        for (uint i = 0u; i < count; ++i) {
            float level = line_level(x[i], next.x, next.y, top);
            precise float weight = base + abs(x[i]);
            precise float weighted = weight * level;
            precise vec3 products = vec3(weighted, weighted * level, weighted * x[i]);
            sums = sums + products;
        }
        precise vec2 dets = vec2(all.x * sums.y, sums.x * sums.x);
        precise float det = dets.x - dets.y;
        precise vec2 slopes = vec2(all.x * sums.z, all.y * sums.x);
        precise vec2 starts = vec2(sums.y * all.y, sums.x * sums.z);
        precise float slope_part = slopes.x - slopes.y;
        precise float start_part = starts.x - starts.y;
        possible = det > 0.0;
        start = exact_quotient(start_part, det);
        bool above = start > 0.0; // level 0 must not lie above zero
        if (above) start = 0.0;
        slope = exact_quotient(above ? sums.z : slope_part, above ? sums.y : det);
    }
    return vec2(scale, -lower);
}

// A scale as an integer code. The largest scale of the block, most, has code top.
int code_of(float scale, float most, int top) {
    float inverse = inverse_of(floatBitsToUint(most));
    if (inverse > 0.0) inverse = exact_quotient(float(top), most);
    precise float scaled = inverse * scale;
    return clamp(round_int(scaled), 0, top);
}

// The levels of a group of a block. Each group has a scale and a minimum, as integers that multiply the block's two
// f16. It returns these two. Elements are weighted by magnitude, plus the group's root mean square if errors are
// squared.
uint fit_affine(float x[32], uint block, uint group, uint count, float top, float first, float step_size, uint tries,
                bool absolute, int scale_top) {
    precise float squares = 0.0;
    for (uint i = 0u; i < count; ++i) {
        precise float square = x[i] * x[i];
        squares = squares + square;
    }
    float base = absolute ? 0.0 : root_of(exact_quotient(squares, float(count)));
    vec2 line;
    vec2 fit = fit_line(x, count, base, top, first, step_size, tries, absolute, line);
    group_fits[block][group] = fit;
    barrier();
    vec2 most = vec2(0.0);
    for (uint g = 0u; g < 256u / count; ++g) most = max(most, group_fits[block][g]);
    int scale_code = code_of(fit.x, most.x, scale_top), depth_code = code_of(fit.y, most.y, scale_top);
    uint d = finite_half(exact_quotient(most.x, float(scale_top)));
    uint least = finite_half(exact_quotient(most.y, float(scale_top)));
    precise float scale = half_value(d) * float(scale_code);
    precise float depth = half_value(least) * float(depth_code);
    for (uint i = 0u; i < count; i += 4u) {
        uint levels = 0u;
        for (uint n = 0u; n < 4u; ++n) {
            float v = x[i + n];
            precise float above = v + depth;
            uint nearest = uint(clamp(round_int(exact_quotient(above, scale)), 0, int(top)));
            levels |= (scale == 0.0 ? uint(line_level(v, line.x, line.y, top)) : nearest) << 8u * n;
        }
        block_levels[block][(count * group + i) / 4u] = levels;
    }
    group_codes[block][group] = uint(scale_code) | uint(depth_code) << 8;
    barrier();
    return d | least << 16;
}

// The fit with the largest magnitude among the groups of a block, as bits; the first if several are equal.
uint largest_fit(uint block, uint groups) {
    uint largest = 0u;
    for (uint g = 0u; g < groups; ++g) {
        uint bits = floatBitsToUint(group_fits[block][g].x);
        if ((bits & 0x7fffffffu) > (largest & 0x7fffffffu)) largest = bits;
    }
    return largest;
}

// The levels of 32 elements of a block, from -1 to 1, plus 1. It returns the block's f16.
uint ternary_levels(float x[32], uint block, uint group) {
    group_fits[block][group].x = uintBitsToFloat(largest_of(x) & 0x7fffffffu);
    barrier();
    uint d = largest_fit(block, 8u);
    float inverse = inverse_of(d);
    for (uint i = 0u; i < 32u; i += 4u) {
        uint levels = 0u;
        for (uint n = 0u; n < 4u; ++n) {
            precise float scaled = x[i + n] * inverse;
            levels |= uint(round_away(scaled) + 1) << 8u * n;
        }
        block_levels[block][8u * group + i / 4u] = levels;
    }
    barrier();
    return half_bits(d);
}

// The levels of elements e to e+3 of a block, as bytes.
uint levels_at(uint block, uint e) { return block_levels[block][e / 4u]; }

// Eight bits, from bit shift on, of each code of groups g to g+3, as bytes.
uint codes_at(uint block, uint g, uint shift) {
    uint codes = 0u;
    for (uint n = 0u; n < 4u; ++n) codes |= (group_codes[block][g + n] >> shift & 255u) << 8u * n;
    return codes;
}

// The low four bits of the levels of elements e to e+3, and above them those for elements e+stride and following.
uint pack_nibbles_at(uint block, uint e, uint stride) {
    return levels_at(block, e) & 0x0f0f0f0fu | (levels_at(block, e + stride) & 0x0f0f0f0fu) << 4;
}

// The low two bits of the levels of elements e to e+3, then those for the elements 32, 64 and 96 further on.
uint pack_crumbs(uint block, uint e) {
    uint crumbs = 0u;
    for (uint n = 0u; n < 4u; ++n) crumbs |= (levels_at(block, e + 32u * n) & 0x03030303u) << 2u * n;
    return crumbs;
}

// One bit of the levels of elements e to e+3, and the same for the elements in each further run of 32.
uint pack_planes(uint block, uint e, uint bit) {
    uint planes = 0u;
    for (uint n = 0u; n < 8u; ++n) planes |= (levels_at(block, e + 32u * n) >> bit & 0x01010101u) << n;
    return planes;
}

// Word i of the packed 6-bit scales and minima of eight groups.
uint pack_scales_k4(uint block, uint i) {
    if (i < 2u) return codes_at(block, 0u, 8u * i) | (codes_at(block, 4u, 8u * i) >> 4 & 0x03030303u) << 6;
    return codes_at(block, 4u, 0u) & 0x0f0f0f0fu | (codes_at(block, 4u, 8u) & 0x0f0f0f0fu) << 4;
}

// The bits of the float m * 2^exponent. A float must have this value.
uint float_bits(uint m, int exponent) {
    int top = findMSB(m), unit = top + exponent;
    if (unit < -126) return m << exponent + 149;
    return uint(unit + 127) << 23 | m << 23 - top & 0x7fffffu;
}

// The midpoints between consecutive magnitudes of E2M1, doubled, in units of 1/2.
const uint MIDDLES_FP4[7] = uint[](1u, 3u, 5u, 7u, 10u, 14u, 20u);

// A float that is not negative, as an 8-bit float with four exponent and three mantissa bits, rounded to nearest, ties
// up. Floats above 2^8 become 448, as in ggml.
uint ue4m3_bits(uint bits) {
    precise float steps = uintBitsToFloat(bits) * 512.0 + 0.5; // of denormals
    if (bits < 0x3c800000u) return min(uint(steps), 7u);
    uint code = (bits >> 20) + (bits >> 19 & 1u) - 960u;
    return code < 120u ? code : 126u;
}

// The shared exponent of a block, given its largest magnitude: the exponent of the base-2 logarithm, minus the exponent
// of the greatest level. The logarithm is a float, so it rounds magnitudes just below a power of two up to that power.
uint exponent_mxfp4(uint largest) {
    if (largest < 0x800000u) return 0u;
    int exponent = int(largest >> 23) - 127, next = exponent + 1;
    uint size = uint(abs(next)), off = 0x800000u - (largest & 0x7fffffu);
    int unit = findMSB(size);
    if (next > 0 && (size & size - 1u) == 0u) --unit;
    // The logarithm is off by off / ln 2 of 2^-24, and floats there lie 2^(unit-23) apart.
    if (next != 0 && unit >= 0 && float(off) <= 0.6931 * float(1 << unit)) exponent = next;
    return uint(max(0, exponent + 125));
}
