package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// doubleFunctions generates the mathematical functions of float64 numbers, for one width. Their errors are at most 2
// units in the last place. Each polynomial interpolates the function in its comment at Chebyshev nodes, with an error
// below 2^-55.
func (w width) doubleFunctions() {
	of := func(name, what string, args int, body func(x, y, z VecVirtual)) {
		w.primitiveOf(8, name+"Doubles", what, args, body)
	}
	of("exp", "e^x", 1, func(x, _, _ VecVirtual) { w.expDouble(x) })
	of("exp2", "2^x", 1, func(x, _, _ VecVirtual) { w.exp2Double(x, nil) })
	of("expm1", "e^x-1", 1, func(x, _, _ VecVirtual) { w.expm1Double(x) })
	of("log", "the natural logarithm of x", 1, func(x, _, _ VecVirtual) { w.logDouble(x, false) })
	of("log2", "the logarithm of x to base 2", 1, func(x, _, _ VecVirtual) { w.logDouble(x, true) })
	of("log1p", "the natural logarithm of 1+x", 1, func(x, _, _ VecVirtual) { w.log1pDouble(x) })
	of("sin", "the sine of x, for |x| up to 1<<20", 1, func(x, _, _ VecVirtual) { w.sineDouble(x, false) })
	of("cos", "the cosine of x, for |x| up to 1<<20", 1, func(x, _, _ VecVirtual) { w.sineDouble(x, true) })
	of("atan", "the arc tangent of x", 1, func(x, _, _ VecVirtual) { w.atanDouble(x) })
	of("tanh", "the hyperbolic tangent of x", 1, func(x, _, _ VecVirtual) { w.tanhDouble(x) })
	of("erf", "the error function of x", 1, func(x, _, _ VecVirtual) { w.erfDouble(x) })
	of("logistic", "1/(1+e^-x)", 1, func(x, _, _ VecVirtual) { w.logisticDouble(x) })
	of("pow", "x to the power of y", 2, func(x, y, _ VecVirtual) { w.powDouble(x, y) })
}

// long generates code that returns a new vector of a 64-bit word.
func (w width) long(bits uint64) VecVirtual { return w.double(math.Float64frombits(bits)) }

// doublePolynomial generates code that returns a polynomial of x. The coefficient of the highest power comes first.
func (w width) doublePolynomial(x VecVirtual, coefficients ...float64) VecVirtual {
	p := w.double(coefficients[0])
	for _, a := range coefficients[1:] {
		VFMADD213PD(w.doubleOperand(a), x, p)
	}
	return p
}

// doubleMagnitude generates code that returns |x|, and the signs of x in a vector without other bits.
func (w width) doubleMagnitude(x VecVirtual) (magnitude, signs VecVirtual) {
	magnitude, signs = w.vector(), w.long(1<<63)
	VANDNPD(x, signs, magnitude)
	VANDPD(x, signs, signs)
	return magnitude, signs
}

// nearestDouble generates code that returns the integers nearest to x.
func (w width) nearestDouble(x VecVirtual) VecVirtual {
	n := w.vector()
	VMOVAPD(x, n)
	w.roundDouble(n)
	return n
}

// log(2) in two parts. The first has zeros in its lowest bits, so that its product with an exponent is exact.
const ln2High, ln2Low = 0.6931471803691238, 1.9082149292705877e-10

// log2E is 1/log(2) as the sum of two numbers.
var log2E = [2]float64{1.4426950408889634, 2.0355273740931033e-17}

// expCoefficients are those of (e^r-1-r)/r^2 for |r| up to log(2)/2.
var expCoefficients = []float64{2.09147553258932e-09, 2.5105312729622103e-08, 2.755727347871858e-07,
	2.755725517000089e-06, 2.480158732567746e-05, 0.0001984126987500228, 0.0013888888888883711, 0.008333333333326084,
	0.04166666666666667, 0.1666666666666667, 0.5}

// remainderOfLn2 generates code that replaces x by its remainder from the nearest multiple of log(2), and returns the
// multiple. It limits x to lo and hi.
func (w width) remainderOfLn2(x VecVirtual, lo, hi float64) (n VecVirtual) {
	n = w.vector()
	w.limitDouble(x, lo, hi)
	VMULPD(w.doubleOperand(math.Log2E), x, n)
	w.roundDouble(n)
	VFNMADD231PD(w.doubleOperand(ln2High), n, x)
	VFNMADD231PD(w.doubleOperand(ln2Low), n, x)
	return n
}

