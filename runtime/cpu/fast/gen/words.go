package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// wordPrimitives generates the functions of the primitives of 32-bit words.
func wordPrimitives() {
	for _, p := range []struct {
		name, what string
		of         func(ops ...Op)
	}{
		{"addWords", "x+y, of words", func(ops ...Op) { VPADDD(ops[0], ops[1], ops[2]) }},
		{"subWords", "x-y, of words", func(ops ...Op) { VPSUBD(ops[0], ops[1], ops[2]) }},
		{"mulWords", "x*y, of words", func(ops ...Op) { VPMULLD(ops[0], ops[1], ops[2]) }},
		{"minWords", "the lesser of x and y, words", func(ops ...Op) { VPMINSD(ops[0], ops[1], ops[2]) }},
		{"maxWords", "the greater of x and y, words", func(ops ...Op) { VPMAXSD(ops[0], ops[1], ops[2]) }},
		{"minUnsigned", "the lesser of x and y, unsigned words", func(ops ...Op) { VPMINUD(ops[0], ops[1], ops[2]) }},
		{"maxUnsigned", "the greater of x and y, unsigned words", func(ops ...Op) { VPMAXUD(ops[0], ops[1], ops[2]) }},
		{"andWords", "x&y, of words", func(ops ...Op) { VPAND(ops[0], ops[1], ops[2]) }},
		{"orWords", "x|y, of words", func(ops ...Op) { VPOR(ops[0], ops[1], ops[2]) }},
		{"xorWords", "x^y, of words", func(ops ...Op) { VPXOR(ops[0], ops[1], ops[2]) }},
	} {
		primitive(p.name, p.what, 2, func(x, y, _ VecVirtual) { p.of(y, x, x) })
	}
	primitive("shiftLeft", "x<<y, of words, 0 if y is not below 32", 2, func(x, y, _ VecVirtual) { VPSLLVD(y, x, x) })
	primitive("shiftRight", "x>>y, of words, x>>31 if y is not below 32", 2,
		func(x, y, _ VecVirtual) { VPSRAVD(y, x, x) })
	primitive("divInts", "the quotient of words, rounded to 0, and 0 if y is 0", 2, func(x, y, _ VecVirtual) {
		VPANDN(quotient(x, y), zeros(y), x)
	})
	primitive("remInts", "x-y*(x/y), of words, and 0 if y is 0", 2, func(x, y, _ VecVirtual) { remainder(x, y) })
	primitive("modInts", "the remainder of words with the sign of y, and 0 if y is 0", 2, func(x, y, _ VecVirtual) {
		remainder(x, y)
		other := YMM() // -1 where the signs differ
		VPXOR(x, y, other)
		VPSRAD(Imm(31), other, other)
		VPAND(y, other, other)
		VPANDN(other, zeros(x), other)
		VPADDD(other, x, x)
	})
	primitive("equalWords", "1 where the words x and y are equal and else 0", 2, func(x, y, _ VecVirtual) {
		VPCMPEQD(y, x, x)
		VPSRLD(Imm(31), x, x)
	})
	primitive("moreWords", "1 where the word x is above y and else 0", 2, func(x, y, _ VecVirtual) {
		VPCMPGTD(y, x, x)
		VPSRLD(Imm(31), x, x)
	})
	primitive("chooseWords", "y where the word x is not 0 and else z", 3, func(x, y, z VecVirtual) {
		zero := YMM()
		VPXOR(zero, zero, zero)
		VPCMPEQD(zero, x, x)
		VBLENDVPS(x, z, y, x)
	})
	primitive("floatOfWords", "the float nearest to the word x, of two the even one", 1, func(x, _, _ VecVirtual) {
		VCVTDQ2PS(x, x)
	})
	ofUnsigned := func(x VecVirtual) {
		high := YMM() // the product is exact, and so is the lower half: only the sum is rounded
		VPSRLD(Imm(16), x, high)
		VCVTDQ2PS(high, high)
		VPSLLD(Imm(16), x, x)
		VPSRLD(Imm(16), x, x)
		VCVTDQ2PS(x, x)
		VFMADD231PS(constant(YMM(), 0x1p16), high, x)
	}
	primitive("floatOfUnsigned", "the float nearest to the unsigned word x, of two the even one", 1,
		func(x, _, _ VecVirtual) { ofUnsigned(x) })
	toOdd := func(x, small VecVirtual) { // rounds the words x to odd, unless they are small
		low, mask := YMM(), word(YMM(), 1<<9-1)
		VPAND(mask, x, low)
		VPADDD(mask, low, low)
		VPOR(x, low, low)
		VPANDN(low, mask, low)
		VBLENDVPS(small, x, low, x)
	}
	primitive("oddOfWords", "the word x as a float, rounded to odd from 1<<24 on", 1, func(x, _, _ VecVirtual) {
		size := YMM()
		VPADDD(word(YMM(), 1<<24), x, size)
		VPSRLD(Imm(25), size, size)
		toOdd(x, zeros(size))
		VCVTDQ2PS(x, x)
	})
	primitive("oddOfUnsigned", "the unsigned word x as a float, rounded to odd from 1<<24 on", 1,
		func(x, _, _ VecVirtual) {
			size := YMM()
			VPSRLD(Imm(24), x, size)
			toOdd(x, zeros(size))
			ofUnsigned(x)
		})
	for _, bits := range []uint64{8, 16} {
		primitive(fmt.Sprint("signed", bits), fmt.Sprintf("the word x wrapped to %d signed bits", bits), 1,
			func(x, _, _ VecVirtual) {
				VPSLLD(Imm(32-bits), x, x)
				VPSRAD(Imm(32-bits), x, x)
			})
		primitive(fmt.Sprint("unsigned", bits), fmt.Sprintf("the word x wrapped to %d unsigned bits", bits), 1,
			func(x, _, _ VecVirtual) { VPAND(word(YMM(), 1<<bits-1), x, x) })
	}
	primitive("truthOfFloat", "1, as a word, where x is not 0, and else 0", 1, func(x, _, _ VecVirtual) {
		zero := YMM()
		VXORPS(zero, zero, zero)
		VCMPPS(Imm(differ), zero, x, x)
		VPSRLD(Imm(31), x, x)
	})
	primitive("wordOfFloat", "the integer part of x as a word: the nearest word if it is out of range, 0 if it is NaN", 1,
		func(x, _, _ VecVirtual) {
			isNumber, high, y := YMM(), YMM(), YMM()
			VCMPPS(Imm(ordered), x, x, isNumber)
			VCMPPS(Imm(atLeast), constant(YMM(), 1<<31), x, high)
			VCVTTPS2DQ(x, y) // the lowest word if it is out of range
			VPXOR(high, y, y)
			VPAND(isNumber, y, x)
		})
}

