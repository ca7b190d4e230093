package ir

// kBlocks are superblocks of 256 elements, in groups whose scales are integers themselves.
var kBlocks = map[DType]BlockFormat{
	Q2_K: {
		Name: "q2_K", Elems: 256, Bytes: 84, GGML: 10, FileType: 10,
		BlockForm: BlockForm{Planes: 4, Stride: 32, Run: 16, Affine: true, Wide: true},
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
}`,
	},
	Q3_K: {
		Name: "q3_K", Elems: 256, Bytes: 110, GGML: 11, FileType: 11,
		BlockForm: BlockForm{Planes: 4, Stride: 32, Run: 16, Bias: 4, Wide: true},
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
}`,
	},
	Q4_K: {
		Name: "q4_K", Elems: 256, Bytes: 144, GGML: 12, FileType: 14, Fallback: Q5_0,
		BlockForm: BlockForm{Planes: 2, Stride: 32, Run: 32, Affine: true, Wide: true},
		Parts:     []BlockPart{{0, "scales"}, {16, "quants"}},
		Decode: BlockDecode{
			Scale: `
uvec4 scales = WORDS(0u);
vec2 d = unpackHalf2x16(scales.x);
uvec2 packed = scale_min_k4(scales.yzw, e / 32u);
return vec2(d.x * float(packed.x), -(d.y * float(packed.y)));`,
			Quants: `return WORDS(16u + e / 64u * 32u + e % 32u) >> 4u * p & 0x0f0f0f0fu;`},
		Encode: `
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
}`,
	},
	Q5_K: {
		Name: "q5_K", Elems: 256, Bytes: 176, GGML: 13, FileType: 16, Fallback: Q5_1,
		BlockForm: BlockForm{Planes: 2, Stride: 32, Run: 32, Affine: true, Wide: true},
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
}`,
	},
	Q6_K: {
		Name: "q6_K", Elems: 256, Bytes: 210, GGML: 14, FileType: 18, Fallback: Q8_0,
		BlockForm: BlockForm{Planes: 4, Stride: 32, Run: 16, Bias: 32, Wide: true},
		Parts:     []BlockPart{{0, "quants"}, {128, "high"}, {192, "scales"}, {208, "scale"}},
		Decode: BlockDecode{
			Scale: `return HALF(208u) * float(bitfieldExtract(int(BYTE(192u + e / 16u)), 0, 8));`,
			Quants: `
QUANTS low = WORDS(e / 128u * 64u + p % 2u * 32u + e % 32u) >> p / 2u * 4u & 0x0f0f0f0fu;
QUANTS high = WORDS(128u + e / 128u * 32u + e % 32u) >> 2u * p & 0x03030303u;
return low | high << 4;`},
		Encode: `
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
}`,
	},
	Q8_K: {
		Name: "q8_K", Elems: 256, Bytes: 292, GGML: 15, Activations: true,
		BlockForm: BlockForm{Planes: 1, Stride: 4, Run: 256, Signed: true},
		Parts:     []BlockPart{{0, "scale"}, {4, "quants"}, {260, "sums"}},
		Decode: BlockDecode{
			Scale:  `return uintBitsToFloat(WORD(0u));`,
			Quants: `return WORD(4u + e);`},
		Encode: `
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
}`,
	},
}
