package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// exchange generates code that sets a to the lesser and b to the greater of two vectors of signed 64-bit integers.
// AVX-512 has instructions for that.
func (w width) exchange(a, b VecVirtual) {
	less := YMM()
	if w.size == 64 {
		VPMINSQ(b, a, less)
		VPMAXSQ(b, a, b)
		VMOVDQA(less, a)
		return
	}
	above := YMM()
	VPCMPGTQ(b, a, above)
	VBLENDVPD(above, b, a, less)
	VBLENDVPD(above, a, b, b)
	VMOVDQA(less, a)
}

// sortLongs generates the function that sorts integers by a bitonic network (Batcher 1968). Vectors have 32 bytes.
func (w width) sortLongs() {
	name := "sortLongs" + w.suffix
	TEXT(name, NOSPLIT, "func(x *int64, n int)")
	Doc(fmt.Sprintf("%s sorts n integers. n is a power of 2, and at least 16.", name))
	x, end := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	LEAQ(Mem{Base: x, Index: end, Scale: 8}, end)
	w.sortSquares(x, end)
	// Runs of half a size are sorted. Merge them to runs of the size, in bytes.
	size := GP64()
	MOVQ(U32(64), size)
	Label("merge")
	at := GP64()
	MOVQ(end, at)
	SUBQ(x, at)
	CMPQ(size, at)
	JGT(LabelRef("stop"))
	w.mergeReversed(x, end, size)
	w.mergeStrides(x, end, size)
	MOVQ(x, at)
	Label("within")
	v := YMM()
	VMOVDQU(Mem{Base: at}, v)
	w.sortWithin(v, 0x4e, 0xf0)
	w.sortWithin(v, 0xb1, 0xcc)
	VMOVDQU(v, Mem{Base: at})
	ADDQ(Imm(32), at)
	CMPQ(at, end)
	JLT(LabelRef("within"))
	ADDQ(size, size)
	JMP(LabelRef("merge"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// sortSquares generates code that sorts each four integers. It sorts the columns of squares, and transposes them.
func (w width) sortSquares(x, end Register) {
	at := GP64()
	MOVQ(x, at)
	Label("squares")
	var v, t [4]VecVirtual
	for i := range v {
		v[i], t[i] = YMM(), YMM()
		VMOVDQU(Mem{Base: at, Disp: 32 * i}, v[i])
	}
	for _, p := range [][2]int{{0, 1}, {2, 3}, {0, 2}, {1, 3}, {1, 2}} {
		w.exchange(v[p[0]], v[p[1]])
	}
	for i := 0; i < 4; i += 2 {
		VPUNPCKLQDQ(v[i+1], v[i], t[i])
		VPUNPCKHQDQ(v[i+1], v[i], t[i+1])
	}
	for i := range 2 {
		VPERM2I128(Imm(0x20), t[i+2], t[i], v[i])
		VPERM2I128(Imm(0x31), t[i+2], t[i], v[i+2])
	}
	for i := range v {
		VMOVDQU(v[i], Mem{Base: at, Disp: 32 * i})
	}
	ADDQ(Imm(128), at)
	CMPQ(at, end)
	JLT(LabelRef("squares"))
}

// mergeReversed generates the first step of a merge: it compares the elements of a run with the next run's in
// reversed order.
func (w width) mergeReversed(x, end, size Register) {
	base, low, high := GP64(), GP64(), GP64()
	MOVQ(x, base)
	Label("reversed")
	MOVQ(base, low)
	ADDQ(size, base)
	MOVQ(base, high)
	Label("pair")
	SUBQ(Imm(32), high)
	a, b := YMM(), YMM()
	VMOVDQU(Mem{Base: low}, a)
	VPERMQ(Imm(0x1b), Mem{Base: high}, b)
	w.exchange(a, b)
	VPERMQ(Imm(0x1b), b, b)
	VMOVDQU(a, Mem{Base: low})
	VMOVDQU(b, Mem{Base: high})
	ADDQ(Imm(32), low)
	CMPQ(low, high)
	JLT(LabelRef("pair"))
	CMPQ(base, end)
	JLT(LabelRef("reversed"))
}

// mergeStrides generates the next steps of a merge: elements a quarter of the size apart, an eighth, and so on, down to
// the size of a vector.
func (w width) mergeStrides(x, end, size Register) {
	stride, base, at, past := GP64(), GP64(), GP64(), GP64()
	MOVQ(size, stride)
	SHRQ(Imm(2), stride)
	Label("stride")
	CMPQ(stride, Imm(32))
	JLT(LabelRef("strided"))
	MOVQ(x, base)
	Label("block")
	MOVQ(base, at)
	LEAQ(Mem{Base: base, Index: stride, Scale: 1}, past)
	Label("apart")
	a, b := YMM(), YMM()
	VMOVDQU(Mem{Base: at}, a)
	VMOVDQU(Mem{Base: at, Index: stride, Scale: 1}, b)
	w.exchange(a, b)
	VMOVDQU(a, Mem{Base: at})
	VMOVDQU(b, Mem{Base: at, Index: stride, Scale: 1})
	ADDQ(Imm(32), at)
	CMPQ(at, past)
	JLT(LabelRef("apart"))
	LEAQ(Mem{Base: base, Index: stride, Scale: 2}, base)
	CMPQ(base, end)
	JLT(LabelRef("block"))
	SHRQ(Imm(1), stride)
	JMP(LabelRef("stride"))
	Label("strided")
}

// sortWithin generates a step of a sorting network within a vector of four uint64. permutation (of VPERMQ) exchanges
// the elements to compare. greater is the mask of the 32-bit words that receive the greater element of each pair.
func (w width) sortWithin(v VecVirtual, permutation, greater uint64) {
	other := YMM()
	VPERMQ(Imm(permutation), v, other)
	w.exchange(v, other)
	VPBLENDD(Imm(greater), other, v, v)
}
