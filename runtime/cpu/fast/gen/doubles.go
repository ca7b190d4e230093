package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// doubles generates the primitives of 64-bit elements: float64 numbers, and integers, which are called long words.
func doubles() {
	primitive := func(name, what string, args int, body func(x, y, z VecVirtual)) {
		avx2.primitiveOf(8, name, what, args, body)
	}
	one := func() VecVirtual { return avx2.double(1) }
	for _, p := range []struct {
		name, what string
		of         func(ops ...Op)
	}{
		{"addDoubles", "x+y", func(ops ...Op) { VADDPD(ops[0], ops[1], ops[2]) }},
		{"subDoubles", "x-y", func(ops ...Op) { VSUBPD(ops[0], ops[1], ops[2]) }},
		{"mulDoubles", "x*y", func(ops ...Op) { VMULPD(ops[0], ops[1], ops[2]) }},
		{"divDoubles", "x/y", func(ops ...Op) { VDIVPD(ops[0], ops[1], ops[2]) }},
		{"addLongs", "x+y, of long words", func(ops ...Op) { VPADDQ(ops[0], ops[1], ops[2]) }},
		{"subLongs", "x-y, of long words", func(ops ...Op) { VPSUBQ(ops[0], ops[1], ops[2]) }},
		{"andLongs", "x&y, of long words", func(ops ...Op) { VPAND(ops[0], ops[1], ops[2]) }},
		{"orLongs", "x|y, of long words", func(ops ...Op) { VPOR(ops[0], ops[1], ops[2]) }},
		{"xorLongs", "x^y, of long words", func(ops ...Op) { VPXOR(ops[0], ops[1], ops[2]) }},
	} {
		primitive(p.name, p.what, 2, func(x, y, _ VecVirtual) { p.of(y, x, x) })
	}
	// The instructions return their second operand if either is NaN.
	extreme := func(of func(ops ...Op)) func(x, y, z VecVirtual) {
		return func(x, y, _ VecVirtual) {
			isNaN := YMM()
			VCMPPD(Imm(unordered), x, x, isNaN)
			of(y, x, y)
			VBLENDVPD(isNaN, x, y, x)
		}
	}
	primitive("minDoubles", "the lesser of x and y, NaN if either is", 2, extreme(func(ops ...Op) {
		VMINPD(ops[0], ops[1], ops[2])
	}))
	primitive("maxDoubles", "the greater of x and y, NaN if either is", 2, extreme(func(ops ...Op) {
		VMAXPD(ops[0], ops[1], ops[2])
	}))
	for _, c := range comparisons {
		primitive(c.name+"Doubles", "1 where x "+c.sign+" y and else 0", 2, func(x, y, _ VecVirtual) {
			VCMPPD(Imm(c.predicate), y, x, x)
			VANDPD(one(), x, x)
		})
	}
	isZero := func(x VecVirtual) {
		zero := YMM()
		VPXOR(zero, zero, zero)
		VPCMPEQQ(zero, x, x)
	}
	primitive("chooseDoubles", "y where x is not 0 and else z", 3, func(x, y, z VecVirtual) {
		zero := YMM()
		VXORPD(zero, zero, zero)
		VCMPPD(Imm(differ), zero, x, x)
		VBLENDVPD(x, y, z, x)
	})
	primitive("chooseLongs", "y where the long word x is not 0 and else z", 3, func(x, y, z VecVirtual) {
		isZero(x)
		VBLENDVPD(x, z, y, x)
	})
	primitive("negDoubles", "-x", 1, func(x, _, _ VecVirtual) { VXORPD(avx2.double(math.Copysign(0, -1)), x, x) })
	primitive("absDoubles", "|x|", 1, func(x, _, _ VecVirtual) {
		VANDNPD(x, avx2.double(math.Copysign(0, -1)), x)
	})
	primitive("sqrtDoubles", "the root of x", 1, func(x, _, _ VecVirtual) { VSQRTPD(x, x) })
	for mode, r := range roundingModes {
		primitive(r[0]+"Doubles", r[1], 1, func(x, _, _ VecVirtual) { VROUNDPD(Imm(uint64(mode)), x, x) })
	}
	primitive("toF32Doubles", "the f32 nearest to x, of two the even one", 1, func(x, _, _ VecVirtual) {
		VCVTPD2PSY(x, x.AsX())
		VCVTPS2PD(x.AsX(), x)
	})
	primitive("equalLongs", "1 where the long words x and y are equal and else 0", 2, func(x, y, _ VecVirtual) {
		VPCMPEQQ(y, x, x)
		VPSRLQ(Imm(63), x, x)
	})
	primitive("moreLongs", "1 where the long word x is above y and else 0", 2, func(x, y, _ VecVirtual) {
		VPCMPGTQ(y, x, x)
		VPSRLQ(Imm(63), x, x)
	})
	primitive("minLongs", "the lesser of x and y, long words", 2, func(x, y, _ VecVirtual) {
		above := YMM()
		VPCMPGTQ(y, x, above)
		VBLENDVPD(above, y, x, x)
	})
	primitive("maxLongs", "the greater of x and y, long words", 2, func(x, y, _ VecVirtual) {
		above := YMM()
		VPCMPGTQ(y, x, above)
		VBLENDVPD(above, x, y, x)
	})
	longConversions(primitive)
	withinDoubles()
}

