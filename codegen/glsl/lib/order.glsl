// Comparisons of numbers in the order that the ops define.

#pragma types float

// An integer with the order of floats: -0 equals 0, and NaN is after all others.
uint float_order(float x) {
    uint bits = floatBitsToUint(x), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0xffffffffu;
    return magnitude == 0u || bits == magnitude ? magnitude | 0x80000000u : ~bits;
}

#pragma types float double

// Whether a at place i comes before b at place j. NaN is largest; the first of equal numbers comes first.
bool argmax_beats(TYPE a, int i, TYPE b, int j) {
    if (isnan(a)) return !isnan(b) || i < j;
    return a > b || a == b && i < j;
}

// Whether a at place i comes before b at place j. NaN is smallest; the first of equal numbers comes first.
bool argmin_beats(TYPE a, int i, TYPE b, int j) {
    if (isnan(a)) return !isnan(b) || i < j;
    return a < b || a == b && i < j;
}

#pragma types int uint int64_t

// Whether a at place i comes before b at place j. The first of equal numbers comes first.
bool argmax_beats_int(TYPE a, int i, TYPE b, int j) {
    return a > b || a == b && i < j;
}

// Whether a at place i comes before b at place j. The first of equal numbers comes first.
bool argmin_beats_int(TYPE a, int i, TYPE b, int j) {
    return a < b || a == b && i < j;
}