// expDoubleConstants has the constants of expDouble.
var expDoubleConstants = append([]float64{-746, 710, -707, math.Log2E, ln2High, ln2Low, 1}, expCoefficients...)

// expOfSumDouble is expOfSum for float64 numbers: terms below e^-707 become that one.
func (w width) expOfSumDouble(x VecVirtual) {
	if w.size == 64 {
		w.expDouble(x)
		return
	}
	VMAXPD(x, w.double(-normalPower), x) // NaN stays, as the second source
	w.normalExpDouble(x)
}

// normalPower bounds the magnitudes of x for which e^x is a normal float64 number.
const normalPower = 707

// normalExpDouble generates code with AVX2 that replaces x by e^x, for magnitudes of at most normalPower. It works as
// expOfSum does.
func (w width) normalExpDouble(x VecVirtual) {
	const shift = 0x1.8p52
	n, low := w.double(shift), w.vector()
	VFMADD231PD(w.doubleOperand(math.Log2E), x, n)
	VSUBPD(w.doubleOperand(shift), n, low)
	VFNMADD231PD(w.doubleOperand(ln2High), low, x)
	VFNMADD231PD(w.doubleOperand(ln2Low), low, x)
	VPSLLQ(Imm(52), n, n)
	VPADDQ(w.doubleOperand(1), n, n)
	VMULPD(n, w.expOfRemainder(x), x)
}

// expOfRemainder generates code that returns e^x for |x| up to log(2)/2. With AVX2 the schedulers hold too few
// instructions for the chain of Horner's scheme. Estrin's has more instructions and a third of the chain.
func (w width) expOfRemainder(x VecVirtual) VecVirtual {
	if w.size == 64 {
		return w.doublePolynomial(x, append(expCoefficients, 1, 1)...)
	}
	square, fourth := w.vector(), w.vector()
	VMULPD(x, x, square)
	VMULPD(square, square, fourth)
	// Pairs of coefficients, and then pairs of pairs, from the highest power on.
	pair := func(high, low float64) VecVirtual {
		p := w.double(high)
		VFMADD213PD(w.doubleOperand(low), x, p)
		return p
	}
	c := expCoefficients
	p, q, r := w.double(c[0]), pair(c[3], c[4]), pair(c[7], c[8])
	VFMADD213PD(pair(c[1], c[2]), square, p)
	VFMADD213PD(pair(c[5], c[6]), square, q)
	VFMADD213PD(pair(c[9], c[10]), square, r)
	VFMADD213PD(q, fourth, p)
	VFMADD213PD(r, fourth, p)
	VFMADD213PD(x, square, p)
	VADDPD(w.doubleOperand(1), p, p)
	return p
}

// expDouble generates code that replaces x by e^x. With AVX2, scaling takes 12 instructions if results may be denormal
// or infinite. Most vectors have no such results, so they take a shorter way. Elements whose results are 0 become 0
// before, and their results afterwards: the processor takes long for denormal products, and masks mix -inf with other
// elements.
func (w width) expDouble(x VecVirtual) {
	if w.size == 64 {
		w.scaledExpDouble(x, w.remainderOfLn2(x, -746, 710))
		return
	}
	branches++
	others, done := fmt.Sprintf("others%d", branches), fmt.Sprintf("exps%d", branches)
	tiny, size, signs := w.vector(), w.vector(), GP32()
	VCMPPD(Imm(less), w.doubleOperand(-746), x, tiny)
	VANDNPD(x, tiny, x)
	VANDPD(w.doubleOperand(math.Float64frombits(1<<63-1)), x, size)
	VCMPPD(Imm(notAtMost), w.doubleOperand(normalPower), size, size)
	VMOVMSKPD(size, signs)
	TESTL(signs, signs)
	JNZ(LabelRef(others))
	w.normalExpDouble(x)
	JMP(LabelRef(done))
	Label(others)
	w.scaledExpDouble(x, w.remainderOfLn2(x, -746, 710))
	Label(done)
	VANDNPD(x, tiny, x)
}

// branches counts the branches in exponentials, for names of labels.
var branches int

