// These functions quantize blocks of formats with a codebook of four elements per entry, by the search of package quant
// (see its gridFormat). The codebook is in shared memory. A block has eight groups of 32 elements. An invocation
// chooses the entries and the scale of one group. A fit is two sums over the group: of target times level, and of level
// squared.

#pragma types float

// The levels of a codebook entry.
vec4 levels_of(uint entry) { return vec4(uvec4(entry, entry >> 8, entry >> 16, entry >> 24) & 255u); }

// A number that orders equally near codebook entries: package quant tries small ones first. Entries with equal numbers
// are in the codebook's order.
uint order_of(uint entry) { return (entry & 255u) << 8 | entry >> 8 & 255u; }

// The sum of the squared differences.
float square_distance(vec4 x, vec4 y) {
    precise vec4 off = x - y;
    precise vec4 square = off * off;
    precise vec2 halves = square.xz + square.yw;
    precise float sum = halves.x + halves.y;
    return sum;
}

// The first scales that a group tries map its largest element to these multiples of the largest level.
const float MULTIPLES_GRID[9] = float[](0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3);

// The scale with the least squared error for a fit.
float grid_scale(vec2 fit) { return fit.x > 0.0 && fit.y > 0.0 ? exact_quotient(fit.x, fit.y) : 0.0; }

// The error of a fit at a scale, minus the error at scale zero.
float grid_error(vec2 fit, float scale) {
    precise float square = scale * fit.y;
    precise float rest = square - 2.0 * fit.x;
    precise float error = scale * rest;
    return error;
}

// The error of a fit at its best scale, minus the error at scale zero.
float grid_least(vec2 fit) {
    precise float error = -grid_scale(fit) * fit.x;
    return error;
}

// The scale of a group with a number, divided by the scale of the block.
float grid_multiple(int number, float unit) { return unit * float(2 * number + 1); }

// The number of a group, from 0 to 15, for which its scale is nearest to the given one. d is the scale of the block.
int grid_number(float scale, float d, float unit) {
    precise float steps = exact_quotient(scale, d) / unit - 1.0; // unit is a power of 2
    return int(round_level(clamp(0.5 * steps, 0.0, 15.0)));
}

// The scale of a block for which the scales of its groups are nearest to those of their fits. The candidates put the
// largest of these, most, near the largest multiple.
float grid_unit(uint block, float most, float unit) {
    float d = 0.0, least = 3.402823466e38;
    for (int n = -12; n <= 12; ++n) {
        float candidate = exact_quotient(most, unit * (31.0 + 0.5 * float(n)));
        precise float error = 0.0;
        for (uint g = 0u; g < 8u; ++g) {
            vec2 fit = group_fits[block][g];
            float multiple = grid_multiple(grid_number(grid_scale(fit), candidate, unit), unit);
            precise float scale = candidate * multiple;
            error = error + grid_error(fit, scale);
        }
        if (error < least) {
            d = candidate;
            least = error;
        }
    }
    return d;
}

// The best scale of a block for the fits of its groups and their numbers, group_codes.
float grid_total(uint block, float unit) {
    precise vec2 sums = vec2(0.0);
    for (uint g = 0u; g < 8u; ++g) {
        float multiple = grid_multiple(int(group_codes[block][g]), unit);
        precise vec2 part = group_fits[block][g] * multiple;
        precise float square = part.y * multiple;
        sums = sums + vec2(part.x, square);
    }
    return exact_quotient(max(0.0, sums.x), sums.y);
}

// The signs of elements 8*i to 8*i+7 of a block, a bit each.
uint signs_at(uint block, uint i) {
    return block_levels[block][2u * i] >> 16 | block_levels[block][2u * i + 1u] >> 16 << 4;
}

// Replaces elements by their magnitudes, and returns their signs, a bit each. If the number of negative elements in
// each eight must be even but is odd, the smallest of them gets the wrong sign, and its magnitude becomes negative.
uint split_signs(inout float x[32], bool even) {
    uint signs = 0u;
    for (uint first = 0u; first < 32u; first += 8u) {
        uint smallest = first;
        for (uint i = first; i < first + 8u; ++i) {
            uint size = floatBitsToUint(x[i]) & 0x7fffffffu; // a device may take denormals for 0, and this does not
            if (floatBitsToUint(x[i]) > 0x80000000u) signs |= 1u << i;
            x[i] = uintBitsToFloat(size);
            if (exceeds(x[smallest], x[i])) smallest = i;
        }
        if (even && (bitCount(signs >> first & 255u) & 1) != 0) {
            signs ^= 1u << smallest;
            x[smallest] = -x[smallest];
        }
    }
    return signs;
}