// withinDoubles generates the assembly function that reports whether the magnitudes of numbers are between bounds.
func withinDoubles() {
	TEXT("withinDoubles", NOSPLIT, "func(x *float64, least, most float64, n int) (outside int)")
	Doc("withinDoubles returns 0 if the magnitudes of n elements, a multiple of 4, are from least to most. Otherwise, and if",
		"an element is NaN, it does not.")
	x, n, at := Load(Param("x"), GP64()), Load(Param("n"), GP64()), GP64()
	least, most, y, within := YMM(), YMM(), YMM(), YMM()
	for i, of := range []string{"least", "most"} {
		from, _ := Param(of).Resolve()
		VBROADCASTSD(from.Addr, []VecVirtual{least, most}[i])
	}
	sign := avx2.double(math.Copysign(0, -1))
	VPCMPEQQ(within, within, within) // all ones: no element is outside yet
	XORQ(at, at)
	Label("next")
	VANDNPD(Mem{Base: x, Index: at, Scale: 8}, sign, y)
	ADDQ(Imm(4), at)
	for i, bound := range []VecVirtual{least, most} {
		is := YMM()
		VCMPPD(Imm([]uint64{atLeast, atMost}[i]), bound, y, is)
		VANDPD(is, within, within)
	}
	CMPQ(at, n)
	JLT(LabelRef("next"))
	bits, outside := GP32(), GP64()
	VMOVMSKPD(within, bits)
	XORL(Imm(15), bits) // a bit for each of 4 lanes with an element outside
	MOVL(bits, outside.As32())
	Store(outside, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// longConversions generates the primitives that convert to long words, and long words to floats.
func longConversions(primitive func(name, what string, args int, body func(x, y, z VecVirtual))) {
	float := func(x VecVirtual) {
		// The upper 16 and the lower 48 bits become exact floats, so that only the last sum is rounded.
		high, zero := YMM(), YMM()
		VPXOR(zero, zero, zero)
		VPSRAD(Imm(16), x, high)
		VPBLENDW(Imm(0x33), zero, high, high)
		VPADDQ(avx2.double(0x1.8p68), high, high)
		VPBLENDW(Imm(0x88), avx2.double(0x1p52), x, x)
		VSUBPD(avx2.double(0x1.8p68+0x1p52), high, high)
		VADDPD(high, x, x)
	}
	primitive("doubleOfLong", "the float nearest to the long word x, of two the even one", 1,
		func(x, _, _ VecVirtual) { float(x) })
	primitive("oddOfLong", "the long word x as a float, rounded to odd from 1<<53 on", 1, func(x, _, _ VecVirtual) {
		// A large number loses its low 11 bits, and bit 11 is set if one of them is.
		low, small, zero, mask := YMM(), YMM(), YMM(), avx2.long(1<<11-1)
		VPADDQ(avx2.long(1<<53), x, small)
		VPSRLQ(Imm(54), small, small)
		VPXOR(zero, zero, zero)
		VPCMPEQQ(zero, small, small)
		VPAND(mask, x, low)
		VPADDQ(mask, low, low)
		VPOR(x, low, low)
		VPANDN(low, mask, low)
		VBLENDVPD(small, x, low, x)
		float(x)
	})
	truth := func(x VecVirtual) { VPSRLQ(Imm(63), x, x) } // of a mask
	primitive("longOfTruth", "x, which is 1 or 0, as a long word", 1, func(x, _, _ VecVirtual) {
		VPSLLQ(Imm(2), x, x) // 1 has this bit of the exponent, and 0 has not
		truth(x)
	})
	primitive("truthOfDouble", "1, as a long word, where x is not 0, and else 0", 1, func(x, _, _ VecVirtual) {
		zero := YMM()
		VXORPD(zero, zero, zero)
		VCMPPD(Imm(differ), zero, x, x)
		truth(x)
	})
	primitive("wordOfDouble", "the integer part of x as a long word: the nearest word of 32 bits, 0 if x is NaN", 1,
		func(x, _, _ VecVirtual) {
			isNumber := YMM()
			VCMPPD(Imm(ordered), x, x, isNumber)
			VMAXPD(avx2.double(math.MinInt32), x, x)
			VMINPD(avx2.double(math.MaxInt32), x, x)
			VANDPD(isNumber, x, x)
			VCVTTPD2DQY(x, x.AsX())
			VPMOVSXDQ(x.AsX(), x)
		})
	extend := func(x VecVirtual) { // the low words, with their signs
		sign := YMM()
		VPSRAD(Imm(31), x, sign)
		VPSLLQ(Imm(32), sign, sign)
		VPBLENDD(Imm(0xaa), sign, x, x)
	}
	primitive("long32", "the long word x wrapped to 32 signed bits", 1, func(x, _, _ VecVirtual) { extend(x) })
	for _, bits := range []uint64{8, 16} {
		name := map[uint64]string{8: "long8", 16: "long16"}[bits]
		primitive(name, "the long word x wrapped to signed bits", 1, func(x, _, _ VecVirtual) {
			VPSLLD(Imm(32-bits), x, x)
			VPSRAD(Imm(32-bits), x, x)
			extend(x)
		})
	}
	for _, bits := range []uint64{8, 16, 32} {
		name := map[uint64]string{8: "unsignedLong8", 16: "unsignedLong16", 32: "unsignedLong32"}[bits]
		primitive(name, "the long word x wrapped to unsigned bits", 1, func(x, _, _ VecVirtual) {
			VPSLLQ(Imm(64-bits), x, x)
			VPSRLQ(Imm(64-bits), x, x)
		})
	}
}
