package ir

// legacyBlocks have a scale for 32 elements, and no superblocks: ggml's first formats.
var legacyBlocks = map[DType]BlockFormat{
	Q4_0: {
		Name: "q4_0", Elems: 32, Bytes: 18, GGML: 2, FileType: 2,
		BlockForm: BlockForm{Fields: 2, Stride: 16, Run: 32, Bias: 8, Wide: true},
		Parts:     []BlockPart{{0, "scale"}, {2, "quants"}},
		Decode: BlockDecode{
			Scale:  `return HALF(0u);`,
			Quants: `return WORDS(2u + e) >> 4u * p & 0x0f0f0f0fu;`},
		Encode: `
// A block of q4_0: the element of largest magnitude gets level -8.
void quantize_q4_0(float x[32], out uint halves[9]) {
    uint d = divide_bits(largest_of(x), floatBitsToUint(-8.0));
    float inverse = inverse_of(d);
    uint level[32];
    for (uint i = 0u; i < 32u; ++i) level[i] = level_of(x[i], inverse, 8.5, 15);
    halves[0] = half_bits(d);
    for (uint i = 0u; i < 8u; ++i) halves[1u + i] = pack_nibbles(level, 2u * i);
}`,
	},
	Q4_1: {
		Name: "q4_1", Elems: 32, Bytes: 20, GGML: 3, FileType: 3,
		BlockForm: BlockForm{Fields: 2, Stride: 16, Run: 32, Affine: true, Wide: true},
		Parts:     []BlockPart{{0, "scale"}, {4, "quants"}},
		Decode: BlockDecode{
			Scale:  `return unpackHalf2x16(WORD(0u));`,
			Quants: `return WORDS(4u + e) >> 4u * p & 0x0f0f0f0fu;`},
		Encode: `
// A block of q4_1: levels 0 to 15 from the least element to the greatest.
void quantize_q4_1(float x[32], out uint halves[10]) {
    vec2 range = range_of(x);
    uint d = divide_bits(floatBitsToUint(range.y - range.x), floatBitsToUint(15.0));
    float inverse = inverse_of(d);
    uint level[32];
    for (uint i = 0u; i < 32u; ++i) level[i] = level_of(x[i] - range.x, inverse, 0.5, 15);
    halves[0] = half_bits(d);
    halves[1] = half_bits(floatBitsToUint(range.x));
    for (uint i = 0u; i < 8u; ++i) halves[2u + i] = pack_nibbles(level, 2u * i);
}`,
	},
	Q5_0: {
		Name: "q5_0", Elems: 32, Bytes: 22, GGML: 6, FileType: 8,
		BlockForm: BlockForm{Fields: 2, Stride: 16, Run: 32, Bias: 16},
		Parts:     []BlockPart{{0, "scale"}, {2, "high"}, {6, "quants"}},
		Decode: BlockDecode{
			Scale: `return HALF(0u);`,
			Quants: `
uint fifth = spread_bits(WORD(2u) >> e + 16u * p);
return WORD(6u + e) >> 4u * p & 0x0f0f0f0fu | fifth << 4;`},
		Encode: `
// A block of q5_0: the element of largest magnitude gets level -16.
void quantize_q5_0(float x[32], out uint halves[11]) {
    uint d = divide_bits(largest_of(x), floatBitsToUint(-16.0));
    float inverse = inverse_of(d);
    uint level[32];
    for (uint i = 0u; i < 32u; ++i) level[i] = level_of(x[i], inverse, 16.5, 31);
    uint fifths = fifth_bits(level);
    halves[0] = half_bits(d);
    halves[1] = fifths & 0xffffu;
    halves[2] = fifths >> 16;
    for (uint i = 0u; i < 8u; ++i) halves[3u + i] = pack_nibbles(level, 2u * i);
}`,
	},
	Q5_1: {
		Name: "q5_1", Elems: 32, Bytes: 24, GGML: 7, FileType: 9,
		BlockForm: BlockForm{Fields: 2, Stride: 16, Run: 32, Affine: true},
		Parts:     []BlockPart{{0, "scale"}, {4, "high"}, {8, "quants"}},
		Decode: BlockDecode{
			Scale: `return unpackHalf2x16(WORD(0u));`,
			Quants: `
uint fifth = spread_bits(WORD(4u) >> e + 16u * p);
return WORD(8u + e) >> 4u * p & 0x0f0f0f0fu | fifth << 4;`},
		Encode: `
// A block of q5_1: levels 0 to 31 from the least element to the greatest.
void quantize_q5_1(float x[32], out uint halves[12]) {
    vec2 range = range_of(x);
    uint d = divide_bits(floatBitsToUint(range.y - range.x), floatBitsToUint(31.0));
    float inverse = inverse_of(d);
    uint level[32];
    for (uint i = 0u; i < 32u; ++i) level[i] = level_of(x[i] - range.x, inverse, 0.5, 31);
    uint fifths = fifth_bits(level);
    halves[0] = half_bits(d);
    halves[1] = half_bits(floatBitsToUint(range.x));
    halves[2] = fifths & 0xffffu;
    halves[3] = fifths >> 16;
    for (uint i = 0u; i < 8u; ++i) halves[4u + i] = pack_nibbles(level, 2u * i);
}`,
	},
	Q8_0: {
		Name: "q8_0", Elems: 32, Bytes: 34, GGML: 8, FileType: 7,
		BlockForm: BlockForm{Fields: 1, Stride: 4, Run: 32, Signed: true, Wide: true},
		Parts:     []BlockPart{{0, "scale"}, {2, "quants"}},
		Decode: BlockDecode{
			Scale:  `return HALF(0u);`,
			Quants: `return WORDS(2u + e);`},
		Encode: `
// A block of q8_0: levels -127 to 127, halves rounded away from 0.
void quantize_q8_0(float x[32], out uint halves[17]) {
    uint d = divide_bits(largest_of(x) & 0x7fffffffu, floatBitsToUint(127.0));
    float inverse = inverse_of(d);
    halves[0] = half_bits(d);
    for (uint i = 0u; i < 16u; ++i) {
        uint pair = 0u;
        for (uint n = 0u; n < 2u; ++n) {
            precise float scaled = x[2u * i + n] * inverse;
            pair |= (uint(round_away(scaled)) & 255u) << 8u * n;
        }
        halves[1u + i] = pair;
    }
}`,
	},
	Q8_1: {
		Name: "q8_1", Elems: 32, Bytes: 36, GGML: 9, Activations: true,
		BlockForm: BlockForm{Fields: 1, Stride: 4, Run: 32, Signed: true},
		Parts:     []BlockPart{{0, "scale"}, {4, "quants"}},
		Decode: BlockDecode{
			Scale:  `return HALF(0u);`,
			Quants: `return WORD(4u + e);`},
		Encode: `
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
}`,
	},
}
