package lib

// orderLibrary compares numbers in the order that the ops define.
var orderLibrary = []Helper{
	{"float_order", f32Only, `
// An integer with the order of floats: -0 equals 0, and NaN is after all others.
uint float_order(float x) {
    uint bits = floatBitsToUint(x), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0xffffffffu;
    return magnitude == 0u || bits == magnitude ? magnitude | 0x80000000u : ~bits;
}`},
	{"argmax_beats", floats, `
// Whether a at place i comes before b at place j. NaN is largest; the first of equal numbers comes first.
bool argmax_beats(TYPE a, int i, TYPE b, int j) {
    if (isnan(a)) return !isnan(b) || i < j;
    return a > b || a == b && i < j;
}`},
	{"argmin_beats", floats, `
// Whether a at place i comes before b at place j. NaN is smallest; the first of equal numbers comes first.
bool argmin_beats(TYPE a, int i, TYPE b, int j) {
    if (isnan(a)) return !isnan(b) || i < j;
    return a < b || a == b && i < j;
}`},
	{"argmax_beats_int", []string{"int", "uint", "int64_t"}, `
// Whether a at place i comes before b at place j. The first of equal numbers comes first.
bool argmax_beats_int(TYPE a, int i, TYPE b, int j) {
    return a > b || a == b && i < j;
}`},
	{"argmin_beats_int", []string{"int", "uint", "int64_t"}, `
// Whether a at place i comes before b at place j. The first of equal numbers comes first.
bool argmin_beats_int(TYPE a, int i, TYPE b, int j) {
    return a < b || a == b && i < j;
}`},
}
