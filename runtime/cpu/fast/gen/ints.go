package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// group is a kind of groups: four bytes with neighbouring elements along the contraction axis. An instruction multiplies
// two groups element by element and adds up the products.
type group struct {
	name  string // in the names of functions
	elems string // what they are
	// multiplyAdd generates code that adds the dot products of groups of a and of b to 32-bit sums.
	multiplyAdd func(a, b, sum VecVirtual)
}

// pairsOfWords are groups of two 16-bit integers, which represent all signed and unsigned 8-bit integers.
var pairsOfWords = group{"pairs", "2 signed 16-bit integers", func(a, b, sum VecVirtual) {
	p := like(sum)
	VPMADDWD(a, b, p)
	VPADDD(p, sum, sum)
}}

var quadsOfBytes = group{"quads", "4 8-bit integers, signed ones of a and unsigned ones of b",
	func(a, b, sum VecVirtual) { VPDPBUSD(a, b, sum) }}

// intColumns is the number of vectors of columns that a function computes.
const intColumns = 2

// integers generates the assembly functions of matmuls and convolutions of 8-bit integers. There is one for each number
// of rows whose sums fit in registers.
func integers() {
	for _, rows := range []int{4, 2, 1} {
		avx2.ints(rows, pairsOfWords)
	}
	for _, rows := range []int{8, 4, 2, 1} {
		avx512.ints(rows, pairsOfWords)
		avx512.ints(rows, quadsOfBytes)
	}
	mergeQuads()
	mergePairs()
	mergeBytes()
	scaledRows()
	shiftedBytes()
	for _, r := range []struct {
		name   string
		lo, hi float32
	}{{"roundToI8", -128, 127}, {"roundToU8", 0, 255}} {
		primitive(r.name, fmt.Sprintf("x, rounded to the nearest integer, plus y, as a word from %g to %g, 0 for NaN", r.lo,
			r.hi), 2, func(x, y, _ VecVirtual) {
			isNumber := YMM()
			VROUNDPS(Imm(0), x, x)
			VADDPS(y, x, x)
			VCMPPS(Imm(ordered), x, x, isNumber)
			VMAXPS(constant(YMM(), r.lo), x, x)
			VMINPS(constant(YMM(), r.hi), x, x)
			VCVTTPS2DQ(x, x)
			VPAND(isNumber, x, x)
		})
	}
}

// mergeQuads generates the assembly function that packs elements of 4 lists of 32-bit integers into groups of 4 bytes.
func mergeQuads() {
	TEXT("mergeQuads", NOSPLIT, "func(dst *byte, a, b, c, d *int32, shift int32, n int)")
	Doc("mergeQuads sets n groups of 4 bytes, a multiple of 8, to elements of a, b, c and d, plus shift.")
	var lists [4]Register
	for i, name := range []string{"a", "b", "c", "d"} {
		lists[i] = Load(Param(name), GP64())
	}
	shift, low := YMM(), YMM()
	of, _ := Param("shift").Resolve()
	VBROADCASTSS(of.Addr, shift)
	word(low, 0xff)
	merge(func(at Register, sum VecVirtual) {
		x := YMM()
		for i, list := range lists {
			y := x
			if i == 0 {
				y = sum
			}
			VPADDD(Mem{Base: list, Index: at, Scale: 4}, shift, y)
			VPAND(low, y, y)
			if i > 0 {
				VPSLLD(Imm(uint64(8*i)), y, y)
				VPOR(y, sum, sum)
			}
		}
	})
}

// mergeBytes generates the assembly function that interleaves 4 lists of bytes into groups of 4 bytes.
func mergeBytes() {
	TEXT("mergeBytes", NOSPLIT, "func(dst, a, b, c, d *byte, shift int32, n int)")
	Doc("mergeBytes sets n groups of 4 bytes, a multiple of 8, to elements of a, b, c and d, plus shift.")
	dst, n, at := Load(Param("dst"), GP64()), Load(Param("n"), GP64()), GP64()
	var lists [4]Register
	var x [4]VecVirtual
	for i, name := range []string{"a", "b", "c", "d"} {
		lists[i], x[i] = Load(Param(name), GP64()), XMM()
	}
	shift := XMM()
	VMOVD(Load(Param("shift"), GP32()), shift)
	VPBROADCASTB(shift, shift)
	XORQ(at, at)
	Label("next")
	for i, list := range lists {
		VMOVQ(Mem{Base: list, Index: at, Scale: 1}, x[i])
	}
	VPUNPCKLBW(x[1], x[0], x[0])
	VPUNPCKLBW(x[3], x[2], x[2])
	VPUNPCKLWD(x[2], x[0], x[1])
	VPUNPCKHWD(x[2], x[0], x[3])
	for i, y := range []VecVirtual{x[1], x[3]} {
		VPADDB(shift, y, y)
		VMOVDQU(y, Mem{Base: dst, Index: at, Scale: 4, Disp: 16 * i})
	}
	ADDQ(Imm(8), at)
	CMPQ(at, n)
	JL(LabelRef("next"))
	RET()
}

