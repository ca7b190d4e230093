package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// convs generates the assembly functions of convolutions, for each number of vectors that they handle at once.
func convs() {
	for _, vectors := range []int{3, 2, 1} {
		convTile(vectors)
	}
	for _, vectors := range []int{4, 1} {
		convTaps(vectors, 1)
		convTaps(vectors, 2)
	}
	convColumn()
	copyRows()
	everySecond()
	tileInputs()
	tileResults()
	allBelow()
}

// tileInputs generates the assembly function that computes the inputs of the products of Winograd's algorithm
// F(2x2,3x3).
func tileInputs() {
	TEXT("tileInputs", NOSPLIT, "func(dst *float32, apart int, src *float32, pitch, n int)")
	Doc("tileInputs sets 16 lists of n elements, a multiple of 8, to the inputs of the products of neighbouring tiles. The",
		"lists are `apart` elements from each other. The tiles' four rows in src are pitch elements from each other.")
	dst, apart := Load(Param("dst"), GP64()), Load(Param("apart"), GP64())
	n := Load(Param("n"), GP64())
	rows := pointers(4, "src", "pitch", 4)
	SHLQ(Imm(2), apart)
	Label("next")
	to := GP64()
	MOVQ(dst, to)
	// The algorithm takes four sums of two rows of a tile: 0-2, 1+2, 2-1 and 1-3. Then it takes the same sums of the
	// columns of these. Tiles overlap: tile i has columns 2i to 2i+3.
	for _, sum := range []struct {
		a, b int // rows
		of   func(ops ...Op)
	}{{0, 2, VSUBPS}, {1, 2, VADDPS}, {2, 1, VSUBPS}, {1, 3, VSUBPS}} {
		x := make([]VecVirtual, 4) // elements 0, 8, 2 and 10 and those after each
		for i, at := range []int{0, 8, 2, 10} {
			x[i] = YMM()
			VMOVUPS(Mem{Base: rows[sum.a], Disp: 4 * at}, x[i])
			sum.of(Mem{Base: rows[sum.b], Disp: 4 * at}, x[i], x[i])
		}
		// Columns 2i, 2i+1, 2i+2 and 2i+3 of 8 tiles i are e0, o0, e1 and o1.
		e0, o0 := split(x[0], x[1])
		e1, o1 := split(x[2], x[3])
		y := YMM()
		put := func() {
			VMOVUPS(y, Mem{Base: to})
			ADDQ(apart, to)
		}
		VSUBPS(e1, e0, y)
		put()
		VADDPS(e1, o0, y)
		put()
		VSUBPS(o0, e1, y)
		put()
		VSUBPS(o1, o0, y)
		put()
	}
	for _, r := range rows {
		ADDQ(Imm(64), r)
	}
	ADDQ(Imm(32), dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// split generates code that returns the even and the odd ones of the 16 elements of a and then b.
func split(a, b VecVirtual) (even, odd VecVirtual) {
	even, odd = YMM(), YMM()
	VSHUFPS(Imm(0x88), b, a, even)
	VPERMPD(Imm(0xd8), even, even)
	VSHUFPS(Imm(0xdd), b, a, odd)
	VPERMPD(Imm(0xd8), odd, odd)
	return even, odd
}

// tileResults generates the assembly function that computes the results of Winograd's algorithm F(2x2,3x3) from its
// products.
func tileResults() {
	TEXT("tileResults", NOSPLIT, "func(dst *float32, pitch int, src *float32, apart, n int)")
	Doc("tileResults sets two rows, pitch elements from each other, to the results of n neighbouring tiles, a multiple of 8.",
		"The 16 lists of products in src are `apart` elements from each other.")
	dst, pitch := Load(Param("dst"), GP64()), Load(Param("pitch"), GP64())
	src, apart := Load(Param("src"), GP64()), Load(Param("apart"), GP64())
	n := Load(Param("n"), GP64())
	SHLQ(Imm(2), apart)
	Label("next")
	from := GP64()
	MOVQ(src, from)
	var sums [2][2]VecVirtual // by row and column of the results
	// Along rows and then along columns, four products m give two results: m[0]+m[1]+m[2] and m[1]-m[2]-m[3].
	for i := range 4 {
		var m [4]VecVirtual
		for j := range m {
			m[j] = YMM()
			VMOVUPS(Mem{Base: from}, m[j])
			ADDQ(apart, from)
		}
		VADDPS(m[1], m[0], m[0])
		VADDPS(m[2], m[0], m[0])
		VSUBPS(m[2], m[1], m[1])
		VSUBPS(m[3], m[1], m[1])
		for col, x := range m[:2] {
			switch i {
			case 0:
				sums[0][col] = x
			case 1:
				VADDPS(x, sums[0][col], sums[0][col])
				sums[1][col] = x
			case 2:
				VADDPS(x, sums[0][col], sums[0][col])
				VSUBPS(x, sums[1][col], sums[1][col])
			case 3:
				VSUBPS(x, sums[1][col], sums[1][col])
			}
		}
	}
	for row := range 2 {
		low, high, y := YMM(), YMM(), YMM() // interleave the two columns of the tiles
		VUNPCKLPS(sums[row][1], sums[row][0], low)
		VUNPCKHPS(sums[row][1], sums[row][0], high)
		VPERM2F128(Imm(0x20), high, low, y)
		to := Mem{Base: dst}
		if row == 1 {
			to = Mem{Base: dst, Index: pitch, Scale: 4}
		}
		VMOVUPS(y, to)
		VPERM2F128(Imm(0x31), high, low, y)
		VMOVUPS(y, to.Offset(32))
	}
	ADDQ(Imm(64), dst)
	ADDQ(Imm(32), src)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// allBelow generates the assembly function that reports whether the magnitudes of floats are below a number.
func allBelow() {
	TEXT("allBelow", NOSPLIT, "func(x *float32, most float32, n int) (all int)")
	Doc("allBelow returns 1 if the magnitudes of n elements, a multiple of 8, are below a number, and 0 if one is not or is NaN.")
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	most, y, all, magnitude := YMM(), YMM(), YMM(), YMM()
	of, _ := Param("most").Resolve()
	VBROADCASTSS(of.Addr, most)
	word(magnitude, 1<<31-1) // all bits but the sign
	VPCMPEQD(all, all, all)  // all ones: no element has failed yet
	at := GP64()
	XORQ(at, at)
	Label("next")
	VANDPS(Mem{Base: x, Index: at, Scale: 4}, magnitude, y)
	VCMPPS(Imm(less), most, y, y)
	VPAND(y, all, all)
	ADDQ(Imm(8), at)
	CMPQ(at, n)
	JL(LabelRef("next"))
	bits, result := GP32(), GP64()
	VMOVMSKPS(all, bits)
	XORQ(result, result)
	CMPL(bits, Imm(255)) // one bit for each of 8 lanes
	SETEQ(result.As8())
	Store(result, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// convTile generates the assembly function that computes a tile of a convolution: as many neighbouring positions as the
// given number of vectors has elements, for blocks of 4 channels.
func convTile(vectors int) {
	name := fmt.Sprintf("convTile%d", vectors)
	TEXT(name, NOSPLIT, "func(out *float32, stride int, in *float32, offsets *int32, n int, weights *float32, skip, "+
		"blocks, more int)")
	Doc(fmt.Sprintf("%s sets %d neighbouring elements of out to weighted sums, for each of 4 times blocks channels.", name,
		8*vectors),
		"Channels are stride elements apart. Term i of the n terms of a sum begins offsets[i] bytes after in. Its",
		"weights are 4 elements, one of each channel of a block. The weights of blocks are skip bytes apart.",
		"Unless more is 0, it adds the sums to out.")
	out, stride := Load(Param("out"), GP64()), Load(Param("stride"), GP64())
	in, offsets := Load(Param("in"), GP64()), Load(Param("offsets"), GP64())
	n, weights := Load(Param("n"), GP64()), Load(Param("weights"), GP64())
	blocks, more := Load(Param("blocks"), GP64()), Load(Param("more"), GP64())
	SHLQ(Imm(2), stride) // in bytes
	at, from := GP64(), GP64()
	Label("block")
	sums := avx2.zeros(4 * vectors)
	// The sums begin with the elements of out if there is more to add.
	TESTQ(more, more)
	JZ(LabelRef("begin"))
	MOVQ(out, from)
	for c := range 4 {
		for v := range vectors {
			VMOVUPS(Mem{Base: from, Disp: 32 * v}, sums[c*vectors+v])
		}
		ADDQ(stride, from)
	}
	Label("begin")
	w := GP64()
	MOVQ(weights, w)
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("store"))
	MOVLQSX(Mem{Base: offsets, Index: at, Scale: 4}, from)
	x := make([]VecVirtual, vectors)
	for v := range x {
		x[v] = YMM()
		VMOVUPS(Mem{Base: in, Index: from, Scale: 1, Disp: 32 * v}, x[v])
	}
	y := YMM()
	for c := range 4 {
		VBROADCASTSS(Mem{Base: w, Disp: 4 * c}, y)
		for v := range x {
			VFMADD231PS(x[v], y, sums[c*vectors+v])
		}
	}
	ADDQ(Imm(16), w)
	INCQ(at)
	JMP(LabelRef("next"))
	Label("store")
	for c := range 4 {
		for v := range vectors {
			VMOVUPS(sums[c*vectors+v], Mem{Base: out, Disp: 32 * v})
		}
		ADDQ(stride, out)
	}
	skip := Load(Param("skip"), GP64())
	ADDQ(skip, weights)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// convTaps generates the assembly function that computes neighbouring positions of a convolution of one channel. The
// input's elements for neighbouring positions are step elements apart: 1 or 2.
func convTaps(vectors, step int) {
	name := fmt.Sprintf("convTaps%d", vectors)
	doc := "Term i of the n terms of a sum begins offsets[i] bytes after in."
	if step == 2 {
		name = fmt.Sprintf("convPairs%d", vectors)
		doc = "Term i of the n terms of a sum begins offsets[i] bytes after in, and reads every second element."
	}
	TEXT(name, NOSPLIT, "func(out, in *float32, offsets *int32, n int, weights *float32, tiles int)")
	Doc(fmt.Sprintf("%s sets %d neighbouring elements of out, times tiles, to weighted sums.", name, 8*vectors), doc)
	out, in := Load(Param("out"), GP64()), Load(Param("in"), GP64())
	offsets, n := Load(Param("offsets"), GP64()), Load(Param("n"), GP64())
	weights, tiles := Load(Param("weights"), GP64()), Load(Param("tiles"), GP64())
	at, from := GP64(), GP64()
	Label("tile")
	sums := avx2.zeros(vectors)
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("store"))
	MOVLQSX(Mem{Base: offsets, Index: at, Scale: 4}, from)
	y := YMM()
	VBROADCASTSS(Mem{Base: weights, Index: at, Scale: 4}, y)
	for v := range vectors {
		x := Mem{Base: in, Index: from, Scale: 1, Disp: 32 * step * v}
		if step == 1 {
			VFMADD231PS(x, y, sums[v])
			continue
		}
		z := YMM()
		VMOVUPS(x, z)
		VSHUFPS(Imm(0x88), x.Offset(32), z, z)
		VFMADD231PS(z, y, sums[v])
	}
	INCQ(at)
	JMP(LabelRef("next"))
	Label("store")
	for v := range vectors {
		if step == 2 { // each half has two elements of the lower half of the result, and then two of the upper one
			VPERMPD(Imm(0xd8), sums[v], sums[v])
		}
		VMOVUPS(sums[v], Mem{Base: out, Disp: 32 * v})
	}
	ADDQ(Imm(uint64(32*vectors)), out)
	ADDQ(U32(32*vectors*step), in)
	DECQ(tiles)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// convColumn generates the function that computes one position of a convolution, for blocks of 4 channels. A vector
// register of 8 floats holds the products of two elements of x with 4 channels each; both halves are added at the end.
func convColumn() {
	TEXT("convColumn", NOSPLIT, "func(out, x *float32, n int, weights *float32, blocks int)")
	Doc("convColumn sets 4 times blocks elements of out to weighted sums of the n elements of x, a multiple of 8.",
		"An element's weights are 4 elements, one of each channel of a block. The weights of blocks follow each other.")
	out, x := Load(Param("out"), GP64()), Load(Param("x"), GP64())
	n, weights := Load(Param("n"), GP64()), Load(Param("weights"), GP64())
	blocks := Load(Param("blocks"), GP64())
	apart := YMM()
	VMOVDQU(twoEach(), apart)
	at := GP64()
	Label("block")
	sums := avx2.zeros(4)
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("store"))
	for i, s := range sums {
		y := YMM()
		VBROADCASTSD(Mem{Base: x, Index: at, Scale: 4, Disp: 8 * i}, y)
		VPERMILPS(apart, y, y)
		VFMADD231PS(Mem{Base: weights, Disp: 32 * i}, y, s)
	}
	ADDQ(U32(128), weights) // 8 elements of 4 floats
	ADDQ(Imm(8), at)
	JMP(LabelRef("next"))
	Label("store")
	// Add the four vectors of partial sums, and then the halves of the vector.
	VADDPS(sums[1], sums[0], sums[0])
	VADDPS(sums[3], sums[2], sums[2])
	VADDPS(sums[2], sums[0], sums[0])
	high := XMM()
	VEXTRACTF128(Imm(1), sums[0], high)
	VADDPS(high, sums[0].AsX(), sums[0].AsX())
	VMOVUPS(sums[0].AsX(), Mem{Base: out})
	ADDQ(Imm(16), out)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// twoEach returns a control of VPERMILPS that repeats element 0 in the lower half of a vector, and 1 in the upper one.
func twoEach() Mem {
	m := GLOBL("halves", RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(i/4))
	}
	return m
}

// copyRows generates the assembly function that copies the rows of a matrix. It copies 8 elements at a time, and then
// the rest by its bits.
func copyRows() {
	TEXT("copyRows", NOSPLIT, "func(dst *float32, to int, src *float32, from, n, rows int)")
	Doc("copyRows copies rows of n elements. They are `from` elements apart in src, and `to` elements in dst.")
	dst, to := Load(Param("dst"), GP64()), Load(Param("to"), GP64())
	src, from := Load(Param("src"), GP64()), Load(Param("from"), GP64())
	n, rows := Load(Param("n"), GP64()), Load(Param("rows"), GP64())
	at, left, y, word := GP64(), GP64(), YMM(), GP64()
	Label("row")
	XORQ(at, at)
	MOVQ(n, left)
	part := func(name string, elems int, move func(src, dst Mem)) {
		Label(name)
		CMPQ(left, Imm(uint64(elems)))
		JL(LabelRef("after" + name))
		move(Mem{Base: src, Index: at, Scale: 4}, Mem{Base: dst, Index: at, Scale: 4})
		ADDQ(Imm(uint64(elems)), at)
		SUBQ(Imm(uint64(elems)), left)
		if elems == 8 { // the others occur once at most
			JMP(LabelRef(name))
		}
		Label("after" + name)
	}
	part("eight", 8, func(src, dst Mem) { VMOVUPS(src, y); VMOVUPS(y, dst) })
	part("four", 4, func(src, dst Mem) { VMOVUPS(src, y.AsX()); VMOVUPS(y.AsX(), dst) })
	part("two", 2, func(src, dst Mem) { MOVQ(src, word); MOVQ(word, dst) })
	part("one", 1, func(src, dst Mem) { MOVL(src, word.As32()); MOVL(word.As32(), dst) })
	LEAQ(Mem{Base: src, Index: from, Scale: 4}, src)
	LEAQ(Mem{Base: dst, Index: to, Scale: 4}, dst)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// everySecond generates the assembly function that copies every second element of a list.
func everySecond() {
	TEXT("everySecond", NOSPLIT, "func(dst, src *float32, n int)")
	Doc("everySecond sets n elements of dst, a multiple of 8, to elements 0, 2, 4 and so on of src, which has 2n.")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	at, y, z := GP64(), YMM(), YMM()
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	VMOVUPS(Mem{Base: src, Index: at, Scale: 8}, y)
	VMOVUPS(Mem{Base: src, Index: at, Scale: 8, Disp: 32}, z)
	VSHUFPS(Imm(0x88), z, y, y) // elements 0 and 2 of each half of y, then of z
	VPERMPD(Imm(0xd8), y, y)    // in order: exchanges the middle quarters
	VMOVUPS(y, Mem{Base: dst, Index: at, Scale: 4})
	ADDQ(Imm(8), at)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}