// limitDouble generates code that limits x to lo and hi. NaN stays, because VMINPD and VMAXPD then return the operand
// that is first here and second in Intel's order.
func (w width) limitDouble(x VecVirtual, lo, hi float64) {
	limit := func(to float64) VecVirtual {
		if y := keptDoubles[math.Float64bits(to)]; y != nil {
			return y
		}
		return w.double(to)
	}
	VMINPD(x, limit(hi), x)
	VMAXPD(x, limit(lo), x)
}

// exp2Double generates code that replaces x by 2^(x+rest); rest is small or nil. It computes 2^n e^(log(2) (x-n+rest))
// for the integer n nearest to x.
func (w width) exp2Double(x, rest VecVirtual) {
	w.limitDouble(x, -1100, 1100) // beyond that the result is 0 or infinite anyway
	n := w.nearestDouble(x)
	VSUBPD(n, x, x)
	if rest != nil {
		VADDPD(rest, x, x)
	}
	VMULPD(w.double(math.Ln2), x, x)
	w.scaledExpDouble(x, n)
}

// scaledExpDouble generates code that replaces x by 2^n e^x. |x| is at most log(2)/2. It multiplies by 2^n in one
// instruction, or in two steps, so that results at both ends of float64's range are right.
func (w width) scaledExpDouble(x, n VecVirtual) {
	p := w.expOfRemainder(x)
	if w.size == 64 {
		VSCALEFPD(n, p, x)
		return
	}
	half := w.vector()
	VCVTPD2DQY(n, n.AsX())
	VPSRAD(Imm(1), n.AsX(), half.AsX()) // n is the sum of two halves, whose powers of 2 are in range
	VPSUBD(half.AsX(), n.AsX(), n.AsX())
	for _, part := range []VecVirtual{half, n} {
		VPMOVSXDQ(part.AsX(), part)
		VPSLLQ(Imm(52), part, part) // to the exponent; added to 1 it gives the power of 2
		VPADDQ(w.doubleOperand(1), part, part)
		VMULPD(part, p, p)
	}
	VMOVAPD(p, x)
}

// expm1Double generates code that replaces x by e^x-1 = 2^n (e^r-1) + (2^n-1), for the remainder r of x from n log(2).
// It computes half of the result, because 2^n overflows if n is 1024.
func (w width) expm1Double(x VecVirtual) {
	old := w.vector()
	VMOVAPD(x, old)
	n := w.remainderOfLn2(x, -60, 710)
	p := w.doublePolynomial(x, expCoefficients...)
	VMULPD(x, p, p)
	VFMADD213PD(x, x, p)
	power := w.half()
	if w.size == 64 {
		VCVTPD2DQ(n, power)
	} else {
		VCVTPD2DQY(n, power)
	}
	VPMOVSXDQ(power, n)
	VPSLLQ(Imm(52), n, n)
	VPADDQ(w.double(0.5), n, n)
	y := w.vector()
	VSUBPD(w.double(0.5), n, y)
	VFMADD231PD(n, p, y)
	VADDPD(y, y, y)
	a, _ := w.doubleMagnitude(old)
	w.blendDoubles(w.compareDoubles(less, a, w.double(0x1p-54)), old, y, x) // keeps the sign of 0
}

// splitDouble generates code that splits the positive numbers x into 2^e m, where m is from sqrt(1/2) to sqrt(2).
func (w width) splitDouble(x VecVirtual) (m, e VecVirtual) {
	m, e = w.vector(), w.vector()
	// Subnormal numbers lack the implicit first bit: multiply them by 2^54.
	tiny := w.compareDoubles(less, x, w.double(0x1p-1022))
	VMULPD(w.double(0x1p54), x, m)
	w.blendDoubles(tiny, m, x, m)
	one := math.Float64bits(1)
	// e is the exponent of m, and one more if m is at least sqrt(2) times a power of 2. Then m is divided by 2^e.
	VPADDQ(w.long(one-math.Float64bits(math.Sqrt2/2)), m, e)
	VPSRLQ(Imm(52), e, e)
	shifted := w.vector()
	VPSLLQ(Imm(52), e, shifted)
	VPSUBQ(shifted, m, m)
	VPADDQ(w.double(1), m, m)
	VPADDQ(w.double(0x1p52), e, e) // the word e in the last bits of a float64 number
	bias := w.double(0x1p52 + 1023)
	w.blendDoubles(tiny, w.double(0x1p52+1023+54), bias, bias)
	VSUBPD(bias, e, e)
	return m, e
}