// mergePairs generates the assembly function that packs elements of 2 lists of integers into groups of two 16-bit
// integers.
func mergePairs() {
	TEXT("mergePairs", NOSPLIT, "func(dst *byte, a, b *int32, n int)")
	Doc("mergePairs sets n groups of 2 words of 16 bits, a multiple of 8, to elements of a and b.")
	a, b, low := Load(Param("a"), GP64()), Load(Param("b"), GP64()), YMM()
	word(low, 0xffff)
	merge(func(at Register, sum VecVirtual) {
		x := YMM()
		VPAND(Mem{Base: a, Index: at, Scale: 4}, low, sum)
		VMOVDQU(Mem{Base: b, Index: at, Scale: 4}, x)
		VPSLLD(Imm(16), x, x)
		VPOR(x, sum, sum)
	})
}

// merge generates the loop of the functions that make groups from lists. body generates code that sets sum to 8 groups.
func merge(body func(at Register, sum VecVirtual)) {
	dst, n, at, sum := Load(Param("dst"), GP64()), Load(Param("n"), GP64()), GP64(), YMM()
	XORQ(at, at)
	Label("next")
	body(at, sum)
	VMOVDQU(sum, Mem{Base: dst, Index: at, Scale: 4})
	ADDQ(Imm(8), at)
	CMPQ(at, n)
	JL(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// shiftedBytes generates the assembly function that converts 32-bit integers to bytes and returns their sum.
func shiftedBytes() {
	TEXT("shiftedBytes", NOSPLIT, "func(dst *byte, src *int32, shift int32, n int) (sum int32)")
	Doc("shiftedBytes sets n bytes, a multiple of 8, to the low bits of words plus shift. It returns the sum of these words.")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	shift, low, sum, at, x := YMM(), YMM(), YMM(), GP64(), YMM()
	of, _ := Param("shift").Resolve()
	VBROADCASTSS(of.Addr, shift)
	word(low, 0xff)
	VPXOR(sum, sum, sum)
	XORQ(at, at)
	Label("next")
	VPADDD(Mem{Base: src, Index: at, Scale: 4}, shift, x)
	VPADDD(x, sum, sum)
	VPAND(low, x, x)
	VPACKUSDW(x, x, x)
	VPERMQ(Imm(0x08), x, x) // both halves' words side by side
	VPACKUSWB(x.AsX(), x.AsX(), x.AsX())
	VMOVQ(x.AsX(), Mem{Base: dst, Index: at, Scale: 1})
	ADDQ(Imm(8), at)
	CMPQ(at, n)
	JL(LabelRef("next"))
	// Add the 8 lanes of sum.
	VEXTRACTI128(Imm(1), sum, x.AsX())
	VPADDD(x.AsX(), sum.AsX(), sum.AsX())
	VPHADDD(sum.AsX(), sum.AsX(), sum.AsX())
	VPHADDD(sum.AsX(), sum.AsX(), sum.AsX())
	total := GP32()
	VMOVD(sum.AsX(), total)
	Store(total, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// scaledRows generates the assembly function that converts rows of integers to floats and multiplies them by a factor.
func scaledRows() {
	TEXT("scaledRows", NOSPLIT, "func(dst *float32, to int, src *int32, from, n, rows int, factor float32)")
	Doc("scaledRows sets rows of n floats to integers times a factor. They are `from` elements apart in src, and `to` in dst.")
	dst, to := Load(Param("dst"), GP64()), Load(Param("to"), GP64())
	src, from := Load(Param("src"), GP64()), Load(Param("from"), GP64())
	n, rows := Load(Param("n"), GP64()), Load(Param("rows"), GP64())
	factor := YMM()
	of, _ := Param("factor").Resolve()
	VBROADCASTSS(of.Addr, factor)
	rest := GP64()
	MOVQ(n, rest)
	ANDQ(Imm(7), rest) // the elements after the last whole vector
	mask := avx2.maskOf(rest)
	at, left, y := GP64(), GP64(), YMM()
	Label("row")
	XORQ(at, at)
	MOVQ(n, left)
	SUBQ(rest, left)
	JZ(LabelRef("rest"))
	Label("next")
	VCVTDQ2PS(Mem{Base: src, Index: at, Scale: 4}, y)
	VMULPS(factor, y, y)
	VMOVUPS(y, Mem{Base: dst, Index: at, Scale: 4})
	ADDQ(Imm(8), at)
	CMPQ(at, left)
	JL(LabelRef("next"))
	Label("rest")
	TESTQ(rest, rest)
	JZ(LabelRef("end"))
	VMASKMOVPS(Mem{Base: src, Index: at, Scale: 4}, mask, y)
	VCVTDQ2PS(y, y)
	VMULPS(factor, y, y)
	VMASKMOVPS(y, mask, Mem{Base: dst, Index: at, Scale: 4})
	Label("end")
	LEAQ(Mem{Base: src, Index: from, Scale: 4}, src)
	LEAQ(Mem{Base: dst, Index: to, Scale: 4}, dst)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// ints generates the function that computes dot products of several rows of a with columns of b. A row of a is an array
// of groups. Group i of all columns is an array at offset offsets[i] of b. So b may be a packed matrix or, for a
// convolution, the image itself.
func (w width) ints(rows int, g group) {
	name := fmt.Sprintf("%s%d%s", g.name, rows, w.suffix)
	TEXT(name, NOSPLIT, "func(out *int32, ldo int, a *byte, lda int, b *byte, offsets *int, n int, sums *int32, panels int)")
	Doc(fmt.Sprintf("%s sets out to the dot products of %d rows of a with %d columns of b, plus the row's element of sums.",
		name, rows, w.lanes()*intColumns),
		"A row has n groups of "+g.elems+". Group i of the first column is offsets[i] bytes from b.",
		"Rows of a are lda bytes apart, and rows of out ldo elements. The next panels of columns are neighbours in b and out.")
	a, b := pointers(rows, "a", "lda", 1), Load(Param("b"), GP64())
	offsets, n, sumOf := Load(Param("offsets"), GP64()), Load(Param("n"), GP64()), Load(Param("sums"), GP64())
	Label("panel")
	sums := make([][intColumns]VecVirtual, rows)
	for i := range sums {
		for j := range sums[i] {
			sums[i][j] = w.vector()
			VPBROADCASTD(Mem{Base: sumOf, Disp: 4 * i}, sums[i][j])
		}
	}
	at, from := GP64(), GP64()
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	MOVQ(Mem{Base: offsets, Index: at, Scale: 8}, from)
	var of [intColumns]VecVirtual
	for j := range of {
		of[j] = w.vector()
		VMOVUPS(Mem{Base: b, Index: from, Scale: 1, Disp: w.size * j}, of[j])
	}
	x := w.vector()
	for i := range rows {
		VPBROADCASTD(Mem{Base: a[i], Index: at, Scale: 4}, x)
		for j := range of {
			g.multiplyAdd(x, of[j], sums[i][j])
		}
	}
	INCQ(at)
	JMP(LabelRef("next"))
	Label("stop")
	out, apart := Load(Param("out"), GP64()), Load(Param("ldo"), GP64())
	for i := range rows {
		for j := range of {
			VMOVUPS(sums[i][j], Mem{Base: out, Disp: w.size * j})
		}
		LEAQ(Mem{Base: out, Index: apart, Scale: 4}, out)
	}
	// The memory of two arguments counts where the next panel's results begin and how many panels are left: there are
	// not enough registers.
	first, left := NewParamAddr("out", 0), NewParamAddr("panels", 64)
	ADDQ(U32(w.size*intColumns), first)
	ADDQ(U32(w.size*intColumns), b)
	DECQ(left)
	JNZ(LabelRef("panel"))
	VZEROUPPER()
	RET()
}
