package ir

// fp4Blocks hold floats of four bits (E2M1), whose values, doubled, are the codebook, as floats.
var fp4Blocks = map[DType]BlockFormat{
	MXFP4: {
		Name: "mxfp4", Elems: 32, Bytes: 17, GGML: 39, FileType: 38,
		BlockForm: BlockForm{Planes: 2, Stride: 16, Run: 32},
		Parts:     []BlockPart{{0, "scale"}, {1, "quants"}},
		Decode: BlockDecode{
			Scale: `
uint exponent = BYTE(0u);
return uintBitsToFloat(exponent < 2u ? 0x00200000u << exponent : exponent - 1u << 23);`,
			Levels: nibbleLevels(`WORD(1u + e)`)},
		Octets: &BlockOctets{
			Entries: 256, Bytes: 4, Entry: levelsOf, Signed: true,
			Quants: twoPlanes(`WORDS(1u)[e % 16u / 4u]`)},
		Encode: `
const uint MIDDLES_MXFP4[7] = uint[](1u, 3u, 5u, 7u, 10u, 14u, 20u);

// A block of mxfp4: the number of middles between levels that lie below each
// magnitude. The middles are in halves of a level of 1.
void quantize_mxfp4(float x[32], out uint halves[9]) {
    uint exponent = exponent_mxfp4(largest_of(x) & 0x7fffffffu);
    uint middle[7];
    for (uint n = 0u; n < 7u; ++n) middle[n] = float_bits(MIDDLES_MXFP4[n], int(exponent) - 129);
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
}