// logCoefficients are those of (log((1+s)/(1-s))/s-2)/s^2, as a polynomial of s^2, for |s| up to 3-sqrt(8).
var logCoefficients = []float64{0.1310072138350349, 0.13267418596474884, 0.15386290534658992, 0.181817947008978,
	0.2222222240054776, 0.2857142857076445, 0.4000000000000094, 0.6666666666666666}

// logDouble generates code that replaces x by its logarithm, to base e or 2. With f = m-1, h = f^2/2 and s = f/(2+f),
// log(m) is f - (h - s(h+R)), where R is s^2 times a polynomial of s^2 (Sun's fdlibm, e_log.c).
func (w width) logDouble(x VecVirtual, base2 bool) {
	f, e := w.splitDouble(x)
	VSUBPD(w.double(1), f, f)
	s, z, h := w.vector(), w.vector(), w.vector()
	VADDPD(w.double(2), f, s)
	VDIVPD(s, f, s)
	VMULPD(s, s, z)
	r := w.doublePolynomial(z, logCoefficients...)
	VMULPD(w.double(0.5), f, h)
	VMULPD(f, h, h)
	VFMADD213PD(h, z, r) // h + R
	VMULPD(s, r, r)
	if base2 {
		// The sum of hi and lo is log(m), and so is that of the products with 1/log(2), which is also a sum.
		hi, lo, y := w.vector(), w.vector(), w.vector()
		VSUBPD(h, f, hi)
		VSUBPD(hi, f, lo)
		VSUBPD(h, lo, lo)
		VADDPD(r, lo, lo)
		VMULPD(w.double(log2E[0]), hi, y)
		rest := w.vector()
		VMOVAPD(y, rest)
		VFMSUB231PD(w.double(log2E[0]), hi, rest)
		VFMADD231PD(w.double(log2E[1]), hi, rest)
		VFMADD231PD(w.double(log2E[0]), lo, rest)
		sum := w.vector()
		VADDPD(e, y, sum)
		VSUBPD(sum, e, e)
		VADDPD(y, e, e)
		VADDPD(e, rest, rest)
		VADDPD(rest, sum, f)
	} else {
		VFMADD231PD(w.double(ln2Low), e, r)
		VSUBPD(r, h, h)
		VSUBPD(h, f, f)
		VFMADD231PD(w.double(ln2High), e, f)
	}
	w.logOfOtherDoubles(x, f)
	VMOVAPD(f, x)
}

// logOfOtherDoubles generates code that replaces elements of y: the logarithms of the x that are not positive and
// finite.
func (w width) logOfOtherDoubles(x, y VecVirtual) {
	w.blendDoubles(w.compareDoubles(notLess, x, w.double(math.Inf(1))), x, y, y) // infinity and NaN
	w.blendDoubles(w.compareDoubles(equal, x, w.zero()), w.double(math.Inf(-1)), y, y)
	w.blendDoubles(w.compareDoubles(less, x, w.zero()), w.double(math.NaN()), y, y)
}

// log1pDouble generates code that replaces the float64 numbers x by log(1+x). u = 1+x is rounded; log1p(x) = log(u) +
// (x-(u-1))/u corrects for that to first order.
func (w width) log1pDouble(x VecVirtual) {
	u, rest := w.vector(), w.vector()
	VADDPD(w.double(1), x, u)
	VSUBPD(w.double(1), u, rest)
	VSUBPD(rest, x, rest)
	VDIVPD(u, rest, rest)
	w.logDouble(u, false)
	// Where log(u) is infinite or NaN, rest may be NaN.
	zero := w.zero()
	w.blendDoubles(w.compareDoubles(ordered, rest, rest), rest, zero, rest)
	VADDPD(rest, u, u)
	w.blendDoubles(w.compareDoubles(equal, x, w.zero()), x, u, x) // keeps the sign of 0
}

