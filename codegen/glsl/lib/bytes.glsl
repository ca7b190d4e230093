// Conversions of bytes, f16 halves and bits of words to numbers, for decoders of blocks.

#pragma types float

// Four bytes as floats. A byte becomes the last bits of a half from 1024 to 1279, because conversions of integers are
// slower.
vec4 bytes_unsigned(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1024.0;
}

// Four bytes as floats, each times 2^-24: a half with a byte in its last bits and zeros before it has this value.
vec4 bytes_subnormal(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu);
    return vec4(even.x, odd.x, even.y, odd.y);
}

// The two 16-bit numbers of a word as floats.
vec2 shorts_unsigned(uint shorts) {
    return vec2(shorts & 0xffffu, shorts >> 16);
}

// Four signed bytes as floats. The bytes plus 128 are converted as unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}

// Eight bytes as halves. A byte becomes the last bits of a half from 1024 to 1279; above is subtracted from that. Of
// each four bytes, the even ones come before the odd ones.
uvec4 halves_of_bytes(uvec2 bytes, float16_t above) {
    uvec4 halves = uvec4(bytes & 0x00ff00ffu, bytes >> 8 & 0x00ff00ffu).xzyw | 0x64006400u;
    return uvec4(packFloat2x16(unpackFloat2x16(halves.x) - above), packFloat2x16(unpackFloat2x16(halves.y) - above),
        packFloat2x16(unpackFloat2x16(halves.z) - above), packFloat2x16(unpackFloat2x16(halves.w) - above));
}

// Eight floats as halves.
uvec4 pack_halves(vec4 low, vec4 high) {
    return uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
}

#pragma types ivec4

// The low bytes of four integers as a word, the first in the lowest byte.
uint pack_bytes(ivec4 v) {
    uvec4 bytes = uvec4(v) & 0xffu;
    return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}

#pragma types float

// sum plus the dot product of a and b, term by term, each with its own multiplication.
float dot_onto(float sum, vec4 a, vec4 b) {
    return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

// Each element times steps, rounded to the nearest integer from -127 to 127, as a byte: a sum with 3 * 2^22 has the
// integer in its last bits. The multiplication is rounded by itself first, as everywhere.
uint round_bytes(vec4 v, float steps) {
    precise vec4 scaled = v * steps;
    uvec4 bits = floatBitsToUint(scaled + 12582912.0);
    return bits.x & 0xffu | (bits.y & 0xffu) << 8 | (bits.z & 0xffu) << 16 | bits.w << 24;
}

// The factor for rounding a group to bytes, given the bits of its largest magnitude: about 127 divided by that
// magnitude, but 0 if it is below 2^-118 or not finite. Only quotients of integers are the same on all devices.
float byte_steps(uint top) {
    uint quotient = 0xfe000000u / (top >> 8 & 0x7fffu | 0x8000u);
    uint steps = floatBitsToUint(float(quotient)) + (0x3a800000u - (top & 0x7f800000u));
    return top - 0x04800000u < 0x7b000000u ? uintBitsToFloat(steps) : 0.0;
}

// Numbers below 2^22 as signed digits in base 256, the last digit in the lowest byte: a sum with 3 * 2^22 has the
// nearest integer in its last bits. Infinity counts as 2^22.
uvec4 digits_of(vec4 v) {
    uvec4 bits = floatBitsToUint(max(v, -4194304.0) + 12582912.0);
    return bits - 0x4abf7f80u ^ 0x808080u;
}

#pragma types int uint

// The dot product of two words of four bytes each.
TYPE dot_bytes(TYPE a, TYPE b) {
    return bitfieldExtract(a, 0, 8) * bitfieldExtract(b, 0, 8) + bitfieldExtract(a, 8, 8) * bitfieldExtract(b, 8, 8) +
        bitfieldExtract(a, 16, 8) * bitfieldExtract(b, 16, 8) + bitfieldExtract(a, 24, 8) * bitfieldExtract(b, 24, 8);
}

#pragma types float

// Bit i of the low four bits becomes byte i, as 0 or 1.
uint spread_bits(uint bits) {
    return (bits & 15u) * 0x204081u & 0x01010101u;
}

// Negates byte i, which is not 0, if bit i of signs is set.
uint negate_bytes(uint bytes, uint signs) {
    uint negative = spread_bits(signs);
    return (bytes ^ negative * 255u) + negative;
}

// The signs of eight elements, given seven of them: the number of set bits is even.
uint even_signs(uint seven) {
    return seven | (uint(bitCount(seven)) & 1u) << 7;
}

// The high byte of each byte times a factor up to 255.
uvec2 high_bytes(uvec2 bytes, uvec2 factor) {
    uvec2 even = (bytes & 0x00ff00ffu) * factor;
    uvec2 odd = (bytes >> 8 & 0x00ff00ffu) * factor;
    return (even >> 8 & 0x00ff00ffu) | (odd & 0xff00ff00u);
}

// Four signed bytes plus 128, as floats times 2^-24.
vec4 bytes_above_subnormal(uint bytes) {
    return bytes_subnormal(bytes ^ 0x80808080u);
}

// The 6-bit scale and minimum of group g of 8 in q4_K and q5_K. Groups 4 to 7 have their low bits in the last word, and
// their high bits above the scales and minima of the others in the first two words.
uvec2 scale_min_k4(uvec3 packed, uint g) {
    packed >>= g % 4u * 8u;
    uvec2 low = uvec2(packed.z & 15u, packed.z >> 4 & 15u);
    return mix(low | packed.xy >> 2 & 48u, packed.xy & 63u, bvec2(g < 4u));
}
