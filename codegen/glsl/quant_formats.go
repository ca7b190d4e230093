package glsl

import "github.com/vkc-go/vkc/ir"

// blockFormats is the table of formats that kernels can read. A new format is
// a row here, one in the table of kernel.BlockForm, and a codec in package quant,
// which says what the bytes mean.
var blockFormats = withForms(map[ir.DType]blockFormat{
	ir.Q4_0: {
		scale:  `return HALF(0u);`,
		quants: `return WORDS(2u + e) >> 4u * p & 0x0f0f0f0fu;`},
	ir.Q4_1: {
		scale:  `return unpackHalf2x16(WORD(0u));`,
		quants: `return WORDS(4u + e) >> 4u * p & 0x0f0f0f0fu;`},
	ir.Q5_0: {
		scale: `return HALF(0u);`,
		quants: `
uint fifth = spread_bits(WORD(2u) >> e + 16u * p);
return WORD(6u + e) >> 4u * p & 0x0f0f0f0fu | fifth << 4;`},
	ir.Q5_1: {
		scale: `return unpackHalf2x16(WORD(0u));`,
		quants: `
uint fifth = spread_bits(WORD(4u) >> e + 16u * p);
return WORD(8u + e) >> 4u * p & 0x0f0f0f0fu | fifth << 4;`},
	ir.Q8_0: {
		scale:  `return HALF(0u);`,
		quants: `return WORDS(2u + e);`},
	ir.Q8_1: {
		scale:  `return HALF(0u);`,
		quants: `return WORD(4u + e);`},

	ir.Q2_K: {
		scale: `
uint packed = BYTE(e / 16u);
vec2 d = unpackHalf2x16(WORD(80u));
return vec2(d.x * float(packed & 15u), -(d.y * float(packed >> 4)));`,
		planeScale: `
uint packed = PAIRS(e / 128u * 8u)[e % 128u / 64u] >> e % 64u / 16u * 8u;
vec2 d = unpackHalf2x16(WORD(80u));
return vec2(d.x * float(packed & 15u), -(d.y * float(packed >> 4 & 15u)));`,
		quants: `return WORDS(16u + e / 128u * 32u + e % 32u) >> 2u * p & 0x03030303u;`},
	ir.Q3_K: {
		scale: `
uint group = e / 16u;
uint low = BYTE(96u + group % 8u) >> group / 8u * 4u & 15u;
uint high = BYTE(104u + group % 4u) >> group / 4u * 2u & 3u;
return HALF(108u) * (float(low | high << 4) - 32.0);`,
		quants: `
QUANTS low = WORDS(32u + e / 128u * 32u + e % 32u) >> 2u * p & 0x03030303u;
QUANTS high = WORDS(e % 32u) >> e / 128u * 4u;
return low | (p < 2u ? high << 2u - p : high >> p - 2u) & 0x04040404u;`},
	ir.Q4_K: {
		scale: `
uvec4 scales = WORDS(0u);
vec2 d = unpackHalf2x16(scales.x);
uvec2 packed = scale_min_k4(scales.yzw, e / 32u);
return vec2(d.x * float(packed.x), -(d.y * float(packed.y)));`,
		quants: `return WORDS(16u + e / 64u * 32u + e % 32u) >> 4u * p & 0x0f0f0f0fu;`},
	ir.Q5_K: {
		scale: `
uvec4 scales = WORDS(0u);
vec2 d = unpackHalf2x16(scales.x);
uvec2 packed = scale_min_k4(scales.yzw, e / 32u);
return vec2(d.x * float(packed.x), -(d.y * float(packed.y)));`,
		quants: `
QUANTS fifth = WORDS(16u + e % 32u) >> e / 32u + p & 0x01010101u;
return WORDS(48u + e / 64u * 32u + e % 32u) >> 4u * p & 0x0f0f0f0fu | fifth << 4;`},
	ir.Q6_K: {
		scale: `return HALF(208u) * float(bitfieldExtract(int(BYTE(192u + e / 16u)), 0, 8));`,
		quants: `
QUANTS low = WORDS(e / 128u * 64u + p % 2u * 32u + e % 32u) >> p / 2u * 4u & 0x0f0f0f0fu;
QUANTS high = WORDS(128u + e / 128u * 32u + e % 32u) >> 2u * p & 0x03030303u;
return low | high << 4;`},
	ir.Q8_K: {
		scale:  `return uintBitsToFloat(WORD(0u));`,
		quants: `return WORD(4u + e);`},

	// Codebooks hold a quad in a word. Those of iq1 hold 8*(v+1) for v in -1 to
	// 1; quants are in eighths, as the offset of one eighth asks for.
	ir.IQ1_S: {
		scale: `return HALF(0u) * float(2u * (SHORT(34u + e / 32u * 2u) >> 12 & 7u) + 1u) * 0.125;`,
		quants: `
uint high = SHORT(34u + e / 32u * 2u);
uint entry = BYTE(2u + e / 8u) | (high >> e % 32u / 8u * 3u & 7u) << 8;
return CODEBOOK[2u * entry + p] + ((high & 0x8000u) == 0u ? 0x02020202u : 0u);`},
	ir.IQ1_M: {
		scale: `
uint low = WORD(48u), high = WORD(52u); // the top nibbles of the four shorts are d
uint d = low >> 12 & 0xfu | low >> 24 & 0xf0u | high >> 4 & 0xf00u | high >> 16 & 0xf000u;
uint packed = SHORT(48u + e / 64u * 2u) >> e / 16u % 4u * 3u & 7u;
return unpackHalf2x16(d).x * float(2u * packed + 1u) * 0.125;`,
		quants: `
uint high = BYTE(32u + e / 16u) >> e / 8u % 2u * 4u;
uint entry = BYTE(e / 8u) | (high & 7u) << 8;
return CODEBOOK[2u * entry + p] + ((high & 8u) == 0u ? 0x02020202u : 0u);`},
	ir.IQ2_XXS: {
		scale:      `return HALF(0u) * (0.5 + float(WORD(6u + e / 32u * 8u) >> 28)) * 0.25;`,
		planeScale: `return HALF(0u) * (0.5 + float(PAIRS(2u + e / 32u * 8u).y >> 28)) * 0.25;`,
		quants: `
uint signs = even_signs(WORD(6u + e / 32u * 8u) >> e % 32u / 8u * 7u & 127u);
uint entry = BYTE(2u + e / 32u * 8u + e % 32u / 8u);
return negate_bytes(CODEBOOK[2u * entry + p], signs >> 4u * p);`},
	ir.IQ2_XS: {
		scale: `return HALF(0u) * (0.5 + float(BYTE(66u + e / 32u) >> e / 16u % 2u * 4u & 15u)) * 0.25;`,
		quants: `
uint packed = SHORT(2u + e / 8u * 2u);
return negate_bytes(CODEBOOK[2u * (packed & 511u) + p], even_signs(packed >> 9) >> 4u * p);`},
	ir.IQ2_S: {
		scale: `return HALF(0u) * (0.5 + float(BYTE(74u + e / 32u) >> e / 16u % 2u * 4u & 15u)) * 0.25;`,
		quants: `
uint entry = BYTE(2u + e / 8u) | (BYTE(66u + e / 32u) >> e / 8u % 4u * 2u & 3u) << 8;
return negate_bytes(CODEBOOK[2u * entry + p], BYTE(34u + e / 8u) >> 4u * p);`},
	ir.IQ3_XXS: {
		scale: `return HALF(0u) * (0.5 + float(WORD(66u + e / 32u * 4u) >> 28)) * 0.5;`,
		quants: `
uint signs = even_signs(WORD(66u + e / 32u * 4u) >> e % 32u / 8u * 7u & 127u);
return negate_bytes(CODEBOOK[BYTE(2u + e / 4u + p)], signs >> 4u * p);`},
	ir.IQ3_S: {
		scale: `return HALF(0u) * float(2u * (BYTE(106u + e / 64u) >> e / 32u % 2u * 4u & 15u) + 1u);`,
		quants: `
uint ninth = BYTE(66u + e / 32u) >> e / 4u % 8u + p & 1u;
uint entry = BYTE(2u + e / 4u + p) | ninth << 8;
return negate_bytes(CODEBOOK[entry], BYTE(74u + e / 8u) >> 4u * p);`},

	// These have a codebook of the 16 levels of a nibble, as floats.
	ir.IQ4_NL: {
		scale: `return HALF(0u);`,
		levels: `
uint four = WORD(2u + e) >> 4u * p;
return vec4(CODEBOOK[four & 15u], CODEBOOK[four >> 8 & 15u], CODEBOOK[four >> 16 & 15u], CODEBOOK[four >> 24 & 15u]);`},
	ir.IQ4_XS: {
		scale: `
uint low = BYTE(4u + e / 64u) >> e / 32u % 2u * 4u & 15u;
uint high = SHORT(2u) >> e / 32u * 2u & 3u;
return HALF(0u) * (float(low | high << 4) - 32.0);`,
		planeScale: `
uvec2 packed = PAIRS(0u);
uint low = packed.y >> e / 32u * 4u & 15u;
uint high = packed.x >> 16u + e / 32u * 2u & 3u;
return unpackHalf2x16(packed.x).x * (float(low | high << 4) - 32.0);`,
		levels: `
uint four = WORD(8u + e / 32u * 16u + e % 16u) >> 4u * p;
return vec4(CODEBOOK[four & 15u], CODEBOOK[four >> 8 & 15u], CODEBOOK[four >> 16 & 15u], CODEBOOK[four >> 24 & 15u]);`},
	ir.MXFP4: {
		scale: `
uint exponent = BYTE(0u);
return uintBitsToFloat(exponent < 2u ? 0x00200000u << exponent : exponent - 1u << 23);`,
		levels: `
uint four = WORD(1u + e) >> 4u * p;
return vec4(CODEBOOK[four & 15u], CODEBOOK[four >> 8 & 15u], CODEBOOK[four >> 16 & 15u], CODEBOOK[four >> 24 & 15u]);`},

	// 32 bytes of five digits in base 3, 16 of five, four of four: a byte is a
	// fraction, of which a power of three brings a digit above the point.
	ir.TQ1_0: {
		scale: `return HALF(52u);`,
		quants: `
uint bytes, digit;
if (e < 160u) {
    bytes = WORD(e % 32u), digit = e / 32u;
} else if (e < 240u) {
    bytes = WORD(32u + e % 16u), digit = (e - 160u) / 16u;
} else {
    bytes = WORD(48u), digit = (e - 240u) / 4u;
}
uint power = digit < 2u ? 1u + 2u * digit : digit == 2u ? 9u : digit == 3u ? 27u : 81u;
uint even = (bytes & 0x00ff00ffu) * power & 0x00ff00ffu;
uint odd = (bytes >> 8 & 0x00ff00ffu) * power & 0x00ff00ffu;
return even * 3u >> 8 & 0x00030003u | odd * 3u & 0x03000300u;`,
		quants4: `
uint group = e / 16u, digit = group < 10u ? group / 2u : group - 10u;
uvec4 bytes = WORDS(group < 10u ? e % 32u : 32u);
uvec4 power = uvec4(digit < 4u ? 0x1b090301u >> 8u * digit & 0xffu : 81u);
if (group == 15u) {
    bytes = uvec4(WORD(48u)), power = uvec4(1u, 3u, 9u, 27u);
}
uvec4 even = (bytes & 0x00ff00ffu) * power & 0x00ff00ffu;
uvec4 odd = (bytes >> 8 & 0x00ff00ffu) * power & 0x00ff00ffu;
return even * 3u >> 8 & 0x00030003u | odd * 3u & 0x03000300u;`},
	ir.TQ2_0: {
		scale:  `return HALF(64u);`,
		quants: `return WORDS(e / 128u * 32u + e % 32u) >> 2u * p & 0x03030303u;`},
})