// sineDouble generates code that replaces x by its sine or cosine. pi/2 is the sum of two numbers of 33 bits, by which
// the multiplication is exact, and a rest (Cody and Waite 1980).
func (w width) sineDouble(x VecVirtual, cosine bool) {
	n, r, y := w.vector(), w.vector(), w.vector()
	VMULPD(w.double(2/math.Pi), x, n)
	w.roundDouble(n)
	VMOVAPD(x, r)
	VFNMADD231PD(w.double(halfPi[0]), n, r)
	VMOVAPD(r, y)
	VFNMADD231PD(w.double(halfPi[1]), n, y)
	VSUBPD(y, r, r) // n halfPi[1], and how the subtraction was rounded
	VFNMADD231PD(w.double(halfPi[1]), n, r)
	VFNMADD231PD(w.double(halfPi[2]), n, r)
	VADDPD(r, y, r)
	quadrant := w.vector()
	VADDPD(w.double(0x1.8p52), n, quadrant) // the integer n in the last bits
	if cosine {
		VPADDQ(w.long(1), quadrant, quadrant)
	}
	z := w.vector()
	VMULPD(r, r, z)
	s := w.doublePolynomial(z, -7.586094789672621e-13, 1.6058521349954986e-10, -2.5052106167335705e-08,
		2.7557319219150783e-06, -0.00019841269841264821, 0.008333333333333331, -0.16666666666666666) // (sin(r)-r)/r^3
	VMULPD(z, s, s)
	VFMADD213PD(r, r, s)
	c := w.doublePolynomial(z, 4.745537017319258e-14, -1.1470455178216906e-11, 2.0876755754879594e-09,
		-2.755731922129809e-07, 2.480158730158451e-05, -0.0013888888888888887, 0.041666666666666664) // (cos(r)-1+r^2/2)/r^4
	VFMADD213PD(w.double(-0.5), z, c)
	VFMADD213PD(w.double(1), z, c)
	odd := w.vector()
	VPSLLQ(Imm(63), quadrant, odd)
	if cosine {
		x = w.blendBySigns(odd, c, s, x)
	} else { // the sine of -0
		w.blendDoubles(w.compareDoubles(equal, x, w.zero()), x, s, s)
		x = w.blendBySigns(odd, c, s, x)
	}
	VPSRLQ(Imm(1), quadrant, quadrant)
	VPSLLQ(Imm(63), quadrant, quadrant)
	VXORPD(quadrant, x, x)
}

// halfPi is pi/2 in three parts, each next 33 bits and the rest.
var halfPi = [3]float64{1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21}

// blendBySigns generates code that sets the elements of to: to yes's element if the sign of by is set there, and else
// to no's. It returns to.
func (w width) blendBySigns(by, yes, no, to VecVirtual) VecVirtual {
	if w.size == 64 {
		mask := K()
		VPMOVQ2M(by, mask)
		VBLENDMPD(yes, no, mask, to)
	} else {
		VBLENDVPD(by, yes, no, to)
	}
	return to
}

// atanDouble generates code that replaces x by its arc tangent: a polynomial of x, 1/x or (x-1)/(x+1), whichever is
// less than tan(pi/8), and a multiple of pi/4.
func (w width) atanDouble(x VecVirtual) {
	a, signs := w.doubleMagnitude(x)
	over, under := w.vector(), w.vector()
	VSUBPD(w.double(1), a, over)
	VADDPD(w.double(1), a, under)
	angle, low := w.double(math.Pi/4), w.double(pi4Low)
	far := w.compareDoubles(more, a, w.double(1+math.Sqrt2))
	w.blendDoubles(far, w.double(-1), over, over)
	w.blendDoubles(far, a, under, under)
	w.blendDoubles(far, w.double(math.Pi/2), angle, angle)
	w.blendDoubles(far, w.double(2*pi4Low), low, low)
	near := w.compareDoubles(less, a, w.double(math.Sqrt2-1))
	w.blendDoubles(near, a, over, over)
	w.blendDoubles(near, w.double(1), under, under)
	zero := w.zero()
	w.blendDoubles(near, zero, angle, angle)
	w.blendDoubles(near, zero, low, low)
	t, z := w.vector(), w.vector()
	VDIVPD(under, over, t)
	VMULPD(t, t, z)
	p := w.doublePolynomial(z, -0.013905374533113234, 0.030622995553735516, -0.04103887546862687, 0.04719259188242093,
		-0.05258020272656758, 0.058819230561140225, -0.06666641869131183, 0.07692306729194896, -0.0909090906681608,
		0.11111111110751482, -0.1428571428571149, 0.19999999999999993, -0.3333333333333333) // (atan(t)-t)/t^3
	VMULPD(z, p, p)
	VFMADD213PD(low, t, p)
	VADDPD(t, p, p)
	VADDPD(angle, p, p)
	VORPD(signs, p, x)
}

