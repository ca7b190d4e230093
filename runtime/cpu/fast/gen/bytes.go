package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// byteProducts generates the functions that compute dot products of an int8 row with rows of blocks, for processors
// without VNNI. The int8 row has a scale for each group of 32. The functions sum integers, and multiply the sums by the
// scales.
func byteProducts() {
	byteDots("Q8_0", 34, 32, 128, byteDotQ8_0)
	byteDots("Q4_0", 18, 32, 8, byteDotQ4_0)
	byteDots("Q4_K", 144, 256, 0, byteDotQ4_K)
	byteDots("Q6_K", 210, 256, 32, byteDotQ6_K)
}

// byteDotQ8_0 generates the code of byteDots for a block of Q8_0: levels are signed bytes.
func byteDotQ8_0(a operands, b Register, sum VecVirtual) {
	w, scale := YMM(), YMM()
	half(Mem{Base: b}, scale)
	VMULPS(a.scaleOf(0, YMM()), scale, scale)
	VMOVDQU(Mem{Base: b, Disp: 2}, w)
	x := YMM()
	VMOVDQU(a.bytes(0), x)
	VPSIGNB(w, x, x) // move the signs of w to x, since VPMADDUBSW needs one unsigned operand
	VPABSB(w, w)
	addProducts(sum, quads(pairs(w, x)), scale)
}

// byteDotQ4_0 generates the code of byteDots for a block of Q4_0: two levels of 4 bits are in each byte.
func byteDotQ4_0(a operands, b Register, sum VecVirtual) {
	w, scale := YMM(), YMM()
	half(Mem{Base: b}, scale)
	VMULPS(a.scaleOf(0, YMM()), scale, scale)
	VBROADCASTI128(Mem{Base: b, Disp: 2}, w)
	VPSRLVD(upperHalf(4), w, w)
	VPAND(filled(0x0f), w, w)
	addProducts(sum, a.dot(0, w), scale)
}

// byteDotQ4_K generates the code of byteDots for a block of Q4_K: see q4_K.
func byteDotQ4_K(a operands, b Register, sum VecVirtual) {
	scales, minima := factorsQ4_K(b)
	VFNMADD231PS(a.sums(), minima, sum)
	VMULPS(Mem{Base: a.scales}, scales, scales)
	VMOVUPS(scales, a.local)
	for g := range 8 {
		w, scale := YMM(), YMM()
		VMOVDQU(Mem{Base: b, Disp: 16 + g/2*32}, w)
		if g%2 == 1 {
			VPSRLW(Imm(4), w, w)
		}
		VPAND(filled(0x0f), w, w)
		VBROADCASTSS(a.local.Offset(4*g), scale)
		addProducts(sum, a.dot(g, w), scale)
	}
}

// byteDotQ6_K generates the code of byteDots for a block of Q6_K: see q6_K.
func byteDotQ6_K(a operands, b Register, sum VecVirtual) {
	d := scaleQ6_K(b)
	for i := range 2 { // a scale for each 16 elements
		scales := YMM()
		VPMOVSXBD(Mem{Base: b, Disp: 192 + 8*i}, scales)
		VCVTDQ2PS(scales, scales)
		VMULPS(d, scales, scales)
		VMOVUPS(scales, a.local.Offset(32*i))
	}
	for g := range 8 {
		run := g % 4
		w, high, scale := YMM(), YMM(), YMM()
		VMOVDQU(Mem{Base: b, Disp: g/4*64 + run%2*32}, w)
		if run >= 2 {
			VPSRLW(Imm(4), w, w)
		}
		VPAND(filled(0x0f), w, w)
		VMOVDQU(Mem{Base: b, Disp: 128 + g/4*32}, high)
		switch run { // move the bit pair to bits 4 and 5
		case 0:
			VPSLLW(Imm(4), high, high)
		case 1:
			VPSLLW(Imm(2), high, high)
		case 3:
			VPSRLW(Imm(2), high, high)
		}
		VPAND(filled(0x30), high, high)
		VPOR(high, w, w)
		VBROADCASTSD(a.local.Offset(8*g), scale)
		VPERMPS(scale, loaded(upperHalf(1)), scale)
		VMULPS(a.scaleOf(g, YMM()), scale, scale)
		addProducts(sum, a.dot(g, w), scale)
	}
}

// operands has the addresses of the current block's elements in an int8 row. The row has a scale for each group of 32
// elements, and the sum of a group's elements times the scale.
type operands struct {
	row, scales, groupSums Register
	local                  Mem  // 64 bytes
	lowest                 byte // the lowest level of blocks is -lowest
}

func (a operands) bytes(group int) Mem { return Mem{Base: a.row, Disp: 32 * group} }
func (a operands) sums() Mem           { return Mem{Base: a.groupSums} }

