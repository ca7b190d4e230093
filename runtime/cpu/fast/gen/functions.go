package main

import (
	"fmt"
	"math"
	"math/big"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// functions generates the mathematical functions of float32 numbers, for one width. Their errors are a few units in the
// last place. The comments of each step name its reduction of the argument and its polynomial.
func (w width) functions() {
	w.primitive("exp", "e^x", 1, func(x, _, _ VecVirtual) { w.exp(x) }, expConstants...)
	w.primitive("exp2", "2^x", 1, func(x, _, _ VecVirtual) { w.exp2(x) })
	w.primitive("expm1", "e^x-1", 1, func(x, _, _ VecVirtual) { w.expm1(x) })
	w.primitive("log", "the natural logarithm of x", 1, func(x, _, _ VecVirtual) { w.log(x, false) })
	w.primitive("log2", "the logarithm of x to base 2", 1, func(x, _, _ VecVirtual) { w.log(x, true) })
	w.primitive("log1p", "the natural logarithm of 1+x", 1, func(x, _, _ VecVirtual) { w.log1p(x) })
	w.primitive("sin", "the sine of x", 1, func(x, _, _ VecVirtual) { w.sine(x, false) })
	w.primitive("cos", "the cosine of x", 1, func(x, _, _ VecVirtual) { w.sine(x, true) })
	w.primitive("atan", "the arc tangent of x", 1, func(x, _, _ VecVirtual) { w.atan(x) })
	w.primitive("tanh", "the hyperbolic tangent of x", 1, func(x, _, _ VecVirtual) { w.tanh(x) })
	w.primitive("erf", "the error function of x", 1, func(x, _, _ VecVirtual) { w.erf(x) })
	w.primitive("logistic", "1/(1+e^-x)", 1, func(x, _, _ VecVirtual) { w.logistic(x) })
	w.primitive("pow", "x to the power of y", 2, func(x, y, _ VecVirtual) { w.pow(x, y) })
}

// constant generates code that returns a new vector of a number.
func (w width) constant(x float32) VecVirtual { return constant(w.vector(), x) }

// bits generates code that returns a new vector of a word.
func (w width) bits(x uint32) VecVirtual { return word(w.vector(), x) }

// compare generates code that compares the elements of a and b, and returns a mask: a vector with AVX2, and a mask
// register with AVX-512.
func (w width) compare(predicate uint64, a, b Op) Op {
	var mask Op = K()
	if w.size == 32 {
		mask = YMM()
	}
	VCMPPS(Imm(predicate), b, a, mask)
	return mask
}

// odd generates code that returns the mask of the odd words of x.
func (w width) odd(x VecVirtual) Op {
	if w.size == 32 {
		mask := YMM()
		VPSLLD(Imm(31), x, mask) // a blend reads the highest bit
		return mask
	}
	mask := K()
	VPTESTMD(w.bits(1), x, mask)
	return mask
}

// compareDoubles generates code that compares float64 elements of a and b, and returns the mask.
func (w width) compareDoubles(predicate uint64, a, b Op) Op {
	var mask Op = K()
	if w.size == 32 {
		mask = YMM()
	}
	VCMPPD(Imm(predicate), b, a, mask)
	return mask
}

// blendDoubles generates code that sets float64 elements of to to yes where the mask is set, and to no elsewhere.
func (w width) blendDoubles(mask, yes, no Op, to VecVirtual) {
	if w.size == 64 {
		VBLENDMPD(yes, no, mask, to)
	} else {
		VBLENDVPD(mask, yes, no, to)
	}
}

// blend generates code that sets each element of to: to yes's element if the mask is set there, and else to no's.
func (w width) blend(mask, yes, no Op, to VecVirtual) {
	if w.size == 64 {
		VBLENDMPS(yes, no, mask, to)
	} else {
		VBLENDVPS(mask, yes, no, to)
	}
}

// round generates code that sets to to the integers nearest to x, of two the even one.
func (w width) round(x Op, to VecVirtual) {
	if w.size == 64 {
		VRNDSCALEPS(Imm(0), x, to)
	} else {
		VROUNDPS(Imm(0), x, to)
	}
}

// roundDouble generates code that replaces float64 numbers by the integers nearest to them.
func (w width) roundDouble(x VecVirtual) {
	if w.size == 64 {
		VRNDSCALEPD(Imm(0), x, x)
	} else {
		VROUNDPD(Imm(0), x, x)
	}
}

// polynomial generates code that returns a polynomial of x. The coefficient of the highest power comes first.
func (w width) polynomial(x VecVirtual, coefficients ...float32) VecVirtual {
	p := w.vector()
	if first := constant(p, coefficients[0]); first != p {
		VMOVAPS(first, p)
	}
	for _, a := range coefficients[1:] {
		VFMADD213PS(w.operand(a), x, p)
	}
	return p
}

// magnitude generates code that returns |x|, and the signs of x in a vector without other bits.
func (w width) magnitude(x VecVirtual) (magnitude, signs VecVirtual) {
	magnitude, signs = w.vector(), w.bits(1<<31)
	VANDNPS(x, signs, magnitude)
	VANDPS(x, signs, signs)
	return magnitude, signs
}

// exp generates code that replaces x by e^x. The error is at most 2 units in the last place.
func (w width) exp(x VecVirtual) {
	VMINPS(x, w.constant(89), x) // NaN stays, as the second source
	w.expBelow(x)
}

// expBelow generates code that replaces x, of at most 89, by e^x. It splits the argument into n*log(2) and a remainder
// (Moshier, Cephes expf.c). With AVX2, elements whose results are 0 become 0 before, and their results afterwards: the
// processor takes long for denormal products.
func (w width) expBelow(x VecVirtual) {
	n := w.vector()
	if w.size == 64 {
		VMAXPS(x, constant(w.vector(), -104), x) // NaN stays, as the second source
	} else {
		tiny := w.compare(less, x, w.operand(-104))
		VANDNPS(x, tiny, x)
		defer func() { VANDNPS(x, tiny, x) }()
	}
	VMULPS(w.operand(math.Log2E), x, n)
	w.round(n, n)
	VFNMADD231PS(w.operand(0.693359375), n, x)
	VFNMADD231PS(w.operand(-2.12194440e-4), n, x)
	w.scaledExp(x, n)
}

// expOfSum generates code that replaces x, of at most 0, by e^x, as a term of a sum that also has the term 1. Terms
// below e^-87 become e^-87: added to 1, that changes nothing in float64. So 2^n is always a normal float32. With AVX2,
// the code rounds to the integer n by adding 1.5*2^23, which leaves n in the lowest bits, and computes parts of the
// polynomial independently of each other.
func (w width) expOfSum(x VecVirtual) {
	if w.size == 64 { // scaling takes one instruction
		w.expBelow(x)
		return
	}
	const shift = 0x1.8p23
	c := expPolynomial
	n, low, a, b, square, sum := w.vector(), w.vector(), w.vector(), w.vector(), w.vector(), w.vector()
	VMAXPS(x, constant(a, -87), x) // NaN stays, as the second source
	VFMADD231PS(w.operand(math.Log2E), x, constant(n, shift))
	VSUBPS(w.operand(shift), n, low)
	VFNMADD231PS(w.operand(0.693359375), low, x)
	VFNMADD231PS(w.operand(-2.12194440e-4), low, x)
	VPSLLD(Imm(23), n, n)
	VPADDD(w.operand(1), n, n)
	VMULPS(x, x, square)
	VFMADD213PS(w.operand(c[2]), x, constant(a, c[1]))
	VFMADD213PS(w.operand(c[4]), x, constant(b, c[3]))
	VADDPS(w.operand(1), x, sum)
	VFMADD231PS(w.operand(c[0]), square, a)
	VFMADD231PS(a, square, b)
	VFMADD231PS(b, square, sum)
	VMULPS(n, sum, x)
}

// exp2 generates code that replaces x by 2^x.
func (w width) exp2(x VecVirtual) {
	n, c := w.vector(), w.vector()
	VMINPS(x, constant(c, 129), x) // NaN stays, as the second source
	VMAXPS(x, constant(c, -151), x)
	w.round(x, n)
	VSUBPS(n, x, x)
	VMULPS(constant(c, math.Ln2), x, x)
	w.scaledExp(x, n)
}

// expPolynomial has the coefficients of e^x. The first ones interpolate (e^x-1-x)/x^2 at Chebyshev nodes, with an
// error of 2^-26. expConstants has all constants of exp.
var (
	expPolynomial = []float32{0.0013926213141530752, 0.008363203145563602, 0.041666556149721146, 0.16666576266288757,
		0.5, 1, 1}
	expConstants = append([]float32{89, -104, math.Log2E, 0.693359375, -2.12194440e-4}, expPolynomial...)
)

// scaledExp generates code that replaces x by 2^n e^x. |x| is at most log(2)/2. It multiplies by 2^n in one
// instruction, or in two steps, so that results at both ends of float32's range are right.
func (w width) scaledExp(x, n VecVirtual) {
	p := w.polynomial(x, expPolynomial...)
	if w.size == 64 {
		VSCALEFPS(n, p, x)
		return
	}
	half, one := w.vector(), w.constant(1)
	VCVTPS2DQ(n, n)
	VPSRAD(Imm(1), n, half) // n is the sum of two halves, whose powers of 2 are in range
	VPSUBD(half, n, n)
	for _, part := range []VecVirtual{half, n} {
		VPSLLD(Imm(23), part, part) // to the exponent; added to 1 it gives the power of 2
		VPADDD(one, part, part)
		VMULPS(part, p, p)
	}
	VMOVAPS(p, x)
}

// expm1 generates code that replaces x by e^x-1. Up to 1/2 it takes the Taylor series, which loses no digits.
func (w width) expm1(x VecVirtual) {
	a, _ := w.magnitude(x)
	far := w.compare(more, a, w.constant(0.5))
	p := w.polynomial(x, 1.0/40320, 1.0/5040, 1.0/720, 1.0/120, 1.0/24, 1.0/6, 0.5)
	VMULPS(x, p, p)
	VMULPS(x, p, p)
	VADDPS(x, p, p) // keeps the sign of 0
	zero := w.compare(equal, a, w.zero())
	w.blend(zero, x, p, p)
	w.exp(x)
	VSUBPS(w.constant(1), x, x)
	w.blend(far, x, p, x)
}

// split generates code that splits positive numbers x into 2^e m, with m from sqrt(1/2) to sqrt(2). It returns m, and e
// as words.
func (w width) split(x VecVirtual) (m, e VecVirtual) {
	m, e = w.vector(), w.vector()
	tiny := w.compare(less, x, w.bits(0x00800000)) // subnormal: multiply by 2^24 before, and subtract 24 from e
	VMULPS(w.constant(1<<24), x, m)
	w.blend(tiny, m, x, m)
	VPSUBD(w.bits(0x3f3504f3), m, e) // the bits of sqrt(1/2)
	VPSRAD(Imm(23), e, e)            // the difference of the exponents
	shifted := w.vector()
	VPSLLD(Imm(23), e, shifted)
	VPSUBD(shifted, m, m)
	low := w.zero()
	w.blend(tiny, w.bits(24), low, low)
	VPSUBD(low, e, e)
	return m, e
}

// log generates code that replaces x by its logarithm, to base e or 2 (Moshier, Cephes logf.c).
func (w width) log(x VecVirtual, base2 bool) {
	f, e := w.split(x)
	VCVTDQ2PS(e, e)
	VSUBPS(w.constant(1), f, f)
	// x is (1+f)*2^e. p approximates log(1+f)-f. Log(2) is the sum of 0.693359375, which has few bits, and of
	// -2.12194440e-4.
	p := w.polynomial(f, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
		-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
	z := w.vector()
	VMULPS(f, f, z)
	VMULPS(f, p, p)
	VMULPS(z, p, p)
	if !base2 {
		VFMADD231PS(w.constant(-2.12194440e-4), e, p)
	}
	VFNMADD231PS(w.constant(0.5), z, p)
	if base2 { // e + (f+p) log2(e), where log2(e) is the sum of 1 and a rest
		rest := w.constant(0.44269504088896340735992)
		y := w.vector()
		VMULPS(rest, p, y)
		VFMADD231PS(rest, f, y)
		VADDPS(p, y, y)
		VADDPS(f, y, y)
		VADDPS(e, y, p)
	} else {
		VADDPS(f, p, p)
		VFMADD231PS(w.constant(0.693359375), e, p)
	}
	w.logOfOthers(x, p)
	VMOVAPS(p, x)
}

// logOfOthers generates code that replaces elements of y: the logarithms of the x that are not positive and finite.
func (w width) logOfOthers(x, y VecVirtual) {
	w.blend(w.compare(notLess, x, w.bits(0x7f800000)), x, y, y) // infinity and NaN
	w.blend(w.compare(equal, x, w.zero()), w.bits(0xff800000), y, y)
	w.blend(w.compare(less, x, w.zero()), w.bits(0x7fc00000), y, y)
}

// log1p generates code that replaces x by log(1+x), which is log(u) + (x-(u-1))/u for the float u nearest to 1+x
// (Goldberg, "What every computer scientist should know about floating-point arithmetic", 1991, theorem 4).
func (w width) log1p(x VecVirtual) {
	one, u, rest := w.constant(1), w.vector(), w.vector()
	VADDPS(one, x, u)
	VSUBPS(one, u, rest)
	VSUBPS(rest, x, rest)
	VDIVPS(u, rest, rest)
	_, signs := w.magnitude(x)
	w.log(u, false)
	// Where log(u) is infinite or NaN, rest may be NaN.
	zero := w.zero()
	w.blend(w.compare(ordered, rest, rest), rest, zero, rest)
	VADDPS(rest, u, x)
	// The result is 0 only for 0, whose sign it keeps.
	w.blend(w.compare(equal, x, zero), signs, x, x)
}

// sine generates code that replaces x by its sine or cosine. The argument is a multiple of pi/2 and a remainder, for
// which Cephes has polynomials (Moshier, sinf.c).
func (w width) sine(x VecVirtual, cosine bool) {
	a, signs := w.magnitude(x)
	r, quadrant := w.reduceHalfPi(a)
	if cosine {
		VPADDD(w.bits(1), quadrant, quadrant) // cos(x) = sin(x + pi/2)
	}
	z := w.vector()
	VMULPS(r, r, z)
	s := w.polynomial(z, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
	VMULPS(z, s, s)
	VFMADD213PS(r, r, s)
	c := w.polynomial(z, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
	VFMADD213PS(w.constant(-0.5), z, c)
	VFMADD213PS(w.constant(1), z, c)
	w.blend(w.odd(quadrant), c, s, x)  // odd quadrants take the cosine of the remainder
	VPSRLD(Imm(1), quadrant, quadrant) // quadrants 2 and 3 are negative
	VPSLLD(Imm(31), quadrant, quadrant)
	VXORPS(quadrant, x, x)
	if !cosine {
		VXORPS(signs, x, x) // the sine is odd, the cosine even
	}
}

// reduceHalfPi generates code that returns r = x - n*pi/2 for positive x, where n is the integer nearest to x*2/pi, and
// quadrant, words with the two lowest bits of n (after Payne and Hanek 1983). It computes in float64. 2/pi is split into
// a number of 29 bits, whose product with x is exact, and a rest. For large x, tables have only the digits of 2/pi that
// change n modulo 4.
func (w width) reduceHalfPi(x VecVirtual) (r, quadrant VecVirtual) {
	hi, lo := turns()
	var highs, lows [2]VecVirtual
	for i := range 2 {
		highs[i], lows[i] = w.vector(), w.vector()
		VBROADCASTSD(hi.Offset(0), highs[i])
		VBROADCASTSD(lo.Offset(0), lows[i])
	}
	mask := GP32()
	large := w.compare(notLess, x, w.constant(1<<26)) // below, the first entry of the tables serves
	if w.size == 64 {
		KMOVW(large, mask)
	} else {
		VMOVMSKPS(large, mask)
	}
	TESTL(mask, mask)
	JZ(LabelRef("small"))
	exponent, base := w.vector(), GP64()
	VPSRLD(Imm(23), x, exponent) // the index in the tables
	for i, part := range w.halves(exponent) {
		for _, table := range []struct {
			from Mem
			to   VecVirtual
		}{{hi, highs[i]}, {lo, lows[i]}} {
			LEAQ(table.from, base)
			at := Mem{Base: base, Index: part, Scale: 8}
			if w.size == 64 {
				all := K()
				KXNORW(all, all, all)
				VGATHERDPD(at, all, table.to)
			} else {
				all := YMM()
				VPCMPEQD(all, all, all)
				VGATHERDPD(all, at, table.to)
			}
		}
	}
	Label("small")
	var rests, multiples [2]VecVirtual
	for i, part := range w.halves(x) {
		d, n := w.vector(), w.vector()
		VCVTPS2PD(part, d)
		VMULPD(d, highs[i], highs[i])
		VMOVAPD(highs[i], n)
		VFMADD231PD(d, lows[i], n)
		w.roundDouble(n)
		VSUBPD(n, highs[i], highs[i])
		VFMADD231PD(d, lows[i], highs[i])
		VMULPD(w.double(math.Pi/2), highs[i], highs[i])
		rests[i], multiples[i] = w.narrow(highs[i]), w.half()
		if w.size == 64 {
			VCVTPD2DQ(n, multiples[i])
		} else {
			VCVTPD2DQY(n, multiples[i])
		}
	}
	return w.join(rests), w.join(multiples)
}

// turns returns tables of 2/pi by the exponent bits of a float. hi has the first 29 bits of the digits that matter for
// that exponent, and lo the rest of these digits. The first entries have all digits.
func turns() (hi, lo Mem) {
	if turnsOf[0].Symbol.Name != "" {
		return turnsOf[0], turnsOf[1]
	}
	const places = 222 // of 2/pi after the point
	digits, _ := new(big.Int).SetString("28be60db9391054a7f09d5f47d4d377036d8a5664f10e4107f9458ea", 16)
	for i, name := range []string{"turnsHigh", "turnsLow"} {
		turnsOf[i] = GLOBL(name, RODATA|NOPTR)
		for exponent := range 256 {
			kept := new(big.Int).Set(digits)
			if skipped := exponent - 152; skipped > 0 { // the others multiply the float's last bit by 4 or more
				kept.And(kept, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(places-skipped)), big.NewInt(1)))
			}
			rest := uint(max(kept.BitLen()-29, 0))
			high := new(big.Int).Lsh(new(big.Int).Rsh(kept, rest), rest)
			if i == 1 {
				high.Sub(kept, high)
			}
			x, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(high), -places).Float64()
			if exponent == 255 {
				x = math.NaN()
			}
			DATA(8*exponent, U64(math.Float64bits(x)))
		}
	}
	return turnsOf[0], turnsOf[1]
}

var turnsOf [2]Mem

// half returns a new vector of half the width.
func (w width) half() VecVirtual {
	if w.size == 64 {
		return YMM()
	}
	return XMM()
}

// halves generates code that returns the two halves of a vector.
func (w width) halves(x VecVirtual) [2]VecVirtual {
	high := w.half()
	if w.size == 64 {
		VEXTRACTF64X4(Imm(1), x, high)
		return [2]VecVirtual{x.AsY().(VecVirtual), high}
	}
	VEXTRACTF128(Imm(1), x, high)
	return [2]VecVirtual{x.AsX().(VecVirtual), high}
}

// join generates code that returns the vector of two halves.
func (w width) join(halves [2]VecVirtual) VecVirtual {
	to := w.vector()
	if w.size == 64 {
		VINSERTF64X4(Imm(1), halves[1], halves[0].AsZ(), to)
	} else {
		VINSERTF128(Imm(1), halves[1], halves[0].AsY(), to)
	}
	return to
}

// narrow generates code that returns float64 numbers as float32.
func (w width) narrow(x VecVirtual) VecVirtual {
	to := w.half()
	if w.size == 64 {
		VCVTPD2PS(x, to)
	} else {
		VCVTPD2PSY(x, to)
	}
	return to
}

// double generates code that returns a new vector of a float64 number.
func (w width) double(x float64) VecVirtual {
	bits := math.Float64bits(x)
	if _, ok := doubleWords[bits]; !ok {
		doubleWords[bits] = ConstData(fmt.Sprintf("d%016x", bits), U64(bits))
	}
	y := w.vector()
	VBROADCASTSD(doubleWords[bits], y)
	return y
}

var doubleWords = map[uint64]Mem{}

// atan generates code that replaces x by its arc tangent, for |x| = t: pi/2 - atan(1/t) for t above 1, and pi/4 +
// atan((t-1)/(t+1)) for t above tan(pi/8). The rest is a polynomial (Moshier, Cephes atanf.c).
func (w width) atan(x VecVirtual) {
	t, signs := w.magnitude(x)
	one, y := w.constant(1), w.vector()
	beyond := w.compare(more, t, one)
	VDIVPS(t, one, y)
	w.blend(beyond, y, t, t)
	far := w.compare(more, t, w.constant(0.41421356))
	below := w.vector()
	VSUBPS(one, t, y)
	VADDPS(one, t, below)
	VDIVPS(below, y, y)
	w.blend(far, y, t, t)
	angle := w.zero()
	w.blend(far, w.constant(math.Pi/4), angle, angle)
	z := w.vector()
	VMULPS(t, t, z)
	p := w.polynomial(z, 8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
	VMULPS(z, p, p)
	VFMADD213PS(t, t, p)
	VADDPS(angle, p, p)
	VSUBPS(p, w.constant(math.Pi/2), y)
	w.blend(beyond, y, p, p)
	VORPS(signs, p, x)
}

// tanh generates code that replaces x by its hyperbolic tangent, near 0 by a polynomial (Moshier, Cephes tanhf.c).
func (w width) tanh(x VecVirtual) {
	a, signs := w.magnitude(x)
	near := w.compare(less, a, w.constant(0.625))
	z := w.vector()
	VMULPS(a, a, z)
	p := w.polynomial(z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
	VMULPS(z, p, p)
	VFMADD213PS(a, a, p)
	// Beyond the polynomial, tanh(a) = 1 - 2/(e^2a + 1).
	VADDPS(a, a, a)
	w.exp(a)
	one := w.constant(1)
	VADDPS(one, a, a)
	VDIVPS(a, w.constant(2), a)
	VSUBPS(a, one, a)
	w.blend(near, p, a, a)
	VORPS(signs, a, x)
}

// logistic generates code that replaces x by 1/(1+e^-x), computed as e^x/(1+e^x) for negative x.
func (w width) logistic(x VecVirtual) {
	t := w.vector()
	VORPS(w.bits(1<<31), x, t)
	w.exp(t)
	one, y := w.constant(1), w.vector()
	w.blend(w.compare(less, x, w.zero()), t, one, y)
	VADDPS(one, t, t)
	VDIVPS(t, y, x)
}

// erf generates code that replaces x by its error function, by two polynomials (after Juffa, "A minimax erff", 2015).
func (w width) erf(x VecVirtual) {
	a, signs := w.magnitude(x)
	far := w.compare(more, a, w.constant(0.92773438))
	z := w.vector()
	VMULPS(a, a, z)
	near := w.polynomial(z, -5.961676e-4, 4.9911942e-3, -2.6768135e-2, 0.11281993, -0.37612534, 0.12837917)
	VFMADD213PS(a, a, near)
	VMINPS(a, w.constant(4), a) // NaN stays
	VMULPS(a, a, z)
	p, q := w.polynomial(a, -1.7285347e-5, 3.8319713e-4), w.polynomial(a, -3.8839644e-3, 2.4254622e-2)
	VFMADD213PS(q, z, p)
	for _, c := range []float32{-0.10677788, -0.63484669, -0.12871751} {
		VFMADD213PS(w.constant(c), a, p)
	}
	VFMSUB213PS(a, a, p)
	w.exp(p)
	VSUBPS(p, w.constant(1), p)
	w.blend(far, p, near, near)
	VORPS(signs, near, x)
}

// pow generates code that replaces x by x^y, as 2^(y log2 |x|) in float64. The logarithm of m is computed as
// log((1+s)/(1-s)).
func (w width) pow(x, y VecVirtual) {
	a, signs := w.magnitude(x)
	m, e := w.split(a)
	VCVTDQ2PS(e, e)
	// The parts of the logarithm of 0, infinity and NaN.
	w.blend(w.compare(notLess, a, w.bits(0x7f800000)), a, e, e)
	w.blend(w.compare(equal, a, w.zero()), w.bits(0xff800000), e, e)
	var results [2]VecVirtual
	mantissas, exponents, powers := w.halves(m), w.halves(e), w.halves(y)
	for i := range results {
		d, s, z, p := w.vector(), w.vector(), w.vector(), w.vector()
		VCVTPS2PD(mantissas[i], d)
		one := w.double(1)
		VSUBPD(one, d, s)
		VADDPD(one, d, d)
		VDIVPD(d, s, s)
		VMULPD(s, s, z)
		p = w.double(2 / math.Ln2 / 13)
		for k := 11; k > 0; k -= 2 {
			VFMADD213PD(w.double(2/math.Ln2/float64(k)), z, p)
		}
		VCVTPS2PD(exponents[i], d)
		VFMADD213PD(d, s, p)
		VCVTPS2PD(powers[i], d)
		VMULPD(d, p, p)
		VMINPD(p, w.double(200), p) // NaN stays
		VMAXPD(p, w.double(-200), p)
		VMOVAPD(p, d)
		w.roundDouble(d)
		VSUBPD(d, p, p)
		VMULPD(w.double(math.Ln2), p, p)
		result, factorial := w.double(1.0/40320), 40320.0
		for k := 8; k > 0; k-- {
			factorial /= float64(k)
			VFMADD213PD(w.double(1/factorial), p, result)
		}
		whole := w.half()
		if w.size == 64 {
			VCVTPD2DQ(d, whole)
		} else {
			VCVTPD2DQY(d, whole)
		}
		VPMOVSXDQ(whole, d)
		VPSLLQ(Imm(52), d, d)
		VPADDQ(d, result, result)
		results[i] = w.narrow(result)
	}
	result := w.join(results)
	one := w.constant(1)
	w.blend(w.compare(equal, a, one), one, result, result)
	w.signOfPower(x, y, signs, result)
	// The results that are 1 for any number y or x, also for NaN.
	w.blend(w.compare(equal, x, one), one, result, result)
	w.blend(w.compare(equal, y, w.zero()), one, result, x)
}

// signOfPower generates code that makes |x|^y the power of negative x. If x is finite and not 0, y must be an integer.
func (w width) signOfPower(x, y, signs, result VecVirtual) {
	whole, word := w.vector(), w.vector()
	w.round(y, whole)
	VCVTPS2DQ(y, word) // 1<<31 if y is too large for a word; such y are even
	zero, fraction := w.zero(), w.compare(differ, whole, y)
	w.blend(w.odd(word), signs, zero, signs)
	w.blend(fraction, zero, signs, signs)
	VXORPS(signs, result, result)
	undefined := w.vector()
	w.blend(fraction, w.bits(0x7fc00000), result, undefined)
	w.blend(w.compare(less, x, zero), undefined, result, undefined)
	w.blend(w.compare(equal, x, w.bits(0xff800000)), result, undefined, result)
}
