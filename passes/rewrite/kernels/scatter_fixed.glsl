// These lines add a float to a fixed-point number, relative to the largest exponent of its destination. If that is the
// exponent of inf and NaN, they set flags instead.

uint magnitude = bits[i] & 0x7fffffffu, exponent = magnitude >> 23u, largest = most[slot];
if (largest == 255u) {
    if (exponent == 255u) atomicOr(BINS[at], magnitude > 0x7f800000u ? 4u : bits[i] == magnitude ? 1u : 2u);
} else if (magnitude > 0u) {
    uint number = magnitude & 0x7fffffu | (exponent > 0u ? 0x800000u : 0u);
    int up = int(max(exponent, 1u)) - int(largest) + lowest;
    uvec2 value[1];
    value[0] = uvec2(0u);
    if (up > 0) {
        value[0] = uvec2(number << uint(up), number >> uint(32 - up));
    } else if (up >= -24) {
        value[0].x = up == 0 ? number : number + (1u << uint(-up - 1)) >> uint(-up);
    }
    if (bits[i] != magnitude) value[0] = uvec2(~value[0].x + 1u, ~value[0].y + uint(value[0].x == 0u));
    ADD
}