// scaleOf generates code that sets all elements of y to the scale of a group, and returns y.
func (a operands) scaleOf(group int, y VecVirtual) VecVirtual {
	VBROADCASTSS(Mem{Base: a.scales, Disp: 4 * group}, y)
	return y
}

// dot generates code that computes the dot product of a group of a with levels, as 8 sums of four products. w has the
// levels plus a.lowest, as unsigned bytes.
func (a operands) dot(group int, w VecVirtual) VecVirtual {
	p := pairs(w, a.bytes(group))
	if a.lowest > 0 {
		VPSUBW(pairs(loaded(filled(a.lowest)), a.bytes(group)), p, p)
	}
	return quads(p)
}

// upperHalf returns the address of constant memory with four words of 0 and four words of x.
func upperHalf(x uint32) Mem {
	name := fmt.Sprintf("upper%d", x)
	if _, ok := fills[name]; !ok {
		fills[name] = GLOBL(name, RODATA|NOPTR)
		for i := range 8 {
			DATA(4*i, U32(uint32(i/4)*x))
		}
	}
	return fills[name]
}

// byteDots generates the function for a block format, with `elements` elements in `size` bytes. block generates code
// that adds the products of block b and the same elements of a to the elements of vector sum. At the end, the sum of
// all elements of that vector is the result.
func byteDots(format string, size, elements int, lowest byte,
	block func(a operands, b Register, sum VecVirtual)) {
	name := "byteDots" + format
	TEXT(name, NOSPLIT, "func(out *float32, a *int8, scales, sums *float32, b *byte, ldb, n int)")
	Doc(fmt.Sprintf("%s sets out to the dot products of a with 4 rows of b, n blocks each, which are ldb bytes", name),
		"apart. Every 32 elements of a share an element of scales; sums has their sum times that scale.")
	a := operands{row: Load(Param("a"), GP64()), scales: Load(Param("scales"), GP64()),
		groupSums: Load(Param("sums"), GP64()), local: AllocLocal(64), lowest: lowest}
	n := Load(Param("n"), GP64())
	b := pointers(4, "b", "ldb", 1)
	sums := avx2.zeros(4)
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("stop"))
	for j, row := range b {
		PREFETCHT0(Mem{Base: row, Disp: ahead})
		block(a, row, sums[j])
		ADDQ(U32(size), row)
	}
	ADDQ(U32(elements), a.row)
	ADDQ(Imm(uint64(elements/8)), a.scales)
	ADDQ(Imm(uint64(elements/8)), a.groupSums)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("stop")
	putSums(Load(Param("out"), GP64()), sums)
	VZEROUPPER()
	RET()
}

// pairs generates code that multiplies unsigned bytes by signed bytes and adds neighbours. The 16 sums must fit in 16
// bits.
func pairs(w VecVirtual, a Op) VecVirtual {
	p := YMM()
	VPMADDUBSW(a, w, p)
	return p
}

// quads generates code that adds neighbours of 16 sums. The 8 results have 32 bits.
func quads(p VecVirtual) VecVirtual {
	VPMADDWD(filled(1, 0), p, p)
	return p
}

// addProducts generates code that multiplies integers by a scale and adds the results to a sum.
func addProducts(sum, p, scale VecVirtual) {
	VCVTDQ2PS(p, p)
	VFMADD231PS(scale, p, sum)
}

// loaded generates code that loads a vector from memory.
func loaded(m Mem) VecVirtual {
	y := YMM()
	VMOVDQU(m, y)
	return y
}

// filled returns the address of constant memory that repeats a pattern of bytes.
func filled(pattern ...byte) Mem {
	name := fmt.Sprintf("b%x", pattern)
	if _, ok := fills[name]; !ok {
		fills[name] = GLOBL(name, RODATA|NOPTR)
		for i := range 32 {
			DATA(i, U8(pattern[i%len(pattern)]))
		}
	}
	return fills[name]
}

var fills = map[string]Mem{}

