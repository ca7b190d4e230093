package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// exchange generates code that sets a to the lesser and b to the greater of two vectors of signed 64-bit integers,
// element by element. AVX-512 has instructions for that.
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

// sortLongs generates the assembly function that sorts integers by a bitonic network (Batcher 1968). Vectors have 32
// bytes.
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

// sortSquares generates code that sorts each run of four integers of a list, up to address end. It loads 16 integers as
// a square of four vectors, sorts the columns, and transposes the square.
func (w width) sortSquares(x, end Register) {
	at := GP64()
	MOVQ(x, at)
	Label("squares")
	var v, t [4]VecVirtual
	for i := range v {
		v[i], t[i] = YMM(), YMM()
		VMOVDQU(Mem{Base: at, Disp: 32 * i}, v[i])
	}
	// A sorting network for four elements.
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

// mergeReversed generates the first step of a merge of runs of size/2 bytes: it compares each element of a run with the
// element at the mirrored place of the next run, and exchanges them if they are not in order.
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

// mergeStrides generates the steps of a merge after mergeReversed. They compare elements a quarter of the size apart,
// an eighth, and so on, down to the size of a vector.
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

// columnSorts generates the functions that sort rows in the lanes of vectors, for elements of 4 and 8 bytes.
func (w width) columnSorts() {
	w.exchangeLanes("Words", "int32", func(low, high VecVirtual, to Mem) {
		VPMINSD(to, high, low)
		VPMAXSD(to, high, high)
	})
	w.exchangeLanes("Longs", "int64", func(low, high VecVirtual, to Mem) {
		if w.size == 64 {
			VPMINSQ(to, high, low)
			VPMAXSQ(to, high, high)
			return
		}
		VMOVDQU(to, low)
		w.exchange(low, high)
	})
}

// exchangeLanes generates the assembly function that compares and exchanges lines of 64 bytes. `of` generates code that
// sets low to the lesser elements of high and of memory, lane by lane, and high to the greater ones.
func (w width) exchangeLanes(suffix, typ string, of func(low, high VecVirtual, from Mem)) {
	name := "exchange" + suffix + w.suffix
	TEXT(name, NOSPLIT, fmt.Sprintf("func(x *%s, pairs *uint32, n int)", typ))
	Doc(fmt.Sprintf("%s sorts each of n pairs of lines of x, one after the other, lane by lane: the first line gets the",
		name), "lesser elements. A line has 64 bytes. pairs has the two lines' offsets, in bytes.")
	x, pair, n := Load(Param("x"), GP64()), Load(Param("pairs"), GP64()), Load(Param("n"), GP64())
	first, second := GP64(), GP64()
	LEAQ(Mem{Base: pair, Index: n, Scale: 8}, n)
	Label("next")
	CMPQ(pair, n)
	JGE(LabelRef("stop"))
	MOVL(Mem{Base: pair}, first.As32())
	MOVL(Mem{Base: pair, Disp: 4}, second.As32())
	for at := 0; at < 64; at += w.size {
		lower, upper := Mem{Base: x, Index: first, Scale: 1, Disp: at}, Mem{Base: x, Index: second, Scale: 1, Disp: at}
		low, high := w.vector(), w.vector()
		VMOVUPS(upper, high)
		of(low, high, lower)
		VMOVUPS(low, lower)
		VMOVUPS(high, upper)
	}
	ADDQ(Imm(8), pair)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// keyType is a type of floats with keys for columnSorts: integers of the same size.
type keyType struct {
	name                    string
	bits                    uint8
	above, same, add, blend func(ops ...Op) // above compares signed integers and same bits; the others are of floats
	unordered               func(x, isNaN VecVirtual)
	sign, others            func() VecVirtual // the sign's bit, and all other bits
}

var keyTypes = []keyType{
	{"float", 32, func(ops ...Op) { VPCMPGTD(ops[0], ops[1], ops[2]) }, func(ops ...Op) { VPCMPEQD(ops[0], ops[1], ops[2]) },
		func(ops ...Op) { VADDPS(ops...) }, func(ops ...Op) { VBLENDVPS(ops[0], ops[1], ops[2], ops[3]) },
		func(x, isNaN VecVirtual) { VCMPPS(Imm(unordered), x, x, isNaN) },
		func() VecVirtual { return word(YMM(), 1<<31) }, func() VecVirtual { return word(YMM(), 1<<31-1) }},
	{"double", 64, func(ops ...Op) { VPCMPGTQ(ops[0], ops[1], ops[2]) }, func(ops ...Op) { VPCMPEQQ(ops[0], ops[1], ops[2]) },
		func(ops ...Op) { VADDPD(ops...) }, func(ops ...Op) { VBLENDVPD(ops[0], ops[1], ops[2], ops[3]) },
		func(x, isNaN VecVirtual) { VCMPPD(Imm(unordered), x, x, isNaN) },
		func() VecVirtual { return avx2.double(math.Copysign(0, -1)) },
		func() VecVirtual { return avx2.double(math.Float64frombits(1<<63 - 1)) }},
}

// exchange generates code that replaces the bits of floats by keys, or keys by the bits of floats: it flips all bits
// of negative integers except the sign, which reverses their order.
func (k keyType) exchange(x VecVirtual) {
	negative := avx2.zero()
	k.above(x, negative, negative)
	VPAND(k.others(), negative, negative)
	VPXOR(negative, x, x)
}

// keyLoop generates the beginning and the loop of a function of keys. Its lists dst and src have elements of these
// types, without the number of bits, and result is its result in Go or "". begin generates code before the loop. body
// generates code that returns a vector of elements of dst for the elements at `from`.
func (k keyType) keyLoop(name, dst, src, result string, doc []string, begin func(),
	body func(from Mem, flip VecVirtual) VecVirtual) {
	TEXT(name, NOSPLIT, fmt.Sprintf("func(dst *%s%d, src *%s%d, flip int%d, n int)%s", dst, k.bits, src, k.bits, k.bits,
		result))
	Doc(doc...)
	begin()
	to, from, n, at := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64()), GP64()
	flip := YMM()
	value, _ := Param("flip").Resolve()
	if k.bits == 64 {
		VBROADCASTSD(value.Addr, flip)
	} else {
		VBROADCASTSS(value.Addr, flip)
	}
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	elements := func(list Register) Mem { return Mem{Base: list, Index: at, Scale: k.bits / 8} }
	VMOVDQU(body(elements(from), flip), elements(to))
	ADDQ(Imm(256/uint64(k.bits)), at)
	JMP(LabelRef("next"))
	Label("stop")
}

// sortKeys generates the functions that make keys of floats, and floats of keys.
func (k keyType) sortKeys() {
	special := YMM() // has bits where a float was NaN or -0
	name := k.name + "Keys"
	k.keyLoop(name, "int", "float", " (special int)", []string{
		name + " sets n elements, a multiple of 8, to the keys of floats, xored with flip. Keys are signed integers in the",
		"order of the floats. The zeros are equal, and NaN is greatest. special is 0 if there is neither NaN nor -0.",
	}, func() { VPXOR(special, special, special) }, func(from Mem, flip VecVirtual) VecVirtual {
		x, isNaN, lost := YMM(), YMM(), YMM()
		VMOVUPS(from, x)
		k.unordered(x, isNaN)
		k.same(k.sign(), x, lost)
		VPOR(isNaN, lost, lost)
		VPOR(lost, special, special)
		k.add(avx2.zero(), x, x) // -0 becomes 0
		k.exchange(x)
		k.blend(isNaN, k.others(), x, x)
		VPXOR(flip, x, x)
		return x
	})
	result := GP64()
	VPMOVMSKB(special, result.As32())
	Store(result, ReturnIndex(0))
	VZEROUPPER()
	RET()
	name = k.name + "sOfKeys"
	k.keyLoop(name, "float", "int", "", []string{
		name + " sets n elements, a multiple of 8, to the floats of keys, which are xored with flip.",
	}, func() {}, func(from Mem, flip VecVirtual) VecVirtual {
		x := YMM()
		VPXOR(from, flip, x)
		k.exchange(x)
		return x
	})
	VZEROUPPER()
	RET()
}

// numbered generates the functions that put the coordinates of elements below their keys.
func numbered() {
	TEXT("numberedWords", NOSPLIT, "func(dst, keys, coordinates *int32, shift uint64, mask int32, n int)")
	Doc("numberedWords sets dst to keys, shifted to the left, in the bits of mask, with coordinates in the others. n is a",
		"multiple of 8.")
	shift, mask := XMM(), YMM()
	by, _ := Param("shift").Resolve()
	VMOVQ(by.Addr, shift)
	bits, _ := Param("mask").Resolve()
	VBROADCASTSS(bits.Addr, mask)
	combine(func(dst, keys, coordinates, at Register) {
		x := YMM()
		VMOVDQU(Mem{Base: keys, Index: at, Scale: 4}, x)
		VPSLLD(shift, x, x)
		VPAND(mask, x, x)
		VPOR(Mem{Base: coordinates, Index: at, Scale: 4}, x, x)
		VMOVDQU(x, Mem{Base: dst, Index: at, Scale: 4})
	})
	TEXT("numberedLongs", NOSPLIT, "func(dst *int64, keys, coordinates *int32, n int)")
	Doc("numberedLongs sets n elements of dst, a multiple of 8, to keys in the high half and coordinates in the low half.")
	combine(func(dst, keys, coordinates, at Register) {
		for half := range 2 {
			x, y := YMM(), YMM()
			VPMOVZXDQ(Mem{Base: keys, Index: at, Scale: 4, Disp: 16 * half}, x)
			VPMOVZXDQ(Mem{Base: coordinates, Index: at, Scale: 4, Disp: 16 * half}, y)
			VPSLLQ(Imm(32), x, x)
			VPOR(x, y, y)
			VMOVDQU(y, Mem{Base: dst, Index: at, Scale: 8, Disp: 32 * half})
		}
	})
}

// combine generates the loop of functions of keys and coordinates. body generates code for 8 elements.
func combine(body func(dst, keys, coordinates, at Register)) {
	dst, keys, coordinates := Load(Param("dst"), GP64()), Load(Param("keys"), GP64()), Load(Param("coordinates"), GP64())
	n, at := Load(Param("n"), GP64()), GP64()
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	body(dst, keys, coordinates, at)
	ADDQ(Imm(8), at)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}