// zeros generates code that returns -1 where a word of x is 0, and else 0.
func zeros(x VecVirtual) VecVirtual {
	is := YMM()
	VPXOR(is, is, is)
	VPCMPEQD(x, is, is)
	return is
}

// quotient generates code that returns the quotients of 32-bit integers, rounded toward 0. It divides in float64, which
// has enough bits. A quotient by 0 is 1<<31.
func quotient(x, y VecVirtual) VecVirtual {
	q := YMM()
	var halves [2]VecVirtual
	for i := range halves {
		a, b, part := YMM(), YMM(), XMM()
		VEXTRACTI128(Imm(uint64(i)), x, part)
		VCVTDQ2PD(part, a)
		VEXTRACTI128(Imm(uint64(i)), y, part)
		VCVTDQ2PD(part, b)
		VDIVPD(b, a, a)
		halves[i] = XMM()
		VCVTTPD2DQY(a, halves[i])
	}
	VINSERTI128(Imm(1), halves[1], halves[0].AsY(), q)
	return q
}

// remainder generates code that replaces words by their remainders of a division by y.
func remainder(x, y VecVirtual) {
	q := quotient(x, y)
	VPMULLD(y, q, q)
	VPSUBD(q, x, x)
	VPANDN(x, zeros(y), x)
}