// pi4Low is pi/4 less the nearest float64 number.
const pi4Low = 3.061616997868383e-17

// tanhDouble generates code that replaces x by its hyperbolic tangent, e/(e+2) for e = e^2x-1.
func (w width) tanhDouble(x VecVirtual) {
	a, signs := w.doubleMagnitude(x)
	VMINPD(a, w.double(20), a) // NaN stays, as the second source
	VADDPD(a, a, a)
	w.expm1Double(a)
	y := w.vector()
	VADDPD(w.double(2), a, y)
	VDIVPD(y, a, a)
	VORPD(signs, a, x)
}

// logisticDouble generates code that replaces the float64 numbers x by 1/(1+e^-x).
func (w width) logisticDouble(x VecVirtual) {
	t := w.vector()
	VORPD(w.long(1<<63), x, t)
	w.expDouble(t)
	one, y := w.double(1), w.vector()
	w.blendDoubles(w.compareDoubles(less, x, w.zero()), t, one, y)
	VADDPD(one, t, t)
	VDIVPD(t, y, x)
}

// erfDouble generates code that replaces x by its error function. Up to 1 it is a polynomial, and beyond 1 it is
// 1-e^(-x^2)g, where g is a polynomial of (x-2.5)/(x+2.5).
func (w width) erfDouble(x VecVirtual) {
	a, signs := w.doubleMagnitude(x)
	VMINPD(a, w.double(6), a) // NaN stays, as the second source
	z, t := w.vector(), w.vector()
	VMULPD(a, a, z)
	VADDPD(w.double(2.5), a, t)
	over := w.vector()
	VSUBPD(w.double(2.5), a, over)
	VDIVPD(t, over, t)
	g := w.doublePolynomial(t, -1.587633893127344e-06, -2.2328516517555215e-06, 7.499735050763299e-06,
		1.8596747731144528e-05, -3.4175718896856294e-05, -0.00012887483134837842, 0.0002283799633257643,
		0.0008759152875774328, -0.0026423659518134547, -0.003993701160123029, 0.03992253907546523,
		-0.12503305237891782, 0.2517131932174488, -0.37173673394897294, 0.2108063640611436)
	near := w.doublePolynomial(z, -4.230945824295338e-12, 8.709045129053106e-11, -1.216456005728345e-09,
		1.4792401209404813e-08, -1.6364642158167616e-07, 1.6462045441468418e-06, -1.4925647567519332e-05,
		0.00012055332902888736, -0.000854832702193483, 0.0052239776254232985, -0.02686617064512984, 0.1128379167095512,
		-0.37612638903183754, 0.1283791670955126) // erf(x)/x-1
	VFMADD213PD(a, a, near)
	VXORPD(w.long(1<<63), z, z)
	w.expDouble(z)
	VFNMADD213PD(w.double(1), g, z)
	w.blendDoubles(w.compareDoubles(more, a, w.double(1)), z, near, near)
	VORPD(signs, near, x)
}

// powDouble generates code that replaces x by x^y, as 2^(y log2 |x|). The logarithm and its product with y are sums of
// two numbers, because y multiplies their errors (Dekker 1971).
func (w width) powDouble(x, y VecVirtual) {
	a, _ := w.doubleMagnitude(x)
	hi, lo := w.log2OfTwo(a)
	// The logarithms of 0, infinity and NaN.
	zero := w.zero()
	w.blendDoubles(w.compareDoubles(notLess, a, w.double(math.Inf(1))), a, hi, hi)
	w.blendDoubles(w.compareDoubles(equal, a, zero), w.double(math.Inf(-1)), hi, hi)
	size, _ := w.doubleMagnitude(hi)
	w.blendDoubles(w.compareDoubles(less, size, w.double(2000)), lo, zero, lo)
	product, rest := w.vector(), w.vector()
	VMULPD(hi, y, product)
	VMOVAPD(product, rest)
	VFMSUB231PD(hi, y, rest)
	VFMADD231PD(lo, y, rest)
	size, _ = w.doubleMagnitude(product)
	w.blendDoubles(w.compareDoubles(less, size, w.double(1100)), rest, zero, rest)
	w.exp2Double(product, rest)
	one := w.double(1)
	w.blendDoubles(w.compareDoubles(equal, a, one), one, product, product)
	w.signOfPowerDouble(x, y, product)
	// The results that are 1 for any number y or x, also for NaN.
	w.blendDoubles(w.compareDoubles(equal, x, one), one, product, product)
	w.blendDoubles(w.compareDoubles(equal, y, w.zero()), one, product, x)
}

