package lib

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// storedLibrary has the conversions of dtypes in which no op computes: between f32 and float dtypes, and from floats to
// integer dtypes. Each function is made from the row of its dtype in the table of [ir.DTypes].
var storedLibrary = func() (list []Helper) {
	for _, t := range ir.DTypes() {
		switch {
		case !t.StorageOnly(): // the .glsl files have its conversions
		case t.Float().Exponents:
			list = append(list, Helper{"f8e8m0_to_f32", f32Only, exponentToFloat},
				Helper{"f32_to_f8e8m0", f32Only, floatToExponent}, rounded(t))
		case t.IsFloat():
			list = append(list, Helper{t.String() + "_to_f32", f32Only, fillFormat(codeToFloat, t)},
				Helper{"f32_to_" + t.String(), f32Only, fillFormat(floatToCode, t)}, rounded(t))
		default:
			list = append(list, toInteger(t))
		}
	}
	return list
}()

// rounded returns the function that rounds to the precision of a float dtype.
func rounded(t ir.DType) Helper {
	return Helper{"round_" + t.String(), f32Only, strings.ReplaceAll(`
// Rounds to the precision of NAME.
float round_NAME(float x) {
    return NAME_to_f32(f32_to_NAME(x));
}`, "NAME", t.String())}
}

// toInteger returns the function that converts floats to a small integer dtype.
func toInteger(t ir.DType) Helper {
	lo, hi := ir.IntRange(t)
	typ, suffix := "int", ""
	if t.Kind() == ir.KindUint {
		typ, suffix = "uint", "u"
	}
	return Helper{"float_to_" + t.String(), floats, fmt.Sprintf(`
// Truncates and saturates; NaN gives 0.
%[1]s float_to_%[2]s(TYPE x) {
    return isnan(x) ? 0%[3]s : %[1]s(clamp(x, %[4]d.0, %[5]d.0));
}`, typ, t, suffix, lo, hi)}
}

const codeToFloat = `
// BITS-bit float: MANTISSA mantissa bits, no infinities.
float NAME_to_f32(uint bits) {
    uint magnitude = bits & MASK, small = floatBitsToUint(float(magnitude) * STEP);
    uint x = mix((magnitude << SHIFT) + LEAST, small, magnitude < NORMALu);
    return uintBitsToFloat(RESULT);
}`

const floatToCode = `
// Rounds to nearest even and saturates. It works on bits, because some drivers leave out abs around an inversesqrt.
uint f32_to_NAME(float x) {
    uint bits = min(floatBitsToUint(x) & 0x7fffffffu, LARGEST);
    float a = uintBitsToFloat(bits);
    uint rounded = (bits + HALF + (bits >> SHIFT & 1u) >> SHIFT) - BIAS;
    rounded = mix(rounded, uint(roundEven(min(a, 1.0) * SCALE)), a < SMALLEST);
    return mix(CODE, NANCODE, isnan(x));
}`

// fillFormat replaces the words in capitals in codeToFloat or floatToCode by the numbers of a float dtype of up to 8
// bits. A dtype has f.Mantissa mantissa bits, and 2^f.Least is its smallest normal number.
func fillFormat(source string, t ir.DType) string {
	f := t.Float()
	hex := func(n uint32) string { return fmt.Sprintf("%#xu", n) }
	number := func(exponent int) string { // 2^exponent
		text := strconv.FormatFloat(math.Ldexp(1, exponent), 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	sign := uint32(1) << (t.Bits() - 1)
	shift := 23 - f.Mantissa // an f32 has 23 mantissa bits
	toSign := fmt.Sprintf("(bits & %s) << %d", hex(sign), 32-t.Bits())
	result, code := "x | "+toSign, fmt.Sprintf("rounded | floatBitsToUint(x) >> %d & %s", 32-t.Bits(), hex(sign))
	if t.Bits() == 8 { // the code of -0 is NaN
		result = fmt.Sprintf("mix(x | %s, 0x7fc00000u, bits == %s)", toSign, hex(sign))
		code = fmt.Sprintf("mix(%s, 0u, rounded == 0u)", code)
	}
	return strings.NewReplacer("NAME", t.String(), "BITS", fmt.Sprint(t.Bits()), "MANTISSA", fmt.Sprint(f.Mantissa),
		"MASK", hex(sign-1), "STEP", number(f.Least-f.Mantissa), "SHIFT", fmt.Sprint(shift),
		"LEAST", hex(uint32(127+f.Least-1)<<23), "NORMAL", fmt.Sprint(1<<f.Mantissa), "RESULT", result,
		"LARGEST", hex(math.Float32bits(float32(f.Largest))), "HALF", hex(1<<(shift-1)-1),
		"BIAS", fmt.Sprintf("%du", (127+f.Least-1)<<f.Mantissa), "SCALE", number(f.Mantissa-f.Least),
		"SMALLEST", number(f.Least), "NANCODE", hex(uint32(f.NaN)), "CODE", code).Replace(source)
}

const exponentToFloat = `
// A power of two from 2^-127 to 2^127, or NaN.
float f8e8m0_to_f32(uint bits) {
    return uintBitsToFloat(bits == 0u ? 0x400000u : bits == 255u ? 0x7fc00000u : bits << 23);
}`

const floatToExponent = `
// The nearest power of two. A tie is rounded up, and numbers below the range give the smallest one.
uint f32_to_f8e8m0(float x) {
    uint bits = floatBitsToUint(x), nearest = min(bits + 0x400000u >> 23, 254u);
    nearest = bits >= 0x600000u && bits < 0x80000000u ? nearest : 0u;
    return isnan(x) ? 255u : nearest;
}`
