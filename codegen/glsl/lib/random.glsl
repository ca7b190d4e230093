// The words of random streams.

#pragma types int64_t

// The low and the high word of a number.
uvec2 halves_of_i64(int64_t x) {
    return uvec2(uint(x), uint(x >> 32));
}

#pragma types uint

// Four random words: block offset + block of the stream of a seed, by
// Philox-4x32 with 10 rounds (Salmon et al. 2011).
uvec4 random_block(uvec2 seed, uvec2 offset, uint block) {
    uint carry, high, low, high2, low2;
    uvec4 words = uvec4(uaddCarry(offset.x, block, carry), 0u, 0u, 0u);
    words.y = offset.y + carry;
    for (int i = 0; i < 10; ++i) {
        umulExtended(0xd2511f53u, words.x, high, low);
        umulExtended(0xcd9e8d57u, words.z, high2, low2);
        words = uvec4(high2 ^ words.y ^ seed.x, low2, high ^ words.w ^ seed.y, low);
        seed += uvec2(0x9e3779b9u, 0xbb67ae85u);
    }
    return words;
}

// The random word of one element.
uint random_word(uvec2 seed, uvec2 offset, uint element) {
    return random_block(seed, offset, element / 4u)[element % 4u];
}