// roundBytes generates the function that rounds groups of 32 floats to int8, by the rule of ir.ByteSteps. A group
// with a float that is not finite gets the scale NaN. The function stores scales and sums in lists or, if records is
// true, in records (see recordScale).
func roundBytes(records bool) {
	name, params := "roundBytes", "scales, sums"
	if records {
		name, params = "roundRecords", "records"
	}
	TEXT(name, NOSPLIT, "func(bytes *int8, "+params+", x *float32, n int)")
	Doc(name + " rounds n groups of 32 floats to int8, with a scale per group, by the rule of ir.ByteSteps.")
	bytes := Load(Param("bytes"), GP64())
	var scales, sums Register
	if records {
		scales = Load(Param("records"), GP64())
	} else {
		scales, sums = Load(Param("scales"), GP64()), Load(Param("sums"), GP64())
	}
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	order := GLOBL("order", RODATA|NOPTR) // undoes the order in which packing leaves words of four bytes
	for i, from := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(from))
	}
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("stop"))
	var v [4]VecVirtual
	top, bad, zero, t := YMM(), YMM(), YMM(), YMM()
	VXORPS(zero, zero, zero)
	VXORPS(top, top, top)
	VXORPS(bad, bad, bad)
	for i := range v {
		v[i] = YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v[i])
		VFMADD231PS(zero, v[i], bad) // 0, or NaN where a float is not finite
		VANDPS(word(YMM(), 1<<31-1), v[i], t)
		VMAXPS(t, top, top)
	}
	across(top, func(a, b, c Op) { VMAXPS(a, b, c) })
	across(bad, func(a, b, c Op) { VADDPS(a, b, c) })
	steps := roundingSteps(top, zero)
	// A group of smaller numbers becomes zeros.
	VCMPPS(Imm(atLeast), constant(YMM(), 0x1p-118), top, t)
	VANDPS(t, steps, steps)
	VANDPS(t, top, top)
	VMULPS(constant(YMM(), 1.0/127), top, top)
	VADDPS(bad, top, top)
	VMOVSS(top.AsX(), Mem{Base: scales})
	for i := range v {
		VMULPS(steps, v[i], v[i])
		VCVTPS2DQ(v[i], v[i])
	}
	half := YMM()
	VPADDD(v[0], v[1], half)
	VPADDD(v[2], v[3], t)
	if records {
		storeSums(half, t, scales)
	}
	VPADDD(half, t, t)
	VCVTDQ2PS(t, t)
	across(t, func(a, b, c Op) { VADDPS(a, b, c) })
	VMULPS(top, t, t)
	if records {
		VMOVSS(t.AsX(), Mem{Base: scales, Disp: recordSum})
	} else {
		VMOVSS(t.AsX(), Mem{Base: sums})
	}
	packBytes(v, order, bytes)
	ADDQ(Imm(32), bytes)
	if records {
		ADDQ(Imm(recordBytes), scales)
	} else {
		ADDQ(Imm(4), scales)
		ADDQ(Imm(4), sums)
	}
	ADDQ(Imm(128), x)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// roundingSteps generates code that returns about 127/top in each element, as ir.ByteSteps does: an integer division by
// the first 16 bits of top's mantissa, and then the power of 2. zero is a vector of zeros.
func roundingSteps(top, zero VecVirtual) VecVirtual {
	mantissa, steps, power := GP32(), YMM(), YMM()
	VMOVD(top.AsX(), mantissa)
	SHRL(Imm(8), mantissa)
	ANDL(U32(0x7fff), mantissa)
	ORL(U32(0x8000), mantissa)
	MOVL(U32(127<<25), EAX)
	XORL(EDX, EDX)
	DIVL(mantissa)
	VCVTSI2SSL(EAX, zero.AsX(), steps.AsX())
	VPBROADCASTD(steps.AsX(), steps)
	VANDPS(word(YMM(), 0x7f800000), top, power)
	VPADDD(word(YMM(), 117<<23), steps, steps)
	VPSUBD(power, steps, steps)
	return steps
}

// packBytes generates code that stores 32 integers, which fit in int8, as bytes.
func packBytes(v [4]VecVirtual, order Mem, to Register) {
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	VPERMD(v[0], loaded(order), v[0])
	VMOVDQU(v[0], Mem{Base: to})
}

// storeSums generates code that stores in a record -128 times the sum of all elements of a group, of its first 16,
// and of the others. a has partial sums of the first 16 elements, and b of the others.
func storeSums(a, b VecVirtual, record Register) {
	all, t := YMM(), YMM()
	VPADDD(a, b, all)
	for i, v := range []VecVirtual{all, a, b} {
		VMOVDQA(v, t)
		across(t, func(a, b, c Op) { VPADDD(a, b, c) })
		VPSLLD(Imm(7), t, t)
		VPSUBD(t, zeroed(), t)
		VMOVSS(t.AsX(), Mem{Base: record, Disp: recordAll + 4*i})
	}
}

// zeroed generates code that clears a new vector.
func zeroed() VecVirtual {
	y := YMM()
	VPXOR(y, y, y)
	return y
}

// across generates code that reduces the 8 elements of y by instruction `of`, and sets all elements to the result.
func across(y VecVirtual, of func(a, b, c Op)) {
	t := YMM()
	VPERM2F128(Imm(1), y, y, t) // exchange the halves
	of(t, y, y)
	VPERMILPS(Imm(0x4e), y, t) // exchange pairs
	of(t, y, y)
	VPERMILPS(Imm(0xb1), y, t) // exchange neighbours
	of(t, y, y)
}