// Chooses the codebook entries nearest to a group at a scale, and returns their fit. The given entries win over equally
// near ones.
vec2 choose_entries(float x[32], float scale, uint entries, inout uint chosen[8]) {
    vec4 target[8];
    float least[8];
    uint order[8];
    for (uint n = 0u; n < 8u; ++n) {
        target[n] = vec4(x[4u * n], x[4u * n + 1u], x[4u * n + 2u], x[4u * n + 3u]);
        precise vec4 scaled = scale * levels_of(searched_codebook[chosen[n]]);
        least[n] = square_distance(target[n], scaled);
        order[n] = 0u;
    }
    for (uint number = 0u; number < entries; ++number) {
        uint entry = searched_codebook[number];
        precise vec4 scaled = scale * levels_of(entry);
        for (uint n = 0u; n < 8u; ++n) {
            float cost = square_distance(target[n], scaled);
            if (cost < least[n] || cost == least[n] && order_of(entry) < order[n]) {
                chosen[n] = number;
                least[n] = cost;
                order[n] = order_of(entry);
            }
        }
    }
    precise vec2 fit = vec2(0.0);
    for (uint n = 0u; n < 8u; ++n) {
        vec4 level = levels_of(searched_codebook[chosen[n]]);
        for (uint i = 0u; i < 4u; ++i) {
            precise vec2 products = level[i] * vec2(target[n][i], level[i]);
            fit = fit + products;
        }
    }
    return fit;
}

// Chooses the entries of a group with the least error at their best scale. It tries nine scales. Then it chooses again
// at the best scale of the chosen entries, while that helps. top is the largest level.
vec2 fit_entries(float x[32], uint entries, float top, out uint chosen[8]) {
    uint next[8];
    for (uint n = 0u; n < 8u; ++n) next[n] = 0u;
    chosen = next;
    vec2 best = vec2(0.0);
    float largest = abs(largest_of_run(x, 32u));
    if (largest < 1e-15) return best;
    for (uint n = 0u; n < 12u; ++n) {
        float scale = grid_scale(best);
        if (n < 9u) {
            precise float edge = top * MULTIPLES_GRID[n];
            scale = exact_quotient(largest, edge);
        } else {
            next = chosen;
        }
        vec2 fit = choose_entries(x, scale, entries, next);
        if (grid_least(fit) < grid_least(best)) {
            best = fit;
            chosen = next;
        } else if (n >= 9u) {
            break;
        }
    }
    return best;
}

// Chooses the number of a group, near its scale, and entries for it, with the least error.
vec2 round_entries(float x[32], uint entries, float d, float unit, vec2 fit, inout uint chosen[8], inout uint number) {
    int near = grid_number(grid_scale(fit), d, unit);
    uint given[8] = chosen;
    float least = 3.402823466e38;
    for (int n = max(0, near - 1); n <= min(near + 1, 15); ++n) {
        uint next[8] = given;
        precise float scale = d * grid_multiple(n, unit);
        vec2 other = choose_entries(x, scale, entries, next);
        float error = grid_error(other, scale);
        if (error < least) {
            fit = other;
            chosen = next;
            number = uint(n);
            least = error;
        }
    }
    return fit;
}

// Quantizes a group of a block. It returns the f16 of the block. unit is the least scale of a group, in units of it.
// block_levels gets the number of each entry, and the signs of its elements from bit 16 on.
uint quantize_grid(float x[32], uint block, uint group, uint entries, float top, float unit, bool even) {
    uint signs = split_signs(x, even), number = 0u, chosen[8];
    vec2 fit = fit_entries(x, entries, top, chosen);
    group_fits[block][group] = fit;
    barrier();
    float most = 0.0;
    for (uint g = 0u; g < 8u; ++g) most = max(most, grid_scale(group_fits[block][g]));
    uint d = finite_half(grid_unit(block, most, unit));
    for (uint pass = 0u; pass < 2u; ++pass) {
        if (d != 0u) fit = round_entries(x, entries, half_value(d), unit, fit, chosen, number);
        barrier();
        group_fits[block][group] = fit;
        group_codes[block][group] = number;
        barrier();
        if (d != 0u) d = finite_half(grid_total(block, unit));
    }
    if (most == 0.0) signs = 0u;
    for (uint n = 0u; n < 8u; ++n) {
        block_levels[block][8u * group + n] = chosen[n] | (signs >> 4u * n & 15u) << 16;
    }
    barrier();
    return d;
}
