package ir

// codebookBlocks hold indices of a codebook (quant.Codebook). An entry of the codebook of iq4 is a single level, an
// entry of the others a quad in a word. The entries of iq1 are 8*(v+1) for v in -1 to 1: quants are in eighths, because
// the format has an offset of one eighth.
var codebookBlocks = map[DType]BlockFormat{
	IQ1_S: {
		Name: "iq1_s", Elems: 256, Bytes: 50, GGML: 19, FileType: 24,
		BlockForm: BlockForm{Fields: 2, Stride: 4, Run: 32, Bias: 9},
		Parts:     []BlockPart{{0, "scale"}, {2, "quants"}, {34, "high"}},
		Decode: BlockDecode{
			Scale: `return HALF(0u) * float(2u * (SHORT(34u + e / 32u * 2u) >> 12 & 7u) + 1u) * 0.125;`,
			Quants: `
uint high = SHORT(34u + e / 32u * 2u);
uint entry = BYTE(2u + e / 8u) | (high >> e % 32u / 8u * 3u & 7u) << 8;
return CODEBOOK[2u * entry + p] + ((high & 0x8000u) == 0u ? 0x02020202u : 0u);`},
		Octets: &BlockOctets{
			Entries: 2048, Bytes: 4, Entry: nibblesOf, Halved: true,
			Quants: `
uint high = SHORT(34u + e / 32u * 2u);
uint entry = WORD(2u + e / 32u * 4u) >> e % 32u & 255u | (high >> e % 32u / 8u * 3u & 7u) << 8;
uint nibbles = entry_NAME(entry) + ((high & 0x8000u) == 0u ? 0x11111111u : 0u);
return uvec2(nibbles & 0x0f0f0f0fu, nibbles >> 4 & 0x0f0f0f0fu);`},
	},
	IQ1_M: {
		Name: "iq1_m", Elems: 256, Bytes: 56, GGML: 29, FileType: 31,
		BlockForm: BlockForm{Fields: 2, Stride: 4, Run: 16, Bias: 9},
		Parts:     []BlockPart{{0, "quants"}, {32, "high"}, {48, "scales"}},
		Decode: BlockDecode{
			Scale: `
uint low = WORD(48u), high = WORD(52u); // the top nibbles of the four shorts are d
uint d = low >> 12 & 0xfu | low >> 24 & 0xf0u | high >> 4 & 0xf00u | high >> 16 & 0xf000u;
uint packed = SHORT(48u + e / 64u * 2u) >> e / 16u % 4u * 3u & 7u;
return unpackHalf2x16(d).x * float(2u * packed + 1u) * 0.125;`,
			Quants: `
uint high = BYTE(32u + e / 16u) >> e / 8u % 2u * 4u;
uint entry = BYTE(e / 8u) | (high & 7u) << 8;
return CODEBOOK[2u * entry + p] + ((high & 8u) == 0u ? 0x02020202u : 0u);`},
		Octets: &BlockOctets{
			Entries: 2048, Bytes: 4, Entry: nibblesOf, Halved: true,
			Quants: `
uint high = WORD(32u + e / 64u * 4u) >> e % 64u / 2u;
uint entry = WORD(e / 32u * 4u) >> e % 32u & 255u | (high & 7u) << 8;
uint nibbles = entry_NAME(entry) + ((high & 8u) == 0u ? 0x11111111u : 0u);
return uvec2(nibbles & 0x0f0f0f0fu, nibbles >> 4 & 0x0f0f0f0fu);`},
	},
	IQ2_XXS: {
		Name: "iq2_xxs", Elems: 256, Bytes: 66, GGML: 16, FileType: 19,
		BlockForm: BlockForm{Fields: 2, Stride: 4, Run: 32, Signed: true},
		Parts:     []BlockPart{{0, "scale"}, {2, "quants"}},
		Decode: BlockDecode{
			Scale:      `return HALF(0u) * (0.5 + float(WORD(6u + e / 32u * 8u) >> 28)) * 0.25;`,
			PlaneScale: `return HALF(0u) * (0.5 + float(PAIRS(2u + e / 32u * 8u).y >> 28)) * 0.25;`,
			Quants: `
uint signs = even_signs(WORD(6u + e / 32u * 8u) >> e % 32u / 8u * 7u & 127u);
uint entry = BYTE(2u + e / 32u * 8u + e % 32u / 8u);
return negate_bytes(CODEBOOK[2u * entry + p], signs >> 4u * p);`},
		Octets: &BlockOctets{
			Entries: 256, Bytes: 8, Signs: 7, Entry: eightOf, Masks: SignMasks, Signed: true,
			Quants: `
uvec2 packed = PAIRS(2u + e / 32u * 8u);
uvec2 quads = entry_NAME(packed.x >> e % 32u & 255u);
uvec2 masks = signs_NAME(packed.y >> e % 32u / 8u * 7u & 127u);`},
	},
	IQ2_XS: {
		Name: "iq2_xs", Elems: 256, Bytes: 74, GGML: 17, FileType: 20,
		BlockForm: BlockForm{Fields: 2, Stride: 4, Run: 16, Signed: true},
		Parts:     []BlockPart{{0, "scale"}, {2, "quants"}, {66, "scales"}},
		Decode: BlockDecode{
			Scale: `return HALF(0u) * (0.5 + float(BYTE(66u + e / 32u) >> e / 16u % 2u * 4u & 15u)) * 0.25;`,
			Quants: `
uint packed = SHORT(2u + e / 8u * 2u);
return negate_bytes(CODEBOOK[2u * (packed & 511u) + p], even_signs(packed >> 9) >> 4u * p);`},
		Octets: &BlockOctets{
			Entries: 512, Bytes: 8, Signs: 7, Entry: eightOf, Masks: SignMasks, Signed: true,
			Quants: `
uint packed = PAIRS(2u + e / 32u * 8u)[e % 32u / 16u] >> e % 16u * 2u;
uvec2 quads = entry_NAME(packed & 511u);
uvec2 masks = signs_NAME(packed >> 9 & 127u);`},
	},
	IQ2_S: {
		Name: "iq2_s", Elems: 256, Bytes: 82, GGML: 22, FileType: 28,
		BlockForm: BlockForm{Fields: 2, Stride: 4, Run: 16, Signed: true},
		Parts:     []BlockPart{{0, "scale"}, {2, "quants"}, {34, "signs"}, {66, "high"}, {74, "scales"}},
		Decode: BlockDecode{
			Scale: `return HALF(0u) * (0.5 + float(BYTE(74u + e / 32u) >> e / 16u % 2u * 4u & 15u)) * 0.25;`,
			Quants: `
uint entry = BYTE(2u + e / 8u) | (BYTE(66u + e / 32u) >> e / 8u % 4u * 2u & 3u) << 8;
return negate_bytes(CODEBOOK[2u * entry + p], BYTE(34u + e / 8u) >> 4u * p);`},
		Octets: &BlockOctets{
			Entries: 1024, Bytes: 8, Signs: 4, Entry: eightOf, Masks: SignMasks, Signed: true,
			Quants: `
uint high = BYTE(66u + e / 32u) >> e % 32u / 4u & 3u;
uvec2 quads = entry_NAME(WORD(2u + e / 32u * 4u) >> e % 32u & 255u | high << 8);
uint signs = WORD(34u + e / 32u * 4u) >> e % 32u;
uvec2 masks = uvec2(signs_NAME(signs & 15u), signs_NAME(signs >> 4 & 15u));`},
	},
	IQ3_XXS: {
		Name: "iq3_xxs", Elems: 256, Bytes: 98, GGML: 18, FileType: 23,
		BlockForm: BlockForm{Fields: 2, Stride: 4, Run: 32, Signed: true},
		Parts:     []BlockPart{{0, "scale"}, {2, "quants"}, {66, "signs"}},
		Decode: BlockDecode{
			Scale: `return HALF(0u) * (0.5 + float(WORD(66u + e / 32u * 4u) >> 28)) * 0.5;`,
			Quants: `
uint signs = even_signs(WORD(66u + e / 32u * 4u) >> e % 32u / 8u * 7u & 127u);
return negate_bytes(CODEBOOK[BYTE(2u + e / 4u + p)], signs >> 4u * p);`},
		Octets: &BlockOctets{
			Entries: 256, Bytes: 4, Signs: 7, Entry: `CODEBOOK[n]`, Masks: SignMasks, Signed: true,
			Quants: `
uint two = PAIRS(2u + e / 32u * 8u)[e % 32u / 16u] >> e % 16u * 2u;
uvec2 quads = uvec2(entry_NAME(two & 255u), entry_NAME(two >> 8 & 255u));
uvec2 masks = signs_NAME(WORD(66u + e / 32u * 4u) >> e % 32u / 8u * 7u & 127u);`},
		Encode: `
// The codebook entries of a group of a block of iq3_xxs.
uint quantize_iq3_xxs(float x[32], uint block, uint group) {
    return quantize_grid(x, block, group, 256u, 62.0, 0.25, true);
}`,
		Pack: `
// Word i of a block of iq3_xxs.
uint pack_iq3_xxs(uint i, uint block, uint d) {
    uint word = 0u;
    for (uint at = 4u * i; at < min(4u * i + 4u, 98u); ++at) {
        uint octet = 0u;
        if (at < 2u) {
            octet = d >> 8u * at;
        } else if (at < 66u) {
            octet = block_levels[block][at - 2u];
        } else { // the first seven signs of each eight elements, and the scale
            uint group = (at - 66u) / 4u, signs = group_codes[block][group] << 28;
            for (uint n = 0u; n < 4u; ++n) signs |= (signs_at(block, 4u * group + n) & 127u) << 7u * n;
            octet = signs >> 8u * ((at - 66u) % 4u);
        }
        word |= (octet & 255u) << 8u * (at % 4u);
    }
    return word;
}`,
	},
	IQ3_S: {
		Name: "iq3_s", Elems: 256, Bytes: 110, GGML: 21, FileType: 26,
		BlockForm: BlockForm{Fields: 2, Stride: 4, Run: 32, Signed: true},
		Parts:     []BlockPart{{0, "scale"}, {2, "quants"}, {66, "high"}, {74, "signs"}, {106, "scales"}},
		Decode: BlockDecode{
			Scale: `return HALF(0u) * float(2u * (BYTE(106u + e / 64u) >> e / 32u % 2u * 4u & 15u) + 1u);`,
			Quants: `
uint ninth = BYTE(66u + e / 32u) >> e / 4u % 8u + p & 1u;
uint entry = BYTE(2u + e / 4u + p) | ninth << 8;
return negate_bytes(CODEBOOK[entry], BYTE(74u + e / 8u) >> 4u * p);`},
		Octets: &BlockOctets{
			Entries: 512, Bytes: 4, Signs: 4, Entry: `CODEBOOK[n] >> 1 & 0x7f7f7f7fu`, Masks: OddMasks, Signed: true,
			Quants: `
uint two = PAIRS(2u + e / 32u * 8u)[e % 32u / 16u] >> e % 16u * 2u;
uint high = BYTE(66u + e / 32u) >> e % 32u / 4u;
uvec2 quads = uvec2(entry_NAME(two & 255u | (high & 1u) << 8), entry_NAME(two >> 8 & 255u | (high & 2u) << 7));
uint signs = WORD(74u + e / 32u * 4u) >> e % 32u;
uvec2 masks = uvec2(signs_NAME(signs & 15u), signs_NAME(signs >> 4 & 15u));`},
		Encode: `
// The codebook entries of a group of a block of iq3_s.
uint quantize_iq3_s(float x[32], uint block, uint group) {
    return quantize_grid(x, block, group, 512u, 15.0, 1.0, false);
}`,
		Pack: `
// Word i of a block of iq3_s.
uint pack_iq3_s(uint i, uint block, uint d) {
    uint word = 0u;
    for (uint at = 4u * i; at < min(4u * i + 4u, 110u); ++at) {
        uint octet = 0u;
        if (at < 2u) {
            octet = d >> 8u * at;
        } else if (at < 66u) {
            octet = block_levels[block][at - 2u];
        } else if (at < 74u) { // the ninth bits of eight entries
            for (uint n = 0u; n < 8u; ++n) octet |= (block_levels[block][8u * (at - 66u) + n] >> 8 & 1u) << n;
        } else if (at < 106u) {
            octet = signs_at(block, at - 74u);
        } else {
            uint group = 2u * (at - 106u);
            octet = group_codes[block][group] | group_codes[block][group + 1u] << 4;
        }
        word |= (octet & 255u) << 8u * (at % 4u);
    }
    return word;
}`,
	},
	IQ4_NL: {
		Name: "iq4_nl", Elems: 32, Bytes: 18, GGML: 20, FileType: 25,
		BlockForm: BlockForm{Fields: 2, Stride: 16, Run: 32},
		Parts:     []BlockPart{{0, "scale"}, {2, "quants"}},
		Decode: BlockDecode{
			Scale:  `return HALF(0u);`,
			Levels: nibbleLevels(`WORD(2u + e)`)},
		Octets: &BlockOctets{
			Entries: 256, Bytes: 4, Entry: levelsOf, Signed: true,
			Quants: twoNibbles(`WORDS(2u)[e % 16u / 4u]`)},
		Encode: `
// A block of iq4_nl.
void quantize_iq4_nl(float x[32], out uint halves[9]) {
    uint d = scale_iq4_nl(x);
    float inverse = inverse_of(d);
    uint level[32];
    for (uint i = 0u; i < 32u; ++i) level[i] = level_iq4_nl(inverse * x[i]);
    halves[0] = half_bits(d);
    for (uint i = 0u; i < 8u; ++i) halves[1u + i] = pack_nibbles(level, 2u * i);
}`,
	},
	IQ4_XS: {
		Name: "iq4_xs", Elems: 256, Bytes: 136, GGML: 23, FileType: 30,
		BlockForm: BlockForm{Fields: 2, Stride: 16, Run: 32},
		Parts:     []BlockPart{{0, "scales"}, {8, "quants"}},
		Decode: BlockDecode{
			Scale: `
uint low = BYTE(4u + e / 64u) >> e / 32u % 2u * 4u & 15u;
uint high = SHORT(2u) >> e / 32u * 2u & 3u;
return HALF(0u) * (float(low | high << 4) - 32.0);`,
			PlaneScale: `
uvec2 packed = PAIRS(0u);
uint low = packed.y >> e / 32u * 4u & 15u;
uint high = packed.x >> 16u + e / 32u * 2u & 3u;
return unpackHalf2x16(packed.x).x * (float(low | high << 4) - 32.0);`,
			Levels: nibbleLevels(`WORD(8u + e / 32u * 16u + e % 16u)`)},
		Octets: &BlockOctets{
			Entries: 256, Bytes: 4, Entry: levelsOf, Signed: true,
			Quants: twoNibbles(`WORDS(8u + e / 32u * 16u)[e % 16u / 4u]`)},
		Encode: `
// Levels of a group of iq4_xs. A block has 8 groups as in iq4_nl, with 6-bit scales.
uint quantize_iq4_xs(float x[32], uint block, uint group) {
    group_fits[block][group].x = uintBitsToFloat(scale_iq4_nl(x));
    barrier();
    uint d = divide_bits(largest_fit(block, 8u) ^ 0x80000000u, floatBitsToUint(32.0));
    precise float scaled = inverse_of(d) * group_fits[block][group].x;
    int code = clamp(round_int(scaled), -32, 31);
    precise float scale = uintBitsToFloat(d) * float(code);
    float inverse = inverse_of(floatBitsToUint(scale));
    for (uint i = 0u; i < 32u; i += 4u) {
        uint levels = 0u;
        for (uint n = 0u; n < 4u; ++n) levels |= level_iq4_nl(inverse * x[i + n]) << 8u * n;
        block_levels[block][8u * group + i / 4u] = levels;
    }
    group_codes[block][group] = uint(code + 32);
    barrier();
    return half_bits(d);
}`,
		Pack: `
// Word i of a block of iq4_xs.
uint pack_iq4_xs(uint i, uint block, uint d) {
    if (i >= 2u) return pack_nibbles_at(block, (i - 2u) / 4u * 32u + (i - 2u) % 4u * 4u, 16u);
    uint low = 0u, high = 0u;
    for (uint g = 0u; g < 8u; ++g) {
        low |= (group_codes[block][g] & 15u) << 4u * g;
        high |= group_codes[block][g] >> 4 << 2u * g;
    }
    return i == 0u ? d | high << 16 : low;
}`,
	},
}
