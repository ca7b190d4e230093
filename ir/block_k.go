package ir

// kBlocks are superblocks of 256 elements. Their groups have integer scales, which a superblock scale multiplies.
var kBlocks = map[DType]BlockFormat{
	Q2_K: {
		Name: "q2_K", Elems: 256, Bytes: 84, GGML: 10, FileType: 10, Fallback: Q4_0,
		BlockForm: BlockForm{Fields: 4, Stride: 32, Run: 16, Affine: true, Wide: true},
		Parts:     []BlockPart{{0, "scales"}, {16, "quants"}, {80, "scale"}},
		Decode: BlockDecode{
			Scale: `
uint packed = BYTE(e / 16u);
vec2 d = unpackHalf2x16(WORD(80u));
return vec2(d.x * float(packed & 15u), -(d.y * float(packed >> 4)));`,
			PlaneScale: `
uint packed = PAIRS(e / 128u * 8u)[e % 128u / 64u] >> e % 64u / 16u * 8u;
vec2 d = unpackHalf2x16(WORD(80u));
return vec2(d.x * float(packed & 15u), -(d.y * float(packed >> 4 & 15u)));`,
			Quants: `return WORDS(16u + e / 128u * 32u + e % 32u) >> 2u * p & 0x03030303u;`},
		Packed: &BlockPacked{Bias: 1,
			Quants: `return WORDS(16u + e / 128u * 32u + e % 32u);`,
			Result: `
uvec2 packed = PAIRS(e / 128u * 8u) >> e % 32u / 16u * 8u;
vec2 d = unpackHalf2x16(WORD(80u));
vec4 scales = vec4(SMALL(packed.x & 0x000f000fu), SMALL(packed.y & 0x000f000fu));
vec4 mins = vec4(SMALL(packed.x & 0x00f000f0u), SMALL(packed.y & 0x00f000f0u));
return d.x * UNIT * dot(scales, dots) - d.y * UNIT_16 * dot(mins, sums);`},
		Encode: `
// Levels 0 to 3 of a group of a block of q2_K, which has 16 of 16.
uint quantize_q2_K(float x[32], uint block, uint group) {
    return fit_affine(x, block, group, 16u, 3.0, -0.5, 0.1, 15u, true, 15);
}`,
		Pack: `
// Word i of a block of q2_K.
uint pack_q2_K(uint i, uint block, uint d) {
    if (i < 4u) return codes_at(block, 4u * i, 0u) | codes_at(block, 4u * i, 8u) << 4;
    if (i == 20u) return d;
    return pack_crumbs(block, (i - 4u) / 8u * 128u + (i - 4u) % 8u * 4u);
}`,
	},
	Q3_K: {
		Name: "q3_K", Elems: 256, Bytes: 110, GGML: 11, FileType: 11, Fallback: Q4_0,
		BlockForm: BlockForm{Fields: 4, Stride: 32, Run: 16, Bias: 4, Wide: true},
		Parts:     []BlockPart{{0, "high"}, {32, "quants"}, {96, "scales"}, {108, "scale"}},
		Decode: BlockDecode{
			Scale: `
uint group = e / 16u;
uint low = BYTE(96u + group % 8u) >> group / 8u * 4u & 15u;
uint high = BYTE(104u + group % 4u) >> group / 4u * 2u & 3u;
return HALF(108u) * (float(low | high << 4) - 32.0);`,
			Quants: `
QUANTS low = WORDS(32u + e / 128u * 32u + e % 32u) >> 2u * p & 0x03030303u;
QUANTS high = WORDS(e % 32u) >> e / 128u * 4u;
return low | high << 2u >> p & 0x04040404u;`},
		Packed: &BlockPacked{Bias: 4,
			Quants: `return WORDS(32u + e / 128u * 32u + e % 32u);`,
			High:   `return WORDS(e % 32u) >> e / 128u * 4u;`,
			Result: `
uint shift = e / 128u * 4u + e % 32u / 16u * 8u;
uint high = WORD(104u) >> shift;
uint first = WORD(96u) >> shift & 0x000f000fu | (high & 0x00030003u) << 4;
uint second = WORD(100u) >> shift & 0x000f000fu | (high & 0x000c000cu) << 2;
vec4 scales = vec4(SMALL(first), SMALL(second)) - PER_UNIT;
return HALF(108u) * UNIT * dot(scales, dots - sums);`},
		Encode: `
// Levels -4 to 3 of a group of a block of q3_K, which has 16 of 16. A block of zeros is all zeros.
uint quantize_q3_K(float x[32], uint block, uint group) {
    float level[16];
    group_fits[block][group].x = descend_scale(x, level);
    barrier();
    uint largest = largest_fit(block, 16u);
    float inverse = exact_quotient(-32.0, uintBitsToFloat(largest));
    precise float scaled = inverse * group_fits[block][group].x;
    int code = clamp(round_int(scaled), -32, 31);
    uint d = finite_half(exact_quotient(1.0, inverse));
    precise float scale = half_value(d) * float(code);
    for (uint i = 0u; i < 16u; i += 4u) {
        uint levels = 0u;
        for (uint n = 0u; n < 4u; ++n) {
            int nearest = clamp(round_int(exact_quotient(x[i + n], scale)), -4, 3);
            levels |= uint((scale == 0.0 ? int(level[i + n]) : nearest) + 4) << 8u * n;
        }
        block_levels[block][4u * group + i / 4u] = largest == 0u ? 0u : levels;
    }
    group_codes[block][group] = largest == 0u ? 0u : uint(code + 32);
    barrier();
    return largest == 0u ? 0u : d;
}`,
		Pack: `
// Word i of a block of q3_K.
uint pack_q3_K(uint i, uint block, uint d) {
    if (i < 8u) return pack_planes(block, 4u * i, 2u);
    if (i < 24u) return pack_crumbs(block, (i - 8u) / 8u * 128u + i % 8u * 4u);
    uint low = 4u * (i - 24u);
    if (i < 26u) return codes_at(block, low, 0u) & 0x0f0f0f0fu | (codes_at(block, low + 8u, 0u) & 0x0f0f0f0fu) << 4;
    if (i == 27u) return d;
    uint high = 0u;
    for (uint n = 0u; n < 4u; ++n) high |= (codes_at(block, 4u * n, 0u) >> 4 & 0x03030303u) << 2u * n;
    return high;
}`,
	},
	Q4_K: {
		Name: "q4_K", Elems: 256, Bytes: 144, GGML: 12, FileType: 14, Fallback: Q5_0,
		BlockForm: BlockForm{Fields: 2, Stride: 32, Run: 32, Affine: true, Wide: true},
		Parts:     []BlockPart{{0, "scales"}, {16, "quants"}},
		Decode: BlockDecode{
			Scale: `
uvec4 scales = WORDS(0u);
vec2 d = unpackHalf2x16(scales.x);
uvec2 packed = scale_min_k4(scales.yzw, e / 32u);
return vec2(d.x * float(packed.x), -(d.y * float(packed.y)));`,
			Quants: `return WORDS(16u + e / 64u * 32u + e % 32u) >> 4u * p & 0x0f0f0f0fu;`},
		Encode: `
// Levels 0 to 15 of a group of a block of q4_K, which has 8 of 32.
uint quantize_q4_K(float x[32], uint block, uint group) {
    return fit_affine(x, block, group, 32u, 15.0, -1.0, 0.1, 20u, false, 63);
}`,
		Pack: `
// Word i of a block of q4_K.
uint pack_q4_K(uint i, uint block, uint d) {
    if (i == 0u) return d;
    if (i < 4u) return pack_scales_k4(block, i - 1u);
    return pack_nibbles_at(block, (i - 4u) / 8u * 64u + (i - 4u) % 8u * 4u, 32u);
}`,
	},
	Q5_K: {
		Name: "q5_K", Elems: 256, Bytes: 176, GGML: 13, FileType: 16, Fallback: Q5_1,
		BlockForm: BlockForm{Fields: 2, Stride: 32, Run: 32, Affine: true, Wide: true},
		Parts:     []BlockPart{{0, "scales"}, {16, "high"}, {48, "quants"}},
		Decode: BlockDecode{
			Scale: `
uvec4 scales = WORDS(0u);
vec2 d = unpackHalf2x16(scales.x);
uvec2 packed = scale_min_k4(scales.yzw, e / 32u);
return vec2(d.x * float(packed.x), -(d.y * float(packed.y)));`,
			Quants: `
QUANTS fifth = WORDS(16u + e % 32u) >> e / 32u + p & 0x01010101u;
return WORDS(48u + e / 64u * 32u + e % 32u) >> 4u * p & 0x0f0f0f0fu | fifth << 4;`},
		Encode: `
// Levels 0 to 31 of a group of a block of q5_K, which has 8 of 32.
uint quantize_q5_K(float x[32], uint block, uint group) {
    return fit_affine(x, block, group, 32u, 31.0, -0.5, 0.1, 15u, false, 63);
}`,
		Pack: `
// Word i of a block of q5_K.
uint pack_q5_K(uint i, uint block, uint d) {
    if (i == 0u) return d;
    if (i < 4u) return pack_scales_k4(block, i - 1u);
    if (i < 12u) return pack_planes(block, 4u * (i - 4u), 4u);
    return pack_nibbles_at(block, (i - 12u) / 8u * 64u + (i - 12u) % 8u * 4u, 32u);
}`,
	},
	Q6_K: {
		Name: "q6_K", Elems: 256, Bytes: 210, GGML: 14, FileType: 18, Fallback: Q8_0,
		BlockForm: BlockForm{Fields: 4, Stride: 32, Run: 16, Bias: 32, Wide: true},
		Parts:     []BlockPart{{0, "quants"}, {128, "high"}, {192, "scales"}, {208, "scale"}},
		Decode: BlockDecode{
			Scale: `return HALF(208u) * float(bitfieldExtract(int(BYTE(192u + e / 16u)), 0, 8));`,
			Quants: `
QUANTS low = WORDS(e / 128u * 64u + p % 2u * 32u + e % 32u) >> p / 2u * 4u & 0x0f0f0f0fu;
QUANTS high = WORDS(128u + e / 128u * 32u + e % 32u) >> 2u * p & 0x03030303u;
return low | high << 4;`},
		Encode: `
// Levels -32 to 31 of a group of a block of q6_K, which has 16 of 16. A block of zeros is all zeros.
uint quantize_q6_K(float x[32], uint block, uint group) {
    float fitted;
    group_fits[block][group].x = fit_scale(x, 16u, -32.0, 31.0, fitted);
    barrier();
    uint largest = largest_fit(block, 16u);
    bool zero = abs(uintBitsToFloat(largest)) < 1e-15;
    float inverse = exact_quotient(-128.0, uintBitsToFloat(largest));
    precise float scaled = inverse * group_fits[block][group].x;
    int code = clamp(round_int(scaled), -128, 127);
    uint d = finite_half(exact_quotient(1.0, inverse));
    precise float scale = half_value(d) * float(code);
    for (uint i = 0u; i < 16u; i += 4u) {
        uint levels = 0u;
        for (uint n = 0u; n < 4u; ++n) {
            int nearest = clamp(round_int(exact_quotient(x[i + n], scale)), -32, 31);
            int kept = fitted == 0.0 ? -32 : int(level_at(x[i + n], fitted, -32.0, 31.0));
            levels |= uint((scale == 0.0 ? kept : nearest) + 32) << 8u * n;
        }
        block_levels[block][4u * group + i / 4u] = zero ? 0u : levels;
    }
    group_codes[block][group] = zero ? 0u : uint(code) & 255u;
    barrier();
    return zero ? 0u : d;
}`,
		Pack: `
// Word i of a block of q6_K.
uint pack_q6_K(uint i, uint block, uint d) {
    if (i < 32u) return pack_nibbles_at(block, i / 16u * 128u + i % 16u * 4u, 64u);
    if (i == 52u) return d;
    if (i >= 48u) return codes_at(block, 4u * (i - 48u), 0u);
    uint e = (i - 32u) / 8u * 128u + i % 8u * 4u, high = 0u;
    for (uint n = 0u; n < 4u; ++n) high |= (levels_at(block, e + 32u * n) >> 4 & 0x03030303u) << 2u * n;
    return high;
}`,
	},
	Q8_K: {
		Name: "q8_K", Elems: 256, Bytes: 292, GGML: 15, Activations: true,
		BlockForm: BlockForm{Fields: 1, Stride: 4, Run: 256, Signed: true},
		Parts:     []BlockPart{{0, "scale"}, {4, "quants"}, {260, "sums"}},
		Decode: BlockDecode{
			Scale:  `return uintBitsToFloat(WORD(0u));`,
			Quants: `return WORD(4u + e);`},
		Encode: `
// Levels of 32 elements of a block of q8_K, of which the element of largest magnitude gets level -127.
uint quantize_q8_K(float x[32], uint block, uint group) {
    group_fits[block][group].x = uintBitsToFloat(largest_of(x));
    barrier();
    uint inverse = divide_bits(floatBitsToUint(-127.0), largest_fit(block, 8u));
    bool zero = (inverse & 0x7fffffffu) >= 0x7f800000u;
    for (uint i = 0u; i < 32u; i += 4u) {
        uint levels = 0u;
        for (uint n = 0u; n < 4u; ++n) {
            float scaled = exact_product(uintBitsToFloat(inverse), x[i + n]);
            levels |= (uint(min(round_int(scaled), 127)) & 255u) << 8u * n;
        }
        block_levels[block][8u * group + i / 4u] = zero ? 0u : levels;
    }
    barrier();
    return zero ? 0u : divide_bits(floatBitsToUint(1.0), inverse);
}`,
		Pack: `
// Word i of a block of q8_K, which stores the sum of every 16 levels next to them.
uint pack_q8_K(uint i, uint block, uint d) {
    if (i == 0u) return d;
    if (i < 65u) return levels_at(block, 4u * (i - 1u));
    int sums[2] = int[](0, 0);
    for (uint n = 0u; n < 16u; ++n) {
        for (uint m = 0u; m < 2u; ++m) {
            uint e = 32u * (i - 65u) + 16u * m + n;
            sums[m] += bitfieldExtract(int(levels_at(block, e)), int(e % 4u * 8u), 8);
        }
    }
    return uint(sums[0]) & 0xffffu | uint(sums[1]) << 16;
}`,
	},
}
