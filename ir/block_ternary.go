package ir

// ternaryBlocks hold -1, 0 and 1 times a scale. tq1_0 has 32 bytes of five digits in base 3, 16 of five, four of four:
// a byte is a fraction, of which a power of three brings a digit above the point.
var ternaryBlocks = map[DType]BlockFormat{
	TQ1_0: {
		Name: "tq1_0", Elems: 256, Bytes: 54, GGML: 34, FileType: 36, Fallback: Q4_0,
		BlockForm: BlockForm{Planes: 1, Stride: 4, Run: 256, Bias: 1, Wide: true, FourOnly: true},
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
    bytes = uvec4(WORD(48u)), power = uvec4(1u, 3u, 9u, 27u);
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
}`,
	},
	TQ2_0: {
		Name: "tq2_0", Elems: 256, Bytes: 66, GGML: 35, FileType: 37, Fallback: Q4_0,
		BlockForm: BlockForm{Planes: 4, Stride: 32, Run: 256, Bias: 1, Wide: true},
		Parts:     []BlockPart{{0, "quants"}, {64, "scale"}},
		Decode: BlockDecode{
			Scale:  `return HALF(64u);`,
			Quants: `return WORDS(e / 128u * 32u + e % 32u) >> 2u * p & 0x03030303u;`},
		Packed: &BlockPacked{Bias: 1,
			Quants: `return WORDS(e / 128u * 32u + e % 32u);`,
			Result: `return HALF(64u) * (dots.x + dots.y + dots.z + dots.w - (sums.x + sums.y + sums.z + sums.w));`},
		Encode: `
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
}`,
	},
}
