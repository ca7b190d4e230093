package lib

// byteLibrary converts bytes, f16 halves and bits of words to numbers, for decoders of blocks.
var byteLibrary = []Helper{
	{"bytes_unsigned", f32Only, `
// Four bytes as floats, by way of the halves from 1024 to 1279, whose last bits
// are a byte: conversions of integers are slower.
vec4 bytes_unsigned(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1024.0;
}`},
	{"bytes_subnormal", f32Only, `
// Four bytes as floats of 2^-24 each: the halves that are a byte in the last
// bits and zeros before it.
vec4 bytes_subnormal(uint bytes) {
    vec2 even = unpackHalf2x16(bytes & 0x00ff00ffu);
    vec2 odd = unpackHalf2x16(bytes >> 8 & 0x00ff00ffu);
    return vec4(even.x, odd.x, even.y, odd.y);
}`},
	{"shorts_unsigned", f32Only, `
// Both halves of a word as floats.
vec2 shorts_unsigned(uint shorts) {
    return vec2(shorts & 0xffffu, shorts >> 16);
}`},
	{"bytes_signed", f32Only, `
// Four signed bytes as floats: 128 more than each is unsigned.
vec4 bytes_signed(uint bytes) {
    uint above = bytes ^ 0x80808080u;
    vec2 even = unpackHalf2x16(above & 0x00ff00ffu | 0x64006400u);
    vec2 odd = unpackHalf2x16(above >> 8 & 0x00ff00ffu | 0x64006400u);
    return vec4(even.x, odd.x, even.y, odd.y) - 1152.0;
}`},
	{"halves_of_bytes", f32Only, `
// Eight bytes as halves, by way of those from 1024 to 1279, less what is above
// what they stand for; the even ones of four come before the odd ones.
uvec4 halves_of_bytes(uvec2 bytes, float16_t above) {
    uvec4 halves = uvec4(bytes & 0x00ff00ffu, bytes >> 8 & 0x00ff00ffu).xzyw | 0x64006400u;
    return uvec4(packFloat2x16(unpackFloat2x16(halves.x) - above), packFloat2x16(unpackFloat2x16(halves.y) - above),
        packFloat2x16(unpackFloat2x16(halves.z) - above), packFloat2x16(unpackFloat2x16(halves.w) - above));
}`},
	{"pack_halves", f32Only, `
// Eight floats as halves.
uvec4 pack_halves(vec4 low, vec4 high) {
    return uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
}`},
	{"pack_bytes", []string{"ivec4"}, `
// The low byte of each, the first lowest.
uint pack_bytes(ivec4 v) {
    uvec4 bytes = uvec4(v) & 0xffu;
    return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}`},
	{"dot_onto", f32Only, `
// The products of a and b added to a sum one by one, each with a multiplication.
float dot_onto(float sum, vec4 a, vec4 b) {
    return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}`},
	{"round_bytes", f32Only, `
// Each times steps, from -127 to 127, rounded to the nearest integer, as a byte: the sum with 3 * 2^22 has it in its
// last bits. The product is rounded by itself first, as everywhere.
uint round_bytes(vec4 v, float steps) {
    precise vec4 scaled = v * steps;
    uvec4 bits = floatBitsToUint(scaled + 12582912.0);
    return bits.x & 0xffu | (bits.y & 0xffu) << 8 | (bits.z & 0xffu) << 16 | bits.w << 24;
}`},
	{"byte_steps", f32Only, `
// What a group is multiplied by before it is rounded to bytes, of the bits of its largest magnitude: about 127 over
// that, but 0 below 2^-118 and of what is not finite. Only quotients of integers are the same on all devices.
float byte_steps(uint top) {
    uint quotient = 0xfe000000u / (top >> 8 & 0x7fffu | 0x8000u);
    uint steps = floatBitsToUint(float(quotient)) + (0x3a800000u - (top & 0x7f800000u));
    return top - 0x04800000u < 0x7b000000u ? uintBitsToFloat(steps) : 0.0;
}`},
	{"digits_of", f32Only, `
// Numbers below 2^22 as signed digits to the base 256, the last digit in the lowest byte: the sum with 3 * 2^22 has the
// nearest integer in its last bits. Infinity counts as 2^22.
uvec4 digits_of(vec4 v) {
    uvec4 bits = floatBitsToUint(max(v, -4194304.0) + 12582912.0);
    return bits - 0x4abf7f80u ^ 0x808080u;
}`},
	{"dot_bytes", []string{"int", "uint"}, `
// The products of the bytes of two words, added up.
TYPE dot_bytes(TYPE a, TYPE b) {
    return bitfieldExtract(a, 0, 8) * bitfieldExtract(b, 0, 8) + bitfieldExtract(a, 8, 8) * bitfieldExtract(b, 8, 8) +
        bitfieldExtract(a, 16, 8) * bitfieldExtract(b, 16, 8) + bitfieldExtract(a, 24, 8) * bitfieldExtract(b, 24, 8);
}`},
	{"spread_bits", f32Only, `
// Bit i of the low four bits as byte i.
uint spread_bits(uint bits) {
    return (bits & 15u) * 0x204081u & 0x01010101u;
}`},
	{"negate_bytes", f32Only, `
// Changes the sign of byte i, which is not 0, where bit i of signs is set.
uint negate_bytes(uint bytes, uint signs) {
    uint negative = spread_bits(signs);
    return (bytes ^ negative * 255u) + negative;
}`},
	{"even_signs", f32Only, `
// The signs of eight elements from those of seven: an even number is set.
uint even_signs(uint seven) {
    return seven | (uint(bitCount(seven)) & 1u) << 7;
}`},
	{"high_bytes", f32Only, `
// The products of each byte with a factor up to 255, less their low bytes.
uvec2 high_bytes(uvec2 bytes, uvec2 factor) {
    uvec2 even = (bytes & 0x00ff00ffu) * factor;
    uvec2 odd = (bytes >> 8 & 0x00ff00ffu) * factor;
    return (even >> 8 & 0x00ff00ffu) | (odd & 0xff00ff00u);
}`},
	{"bytes_above_subnormal", f32Only, `
// Four signed bytes, and 128 more than each, as floats of 2^-24.
vec4 bytes_above_subnormal(uint bytes) {
    return bytes_subnormal(bytes ^ 0x80808080u);
}`},
	{"scale_min_k4", f32Only, `
// The 6-bit scale and minimum of group g of 8 in q4_K and q5_K. Groups 4 to 7
// have their low bits in the last word, the others on top of the first two.
uvec2 scale_min_k4(uvec3 packed, uint g) {
    packed >>= g % 4u * 8u;
    uvec2 low = uvec2(packed.z & 15u, packed.z >> 4 & 15u);
    return mix(low | packed.xy >> 2 & 48u, packed.xy & 63u, bvec2(g < 4u));
}`},
}