// twoSum generates code that replaces a and b, where |a| is at least |b| or a is 0, by their rounded sum and its error.
func (w width) twoSum(a, b VecVirtual) {
	sum := w.vector()
	VADDPD(b, a, sum)
	VSUBPD(sum, a, a)
	VADDPD(a, b, b)
	VMOVAPD(sum, a)
}

// twoProduct generates code that returns the product of two sums of two numbers, as such a sum.
func (w width) twoProduct(aHi, aLo, bHi, bLo VecVirtual) (hi, lo VecVirtual) {
	hi, lo = w.vector(), w.vector()
	VMULPD(bHi, aHi, hi)
	VMOVAPD(hi, lo)
	VFMSUB231PD(bHi, aHi, lo)
	VFMADD231PD(bLo, aHi, lo)
	VFMADD231PD(bHi, aLo, lo)
	return hi, lo
}

// log2OfTwo generates code that returns the logarithms of the positive numbers x to base 2, as sums of two numbers.
// With s = (m-1)/(m+1), log(m) is 2s + s^3 (2/3 + s^2 Q).
func (w width) log2OfTwo(x VecVirtual) (hi, lo VecVirtual) {
	m, e := w.splitDouble(x)
	f, under, underLo, inverse := w.vector(), w.vector(), w.vector(), w.vector()
	VSUBPD(w.double(1), m, f)
	VADDPD(w.double(1), m, under)
	VSUBPD(w.double(1), under, underLo)
	VSUBPD(underLo, m, underLo)
	VDIVPD(under, w.double(1), inverse)
	s, sLo := w.vector(), w.vector()
	VMULPD(inverse, f, s)
	VMOVAPD(f, sLo)
	VFNMADD231PD(s, under, sLo)
	VFNMADD231PD(s, underLo, sLo)
	VMULPD(inverse, sLo, sLo)
	z, zLo := w.twoProduct(s, sLo, s, sLo)
	const third = 2.0 / 3
	rest := w.doublePolynomial(z, logCoefficients[:len(logCoefficients)-1]...)
	VFMADD213PD(w.double(third*0x1p-54), z, rest) // 2/3 less the nearest number is this
	factor := w.double(third)
	w.twoSum(factor, rest)
	cube, cubeLo := w.twoProduct(s, sLo, z, zLo)
	u, uLo := w.twoProduct(cube, cubeLo, factor, rest)
	VADDPD(s, s, s)
	VADDPD(sLo, sLo, sLo)
	w.twoSum(s, u)
	VADDPD(uLo, sLo, sLo)
	VADDPD(u, sLo, sLo)
	hi, lo = w.twoProduct(s, sLo, w.double(log2E[0]), w.double(log2E[1]))
	w.twoSum(e, hi)
	VADDPD(hi, lo, lo)
	return e, lo
}

// signOfPowerDouble generates code that gives x to the power of y, of which result is |x| to the power of y, its sign.
// A negative x to the power of a fraction is NaN, except for -Inf.
func (w width) signOfPowerDouble(x, y, result VecVirtual) {
	whole, half, signs := w.nearestDouble(y), w.vector(), w.long(1<<63)
	zero, fraction := w.zero(), w.compareDoubles(differ, whole, y)
	VMULPD(w.double(0.5), y, half)
	even := w.compareDoubles(equal, w.nearestDouble(half), half)
	// The sign of x stays if y is odd: neither even nor a fraction.
	VANDPD(x, signs, signs)
	w.blendDoubles(even, zero, signs, signs)
	w.blendDoubles(fraction, zero, signs, signs)
	VXORPD(signs, result, result)
	undefined := w.vector()
	w.blendDoubles(fraction, w.double(math.NaN()), result, undefined)
	w.blendDoubles(w.compareDoubles(less, x, zero), undefined, result, undefined)
	w.blendDoubles(w.compareDoubles(equal, x, w.double(math.Inf(-1))), result, undefined, result)
}
