package ir

// ternaryBlocks hold -1, 0 and 1 times a scale. tq1_0 has 32 bytes with five base-3 digits each, 16 more with five, and
// four with four. A byte b stands for the fraction b/256 in base 3: digit k is the integer part of 3 times the
// fractional part of 3^k * b/256.
var ternaryBlocks = map[DType]BlockFormat{
	TQ1_0: {
		Name: "tq1_0", Elems: 256, Bytes: 54, GGML: 34, FileType: 36, Fallback: Q4_0,
		BlockForm: BlockForm{Fields: 1, Stride: 4, Run: 256, Bias: 1, Wide: true, FourOnly: true},
		Parts:     []BlockPart{{0, "quants"}, {48, "high"}, {52, "scale"}},
		Decode: BlockDecode{
			Scale: `return HALF(52u);`,
			Quants: `
bool of32 = e < 160u, of4 = e >= 240u;
uint at = mix(32u + e % 16u, e % 32u, of32);
uint bytes = mix(WORD(at), WORD(48u), of4);
uint digit = mix(mix((e - 160u) / 16u, e / 32u, of32), (e - 240u) / 4u, of4);
uint power = mix(0x1b090301u >> 8u * digit & 0xffu, 81u, digit == 4u);
uint even = (bytes & 0x00ff00ffu) * power & 0x00ff00ffu;
uint odd = (bytes >> 8 & 0x00ff00ffu) * power & 0x00ff00ffu;
return even * 3u >> 8 & 0x00030003u | odd * 3u & 0x03000300u;`,
			Quants4: `
uint group = e / 16u, digit = group < 10u ? group / 2u : group - 10u;
uvec4 bytes = WORDS(group < 10u ? e % 32u : 32u);
uvec4 power = uvec4(digit < 4u ? 0x1b090301u >> 8u * digit & 0xffu : 81u);
if (group == 15u) {
    bytes = uvec4(WORD(48u));
    power = uvec4(1u, 3u, 9u, 27u);
}
uvec4 even = (bytes & 0x00ff00ffu) * power & 0x00ff00ffu;
uvec4 odd = (bytes >> 8 & 0x00ff00ffu) * power & 0x00ff00ffu;
return even * 3u >> 8 & 0x00030003u | odd * 3u & 0x03000300u;`},
		Octets: &BlockOctets{
			Masks: ThirdMasks,
			Quants: `
uint digit = e < 160u ? e / 32u : e < 240u ? (e - 160u) / 16u : (e - 240u) / 4u;
uvec2 power = uvec2(digit < 4u ? 0x1b090301u >> 8u * digit & 0xffu : 81u);
uvec2 bytes;
if (e < 240u) {
    bytes = PAIRS(e < 160u ? e % 32u : 32u + e % 16u);
} else {
    bytes = uvec2(WORD(48u));
    power.y *= 3u;
}
uvec2 quads = high_bytes(bytes, 3u * power);
uvec2 masks = high_bytes(bytes, power);`},
		Encode: `
// Levels -1 to 1, plus 1, of 32 elements of a block of tq1_0.
uint quantize_tq1_0(float x[32], uint block, uint group) {
    return ternary_levels(x, block, group);
}`,
		Pack: `
// Word i of a block of tq1_0: five digits of base 3 to a byte, as a fraction rounded up.
uint pack_tq1_0(uint i, uint block, uint d) {
    if (i == 13u) return d;
    uint run = i < 8u ? 32u : i < 12u ? 16u : 4u, first = 4u * (i < 8u ? i : i < 12u ? 32u + i : 48u + i);
    uint digits = 0u;
    for (uint n = 0u; n < 5u; ++n) {
        digits *= 3u;
        if (i < 12u || n < 4u) digits += levels_at(block, first + n * run);
    }
    uint word = 0u;
    for (uint n = 0u; n < 4u; ++n) word |= ((digits >> 8u * n & 255u) * 256u + 242u) / 243u << 8u * n;
    return word;
}`,
	},
	TQ2_0: {
		Name: "tq2_0", Elems: 256, Bytes: 66, GGML: 35, FileType: 37, Fallback: Q4_0,
		BlockForm: BlockForm{Fields: 4, Stride: 32, Run: 256, Bias: 1, Wide: true},
		Parts:     []BlockPart{{0, "quants"}, {64, "scale"}},
		Decode: BlockDecode{
			Scale:  `return HALF(64u);`,
			Quants: `return WORDS(e / 128u * 32u + e % 32u) >> 2u * p & 0x03030303u;`},
		Packed: &BlockPacked{Bias: 1,
			Quants: `return WORDS(e / 128u * 32u + e % 32u);`,
			Result: `return HALF(64u) * (dots.x + dots.y + dots.z + dots.w - (sums.x + sums.y + sums.z + sums.w));`},
		Encode: `
// Levels -1 to 1, plus 1, of 32 elements of a block of tq2_0.
uint quantize_tq2_0(float x[32], uint block, uint group) {
    return ternary_levels(x, block, group);
}`,
		Pack: `
// Word i of a block of tq2_0.
uint pack_tq2_0(uint i, uint block, uint d) {
    return i == 16u ? d : pack_crumbs(block, i / 8u * 128u + i % 8u * 4u);
}`,
	},
}
