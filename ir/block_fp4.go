package ir

// fp4Blocks hold 4-bit floats (E2M1). The codebook has the doubled values as floats, so scales are halves of the stored
// ones. A stored scale is a power of two for 32 elements, or an 8-bit float without a sign (UE4M3) for 16.
var fp4Blocks = map[DType]BlockFormat{
	MXFP4: {
		Name: "mxfp4", Elems: 32, Bytes: 17, GGML: 39, FileType: 38,
		BlockForm: BlockForm{Fields: 2, Stride: 16, Run: 32},
		Parts:     []BlockPart{{0, "scale"}, {1, "quants"}},
		Decode: BlockDecode{
			Scale: `
uint exponent = BYTE(0u);
return uintBitsToFloat(mix(exponent - 1u << 23, 0x00200000u << exponent, exponent < 2u));`,
			Levels: nibbleLevels(`WORD(1u + e)`)},
		Octets: &BlockOctets{
			Entries: 256, Bytes: 4, Entry: levelsOf, Signed: true,
			Quants: twoNibbles(`WORDS(1u)[e % 16u / 4u]`)},
		Encode: `
// A block of mxfp4: the number of middles between levels that lie below each
// magnitude.
void quantize_mxfp4(float x[32], out uint halves[9]) {
    uint exponent = exponent_mxfp4(largest_of(x) & 0x7fffffffu);
    uint middle[7];
    for (uint n = 0u; n < 7u; ++n) middle[n] = float_bits(MIDDLES_FP4[n], int(exponent) - 129);
    for (uint i = 0u; i < 9u; ++i) halves[i] = 0u;
    halves[0] = exponent;
    for (uint i = 0u; i < 32u; ++i) {
        uint bits = floatBitsToUint(x[i]), level = 0u;
        for (uint n = 0u; n < 7u; ++n) level += middle[n] < (bits & 0x7fffffffu) ? 1u : 0u;
        if (level > 0u) level |= bits >> 31 << 3;
        uint at = 1u + i % 16u;
        halves[at / 2u] |= level << i / 16u * 4u + at % 2u * 8u;
    }
}`,
	},
	NVFP4: {
		Name: "nvfp4", Elems: 64, Bytes: 36, GGML: 40, FileType: 39,
		BlockForm: BlockForm{Fields: 2, Stride: 8, Run: 16},
		Parts:     []BlockPart{{0, "scales"}, {4, "quants"}},
		Decode: BlockDecode{
			Scale: `
uint code = BYTE(e / 16u);
float scale = uintBitsToFloat(((code & 127u) << 20) + 0x3b800000u);
scale = mix(scale, float(code & 7u) / 1024.0, (code & 0x78u) == 0u);
return mix(scale, 0.0, code == 127u);`,
			Levels: nibbleLevels(`WORD(4u + e / 16u * 8u + e % 8u)`)},
		Octets: &BlockOctets{
			Entries: 256, Bytes: 4, Entry: levelsOf, Signed: true,
			Quants: twoNibbles(`WORD(4u + e / 16u * 8u + e % 8u)`)},
		Encode: `
// Levels of a group of a block of nvfp4, which has 4 of 16: the number of middles between levels that lie below each
// magnitude.
uint quantize_nvfp4(float x[32], uint block, uint group) {
    uint largest = 0u;
    for (uint i = 0u; i < 16u; ++i) largest = max(largest, floatBitsToUint(x[i]) & 0x7fffffffu);
    uint code = ue4m3_bits(divide_bits(largest, floatBitsToUint(6.0)));
    uint exponent = code >> 3, significand = exponent > 0u ? 8u + code % 8u : code;
    uint middle[7];
    for (uint n = 0u; n < 7u; ++n) {
        middle[n] = float_bits(MIDDLES_FP4[n] * max(significand, 1u), int(max(exponent, 1u)) - 12);
    }
    for (uint i = 0u; i < 16u; i += 4u) {
        uint levels = 0u;
        for (uint n = 0u; n < 4u; ++n) {
            uint bits = floatBitsToUint(x[i + n]), level = 0u;
            for (uint m = 0u; m < 7u; ++m) level += middle[m] < (bits & 0x7fffffffu) ? 1u : 0u;
            levels |= (level > 0u ? level | bits >> 31 << 3 : 0u) << 8u * n;
        }
        block_levels[block][4u * group + i / 4u] = significand == 0u ? 0u : levels;
    }
    group_codes[block][group] = code;
    barrier();
    return codes_at(block, 0u, 0u);
}`,
		Pack: `
// Word i of a block of nvfp4.
uint pack_nvfp4(uint i, uint block, uint d) {
    if (i == 0u) return d;
    return pack_nibbles_at(block, (i - 1u) / 2u * 16u + (i - 1u) % 2u * 4u, 8u);
}`,
	},
}
